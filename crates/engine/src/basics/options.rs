//! The options of an engine, with the names and defaults of cassandra.yaml where it has them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cassette_sstable::chunk_cache::DiskAccessMode;
use cassette_sstable::writer::DEFAULT_COLUMN_INDEX_SIZE;
use cassette_vfs::encryption::Encryption;
use cassette_vfs::memory_limit;

use crate::basics::error::{EngineError, Result};
use crate::basics::partition_observer::PartitionObserver;
use crate::log::commitlog::{ReplayPolicy, SyncMode};

/// The options of an engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory: tables in `data/<keyspace>/<table>-<id>/`, the commit log in
    /// `commitlog/`.
    pub data_dir: PathBuf,
    /// `commitlog_sync` and its period or window: when a write is acknowledged. Default: periodic,
    /// 10 s.
    pub commitlog_sync: SyncMode,
    /// `commitlog_segment_size`, bytes. The maximum size of a mutation, without index entries and
    /// view rows, is half of it. Default: 32 MiB.
    pub commitlog_segment_size: u32,
    /// `commitlog_total_space`, bytes: beyond it, the tables with the oldest unflushed writes are
    /// flushed. Default: 1 GiB.
    pub commitlog_total_space: u64,
    /// The reaction of replay to a damaged commit log. Default: stop.
    pub commitlog_replay: ReplayPolicy,
    /// `transparent_data_encryption_options`: encrypts new segments of the commit log, if it does
    /// so, and decrypts existing ones. Default: none.
    pub commitlog_encryption: Option<Arc<dyn Encryption>>,
    /// Whether finished segments of the commit log stay in `commitlog/archive` until a consumer
    /// removes them. Default: false.
    pub commitlog_archiving: bool,
    /// Change data capture. Default: disabled.
    pub cdc: CdcSettings,
    /// `memtable_heap_space`, bytes of all memtables; beyond it, writes are stalled. Default: 256
    /// MiB, or an eighth of the memory if that is less.
    pub memtable_heap_space: usize,
    /// `memtable_cleanup_threshold`: the share of the heap space beyond which the largest memtable
    /// is flushed. `None`, the default, is 1 / (`memtable_flush_writers` + 1).
    pub memtable_cleanup_threshold: Option<f64>,
    /// `memtable_flush_writers`: the number of flushing threads. Default: 2.
    pub memtable_flush_writers: usize,
    /// `file_cache_size`, bytes of decompressed chunks in memory. Default: 512 MiB, or a sixteenth
    /// of the memory if that is less.
    pub file_cache_size: u64,
    /// `disk_access_mode`: how SSTables are read. Default: standard. Mapped files reduce the cost
    /// of reads, especially of incompressible data. But a read that fails on the disk ends the
    /// process, as does a file that another process truncates, and the resident memory of the
    /// process includes the mapped pages.
    pub disk_access_mode: DiskAccessMode,
    /// `column_index_size`, bytes of a partition in one block of its row index. Default: 64 KiB.
    pub column_index_size: u32,
    /// `key_cache_size`, bytes of cached positions of partitions in SSTables; 0 disables it.
    /// Default: 50 MiB.
    pub key_cache_size: u64,
    /// `row_cache_size`, bytes of cached merged rows of tables with `rows_per_partition` in
    /// `caching`. Default: 0, which disables it.
    pub row_cache_size: u64,
    /// `counter_cache_size`, bytes of cached counts of this node, so that increments need not read;
    /// 0 disables it. Default: 50 MiB.
    pub counter_cache_size: u64,
    /// `key_cache_migrate_during_compaction`: whether compactions update the positions of cached
    /// keys. Default: true.
    pub key_cache_migrate_during_compaction: bool,
    /// The caches that are saved for the next start.
    pub saved_caches: SavedCachesOptions,
    /// `concurrent_compactors`: the number of compacting threads. Default: 2.
    pub concurrent_compactors: usize,
    /// `compaction_throughput`, bytes a second that all compactions together may read from disk; 0
    /// for no limit. Default: 64 MiB.
    pub compaction_throughput: u64,
    /// `flush_compression`: how flushed SSTables are compressed. Default: fast.
    pub flush_compression: FlushCompression,
    /// `disk_failure_policy`: the reaction to corrupt SSTables. Default: ignore; a request that
    /// reads one fails, and none returns results without its rows.
    pub disk_failure_policy: DiskFailurePolicy,
    /// `auto_snapshot`: whether a snapshot is taken of a table with data before it is truncated or
    /// dropped. Default: true.
    pub auto_snapshot: bool,
    /// `auto_snapshot_ttl`, seconds: when such a snapshot is removed. Default: never.
    pub auto_snapshot_ttl_seconds: Option<u32>,
    /// How compactions use newer overlapping SSTables, unless a table specifies it. Default: not at
    /// all.
    pub overlapping: OverlappingOptions,
    /// When compaction debt stalls writes.
    pub backpressure: BackpressureOptions,
    /// Receives the partitions that flushes and compactions write. The default ignores them.
    pub partition_observer: Option<Arc<dyn PartitionObserver>>,
    /// Whether background threads flush, compact and sync. Otherwise writing threads flush when
    /// due, and compactions run on command, so that runs are reproducible.
    pub background_threads: bool,
}

/// Change data capture: segments of the commit log with changes of tables that have `cdc = true`
/// stay in a directory until a consumer removes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CdcSettings {
    /// `cdc_enabled`. Default: false.
    pub enabled: bool,
    /// `cdc_raw_directory`, on the volume of the commit log. Default: `cdc_raw` in the data
    /// directory.
    pub directory: Option<PathBuf>,
    /// `cdc_total_space`, bytes. Default: 4 GiB, or an eighth of the space available at the start
    /// if that is less.
    pub total_space: Option<u64>,
    /// `cdc_block_writes`: whether writes of these tables are refused when the space is used up.
    /// Otherwise the oldest segments are removed. Default: true.
    pub block_writes: bool,
    /// `cdc_free_space_check_interval`: how often the directory is measured while writes are
    /// refused. Default: 250 ms.
    pub check_interval: Duration,
}

impl Default for CdcSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            directory: None,
            total_space: None,
            block_writes: true,
            check_interval: Duration::from_millis(250),
        }
    }
}

/// The caches that are saved for the next start: periodically, and when the engine is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedCachesOptions {
    /// `saved_caches_directory`. Default: `saved_caches` in the data directory.
    pub directory: Option<PathBuf>,
    /// `key_cache_save_period` and `key_cache_keys_to_save`. Default: 4 h, all.
    pub key: CacheSaving,
    /// `row_cache_save_period` and `row_cache_keys_to_save`. Default: never, all.
    pub row: CacheSaving,
    /// `counter_cache_save_period` and `counter_cache_keys_to_save`. Default: 2 h, all.
    pub counter: CacheSaving,
    /// `cache_load_timeout`: the maximum duration of loading, in the background. Default: 30 s.
    pub load_timeout: Duration,
}

/// A cache that can be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// Positions of partitions in SSTables.
    Key,
    /// Merged rows.
    Row,
    /// Counts of this node.
    Counter,
}

impl CacheKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Key, Self::Row, Self::Counter];

    /// Returns Cassandra's name of the cache, which its file name begins with.
    pub fn name(self) -> &'static str {
        match self {
            Self::Key => "KeyCache",
            Self::Row => "RowCache",
            Self::Counter => "CounterCache",
        }
    }
}

/// How a cache is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSaving {
    /// The interval; zero for never, including when the engine is closed.
    pub period: Duration,
    /// The maximum number of keys, the most frequently accessed ones.
    pub keys_to_save: usize,
}

impl CacheSaving {
    /// Saves all keys, every `period`.
    pub const fn every(period: Duration) -> Self {
        Self { period, keys_to_save: usize::MAX }
    }
}

impl SavedCachesOptions {
    /// Returns the options of one cache.
    pub fn of(&self, kind: CacheKind) -> &CacheSaving {
        match kind {
            CacheKind::Key => &self.key,
            CacheKind::Row => &self.row,
            CacheKind::Counter => &self.counter,
        }
    }
}

impl Default for SavedCachesOptions {
    fn default() -> Self {
        const HOUR: u64 = 3600;
        Self {
            directory: None,
            key: CacheSaving::every(Duration::from_secs(4 * HOUR)),
            row: CacheSaving::every(Duration::ZERO),
            counter: CacheSaving::every(Duration::from_secs(2 * HOUR)),
            load_timeout: Duration::from_secs(30),
        }
    }
}

/// `flush_compression`: Cassandra's choices for the first, short-lived SSTables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushCompression {
    /// None.
    None,
    /// With LZ4, unless the table's compressor is as fast.
    Fast,
    /// As the table's other SSTables.
    Table,
}

/// `provide_overlapping_tombstones`: the data of newer SSTables outside a compaction that may
/// remove data from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum OverlappingTombstones {
    /// Nothing.
    #[default]
    None,
    /// Deletions of partitions, ranges and rows.
    Row,
    /// Also newer cells, and deletions of cells and collections.
    Cell,
}

impl OverlappingTombstones {
    /// Returns the setting by Cassandra's name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_uppercase().as_str() {
            "NONE" => Some(Self::None),
            "ROW" => Some(Self::Row),
            "CELL" => Some(Self::Cell),
            _ => None,
        }
    }
}

/// What is done if a partition has more sources than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SourcesPolicy {
    /// The newest ones are used: any subset is correct.
    #[default]
    Newest,
    /// The partition is copied unchanged.
    Skip,
}

impl SourcesPolicy {
    /// Returns the policy by its name, `newest` or `skip`, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_lowercase().as_str() {
            "newest" => Some(Self::Newest),
            "skip" => Some(Self::Skip),
            _ => None,
        }
    }
}

/// A node's defaults for `provide_overlapping_tombstones`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverlappingOptions {
    /// The data of overlapping SSTables that may remove data.
    pub provide: OverlappingTombstones,
    /// The maximum number of sources of a partition; 0 for no limit.
    pub max_sources: usize,
    /// What is done with a partition that has more.
    pub policy: SourcesPolicy,
    /// The fraction of an SSTable's bytes that newer ones must shadow for it to be compacted alone,
    /// if nothing else is due; from [`LEAST_GARBAGE_THRESHOLD`] to 1. Default: 0.1.
    pub threshold: f64,
}

/// With less, SSTables would be rewritten for almost no gain.
pub(crate) const LEAST_GARBAGE_THRESHOLD: f64 = 0.01;

/// The minimum lifetime of a snapshot, as in Cassandra.
pub(crate) const LEAST_TTL_SECONDS: u32 = 60;

impl Default for OverlappingOptions {
    fn default() -> Self {
        Self {
            provide: OverlappingTombstones::None,
            max_sources: 0,
            policy: SourcesPolicy::Newest,
            threshold: 0.1,
        }
    }
}

/// When compaction debt stalls writes. The debt of a table is the number of SSTables that reads
/// would be spared if compaction had caught up: those of L0 under leveled compaction, those that
/// wait in full buckets, windows or levels under others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackpressureOptions {
    /// From this number of SSTables on, each write of the table is delayed, increasingly with their
    /// number. Default: 64.
    pub slowdown_sstables: usize,
    /// From this number on, writes wait until there are fewer; 0 disables stalls. Default: 256.
    pub stop_sstables: usize,
    /// The maximum wait of a write before it is applied or, with `stop_sstables`, rejected.
    /// Default: 10 s.
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
    /// A corrupt SSTable is quarantined: later reads and compactions skip it, and its files are
    /// kept. The same applies to one that cannot be opened at the start.
    BestEffort,
    /// After a corrupt SSTable was read, the engine rejects all operations; if one cannot be
    /// opened, it does not start.
    Stop,
    /// Requests that read a corrupt SSTable fail; nothing else changes. If one cannot be opened at
    /// the start, all reads of its table fail.
    Ignore,
}

impl Options {
    /// Returns the defaults for `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            commitlog_sync: SyncMode::Periodic { period: std::time::Duration::from_secs(10) },
            commitlog_segment_size: 32 << 20,
            commitlog_total_space: 1 << 30,
            commitlog_replay: ReplayPolicy::Stop,
            commitlog_encryption: None,
            commitlog_archiving: false,
            cdc: CdcSettings::default(),
            memtable_heap_space: default_memtable_heap_space(memory_limit()),
            memtable_cleanup_threshold: None,
            memtable_flush_writers: 2,
            file_cache_size: default_file_cache_size(memory_limit()),
            disk_access_mode: DiskAccessMode::Standard,
            column_index_size: DEFAULT_COLUMN_INDEX_SIZE,
            key_cache_size: 50 << 20,
            row_cache_size: 0,
            counter_cache_size: 50 << 20,
            key_cache_migrate_during_compaction: true,
            saved_caches: SavedCachesOptions::default(),
            concurrent_compactors: 2,
            compaction_throughput: 64 << 20,
            flush_compression: FlushCompression::Fast,
            disk_failure_policy: DiskFailurePolicy::Ignore,
            auto_snapshot: true,
            auto_snapshot_ttl_seconds: None,
            overlapping: OverlappingOptions::default(),
            backpressure: BackpressureOptions::default(),
            partition_observer: None,
            background_threads: true,
        }
    }

    /// Rejects invalid settings, in Cassandra's words if it has some.
    pub(crate) fn check(&self, memory: Option<u64>) -> Result<()> {
        let refused = |detail: String| Err(EngineError::InvalidSetting { detail });
        if self.memtable_heap_space == 0 {
            return refused("memtable_heap_space must be positive, but was 0MiB".into());
        }
        let (least, most) = THRESHOLDS;
        match self.memtable_cleanup_threshold {
            Some(share) if share > most => {
                return refused(format!("memtable_cleanup_threshold must be <= {most}, but was {share}"));
            }
            // Also NaN.
            Some(share) if !(least..=most).contains(&share) => {
                return refused(format!("memtable_cleanup_threshold must be >= {least}, but was {share}"));
            }
            _ => {}
        }
        let garbage = self.overlapping.threshold;
        if !(LEAST_GARBAGE_THRESHOLD..=1.0).contains(&garbage) {
            return refused(format!(
                "overlapping_tombstones_threshold must be between {LEAST_GARBAGE_THRESHOLD} and 1, but was {garbage}"
            ));
        }
        if self.concurrent_compactors == 0 {
            return refused("concurrent_compactors should be strictly greater than 0, but was 0".into());
        }
        if self.column_index_size == 0 {
            return refused("column_index_size must be positive, but was 0KiB".into());
        }
        if self.auto_snapshot_ttl_seconds.is_some_and(|ttl| ttl < LEAST_TTL_SECONDS) {
            return refused(format!("auto_snapshot_ttl must be at least {LEAST_TTL_SECONDS} seconds"));
        }
        self.check_sizes(memory)
    }

    /// Rejects caches and memtables that are larger than `memory`, bytes; `None` if that is
    /// unknown.
    pub(crate) fn check_sizes(&self, memory: Option<u64>) -> Result<()> {
        let Some(memory) = memory else { return Ok(()) };
        let sizes = [
            ("file_cache_size", self.file_cache_size),
            ("key_cache_size", self.key_cache_size),
            ("row_cache_size", self.row_cache_size),
            ("counter_cache_size", self.counter_cache_size),
            ("memtable_heap_space", self.memtable_heap_space as u64),
        ];
        let too_large = |what: String, size| Err(EngineError::TooLargeForMemory { what, size, memory });
        if let Some((name, size)) = sizes.iter().find(|(_, size)| *size > memory) {
            return too_large((*name).into(), *size);
        }
        let sum = sizes.iter().fold(0u64, |sum, (_, size)| sum.saturating_add(*size));
        if sum > memory { too_large(sizes.map(|(name, _)| name).join(" + "), sum) } else { Ok(()) }
    }

    /// Returns Cassandra's default of `max_mutation_size`, bytes: half of `commitlog_segment_size`.
    /// The limit of a statement's changes in one partition; the engine itself accepts more.
    pub fn mutation_size_max(&self) -> u32 {
        self.commitlog_segment_size / 2
    }

    /// Returns the maximum size of a write's commit log record, with its index entries and view
    /// rows: large enough for any mutation, and at most what all memtables may hold.
    pub fn record_size_max(&self) -> u32 {
        const MOST: u32 = 1 << 30;
        let memtables = u32::try_from(self.memtable_heap_space).unwrap_or(MOST);
        self.mutation_size_max().max(memtables).min(MOST)
    }

    /// Returns the fraction of `memtable_heap_space` beyond which the largest memtable is flushed.
    pub(crate) fn cleanup_threshold(&self) -> f64 {
        self.memtable_cleanup_threshold.unwrap_or(1.0 / (self.memtable_flush_writers.max(1) as f64 + 1.0))
    }
}

/// The valid range of `memtable_cleanup_threshold`: from 1 on, no memtable would be flushed before
/// writers wait for it.
const THRESHOLDS: (f64, f64) = (0.01, 0.99);

/// Cassandra's default is the minimum of 512 MiB and a quarter of the heap, which is a quarter of
/// the memory by default.
fn default_file_cache_size(memory: Option<u64>) -> u64 {
    const MOST: u64 = 512 << 20;
    memory.map_or(MOST / 2, |memory| MOST.min(memory / 16))
}

/// Less on a small machine, so that it can start with all caches.
fn default_memtable_heap_space(memory: Option<u64>) -> usize {
    const MOST: u64 = 256 << 20;
    memory.map_or(MOST, |memory| MOST.min(memory / 8)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_machines_of_128_mib_and_more() {
        for memory in (7..40).map(|bits| Some((1 << bits) << 20)) {
            let options = Options {
                file_cache_size: default_file_cache_size(memory),
                memtable_heap_space: default_memtable_heap_space(memory),
                ..Options::new("db")
            };
            options.check(memory).unwrap();
        }
        assert_eq!(default_memtable_heap_space(Some(512 << 20)), 64 << 20);
        assert_eq!(default_memtable_heap_space(None), 256 << 20);
    }

    #[test]
    fn a_cache_beyond_memory_is_refused_by_name() {
        let options = Options { row_cache_size: 3 << 30, file_cache_size: 1 << 30, ..Options::new("db") };
        let refused = |memory: u64| options.check(Some(memory << 30)).map_err(|e| e.to_string());
        assert_eq!(refused(8), Ok(()));
        assert!(refused(2).unwrap_err().starts_with("row_cache_size of 3221225472 bytes"));
        assert!(refused(4).unwrap_err().starts_with("file_cache_size + key_cache_size + row_cache_size + "));
        let memtables = Options { memtable_heap_space: 5 << 30, ..Options::new("db") };
        let error = memtables.check(Some(4 << 30)).unwrap_err().to_string();
        assert!(
            error.starts_with("memtable_heap_space of 5368709120 bytes is more than the memory"),
            "{error}"
        );
        let together =
            Options { memtable_heap_space: 3 << 30, file_cache_size: 3 << 29, ..Options::new("db") };
        let error = together.check(Some(4 << 30)).unwrap_err().to_string();
        assert!(error.contains("counter_cache_size + memtable_heap_space of 4"), "{error}");
        assert_eq!(default_file_cache_size(Some(4 << 30)), 256 << 20);
        assert_eq!(default_file_cache_size(Some(1 << 40)), 512 << 20);
    }

    /// With these values, writes waited indefinitely.
    #[test]
    fn settings_that_cannot_work_are_refused_in_cassandras_words() {
        type Change = fn(&mut Options);
        let changes: [(Change, &str); 10] = [
            (|o| o.memtable_heap_space = 0, "memtable_heap_space must be positive, but was 0MiB"),
            (
                |o| o.overlapping.threshold = 0.0,
                "overlapping_tombstones_threshold must be between 0.01 and 1, but was 0",
            ),
            (
                |o| o.overlapping.threshold = f64::NAN,
                "overlapping_tombstones_threshold must be between 0.01 and 1, but was NaN",
            ),
            (
                |o| o.memtable_cleanup_threshold = Some(2.0),
                "memtable_cleanup_threshold must be <= 0.99, but was 2",
            ),
            (
                |o| o.memtable_cleanup_threshold = Some(-1.0),
                "memtable_cleanup_threshold must be >= 0.01, but was -1",
            ),
            (
                |o| o.memtable_cleanup_threshold = Some(f64::NAN),
                "memtable_cleanup_threshold must be >= 0.01, but was NaN",
            ),
            (|o| o.memtable_cleanup_threshold = Some(f64::INFINITY), "must be <= 0.99, but was inf"),
            (
                |o| o.concurrent_compactors = 0,
                "concurrent_compactors should be strictly greater than 0, but was 0",
            ),
            (|o| o.auto_snapshot_ttl_seconds = Some(1), "auto_snapshot_ttl must be at least 60 seconds"),
            (|o| o.column_index_size = 0, "column_index_size must be positive, but was 0KiB"),
        ];
        for (change, says) in changes {
            let mut options = Options::new("db");
            change(&mut options);
            let error = options.check(None).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
