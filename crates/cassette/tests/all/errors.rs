//! Errors, as an application decides by them.

use std::error::Error as _;

use cassette::internals::vfs::{FakeFileSystem, FileSystem};
use cassette::{Database, Error, ErrorKind, Session, options::Options};

const KEYSPACE: &str =
    "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn on(files: &FakeFileSystem) -> Options {
    let file_system: std::sync::Arc<dyn FileSystem> = std::sync::Arc::new(files.clone());
    Options { file_system, ..Options::in_memory() }
}

fn with_table(database: &Database) -> Session {
    let session = database.session();
    session.execute(KEYSPACE, ()).unwrap();
    session.execute("CREATE TABLE app.t (k int PRIMARY KEY, v text)", ()).unwrap();
    session
}

#[test]
fn a_locked_directory_names_the_process_that_holds_it() {
    let directory = tempfile::tempdir().unwrap();
    let _open = Database::open(directory.path()).unwrap();
    let error = Database::open(directory.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert_eq!(error.lock_holder(), Some(std::process::id()));
    assert_eq!(error.path(), Some(directory.path()));
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
}

#[test]
fn a_syntax_error_has_its_line_and_column() {
    let session = Database::in_memory().unwrap().session();
    let error = session.execute("SELECT *\nFORM t", ()).unwrap_err();
    assert_eq!((error.kind(), error.position()), (ErrorKind::Syntax, Some((2, 0))));
    let error = session.execute("SELECT * FROM nowhere.t", ()).unwrap_err();
    assert_eq!((error.kind(), error.position()), (ErrorKind::Invalid, None));
}

#[test]
fn a_closed_database_and_an_existing_table_have_their_kinds() {
    let database = Database::in_memory().unwrap();
    let session = with_table(&database);
    let error = session.execute("CREATE TABLE app.t (k int PRIMARY KEY)", ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let error = session.execute("INSERT INTO system.local (key) VALUES ('a')", ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    database.close().unwrap();
    let error = session.execute("INSERT INTO app.t (k) VALUES (1)", ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[test]
fn an_option_that_cannot_work_is_a_configuration_error() {
    let mut options = Options::in_memory();
    options.guardrails.insert("tables_fail_threshold".to_owned(), "many".to_owned());
    assert_eq!(Database::open(options).unwrap_err().kind(), ErrorKind::Config);
    let mut options = Options::in_memory();
    options.engine.commitlog_segment_size = 1;
    assert_eq!(Database::open(options).unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn a_damaged_file_is_named_and_the_cause_is_kept() {
    let files = FakeFileSystem::new();
    let database = Database::open(on(&files)).unwrap();
    let session = with_table(&database);
    session.execute("INSERT INTO app.t (k, v) VALUES (1, 'one')", ()).unwrap();
    database.flush().unwrap();
    drop((session, database));
    let tables = std::path::Path::new("/cassette/data/app");
    let table = tables.join(&files.read_dir(tables).unwrap()[0].name);
    let is_data = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with("-Data.db");
    let entries = files.read_dir(&table).unwrap();
    let data = table.join(&entries.iter().find(|entry| is_data(entry.name.as_ref())).unwrap().name);
    files.corrupt(&data, 3, 0xff);

    let session = Database::open(on(&files)).unwrap().session();
    let error = session.execute("SELECT * FROM app.t WHERE k = 1", ()).unwrap_err();
    assert!(matches!(error, Error::ReadFailure { .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(error.path(), Some(data.as_path()));
    assert!(error.source().is_some());
}

#[test]
fn a_full_disk_is_reported_as_that() {
    let files = FakeFileSystem::new();
    let database = Database::open(on(&files)).unwrap();
    let session = with_table(&database);
    files.set_capacity(files.used());
    let large = "x".repeat(40 << 10);
    let error = (0..10_000)
        .find_map(|k| session.execute("INSERT INTO app.t (k, v) VALUES (?, ?)", (k, &large)).err())
        .expect("the disk is full at some time");
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert!(matches!(error, Error::WriteFailure { .. }), "{error:?}");
}

#[test]
fn a_failed_open_keeps_the_cause() {
    let files = FakeFileSystem::new();
    drop(Database::open(on(&files)).unwrap());
    files.fail_from(0);
    let error = Database::open(on(&files)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
    assert!(error.source().is_some());
}
