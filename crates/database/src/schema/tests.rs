use std::sync::Arc;

use cassette_vfs::{FakeFileSystem, FileSystem};

use crate::response::ResultMetadata;
use crate::system;
use crate::{Database, DatabaseError, Executed, Options, Outcome, RowSink, StatementOptions, Values};

/// Throws rows away.
struct NoRows;

impl RowSink for NoRows {
    fn begin(&mut self, _: &Arc<ResultMetadata>) {}
    fn value(&mut self, _: Option<&[u8]>) {}
    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        write(&mut Vec::new());
    }
    fn end_row(&mut self) {}
}

fn open(fs: &Arc<dyn FileSystem>) -> Database {
    Database::open(Options { file_system: fs.clone(), ..Options::new("/data") }).unwrap()
}

fn run(database: &Database, cql: &str) -> Result<Executed, DatabaseError> {
    database.query(None, cql, Values::NONE, &StatementOptions::default(), &mut NoRows)
}

fn error(database: &Database, cql: &str) -> (i32, String) {
    let error = run(database, cql).unwrap_err();
    (error.code(), error.to_string())
}

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

#[test]
fn the_schema_reads_back_from_its_tables_as_it_is_in_force() {
    let fs: Arc<dyn FileSystem> = Arc::new(FakeFileSystem::new());
    let database = open(&fs);
    for cql in [
        KEYSPACE,
        "CREATE TYPE ks.a (x int, y text)",
        "CREATE TYPE ks.b (a frozen<a>, l frozen<list<int>>)",
        "CREATE TABLE ks.t (k int, c text, d timestamp, s int static, v a, w frozen<b>, m map<int, text>, \
         PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND gc_grace_seconds = 5",
        "ALTER TABLE ks.t DROP m",
        "ALTER TABLE ks.t ADD n int",
        "ALTER TABLE ks.t RENAME c TO cc",
        "ALTER TYPE ks.a ADD z boolean",
    ] {
        run(&database, cql).unwrap();
    }
    let before = database.catalog();
    let after = system::open::read_back(&database).unwrap();
    assert_eq!(after.version(), before.version());
    assert_eq!(after.keyspace("ks").unwrap().types, before.keyspace("ks").unwrap().types);
    let table = after.table("ks", "t").unwrap();
    assert_eq!(table.id, before.table("ks", "t").unwrap().id);
    assert_eq!(table.params.gc_grace_seconds, 5);
    assert!(table.clustering[0].reversed && table.clustering[0].name == "cc");
    assert_eq!(table.dropped_columns, before.table("ks", "t").unwrap().dropped_columns);
    assert_eq!(table.column("v").unwrap().data_type.to_string(), "a");
}

#[test]
fn statements_that_change_nothing_say_so_and_others_name_what_changed() {
    let database = open(&(Arc::new(FakeFileSystem::new()) as Arc<dyn FileSystem>));
    assert!(matches!(run(&database, KEYSPACE).unwrap().outcome, Outcome::SchemaChange(_)));
    let again = KEYSPACE.replace("KEYSPACE ks", "KEYSPACE IF NOT EXISTS ks");
    assert_eq!(run(&database, &again).unwrap().outcome, Outcome::Void);
    assert_eq!(run(&database, "DROP TABLE IF EXISTS ks.t").unwrap().outcome, Outcome::Void);
    assert_eq!(error(&database, KEYSPACE), (0x2400, "Cannot add existing keyspace \"ks\"".into()));
    run(&database, "CREATE TABLE ks.t (k int PRIMARY KEY)").unwrap();
    assert_eq!(
        error(&database, "CREATE TABLE ks.t (k int PRIMARY KEY)"),
        (0x2400, "Cannot add already existing table \"t\" to keyspace \"ks\"".into())
    );
}

#[test]
fn a_keyspace_dropped_and_made_again_has_none_of_its_tables() {
    let fs: Arc<dyn FileSystem> = Arc::new(FakeFileSystem::new());
    let database = open(&fs);
    run(&database, KEYSPACE).unwrap();
    run(&database, "CREATE TABLE ks.t (k int PRIMARY KEY)").unwrap();
    run(&database, "DROP KEYSPACE ks").unwrap();
    run(&database, KEYSPACE).unwrap();
    assert_eq!(database.catalog().keyspace("ks").unwrap().tables.len(), 0);
    assert_eq!(system::open::read_back(&database).unwrap().keyspace("ks").unwrap().tables.len(), 0);
}
