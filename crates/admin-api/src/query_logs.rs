//! The audit log, the full query log and slow queries.

use serde::{Deserialize, Serialize};

/// The settings of the audit log, with Cassandra's names, and whether it is enabled.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct AuditLogReport {
    /// Whether requests are recorded.
    pub enabled: bool,
    /// The classes of the loggers, separated by commas.
    pub logger: String,
    /// The directory of the files.
    pub audit_logs_dir: String,
    /// How often a new file is started.
    pub roll_cycle: String,
    /// Whether requests wait while the queue is full.
    pub block: bool,
    /// The maximum size of all files, bytes.
    pub max_log_size: u64,
    /// The maximum size of the queue, bytes.
    pub max_queue_weight: u64,
    /// Included and excluded names, separated by commas.
    pub included_keyspaces: String,
    /// See `included_keyspaces`.
    pub excluded_keyspaces: String,
    /// See `included_keyspaces`.
    pub included_categories: String,
    /// See `included_keyspaces`.
    pub excluded_categories: String,
    /// See `included_keyspaces`.
    pub included_users: String,
    /// See `included_keyspaces`.
    pub excluded_users: String,
}

/// The settings of the full query log, with Cassandra's names, and whether it is enabled.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct FullQueryLogReport {
    /// Whether requests are recorded.
    pub enabled: bool,
    /// The directory of the files; empty without one.
    pub log_dir: String,
    /// How often a new file is started.
    pub roll_cycle: String,
    /// Whether requests wait while the queue is full.
    pub block: bool,
    /// The maximum size of all files, bytes.
    pub max_log_size: u64,
    /// The maximum size of the queue, bytes.
    pub max_queue_weight: u64,
}

/// A statement that took longer than `slow_query_log_timeout`, with its executions together.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct SlowQueryReport {
    /// The text without passwords and without values of bind markers.
    pub text: String,
    /// The number of slow executions.
    pub count: u64,
    /// Their mean duration, milliseconds.
    pub mean_millis: f64,
    /// The shortest.
    pub min_millis: f64,
    /// The longest.
    pub max_millis: f64,
    /// When the last one ended, milliseconds since 1970.
    pub last_millis: i64,
}

/// How the files of a log are written, where it differs from the configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct LogFileChanges {
    /// How often a new file is started.
    #[serde(default)]
    pub roll_cycle: Option<String>,
    /// Whether requests wait while the queue is full.
    #[serde(default)]
    pub block: Option<bool>,
    /// The maximum size of all files, bytes.
    #[serde(default)]
    pub max_log_size: Option<i64>,
    /// The maximum size of the queue, bytes.
    #[serde(default)]
    pub max_queue_weight: Option<i64>,
}

/// What the audit log records and where, where it differs from the configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct AuditLogChanges {
    /// The classes of the loggers, separated by commas.
    #[serde(default)]
    pub logger: Option<String>,
    /// Included and excluded names, separated by commas.
    #[serde(default)]
    pub included_keyspaces: Option<String>,
    /// See `included_keyspaces`.
    #[serde(default)]
    pub excluded_keyspaces: Option<String>,
    /// See `included_keyspaces`.
    #[serde(default)]
    pub included_categories: Option<String>,
    /// See `included_keyspaces`.
    #[serde(default)]
    pub excluded_categories: Option<String>,
    /// See `included_keyspaces`.
    #[serde(default)]
    pub included_users: Option<String>,
    /// See `included_keyspaces`.
    #[serde(default)]
    pub excluded_users: Option<String>,
    /// The files.
    #[serde(flatten)]
    pub files: LogFileChanges,
}
