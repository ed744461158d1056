//! Crashes and full disks at every operation of a backup and of a restore, on the fake file system.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use cassette_backup::{Backup, BackupOptions, Repository, RestoreOptions};
use cassette_database::{Database, Options, Session};
use cassette_vfs::{FakeFileSystem, FileSystem};

const ROOT: &str = "/backups";
const DATA: &str = "/data";
const TARGET: &str = "/restored";
const ROWS: i32 = 20;

fn open(fs: &FakeFileSystem, path: &str) -> Database {
    let mut options = Options::new(path);
    options.file_system = Arc::new(fs.clone());
    options.engine.background_threads = false;
    options.engine.commitlog_segment_size = 1 << 20;
    Database::open(options).unwrap()
}

fn repository(fs: &FakeFileSystem) -> Repository {
    Repository::open(Arc::new(fs.clone()), Path::new(ROOT)).unwrap()
}

fn insert(session: &Session, from: i32) {
    for k in from..from + ROWS {
        session.execute("INSERT INTO ks.t (k, v) VALUES (?, ?)", (k, k * 3)).unwrap();
    }
}

fn count(database: &Database) -> usize {
    database.session().execute("SELECT k FROM ks.t", ()).unwrap().len()
}

/// A database with one backup, `old`, and newer rows.
fn with_backup() -> (FakeFileSystem, Database) {
    let fs = FakeFileSystem::new();
    let database = open(&fs, DATA);
    let session = database.session();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        "CREATE INDEX i ON ks.t (v)",
    ] {
        session.execute(cql, ()).unwrap();
    }
    insert(&session, 0);
    back_up(&fs, &database, "old").unwrap();
    insert(&session, ROWS);
    (fs, database)
}

fn back_up(fs: &FakeFileSystem, database: &Database, name: &str) -> cassette_backup::Result<Backup> {
    let options = BackupOptions {
        name: Some(name.to_owned()),
        keyspaces: vec!["ks".to_owned()],
        ..BackupOptions::default()
    };
    let repository = Repository::open(Arc::new(fs.clone()), Path::new(ROOT))?;
    Ok(repository.back_up(database, &options)?.backup)
}

/// Checks that the old backup is intact, and that the new one is intact or does not exist; returns
/// whether it exists.
fn check(fs: &FakeFileSystem) -> bool {
    let repository = repository(fs);
    let backups = repository.backups().unwrap();
    let names: Vec<&str> = backups.iter().map(|backup| backup.name.as_str()).collect();
    assert!(names == ["old"] || names == ["old", "new"], "{names:?}");
    for backup in &backups {
        repository.verify(backup).unwrap();
    }
    let entries = fs.read_dir(Path::new(ROOT)).unwrap();
    assert!(entries.iter().all(|entry| !entry.name.ends_with(".incomplete")), "{entries:?}");
    names.len() == 2
}

#[test]
fn after_a_crash_at_any_operation_a_backup_is_complete_or_absent() {
    let (mut completed, mut absent) = (0, 0);
    for at in (1..).step_by(3) {
        let (fs, database) = with_backup();
        fs.fail_from(fs.operations() + at);
        let done = back_up(&fs, &database, "new");
        drop(database);
        let survivor = fs.crash(at);
        let exists = check(&survivor);
        assert!(exists || done.is_err(), "a reported backup must exist (failing from operation {at})");
        if exists {
            completed += 1
        } else {
            absent += 1
        }
        if done.is_ok() {
            break;
        }
        // The database recovers, and the next backup succeeds.
        let database = open(&survivor, DATA);
        assert!(count(&database) >= usize::try_from(ROWS).unwrap());
        if !exists {
            back_up(&survivor, &database, "new").unwrap();
            assert!(check(&survivor));
        }
    }
    assert!(completed > 0 && absent > 20, "{completed} completed, {absent} absent");
}

#[test]
fn a_backup_on_a_full_disk_fails_and_leaves_nothing() {
    let (fs, database) = with_backup();
    let full = |operation: &cassette_vfs::Operation| {
        let is_in_backup = operation.path.to_string_lossy().contains("backups/new.incomplete");
        (is_in_backup && operation.kind == cassette_vfs::OperationKind::Write)
            .then_some(ErrorKind::StorageFull)
    };
    fs.fail_when(full);
    let error = back_up(&fs, &database, "new").unwrap_err().to_string();
    assert!(error.contains("/backups/new.incomplete"), "{error}");
    fs.fail_when(|_| None);
    assert!(!check(&fs));
    assert!(database.snapshots().unwrap().is_empty());
    back_up(&fs, &database, "new").unwrap();
}

#[test]
fn after_a_crash_at_any_operation_a_restored_directory_is_complete_or_absent() {
    let (original, database) = with_backup();
    database.close().unwrap();
    drop(database);
    let (mut completed, mut absent, mut at) = (0, 0, 1);
    loop {
        let fs = original.fork();
        fs.fail_from(fs.operations() + at);
        let restored =
            Repository::open_for_reading(Arc::new(fs.clone()), Path::new(ROOT)).and_then(|repository| {
                let backup = repository.find(Some("old"))?;
                repository.restore_into_new(&backup, Path::new(TARGET), &RestoreOptions::default())
            });
        let survivor = fs.crash(at);
        let exists = survivor.metadata(Path::new(TARGET)).is_ok();
        assert!(exists || restored.is_err(), "a reported restore must exist (failing from operation {at})");
        if exists {
            completed += 1;
        } else {
            absent += 1;
            let repository = repository(&survivor);
            let backup = repository.find(Some("old")).unwrap();
            repository.restore_into_new(&backup, Path::new(TARGET), &RestoreOptions::default()).unwrap();
        }
        let found = open(&survivor, TARGET);
        assert_eq!(count(&found), usize::try_from(ROWS).unwrap(), "failing from operation {at}");
        let by_index = found.session().execute("SELECT k FROM ks.t WHERE v = 6", ()).unwrap();
        assert_eq!(by_index.len(), 1);
        if restored.is_ok() {
            break;
        }
        at += 11;
    }
    assert!(completed > 0 && absent > 20, "{completed} completed, {absent} absent");
}

#[test]
fn after_a_crash_at_any_operation_a_removed_backup_is_intact_or_absent() {
    for at in 1.. {
        let (fs, database) = with_backup();
        back_up(&fs, &database, "new").unwrap();
        let repository = repository(&fs);
        fs.fail_from(fs.operations() + at);
        let removed = repository.remove("new");
        let exists = check(&fs.crash(at));
        assert!(!exists || removed.is_err(), "a removed backup must not exist");
        if removed.is_ok() {
            break;
        }
    }
}

#[test]
fn after_a_crash_at_any_operation_a_replaced_table_has_its_earlier_rows_or_those_of_the_backup() {
    let (original, database) = with_backup();
    database.close().unwrap();
    drop(database);
    let (mut replaced, mut kept, mut at) = (0, 0, 1);
    loop {
        let fs = original.fork();
        let database = open(&fs, DATA);
        fs.fail_from(fs.operations() + at);
        let options = RestoreOptions { truncate: true, ..RestoreOptions::default() };
        let restored =
            Repository::open_for_reading(Arc::new(fs.clone()), Path::new(ROOT)).and_then(|repository| {
                let backup = repository.find(Some("old"))?;
                repository.restore(&backup, &database, &options)
            });
        drop(database);
        let survivor = fs.crash(at);
        let database = open(&survivor, DATA);
        match count(&database) {
            rows if rows == usize::try_from(ROWS).unwrap() => replaced += 1,
            rows => {
                assert_eq!(rows, usize::try_from(2 * ROWS).unwrap(), "failing from operation {at}");
                assert!(restored.is_err());
                kept += 1;
            }
        }
        let by_index = database.session().execute("SELECT k FROM ks.t WHERE v = 6", ()).unwrap();
        assert_eq!(by_index.len(), 1, "failing from operation {at}");
        if restored.is_ok() {
            break;
        }
        at += 7;
    }
    assert!(replaced > 0 && kept > 10, "{replaced} replaced, {kept} kept");
}
