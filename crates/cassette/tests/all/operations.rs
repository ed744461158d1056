//! Snapshots, restoring them, and metrics.

use cassette::backup::{SnapshotFilter, SnapshotOptions};
use cassette::{Database, ErrorKind, Session};

fn with_table(database: &Database) -> Session {
    let session = database.session();
    for statement in [
        "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE app.place (name text)",
        "CREATE TABLE app.t (k int PRIMARY KEY, v text, p frozen<place>)",
        "CREATE INDEX by_v ON app.t (v)",
        "INSERT INTO app.t (k, v, p) VALUES (1, 'one; two', {name: 'hall'})",
    ] {
        session.execute(statement, ()).unwrap();
    }
    session
}

fn daily() -> SnapshotOptions<'static> {
    SnapshotOptions { name: "daily", skip_flush: false, ttl_seconds: None }
}

fn rows(database: &Database) -> Vec<(i32, String)> {
    let rows = database.session().execute("SELECT k, v FROM app.t WHERE v = 'one; two'", ()).unwrap();
    rows.typed().map(Result::unwrap).collect()
}

#[test]
fn a_snapshot_is_restored_into_another_database_with_its_schema() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let database = Database::open(from.path()).unwrap();
    let session = with_table(&database);
    let taken = database.snapshot(&["app.t".to_owned()], &daily()).unwrap();
    session.execute("INSERT INTO app.t (k, v) VALUES (2, 'one; two')", ()).unwrap();
    let files = || std::fs::read_dir(&taken[0].directory).unwrap().count();
    let before = files();

    let other = Database::open(to.path()).unwrap();
    let imported = other.restore(&taken[0].directory).unwrap();
    assert_eq!((imported.len(), files()), (1, before));
    assert_eq!(rows(&other), [(1, "one; two".to_owned())]);
}

#[test]
fn a_restore_never_moves_a_copy_of_a_snapshot_whatever_its_path() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let database = Database::open(&data).unwrap();
    let session = with_table(&database);
    let taken = database.snapshot(&["app.t".to_owned()], &daily()).unwrap();
    // Not a snapshot by its name or by a manifest.
    let copy = parent.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&taken[0].directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "manifest.json" {
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
    }
    let files = || std::fs::read_dir(&copy).unwrap().count();
    let before = files();
    session.execute("TRUNCATE app.t", ()).unwrap();
    assert_eq!(database.restore(&data.join("../copy")).unwrap().len(), 1);
    assert_eq!((rows(&database).len(), files()), (1, before));
}

#[test]
fn a_dropped_table_is_restored_in_its_own_database() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let session = with_table(&database);
    let taken = database.snapshot(&["app".to_owned()], &daily()).unwrap();
    session.execute("DROP TABLE app.t", ()).unwrap();
    database.restore(&taken[0].directory).unwrap();
    assert_eq!(rows(&database).len(), 1);
}

#[test]
fn snapshots_are_listed_and_removed_and_refused_twice() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let _session = with_table(&database);
    let names = ["app.t".to_owned()];
    database.snapshot(&names, &daily()).unwrap();
    assert_eq!(database.snapshot(&names, &daily()).unwrap_err().kind(), ErrorKind::Invalid);
    let listed = database.snapshots().unwrap();
    assert!(listed.iter().any(|snapshot| snapshot.name == "daily" && snapshot.table == "t"), "{listed:?}");
    let filter = SnapshotFilter { name: Some("daily"), ..SnapshotFilter::default() };
    database.clear_snapshots(&filter).unwrap();
    assert!(database.snapshots().unwrap().is_empty());
    let error = database.restore(directory.path()).unwrap_err();
    assert!(error.to_string().ends_with("it has no schema.cql"), "{error}");
}

#[test]
fn metrics_count_requests_and_tables() {
    let database = Database::in_memory().unwrap();
    let session = with_table(&database);
    session.execute("SELECT * FROM app.t WHERE k = 1", ()).unwrap();
    session.execute("INSERT INTO app.t (k) VALUES (3) IF NOT EXISTS", ()).unwrap();
    let metrics = database.metrics_snapshot();
    assert_eq!((metrics.reads.count, metrics.writes.count, metrics.conditional_writes.count), (1, 1, 1));
    assert!(metrics.memtable_bytes > 0 && metrics.memtable_bytes <= metrics.memtable_bytes_max);
    assert!(metrics.commitlog_bytes > 0);
    let table = metrics.tables.iter().find(|table| table.name == "t").unwrap();
    assert_eq!((table.keyspace.as_str(), table.sstables), ("app", 0));
    assert!(table.memtable_bytes > 0);
    database.engine().flush(None).unwrap();
    let metrics = database.metrics_snapshot();
    let table = metrics.tables.iter().find(|table| table.name == "t").unwrap();
    assert_eq!((table.sstables, table.flushes), (1, 1));
}
