//! Tables and types with the maximum number of columns and fields, and more.

use std::sync::Arc;

use cassette_rows::TableMetadata;
use cassette_rows::types::UserType;
use cassette_vfs::FakeFileSystem;

use crate::api::database::{Database, Options};
use crate::api::embedded::Session;

fn open() -> Session {
    let fs = FakeFileSystem::new();
    let mut options = Options { file_system: Arc::new(fs), ..Options::new("/data") };
    options.engine.background_threads = false;
    let session = Database::open(options).unwrap().session();
    let keyspace =
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    session.execute(keyspace, ()).unwrap();
    session
}

/// `c0 int, c1 int, …`
fn declared(count: usize) -> String {
    (0..count).map(|n| format!("c{n} int")).collect::<Vec<_>>().join(", ")
}

fn refusal(session: &Session, cql: &str) -> String {
    session.execute(cql, ()).unwrap_err().to_string()
}

/// `k int PRIMARY KEY, c1 int, c2 int, …`: `count` columns.
fn table_of(count: usize) -> String {
    format!("CREATE TABLE ks.t (k int PRIMARY KEY, {})", declared(count - 1))
}

fn too_many(count: usize) -> String {
    format!("too many columns in table t, dropped columns included: expected at most 65535, found {count}")
}

#[test]
fn a_table_of_more_columns_than_have_ids_is_refused() {
    let session = open();
    let error = refusal(&session, &table_of(TableMetadata::COLUMNS_MAX + 1));
    assert!(error.contains(&too_many(65_536)), "{error}");
    assert!(session.database().catalog().table("ks", "t").is_none());
}

#[test]
fn a_table_has_as_many_columns_as_have_ids_and_gets_no_more() {
    let session = open();
    session.execute(&table_of(TableMetadata::COLUMNS_MAX - 1), ()).unwrap();
    session.execute("ALTER TABLE ks.t ADD last int", ()).unwrap();
    let error = refusal(&session, "ALTER TABLE ks.t ADD more int");
    assert!(error.contains(&too_many(65_536)), "{error}");
    // A dropped column keeps its id.
    session.execute("ALTER TABLE ks.t DROP c7", ()).unwrap();
    let error = refusal(&session, "ALTER TABLE ks.t ADD more int");
    assert!(error.contains(&too_many(65_536)), "{error}");
    session.execute("ALTER TABLE ks.t ADD c7 int", ()).unwrap();
    let table = session.database().catalog().table("ks", "t").unwrap().clone();
    let mut ids: Vec<_> = table.regular_columns().map(|column| column.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), TableMetadata::COLUMNS_MAX - 1);
}

#[test]
fn very_many_columns_are_added_and_dropped_by_one_statement() {
    let session = open();
    session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int)", ()).unwrap();
    session.execute(&format!("ALTER TABLE ks.t ADD ({})", declared(30_000)), ()).unwrap();
    assert_eq!(session.database().catalog().table("ks", "t").unwrap().all_columns().count(), 30_002);
    let names = declared(30_000).replace(" int", "");
    session.execute(&format!("ALTER TABLE ks.t DROP ({names})"), ()).unwrap();
    assert_eq!(session.database().catalog().table("ks", "t").unwrap().all_columns().count(), 2);
}

#[test]
fn very_many_columns_are_inserted_and_updated_by_one_statement() {
    let session = open();
    session.execute(&table_of(60_000), ()).unwrap();
    let names = declared(59_999).replace(" int", "");
    let values: Vec<String> = (0..59_999).map(|n| n.to_string()).collect();
    let insert = format!("INSERT INTO ks.t (k, {names}) VALUES (1, {})", values.join(", "));
    session.execute(&insert, ()).unwrap();
    let set: Vec<String> = (0..59_999).map(|n| format!("c{n} = {}", n + 1)).collect();
    session.execute(&format!("UPDATE ks.t SET {} WHERE k = 1", set.join(", ")), ()).unwrap();
}

#[test]
fn a_type_has_as_many_fields_as_have_paths_and_gets_no_more() {
    let session = open();
    let create = |count: usize| format!("CREATE TYPE ks.u ({})", declared(count));
    let too_many = "too many fields in type u: expected at most 32767, found 32768";
    let error = refusal(&session, &create(UserType::FIELDS_MAX + 1));
    assert!(error.contains(too_many), "{error}");
    session.execute(&create(UserType::FIELDS_MAX), ()).unwrap();
    let error = refusal(&session, "ALTER TYPE ks.u ADD more int");
    assert!(error.contains(too_many), "{error}");
    session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v u)", ()).unwrap();
    let set: Vec<String> = (0..UserType::FIELDS_MAX).map(|n| format!("v.c{n} = {n}")).collect();
    session.execute(&format!("UPDATE ks.t SET {} WHERE k = 1", set.join(", ")), ()).unwrap();
    let rows = session.execute("SELECT v.c0, v.c32766 FROM ks.t", ()).unwrap();
    assert_eq!(rows.first().unwrap().get::<i32>(1).unwrap(), 32_766);
    let twice = "UPDATE ks.t SET v.c1 = 1, v.c2 = 2, v.c1 = 3 WHERE k = 1";
    assert!(refusal(&session, twice).contains("Multiple incompatible setting of column v"));
}
