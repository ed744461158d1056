//! How an engine is to behave. Names and defaults are cassandra.yaml's where it has them.

use std::path::PathBuf;

use crate::commitlog::{ReplayPolicy, SyncMode};
use crate::compaction::{OverlappingTombstones, SourcesPolicy};

/// How an engine is to behave.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory that holds everything: tables in `data/<keyspace>/<table>-<id>/`, the log in `commitlog/`.
    pub data_dir: PathBuf,
    /// `commitlog_sync` and its period or window: when a write is acknowledged. Periodic, 10 s.
    pub commitlog_sync: SyncMode,
    /// `commitlog_segment_size`, bytes; the largest mutation is half of it. 32 MiB.
    pub commitlog_segment_size: u32,
    /// `commitlog_total_space`, bytes: beyond it the tables with the oldest unflushed writes are flushed. 1 GiB.
    pub commitlog_total_space: u64,
    /// What replay does about a damaged commit log. Stop.
    pub commitlog_replay: ReplayPolicy,
    /// `memtable_heap_space`, bytes that all memtables together may hold; writers wait beyond it. 256 MiB.
    pub memtable_heap_space: usize,
    /// `memtable_cleanup_threshold`: the share of the heap space beyond which the largest memtable is flushed. `None`, the
    /// default, is 1 / (`memtable_flush_writers` + 1).
    pub memtable_cleanup_threshold: Option<f64>,
    /// `memtable_flush_writers`: threads that flush. 2.
    pub memtable_flush_writers: usize,
    /// `file_cache_size`, bytes of decompressed chunks kept in memory. 256 MiB.
    pub file_cache_size: u64,
    /// `key_cache_size`, bytes of places of partitions in SSTables kept in memory; 0 for none. 50 MiB.
    pub key_cache_size: u64,
    /// `concurrent_compactors`: threads that compact. 2.
    pub concurrent_compactors: usize,
    /// `compaction_throughput`, bytes a second that all compactions together may read from disk; 0 for no limit. 64 MiB.
    pub compaction_throughput: u64,
    /// `flush_compression`: how flushed SSTables are compressed. Fast.
    pub flush_compression: FlushCompression,
    /// `disk_failure_policy`: what is done about corrupt SSTables. Ignore: a
    /// request that meets one fails, and no request is answered without the rows it holds.
    pub disk_failure_policy: DiskFailurePolicy,
    /// `auto_snapshot`: whether a table that is truncated or dropped with data in it leaves a snapshot. Yes.
    pub auto_snapshot: bool,
    /// `auto_snapshot_ttl`, seconds: after that time such a snapshot is removed. Never.
    pub auto_snapshot_ttl_seconds: Option<u32>,
    /// How compactions use newer SSTables that overlap them, where a table does not say. Not at all.
    pub overlapping: OverlappingOptions,
    /// When writers are held up because compaction is behind.
    pub backpressure: BackpressureOptions,
    /// Whether to flush, compact and sync in threads of the engine's own. Without them the threads that write flush when
    /// that is due, and compactions wait for a command, so that a run can be repeated exactly.
    pub background_threads: bool,
}

/// `flush_compression`: Cassandra's choices for the first, short-lived SSTables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushCompression {
    /// Not at all.
    None,
    /// With LZ4, unless the table's compressor is as fast.
    Fast,
    /// As the table is.
    Table,
}

/// A node's defaults for `provide_overlapping_tombstones`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OverlappingOptions {
    /// What of overlapping SSTables may remove data.
    pub provide: OverlappingTombstones,
    /// How many of them a partition may have; 0 for no limit.
    pub max_sources: usize,
    /// What is done with a partition that has more.
    pub policy: SourcesPolicy,
}

/// When writers are held up because compaction is behind. What is counted is how many SSTables of a table reads would be spared if it had
/// caught up: those of L0 under leveled compaction, those that wait in full buckets, windows or levels under others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackpressureOptions {
    /// From so many SSTables on each write of the table waits a little, the longer the more there are. 64.
    pub slowdown_sstables: usize,
    /// With so many writes wait until there are fewer; 0 switches all of this off. 256.
    pub stop_sstables: usize,
    /// How long a write waits at most before it goes through, or, with `stop_sstables`, is refused. 10 s.
    pub stop_timeout: std::time::Duration,
}

impl Default for BackpressureOptions {
    fn default() -> Self {
        Self { slowdown_sstables: 64, stop_sstables: 256, stop_timeout: std::time::Duration::from_secs(10) }
    }
}

/// `disk_failure_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFailurePolicy {
    /// A corrupt SSTable is set aside: it is left out of later reads and compactions, and its files stay.
    BestEffort,
    /// After a corrupt SSTable was met, the engine refuses everything.
    Stop,
    /// Requests that meet a corrupt SSTable fail; nothing else changes.
    Ignore,
}

impl Options {
    /// The defaults, in `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            commitlog_sync: SyncMode::Periodic { period: std::time::Duration::from_secs(10) },
            commitlog_segment_size: 32 << 20,
            commitlog_total_space: 1 << 30,
            commitlog_replay: ReplayPolicy::Stop,
            memtable_heap_space: 256 << 20,
            memtable_cleanup_threshold: None,
            memtable_flush_writers: 2,
            file_cache_size: 256 << 20,
            key_cache_size: 50 << 20,
            concurrent_compactors: 2,
            compaction_throughput: 64 << 20,
            flush_compression: FlushCompression::Fast,
            disk_failure_policy: DiskFailurePolicy::Ignore,
            auto_snapshot: true,
            auto_snapshot_ttl_seconds: None,
            overlapping: OverlappingOptions::default(),
            backpressure: BackpressureOptions::default(),
            background_threads: true,
        }
    }

    /// The share of `memtable_heap_space` beyond which the largest memtable is flushed.
    pub(crate) fn cleanup_threshold(&self) -> f64 {
        self.memtable_cleanup_threshold.unwrap_or(1.0 / (self.memtable_flush_writers.max(1) as f64 + 1.0))
    }
}
