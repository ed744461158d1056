//! The virtual nodes of a server for tests.

use std::net::IpAddr;

use crate::api::database::Database;
use crate::store::virtual_nodes::VirtualNodes;

impl Database {
    /// Returns the virtual nodes, of a server for tests that has any.
    #[inline]
    pub fn virtual_nodes(&self) -> Option<&VirtualNodes> {
        self.store().virtual_nodes()
    }

    /// Returns the address of a virtual node, or of the only node.
    pub fn address_of(&self, node: u16) -> IpAddr {
        let virtual_node = self.virtual_nodes().and_then(|nodes| nodes.node(node.into()));
        virtual_node.map_or(self.node().address, |node| node.place.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::embedded::Rows;
    use crate::basics::request::{Consistency, StatementOptions, Values};
    use crate::schema::topology::NodePlace;
    use crate::store::virtual_nodes::{NodeCounts, NodeState};
    use crate::{DatabaseError, Options, TracedRequest};

    /// Three nodes in `dc1` and one in `dc2`.
    fn database() -> Database {
        let place = |(index, data_center): (usize, &str)| NodePlace {
            address: [127, 0, 0, 1 + index as u8].into(),
            data_center: data_center.to_owned(),
            rack: "rack1".to_owned(),
        };
        let places = ["dc1", "dc1", "dc1", "dc2"].into_iter().enumerate().map(place).collect();
        let database = Database::open(Options { virtual_nodes: places, ..Options::in_memory() }).unwrap();
        let replication = "{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 1}";
        for cql in [
            &format!("CREATE KEYSPACE ks WITH replication = {replication}"),
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        ] {
            database.session().execute(cql, ()).unwrap();
        }
        database
    }

    fn execute(database: &Database, node: u16, level: Consistency, cql: &str) -> Result<Rows, DatabaseError> {
        let options = StatementOptions { node, consistency: level, ..StatementOptions::default() };
        let mut rows = Rows::default();
        database.query(None, cql, Values::NONE, &options, &mut rows).map(|_| rows)
    }

    fn texts(database: &Database, node: u16, column: &str, table: &str) -> Vec<String> {
        let cql = format!("SELECT CAST({column} AS text) FROM {table}");
        let rows = execute(database, node, Consistency::One, &cql).unwrap();
        let mut texts: Vec<String> = rows.iter().map(|row| row.get(0).unwrap()).collect();
        texts.sort();
        texts
    }

    #[test]
    fn each_node_describes_itself_and_the_others() {
        let database = database();
        for node in 0..4_u16 {
            let mut others: Vec<String> = (1..=4).map(|last| format!("127.0.0.{last}")).collect();
            let own = others.remove(node.into());
            assert_eq!(texts(&database, node, "rpc_address", "system.local"), [own]);
            assert_eq!(texts(&database, node, "rpc_address", "system.peers"), others);
            assert_eq!(texts(&database, node, "native_address", "system.peers_v2"), others);
        }
        assert_eq!(texts(&database, 3, "data_center", "system.local"), ["dc2"]);
        let mut ids = texts(&database, 0, "host_id", "system.peers");
        ids.extend(texts(&database, 0, "host_id", "system.local"));
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 4);
        let versions = texts(&database, 0, "schema_version", "system.peers");
        assert_eq!(versions[0], texts(&database, 2, "schema_version", "system.local")[0]);
    }

    #[test]
    fn a_node_without_others_has_one_token_and_a_virtual_one_sixteen() {
        let tokens = |database: &Database| {
            let cql = "SELECT collection_count(tokens) FROM system.local";
            execute(database, 0, Consistency::One, cql).unwrap().one::<(i32,)>().unwrap().0
        };
        assert_eq!((tokens(&Database::in_memory().unwrap()), tokens(&database())), (1, 16));
    }

    #[test]
    fn a_trace_names_the_node_that_coordinated_the_request() {
        let database = database();
        let id = database.new_trace();
        let describe = || TracedRequest { node: 2, ..TracedRequest::default() };
        database.traced(id, describe, || {
            execute(&database, 2, Consistency::One, "SELECT * FROM ks.t WHERE k = 1").unwrap();
        });
        let (sessions, events) = ("system_traces.sessions", "system_traces.events");
        assert_eq!(texts(&database, 0, "coordinator", sessions), ["127.0.0.3"]);
        let sources = texts(&database, 0, "source", events);
        assert!(!sources.is_empty() && sources.iter().all(|source| source == "127.0.0.3"), "{sources:?}");
    }

    #[test]
    fn levels_need_as_many_replicas_as_are_up() {
        let database = database();
        let set = |last: u8, state| {
            database.virtual_nodes().unwrap().set_state([127, 0, 0, last].into(), state).unwrap();
        };
        let unavailable = |node: u16, level, cql: &str| match execute(&database, node, level, cql) {
            Ok(_) => None,
            Err(DatabaseError::Unavailable { required, alive, .. }) => Some((required, alive)),
            Err(other) => panic!("{other}"),
        };
        const READ: &str = "SELECT * FROM ks.t WHERE k = 1";
        const SCAN: &str = "SELECT * FROM ks.t";
        const WRITE: &str = "INSERT INTO ks.t (k, v) VALUES (1, 1)";
        const BATCH: &str = "BEGIN BATCH INSERT INTO ks.t (k, v) VALUES (1, 1) APPLY BATCH";
        const CONDITIONAL: &str = "UPDATE ks.t SET v = 2 WHERE k = 1 IF v = 1";
        for cql in [READ, SCAN, WRITE, BATCH] {
            assert_eq!(unavailable(0, Consistency::All, cql), None, "{cql}");
        }
        set(2, NodeState::Down);
        for cql in [READ, SCAN, WRITE, BATCH] {
            assert_eq!(unavailable(0, Consistency::All, cql), Some((4, 3)), "{cql}");
            assert_eq!(unavailable(0, Consistency::LocalQuorum, cql), None, "{cql}");
        }
        set(3, NodeState::Down);
        for cql in [READ, SCAN, WRITE, BATCH] {
            assert_eq!(unavailable(0, Consistency::LocalQuorum, cql), Some((2, 1)), "{cql}");
            assert_eq!(unavailable(3, Consistency::LocalQuorum, cql), None, "{cql}: from dc2");
            assert_eq!(unavailable(0, Consistency::Quorum, cql), Some((3, 2)), "{cql}");
            assert_eq!(unavailable(0, Consistency::LocalOne, cql), None, "{cql}");
        }
        assert_eq!(unavailable(0, Consistency::One, CONDITIONAL), Some((3, 2)));
        assert_eq!(unavailable(0, Consistency::One, "SELECT * FROM system_schema.tables"), None);
        set(2, NodeState::Up);
        assert_eq!(unavailable(0, Consistency::One, CONDITIONAL), None);
    }

    #[test]
    fn requests_are_counted_for_their_coordinator() {
        let database = database();
        let counts = |node| database.virtual_nodes().unwrap().counts(node);
        for _ in 0..3 {
            execute(&database, 1, Consistency::One, "SELECT * FROM ks.t WHERE k = 1").unwrap();
        }
        execute(&database, 2, Consistency::One, "SELECT * FROM system.local").unwrap();
        assert_eq!(counts(1), NodeCounts { requests: 3, as_replica: 3 });
        assert_eq!(counts(2), NodeCounts::default());
    }

    #[test]
    fn the_state_of_a_node_is_a_column_that_can_be_updated() {
        let database = database();
        let session = database.session();
        let update = |state: &str| {
            let to = format!("SET state = '{state}' WHERE address = '127.0.0.2'");
            session.execute(&format!("UPDATE system_testing.cassette_nodes {to}"), ())
        };
        update("removed").unwrap();
        assert_eq!(texts(&database, 0, "rpc_address", "system.peers"), ["127.0.0.3", "127.0.0.4"]);
        let error = update("asleep").unwrap_err().to_string();
        assert_eq!(error, "state: expected up, down or removed, found asleep");
        update("up").unwrap();
        assert_eq!(texts(&database, 0, "rpc_address", "system.peers").len(), 3);
        for cql in [
            "TRUNCATE system_testing.cassette_nodes",
            "DELETE FROM system_testing.cassette_nodes WHERE address = '127.0.0.2'",
            "UPDATE system_testing.cassette_nodes SET rack = 'r' WHERE address = '127.0.0.2'",
        ] {
            assert!(matches!(session.execute(cql, ()), Err(DatabaseError::Invalid(_))), "{cql}");
        }
    }

    #[test]
    fn keyspaces_have_the_data_centers_of_the_nodes() {
        let database = database();
        let session = database.session();
        let create = |name: &str, options: &str| {
            let class = "'class': 'NetworkTopologyStrategy'";
            session.execute(&format!("CREATE KEYSPACE {name} WITH replication = {{{class}, {options}}}"), ())
        };
        assert!(create("a", "'replication_factor': 1").unwrap().warnings().is_empty());
        let described = session.execute("DESCRIBE KEYSPACE a", ()).unwrap();
        let text: String = described.iter().next().unwrap().get("create_statement").unwrap();
        assert!(text.contains("'dc1': '1', 'dc2': '1'"), "{text}");
        let warnings = create("b", "'dc2': 2").unwrap().warnings().to_vec();
        assert!(warnings[0].contains("higher than the number of nodes 1 for datacenter dc2"), "{warnings:?}");
        assert!(create("c", "'dc3': 1").is_err());
    }
}
