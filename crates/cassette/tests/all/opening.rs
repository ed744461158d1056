//! Opening with options, closing, and what a drop without close leaves.

use cassette::internals::vfs::FakeFileSystem;
use cassette::options::SyncMode;
use cassette::{Database, ErrorKind, OpenOptions, Session, options, options::Options};

fn on(files: &FakeFileSystem) -> Options {
    Options { file_system: std::sync::Arc::new(files.clone()), ..Options::in_memory() }
}

fn with_table(database: &Database) -> Session {
    let session = database.session();
    for statement in [
        "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE app.t (k int PRIMARY KEY, v text)",
    ] {
        session.execute(statement, ()).unwrap();
    }
    session
}

#[test]
fn a_seed_is_an_option_for_programs_in_all_languages() {
    let first = |options: OpenOptions| -> (String,) {
        let session = options.open_in_memory().unwrap().session();
        session.query_one("SELECT CAST(uuid() AS text) FROM system.local", ()).unwrap()
    };
    let by_name = |value: &str| options::set(OpenOptions::new(), "seed", value);
    assert_eq!(first(OpenOptions::new().seed(7)), first(by_name("7").unwrap()));
    assert_ne!(first(by_name("7").unwrap()), first(by_name("8").unwrap()));
    assert_eq!(
        by_name("-1").unwrap_err().to_string(),
        "invalid seed: expected a number from 0, found \"-1\""
    );
}

#[test]
fn options_have_the_names_of_cassandra() {
    let options = || {
        OpenOptions::new()
            .commitlog_sync(SyncMode::Batch)
            .memtable_heap_space(32 << 20)
            .prepared_statements_cache_size(1 << 20)
            .materialized_views_enabled(true)
            .guardrail("tables_fail_threshold", "1")
    };
    let directory = tempfile::tempdir().unwrap();
    for database in [options().open(directory.path()).unwrap(), options().open_in_memory().unwrap()] {
        let session = with_table(&database);
        let error = session.execute("CREATE TABLE app.u (k int PRIMARY KEY)", ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let select = "SELECT value FROM system_views.settings WHERE name = ?";
        let setting = |name: &str| session.query_one::<(String,)>(select, (name,)).unwrap().0;
        assert_eq!(setting("commitlog_sync"), "batch");
        assert_eq!(setting("memtable_heap_space"), "32MiB");
    }
    let error = OpenOptions::new().guardrail("no_such_guardrail", "1").open_in_memory().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[test]
fn a_database_that_is_dropped_without_close_keeps_acknowledged_writes() {
    let files = FakeFileSystem::new();
    let session = with_table(&Database::open(on(&files)).unwrap());
    session.execute("INSERT INTO app.t (k, v) VALUES (1, 'one')", ()).unwrap();
    drop(session);
    let session = Database::open(on(&files)).unwrap().session();
    let (v,): (String,) = session.query_one("SELECT v FROM app.t WHERE k = 1", ()).unwrap();
    assert_eq!(v, "one");
}

#[test]
fn close_flushes_large_memtables_and_dropping_flushes_nothing() {
    let data_files = |files: &FakeFileSystem, close: bool| {
        let database = Database::open(on(files)).unwrap();
        let session = with_table(&database);
        session.execute("INSERT INTO app.t (k, v) VALUES (1, ?)", ("x".repeat(2 << 20),)).unwrap();
        if close {
            database.close().unwrap();
        }
        let snapshots = database.engine().tables();
        let (_, table) = snapshots.iter().find(|(_, table)| table.name == "t").unwrap();
        let id = table.id;
        drop((session, database));
        let database = Database::open(on(files)).unwrap();
        database.engine().sstables(id).unwrap().len()
    };
    assert_eq!(data_files(&FakeFileSystem::new(), true), 1);
    assert_eq!(data_files(&FakeFileSystem::new(), false), 0);
}

#[test]
fn close_reports_what_it_could_not_write() {
    let files = FakeFileSystem::new();
    let database = Database::open(on(&files)).unwrap();
    let session = with_table(&database);
    session.execute("INSERT INTO app.t (k, v) VALUES (1, 'one')", ()).unwrap();
    files.fail_from(files.operations());
    let error = database.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
    files.heal();
    drop((session, database));
    let session = Database::open(on(&files)).unwrap().session();
    assert_eq!(session.execute("SELECT * FROM app.t", ()).unwrap().len(), 1);
}
