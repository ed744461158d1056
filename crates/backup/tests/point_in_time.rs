//! Restores to points in time: a random history of statements, with backups, archiving, crashes and
//! restarts in between, is restored to random moments, and compared with the same statements
//! executed until then.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cassette_backup::{
    Archived, BackupOptions, Error, LogArchiver, Repository, RestoreOptions, Restored, Until,
};
use cassette_database::{Database, Options, Session};
use cassette_encryption::{AesGcm, Key, KeyError, Keys};
use cassette_engine::commitlog::SyncMode;
use cassette_vfs::encryption::Encryption;
use cassette_vfs::{FakeFileSystem, FileSystem, ManualClock};

const ROOT: &str = "/backups";
const DATA: &str = "/data";
/// 2026-11-24 10:00:00.
const BEGAN: i64 = 1_795_514_400_000_000;
const STEP: Duration = Duration::from_millis(3);

#[derive(Debug)]
struct OneKey(u8);

impl Keys for OneKey {
    fn key(&self, _: &str) -> Result<Key, KeyError> {
        Key::new(vec![self.0; 32])
    }
}

fn encryption(key: u8) -> Arc<dyn Encryption> {
    Arc::new(AesGcm::new(OneKey(key), Some("a".to_owned())).unwrap())
}

/// A database with an archived commit log, and what was executed in it.
struct World {
    fs: FakeFileSystem,
    clock: Arc<ManualClock>,
    encryption: Option<Arc<dyn Encryption>>,
    database: Option<Database>,
    archiver: Option<LogArchiver>,
    /// The time of each statement that succeeded.
    history: Vec<(i64, String)>,
}

impl World {
    fn new(encryption: Option<Arc<dyn Encryption>>) -> Self {
        let clock = Arc::new(ManualClock::at_micros(BEGAN));
        let fs = FakeFileSystem::new();
        let mut world = Self { fs, clock, encryption, database: None, archiver: None, history: Vec::new() };
        world.open();
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TYPE ks.pair (a int, b int)",
        ] {
            world.execute(cql).unwrap();
        }
        world
    }

    fn open(&mut self) {
        self.open_with(true);
    }

    fn open_with(&mut self, archiving: bool) {
        let mut options = Options::new(DATA);
        options.file_system = Arc::new(self.fs.clone());
        options.clock = self.clock.clone();
        options.materialized_views_enabled = true;
        options.engine.background_threads = false;
        options.engine.commitlog_sync = SyncMode::Batch;
        options.engine.commitlog_segment_size = 16 << 10;
        options.engine.commitlog_archiving = archiving;
        options.engine.commitlog_encryption = self.encryption.clone();
        self.database = Some(Database::open(options).unwrap());
    }

    fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    fn execute(&mut self, cql: &str) -> cassette_database::Result<()> {
        self.clock.advance(STEP);
        let now = cassette_vfs::Clock::now_micros(self.clock.as_ref());
        self.database().session().execute(cql, ())?;
        self.history.push((now, cql.to_owned()));
        Ok(())
    }

    fn repository(&self) -> Repository {
        Repository::open(Arc::new(self.fs.clone()), Path::new(ROOT)).unwrap()
    }

    fn back_up(&mut self, name: &str) {
        self.clock.advance(STEP);
        let options = BackupOptions { name: Some(name.to_owned()), ..BackupOptions::default() };
        self.repository().back_up(self.database(), &options).unwrap();
        self.clock.advance(STEP);
    }

    fn archive(&mut self) -> cassette_backup::Result<Archived> {
        self.clock.advance(STEP);
        let mut archiver = match self.archiver.take() {
            Some(archiver) => archiver,
            None => Repository::open(Arc::new(self.fs.clone()), Path::new(ROOT))?.archiver(),
        };
        let archived = archiver.archive(self.database());
        self.archiver = Some(archiver);
        archived
    }

    /// The machine crashes, and the database starts again.
    fn crash(&mut self, seed: u64) {
        let survivor = self.fs.crash(seed);
        self.restart_on(survivor);
    }

    fn restart_on(&mut self, fs: FakeFileSystem) {
        (self.database, self.archiver) = (None, None);
        self.fs = fs;
        self.open();
    }

    /// Restores into a new directory of a copy of the file system.
    fn restore(
        &self,
        until: Until,
        options: RestoreOptions,
    ) -> cassette_backup::Result<(Database, Restored)> {
        let fs = self.fs.fork();
        restore_on(&fs, until, &RestoreOptions { commitlog_encryption: self.encryption.clone(), ..options })
    }

    /// What the statements until `time` result in.
    fn expected(&self, time: i64) -> Vec<String> {
        let clock = Arc::new(ManualClock::at_micros(BEGAN));
        let mut options = Options::in_memory();
        options.clock = clock.clone();
        options.materialized_views_enabled = true;
        options.engine.background_threads = false;
        let database = Database::open(options).unwrap();
        let session = database.session();
        for (at, cql) in self.history.iter().take_while(|(at, _)| *at <= time) {
            clock.set_micros(*at);
            session.execute(cql, ()).unwrap();
        }
        content(&database)
    }
}

fn restore_on(
    fs: &FakeFileSystem,
    until: Until,
    options: &RestoreOptions,
) -> cassette_backup::Result<(Database, Restored)> {
    let restored = restore_only(fs, until, options)?;
    Ok((open_restored(fs), restored))
}

fn open_restored(fs: &FakeFileSystem) -> Database {
    let mut opening = Options::new("/restored");
    opening.file_system = Arc::new(fs.clone());
    opening.engine.background_threads = false;
    Database::open(opening).unwrap()
}

fn restore_only(
    fs: &FakeFileSystem,
    until: Until,
    options: &RestoreOptions,
) -> cassette_backup::Result<Restored> {
    let target = Path::new("/restored");
    let repository = Repository::open_for_reading(Arc::new(fs.clone()), Path::new(ROOT))?;
    let backup = repository.find_before(None, until)?;
    let options = RestoreOptions { until: Some(until), ..options.clone() };
    let restored = repository.restore_into_new(&backup, target, &options)?;
    assert!(!(fs as &dyn FileSystem).exists(&target.join("cassette-restore")).unwrap());
    Ok(restored)
}

/// The schema and all rows, also by index and view.
fn content(database: &Database) -> Vec<String> {
    let session = database.session();
    let mut found = Vec::new();
    let texts = |cql: &str, column: &str| -> Vec<String> {
        let rows = session.execute(cql, ()).unwrap();
        let mut texts: Vec<String> = rows.iter().map(|row| row.get::<String>(column).unwrap()).collect();
        texts.sort();
        texts
    };
    found.extend(texts("DESCRIBE KEYSPACE ks", "create_statement"));
    let catalog = database.catalog();
    let Some(keyspace) = catalog.keyspace("ks") else { return found };
    for table in keyspace.tables.keys() {
        found.push(table.clone());
        found.extend(texts(&format!("SELECT JSON * FROM ks.\"{table}\""), "[json]"));
    }
    for index in keyspace.indexes.values() {
        let table = &index.base().name;
        for value in 0..5 {
            found.push(format!("{} {value}", index.name));
            found.extend(texts(&format!("SELECT JSON k FROM ks.\"{table}\" WHERE v = {value}"), "[json]"));
        }
    }
    found
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Returns a statement, which may not be valid now.
fn statement(random: &mut Random) -> String {
    let table = format!("ks.t{}", random.below(3));
    let (k, v) = (random.below(8), random.below(5));
    match random.below(40) {
        0..=2 => format!("CREATE TABLE {table} (k int PRIMARY KEY, v int, s set<int>, p pair)"),
        3 => format!("DROP TABLE {table}"),
        4 | 5 => format!("TRUNCATE {table}"),
        6 => format!("ALTER TABLE {table} ADD x{} int", random.below(2)),
        7 => format!("ALTER TABLE {table} DROP x{}", random.below(2)),
        8 => format!("ALTER TABLE {table} WITH comment = 'c{v}'"),
        9 => format!("CREATE INDEX ON {table} (v)"),
        10 => "CREATE TABLE ks.counts (k int PRIMARY KEY, n counter)".to_owned(),
        11 | 12 => format!("UPDATE ks.counts SET n = n + {v} WHERE k = {k}"),
        13 => format!(
            "CREATE MATERIALIZED VIEW ks.w AS SELECT * FROM {table} WHERE v IS NOT NULL AND k IS NOT NULL \
             PRIMARY KEY (v, k)"
        ),
        14 => "DROP MATERIALIZED VIEW ks.w".to_owned(),
        15 | 16 => format!("DELETE FROM {table} WHERE k = {k}"),
        17 => format!("DELETE v FROM {table} WHERE k = {k}"),
        18 => format!("INSERT INTO {table} (k, v) VALUES ({k}, {v}) USING TIMESTAMP {}", random.below(9)),
        // A client whose clock is a day ahead.
        19 => format!(
            "INSERT INTO {table} (k, p) VALUES ({k}, {{a: {v}, b: 1}}) USING TIMESTAMP {}",
            BEGAN + 86_400_000_000
        ),
        20 => format!("UPDATE {table} SET s = s + {{{v}}} WHERE k = {k}"),
        21 => format!("INSERT INTO {table} (k, x{}) VALUES ({k}, {v})", random.below(2)),
        22 => format!("INSERT INTO {table} (k, v) VALUES ({k}, {v}) IF NOT EXISTS"),
        23 => format!(
            "BEGIN BATCH INSERT INTO {table} (k, v) VALUES ({k}, {v}); DELETE FROM ks.t0 WHERE k = {v}; APPLY BATCH"
        ),
        _ => format!("INSERT INTO {table} (k, v, s) VALUES ({k}, {v}, {{{v}, {k}}})"),
    }
}

/// Executes a random history, and compares restores of it. Returns the number of comparisons.
fn check_history(seed: u64) -> usize {
    let mut random = Random(seed);
    let mut world = World::new(seed.is_multiple_of(3).then(|| encryption(7)));
    world.back_up("first");
    let from = world.history.last().unwrap().0;
    for step in 0..120 {
        match random.below(30) {
            0 => world.back_up(&format!("b{step}")),
            1 | 2 => drop(world.archive().unwrap()),
            3 => drop(world.database().engine().flush(None)),
            4 => world.crash(random.below(1 << 20)),
            5 if random.below(3) == 0 => {
                world.database().close().unwrap();
                world.restart_on(world.fs.clone());
            }
            // Clean segments are removed from the log.
            6 => world.database().engine().flush(None).unwrap(),
            _ => drop(world.execute(&statement(&mut random))),
        }
    }
    world.archive().unwrap();
    let (mut compared, mut times) = (0, vec![Until::Latest]);
    for _ in 0..4 {
        let at = random.below(world.history.len() as u64) as usize;
        times.push(Until::Time(world.history[at].0 + random.below(2) as i64 * 1500));
    }
    for until in times {
        let time = match until {
            Until::Time(time) if time < from + 2 * STEP.as_micros() as i64 => continue,
            Until::Time(time) => time,
            Until::Latest => i64::MAX,
        };
        let (restored, _) = world.restore(until, RestoreOptions::default()).unwrap();
        assert_eq!(content(&restored), world.expected(time), "seed {seed}, until {until:?}");
        compared += 1;
    }
    compared
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let from = number("CASSETTE_BACKUP_SEED").unwrap_or(0);
    from..from + number("CASSETTE_BACKUP_SEEDS").unwrap_or(8)
}

#[test]
fn a_restore_has_exactly_what_was_acknowledged_until_the_chosen_moment() {
    let compared: usize = seeds().map(check_history).sum();
    assert!(compared > 0);
}

fn with_rows(encryption: Option<Arc<dyn Encryption>>) -> World {
    let mut world = World::new(encryption);
    world.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int)").unwrap();
    world.back_up("first");
    for k in 0..200 {
        world.execute(&format!("INSERT INTO ks.t (k, v) VALUES ({k}, {k})")).unwrap();
    }
    world
}

fn count(session: &Session) -> usize {
    session.execute("SELECT k FROM ks.t", ()).unwrap().len()
}

fn failed(world: &World, until: Until) -> String {
    world.restore(until, RestoreOptions::default()).unwrap_err().to_string()
}

/// The segments in the repository, by name.
fn segments(world: &World) -> Vec<std::path::PathBuf> {
    let fs: &dyn FileSystem = &world.fs;
    let log = Path::new(ROOT).join("log");
    let chain = log.join(&fs.read_dir(&log).unwrap()[0].name);
    let entries = fs.read_dir(&chain).unwrap();
    entries.iter().filter(|entry| entry.name.ends_with(".log")).map(|entry| chain.join(&entry.name)).collect()
}

fn id_of(segment: &Path) -> u64 {
    cassette_engine::commitlog::segment_id(segment.file_name().unwrap().to_str().unwrap()).unwrap()
}

#[test]
fn a_moment_that_is_not_archived_and_damaged_or_missing_segments_are_named() {
    let mut world = with_rows(None);
    assert!(failed(&world, Until::Latest).contains("nothing has been archived since the backup"));
    for k in 200..800 {
        world.execute(&format!("INSERT INTO ks.t (k, v) VALUES ({k}, {k})")).unwrap();
    }
    let archived = world.archive().unwrap();
    assert!(archived.segments > 1, "{archived}");
    let later = Until::Time(archived.until_micros + 1);
    assert!(failed(&world, later).contains("the commit log is archived until 2026-11-24T10:00:0"));
    assert!(failed(&world, Until::Time(BEGAN)).contains("expected a backup before 2026-11-24T10:00:00Z"));
    let position = world.repository().find(None).unwrap().manifest.log.unwrap();
    let mut found = segments(&world);
    found.retain(|segment| id_of(segment) >= position.segment);
    assert!(found.len() > 2, "{found:?}");
    for (at, segment) in found.iter().enumerate() {
        let original = world.fs.clone();
        world.fs = original.fork();
        world.fs.corrupt(segment, 200, 1);
        let error = world.restore(Until::Latest, RestoreOptions::default()).unwrap_err();
        assert!(matches!(&error, Error::Damaged { path, .. } if path == segment), "{error}");
        world.fs = original.fork();
        let fs: &dyn FileSystem = &world.fs;
        fs.remove_file(segment).unwrap();
        let error = world.restore(Until::Latest, RestoreOptions::default()).unwrap_err();
        assert!(matches!(&error, Error::Damaged { path, .. } if path == segment), "{error}");
        fs.remove_file(&segment.with_extension("json")).unwrap();
        let error = failed(&world, Until::Latest);
        let expected = match at {
            0 => "is missing after the backup",
            at if at + 1 == found.len() => "is missing at the end",
            _ => "is missing between",
        };
        assert!(error.contains(expected), "{error}");
        world.fs = original;
    }
}

#[test]
fn encrypted_segments_are_restored_with_their_key_only() {
    let mut world = with_rows(Some(encryption(7)));
    world.archive().unwrap();
    for (segment, text) in segments(&world).iter().zip(["without keys", "with keys"].iter().cycle()) {
        let bytes = (&world.fs as &dyn FileSystem).read(segment).unwrap();
        assert!(!bytes.windows(5).any(|window| window == b"ks.t\0"), "{text}");
    }
    let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
    assert_eq!(count(&restored.session()), 200);
    drop(restored);
    for keys in [None, Some(encryption(8))] {
        let fs = world.fs.fork();
        let options = RestoreOptions { commitlog_encryption: keys, ..RestoreOptions::default() };
        let error = restore_on(&fs, Until::Latest, &options).unwrap_err().to_string();
        assert!(error.contains("is encrypted and cannot be read"), "{error}");
        assert!(!(&fs as &dyn FileSystem).exists(Path::new("/restored")).unwrap());
    }
}

#[test]
fn a_log_that_was_not_archived_meanwhile_is_another_chain() {
    let mut world = with_rows(None);
    world.archive().unwrap();
    (world.database, world.archiver) = (None, None);
    world.open_with(false);
    world.execute("INSERT INTO ks.t (k, v) VALUES (1000, 1)").unwrap();
    world.database().engine().flush(None).unwrap();
    world.restart_on(world.fs.clone());
    world.execute("INSERT INTO ks.t (k, v) VALUES (1001, 1)").unwrap();
    world.archive().unwrap();
    // The first chain ends before the row that was not archived.
    let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
    assert_eq!(count(&restored.session()), 200);
    let end = world.history.last().unwrap().0;
    assert!(failed(&world, Until::Time(end)).contains("the commit log is archived until"));
    drop(restored);
    world.back_up("second");
    world.execute("INSERT INTO ks.t (k, v) VALUES (1002, 1)").unwrap();
    world.archive().unwrap();
    let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
    assert_eq!(count(&restored.session()), 203);
}

#[test]
fn removing_a_backup_removes_the_segments_that_no_other_needs() {
    let mut world = with_rows(None);
    world.archive().unwrap();
    world.back_up("second");
    world.execute("INSERT INTO ks.t (k, v) VALUES (1000, 1)").unwrap();
    world.archive().unwrap();
    let before = segments(&world).len();
    world.repository().remove("first").unwrap();
    let after = segments(&world).len();
    assert!(after < before, "{after} of {before} segments");
    let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
    assert_eq!(count(&restored.session()), 201);
    drop(restored);
    world.repository().remove("second").unwrap();
    assert!(segments(&world).is_empty());
}

#[test]
fn single_tables_are_restored_to_a_moment_and_imports_are_reported() {
    let mut world = with_rows(None);
    world.execute("CREATE TABLE ks.other (k int PRIMARY KEY)").unwrap();
    let backup = world.repository().find(Some("first")).unwrap();
    let options = RestoreOptions { names: vec!["ks.t".to_owned()], ..RestoreOptions::default() };
    world.repository().restore(&backup, world.database(), &options).unwrap();
    world.archive().unwrap();
    let (restored, report) = world.restore(Until::Latest, options.clone()).unwrap();
    assert_eq!(count(&restored.session()), 200);
    assert!(restored.catalog().table("ks", "other").is_none());
    // The backup of an empty table has no SSTables to import.
    assert!(report.warnings.is_empty(), "{report:?}");
    drop(restored);
    world.back_up("second");
    let backup = world.repository().find(Some("second")).unwrap();
    world.repository().restore(&backup, world.database(), &options).unwrap();
    world.archive().unwrap();
    let (restored, report) = world.restore(Until::Latest, options).unwrap();
    assert_eq!(count(&restored.session()), 200);
    assert!(
        report.warnings[0].starts_with("ks.t: SSTables that were imported after backup second"),
        "{report:?}"
    );
}

#[test]
fn after_a_crash_at_any_operation_of_archiving_nothing_acknowledged_is_lost() {
    let original = {
        let mut world = with_rows(None);
        world.database().engine().flush(None).unwrap();
        world.execute("INSERT INTO ks.t (k, v) VALUES (1000, 1)").unwrap();
        world
    };
    let mut failures = 0;
    for at in 1.. {
        let mut world = World {
            fs: original.fs.crash(0),
            clock: original.clock.clone(),
            encryption: None,
            database: None,
            archiver: None,
            history: Vec::new(),
        };
        world.open();
        world.fs.fail_from(world.fs.operations() + at);
        let archived = world.archive();
        failures += usize::from(archived.is_err());
        // What is in the repository is the old state or the new one.
        let survivor = world.fs.crash(at);
        if archived.is_ok() {
            let (restored, _) =
                restore_on(&survivor.fork(), Until::Latest, &RestoreOptions::default()).unwrap();
            assert_eq!(count(&restored.session()), 201);
        }
        world.restart_on(survivor);
        world.archive().unwrap();
        let (restored, _) = world.restore(Until::Latest, RestoreOptions::default()).unwrap();
        assert_eq!(count(&restored.session()), 201, "failing from operation {at}");
        if archived.is_ok() {
            break;
        }
    }
    assert!(failures > 20, "{failures}");
}

#[test]
fn after_a_crash_at_any_operation_a_directory_restored_to_a_moment_is_complete_or_absent() {
    let mut world = with_rows(None);
    world.archive().unwrap();
    let (mut completed, mut absent, mut at) = (0, 0, 1);
    loop {
        let fs = world.fs.fork();
        fs.fail_from(fs.operations() + at);
        let restored = restore_only(&fs, Until::Latest, &RestoreOptions::default());
        let survivor = fs.crash(at);
        let exists = survivor.metadata(Path::new("/restored")).is_ok();
        assert!(exists || restored.is_err(), "a reported restore must exist (failing from operation {at})");
        if exists {
            assert_eq!(count(&open_restored(&survivor).session()), 200);
            completed += 1;
        } else {
            let (restored, _) = restore_on(&survivor, Until::Latest, &RestoreOptions::default()).unwrap();
            assert_eq!(count(&restored.session()), 200);
            absent += 1;
        }
        if restored.is_ok() {
            break;
        }
        at += 41;
    }
    assert!(completed > 0 && absent > 20, "{completed} completed, {absent} absent");
}
