use std::sync::Arc;

use cassette_vfs::FakeFileSystem;

use crate::api::database::{Database, Options};
use crate::api::embedded::Session;
use crate::basics::request::StatementOptions;

fn session() -> Session {
    let options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
    Database::open(options).unwrap().session()
}

fn describe(session: &Session, cql: &str) -> String {
    let rows = session.execute(cql, ()).unwrap();
    let texts: Vec<String> = rows.iter().map(|row| row.get("create_statement").unwrap()).collect();
    texts.join("\n\n")
}

/// Each file is the output of `DESCRIBE … WITH INTERNALS` of Cassandra 5.0.8 for the types and
/// tables of a schema, with ids and dropped columns. Executing it must produce the same
/// description.
#[test]
fn what_cassandra_describes_is_described_by_the_same_words() {
    let schemas = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/schemas")).unwrap();
    let mut tested = 0;
    for file in schemas {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let session = session();
        for statement in text.split(';').filter(|statement| !statement.trim().is_empty()) {
            session
                .execute(statement, ())
                .unwrap_or_else(|error| panic!("{}: {statement}: {error}", path.display()));
        }
        let described = describe(&session, "DESCRIBE KEYSPACE golden WITH INTERNALS");
        // The keyspace is first in both; its replication was written manually.
        let mut described: Vec<&str> = described.split("\n\n").skip(1).collect();
        let mut expected: Vec<&str> = text.trim_end().split("\n\n").skip(1).collect();
        described.sort();
        expected.sort();
        assert_eq!(described, expected, "{}", path.display());
        tested += 1;
    }
    assert!(tested > 0);
}

#[test]
fn lists_are_in_pages_that_a_schema_change_breaks() {
    let session = session();
    let first = StatementOptions { page_size: Some(2), ..StatementOptions::default() };
    let page = session.execute_with("DESCRIBE KEYSPACES", (), &first).unwrap();
    assert_eq!(page.len(), 2);
    let next = StatementOptions { paging_state: page.paging_state().cloned(), ..first };
    let names = |rows: &crate::api::embedded::Rows| -> Vec<String> {
        rows.iter().map(|row| row.get("name").unwrap()).collect()
    };
    let second = session.execute_with("DESCRIBE KEYSPACES", (), &next).unwrap();
    assert_ne!(names(&page), names(&second));
    session
        .execute(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            (),
        )
        .unwrap();
    let error = session.execute_with("DESCRIBE KEYSPACES", (), &next).unwrap_err().to_string();
    assert!(error.starts_with("The schema has changed since the previous page"), "{error}");
}

#[test]
fn a_name_that_is_not_there_is_named() {
    let session = session();
    let error = |cql| session.execute(cql, ()).unwrap_err().to_string();
    assert_eq!(error("DESCRIBE TABLE t"), "No keyspace specified and no current keyspace");
    assert_eq!(error("DESCRIBE TABLE ks.t"), "'ks' not found in keyspaces");
    assert_eq!(error("DESCRIBE TABLE system.t"), "Table 't' not found in keyspace 'system'");
    assert_eq!(error("DESCRIBE TYPE system.t"), "User defined type 't' not found in 'system'");
    assert_eq!(error("DESCRIBE system.t"), "'t' not found in keyspace 'system'");
}
