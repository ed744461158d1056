//! Operations: requests to change the node.

#![expect(missing_docs, reason = "many names need no explanation")]

use serde::{Deserialize, Serialize};

use crate::FaultRule;
use crate::query_logs::{AuditLogChanges, LogFileChanges};

/// A request to change the node.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum Operation {
    /// Flush memtables to SSTables.
    Flush(Tables),
    /// Compact all SSTables of tables.
    Compact {
        #[serde(flatten)]
        tables: Tables,
        /// Whether to split the output into SSTables of decreasing sizes.
        #[serde(default)]
        split_output: bool,
    },
    /// Compact the SSTables that have tokens in a range.
    CompactRange {
        #[serde(flatten)]
        tables: Tables,
        /// The first token; greater than the last if the range wraps around the ring.
        start_token: i64,
        end_token: i64,
    },
    /// Compact these SSTables, by the paths of their Data files.
    CompactFiles { files: Vec<String> },
    /// Rewrite SSTables without data that newer ones delete.
    GarbageCollect {
        #[serde(flatten)]
        tables: Tables,
        /// Whether to drop overwritten cells too, not only rows.
        cells: bool,
    },
    /// Rewrite SSTables without unreadable data.
    Scrub {
        #[serde(flatten)]
        tables: Tables,
        /// Whether to take a snapshot before.
        snapshot: bool,
        /// Whether to continue after unreadable data in counter tables.
        skip_corrupted: bool,
        /// Whether to validate values against their types.
        validate: bool,
        /// Whether to rewrite expirations that overflowed.
        reinsert_overflowed_ttl: bool,
    },
    /// Read SSTables and check their checksums.
    Verify {
        #[serde(flatten)]
        tables: Tables,
        /// Whether to check every cell.
        extended: bool,
        /// Whether to read only the small components.
        quick: bool,
    },
    /// Rewrite SSTables in the version that is written now.
    UpgradeSstables {
        #[serde(flatten)]
        tables: Tables,
        /// Whether to include SSTables of the current version.
        all: bool,
    },
    /// Take a snapshot.
    Snapshot {
        name: String,
        /// Keyspaces, or tables as `keyspace.table`; all if empty.
        of: Vec<String>,
        /// Whether to omit the memtables.
        skip_flush: bool,
        /// Seconds until it expires.
        ttl_seconds: Option<u64>,
    },
    /// Remove snapshots.
    ClearSnapshot {
        /// The name; all snapshots if `None`.
        name: Option<String>,
        /// Keyspaces; all if empty.
        keyspaces: Vec<String>,
        /// Only those taken before this time, in milliseconds since 1970.
        before_millis: Option<i64>,
    },
    /// Back up keyspaces into a directory of backups on the node's machine.
    Backup {
        /// The absolute path of the directory, or `s3://bucket/prefix`.
        repository: String,
        /// The name; derived from the time if `None`.
        #[serde(default)]
        name: Option<String>,
        /// The keyspaces; all, with roles and permissions, if empty.
        #[serde(default)]
        keyspaces: Vec<String>,
        /// Whether to link files of the data directory instead of copying them.
        #[serde(default)]
        link: bool,
        /// The absolute path of the file with the keys of encrypted backups.
        #[serde(default)]
        key_file: Option<String>,
    },
    /// Restore tables from a directory of backups on the node's machine.
    RestoreBackup {
        /// The absolute path of the directory, or `s3://bucket/prefix`.
        repository: String,
        /// The name; the latest if `None`.
        #[serde(default)]
        backup: Option<String>,
        /// Keyspaces, or tables as `keyspace.table`; all except roles if empty.
        #[serde(default)]
        names: Vec<String>,
        /// Whether to replace the rows of the tables.
        #[serde(default)]
        truncate: bool,
        /// The keyspace to restore into, if it is another one.
        #[serde(default)]
        keyspace_as: Option<String>,
        /// The name of the restored table, if it is another one.
        #[serde(default)]
        table_as: Option<String>,
        /// The absolute path of the file with the keys of encrypted backups.
        #[serde(default)]
        key_file: Option<String>,
    },
    /// Archive the commit log into the configured repository of backups, now.
    ArchiveCommitLog,
    /// Interrupt a running statement.
    CancelStatement {
        /// From [`RunningStatementReport`](crate::RunningStatementReport).
        id: u64,
    },
    /// Import SSTables from directories into a table.
    Import {
        keyspace: String,
        table: String,
        directories: Vec<String>,
        #[serde(flatten)]
        options: ImportChoices,
    },
    /// Load SSTables that were put into a table's directory.
    Refresh { keyspace: String, table: String },
    /// Create the table of unknown data again, from a snapshot's schema or its SSTables' headers.
    AdoptTable {
        /// The table's id.
        id: String,
    },
    /// Remove unknown data. Irrevocable; snapshots stay.
    RemoveUnknownTable {
        /// The table's id, or the directory.
        name: String,
    },
    /// Limit the throughput of compactions: MiB per second, 0 for no limit.
    SetCompactionThroughput { mebibytes: f64 },
    /// Set the number of concurrent compactions.
    SetConcurrentCompactors {
        /// At least 1.
        count: usize,
    },
    /// Set a log level.
    SetLoggingLevel {
        /// The module; empty for all.
        target: String,
        /// `TRACE` to `OFF`; empty to restore the level of the start.
        level: String,
    },
    /// Change a guardrail, as `nodetool setguardrailsconfig` names it.
    SetGuardrail {
        /// A flag or a set of names by its key in cassandra.yaml, or a pair of thresholds:
        /// `tables_threshold`.
        name: String,
        /// The value; of a pair the failure and the warning threshold.
        arguments: Vec<String>,
    },
    /// Set the timeout of a kind of requests.
    SetTimeout {
        /// The kind, as `nodetool settimeout` names it.
        name: String,
        milliseconds: u64,
    },
    /// Set the fraction of requests that is traced.
    SetTraceProbability {
        /// 0 to 1.
        probability: f64,
    },
    /// Empty a cache: `key`, `row` or `counter`.
    InvalidateCache { cache: String },
    /// Remove entries of a cache of `system_auth`: `credentials`, `permissions`, `roles`,
    /// `networkpermissions` or `jmxpermissions`.
    InvalidateAuthCache {
        cache: String,
        /// The roles of the entries; all if empty.
        #[serde(default)]
        roles: Vec<String>,
    },
    /// Replace the CIDRs of a group, or create it.
    UpdateCidrGroup { group: String, cidrs: Vec<String> },
    /// Remove a CIDR group.
    DropCidrGroup { group: String },
    /// Use the CIDR groups as they are stored now.
    ReloadCidrGroups,
    /// Remove entries of the cache of the CIDR groups of roles.
    InvalidateCidrPermissionsCache {
        /// The roles of the entries; all if empty.
        #[serde(default)]
        roles: Vec<String>,
    },
    /// Read the certificates of `client_encryption_options` again, if they have changed.
    ReloadCertificates,
    /// Set the capacities of caches in MiB.
    SetCacheCapacity { key_mebibytes: u64, row_mebibytes: u64, counter_mebibytes: u64 },
    /// Set the maximum number of saved keys of caches; 0 for all.
    SetCacheKeysToSave { key: usize, row: usize, counter: usize },
    /// Clear the history of client addresses.
    ClearConnectionHistory,
    /// Stop accepting writes and flush everything.
    Drain,
    /// Enable the audit log, or change what it records.
    EnableAuditLog(AuditLogChanges),
    /// Disable the audit log.
    DisableAuditLog,
    /// Enable the full query log.
    EnableFullQueryLog {
        /// The directory, if it is not the configured one.
        #[serde(default)]
        path: Option<String>,
        #[serde(flatten)]
        files: LogFileChanges,
    },
    /// Disable the full query log.
    DisableFullQueryLog,
    /// Disable the full query log, and remove its files.
    ResetFullQueryLog,
    /// Add a rule of injected faults, or replace the one with its id.
    PutFault(FaultRule),
    /// Remove a rule of injected faults.
    RemoveFault { id: String },
    /// Remove all rules of injected faults.
    ClearFaults,
    /// Let compactions start automatically.
    EnableAutoCompaction(Tables),
    /// Keep compactions from starting automatically.
    DisableAutoCompaction(Tables),
    /// Stop running compactions: all, those of one kind, or one.
    StopCompactions {
        /// The kind, by Cassandra's name.
        kind: Option<String>,
        id: Option<String>,
    },
}

/// Options of an import.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub struct ImportChoices {
    /// Whether to leave the files in their directory.
    pub copy: bool,
    /// Whether to verify them before.
    pub verify: bool,
    /// Whether to check every cell.
    pub extended_verify: bool,
    /// Whether they keep their levels.
    pub keep_level: bool,
    /// Whether they stay marked as repaired.
    pub keep_repaired: bool,
}

/// A set of tables.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Tables {
    /// The keyspace; all keyspaces if `None`.
    #[serde(default)]
    pub keyspace: Option<String>,
    /// The tables; all of the keyspace if empty.
    #[serde(default)]
    pub tables: Vec<String>,
}

/// The result of an operation.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Done {
    /// Text for the user.
    #[serde(default)]
    pub messages: Vec<String>,
}
