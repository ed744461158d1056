//! Faults of requests, for servers that tests inject faults into.

use cassette_cql::ast::BatchKind;

use crate::api::database::Database;
use crate::basics::error::WriteType;
use crate::basics::request::{Consistency, StatementOptions};
use crate::store::faults::{FaultedRequest, Faults, Injected, StatementClass};

/// The statements of a request.
#[derive(Debug, Clone, Copy)]
pub enum RequestStatements<'a> {
    /// One as text.
    Query(&'a str),
    /// A prepared one, by its id.
    Execute(&'a [u8]),
    /// A text that is prepared.
    Prepare(&'a str),
    /// A batch of texts and prepared statements.
    Batch(BatchKind, &'a [BatchPart<'a>]),
}

/// A statement of a batch.
#[derive(Debug, Clone, Copy)]
pub enum BatchPart<'a> {
    /// A text.
    Query(&'a str),
    /// A prepared statement, by its id.
    Prepared(&'a [u8]),
}

impl Database {
    /// Returns the rules of injected faults, if tests can inject any.
    #[inline]
    pub fn faults(&self) -> Option<&Faults> {
        self.store().faults()
    }

    /// Returns what a request meets by the rules of injected faults, and counts it.
    pub fn injected_fault(
        &self,
        statements: RequestStatements<'_>,
        keyspace: Option<&str>,
        options: &StatementOptions,
    ) -> Option<Injected> {
        let faults = self.faults().filter(|faults| faults.is_active())?;
        let keyspace = options.keyspace.as_deref().or(keyspace);
        let catalog = self.catalog();
        let mut request = FaultedRequest {
            class: StatementClass::Other,
            is_conditional: false,
            is_counter: false,
            texts: Vec::new(),
            tables: Vec::new(),
            write_type: WriteType::Simple,
            consistency: options.consistency,
            serial_consistency: options.serial_consistency.unwrap_or(Consistency::Serial),
            page_size: options.page_size,
            client: options.client_address,
            node: self.address_of(options.node),
        };
        // If a statement is not prepared, the client learns that it has to be prepared again.
        match statements {
            RequestStatements::Query(text) => request.add(text, keyspace, &catalog),
            RequestStatements::Prepare(text) => {
                request.class = StatementClass::Prepare;
                request.add(text, keyspace, &catalog);
            }
            RequestStatements::Execute(id) => {
                let prepared = self.prepared(id).ok()?;
                request.add(prepared.cql(), prepared.keyspace().or(keyspace), &catalog);
            }
            RequestStatements::Batch(kind, parts) => {
                request.class = StatementClass::Batch;
                request.write_type = WriteType::of_batch(kind, false, kind == BatchKind::Counter);
                for part in parts {
                    match part {
                        BatchPart::Query(text) => request.add(text, keyspace, &catalog),
                        BatchPart::Prepared(id) => {
                            let prepared = self.prepared(id).ok()?;
                            request.add(prepared.cql(), prepared.keyspace().or(keyspace), &catalog);
                        }
                    }
                }
            }
        }
        faults.injected(&request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DatabaseError, Options};

    fn database(fault_injection: bool) -> Database {
        Database::open(Options { fault_injection, ..Options::in_memory() }).unwrap()
    }

    #[test]
    fn rules_are_rows_that_can_be_added_changed_and_removed() {
        let database = database(true);
        let session = database.session();
        let execute = |cql: &str| session.execute(cql, ());
        let column = |name: &str| -> Vec<Option<String>> {
            let rows = execute(&format!("SELECT CAST({name} AS text) FROM system_testing.cassette_faults"));
            rows.unwrap().iter().map(|row| row.get(0).unwrap()).collect()
        };
        execute(
            "INSERT INTO system_testing.cassette_faults (id, effect, times) VALUES ('a', 'overloaded', 2)",
        )
        .unwrap();
        execute("UPDATE system_testing.cassette_faults SET times = 3, kind = 'read' WHERE id = 'a'").unwrap();
        assert_eq!(column("times"), [Some("3".to_owned())]);
        execute("DELETE kind FROM system_testing.cassette_faults WHERE id = 'a'").unwrap();
        assert_eq!(column("kind"), [None]);
        let request = |text: &'static str| {
            let options = StatementOptions::default();
            database.injected_fault(RequestStatements::Query(text), None, &options)
        };
        assert!(request("SELECT * FROM ks.t").is_some());
        assert!(request("SELECT * FROM system.local").is_none());
        assert_eq!(column("matched"), [Some("1".to_owned())]);
        execute("DELETE FROM system_testing.cassette_faults WHERE id = 'a'").unwrap();
        assert!(column("id").is_empty());
        execute("INSERT INTO system_testing.cassette_faults (id, effect) VALUES ('b', 'overloaded')")
            .unwrap();
        execute("TRUNCATE system_testing.cassette_faults").unwrap();
        assert!(column("id").is_empty());
        assert!(request("SELECT * FROM ks.t").is_none());
        for (cql, expected) in [
            (
                "INSERT INTO system_testing.cassette_faults (id, effect) VALUES ('a', 'x')",
                "effect: expected one of",
            ),
            (
                "UPDATE system_testing.cassette_faults SET matched = 1 WHERE id = 'a'",
                "matched cannot be changed",
            ),
            (
                "CREATE TABLE system_testing.t (k int PRIMARY KEY)",
                "system_testing keyspace is not user-modifiable.",
            ),
        ] {
            let error = execute(cql).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{cql}: {error}");
        }
    }

    #[test]
    fn a_database_that_is_not_for_tests_has_no_rules_and_says_what_to_do() {
        let database = database(false);
        assert!(database.faults().is_none());
        let session = database.session();
        for cql in [
            "INSERT INTO system_testing.cassette_faults (id, effect) VALUES ('a', 'overloaded')",
            "SELECT * FROM system_testing.cassette_faults",
            "TRUNCATE system_testing.cassette_faults",
            "USE system_testing",
        ] {
            let error = session.execute(cql, ()).unwrap_err().to_string();
            assert!(error.contains("start the server with --fault-injection"), "{cql}: {error}");
        }
        let options = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        let created = session.execute(&format!("CREATE KEYSPACE system_testing {options}"), ());
        assert!(matches!(created, Err(DatabaseError::Invalid(_))), "the name is reserved");
    }
}
