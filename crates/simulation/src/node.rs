//! The node under test, its disk and its clock.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use cassette_database::{Database, Options};
use cassette_encryption::{AesGcm, Key, KeyError, Keys};
use cassette_engine::commitlog::SyncMode;
use cassette_vfs::encryption::Encryption;
use cassette_vfs::{Clock, FakeFileSystem, ManualClock, OperationKind};
use parking_lot::{Mutex, MutexGuard};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::profile::Profile;

/// Faults of the file system.
#[derive(Default)]
struct Faults {
    /// From this operation on the machine is dead: operations have no effect.
    dead_from: Option<u64>,
    /// Operations fail occasionally.
    errors: Option<Errors>,
    /// Maximum duration of an operation, microseconds.
    slow: Option<(SmallRng, u64)>,
    /// Operations take no time for now.
    is_fast: bool,
    is_dead: bool,
}

/// Operations that fail occasionally.
pub struct Errors {
    /// Selects the failing operations.
    pub random: SmallRng,
    /// One in this many operations fails.
    pub one_in: u32,
    /// Kinds that fail; all if empty.
    pub kinds: Vec<OperationKind>,
}

/// The node: the machine, and the process that runs on it, if any.
pub struct Node {
    profile: Profile,
    fs: FakeFileSystem,
    clock: Arc<ManualClock>,
    faults: Arc<Mutex<Faults>>,
    database: Option<Database>,
    /// A fault was injected in this process lifetime, so operations may fail.
    tainted: bool,
    /// The disk has less space than the node may need.
    is_full: bool,
    /// Files are damaged: any read may fail.
    expects_failures: bool,
    /// The latest time that the wall clock has shown.
    latest_micros: i64,
    /// The commit log failed in this process lifetime while the machine was alive.
    log_failed: bool,
}

/// How a process lifetime ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The process receives SIGTERM and closes its files.
    Stopped,
    /// The process is killed.
    Killed,
    /// The machine crashes; the seed determines which unsynced bytes and names survive.
    Crashed(u64),
}

impl Node {
    /// A machine with an empty disk, on which no process runs yet.
    pub fn new(profile: Profile) -> Self {
        let node = Self {
            fs: FakeFileSystem::new(),
            clock: Arc::new(ManualClock::at_micros(1_700_000_000_000_000)),
            faults: Arc::default(),
            database: None,
            tainted: false,
            is_full: false,
            expects_failures: false,
            latest_micros: 0,
            profile,
            log_failed: false,
        };
        node.install();
        node
    }

    /// Injects faults into the current file system.
    fn install(&self) {
        let (faults, clock) = (Arc::clone(&self.faults), Arc::clone(&self.clock));
        self.fs.set_lying(self.profile.lying_disk);
        self.fs.fail_when(move |operation| {
            let mut faults = faults.lock();
            if faults.dead_from.is_some_and(|from| operation.number >= from) {
                faults.is_dead = true;
                return Some(io::ErrorKind::Other);
            }
            let is_fast = faults.is_fast;
            if let Some((random, most)) = &mut faults.slow
                && !is_fast
            {
                clock.advance(Duration::from_micros(random.random_range(0..=*most)));
            }
            let errors = faults.errors.as_mut()?;
            let hits = (errors.kinds.is_empty() || errors.kinds.contains(&operation.kind))
                && errors.random.random_range(0..errors.one_in) == 0;
            hits.then_some(io::ErrorKind::Other)
        });
    }

    /// The options of the database.
    fn options(&self) -> Options {
        let profile = &self.profile;
        let options = Options::new("/data");
        Options {
            file_system: Arc::new(self.fs.clone()),
            clock: self.clock.clone(),
            materialized_views_enabled: true,
            engine: cassette_engine::Options {
                background_threads: false,
                commitlog_sync: profile.sync,
                commitlog_segment_size: profile.segment_size,
                commitlog_encryption: Some(encryption(profile.encrypts)),
                commitlog_total_space: u64::from(profile.segment_size) * 4,
                memtable_heap_space: profile.memtable_space,
                file_cache_size: 16 << 20,
                row_cache_size: profile.row_cache,
                key_cache_size: 1 << 20,
                counter_cache_size: 1 << 20,
                compaction_throughput: 0,
                auto_snapshot: profile.auto_snapshot,
                ..options.engine
            },
            ..options
        }
    }

    /// Starts the process.
    pub fn start(&mut self) -> Result<(), String> {
        if !self.profile.clock_back_across_lives {
            self.clock.set_micros(self.clock.now_micros().max(self.latest_micros));
        }
        let may_fail = self.faults().errors.is_some();
        self.tainted = may_fail || self.expects_failures;
        self.log_failed = false;
        let database = Database::open(self.options()).map_err(|error| error.to_string())?;
        self.database = Some(database);
        Ok(())
    }

    /// Records whether the commit log has failed. A flush may still succeed afterwards, so that a
    /// crash preserves later writes of one table without earlier ones of another.
    pub fn note_log_failure(&mut self) {
        let has_failed =
            self.database.as_ref().is_some_and(|database| database.engine().log_failure().is_some());
        self.log_failed |= has_failed && !self.is_dead();
    }

    /// Returns whether the commit log had failed before the machine crashed, if it did.
    pub fn has_log_failed(&self) -> bool {
        self.log_failed
    }

    /// Makes the process close its files.
    pub fn stop(&mut self) -> Result<(), String> {
        let database = self.database.take();
        database.map_or(Ok(()), |database| database.close().map_err(|error| error.to_string()))
    }

    /// Ends the process, if it still runs, and restarts the machine without faults.
    pub fn end(&mut self, end: End) {
        self.note_time();
        self.database = None;
        self.fs = match end {
            End::Stopped | End::Killed => self.fs.kill(),
            End::Crashed(seed) => self.fs.crash(seed),
        };
        self.fs.set_capacity(u64::MAX);
        self.is_full = false;
        *self.faults() = Faults::default();
        self.install();
    }

    /// The running database.
    pub fn database(&self) -> Result<&Database, String> {
        self.database.as_ref().ok_or_else(|| "the node is not running".to_owned())
    }

    /// Seconds since 1970.
    pub fn now_seconds(&self) -> i64 {
        self.clock.now_seconds()
    }

    /// Sets the wall clock, forwards or back.
    pub fn set_clock(&mut self, by_seconds: i64) {
        self.note_time();
        self.clock.set_micros(self.clock.now_micros() + by_seconds * 1_000_000);
    }

    fn note_time(&mut self) {
        self.latest_micros = self.latest_micros.max(self.clock.now_micros());
    }

    /// The clock.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// The file system.
    pub fn fs(&self) -> &FakeFileSystem {
        &self.fs
    }

    /// Makes the machine crash after this many more operations.
    pub fn die_after(&mut self, operations: u64) {
        self.faults().dead_from = Some(self.fs.operations() + 1 + operations);
    }

    /// Returns whether the machine has crashed.
    pub fn is_dead(&self) -> bool {
        self.faults().is_dead
    }

    /// Makes operations fail occasionally.
    pub fn fail(&mut self, errors: Errors) {
        self.tainted = true;
        self.faults().errors = Some(errors);
    }

    /// Limits the free space of the disk.
    pub fn fill_disk(&mut self, left: u64) {
        self.tainted = true;
        self.is_full = true;
        self.fs.set_capacity(self.fs.used() + left);
    }

    /// Makes every operation take up to this many microseconds.
    pub fn slow_down(&mut self, seed: u64, most_micros: u64) {
        self.faults().slow = Some((SmallRng::seed_from_u64(seed), most_micros));
    }

    /// Pauses the durations of operations.
    pub fn set_fast(&mut self, is_fast: bool) {
        self.faults().is_fast = is_fast;
    }

    /// Ends errors and restores the free space.
    pub fn heal(&mut self) {
        self.fs.set_capacity(u64::MAX);
        self.is_full = false;
        self.faults().errors = None;
    }

    /// Permits all operations to fail from now on, because files are damaged.
    pub fn expect_failures(&mut self) {
        self.expects_failures = true;
    }

    /// Returns whether operations may fail now.
    pub fn is_failing(&self) -> bool {
        let faults = self.faults();
        self.expects_failures || faults.is_dead || faults.errors.is_some() || self.is_full
    }

    /// Returns whether a fault was injected in this process lifetime.
    pub fn is_tainted(&self) -> bool {
        self.tainted || self.faults().is_dead
    }

    /// Returns whether acknowledged writes survive a crash of the machine.
    pub fn syncs_every_write(&self) -> bool {
        !matches!(self.profile.sync, SyncMode::Periodic { .. })
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock()
    }
}

#[derive(Debug)]
struct TheKey;

impl Keys for TheKey {
    fn key(&self, _: &str) -> Result<Key, KeyError> {
        Key::new(vec![7; 32])
    }
}

/// Encrypts new segments if `encrypts`. Salts repeat from run to run, so that seeds do.
fn encryption(encrypts: bool) -> Arc<dyn Encryption> {
    let number = AtomicU8::new(0);
    let salts = move || [number.fetch_add(1, Ordering::Relaxed); 32];
    let aes = AesGcm::new(TheKey, encrypts.then(|| "key".to_owned()));
    Arc::new(aes.expect("a key for every alias").with_salts(salts))
}
