//! Crashes within operations: a random history with a crash of the machine at a random operation of
//! the file system in every third step, and in every restore. Afterwards each backup exists
//! completely or not at all, the archived log has everything that was acknowledged, and what is
//! restored is exactly what the statements until then result in.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use cassette_backup::Backup;
use cassette_database::Database;
use cassette_vfs::FakeFileSystem;

use super::*;

const STEPS: usize = 36;

/// A history with crashes.
struct Run {
    seed: u64,
    random: Random,
    world: World,
    /// The backups that were reported, and the time of each.
    backups: BTreeMap<String, i64>,
    crashes: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed.is_multiple_of(3).then(|| encryption(7)));
        if seed % 4 > 1 {
            world.keys = Some(BackupKeys::parse(&format!("a {}\n", "09".repeat(32))).unwrap());
        }
        let mut run = Self { seed, random: Random(seed), world, backups: BTreeMap::new(), crashes: 0 };
        run.world.back_up("first");
        run.backups.insert("first".to_owned(), run.now());
        run
    }

    fn now(&self) -> i64 {
        cassette_vfs::Clock::now_micros(self.world.clock.as_ref())
    }

    /// Makes operations fail from a random one on. Returns false if they do not fail this time.
    fn arm(&mut self, fs: &FakeFileSystem) -> bool {
        if self.random.below(3) > 0 {
            return false;
        }
        // Early operations of short commands and late ones of long commands.
        let reach = 1 << self.random.below(10);
        fs.fail_from(fs.operations() + 1 + self.random.below(reach));
        true
    }

    /// Crashes the machine if operations were to fail, and checks the backups.
    fn recover(&mut self, is_armed: bool, uncertain: Option<&str>) {
        if !is_armed {
            return;
        }
        self.crashes += 1;
        let crash = self.random.below(1 << 20);
        self.world.crash(crash);
        let repository = self.world.repository();
        let found = repository.backups().unwrap();
        let names: Vec<&str> = found.iter().map(|backup| backup.name.as_str()).collect();
        for backup in &found {
            repository.verify(backup).unwrap();
            let is_known = self.backups.contains_key(&backup.name) || uncertain == Some(&backup.name);
            assert!(is_known, "seed {}: {} in {names:?}", self.seed, backup.name);
        }
        for name in self.backups.keys() {
            let exists = names.contains(&name.as_str());
            assert!(exists || uncertain == Some(name), "seed {}: {name} not in {names:?}", self.seed);
        }
    }

    fn step(&mut self, number: usize) {
        match self.random.below(16) {
            0 | 1 => self.back_up(&format!("b{number}")),
            2 => self.remove(),
            3 | 4 => {
                let is_armed = self.arm(&self.world.fs.clone());
                let archived = self.world.archive();
                assert!(is_armed || archived.is_ok(), "seed {}: {archived:?}", self.seed);
                self.recover(is_armed, None);
            }
            5 => {
                let is_armed = self.arm(&self.world.fs.clone());
                let flushed = self.world.database().engine().flush(None);
                assert!(is_armed || flushed.is_ok());
                self.recover(is_armed, None);
            }
            6 => {
                self.world.database().close().unwrap();
                self.world.restart_on(self.world.fs.clone());
            }
            7 => self.write_and_crash(),
            _ => drop(self.world.execute(&statement(&mut self.random))),
        }
    }

    fn back_up(&mut self, name: &str) {
        let is_armed = self.arm(&self.world.fs.clone());
        let time = self.now();
        let done = self.world.try_back_up(name);
        assert!(is_armed || done.is_ok(), "seed {}: {done:?}", self.seed);
        if done.is_ok() {
            self.backups.insert(name.to_owned(), time);
        }
        self.recover(is_armed, Some(name));
        if done.is_err() && self.world.repository().find(Some(name)).is_ok() {
            self.backups.insert(name.to_owned(), time);
        }
    }

    fn remove(&mut self) {
        // One is left.
        let Some(name) = self.backups.keys().next().filter(|_| self.backups.len() > 1).cloned() else {
            return;
        };
        let is_armed = self.arm(&self.world.fs.clone());
        let removed = self.world.open_repository().and_then(|repository| repository.remove(&name));
        assert!(is_armed || removed.is_ok(), "seed {}: {removed:?}", self.seed);
        self.recover(is_armed, Some(&name));
        let exists = self.world.repository().find(Some(&name)).is_ok();
        assert!(!exists || removed.is_err(), "seed {}: {name} was removed", self.seed);
        if !exists {
            self.backups.remove(&name);
        }
    }

    /// A statement that a crash interrupts: it has been executed or not.
    fn write_and_crash(&mut self) {
        let cql = statement(&mut self.random);
        // The event of a truncation in the archived log follows the truncation: docs/backup.md.
        if cql.starts_with("TRUNCATE") {
            return;
        }
        let fs = self.world.fs.clone();
        fs.fail_from(fs.operations() + 1 + self.random.below(12));
        let before = self.world.history.len();
        let executed = self.world.execute(&cql);
        let time = self.now();
        self.recover(true, None);
        if executed.is_ok() {
            return;
        }
        let found = content(self.world.database());
        if found != self.world.expected(i64::MAX) {
            self.world.history.insert(before, (time, cql.clone()));
            assert_eq!(found, self.world.expected(i64::MAX), "seed {}: {cql}", self.seed);
        }
    }

    /// Restores on a copy of the file system, after an attempt that a crash interrupts.
    fn check_restore(
        &mut self,
        expected: &[String],
        what: &str,
        restore: impl Fn(&FakeFileSystem) -> cassette_backup::Result<()>,
    ) {
        let mut fs = self.world.fs.fork();
        let reach = 1 << (4 + self.random.below(8));
        fs.fail_from(fs.operations() + 1 + self.random.below(reach));
        let interrupted = restore(&fs);
        fs = fs.crash(self.random.below(1 << 20));
        self.crashes += 1;
        let exists = (&fs as &dyn FileSystem).exists(Path::new("/restored")).unwrap();
        assert!(exists || interrupted.is_err(), "seed {}: {what}", self.seed);
        if !exists {
            restore(&fs).unwrap_or_else(|error| panic!("seed {}: {what}: {error}", self.seed));
        }
        let seed = self.seed;
        assert_eq!(content(&open_restored(&fs)), expected, "seed {seed}: {what}, at once: {exists}");
    }

    fn check_restores(&mut self) {
        self.world.archive().unwrap();
        let location = self.world.location();
        let options = RestoreOptions {
            commitlog_encryption: self.world.encryption.clone(),
            ..RestoreOptions::default()
        };
        let mut moments = vec![Until::Latest];
        for _ in 0..2 {
            let at = self.random.below(self.world.history.len() as u64) as usize;
            moments.push(Until::Time(self.world.history[at].0));
        }
        for until in moments {
            let time = match until {
                Until::Time(time) => time,
                Until::Latest => i64::MAX,
            };
            if self.world.repository().find_before(None, until).is_err() {
                continue;
            }
            let expected = self.world.expected(time);
            self.check_restore(&expected, &format!("{until:?}"), |fs| {
                restore_at(fs, &location, until, &options).map(drop)
            });
        }
        let Some((name, time)) = self.backups.iter().next_back().map(|(name, time)| (name.clone(), *time))
        else {
            return;
        };
        let expected = self.world.expected(time);
        let backup = self.world.repository().find(Some(&name)).unwrap();
        self.check_restore(&expected, &name, |fs| {
            let repository = Repository::open_at_for_reading(Arc::new(fs.clone()), &location)?;
            repository.restore_into_new(&backup, Path::new("/restored"), &RestoreOptions::default()).map(drop)
        });
        self.check_replacement(&backup, time);
    }

    /// Replaces the rows of tables in a copy, interrupted by a crash: each table has its rows or
    /// those of the backup.
    fn check_replacement(&mut self, backup: &Backup, time: i64) {
        let present = self.world.expected(i64::MAX);
        let earlier = self.world.expected(time);
        self.world.database().close().unwrap();
        let fs = self.world.fs.fork();
        let open = |fs: &FakeFileSystem| {
            let mut options = cassette_database::Options::new(DATA);
            options.file_system = Arc::new(fs.clone());
            options.clock = self.world.clock.clone();
            options.materialized_views_enabled = true;
            options.engine.background_threads = false;
            options.engine.commitlog_archiving = true;
            options.engine.commitlog_encryption = self.world.encryption.clone();
            Database::open(options).unwrap()
        };
        let table = backup.manifest.tables.iter().find(|table| table.table == "t1");
        let Some(table) = table.map(cassette_backup::TableRecord::qualified_name) else { return };
        let database = open(&fs);
        let options = RestoreOptions { names: vec![table], truncate: true, ..RestoreOptions::default() };
        let reach = 1 << (3 + self.random.below(7));
        fs.fail_from(fs.operations() + 1 + self.random.below(reach));
        let restored = Repository::open_at_for_reading(Arc::new(fs.clone()), &self.world.location())
            .and_then(|repository| repository.restore(backup, &database, &options));
        drop(database);
        let database = open(&fs.crash(self.random.below(1 << 20)));
        self.crashes += 1;
        let rows = |content: &[String], table: &str| -> Vec<String> {
            let mut of_table = content.iter().skip_while(|line| *line != table).skip(1);
            of_table.by_ref().take_while(|line| line.starts_with('{')).cloned().collect()
        };
        let found = content(&database);
        let (now, is, was) = (rows(&found, "t1"), rows(&present, "t1"), rows(&earlier, "t1"));
        let is_replaced = values(&now) == values(&was);
        assert!(is_replaced || restored.is_err(), "seed {}: {now:?}, {was:?}", self.seed);
        assert!(is_replaced || now == is, "seed {}: {now:?}, {is:?}, {was:?}", self.seed);
        for other in ["t0", "t2"] {
            assert_eq!(rows(&found, other), rows(&present, other), "seed {}", self.seed);
        }
    }
}

/// The columns that all versions of a table have.
fn values(rows: &[String]) -> Vec<String> {
    let column = |row: &str, name: &str| {
        let (_, rest) = row.split_once(&format!("\"{name}\": "))?;
        Some(rest.split([',', '}']).next()?.to_owned())
    };
    rows.iter().map(|row| format!("{:?} {:?}", column(row, "k"), column(row, "v"))).collect()
}

fn run(seed: u64) -> u64 {
    let mut run = Run::new(seed);
    for number in 0..STEPS {
        run.step(number);
    }
    run.check_restores();
    run.crashes
}

/// `CASSETTE_BACKUP_CRASHES` seeds from `CASSETTE_BACKUP_SEED`, by two threads.
#[test]
fn a_crash_within_any_operation_leaves_the_old_state_or_the_new_one() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let (from, count) = (number("CASSETTE_BACKUP_SEED", 0), number("CASSETTE_BACKUP_CRASHES", 12));
    let (next, crashes) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        break;
                    }
                    crashes.fetch_add(run(from + at), Ordering::Relaxed);
                }
            });
        }
    });
    let crashes = crashes.into_inner();
    println!("{count} histories, {crashes} crashes");
    assert!(crashes > count);
}
