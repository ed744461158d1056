//! A database with an archived commit log, the history of its statements, and what it restores to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cassette_backup::{
    Archived, BackupKeys, BackupOptions, Location, LogArchiver, Repository, RestoreOptions, Restored, Until,
};
use cassette_database::{Database, Options};
use cassette_encryption::{AesGcm, Key, KeyError, Keys};
use cassette_engine::commitlog::SyncMode;
use cassette_vfs::encryption::Encryption;
use cassette_vfs::{FakeFileSystem, FileSystem, ManualClock};

pub(super) const ROOT: &str = "/backups";
pub(super) const DATA: &str = "/data";
/// 2026-11-24 10:00:00.
pub(super) const BEGAN: i64 = 1_795_514_400_000_000;
pub(super) const STEP: Duration = Duration::from_millis(3);

#[derive(Debug)]
struct OneKey(u8);

impl Keys for OneKey {
    fn key(&self, _: &str) -> Result<Key, KeyError> {
        Key::new(vec![self.0; 32])
    }
}

pub(super) fn encryption(key: u8) -> Arc<dyn Encryption> {
    Arc::new(AesGcm::new(OneKey(key), Some("a".to_owned())).unwrap())
}

/// A database with an archived commit log, and what was executed in it.
pub(super) struct World {
    pub(super) fs: FakeFileSystem,
    pub(super) clock: Arc<ManualClock>,
    pub(super) encryption: Option<Arc<dyn Encryption>>,
    pub(super) database: Option<Database>,
    pub(super) archiver: Option<LogArchiver>,
    /// The keys of encrypted backups.
    pub(super) keys: Option<BackupKeys>,
    /// The time of each statement that succeeded.
    pub(super) history: Vec<(i64, String)>,
}

impl World {
    pub(super) fn new(encryption: Option<Arc<dyn Encryption>>) -> Self {
        let clock = Arc::new(ManualClock::at_micros(BEGAN));
        let fs = FakeFileSystem::new();
        let mut world =
            Self { fs, clock, encryption, database: None, archiver: None, keys: None, history: Vec::new() };
        world.open();
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TYPE ks.pair (a int, b int)",
        ] {
            world.execute(cql).unwrap();
        }
        world
    }

    pub(super) fn open(&mut self) {
        self.open_with(true);
    }

    pub(super) fn open_with(&mut self, archiving: bool) {
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

    pub(super) fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    pub(super) fn execute(&mut self, cql: &str) -> cassette_database::Result<()> {
        self.clock.advance(STEP);
        let now = cassette_vfs::Clock::now_micros(self.clock.as_ref());
        self.database().session().execute(cql, ())?;
        self.history.push((now, cql.to_owned()));
        Ok(())
    }

    pub(super) fn location(&self) -> Location {
        Location { address: ROOT.to_owned(), keys: self.keys.clone() }
    }

    pub(super) fn open_repository(&self) -> cassette_backup::Result<Repository> {
        Repository::open_at(Arc::new(self.fs.clone()), &self.location())
    }

    pub(super) fn repository(&self) -> Repository {
        self.open_repository().unwrap()
    }

    pub(super) fn back_up(&mut self, name: &str) {
        self.try_back_up(name).unwrap();
    }

    pub(super) fn try_back_up(&mut self, name: &str) -> cassette_backup::Result<()> {
        self.clock.advance(STEP);
        let options = BackupOptions { name: Some(name.to_owned()), ..BackupOptions::default() };
        self.open_repository()?.back_up(self.database(), &options)?;
        self.clock.advance(STEP);
        Ok(())
    }

    pub(super) fn archive(&mut self) -> cassette_backup::Result<Archived> {
        self.clock.advance(STEP);
        let mut archiver = match self.archiver.take() {
            Some(archiver) => archiver,
            None => self.open_repository()?.archiver(),
        };
        let archived = archiver.archive(self.database());
        self.archiver = Some(archiver);
        archived
    }

    /// The machine crashes, and the database starts again.
    pub(super) fn crash(&mut self, seed: u64) {
        let survivor = self.fs.crash(seed);
        self.restart_on(survivor);
    }

    pub(super) fn restart_on(&mut self, fs: FakeFileSystem) {
        (self.database, self.archiver) = (None, None);
        self.fs = fs;
        self.open();
    }

    /// Restores into a new directory of a copy of the file system.
    pub(super) fn restore(
        &self,
        until: Until,
        options: RestoreOptions,
    ) -> cassette_backup::Result<(Database, Restored)> {
        let fs = self.fs.fork();
        let options = RestoreOptions { commitlog_encryption: self.encryption.clone(), ..options };
        let restored = restore_at(&fs, &self.location(), until, &options)?;
        Ok((open_restored(&fs), restored))
    }

    /// What the statements until `time` result in.
    pub(super) fn expected(&self, time: i64) -> Vec<String> {
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

pub(super) fn restore_on(
    fs: &FakeFileSystem,
    until: Until,
    options: &RestoreOptions,
) -> cassette_backup::Result<(Database, Restored)> {
    let restored = restore_only(fs, until, options)?;
    Ok((open_restored(fs), restored))
}

pub(super) fn open_restored(fs: &FakeFileSystem) -> Database {
    let mut opening = Options::new("/restored");
    opening.file_system = Arc::new(fs.clone());
    opening.engine.background_threads = false;
    Database::open(opening).unwrap()
}

pub(super) fn restore_only(
    fs: &FakeFileSystem,
    until: Until,
    options: &RestoreOptions,
) -> cassette_backup::Result<Restored> {
    restore_at(fs, &Location::plain(ROOT), until, options)
}

pub(super) fn restore_at(
    fs: &FakeFileSystem,
    location: &Location,
    until: Until,
    options: &RestoreOptions,
) -> cassette_backup::Result<Restored> {
    let target = Path::new("/restored");
    let repository = Repository::open_at_for_reading(Arc::new(fs.clone()), location)?;
    let backup = repository.find_before(None, until)?;
    let options = RestoreOptions { until: Some(until), ..options.clone() };
    let restored = repository.restore_into_new(&backup, target, &options)?;
    let names: Vec<String> =
        fs.read_dir(Path::new("/")).unwrap().into_iter().map(|entry| entry.name).collect();
    assert!(!names.iter().any(|name| name.contains(".downloads")), "{names:?}");
    Ok(restored)
}

/// The schema and all rows, also by index and view.
pub(super) fn content(database: &Database) -> Vec<String> {
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
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Returns a statement, which may not be valid now.
pub(super) fn statement(random: &mut Random) -> String {
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
