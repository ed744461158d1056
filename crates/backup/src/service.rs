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
use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};

use crate::create::{BackupOptions, Transfer};
use crate::error::{Error, Result};
use crate::log::{Archived, LogArchiver};
use crate::repository::Repository;

/// The prefix of the names of scheduled backups: only these are removed.
const PREFIX: &str = "auto-";
/// The interval between attempts after a failure, unless the period is shorter.
const RETRY: Duration = Duration::from_secs(60);

/// Opens the repository for changes. Called for each operation, so that commands can use it in
/// between.
pub type OpenRepository = Box<dyn Fn() -> Result<Repository> + Send + Sync>;

/// What is done in the background.
pub struct ServiceOptions {
    /// The repository in messages. Contains no credentials.
    pub repository: String,
    /// Opens it.
    pub open: OpenRepository,
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
    archiver: Mutex<Option<LogArchiver>>,
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

    fn archive(&self) -> Result<Archived> {
        let mut archiver = self.archiver.lock();
        let archived = match &mut *archiver {
            Some(archiver) => archiver.archive(&self.database),
            None => {
                let changing = self.changing.lock();
                let mut opened = (self.options.open)()?.archiver();
                drop(changing);
                let archived = opened.archive(&self.database);
                *archiver = Some(opened);
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
            Ok(name) => {
                let mut status = self.status.lock();
                status.last_backup = Some(name);
                status.backups.complete();
                true
            }
            Err(error) => {
                tracing::error!(%error, repository = self.options.repository, "a scheduled backup failed");
                self.status.lock().backups.fail(&error);
                false
            }
        }
    }

    fn back_up(&self) -> Result<String> {
        let _changing = self.changing.lock();
        let repository = (self.options.open)()?;
        let name = format!("{PREFIX}{}", Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ"));
        let options =
            BackupOptions { name: Some(name), transfer: self.options.transfer, ..BackupOptions::default() };
        let created = repository.back_up(&self.database, &options)?;
        tracing::info!(%created, "created a scheduled backup");
        if let Some(keep) = self.options.keep {
            let backups = repository.backups()?;
            let scheduled: Vec<_> =
                backups.iter().map(|backup| &backup.name).filter(|name| name.starts_with(PREFIX)).collect();
            for name in &scheduled[..scheduled.len().saturating_sub(keep.max(1))] {
                repository.remove(name)?;
                tracing::info!(backup = name, "removed a scheduled backup");
            }
        }
        Ok(created.backup.name)
    }
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
