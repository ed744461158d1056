//! The audit log: its settings, and where its entries are written.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use cassette_query_log::{AuditEntry, Counts, Full, Kind, Log, Options};
use cassette_vfs::{Clock, FileSystem};

use super::filter::AuditFilter;
use super::outputs::{ServerLog, StandardOutput};

/// Where entries are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditLogger {
    /// To checksummed files (`BinAuditLogger`).
    Files,
    /// To the server's log, in Cassandra's text (`FileAuditLogger`).
    ServerLog,
    /// To standard output as JSON, one entry a line (`JsonAuditLogger`, not in Cassandra).
    Json,
}

impl AuditLogger {
    const ALL: [Self; 3] = [Self::Files, Self::ServerLog, Self::Json];

    /// Returns the name in settings.
    pub fn class_name(self) -> &'static str {
        match self {
            Self::Files => "BinAuditLogger",
            Self::ServerLog => "FileAuditLogger",
            Self::Json => "JsonAuditLogger",
        }
    }

    /// Returns the logger of a class, with or without its package.
    ///
    /// # Errors
    /// The classes that are supported.
    pub fn named(class: &str) -> Result<Self, String> {
        let name = class.strip_prefix("org.apache.cassandra.audit.").unwrap_or(class);
        Self::ALL.into_iter().find(|logger| logger.class_name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::class_name).join(", ");
            format!("unknown audit logger: expected one of {names}, found {class}")
        })
    }
}

/// The settings of the audit log (`audit_logging_options`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// Where entries are written: one or several.
    pub loggers: Vec<AuditLogger>,
    /// Which entries are written.
    pub filter: AuditFilter,
    /// The files; queue and waiting apply to all loggers.
    pub files: Options,
}

impl AuditSettings {
    /// Returns Cassandra's defaults, with files in `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let (loggers, filter) = (vec![AuditLogger::Files], AuditFilter::default());
        Self { loggers, filter, files: Options::new(directory) }
    }

    /// Returns whether there is a directory, if a logger writes files.
    pub fn has_directory(&self) -> bool {
        !self.loggers.contains(&AuditLogger::Files) || !self.files.directory.as_os_str().is_empty()
    }
}

/// The audit log while it is enabled.
pub(super) struct Audit {
    filter: AuditFilter,
    sinks: Vec<Sink>,
}

/// A log with the form of its records.
struct Sink {
    log: Log,
    record: fn(&AuditEntry) -> Vec<u8>,
}

impl Audit {
    /// Starts the log.
    pub fn open(
        fs: &Arc<dyn FileSystem>,
        clock: &Arc<dyn Clock>,
        settings: &AuditSettings,
    ) -> io::Result<Self> {
        let sink = |logger: &AuditLogger| {
            let (clock, options) = (Arc::clone(clock), settings.files.clone());
            Ok::<_, io::Error>(match logger {
                AuditLogger::Files => Sink {
                    log: Log::open(Arc::clone(fs), clock, Kind::Audit, options)?,
                    record: AuditEntry::encode,
                },
                AuditLogger::ServerLog => Sink {
                    log: Log::with_output(Box::new(ServerLog), clock, Kind::Audit, options)?,
                    record: |entry| entry.line().into_bytes(),
                },
                AuditLogger::Json => Sink {
                    log: Log::with_output(Box::new(StandardOutput), clock, Kind::Audit, options)?,
                    record: |entry| entry.json().to_string().into_bytes(),
                },
            })
        };
        let sinks = settings.loggers.iter().map(sink).collect::<io::Result<_>>()?;
        Ok(Self { filter: settings.filter.clone(), sinks })
    }

    /// Returns whether an entry can be written without waiting.
    pub fn has_room(&self) -> bool {
        self.sinks.iter().all(|sink| sink.log.has_room())
    }

    /// Writes an entry, if the filter contains it.
    pub fn write(&self, entry: &AuditEntry, full: Full) {
        if self.filter.contains(entry) {
            for sink in &self.sinks {
                sink.log.push((sink.record)(entry), full);
            }
        }
    }

    /// Writes what is queued and ends the threads.
    pub fn stop(&self) {
        self.sinks.iter().for_each(|sink| sink.log.stop());
    }

    /// Returns what happened to entries, of all loggers together.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.sinks.iter().for_each(|sink| super::add(&mut counts, sink.log.counts()));
        counts
    }
}
