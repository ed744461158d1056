//! The JSON documents of the admin endpoint.

#![expect(missing_docs, reason = "many names need no explanation")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The node and everything that belongs to no single table.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct NodeReport {
    /// `cluster_name`.
    pub cluster_name: String,
    pub host_id: String,
    /// The address for CQL clients.
    pub address: String,
    /// The port for CQL clients.
    pub port: u16,
    pub data_center: String,
    pub rack: String,
    /// The tokens that the node owns.
    pub tokens: Vec<String>,
    /// The version of Cassandra that it emulates.
    pub release_version: String,
    /// The version of Cassette.
    pub version: String,
    /// The partitioner's class.
    pub partitioner: String,
    pub schema_version: String,
    /// Keyspaces with their replication, as DESCRIBE shows it.
    pub keyspaces: Vec<KeyspaceReport>,
    /// Whether a server accepts clients.
    pub native_transport_active: bool,
    /// The fraction of requests that is traced without a client's request for it.
    #[serde(default)]
    pub trace_probability: f64,
    /// Bytes of all SSTables' files.
    pub load_bytes: u64,
    /// Bytes of their rows before compression.
    pub uncompressed_load_bytes: u64,
    pub uptime_seconds: u64,
    /// Resident memory of the process.
    pub memory_bytes: u64,
    /// Bytes of memory of the machine, or of the process's limit.
    pub memory_max_bytes: u64,
    /// Bytes of memory used for SSTables: filters, summaries, chunk offsets.
    pub sstable_memory_bytes: u64,
    /// Heap bytes of memtables.
    pub memtable_bytes: u64,
    /// Maximum of `memtable_bytes`.
    pub memtable_max_bytes: u64,
    /// Flushes, compactions and reads that failed.
    pub exceptions: u64,
    /// Writes that waited for memtable space or for compaction.
    #[serde(alias = "writes_held_up")]
    pub writes_stalled: u64,
    /// Writes that waited for compaction.
    #[serde(default, alias = "writes_held_up_by_compaction")]
    pub writes_stalled_by_compaction: u64,
    /// Bytes of the commit log on disk.
    pub commit_log_bytes: u64,
    /// Tables with data that are missing from the schema.
    #[serde(default)]
    pub unknown_tables: u64,
    /// Bytes of their files and commit log segments.
    #[serde(default)]
    pub unknown_table_bytes: u64,
    /// Segments of the commit log.
    pub commit_log_segments: u64,
    /// The percentage of bytes in SSTables that Cassandra marked as repaired, of tables with
    /// several replicas.
    pub percent_repaired: f64,
    /// The caches by name: `chunks`, `key`, `row` and `counter`, as far as they exist.
    pub caches: BTreeMap<String, CacheReport>,
    /// Thread pools, by Cassandra's names.
    pub pools: Vec<PoolReport>,
    /// Dropped requests, by kind.
    pub dropped: BTreeMap<String, u64>,
    /// Requests by the names of Cassandra's client request metrics.
    pub requests: BTreeMap<String, RequestReport>,
    pub statements: StatementReport,
    pub clients: Vec<ClientReport>,
    /// Addresses of present and former clients.
    pub client_history: Vec<SeenClientReport>,
    /// Connections closed because of a limit.
    pub connections_refused: u64,
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

#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct CacheReport {
    pub entries: u64,
    pub size_bytes: u64,
    pub capacity_bytes: u64,
    pub hits: u64,
    /// Hits and misses.
    pub requests: u64,
    /// The fraction of hits among recent requests; `None` without any.
    pub recent_hit_rate: Option<f64>,
    /// The mean time to load a missing entry, in microseconds; `None` where that is not measured.
    pub miss_latency_micros: Option<f64>,
    /// The period of saving it to disk; 0 for never.
    pub save_period_seconds: u64,
}

/// A thread pool.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct PoolReport {
    pub name: String,
    pub active: u64,
    /// The maximum of concurrent tasks.
    pub active_max: u64,
    pub pending: u64,
    pub completed: u64,
    /// Tasks blocked because the pool is full.
    pub blocked: u64,
    /// The number of tasks blocked since the start.
    pub blocked_all_time: u64,
}

/// A distribution of recent values; all values are upper limits of Cassandra's histogram buckets.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq)]
pub struct DistributionReport {
    /// The number of values since the start, not only recent ones.
    pub count: u64,
    /// The sum of values since the start.
    pub sum: u64,
    pub p50: u64,
    pub p75: u64,
    pub p95: u64,
    pub p98: u64,
    pub p99: u64,
    pub p999: u64,
    pub min: u64,
    pub max: u64,
    /// `None` without recent values.
    pub mean: Option<f64>,
    /// Values per second, averaged over one minute.
    pub one_minute_rate: f64,
    /// Values per second, averaged over five minutes.
    pub five_minute_rate: f64,
    /// Values per second, averaged over fifteen minutes.
    pub fifteen_minute_rate: f64,
}

/// Requests of one kind.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct RequestReport {
    /// In microseconds.
    pub latency: DistributionReport,
    /// Requests that exceeded their timeout.
    #[serde(default)]
    pub timeouts: u64,
    /// Requests that failed without the client's fault, and reads that a guardrail ended.
    pub failures: u64,
    /// Rejected requests.
    pub invalid: u64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub struct StatementReport {
    /// Statements in the cache of prepared statements.
    pub prepared_count: u64,
    /// Prepared statements evicted for new ones.
    pub prepared_evicted: u64,
    /// Executions of prepared statements.
    pub prepared_executed: u64,
    /// Executions of statements as text.
    pub regular_executed: u64,
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

#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct TableReport {
    pub keyspace: String,
    pub table: String,
    /// Whether it is the hidden table of a secondary index.
    pub is_index: bool,
    /// The directory of its files.
    pub directory: String,
    /// The class of the compaction strategy, without its package, and its options.
    pub compaction: BTreeMap<String, String>,
    /// Whether compactions start automatically.
    pub autocompaction: bool,
    /// SSTables in use.
    pub sstables: u64,
    /// Corrupt SSTables that reads omit.
    #[serde(alias = "sstables_set_aside")]
    pub sstables_quarantined: u64,
    /// SSTables in use of a version other than the one that is written.
    pub old_sstables: u64,
    /// SSTables of each level, from 0, and their bytes; empty except for leveled compaction.
    pub levels: Vec<LevelReport>,
    /// The size ratio of a level to the one before.
    pub fanout: u64,
    /// Bytes of the largest SSTable.
    pub max_sstable_bytes: u64,
    /// The longest span of write times in an SSTable, in milliseconds.
    pub max_sstable_millis: u64,
    /// Bytes of the SSTables in use.
    pub live_bytes: u64,
    /// Bytes of all existing SSTables.
    pub total_bytes: u64,
    /// Bytes of their rows before compression.
    pub uncompressed_bytes: u64,
    /// Bytes of snapshots that no SSTable shares.
    pub snapshot_bytes: u64,
    /// Of the uncompressed bytes, those that Cassandra marked as repaired.
    pub repaired_bytes: u64,
    /// Of the uncompressed bytes, those that Cassandra marked as pending repair.
    pub pending_repair_bytes: u64,
    /// Compressed bytes by uncompressed bytes; -1 if nothing is compressed, as in Cassandra.
    pub compression_ratio: f64,
    /// An estimate.
    pub partitions: u64,
    /// Rows and deletions written to the memtable; Cassandra calls them cells.
    pub memtable_operations: u64,
    /// Bytes of the values in the memtable.
    pub memtable_data_bytes: u64,
    /// Heap bytes of memtables.
    pub memtable_bytes: u64,
    pub flushes: u64,
    /// Bytes of the memtables flushed.
    pub bytes_flushed: u64,
    pub pending_flushes: u64,
    pub pending_compactions: u64,
    pub compactions: u64,
    /// Bytes written by compactions.
    pub bytes_compacted: u64,
    /// Latency of reads of one partition, in microseconds.
    pub read: DistributionReport,
    /// Latency of changes of one partition, in microseconds.
    pub write: DistributionReport,
    /// Latency of scans, in microseconds.
    pub scan: DistributionReport,
    /// SSTables that contained the partition of a read.
    pub sstables_per_read: DistributionReport,
    /// Live rows that a read scanned.
    pub live_scanned: DistributionReport,
    /// Tombstones that a read scanned.
    pub tombstones_scanned: DistributionReport,
    /// Bytes of partitions in SSTables; `None` without SSTables.
    pub partition_bytes: Option<DistributionReport>,
    /// Cells of partitions in SSTables.
    pub partition_cells: Option<DistributionReport>,
    /// Filter checks that passed for an absent key.
    pub filter_false_positives: u64,
    /// Filter checks that passed for a present key.
    pub filter_true_positives: u64,
    /// Filter checks that excluded a key.
    pub filter_true_negatives: u64,
    /// Bytes of filters on disk.
    pub filter_disk_bytes: u64,
    /// Bytes of filters in memory.
    pub filter_bytes: u64,
    /// Bytes of index summaries in memory.
    pub summary_bytes: u64,
    /// Bytes of chunk offsets in memory.
    pub compression_metadata_bytes: u64,
    /// Bytes of the smallest partition in an SSTable.
    pub min_partition_bytes: u64,
    /// Bytes of the largest partition in an SSTable.
    pub max_partition_bytes: u64,
    pub mean_partition_bytes: u64,
    /// The fraction of cells that a compaction could drop.
    pub droppable_ratio: f64,
    /// `None` without storage-attached indexes.
    #[serde(default)]
    pub attached_indexes: Option<AttachedIndexesReport>,
}

/// The storage-attached indexes of a table, and all queries that they have answered.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq)]
pub struct AttachedIndexesReport {
    /// The number of indexes.
    pub indexes: u64,
    /// The number of indexes that are built, so that queries can use them.
    pub queryable: u64,
    /// Bytes of their SSTables.
    pub disk_bytes: u64,
    /// Latency of queries, in microseconds.
    pub queries: DistributionReport,
    /// Time to read and check the rows found in one partition, in microseconds.
    pub filtering: DistributionReport,
    /// SSTables of indexes in which a query found entries.
    pub sstables_hit: DistributionReport,
    /// Rows that a query checked.
    pub rows_filtered: DistributionReport,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct LevelReport {
    pub sstables: u64,
    /// Bytes of their Data components.
    pub bytes: u64,
}

/// Completed, running and pending compactions.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct CompactionReport {
    /// `concurrent_compactors`.
    pub concurrent_compactors: u64,
    /// Pending compactions by keyspace and table; only numbers above zero.
    pub pending: BTreeMap<String, BTreeMap<String, u64>>,
    pub completed: u64,
    /// Bytes written by compactions.
    pub bytes_compacted: u64,
    /// Compactions that were stopped or failed.
    pub aborted: u64,
    /// Compactions reduced for lack of disk space.
    pub reduced: u64,
    /// SSTables excluded from reduced compactions.
    pub sstables_dropped: u64,
    /// Compactions per second, averaged over fifteen minutes.
    pub fifteen_minute_rate: f64,
    /// Compactions per second since the start.
    pub mean_rate: f64,
    /// The limit of bytes per second that compactions write; 0 for no limit.
    pub throughput_bytes: u64,
    /// Running compactions.
    pub active: Vec<ActiveCompaction>,
    /// Effect of overlapping SSTables on compactions (`provide_overlapping_tombstones`).
    pub overlapping: OverlappingReport,
}

/// Effect of the deletions in SSTables outside of compactions, since the start.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq)]
pub struct OverlappingReport {
    /// Partitions that some source might contain.
    pub partitions_checked: u64,
    /// Partitions passed on unchanged because they had more sources than allowed.
    pub partitions_skipped: u64,
    /// Partitions of sources that were opened.
    pub sources_opened: u64,
    /// Bytes read from sources, before compression.
    pub bytes_read: u64,
    /// Bytes that compactions dropped because of sources.
    pub bytes_dropped: u64,
    /// Complete rows dropped.
    pub rows_dropped: u64,
    /// Cells dropped.
    pub cells_dropped: u64,
    /// Processing time of all threads together.
    pub seconds: f64,
    /// Processing time per MiB dropped; `None` if nothing was dropped.
    pub seconds_per_mebibyte: Option<f64>,
}

/// A running compaction.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct ActiveCompaction {
    pub id: String,
    /// Cassandra's name of the operation, such as `Compaction`.
    pub kind: String,
    pub keyspace: String,
    pub table: String,
    /// The completed part, in `unit`.
    pub completed: u64,
    /// The total amount of work, in `unit`.
    pub total: u64,
    /// `bytes`.
    pub unit: String,
    /// The number of input SSTables.
    pub sstables: u64,
    /// The directory of the output.
    pub target_directory: String,
}

/// A completed compaction.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct CompactionRecord {
    pub id: String,
    pub keyspace_name: String,
    pub columnfamily_name: String,
    /// In milliseconds since 1970.
    pub compacted_at: i64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// The number of partitions by the number of SSTables that contained them.
    pub rows_merged: BTreeMap<u32, u64>,
    /// `compaction_type` and others.
    pub compaction_properties: BTreeMap<String, String>,
}

/// A snapshot of a table.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct SnapshotReport {
    pub name: String,
    pub keyspace: String,
    pub table: String,
    /// Bytes that only the snapshot occupies.
    pub true_bytes: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Whether a repair of Cassandra created it for its own use.
    pub ephemeral: bool,
    /// In milliseconds since 1970.
    pub created_at: i64,
    /// In milliseconds since 1970.
    pub expires_at: Option<i64>,
}

/// Data of a table that is missing from the schema.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct UnknownTableReport {
    /// The table's id; `null` for an index.
    pub id: Option<String>,
    /// The keyspace; empty if only commit log records exist.
    pub keyspace: String,
    /// The table; empty if only commit log records exist.
    pub table: String,
    /// The index, if the data is that of one.
    pub index: Option<String>,
    /// The directory of its files; `null` if only commit log records exist.
    pub directory: Option<String>,
    /// SSTables in the directory.
    pub sstables: u64,
    /// Bytes of the files in it.
    pub bytes: u64,
    /// Commit log segments kept for the table.
    pub log_segments: u64,
    /// Bytes of these segments.
    pub log_bytes: u64,
}

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
    /// Set the capacities of caches in MiB.
    SetCacheCapacity { key_mebibytes: u64, row_mebibytes: u64, counter_mebibytes: u64 },
    /// Set the maximum number of saved keys of caches; 0 for all.
    SetCacheKeysToSave { key: usize, row: usize, counter: usize },
    /// Clear the history of client addresses.
    ClearConnectionHistory,
    /// Stop accepting writes and flush everything.
    Drain,
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

/// A guardrail and its current value.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct GuardrailReport {
    /// The key in cassandra.yaml.
    pub name: String,
    /// The value in the format of cassandra.yaml; `None` for null.
    pub value: Option<String>,
    /// Whether Cassandra's nodetool lists it.
    pub in_cassandra: bool,
}

/// The timeout of a kind of requests.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct TimeoutReport {
    /// The kind, as `nodetool gettimeout` names it.
    pub name: String,
    /// `None` without a timeout.
    pub milliseconds: Option<u64>,
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

/// The most active partitions during an interval.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct TopPartitions {
    /// The partitions found by each sampler, by Cassandra's name, in descending order.
    pub samplers: BTreeMap<String, Vec<Sampled>>,
}

/// A partition or query found by a sampler.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Sampled {
    /// `keyspace.table`.
    pub table: String,
    /// The text of the partition key.
    pub partition: String,
    /// The estimated count or amount.
    pub count: u64,
    /// The maximum overestimation of `count`.
    pub error: u64,
}
