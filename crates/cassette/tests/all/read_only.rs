//! Databases that are only read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cassette::backup::SnapshotOptions;
use cassette::{Database, Error, ErrorKind, Session};

fn with_table(database: &Database) -> Session {
    let session = database.session();
    for statement in [
        "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE app.t (k int PRIMARY KEY, v text)",
        "CREATE INDEX by_v ON app.t (v)",
    ] {
        session.execute(statement, ()).unwrap();
    }
    session
}

fn keys(database: &Database) -> Vec<i32> {
    let rows = database.session().execute("SELECT k FROM app.t", ()).unwrap();
    let mut keys: Vec<i32> = rows.iter().map(|row| row.get("k").unwrap()).collect();
    keys.sort_unstable();
    keys
}

/// All files below a directory, with their content.
fn content(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn a_directory_is_read_with_its_commit_log_and_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let session = with_table(&database);
    session.execute("INSERT INTO app.t (k, v) VALUES (1, 'one')", ()).unwrap();
    database.engine().flush(None).unwrap();
    session.execute("INSERT INTO app.t (k, v) VALUES (2, 'two')", ()).unwrap();
    // Without a close: the second row is in the commit log only.
    drop((session, database));
    let before = content(directory.path());

    let first = Database::open_read_only(directory.path()).unwrap();
    let second = Database::open_read_only(directory.path()).unwrap();
    assert_eq!((keys(&first), keys(&second)), (vec![1, 2], vec![1, 2]));
    let by_index = "SELECT k FROM app.t WHERE v = 'two'";
    assert_eq!(first.session().query_one::<(i32,)>(by_index, ()).unwrap(), (2,));
    let error = Database::open(directory.path()).unwrap_err();
    assert_eq!((error.kind(), error.lock_holder()), (ErrorKind::Locked, None));
    first.close().unwrap();
    drop((first, second));
    assert_eq!(content(directory.path()), before);
    assert_eq!(keys(&Database::open(directory.path()).unwrap()), [1, 2]);
}

#[test]
fn a_directory_that_is_being_written_cannot_be_opened() {
    let directory = tempfile::tempdir().unwrap();
    let _database = Database::open(directory.path()).unwrap();
    let error = Database::open_read_only(directory.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert_eq!(error.lock_holder(), Some(std::process::id()));
}

#[test]
fn statements_that_write_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(with_table(&Database::open(directory.path()).unwrap()));
    let database = Database::open_read_only(directory.path()).unwrap();
    let session = database.session();
    for statement in [
        "INSERT INTO app.t (k) VALUES (1)",
        "UPDATE app.t SET v = 'x' WHERE k = 1 IF EXISTS",
        "BEGIN BATCH INSERT INTO app.t (k) VALUES (1); APPLY BATCH",
        "TRUNCATE app.t",
        "ALTER TABLE app.t ADD w int",
        "DROP KEYSPACE app",
    ] {
        let error = session.execute(statement, ()).unwrap_err();
        assert!(matches!(error, Error::ReadOnly), "{statement}: {error}");
    }
    let insert = session.prepare("INSERT INTO app.t (k) VALUES (?)").unwrap();
    assert_eq!(session.execute(&insert, (1,)).unwrap_err().kind(), ErrorKind::ReadOnly);
    let mut batch = session.batch();
    batch.add(&insert, (1,)).unwrap();
    assert_eq!(batch.execute().unwrap_err().kind(), ErrorKind::ReadOnly);
    session.execute("USE app", ()).unwrap();
    assert!(session.execute("SELECT * FROM t", ()).unwrap().is_empty());
}

#[test]
fn a_snapshot_and_its_copy_are_read_while_the_database_is_open() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let session = with_table(&database);
    session.execute("INSERT INTO app.t (k, v) VALUES (1, 'one')", ()).unwrap();
    let options = SnapshotOptions { name: "daily", skip_flush: false, ttl_seconds: None };
    let taken = database.snapshot(&["app.t".to_owned()], &options).unwrap().remove(0).directory;
    session.execute("INSERT INTO app.t (k, v) VALUES (2, 'two')", ()).unwrap();

    let copy = tempfile::tempdir().unwrap();
    for (path, bytes) in content(&taken) {
        std::fs::write(copy.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    for path in [taken.as_path(), copy.path()] {
        let before = content(path);
        let snapshot = Database::open_read_only(path).unwrap();
        assert_eq!(keys(&snapshot), [1]);
        let error = snapshot.session().execute("DELETE FROM app.t WHERE k = 1", ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        drop(snapshot);
        assert_eq!(content(path), before);
    }
    let error = Database::open_read_only(std::env::temp_dir().join("nothing-is-here")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(Database::open_read_only(empty.path()).unwrap_err().kind(), ErrorKind::Invalid);
}
