//! A panic during the build of an index or view ends only that build; a later one completes it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cassette_engine::commitlog::SyncMode;
use cassette_vfs::{FakeFileSystem, ManualClock, OperationKind};

use crate::{Database, Options, Session};

const CREATE_INDEX: &str = "CREATE INDEX i ON ks.t (v)";
const SELECT_BY_INDEX: &str = "SELECT k FROM ks.t WHERE v = 1";
const CREATE_VIEW: &str = "CREATE MATERIALIZED VIEW ks.by_v AS SELECT * FROM ks.t
    WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)";
const SELECT_BY_VIEW: &str = "SELECT k FROM ks.by_v WHERE v = 1";

/// More than one step of either build, and several chunks of Data.
const ROWS: i32 = 1200;

struct World {
    fs: FakeFileSystem,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> Self {
        Self { fs: FakeFileSystem::new(), clock: Arc::new(ManualClock::at_micros(1_000_000_000_000)) }
    }

    fn open(&self) -> Database {
        let mut options = Options {
            file_system: Arc::new(self.fs.clone()),
            clock: self.clock.clone(),
            materialized_views_enabled: true,
            ..Options::new("/data")
        };
        options.engine.file_cache_size = 0;
        // In periodic mode, writes would wait for a sync that is late by this clock.
        options.engine.commitlog_sync = SyncMode::Batch;
        Database::open(options).unwrap()
    }

    /// A database with a flushed table of `ROWS` rows.
    fn open_with_rows(&self) -> Database {
        let database = self.open();
        let session = database.session();
        let keyspace =
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        for statement in [keyspace, "CREATE TABLE ks.t (k int PRIMARY KEY, v int, b blob)"] {
            session.execute(statement, ()).unwrap();
        }
        for k in 0..ROWS {
            insert(&session, k);
        }
        database.engine().flush(None).unwrap();
        database
    }

    /// Makes reads of this thread panic, and advances the clock with every operation if `is_slow`,
    /// so that CREATE leaves most of the build to the background.
    fn panic_on_read(&self, thread: Option<String>, is_slow: bool) {
        let clock = self.clock.clone();
        self.fs.fail_when(move |operation| {
            if is_slow {
                clock.advance(Duration::from_millis(60));
            }
            let is_meant = std::thread::current().name() == thread.as_deref();
            assert!(!(is_meant && operation.kind == OperationKind::Read), "injected");
            None
        });
    }
}

fn insert(session: &Session, k: i32) {
    let insert = "INSERT INTO ks.t (k, v, b) VALUES (?, 1, ?)";
    session.execute(insert, (k, vec![k as u8; 200])).unwrap();
}

fn wait_for_builds(database: &Database) {
    let began = Instant::now();
    while !database.running_builds().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(120), "a build does not end");
        std::thread::yield_now();
    }
}

fn rows_found(database: &Database, query: &str) -> Option<usize> {
    database.session().execute(query, ()).ok().map(|rows| rows.len())
}

/// Builds with a panic in the background thread, then again at the next schema change.
fn panic_in_background(create: &str, query: &str, thread: &str) {
    let world = World::new();
    let database = world.open_with_rows();
    let session = database.session();
    world.panic_on_read(Some(thread.to_owned()), true);
    session.execute(create, ()).unwrap();
    wait_for_builds(&database);
    world.fs.heal();
    assert_eq!(database.engine().metrics().exceptions.get(), 1);

    // Writers and schema changes do not wait for the build.
    insert(&session, ROWS);
    assert_ne!(rows_found(&database, query), Some(ROWS as usize + 1), "the build did not panic");
    session.execute("ALTER TABLE ks.t ADD w int", ()).unwrap();
    wait_for_builds(&database);
    assert_eq!(rows_found(&database, query), Some(ROWS as usize + 1));
}

/// Builds with a panic in the background thread, then again at the next start.
fn panic_before_a_restart(create: &str, query: &str, thread: &str) {
    let world = World::new();
    let database = world.open_with_rows();
    world.panic_on_read(Some(thread.to_owned()), true);
    database.session().execute(create, ()).unwrap();
    wait_for_builds(&database);
    world.fs.heal();
    database.close().unwrap();

    let database = world.open();
    wait_for_builds(&database);
    assert_eq!(rows_found(&database, query), Some(ROWS as usize));
}

/// Builds with a panic in the thread of the statement, then again at the next schema change.
fn panic_in_statement(create: &str, query: &str) {
    let world = World::new();
    let database = world.open_with_rows();
    let session = database.session();
    world.panic_on_read(std::thread::current().name().map(str::to_owned), false);
    catch_unwind(AssertUnwindSafe(|| session.execute(create, ()))).unwrap_err();
    world.fs.heal();

    insert(&session, ROWS);
    session.execute("ALTER TABLE ks.t ADD w int", ()).unwrap();
    wait_for_builds(&database);
    assert_eq!(rows_found(&database, query), Some(ROWS as usize + 1));
}

#[test]
fn the_next_schema_change_completes_an_index_whose_build_panicked() {
    panic_in_background(CREATE_INDEX, SELECT_BY_INDEX, "index i");
    panic_in_statement(CREATE_INDEX, SELECT_BY_INDEX);
}

#[test]
fn the_next_start_completes_an_index_whose_build_panicked() {
    panic_before_a_restart(CREATE_INDEX, SELECT_BY_INDEX, "index i");
}

#[test]
fn the_next_schema_change_completes_a_view_whose_build_panicked() {
    panic_in_background(CREATE_VIEW, SELECT_BY_VIEW, "view by_v");
    panic_in_statement(CREATE_VIEW, SELECT_BY_VIEW);
}

#[test]
fn the_next_start_completes_a_view_whose_build_panicked() {
    panic_before_a_restart(CREATE_VIEW, SELECT_BY_VIEW, "view by_v");
}
