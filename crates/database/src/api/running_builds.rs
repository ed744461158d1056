//! The running builds of indexes and views.

use std::sync::Arc;

use cassette_rows::TableMetadata;
use uuid::Uuid;

use crate::api::database::Database;

/// An index or a view that is being built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningBuild {
    /// The id of the table with its entries.
    pub id: Uuid,
    /// The name in Cassandra's nodetool: `Secondary index build`, `View build`.
    pub kind: &'static str,
    /// The keyspace.
    pub keyspace: String,
    /// The base table.
    pub table: String,
    /// The name.
    pub name: String,
    /// Partitions of the table that were read.
    pub completed: u64,
    /// The approximate number of partitions of the table, at least `completed`.
    pub total: u64,
}

impl Database {
    /// Returns the running builds of indexes and views.
    #[doc(hidden)]
    pub fn running_builds(&self) -> Vec<RunningBuild> {
        let catalog = self.catalog();
        let states = self.store().build_states();
        let mut found = Vec::new();
        let tables = catalog.keyspaces().flat_map(|keyspace| keyspace.tables.values());
        for table in tables {
            for index in catalog.indexes_of(table.id) {
                let state = states.index(index);
                if !state.is_building() {
                    continue;
                }
                let (completed, _) = state.progress();
                found.push(self.running(
                    "Secondary index build",
                    table,
                    (index.storage.id.0, &index.name),
                    completed,
                ));
            }
            for view in catalog.views_of(table.id) {
                let state = states.view(view);
                if state.is_building() {
                    let completed = state.done().map_or(0, |(_, count)| u64::try_from(count).unwrap_or(0));
                    let name = (view.table.id.0, view.table.name.as_str());
                    found.push(self.running("View build", table, name, completed));
                }
            }
        }
        found
    }

    fn running(
        &self,
        kind: &'static str,
        table: &Arc<TableMetadata>,
        (id, name): (Uuid, &str),
        completed: u64,
    ) -> RunningBuild {
        let stats = self.engine().table_stats(table.id);
        let total =
            stats.map_or(0, |stats| stats.estimated_partitions + stats.memtable_partitions).max(completed);
        let (keyspace, table, name) = (table.keyspace.clone(), table.name.clone(), name.to_owned());
        RunningBuild { id, kind, keyspace, table, name, completed, total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_is_being_built_says_how_far_that_is() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path()).unwrap();
        let session = database.session();
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
            "INSERT INTO ks.t (k, v) VALUES (1, 1)",
            "INSERT INTO ks.t (k, v) VALUES (2, 1)",
            "CREATE INDEX i ON ks.t (v)",
        ] {
            session.execute(cql, ()).unwrap();
        }
        assert_eq!(database.running_builds(), []);
        let catalog = database.catalog();
        let index = &catalog.keyspace("ks").unwrap().indexes["i"];
        let state = database.store().build_states().index(index);
        state.start_over();
        let _running = state.begin().unwrap();
        let [build] = &database.running_builds()[..] else { panic!("one build") };
        assert_eq!((build.kind, &*build.table, &*build.name), ("Secondary index build", "t", "i"));
        assert_eq!((build.completed, build.total), (2, 2));
    }
}
