//! COMPACT STORAGE. `tests/conformance/compact_*.cql` compare the answers with Cassandra's; these
//! tests are about files, restarts, and what Cassandra does not answer.

use std::sync::Arc;

use cassette_vfs::FakeFileSystem;

use crate::api::database::{Database, Options};
use crate::api::embedded::Session;
use crate::basics::request::{Caller, StatementOptions};
use crate::execution::describe::schema_cql_of;

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn open_with(fs: &FakeFileSystem, drop_compact_storage_enabled: bool) -> Session {
    let mut options = Options {
        file_system: Arc::new(fs.clone()),
        drop_compact_storage_enabled,
        materialized_views_enabled: true,
        ..Options::new("/data")
    };
    options.engine.background_threads = false;
    options.engine.commitlog_segment_size = 1 << 20;
    Database::open(options).unwrap().session()
}

fn open(fs: &FakeFileSystem) -> Session {
    open_with(fs, true)
}

fn run(session: &Session, statements: &[&str]) {
    for statement in statements {
        session.execute(*statement, ()).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

fn rows(session: &Session, query: &str) -> Vec<Vec<Option<i32>>> {
    let rows = session.execute(query, ()).unwrap_or_else(|error| panic!("{query}: {error}"));
    let columns = rows.columns().len();
    let of_row = |row: crate::api::embedded::Row<'_>| {
        (0..columns).map(|column| row.get::<Option<i32>>(column).unwrap()).collect()
    };
    rows.iter().map(of_row).collect()
}

fn error(session: &Session, statement: &str) -> String {
    session.execute(statement, ()).unwrap_err().to_string()
}

const TABLES: [&str; 4] = [
    "CREATE TABLE ks.st (k int PRIMARY KEY, a int, b int) WITH COMPACT STORAGE",
    "CREATE TABLE ks.de (k int, c int, v int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE",
    "CREATE TABLE ks.dc (k int, c1 int, c2 int, v int, PRIMARY KEY (k, c1, c2)) WITH COMPACT STORAGE AND \
     CLUSTERING ORDER BY (c1 ASC, c2 DESC)",
    "CREATE TABLE ks.nv (k int, c int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE",
];

const DATA: [&str; 7] = [
    "INSERT INTO ks.st (k, a) VALUES (1, 1)",
    "UPDATE ks.st SET b = 2 WHERE k = 1",
    "INSERT INTO ks.de (k, c, v) VALUES (1, 1, 1)",
    "INSERT INTO ks.dc (k, c1, c2, v) VALUES (1, 1, 1, 11)",
    "INSERT INTO ks.dc (k, c1, v) VALUES (1, 1, 10)",
    "INSERT INTO ks.dc (k, c1, v) VALUES (1, 2, 20)",
    "INSERT INTO ks.nv (k, c) VALUES (1, 1)",
];

fn check_data(session: &Session) {
    let some = |row: &[i32]| row.iter().copied().map(Some).collect::<Vec<_>>();
    assert_eq!(rows(session, "SELECT * FROM ks.st"), [some(&[1, 1, 2])]);
    assert_eq!(rows(session, "SELECT * FROM ks.st WHERE k = 1"), [some(&[1, 1, 2])]);
    assert_eq!(rows(session, "SELECT * FROM ks.de WHERE k = 1 AND c = 1"), [some(&[1, 1, 1])]);
    assert_eq!(rows(session, "SELECT * FROM ks.nv WHERE k = 1"), [some(&[1, 1])]);
    let all = [
        vec![Some(1), Some(1), None, Some(10)],
        some(&[1, 1, 1, 11]),
        vec![Some(1), Some(2), None, Some(20)],
    ];
    assert_eq!(rows(session, "SELECT * FROM ks.dc WHERE k = 1"), all);
    assert_eq!(rows(session, "SELECT * FROM ks.dc WHERE k = 1 AND c1 = 1"), all[..2]);
    assert_eq!(rows(session, "SELECT * FROM ks.dc WHERE k = 1 AND c1 = 1 AND c2 <= 1"), all[1..2]);
    let reversed: Vec<_> = all.iter().rev().cloned().collect();
    assert_eq!(rows(session, "SELECT * FROM ks.dc WHERE k = 1 ORDER BY c1 DESC"), reversed);
}

#[test]
fn compact_tables_and_their_rows_survive_a_restart_and_a_flush() {
    let fs = FakeFileSystem::new();
    let session = open(&fs);
    run(&session, &[KEYSPACE]);
    run(&session, &TABLES);
    run(&session, &DATA);
    check_data(&session);
    let before = session.database().catalog();
    session.database().close().unwrap();
    drop(session);

    let session = open(&fs);
    let after = session.database().catalog();
    assert_eq!(after.version(), before.version());
    for name in ["st", "de", "dc", "nv"] {
        let (before, after) = (before.table("ks", name).unwrap(), after.table("ks", name).unwrap());
        assert_eq!((before.layout, before.is_counter), (after.layout, after.is_counter));
    }
    check_data(&session);
    session.database().engine().flush(None).unwrap();
    check_data(&session);
    run(&session, &["DELETE FROM ks.dc WHERE k = 1 AND c1 = 1", "DELETE FROM ks.nv WHERE k = 1 AND c = 1"]);
    session.database().engine().flush(None).unwrap();
    assert_eq!(rows(&session, "SELECT v FROM ks.dc"), [[Some(20)]]);
    assert!(rows(&session, "SELECT * FROM ks.nv").is_empty());
}

#[test]
fn pages_continue_after_rows_with_null_clustering_values() {
    let session = open(&FakeFileSystem::new());
    run(&session, &[KEYSPACE]);
    run(&session, &TABLES);
    run(&session, &DATA);
    let options = StatementOptions { page_size: Some(1), ..StatementOptions::default() };
    for (query, expected) in [
        ("SELECT v FROM ks.dc WHERE k = 1", [10, 11, 20]),
        ("SELECT v FROM ks.dc WHERE k = 1 ORDER BY c1 DESC", [20, 11, 10]),
    ] {
        let pages = session.query_iter_with(query, (), &options).unwrap();
        let found: Vec<i32> = pages.map(|row| row.unwrap().get::<i32>(0).unwrap()).collect();
        assert_eq!(found, expected, "{query}");
    }
}

#[test]
fn rows_of_a_static_compact_table_are_found_by_an_index() {
    // Cassandra 5.0.8 fails such a query until COMPACT STORAGE is dropped.
    let session = open(&FakeFileSystem::new());
    run(&session, &[KEYSPACE, TABLES[0], "CREATE INDEX ON ks.st (a)"]);
    for k in 1..=4 {
        run(&session, &[&format!("INSERT INTO ks.st (k, a, b) VALUES ({k}, {}, {k})", k % 2)]);
    }
    let found = |query: &str| {
        let mut found = rows(&session, query);
        found.sort();
        found
    };
    let some = |row: [i32; 3]| row.map(Some).to_vec();
    assert_eq!(found("SELECT * FROM ks.st WHERE a = 1"), [some([1, 1, 1]), some([3, 1, 3])]);
    assert_eq!(found("SELECT * FROM ks.st WHERE a = 1 AND k = 3"), [some([3, 1, 3])]);
    run(&session, &["UPDATE ks.st SET a = 5 WHERE k = 1", "DELETE FROM ks.st WHERE k = 3"]);
    assert!(found("SELECT * FROM ks.st WHERE a = 1").is_empty());
    assert_eq!(found("SELECT * FROM ks.st WHERE a = 5"), [some([1, 5, 1])]);
    run(&session, &["ALTER TABLE ks.st DROP COMPACT STORAGE"]);
    assert_eq!(found("SELECT k, a, b FROM ks.st WHERE a = 5"), [some([1, 5, 1])]);
}

#[test]
fn an_insert_of_json_makes_a_row_exist_without_a_value_column() {
    // Cassandra 5.0.8 writes a tombstone instead, and the row is lost.
    let session = open(&FakeFileSystem::new());
    run(&session, &[KEYSPACE, TABLES[3]]);
    run(&session, &["INSERT INTO ks.nv JSON '{\"k\": 1, \"c\": 1}'"]);
    run(&session, &["INSERT INTO ks.nv JSON '{\"k\": 1, \"c\": 2}' DEFAULT UNSET"]);
    assert_eq!(rows(&session, "SELECT c FROM ks.nv"), [[Some(1)], [Some(2)]]);
}

#[test]
fn a_counter_with_a_null_clustering_value_is_counted() {
    // Cassandra 5.0.8 times out.
    let session = open(&FakeFileSystem::new());
    let table = "CREATE TABLE ks.n (k int, c1 int, c2 int, n counter, PRIMARY KEY (k, c1, c2)) WITH COMPACT \
                 STORAGE";
    run(&session, &[KEYSPACE, table]);
    run(&session, &["UPDATE ks.n SET n = n + 2 WHERE k = 1 AND c1 = 1"; 2]);
    session.database().engine().flush(None).unwrap();
    run(&session, &["UPDATE ks.n SET n = n + 1 WHERE k = 1 AND c1 = 1"]);
    let counts = session.query_one::<(i64,)>("SELECT n FROM ks.n", ()).unwrap();
    assert_eq!(counts, (5,));
}

#[test]
fn a_value_column_cannot_be_dropped_and_its_table_stays_usable() {
    // Cassandra 5.0.8 answers with a server error.
    let session = open(&FakeFileSystem::new());
    run(&session, &[KEYSPACE]);
    run(&session, &TABLES);
    run(&session, &DATA);
    for (table, column) in [("de", "v"), ("nv", "value"), ("st", "value")] {
        let error = error(&session, &format!("ALTER TABLE ks.{table} DROP {column}"));
        let expected =
            format!("Cannot drop column {column} of table ks.{table}: its COMPACT STORAGE needs it");
        assert_eq!(error, expected);
    }
    check_data(&session);
}

#[test]
fn compact_storage_is_dropped_only_if_the_setting_allows_it() {
    let fs = FakeFileSystem::new();
    let session = open_with(&fs, false);
    run(&session, &[KEYSPACE]);
    run(&session, &TABLES);
    run(&session, &DATA);
    let statement = "ALTER TABLE ks.st DROP COMPACT STORAGE";
    let expected = "DROP COMPACT STORAGE is disabled. Set `drop_compact_storage_enabled: true` in the \
        configuration file (--config) to use it.";
    assert_eq!(error(&session, statement), expected);
    session.database().close().unwrap();
    drop(session);

    let session = open(&fs);
    run(&session, &[statement]);
    let visible = session.execute("SELECT * FROM ks.st", ()).unwrap();
    let names: Vec<_> = visible.columns().iter().map(|column| column.name.to_string()).collect();
    assert_eq!(names, ["k", "column1", "a", "b", "value"]);
    session.database().close().unwrap();
    drop(session);
    let session = open(&fs);
    assert!(!session.database().catalog().table("ks", "st").unwrap().layout.is_compact());
    assert_eq!(rows(&session, "SELECT k, a, b FROM ks.st"), [[Some(1), Some(1), Some(2)]]);
}

#[test]
fn the_guardrail_refuses_new_tables_with_compact_storage() {
    let mut options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
    options.engine.background_threads = false;
    options.guardrails.insert("compact_tables_enabled".to_owned(), "false".to_owned());
    let session = Database::open(options).unwrap().session();
    run(&session, &[KEYSPACE, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)"]);
    let guarded = StatementOptions { caller: Caller::Anonymous, ..StatementOptions::default() };
    for table in TABLES {
        let error = session.execute_with(table, (), &guarded).unwrap_err().to_string();
        let expected =
            "Guardrail compact_tables violated: Creation of new COMPACT STORAGE tables is not allowed";
        assert_eq!(error, expected);
    }
}

#[test]
fn the_schema_of_a_snapshot_creates_compact_tables_again() {
    let session = open(&FakeFileSystem::new());
    run(&session, &[KEYSPACE]);
    run(&session, &TABLES);
    run(&session, &["ALTER TABLE ks.st DROP b", "ALTER TABLE ks.nv DROP COMPACT STORAGE"]);
    let catalog = session.database().catalog();
    let restored = open(&FakeFileSystem::new());
    run(&restored, &[KEYSPACE]);
    for name in ["st", "de", "dc", "nv"] {
        let table = catalog.table("ks", name).unwrap();
        for statement in schema_cql_of(&catalog, table).split(";\n").filter(|text| !text.trim().is_empty()) {
            run(&restored, &[statement]);
        }
        let again = restored.database().catalog();
        let again = again.table("ks", name).unwrap();
        assert_eq!((again.id, again.layout), (table.id, table.layout), "{name}");
        assert_eq!(again.dropped_columns, table.dropped_columns, "{name}");
        for column in table.all_columns() {
            let found = again.column(&column.name).unwrap();
            let parts = |column: &cassette_rows::ColumnMetadata| {
                (column.kind, column.position, column.data_type.clone(), column.reversed)
            };
            assert_eq!(parts(found), parts(column), "{name}.{}", column.name);
        }
    }
}
