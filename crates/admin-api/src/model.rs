//! What the admin endpoint says, as it goes over the wire: JSON, and what a client of it reads back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The node and what belongs to no one table.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct NodeReport {
    /// `cluster_name`.
    pub cluster_name: String,
    /// The node's identity.
    pub host_id: String,
    /// Where clients connect.
    pub address: String,
    /// The port there.
    pub port: u16,
    /// The data center's name.
    pub data_center: String,
    /// The rack's name.
    pub rack: String,
    /// The tokens that it owns.
    pub tokens: Vec<String>,
    /// The version of Cassandra whose behaviour it has.
    pub release_version: String,
    /// The version of Cassette.
    pub version: String,
    /// The partitioner's class.
    pub partitioner: String,
    /// The version of the schema.
    pub schema_version: String,
    /// Keyspaces with their replication, as DESCRIBE shows it.
    pub keyspaces: Vec<KeyspaceReport>,
    /// Whether a server accepts clients.
    pub native_transport_active: bool,
    /// The share of requests that are traced without asking for it.
    #[serde(default)]
    pub trace_probability: f64,
    /// Bytes of all SSTables' files.
    pub load_bytes: u64,
    /// Bytes of their rows before compression.
    pub uncompressed_load_bytes: u64,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Bytes that the process holds in memory.
    pub memory_bytes: u64,
    /// Bytes of memory that the machine, or the process's limit, has.
    pub memory_max_bytes: u64,
    /// Bytes held for SSTables: filters, summaries, places of chunks.
    pub sstable_memory_bytes: u64,
    /// Heap bytes of memtables.
    pub memtable_bytes: u64,
    /// Heap bytes that memtables may have.
    pub memtable_max_bytes: u64,
    /// Flushes, compactions and reads that failed.
    pub exceptions: u64,
    /// Writers that had to wait for room in memtables, or because compaction was behind.
    pub writes_held_up: u64,
    /// Those of them that waited because compaction was behind.
    #[serde(default)]
    pub writes_held_up_by_compaction: u64,
    /// Bytes of the commit log on disk.
    pub commit_log_bytes: u64,
    /// Tables with data that the schema does not name.
    #[serde(default)]
    pub unknown_tables: u64,
    /// Bytes of their files and commit log segments.
    #[serde(default)]
    pub unknown_table_bytes: u64,
    /// Segments of the commit log.
    pub commit_log_segments: u64,
    /// The share of bytes in SSTables that Cassandra marked as repaired, of tables that are to have several replicas; 0 to 100.
    pub percent_repaired: f64,
    /// The caches by name: `chunks`, and those of `key`, `row` and `counter` that there are.
    pub caches: BTreeMap<String, CacheReport>,
    /// Threads by the names of Cassandra's pools.
    pub pools: Vec<PoolReport>,
    /// Requests that were dropped, by kind.
    pub dropped: BTreeMap<String, u64>,
    /// Requests by the names of Cassandra's client request metrics.
    pub requests: BTreeMap<String, RequestReport>,
    /// Prepared and other statements.
    pub statements: StatementReport,
    /// Clients that are connected.
    pub clients: Vec<ClientReport>,
    /// Addresses that clients came from, also those that have left.
    pub client_history: Vec<SeenClientReport>,
    /// Connections that were refused because there were too many.
    pub connections_refused: u64,
}

/// A keyspace.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct KeyspaceReport {
    /// Its name.
    pub name: String,
    /// The replication strategy's class, without its package.
    pub replication_class: String,
    /// The strategy's options.
    pub replication_options: BTreeMap<String, String>,
    /// Whether its tables are computed when they are read.
    pub is_virtual: bool,
}

/// A cache.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct CacheReport {
    /// What it holds.
    pub entries: u64,
    /// Bytes that it holds.
    pub size_bytes: u64,
    /// Bytes that it may hold.
    pub capacity_bytes: u64,
    /// Requests that it could answer.
    pub hits: u64,
    /// All requests.
    pub requests: u64,
    /// The share of recent requests that it could answer; `None` if there were none.
    pub recent_hit_rate: Option<f64>,
    /// How long reading what is missing takes, microseconds; `None` where that is not measured.
    pub miss_latency_micros: Option<f64>,
    /// How often it is saved; 0 for never.
    pub save_period_seconds: u64,
}

/// Threads that do one kind of work.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct PoolReport {
    /// Its name.
    pub name: String,
    /// Tasks that are running.
    pub active: u64,
    /// Tasks that may run at a time.
    pub active_max: u64,
    /// Tasks that wait.
    pub pending: u64,
    /// Tasks done.
    pub completed: u64,
    /// Those who are held up because it is full.
    pub blocked: u64,
    /// How often that happened.
    pub blocked_all_time: u64,
}

/// A distribution of recent values; all of them upper ends of Cassandra's histogram buckets.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq)]
pub struct DistributionReport {
    /// Values since the start, not only recent ones.
    pub count: u64,
    /// The sum of them.
    pub sum: u64,
    /// Half of the recent values are no larger.
    pub p50: u64,
    /// Three quarters.
    pub p75: u64,
    /// 95 %.
    pub p95: u64,
    /// 98 %.
    pub p98: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// The mean; `None` without recent values.
    pub mean: Option<f64>,
    /// Values a second, averaged over a minute.
    pub one_minute_rate: f64,
    /// The same over five minutes.
    pub five_minute_rate: f64,
    /// The same over fifteen.
    pub fifteen_minute_rate: f64,
}

/// Requests of one kind.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct RequestReport {
    /// How long they took, microseconds.
    pub latency: DistributionReport,
    /// Those that took longer than their timeout.
    #[serde(default)]
    pub timeouts: u64,
    /// Those that failed for no fault of the client's, and reads that a guardrail ended.
    pub failures: u64,
    /// Those that were refused because of what they asked.
    pub invalid: u64,
}

/// Statements.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub struct StatementReport {
    /// Prepared statements that are kept.
    pub prepared_count: u64,
    /// Those that were thrown away for new ones.
    pub prepared_evicted: u64,
    /// Executions of prepared statements.
    pub prepared_executed: u64,
    /// Executions of statements as text.
    pub regular_executed: u64,
}

/// A connection.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct ClientReport {
    /// Where it comes from, with the port.
    pub address: String,
    /// As whom it logged in.
    pub username: Option<String>,
    /// How far its handshake is.
    pub stage: String,
    /// The protocol's version.
    pub protocol_version: u8,
    /// What it said when it came: driver and the like.
    pub options: BTreeMap<String, String>,
    /// Requests that it sent.
    pub requests: u64,
    /// The keyspace that it uses.
    pub keyspace: Option<String>,
}

/// An address that clients came from.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct SeenClientReport {
    /// The protocol's version that they spoke.
    pub protocol_version: u8,
    /// The address.
    pub address: String,
    /// When one came last, milliseconds since 1970.
    pub last_seen: i64,
}

/// A table.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct TableReport {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub table: String,
    /// Whether it is a secondary index's.
    pub is_index: bool,
    /// Where its files are.
    pub directory: String,
    /// The compaction strategy's class, without its package, and its options.
    pub compaction: BTreeMap<String, String>,
    /// Whether compactions start by themselves.
    pub autocompaction: bool,
    /// SSTables that are read.
    pub sstables: u64,
    /// SSTables that were found corrupt and are left out.
    pub sstables_set_aside: u64,
    /// Those of them that are of another version than the one that is written.
    pub old_sstables: u64,
    /// SSTables on each level, from 0, and their bytes; empty but for leveled compaction.
    pub levels: Vec<LevelReport>,
    /// How many times larger a level is than the one before.
    pub fanout: u64,
    /// Bytes of the largest SSTable.
    pub max_sstable_bytes: u64,
    /// The longest span of write times in an SSTable, milliseconds.
    pub max_sstable_millis: u64,
    /// Bytes of the SSTables that are read.
    pub live_bytes: u64,
    /// Bytes of all SSTables that are there.
    pub total_bytes: u64,
    /// Bytes of their rows before compression.
    pub uncompressed_bytes: u64,
    /// Bytes of snapshots that nothing else holds.
    pub snapshot_bytes: u64,
    /// Of the uncompressed bytes, those that Cassandra marked as repaired.
    pub repaired_bytes: u64,
    /// Of the uncompressed bytes, those that Cassandra marked as pending repair.
    pub pending_repair_bytes: u64,
    /// Stored by plain bytes; -1 if nothing is compressed, as in Cassandra.
    pub compression_ratio: f64,
    /// Partitions, about.
    pub partitions: u64,
    /// Rows and deletions written to the memtable; Cassandra calls them cells.
    pub memtable_operations: u64,
    /// Bytes of their values.
    pub memtable_data_bytes: u64,
    /// Heap bytes of memtables.
    pub memtable_bytes: u64,
    /// Memtables flushed.
    pub flushes: u64,
    /// Bytes they took.
    pub bytes_flushed: u64,
    /// Memtables that wait to be flushed.
    pub pending_flushes: u64,
    /// Compactions that wait.
    pub pending_compactions: u64,
    /// Compactions done.
    pub compactions: u64,
    /// Bytes they wrote.
    pub bytes_compacted: u64,
    /// Reads of one partition, microseconds.
    pub read: DistributionReport,
    /// Changes of one partition, microseconds.
    pub write: DistributionReport,
    /// Scans, microseconds.
    pub scan: DistributionReport,
    /// SSTables that a read found the partition in.
    pub sstables_per_read: DistributionReport,
    /// Live rows that a read came across.
    pub live_scanned: DistributionReport,
    /// Tombstones that a read came across.
    pub tombstones_scanned: DistributionReport,
    /// Bytes of partitions in SSTables; `None` without SSTables.
    pub partition_bytes: Option<DistributionReport>,
    /// Cells of partitions in SSTables.
    pub partition_cells: Option<DistributionReport>,
    /// Filters that let a key pass which was not there.
    pub filter_false_positives: u64,
    /// Filters that let a key pass which was there.
    pub filter_true_positives: u64,
    /// Filters that kept a key out.
    pub filter_true_negatives: u64,
    /// Bytes of filters on disk.
    pub filter_disk_bytes: u64,
    /// Bytes of filters in memory.
    pub filter_bytes: u64,
    /// Bytes of index summaries in memory.
    pub summary_bytes: u64,
    /// Bytes of chunks' places in memory.
    pub compression_metadata_bytes: u64,
    /// The smallest partition in an SSTable.
    pub min_partition_bytes: u64,
    /// The largest.
    pub max_partition_bytes: u64,
    /// The mean.
    pub mean_partition_bytes: u64,
    /// The share of cells that a compaction could drop.
    pub droppable_ratio: f64,
    /// Its storage-attached indexes; `None` without any.
    #[serde(default)]
    pub attached_indexes: Option<AttachedIndexesReport>,
}

/// The storage-attached indexes of a table, and the queries that they have answered together.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq)]
pub struct AttachedIndexesReport {
    /// How many there are.
    pub indexes: u64,
    /// Those that are built, so that queries can use them.
    pub queryable: u64,
    /// Bytes of their SSTables.
    pub disk_bytes: u64,
    /// Queries, microseconds.
    pub queries: DistributionReport,
    /// Reads of found rows of one partition, and looks at whether they answer; microseconds.
    pub filtering: DistributionReport,
    /// SSTables of indexes in which a query came upon entries.
    pub sstables_hit: DistributionReport,
    /// Rows that a query looked at.
    pub rows_filtered: DistributionReport,
}

/// One level of a table.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct LevelReport {
    /// SSTables on it.
    pub sstables: u64,
    /// Bytes of their Data components.
    pub bytes: u64,
}

/// Compactions: what is done, what runs, what waits.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct CompactionReport {
    /// `concurrent_compactors`.
    pub concurrent_compactors: u64,
    /// Compactions that wait, by keyspace and table; only those that are more than none.
    pub pending: BTreeMap<String, BTreeMap<String, u64>>,
    /// Compactions done.
    pub completed: u64,
    /// Bytes written by compactions.
    pub bytes_compacted: u64,
    /// Compactions that were stopped or failed.
    pub aborted: u64,
    /// Compactions that were made smaller because the disk had no room.
    pub reduced: u64,
    /// SSTables left out for it.
    pub sstables_dropped: u64,
    /// Compactions a second, averaged over fifteen minutes.
    pub fifteen_minute_rate: f64,
    /// Compactions a second since the start.
    pub mean_rate: f64,
    /// Bytes a second that compactions may write; 0 for no limit.
    pub throughput_bytes: u64,
    /// What runs now.
    pub active: Vec<ActiveCompaction>,
    /// What overlapping SSTables gave to compactions (`provide_overlapping_tombstones`).
    pub overlapping: OverlappingReport,
}

/// What came of asking SSTables outside of compactions what they delete, since the start.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq)]
pub struct OverlappingReport {
    /// Partitions that some source might have.
    pub partitions_checked: u64,
    /// Partitions that passed untouched because they had more sources than allowed.
    pub partitions_skipped: u64,
    /// Partitions of sources that were opened.
    pub sources_opened: u64,
    /// Bytes read from sources, before compression.
    pub bytes_read: u64,
    /// Bytes left out of compactions.
    pub bytes_dropped: u64,
    /// Rows left out whole.
    pub rows_dropped: u64,
    /// Cells left out.
    pub cells_dropped: u64,
    /// Seconds spent on it, in all threads together.
    pub seconds: f64,
    /// Seconds for each MiB that was left out, if anything was.
    pub seconds_per_mebibyte: Option<f64>,
}

/// A compaction that runs.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct ActiveCompaction {
    /// Its id.
    pub id: String,
    /// `Compaction` and the like.
    pub kind: String,
    /// The keyspace.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// How much of it is done.
    pub completed: u64,
    /// How much there is to do.
    pub total: u64,
    /// Of what: `bytes`.
    pub unit: String,
    /// SSTables that are read.
    pub sstables: u64,
    /// Where the result goes.
    pub target_directory: String,
}

/// A compaction that is done.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct CompactionRecord {
    /// Its id.
    pub id: String,
    /// The keyspace.
    pub keyspace_name: String,
    /// The table.
    pub columnfamily_name: String,
    /// When it ended, milliseconds since 1970.
    pub compacted_at: i64,
    /// Bytes that it read.
    pub bytes_in: u64,
    /// Bytes that it wrote.
    pub bytes_out: u64,
    /// How many partitions came from how many SSTables.
    pub rows_merged: BTreeMap<u32, u64>,
    /// `compaction_type` and the like.
    pub compaction_properties: BTreeMap<String, String>,
}

/// A snapshot of a table.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The snapshot's name.
    pub name: String,
    /// The keyspace.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// Bytes that only the snapshot holds.
    pub true_bytes: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Whether a repair of Cassandra's made it for itself.
    pub ephemeral: bool,
    /// When it was taken, milliseconds since 1970.
    pub created_at: i64,
    /// When it goes, milliseconds since 1970.
    pub expires_at: Option<i64>,
}

/// Data of a table that the schema does not name.
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
    /// Where its files are; `null` if only commit log records exist.
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

/// Something to be done.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum Operation {
    /// Write memtables to SSTables.
    Flush(Tables),
    /// Compact all SSTables of tables.
    Compact {
        /// Which.
        #[serde(flatten)]
        tables: Tables,
        /// Whether one SSTable is to become several of falling sizes.
        #[serde(default)]
        split_output: bool,
    },
    /// Compact the SSTables that have tokens in a range.
    CompactRange {
        /// Of which tables.
        #[serde(flatten)]
        tables: Tables,
        /// The first token; greater than the last if the range goes round the ring.
        start_token: i64,
        /// The last token.
        end_token: i64,
    },
    /// Compact these SSTables, by the paths of their Data files.
    CompactFiles {
        /// The paths.
        files: Vec<String>,
    },
    /// Rewrite SSTables without what newer ones delete.
    GarbageCollect {
        /// Which.
        #[serde(flatten)]
        tables: Tables,
        /// Whether overwritten cells go too, not only rows.
        cells: bool,
    },
    /// Rewrite SSTables, leaving out what cannot be read.
    Scrub {
        /// Which.
        #[serde(flatten)]
        tables: Tables,
        /// Whether a snapshot is taken before.
        snapshot: bool,
        /// Whether to go on without what cannot be read of counter tables.
        skip_corrupted: bool,
        /// Whether to hold values against their types.
        validate: bool,
        /// Whether to rewrite expirations that overflowed.
        reinsert_overflowed_ttl: bool,
    },
    /// Read SSTables and check their checksums.
    Verify {
        /// Which.
        #[serde(flatten)]
        tables: Tables,
        /// Whether every cell is looked at.
        extended: bool,
        /// Whether only the small files are read.
        quick: bool,
    },
    /// Rewrite SSTables as they would be written now.
    UpgradeSstables {
        /// Which.
        #[serde(flatten)]
        tables: Tables,
        /// Also those that are of the current version.
        all: bool,
    },
    /// Take a snapshot.
    Snapshot {
        /// Its name.
        name: String,
        /// Keyspaces, or tables as `keyspace.table`; all if empty.
        of: Vec<String>,
        /// Whether what is in memory is left out.
        skip_flush: bool,
        /// Seconds after which it goes.
        ttl_seconds: Option<u64>,
    },
    /// Remove snapshots.
    ClearSnapshot {
        /// The name; all if `None`.
        name: Option<String>,
        /// Keyspaces; all if empty.
        keyspaces: Vec<String>,
        /// Only those taken before this, milliseconds since 1970.
        before_millis: Option<i64>,
    },
    /// Take SSTables from directories into a table.
    Import {
        /// The keyspace.
        keyspace: String,
        /// The table.
        table: String,
        /// The directories.
        directories: Vec<String>,
        /// How.
        #[serde(flatten)]
        options: ImportChoices,
    },
    /// Take SSTables that were put into a table's own directory.
    Refresh {
        /// The keyspace.
        keyspace: String,
        /// The table.
        table: String,
    },
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
    /// Say how much compactions may write: MiB a second, 0 for no limit.
    SetCompactionThroughput {
        /// MiB a second.
        mebibytes: f64,
    },
    /// Say how many compactions may run at once.
    SetConcurrentCompactors {
        /// At least 1.
        count: usize,
    },
    /// Say how much is logged.
    SetLoggingLevel {
        /// The module; empty for all.
        target: String,
        /// `TRACE` to `OFF`; empty for what it was at the start.
        level: String,
    },
    /// Change a guardrail, as `nodetool setguardrailsconfig` names it.
    SetGuardrail {
        /// A flag or a set of names by its key in cassandra.yaml, or a pair of thresholds: `tables_threshold`.
        name: String,
        /// The value; of a pair the failure and the warning threshold.
        arguments: Vec<String>,
    },
    /// Change how long requests of a kind may take.
    SetTimeout {
        /// The kind, as `nodetool settimeout` names it.
        name: String,
        /// Milliseconds.
        milliseconds: u64,
    },
    /// Say which share of requests is traced.
    SetTraceProbability {
        /// 0 to 1.
        probability: f64,
    },
    /// Empty a cache: `key`, `row` or `counter`.
    InvalidateCache {
        /// Which.
        cache: String,
    },
    /// Say how many MiB caches may hold.
    SetCacheCapacity {
        /// The key cache.
        key_mebibytes: u64,
        /// The row cache.
        row_mebibytes: u64,
        /// The counter cache.
        counter_mebibytes: u64,
    },
    /// Say how many keys of caches are saved at most; 0 for all.
    SetCacheKeysToSave {
        /// Of the key cache.
        key: usize,
        /// Of the row cache.
        row: usize,
        /// Of the counter cache.
        counter: usize,
    },
    /// Forget which clients came.
    ClearConnectionHistory,
    /// Stop accepting writes and flush everything.
    Drain,
    /// Let compactions begin by themselves.
    EnableAutoCompaction(Tables),
    /// Let no compaction begin by itself.
    DisableAutoCompaction(Tables),
    /// Stop running compactions: all, those of one kind, or one.
    StopCompactions {
        /// The kind, as Cassandra names it.
        kind: Option<String>,
        /// The id.
        id: Option<String>,
    },
}

/// A guardrail and its present value.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct GuardrailReport {
    /// The key in cassandra.yaml.
    pub name: String,
    /// The value as cassandra.yaml has it; `None` for null.
    pub value: Option<String>,
    /// Whether Cassandra's nodetool lists it.
    pub in_cassandra: bool,
}

/// How long requests of a kind may take.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct TimeoutReport {
    /// The kind, as `nodetool gettimeout` names it.
    pub name: String,
    /// Milliseconds; `None` for any time.
    pub milliseconds: Option<u64>,
}

/// How SSTables are taken in.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub struct ImportChoices {
    /// Whether they stay where they were, too.
    pub copy: bool,
    /// Whether they are verified before.
    pub verify: bool,
    /// Whether every cell is looked at.
    pub extended_verify: bool,
    /// Whether they keep their levels.
    pub keep_level: bool,
    /// Whether they stay marked as repaired.
    pub keep_repaired: bool,
}

/// Some tables.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Tables {
    /// The keyspace; all of them if `None`.
    #[serde(default)]
    pub keyspace: Option<String>,
    /// The tables; all of the keyspace's if empty.
    #[serde(default)]
    pub tables: Vec<String>,
}

/// What became of an operation.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Done {
    /// What is to be said about it.
    #[serde(default)]
    pub messages: Vec<String>,
}

/// The most active partitions during a while.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct TopPartitions {
    /// For each sampler, by Cassandra's name, what it found, most first.
    pub samplers: BTreeMap<String, Vec<Sampled>>,
}

/// One partition, or query, that a sampler found.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Sampled {
    /// `keyspace.table`.
    pub table: String,
    /// The partition key's text.
    pub partition: String,
    /// How often, or how much.
    pub count: u64,
    /// By how much that may be too high.
    pub error: u64,
}
