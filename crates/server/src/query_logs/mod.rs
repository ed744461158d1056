//! The audit log and the full query log of the server.
//!
//! [`LoggedDatabase`] is the database as a backend, with its requests and logins recorded in
//! [`QueryLogs`]. While both logs are disabled, a request reads one atomic flag.

mod audit;
mod audit_entries;
mod filter;
mod full_query;
mod logged_database;
mod outputs;
#[cfg(test)]
mod tests;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use cassette_query_log::{Counts, Full, Kind, Log, LoggedQuery, clear};
use cassette_vfs::{Clock, FileSystem};
use parking_lot::Mutex;

pub use audit::{AuditLogger, AuditSettings};
pub use filter::{AuditFilter, Names};
pub use full_query::FullQuerySettings;
pub use logged_database::LoggedDatabase;

use audit::Audit;

/// The audit log and the full query log. Both can be enabled and disabled at any time.
pub struct QueryLogs {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    /// Whether any is enabled.
    is_enabled: AtomicBool,
    audit: ArcSwapOption<Audit>,
    full_query: ArcSwapOption<Log>,
    /// Held while logs are enabled and disabled.
    configuration: Mutex<Configuration>,
}

/// The settings of the logs, and what their earlier instances counted.
struct Configuration {
    audit: AuditSettings,
    configured_audit: AuditSettings,
    full_query: FullQuerySettings,
    configured_full_query: FullQuerySettings,
    audit_counts: Counts,
    full_query_counts: Counts,
}

/// A log could not be enabled.
#[derive(Debug, thiserror::Error)]
pub enum EnableError {
    /// The settings do not permit it.
    #[error("{0}")]
    Invalid(String),
    /// Its directory cannot be used.
    #[error("cannot write to {directory}: {source}")]
    Io {
        /// The directory.
        directory: String,
        /// The reason.
        source: io::Error,
    },
}

impl QueryLogs {
    /// Creates the logs of a server with the configured settings, disabled.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        audit: AuditSettings,
        full_query: FullQuerySettings,
    ) -> Arc<Self> {
        let configuration = Configuration {
            configured_audit: audit.clone(),
            audit,
            configured_full_query: full_query.clone(),
            full_query,
            audit_counts: Counts::default(),
            full_query_counts: Counts::default(),
        };
        Arc::new(Self {
            fs,
            clock,
            is_enabled: AtomicBool::new(false),
            audit: ArcSwapOption::empty(),
            full_query: ArcSwapOption::empty(),
            configuration: Mutex::new(configuration),
        })
    }

    /// Returns whether requests are recorded.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    /// Returns the settings of the audit log, and whether it is enabled.
    pub fn audit(&self) -> (AuditSettings, bool) {
        (self.configuration.lock().audit.clone(), self.audit.load().is_some())
    }

    /// Returns the settings of the full query log, and whether it is enabled.
    pub fn full_query(&self) -> (FullQuerySettings, bool) {
        (self.configuration.lock().full_query.clone(), self.full_query.load().is_some())
    }

    /// Returns the configured settings of the audit log, without changes at run time.
    pub fn configured_audit(&self) -> AuditSettings {
        self.configuration.lock().configured_audit.clone()
    }

    /// Returns the configured settings of the full query log, without changes at run time.
    pub fn configured_full_query(&self) -> FullQuerySettings {
        self.configuration.lock().configured_full_query.clone()
    }

    /// Enables the audit log, or changes its settings.
    ///
    /// # Errors
    /// If there is no directory, which changes nothing, or it cannot be written, which disables the
    /// log.
    pub fn enable_audit(&self, settings: AuditSettings) -> Result<(), EnableError> {
        if !settings.has_directory() {
            let message = "no directory for the audit log: set audit_logs_dir of audit_logging_options";
            return Err(EnableError::Invalid(message.to_owned()));
        }
        let mut configuration = self.configuration.lock();
        self.stop_audit(&mut configuration);
        let audit = Audit::open(&self.fs, &self.clock, &settings).map_err(|source| {
            let directory = settings.files.directory.display().to_string();
            EnableError::Io { directory, source }
        })?;
        configuration.audit = settings;
        self.audit.store(Some(Arc::new(audit)));
        self.is_enabled.store(true, Ordering::Relaxed);
        tracing::info!("the audit log is enabled");
        Ok(())
    }

    /// Disables the audit log. Returns after its queue has been written.
    pub fn disable_audit(&self) {
        self.stop_audit(&mut self.configuration.lock());
        tracing::info!("the audit log is disabled");
    }

    fn stop_audit(&self, configuration: &mut Configuration) {
        if let Some(audit) = self.audit.swap(None) {
            // Stopped here, because the last reference may be dropped by a network thread.
            audit.stop();
            add(&mut configuration.audit_counts, audit.counts());
        }
        self.is_enabled.store(self.full_query.load().is_some(), Ordering::Relaxed);
    }

    /// Enables the full query log.
    ///
    /// # Errors
    /// If it is enabled, or has no directory, or the directory cannot be written.
    pub fn enable_full_query(&self, settings: FullQuerySettings) -> Result<(), EnableError> {
        let mut configuration = self.configuration.lock();
        if self.full_query.load().is_some() {
            return Err(EnableError::Invalid("Binlog is already configured".to_owned()));
        }
        let Some(options) = settings.options() else {
            let message = "no path for the full query log: set log_dir of full_query_logging_options";
            return Err(EnableError::Invalid(message.to_owned()));
        };
        let directory = options.directory.display().to_string();
        let log = Log::open(Arc::clone(&self.fs), Arc::clone(&self.clock), Kind::Queries, options);
        let log = log.map_err(|source| EnableError::Io { directory, source })?;
        configuration.full_query = settings;
        self.full_query.store(Some(Arc::new(log)));
        self.is_enabled.store(true, Ordering::Relaxed);
        tracing::info!("the full query log is enabled");
        Ok(())
    }

    /// Disables the full query log. Returns after its queue has been written.
    pub fn disable_full_query(&self) {
        self.stop_full_query(&mut self.configuration.lock());
        tracing::info!("the full query log is disabled");
    }

    fn stop_full_query(&self, configuration: &mut Configuration) {
        if let Some(log) = self.full_query.swap(None) {
            log.stop();
            add(&mut configuration.full_query_counts, log.counts());
        }
        configuration.full_query = configuration.configured_full_query.clone();
        self.is_enabled.store(self.audit.load().is_some(), Ordering::Relaxed);
    }

    /// Disables the full query log, and removes its files from the configured directory and the
    /// one that it used last.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn reset_full_query(&self) -> io::Result<()> {
        let mut configuration = self.configuration.lock();
        let used = configuration.full_query.directory.clone();
        self.stop_full_query(&mut configuration);
        let configured = configuration.configured_full_query.directory.clone();
        for directory in used.iter().chain(configured.iter().filter(|path| used.as_ref() != Some(*path))) {
            clear(&*self.fs, directory, Kind::Queries)?;
        }
        Ok(())
    }

    /// Disables both logs. Called when the server has stopped.
    pub fn stop(&self) {
        let mut configuration = self.configuration.lock();
        self.stop_audit(&mut configuration);
        self.stop_full_query(&mut configuration);
    }

    /// Returns what happened to the records of the audit log and of the full query log since the
    /// start.
    pub fn counts(&self) -> (Counts, Counts) {
        let configuration = self.configuration.lock();
        let (mut audit, mut full_query) = (configuration.audit_counts, configuration.full_query_counts);
        if let Some(log) = &*self.audit.load() {
            add(&mut audit, log.counts());
        }
        if let Some(log) = &*self.full_query.load() {
            add(&mut full_query, log.counts());
        }
        (audit, full_query)
    }

    /// Returns whether a request can be recorded without waiting.
    fn have_room(&self) -> bool {
        self.audit.load().as_ref().is_none_or(|audit| audit.has_room())
            && self.full_query.load().as_ref().is_none_or(|log| log.has_room())
    }

    /// Records a query, if the full query log is enabled.
    fn push_query(&self, query: impl FnOnce() -> Option<LoggedQuery>, full: Full) {
        if let Some(log) = &*self.full_query.load()
            && let Some(query) = query()
        {
            log.push(query.encode(), full);
        }
    }
}

impl std::fmt::Debug for QueryLogs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryLogs").field("is_enabled", &self.is_enabled).finish_non_exhaustive()
    }
}

/// Adds what another instance of a log counted.
fn add(counts: &mut Counts, other: Counts) {
    counts.written += other.written;
    counts.dropped += other.dropped;
    counts.failed += other.failed;
    counts.queued_bytes += other.queued_bytes;
}
