//! Backups and archiving in the background of a server.
//!
//! A failure is counted, logged and shown, and the next attempt follows: nothing here stops the
//! database. While the repository cannot be reached, segments of the commit log stay in the data
//! directory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use cassette_database::Database;
use cassette_vfs::FileSystem;
use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};

use crate::create::{BackupOptions, Transfer};
use crate::error::{Error, Result};
use crate::keys::BackupKeys;
use crate::log::{Archived, LogArchiver};
use crate::opening::Location;
use crate::repository::Repository;

/// The prefix of the names of scheduled backups: only these are removed.
const PREFIX: &str = "auto-";
/// The interval between attempts after a failure, unless the period is shorter.
const RETRY: Duration = Duration::from_secs(60);

/// Returns the keys of encrypted backups. Called for each operation, so that keys can be replaced.
pub type KeySource = Box<dyn Fn() -> Result<Option<BackupKeys>> + Send + Sync>;

/// What is done in the background.
pub struct ServiceOptions {
    /// The repository, which exists. Contains no credentials.
    pub repository: String,
    /// The keys of an encrypted one.
    pub keys: KeySource,
    /// The file system of the repository, and of the database.
    pub file_system: Arc<dyn FileSystem>,
    /// How often the commit log is archived; `None` if it is not.
    pub archive_period: Option<Duration>,
    /// How often a backup is created; `None` for none.
    pub backup_period: Option<Duration>,
    /// The number of scheduled backups to keep; `None` for all.
    pub keep: Option<usize>,
    /// How new files of scheduled backups are transferred.
    pub transfer: Transfer,
}

/// The state of backups and archiving.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceStatus {
    /// The repository.
    pub repository: String,
    /// Scheduled backups.
    pub backups: TaskStatus,
    /// Archiving of the commit log.
    pub archive: TaskStatus,
    /// The name of the last scheduled backup.
    pub last_backup: Option<String>,
    /// Everything acknowledged before this is archived, microseconds since 1970.
    pub archived_until_micros: Option<i64>,
    /// Segments archived since the start.
    pub archived_segments: u64,
    /// Their bytes.
    pub archived_bytes: u64,
}

/// The state of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskStatus {
    /// Its period; `None` if it is disabled.
    pub period: Option<Duration>,
    /// Completed attempts since the start.
    pub completed: u64,
    /// Failed attempts since the start.
    pub failed: u64,
    /// The end of the last completed attempt, milliseconds since 1970.
    pub completed_at_millis: Option<i64>,
    /// The error of the last attempt, if it failed.
    pub error: Option<String>,
}

struct Shared {
    database: Database,
    options: ServiceOptions,
    archiver: Mutex<Option<(Option<String>, LogArchiver)>>,
    /// Held while the repository is open for changes, which excludes others.
    changing: Mutex<()>,
    status: Mutex<ServiceStatus>,
    stopping: Mutex<bool>,
    stopped: Condvar,
}

/// Backups and archiving of one database, by threads that end when it is stopped or dropped.
pub struct BackupService {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for BackupService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupService").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl BackupService {
    /// Starts the threads of the enabled tasks.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(database: Database, options: ServiceOptions) -> std::io::Result<Self> {
        let task = |period: Option<Duration>| TaskStatus { period, ..TaskStatus::default() };
        let status = ServiceStatus {
            repository: options.repository.clone(),
            backups: task(options.backup_period),
            archive: task(options.archive_period),
            ..ServiceStatus::default()
        };
        let (archive, backup) = (options.archive_period, options.backup_period);
        let shared = Arc::new(Shared {
            database,
            options,
            archiver: Mutex::default(),
            changing: Mutex::default(),
            status: Mutex::new(status),
            stopping: Mutex::new(false),
            stopped: Condvar::new(),
        });
        let service = Self { shared, threads: Mutex::default() };
        if let Some(period) = archive {
            service.spawn("backup-archive", period, Shared::archive_due)?;
        }
        if let Some(period) = backup {
            service.spawn("backup-schedule", period, Shared::back_up_due)?;
        }
        Ok(service)
    }

    fn spawn(&self, name: &'static str, period: Duration, task: fn(&Shared) -> bool) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let run = move || {
            let mut wait = period;
            while !shared.is_stopped_within(wait) {
                let done = catch_unwind(AssertUnwindSafe(|| task(&shared))).unwrap_or_else(|_| {
                    tracing::error!(thread = name, "a backup has panicked; the next attempt follows");
                    false
                });
                wait = if done { period } else { RETRY.min(period) };
            }
        };
        self.threads.lock().push(Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }

    /// Returns the state.
    pub fn status(&self) -> ServiceStatus {
        self.shared.status.lock().clone()
    }

    /// Returns the keys of the configured repository, if `address` is that.
    ///
    /// # Errors
    /// Invalid, if they cannot be read.
    pub fn keys_of(&self, address: &str) -> Result<Option<BackupKeys>> {
        if address == self.shared.options.repository { (self.shared.options.keys)() } else { Ok(None) }
    }

    /// Archives everything that has been acknowledged, now.
    ///
    /// # Errors
    /// As [`LogArchiver::archive`].
    pub fn archive_now(&self) -> Result<Archived> {
        if self.shared.options.archive_period.is_none() {
            return Err(Error::invalid(
                "the commit log of this server is not archived: start it with backup_options.archive_commitlog: true",
            ));
        }
        self.shared.archive()
    }

    /// Makes the threads end after what they are doing.
    fn request_stop(&self) {
        *self.shared.stopping.lock() = true;
        self.shared.stopped.notify_all();
    }

    /// Ends the threads, after what they are doing.
    pub fn stop(&self) {
        self.request_stop();
        for thread in self.threads.lock().drain(..) {
            // Its panics were logged.
            let _ = thread.join();
        }
    }
}

/// Does not wait for the threads.
impl Drop for BackupService {
    fn drop(&mut self) {
        self.request_stop();
    }
}

impl Shared {
    fn is_stopped_within(&self, wait: Duration) -> bool {
        let mut stopping = self.stopping.lock();
        if !*stopping {
            self.stopped.wait_for(&mut stopping, wait);
        }
        *stopping
    }

    /// Opens the repository for changes. Each operation does, so that commands can use it in
    /// between.
    fn open(&self) -> Result<Repository> {
        let location = Location { address: self.options.repository.clone(), keys: (self.options.keys)()? };
        Repository::open_existing_at(Arc::clone(&self.options.file_system), &location)
    }

    fn archive(&self) -> Result<Archived> {
        let mut archiver = self.archiver.lock();
        let key = (self.options.keys)()?.map(|keys| keys.id().to_owned());
        // Segments that are encrypted with a replaced key could not be read once it is removed.
        archiver.take_if(|(used, _)| *used != key);
        let archived = match &mut *archiver {
            Some((_, archiver)) => archiver.archive(&self.database),
            None => {
                let changing = self.changing.lock();
                let mut opened = self.open()?.archiver();
                drop(changing);
                let archived = opened.archive(&self.database);
                *archiver = Some((key, opened));
                archived
            }
        };
        if archived.is_err() {
            // The repository may have been replaced.
            *archiver = None;
        }
        archived
    }

    fn archive_due(&self) -> bool {
        let archived = self.archive();
        let mut status = self.status.lock();
        match archived {
            Ok(archived) => {
                status.archived_until_micros = Some(archived.until_micros);
                status.archived_segments += archived.segments;
                status.archived_bytes += archived.bytes;
                status.archive.complete();
                true
            }
            Err(error) => {
                tracing::error!(%error, repository = self.options.repository, "the commit log was not archived; \
                    its segments stay in the data directory");
                status.archive.fail(&error);
                false
            }
        }
    }

    fn back_up_due(&self) -> bool {
        match self.back_up() {
            Ok((name, pruned)) => {
                let mut status = self.status.lock();
                status.backups.complete();
                if let Err(error) = pruned {
                    tracing::error!(%error, repository = self.options.repository, "scheduled backups beyond the \
                        number to keep were not removed");
                    let detail =
                        format!("{name} was created, but the removal of earlier ones failed: {error}");
                    status.backups.fail(&Error::invalid(detail));
                }
                status.last_backup = Some(name);
                // The next backup follows when it is due: one a minute would fill the volume.
                true
            }
            Err(error) => {
                tracing::error!(%error, repository = self.options.repository, "a scheduled backup failed");
                self.status.lock().backups.fail(&error);
                false
            }
        }
    }

    /// Creates a backup, and removes those beyond the number to keep. Returns its name, and whether
    /// the others were removed.
    fn back_up(&self) -> Result<(String, Result<()>)> {
        let _changing = self.changing.lock();
        let repository = self.open()?;
        let name = format!("{PREFIX}{}", Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ"));
        let options =
            BackupOptions { name: Some(name), transfer: self.options.transfer, ..BackupOptions::default() };
        let created = repository.back_up(&self.database, &options)?;
        tracing::info!(%created, "created a scheduled backup");
        let pruned = self.options.keep.map_or(Ok(()), |keep| prune(&repository, keep));
        Ok((created.backup.name, pruned))
    }
}

/// Removes the oldest scheduled backups, by the order of their creation, until `keep` are left.
/// Damaged ones do not count, and stay.
fn prune(repository: &Repository, keep: usize) -> Result<()> {
    let backups = repository.readable()?;
    let scheduled: Vec<_> =
        backups.iter().map(|backup| &backup.name).filter(|name| is_scheduled(name)).collect();
    for name in &scheduled[..scheduled.len().saturating_sub(keep.max(1))] {
        repository.remove(name)?;
        tracing::info!(backup = name, "removed a scheduled backup");
    }
    Ok(())
}

/// Whether a backup has the name of a scheduled one, and not only its prefix.
fn is_scheduled(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|time| time.parse::<Timestamp>().is_ok())
}

impl TaskStatus {
    fn complete(&mut self) {
        self.completed += 1;
        self.completed_at_millis = Some(Timestamp::now().as_millisecond());
        self.error = None;
    }

    fn fail(&mut self, error: &Error) {
        self.failed += 1;
        self.error = Some(error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cassette_database::Options;
    use cassette_vfs::{FakeFileSystem, ManualClock};

    use super::*;

    const ROOT: &str = "/backups";

    fn shared(keep: usize) -> (FakeFileSystem, Arc<ManualClock>, Shared) {
        shared_with(keep, Box::new(|| Ok(None)))
    }

    fn shared_with(keep: usize, keys: KeySource) -> (FakeFileSystem, Arc<ManualClock>, Shared) {
        let fs = FakeFileSystem::new();
        let clock = Arc::new(ManualClock::at_micros(1_795_514_400_000_000));
        let mut options = Options::new("/data");
        options.file_system = Arc::new(fs.clone());
        options.clock = clock.clone();
        options.engine.background_threads = false;
        options.engine.commitlog_archiving = true;
        let database = Database::open(options).unwrap();
        let location = Location { address: ROOT.to_owned(), keys: keys().unwrap() };
        drop(Repository::open_at(Arc::new(fs.clone()), &location).unwrap());
        let options = ServiceOptions {
            repository: ROOT.to_owned(),
            keys,
            file_system: Arc::new(fs.clone()),
            archive_period: None,
            backup_period: Some(Duration::from_secs(3600)),
            keep: Some(keep),
            transfer: Transfer::Copy,
        };
        let shared = Shared {
            database,
            options,
            archiver: Mutex::default(),
            changing: Mutex::default(),
            status: Mutex::default(),
            stopping: Mutex::new(false),
            stopped: Condvar::new(),
        };
        (fs, clock, shared)
    }

    fn names(shared: &Shared) -> Vec<String> {
        shared.open().unwrap().names().unwrap()
    }

    fn back_up_as(shared: &Shared, name: &str) {
        let options = BackupOptions { name: Some(name.to_owned()), ..BackupOptions::default() };
        shared.open().unwrap().back_up(&shared.database, &options).unwrap();
    }

    #[test]
    fn after_the_clock_was_set_back_the_new_backup_is_kept_and_the_oldest_is_removed() {
        let (_, clock, shared) = shared(2);
        back_up_as(&shared, "auto-2026-11-24T10:00:00.000Z");
        clock.advance(Duration::from_secs(60));
        back_up_as(&shared, "auto-2026-11-24T10:01:00.000Z");
        clock.set_micros(1_795_500_000_000_000);
        let created = shared.back_up().unwrap().0;
        let mut expected = vec![created, "auto-2026-11-24T10:01:00.000Z".to_owned()];
        expected.sort();
        assert_eq!(names(&shared), expected);
    }

    #[test]
    fn the_log_is_encrypted_with_a_new_key_once_it_is_the_first() {
        let line = |alias: &str, digit: &str| format!("{alias} {}\n", digit.repeat(64));
        let (old, new) = (line("key-before", "1"), line("key-after", "2"));
        let text = Arc::new(Mutex::new(old.clone()));
        let read = Arc::clone(&text);
        let keys = move || Ok(Some(BackupKeys::parse(&read.lock()).unwrap()));
        let (fs, _, shared) = shared_with(1, Box::new(keys));
        // The end of the log, which each archiving writes again, as its last file.
        let aliases = || -> Vec<String> {
            let fs: &dyn FileSystem = &fs;
            let mut found = Vec::new();
            let mut pending = vec![Path::new(ROOT).to_owned()];
            while let Some(directory) = pending.pop() {
                for entry in fs.read_dir(&directory).unwrap() {
                    let path = directory.join(&entry.name);
                    if entry.is_dir {
                        pending.push(path);
                    } else if entry.name == "through.json" {
                        found.push(String::from_utf8_lossy(&fs.read(&path).unwrap()[..100]).into_owned());
                    }
                }
            }
            found
        };
        shared.archive().unwrap();
        assert!(aliases().iter().all(|text| text.contains("key-before")) && aliases().len() == 1);
        *text.lock() = new + &old;
        shared.archive().unwrap();
        assert!(aliases().iter().all(|text| text.contains("key-after")) && aliases().len() == 1);
    }

    #[test]
    fn only_backups_with_the_name_of_a_scheduled_one_are_removed() {
        let (_, _, shared) = shared(1);
        for name in ["auto-before-upgrade", "manual", "auto-2026-11-24T10:00:00.000Z"] {
            back_up_as(&shared, name);
        }
        let created = shared.back_up().unwrap().0;
        let mut expected = vec![created, "auto-before-upgrade".to_owned(), "manual".to_owned()];
        expected.sort();
        assert_eq!(names(&shared), expected);
    }

    #[test]
    fn a_damaged_backup_is_reported_and_does_not_repeat_the_next_one_early() {
        let (fs, _, shared) = shared(1);
        back_up_as(&shared, "auto-2026-11-24T10:00:00.000Z");
        back_up_as(&shared, "damaged");
        fs.corrupt(Path::new("/backups/damaged/manifest.json"), 20, 1);
        assert!(shared.back_up_due(), "the next one follows after a period");
        let status = shared.status.lock().backups.clone();
        assert_eq!((status.completed, status.failed), (1, 1));
        let error = status.error.unwrap();
        assert!(error.contains("the removal of earlier ones failed") && error.contains("damaged"), "{error}");
    }
}
