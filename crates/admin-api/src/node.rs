//! The node: what belongs to no single table.

#![expect(missing_docs, reason = "many names need no explanation")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{DistributionReport, metric::report};

report! {
    /// The node and everything that belongs to no single table.
    pub struct NodeReport {
        /// `cluster_name`.
        cluster_name: String,
        host_id: String,
        /// The address for CQL clients.
        address: String,
        /// The port for CQL clients.
        port: u16,
        data_center: String,
        rack: String,
        /// The tokens that the node owns.
        tokens: Vec<String>,
        /// The version of Cassandra that it emulates.
        release_version: String,
        /// The version of Cassette.
        version: String,
        /// The partitioner's class.
        partitioner: String,
        schema_version: String,
        /// Keyspaces with their replication, as DESCRIBE shows it.
        keyspaces: Vec<KeyspaceReport>,
        /// Whether a server accepts clients.
        native_transport_active: bool,
        /// The fraction of requests that is traced without a client's request for it.
        trace_probability: f64,
        load_bytes: u64 = Gauge("cassette_load_bytes", "Bytes of all SSTables."),
        /// Bytes of their rows before compression.
        uncompressed_load_bytes: u64,
        uptime_seconds: u64 = Gauge("cassette_uptime_seconds", "Seconds since the start."),
        memory_bytes: u64 =
            Gauge("cassette_memory_bytes", "Resident memory of the process in bytes."),
        /// Bytes of memory of the machine, or of the process's limit.
        memory_max_bytes: u64,
        /// Bytes of memory used for SSTables: filters, summaries, chunk offsets.
        sstable_memory_bytes: u64,
        memtable_bytes: u64 = Gauge("cassette_memtable_bytes", "Heap bytes of memtables."),
        memtable_max_bytes: u64 =
            Gauge("cassette_memtable_max_bytes", "Limit of the heap bytes of memtables."),
        exceptions: u64 =
            Counter("cassette_exceptions_total", "Flushes, compactions and reads that failed, and panics."),
        #[serde(alias = "writes_held_up")]
        writes_stalled: u64 = Counter("cassette_writes_stalled_total",
            "Writes that waited for memtable space or for compaction."),
        #[serde(alias = "writes_held_up_by_compaction")]
        writes_stalled_by_compaction: u64 =
            Counter("cassette_writes_stalled_by_compaction_total", "Writes that waited for compaction."),
        commit_log_bytes: u64 =
            Gauge("cassette_commit_log_bytes", "Bytes of the commit log on disk."),
        unknown_tables: u64 =
            Gauge("cassette_unknown_table_directories", "Tables with data that are missing from the schema."),
        unknown_table_bytes: u64 = Gauge("cassette_unknown_table_bytes",
            "Bytes of the files of such tables, and of the commit log segments kept for them."),
        /// Segments of the commit log.
        commit_log_segments: u64,
        /// The percentage of bytes in SSTables that Cassandra marked as repaired, of tables with
        /// several replicas.
        percent_repaired: f64,
        /// The caches by name: `chunks`, `key`, `row` and `counter`, as far as they exist.
        caches: BTreeMap<String, CacheReport>,
        /// Thread pools, by Cassandra's names.
        pools: Vec<PoolReport>,
        /// Dropped requests, by kind.
        dropped: BTreeMap<String, u64>,
        /// Requests by the names of Cassandra's client request metrics.
        requests: BTreeMap<String, RequestReport>,
        statements: StatementReport,
        clients: Vec<ClientReport>,
        /// Addresses of present and former clients.
        client_history: Vec<SeenClientReport>,
        connections_refused: u64 =
            Counter("cassette_connections_refused_total", "Connections closed because of a limit."),
        logins_failed: u64 =
            Counter("cassette_logins_failed_total", "Logins with a wrong name or password."),
        logins_refused: u64 = Counter("cassette_logins_refused_total",
            "Logins refused without a check, because too many had failed."),
        tls_handshakes_failed: u64 = Counter("cassette_tls_handshakes_failed_total",
            "Connections that ended in the TLS handshake."),
        audit_entries_written: u64 =
            Counter("cassette_audit_log_written_total", "Entries written by the loggers of the audit log."),
        audit_entries_dropped: u64 = Counter("cassette_audit_log_dropped_total",
            "Entries of the audit log that are lost: the queue was full, or writing failed."),
        full_queries_written: u64 =
            Counter("cassette_full_query_log_written_total", "Queries written to the full query log."),
        full_queries_dropped: u64 = Counter("cassette_full_query_log_dropped_total",
            "Queries that the full query log lost: the queue was full, or writing failed."),
        /// Scheduled backups and archiving of the commit log, if they are configured.
        backups: Option<BackupReport>,
        backups_completed: Option<u64> =
            Counter("cassette_backups_completed_total", "Scheduled backups that were created."),
        backups_failed: Option<u64> =
            Counter("cassette_backups_failed_total", "Scheduled backups that failed."),
        backup_last_completed_seconds: Option<f64> = Gauge("cassette_backup_last_completed_seconds",
            "End of the last scheduled backup since the start, in seconds since 1970."),
        commit_log_archive_failures: Option<u64> = Counter("cassette_commit_log_archive_failures_total",
            "Failed attempts to archive the commit log."),
        commit_log_archived_bytes: Option<u64> = Counter("cassette_commit_log_archived_bytes_total",
            "Bytes of the commit log that were archived."),
        commit_log_archived_until_seconds: Option<f64> = Gauge("cassette_commit_log_archived_until_seconds",
            "Time until which everything acknowledged is archived, in seconds since 1970."),
        captured_bytes: Option<u64> = Gauge("cassette_cdc_captured_bytes",
            "Bytes of captured changes that no consumer has removed."),
        captured_oldest_seconds: Option<f64> = Gauge("cassette_cdc_oldest_seconds",
            "Age of the first segment with such changes, in seconds."),
        captured_disk_bytes: Option<u64> = Gauge("cassette_cdc_disk_bytes",
            "Bytes on disk that change data capture uses."),
        captured_space_bytes: Option<u64> = Gauge("cassette_cdc_total_space_bytes",
            "Limit of these bytes (cdc_total_space)."),
        start_time_seconds: f64 =
            Gauge("process_start_time_seconds", "Start of the process, in seconds since 1970."),
        cpu_seconds: f64 = Counter("process_cpu_seconds_total", "Processor time of all threads."),
        descriptors: Option<u64> = Gauge("process_open_fds", "Open file descriptors."),
        descriptors_max: Option<u64> = Gauge("process_max_fds", "Limit of open file descriptors."),
        disk_available_bytes: Option<u64> = Gauge("cassette_disk_available_bytes",
            "Bytes that can still be written to the disk of the data directory."),
        commit_log_sync: DistributionReport =
            Histogram("cassette_commit_log_sync_latency_seconds", "Time to sync the commit log.", 1e6),
        flush_duration: DistributionReport =
            Histogram("cassette_flush_duration_seconds", "Time to flush a memtable.", 1e6),
        compaction_duration: DistributionReport =
            Histogram("cassette_compaction_duration_seconds", "Time of a compaction.", 1e6),
    }
    also {
        Gauge("cassette_connected_clients", "Connections.", |report| report.clients.len() as u64),
    }
}

/// Scheduled backups and archiving of the commit log.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct BackupReport {
    pub repository: String,
    /// The name of the last scheduled backup since the start.
    pub last_backup: Option<String>,
    pub schedule: BackupTaskReport,
    pub archive: BackupTaskReport,
    /// Milliseconds since 1970.
    pub archived_until_millis: Option<i64>,
    pub archived_segments: u64,
}

/// What is done periodically.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct BackupTaskReport {
    /// `None` if it is disabled.
    pub period_seconds: Option<u64>,
    pub completed: u64,
    pub failed: u64,
    /// Milliseconds since 1970.
    pub completed_at_millis: Option<i64>,
    /// The error of the last attempt.
    pub error: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct KeyspaceReport {
    pub name: String,
    /// The replication strategy's class, without its package.
    pub replication_class: String,
    /// The strategy's options.
    pub replication_options: BTreeMap<String, String>,
    /// Whether its tables are computed when they are read.
    pub is_virtual: bool,
}

report! {
    pub struct CacheReport {
        entries: u64 = Gauge("cassette_cache_entries", "Entries of a cache."),
        size_bytes: u64 = Gauge("cassette_cache_size_bytes", "Bytes in a cache."),
        capacity_bytes: u64 =
            Gauge("cassette_cache_capacity_bytes", "Capacity of a cache in bytes."),
        hits: u64 = Counter("cassette_cache_hits_total", "Hits of a cache."),
        requests: u64 = Counter("cassette_cache_requests_total", "Hits and misses of a cache."),
        recent_hit_rate: Option<f64> =
            Gauge("cassette_cache_recent_hit_ratio", "Fraction of hits among recent requests to a cache."),
        miss_latency_micros: Option<f64> = Gauge("cassette_cache_miss_latency_seconds",
            "Mean time to load a missing entry of a cache.", 1e6),
        /// The period of saving it to disk; 0 for never.
        save_period_seconds: u64,
    }
    also {
        Counter("cassette_cache_misses_total", "Misses of a cache.",
            |report| report.requests.saturating_sub(report.hits)),
    }
}

report! {
    /// A thread pool.
    pub struct PoolReport {
        name: String,
        active: u64 = Gauge("cassette_thread_pool_active", "Running tasks."),
        /// The maximum of concurrent tasks.
        active_max: u64,
        pending: u64 = Gauge("cassette_thread_pool_pending", "Waiting tasks."),
        completed: u64 = Counter("cassette_thread_pool_completed_total", "Completed tasks."),
        /// Tasks blocked because the pool is full.
        blocked: u64,
        blocked_all_time: u64 =
            Counter("cassette_thread_pool_blocked_total", "Tasks blocked because the pool was full."),
    }
}

report! {
    /// Requests of one kind.
    pub struct RequestReport {
        latency: DistributionReport =
            Histogram("cassette_client_request_latency_seconds", "Latency of requests by kind.", 1e6),
        timeouts: u64 =
            Counter("cassette_client_request_timeouts_total", "Requests that exceeded their timeout."),
        failures: u64 = Counter("cassette_client_request_failures_total",
            "Requests that failed without the client's fault, and reads that a guardrail ended."),
        invalid: u64 = Counter("cassette_client_request_invalid_total", "Rejected requests."),
    }
}

report! {
    pub struct StatementReport {
        prepared_count: u64 =
            Gauge("cassette_prepared_statements", "Prepared statements in the cache."),
        prepared_evicted: u64 = Counter("cassette_prepared_statements_evicted_total",
            "Prepared statements evicted for new ones."),
        /// Executions of prepared statements.
        prepared_executed: u64,
        /// Executions of statements as text.
        regular_executed: u64,
    }
    also {
        Counter["kind" = "prepared"]("cassette_statements_executed_total", "Statements executed.",
            |report| report.prepared_executed),
        Counter["kind" = "regular"]("cassette_statements_executed_total", "Statements executed.",
            |report| report.regular_executed),
    }
}

/// A client connection.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct ClientReport {
    /// With the port.
    pub address: String,
    /// The login name.
    pub username: Option<String>,
    /// The state of the handshake.
    pub stage: String,
    /// The version of the native protocol.
    pub protocol_version: u8,
    /// The options of STARTUP, such as the driver's name.
    pub options: BTreeMap<String, String>,
    /// The number of requests received.
    pub requests: u64,
    /// The keyspace in use.
    pub keyspace: Option<String>,
    /// The version of TLS, such as `TLSv1.3`; `None` without TLS.
    #[serde(default)]
    pub tls_protocol: Option<String>,
    /// The cipher suite of TLS.
    #[serde(default)]
    pub tls_cipher_suite: Option<String>,
}

/// An address from which clients connected.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct SeenClientReport {
    /// The version of the native protocol.
    pub protocol_version: u8,
    pub address: String,
    /// The time of the last connection, in milliseconds since 1970.
    pub last_seen: i64,
}
