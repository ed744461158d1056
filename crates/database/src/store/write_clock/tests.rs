//! The clock is set back by years across clean restarts, kills and crashes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cassette_engine::commitlog::SyncMode;
use cassette_vfs::{FakeFileSystem, ManualClock};

use crate::api::database::{Database, Options};
use crate::api::embedded::Session;
use crate::basics::request::StatementOptions;

const NOW: i64 = 1_700_000_000_000_000;
const YEAR: i64 = 365 * 86_400 * 1_000_000;

struct World {
    fs: FakeFileSystem,
    clock: Arc<ManualClock>,
    sync: SyncMode,
}

impl World {
    fn new(sync: SyncMode) -> Self {
        let world = Self { fs: FakeFileSystem::new(), clock: Arc::new(ManualClock::at_micros(NOW)), sync };
        let (database, session) = world.open();
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int, l list<int>)",
            "CREATE TABLE ks.c (k int PRIMARY KEY, n counter)",
        ] {
            session.execute(cql, ()).unwrap();
        }
        database.close().unwrap();
        world
    }

    fn open(&self) -> (Database, Session) {
        let options = Options::new("/data");
        let engine = cassette_engine::Options {
            background_threads: false,
            commitlog_sync: self.sync,
            ..options.engine
        };
        let database = Database::open(Options {
            engine,
            file_system: Arc::new(self.fs.clone()),
            clock: self.clock.clone(),
            ..options
        });
        let database = database.unwrap();
        let session = database.session();
        (database, session)
    }
}

fn value(session: &Session, k: i32) -> Option<i32> {
    let rows = session.execute(&format!("SELECT v FROM ks.t WHERE k = {k}"), ()).unwrap();
    rows.iter().next().and_then(|row| row.get::<Option<i32>>(0).unwrap())
}

fn newest(session: &Session) -> i64 {
    session.execute("UPDATE ks.t SET v = 0 WHERE k = 1000", ()).unwrap();
    let rows = session.execute("SELECT writetime(v) FROM ks.t WHERE k = 1000", ()).unwrap();
    rows.iter().next().unwrap().get::<i64>(0).unwrap()
}

/// One run writes until the file system fails at operation `at`; the next one begins with the clock
/// years behind.
fn overwrites_win(sync: SyncMode, at: u64, dies: impl Fn(&FakeFileSystem, u64) -> FakeFileSystem) {
    let mut world = World::new(sync);
    // The values that each key may have: the last acknowledged value, and later ones whose writes
    // failed.
    let mut possible: BTreeMap<i32, Vec<Option<i32>>> = (0..4).map(|k| (k, vec![None])).collect();
    let mut counter = 0;
    for life in 0..3_i32 {
        let (database, session) = world.open();
        for (k, possible) in &mut possible {
            let found = value(&session, *k);
            assert!(possible.contains(&found), "life {life}, failing at {at}: {found:?} of {possible:?}");
            *possible = vec![found];
        }
        world.fs.fail_from(world.fs.operations() + at);
        for n in 0..40_i32 {
            let (k, v) = (n % 4, life * 1000 + n);
            let cql = match n % 5 {
                0 => format!("UPDATE ks.t SET v = {v} WHERE k = {k} IF v != -1"),
                1 => format!("BEGIN BATCH UPDATE ks.t SET v = {v} WHERE k = {k} APPLY BATCH"),
                _ => format!("INSERT INTO ks.t (k, v) VALUES ({k}, {v})"),
            };
            let possible = possible.get_mut(&k).unwrap();
            match session.execute(&cql, ()) {
                Ok(_) => {
                    *possible = vec![Some(v)];
                    assert_eq!(value(&session, k), Some(v), "life {life}, failing at {at}");
                }
                Err(_) => possible.push(Some(v)),
            }
            match n {
                10 => drop(database.engine().flush(None)),
                20 => {
                    drop(session.execute("UPDATE ks.c SET n = n + 1 WHERE k = 0", ()).map(|_| counter += 1))
                }
                // A second issues more timestamps than the first ceiling covers.
                25 => world.clock.advance(Duration::from_secs(3)),
                _ => {}
            }
        }
        let survivor = dies(&world.fs, at);
        drop((session, database));
        world.fs = survivor;
        world.clock.set_micros(NOW - i64::from(life + 1) * 13 * YEAR);
    }
    let (_database, session) = world.open();
    let rows = session.execute("SELECT n FROM ks.c WHERE k = 0", ()).unwrap();
    let counted = rows.iter().next().map_or(0, |row| row.get::<i64>(0).unwrap());
    assert!(counted >= counter, "{counted} of {counter}");
}

#[test]
fn an_overwrite_wins_after_a_kill_and_a_clock_set_back() {
    for at in (1..120).step_by(23) {
        overwrites_win(SyncMode::Periodic { period: Duration::from_secs(10) }, at, |fs, _| fs.kill());
    }
}

#[test]
fn an_overwrite_wins_after_a_crash_and_a_clock_set_back() {
    for at in (1..160).step_by(31) {
        overwrites_win(SyncMode::Batch, at, FakeFileSystem::crash);
    }
}

#[test]
fn a_clean_close_records_the_last_timestamp_exactly() {
    let world = World::new(SyncMode::Batch);
    let (database, session) = world.open();
    let last = newest(&session);
    database.close().unwrap();
    world.clock.set_micros(NOW - 40 * YEAR);
    let (_database, session) = world.open();
    let next = newest(&session);
    assert!(next > last && next <= last + 2, "{last}, then {next}");
}

#[test]
fn the_ceiling_is_about_a_second_ahead_and_client_timestamps_do_not_raise_it() {
    let mut world = World::new(SyncMode::Periodic { period: Duration::from_secs(10) });
    let (database, session) = world.open();
    let last = newest(&session);
    let future = NOW + 100 * YEAR;
    session.execute(&format!("INSERT INTO ks.t (k, v) VALUES (1, 1) USING TIMESTAMP {future}"), ()).unwrap();
    let options = StatementOptions { timestamp: Some(future), ..StatementOptions::default() };
    session.execute_with("INSERT INTO ks.t (k, v) VALUES (2, 2)", (), &options).unwrap();
    world.fs = world.fs.kill();
    drop((session, database));
    for _ in 0..8 {
        // The leads of unclean shutdowns do not accumulate.
        let (database, session) = world.open();
        let next = newest(&session);
        assert!(next > last && next < last + 4_000_000, "{last}, then {next}");
        world.fs = world.fs.kill();
        drop((session, database));
    }
}

#[test]
fn reads_record_no_ceiling() {
    let world = World::new(SyncMode::Batch);
    let (_database, session) = world.open();
    newest(&session);
    world.clock.advance(Duration::from_secs(100));
    let before = world.fs.operations();
    session.execute("SELECT * FROM ks.t", ()).unwrap();
    assert_eq!(world.fs.operations(), before);
}

#[test]
fn time_uuids_and_list_elements_ascend_across_a_clock_set_back() {
    let mut world = World::new(SyncMode::Batch);
    let mut last = None;
    for life in 0..4 {
        let (database, session) = world.open();
        for n in 0..3 {
            let element = life * 3 + n;
            session.execute(&format!("UPDATE ks.t SET l = l + [{element}] WHERE k = 0"), ()).unwrap();
            session.execute(&format!("UPDATE ks.t SET l = [{element}] + l WHERE k = 1"), ()).unwrap();
            let rows = session.execute("SELECT now() FROM ks.t WHERE k = 0", ()).unwrap();
            let uuid = rows.iter().next().unwrap().get::<uuid::Uuid>(0).unwrap();
            let ticks = uuid.get_timestamp().unwrap().to_gregorian().0;
            assert!(last < Some(ticks), "{last:?}, then {ticks}");
            last = Some(ticks);
        }
        world.fs = if life % 2 == 0 { world.fs.kill() } else { world.fs.crash(7) };
        drop((session, database));
        world.clock.set_micros(NOW - (i64::from(life) + 1) * YEAR);
    }
    let (_database, session) = world.open();
    let list = |k: i32| {
        let rows = session.execute(&format!("SELECT l FROM ks.t WHERE k = {k}"), ()).unwrap();
        rows.iter().next().unwrap().get::<Vec<i32>>(0).unwrap()
    };
    assert_eq!(list(0), (0..12).collect::<Vec<_>>());
    assert_eq!(list(1), (0..12).rev().collect::<Vec<_>>());
}

#[test]
fn a_column_dropped_and_added_again_keeps_later_writes_across_a_kill() {
    let world = World::new(SyncMode::Batch);
    let (database, session) = world.open();
    // The clock does not advance: timestamps are a microsecond apart.
    for cql in [
        "ALTER TABLE ks.t ADD d int",
        "UPDATE ks.t SET d = 1 WHERE k = 1",
        "ALTER TABLE ks.t DROP d",
        "ALTER TABLE ks.t ADD d int",
        "UPDATE ks.t SET d = 2 WHERE k = 1",
    ] {
        session.execute(cql, ()).unwrap();
    }
    let killed = World { fs: world.fs.kill(), clock: world.clock.clone(), sync: world.sync };
    drop(database);
    let (_database, session) = killed.open();
    let rows = session.execute("SELECT d FROM ks.t WHERE k = 1", ()).unwrap();
    assert_eq!(rows.iter().next().unwrap().get::<Option<i32>>(0).unwrap(), Some(2));
}
