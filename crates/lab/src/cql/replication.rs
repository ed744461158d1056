//! What determines how many nodes of a cluster a request involves.

use std::collections::{BTreeMap, BTreeSet};

use super::CqlSettings;
use super::connection::{Connection, Text};
use crate::workload::TableShape;

/// Name of the setting with the number of nodes.
pub const NODES: &str = "nodes";
/// Name of the setting with the replication of the keyspaces in use.
pub const REPLICATION: &str = "replication";
/// Name of the setting with the consistency level of the engine.
pub const CONSISTENCY: &str = "consistency";
/// Name of the setting with the consistency levels that statements have themselves.
pub const STATEMENT_CONSISTENCY: &str = "consistency of statements";
/// Name of the setting that says how coordinators are chosen.
pub const TOKEN_AWARENESS: &str = "token awareness";

/// The client's choice of coordinators: it has no map of tokens.
const NOT_TOKEN_AWARE: &str = "none: connections are distributed over the contacts";

/// What the statements of all phases use.
#[derive(Debug, Default)]
pub(super) struct Used {
    /// Words of the statements, among which are the names of their keyspaces.
    words: BTreeSet<String>,
    /// Consistency levels that statements have themselves.
    levels: BTreeSet<String>,
}

impl Used {
    /// Adds the statements on a table.
    pub fn add(&mut self, settings: &CqlSettings, shape: &TableShape) {
        let Some(workload) = &shape.statements else {
            self.words.insert(settings.keyspace.clone());
            return;
        };
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        for text in workload.create.iter().chain(workload.steps.iter().map(|step| &step.cql)) {
            // Names without quotes are those in lower case.
            let words = text.split(|c| !is_name(c));
            self.words.extend(words.flat_map(|word| [word.to_owned(), word.to_lowercase()]));
        }
        let levels = workload.steps.iter().filter_map(|step| step.consistency);
        self.levels.extend(levels.map(|level| level.to_string()));
    }

    /// Reads the number of nodes, and the replication of the keyspaces in use. Omits what the
    /// server does not report.
    pub fn describe(&self, connection: &mut Connection) -> BTreeMap<String, String> {
        let mut described = BTreeMap::from([(TOKEN_AWARENESS.to_owned(), NOT_TOKEN_AWARE.to_owned())]);
        if let Ok(peers) = connection.query("SELECT peer FROM system.peers") {
            described.insert(NODES.to_owned(), (peers.len() + 1).to_string());
        }
        let query = "SELECT keyspace_name, toJson(replication) FROM system_schema.keyspaces";
        let rows = connection.query(query).unwrap_or_default();
        let mut replications: Vec<String> = rows.iter().filter_map(|row| self.replication(row)).collect();
        replications.sort();
        for (name, texts) in [
            (REPLICATION, replications.join("; ")),
            (STATEMENT_CONSISTENCY, self.levels.iter().cloned().collect::<Vec<_>>().join(", ")),
        ] {
            if !texts.is_empty() {
                described.insert(name.to_owned(), texts);
            }
        }
        described
    }

    /// Formats a row of a keyspace and its replication, if the keyspace is in use.
    fn replication(&self, row: &[Text]) -> Option<String> {
        let [Some(name), Some(replication)] = row else { return None };
        let is_used = !name.starts_with("system") && self.words.contains(name);
        is_used.then(|| format!("{name} {}", replication.replace("org.apache.cassandra.locator.", "")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cql::tests::settings;
    use crate::workload::statements::tests::users;

    #[test]
    fn keyspaces_and_levels_are_those_of_all_statements() {
        let settings = settings("127.0.0.1:1".into());
        let mut shape = TableShape { table: "usertable".into(), field_names: Vec::new(), statements: None };
        let mut used = Used::default();
        let row = |name: &str| {
            let replication = r#"{"class": "org.apache.cassandra.locator.SimpleStrategy"}"#;
            [Some(name.to_owned()), Some(replication.to_owned())]
        };
        used.add(&settings, &shape);
        assert_eq!(used.replication(&row("ycsb")).as_deref(), Some(r#"ycsb {"class": "SimpleStrategy"}"#));
        assert_eq!((used.replication(&row("lab")), used.levels.len()), (None, 0));
        shape.statements = Some(Arc::new(users()));
        used.add(&settings, &shape);
        assert!(["ycsb", "lab"].iter().all(|name| used.replication(&row(name)).is_some()));
        assert_eq!(used.levels, BTreeSet::from(["QUORUM".to_owned()]));
        assert_eq!(used.replication(&row("system_auth")), None);
    }
}
