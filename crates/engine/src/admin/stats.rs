//! Statistics of the current state: sizes, counts, distributions over SSTables.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cassette_rows::{TableId, TableMetadata};
use cassette_sstable::chunk_cache::CacheStats;
use cassette_sstable::statistics::EstimatedHistogram;
use cassette_sstable::{Component, SSTableId, SSTableReader, Version};

use crate::log::commitlog::CommitLogStats;
use crate::metrics::{BUCKET_OFFSETS, CacheMeter, CacheRates, Distribution};
use crate::store::core::Core;
use crate::store::table::{Table, View};
use crate::strategies::options::CompactionOptions;

/// Statistics of an SSTable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SSTableInfo {
    /// The id, unique in its table.
    pub id: SSTableId,
    /// The level in leveled compaction, from its Statistics.
    pub level: u32,
    /// Bytes of all its files.
    pub bytes_on_disk: u64,
    /// Bytes of its rows before compression.
    pub uncompressed_bytes: u64,
    /// The approximate number of partitions.
    pub partitions: u64,
    /// The tokens of its first and last key.
    pub tokens: (i64, i64),
    /// The minimum write timestamp, microseconds.
    pub min_timestamp: i64,
    /// The maximum write timestamp.
    pub max_timestamp: i64,
}

/// Statistics of one table; counters begin when it is opened. Counts and latencies of operations
/// are in [`TableMetrics`](crate::metrics::TableMetrics).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableStats {
    /// The directory of its files.
    pub directory: PathBuf,
    /// Whether automatic compactions are enabled: by the table's options and by command.
    pub autocompaction: bool,
    /// The number of partitions in all memtables.
    pub memtable_partitions: u64,
    /// Rows, and deletions of ranges and partitions, written to the active memtable, including
    /// overwritten ones.
    pub memtable_operations: u64,
    /// Bytes of their values.
    pub memtable_data_bytes: u64,
    /// Heap bytes of the table's memtables.
    pub memtable_bytes: u64,
    /// The number of memtables that are being flushed or wait for it.
    pub pending_flushes: u64,
    /// Flushed memtables.
    pub flushes: u64,
    /// Bytes written by flushes.
    pub bytes_flushed: u64,
    /// The number of SSTables that are read.
    pub sstables: u64,
    /// Those with another version than `nb`, the one that is written.
    pub old_sstables: u64,
    /// The number of quarantined SSTables.
    pub sstables_quarantined: u64,
    /// The number and size of SSTables in each level, from 0 to the highest non-empty level.
    pub levels: Vec<LevelStats>,
    /// Bytes of the files of the largest SSTable.
    pub max_sstable_bytes: u64,
    /// The maximum span of write timestamps in one SSTable, milliseconds.
    pub max_sstable_millis: u64,
    /// Bytes of the files of the SSTables that are read.
    pub live_disk_bytes: u64,
    /// Bytes of the files of all SSTables, including excluded ones.
    pub total_disk_bytes: u64,
    /// Bytes of the rows of SSTables that are read, before compression.
    pub uncompressed_bytes: u64,
    /// Of those, bytes in SSTables that Cassandra marked as repaired.
    pub repaired_bytes: u64,
    /// Of those, bytes in SSTables that Cassandra marked as pending repair.
    pub pending_repair_bytes: u64,
    /// Compressed by uncompressed bytes of the compressed SSTables; `None` if none is compressed.
    pub compression_ratio: Option<f64>,
    /// The estimated number of partitions in SSTables; those in several are counted several times.
    pub estimated_partitions: u64,
    /// Bytes of Filter.db files.
    pub bloom_filter_disk_bytes: u64,
    /// Bytes of bloom filters in memory.
    pub bloom_filter_bytes: u64,
    /// Bytes of index summaries in memory.
    pub index_summary_bytes: u64,
    /// Bytes of the offsets of compressed chunks in memory.
    pub compression_metadata_bytes: u64,
    /// Bytes of the checksums of rows and of indexes in memory.
    pub checksum_bytes: u64,
    /// The estimated size of the smallest partition in SSTables, bytes; 0 if there is none.
    pub min_partition_bytes: u64,
    /// The estimated size of the largest.
    pub max_partition_bytes: u64,
    /// The estimated mean size.
    pub mean_partition_bytes: u64,
    /// The estimated fraction of cells that a compaction could drop.
    pub droppable_ratio: f64,
    /// The estimated number of pending compactions.
    pub pending_compactions: u64,
    /// Completed compactions.
    pub compactions: u64,
    /// Bytes written by compactions.
    pub bytes_compacted: u64,
}

/// Statistics of one level of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// The number of SSTables.
    pub sstables: u64,
    /// Bytes of their Data components, which determine the size of levels.
    pub bytes: u64,
}

/// Distributions of a table's partitions in SSTables; those in several SSTables are counted several
/// times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionStats {
    /// By bytes before compression.
    pub bytes: Distribution,
    /// By cells.
    pub cells: Distribution,
}

/// Statistics of the whole engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineStats {
    /// Heap bytes of all memtables.
    pub memtable_bytes: u64,
    /// The maximum heap bytes of all memtables.
    pub memtable_bytes_max: u64,
    /// The chunk cache: `file_cache_size`.
    pub chunk_cache: CacheStats,
    /// The key cache.
    pub key_cache: CacheStats,
    /// The row cache.
    pub row_cache: CacheStats,
    /// The counter cache.
    pub counter_cache: CacheStats,
    /// Look-ups a second in the chunk, key, row and counter caches.
    pub cache_rates: [CacheRates; 4],
    /// The commit log, once recovery has ended.
    pub commit_log: Option<CommitLogStats>,
    /// Tables with data that are missing in the schema, when they were last listed; see
    /// [`Engine::unknown_tables`](crate::Engine::unknown_tables).
    pub unknown_tables: u64,
    /// Bytes of their files and of the commit log segments kept for them.
    pub unknown_table_bytes: u64,
    /// The time of these statistics, by the engine's monotonic clock.
    pub now: Duration,
}

impl EngineStats {
    /// Returns the caches, by their names in `system_views.caches`.
    pub fn caches(&self) -> [(&'static str, &CacheStats, &CacheRates); 4] {
        let [chunks, keys, rows, counters] = &self.cache_rates;
        [
            ("chunks", &self.chunk_cache, chunks),
            ("counters", &self.counter_cache, counters),
            ("keys", &self.key_cache, keys),
            ("rows", &self.row_cache, rows),
        ]
    }
}

/// The storage that all tables occupy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BytesInUse {
    /// Files of SSTables.
    pub disk: u64,
    /// Rows in memtables, which will be flushed.
    pub memtables: u64,
}

impl Core {
    /// See [`Engine::bytes_in_use`](crate::Engine::bytes_in_use).
    pub fn bytes_in_use(&self) -> BytesInUse {
        let mut bytes = BytesInUse::default();
        for table in self.tables.load().values() {
            let view = table.view();
            let left_out = view.quarantined.iter().map(|sstable| sstable.reader.bytes_on_disk());
            bytes.disk += readers(&view).map(SSTableReader::bytes_on_disk).chain(left_out).sum::<u64>();
            bytes.memtables += view.memtables().map(|memtable| memtable.stats().data_bytes).sum::<u64>();
        }
        bytes
    }

    /// See [`Engine::table_stats`](crate::Engine::table_stats).
    pub fn table_stats(&self, table: &Arc<Table>) -> TableStats {
        let view = table.view();
        let metrics = &table.metrics;
        let memtable = view.memtable.stats();
        let of_sstables = of_sstables(&view, self.now_seconds());
        TableStats {
            directory: table.directory.clone(),
            autocompaction: CompactionOptions::parse(&view.table.params.compaction)
                .is_ok_and(|options| table.compaction.lock().starts_compactions(&options)),
            memtable_partitions: view.memtables().map(|memtable| memtable.partition_count() as u64).sum(),
            memtable_operations: memtable.operations,
            memtable_data_bytes: memtable.data_bytes,
            memtable_bytes: view.memtables().map(|memtable| memtable.heap_bytes() as u64).sum(),
            pending_flushes: view.flushing.len() as u64,
            flushes: metrics.flushes.get(),
            bytes_flushed: metrics.bytes_flushed.get(),
            pending_compactions: self.pending_compactions(table) as u64,
            compactions: metrics.compactions.get(),
            bytes_compacted: metrics.bytes_compacted.get(),
            sstables_quarantined: (view.quarantined.len() + view.unreadable.len()) as u64,
            bloom_filter_disk_bytes: readers(&view).map(|reader| self.filter_file_bytes(reader)).sum(),
            total_disk_bytes: of_sstables.live_disk_bytes + self.left_out_bytes(&view),
            ..of_sstables
        }
    }

    /// See [`Engine::newest_timestamp`](crate::Engine::newest_timestamp).
    pub fn newest_timestamp(&self, table: &Table) -> Option<i64> {
        let view = table.view();
        let of_memtables = view.memtables().map(|memtable| memtable.stats().max_timestamp);
        let of_sstables =
            view.sstables.iter().chain(view.quarantined.iter()).map(|sstable| sstable.max_timestamp());
        // That of an empty memtable.
        of_memtables.chain(of_sstables).max().filter(|newest| *newest > i64::MIN)
    }

    /// Returns the bytes of the files of SSTables that are not read.
    fn left_out_bytes(&self, view: &View) -> u64 {
        let quarantined = view.quarantined.iter().map(|sstable| sstable.reader.bytes_on_disk());
        let files = view
            .unreadable
            .iter()
            .flat_map(|sstable| Component::ALL.into_iter().map(|of| sstable.descriptor.path(of)));
        let unreadable = files.map(|path| self.fs.metadata(&path).map_or(0, |metadata| metadata.len));
        quarantined.chain(unreadable).sum()
    }

    fn filter_file_bytes(&self, reader: &SSTableReader) -> u64 {
        if reader.components().contains(&Component::Filter) {
            let path = reader.descriptor().path(Component::Filter);
            self.fs.metadata(&path).map_or(0, |metadata| metadata.len)
        } else {
            0
        }
    }

    /// See [`Engine::partition_stats`](crate::Engine::partition_stats).
    pub fn partition_stats(&self, table: &Table) -> PartitionStats {
        let view = table.view();
        let merged = |histogram: fn(&SSTableReader) -> &EstimatedHistogram| {
            let mut counts = vec![0; BUCKET_OFFSETS.len() + 1];
            for reader in readers(&view) {
                for (offset, count) in histogram(reader).buckets() {
                    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
                    // Files contain their offsets; those of all versions are identical.
                    let bucket = offset.map_or(BUCKET_OFFSETS.len(), |offset| {
                        BUCKET_OFFSETS.partition_point(|other| *other < offset)
                    });
                    counts[bucket] += u64::try_from(count).unwrap_or(0);
                }
            }
            Distribution { offsets: BUCKET_OFFSETS.into(), counts: counts.into() }
        };
        PartitionStats {
            bytes: merged(|reader| &reader.stats().partition_sizes),
            cells: merged(|reader| &reader.stats().cell_counts),
        }
    }

    /// See [`Engine::stats`](crate::Engine::stats).
    pub fn stats(&self) -> EngineStats {
        EngineStats {
            memtable_bytes: self.memory.used() as u64,
            memtable_bytes_max: self.options.memtable_heap_space as u64,
            chunk_cache: self.cache.stats(),
            key_cache: self.key_cache.stats(),
            row_cache: self.row_cache.stats(),
            counter_cache: self.counter_cache.stats(),
            cache_rates: self.metrics.caches.each_ref().map(CacheMeter::rates),
            commit_log: self.log.load().as_ref().map(|log| log.stats()),
            unknown_tables: self.unknown_tables.load(Ordering::Relaxed),
            unknown_table_bytes: self.unknown_bytes.load(Ordering::Relaxed),
            now: self.clock.monotonic(),
        }
    }

    /// See [`Engine::sstable_at`](crate::Engine::sstable_at).
    pub fn sstable_at(&self, path: &Path) -> Option<(TableId, SSTableId)> {
        self.tables.load().values().find_map(|table| {
            let view = table.view();
            let mut ids = readers(&view).map(SSTableReader::descriptor);
            ids.find(|descriptor| descriptor.path(Component::Data) == path)
                .map(|descriptor| (table.id, descriptor.id))
        })
    }

    /// See [`Engine::tables`](crate::Engine::tables).
    pub fn table_list(&self) -> Vec<(TableId, Arc<TableMetadata>)> {
        let mut tables: Vec<_> =
            self.tables.load().iter().map(|(id, table)| (*id, table.metadata())).collect();
        tables.sort_by(|(_, a), (_, b)| (&a.keyspace, &a.name).cmp(&(&b.keyspace, &b.name)));
        tables
    }
}

fn readers(view: &View) -> impl Iterator<Item = &SSTableReader> {
    view.sstables.iter().map(|sstable| &sstable.reader)
}

/// Returns the statistics of a view's SSTables.
fn of_sstables(view: &View, now_seconds: u32) -> TableStats {
    let gc_before = now_seconds.saturating_sub(view.table.params.gc_grace_seconds);
    let mut stats = TableStats { sstables: view.sstables.len() as u64, ..TableStats::default() };
    let (mut stored, mut plain) = (0, 0);
    let (mut partitions, mut partition_bytes) = (0i128, 0i128);
    let (mut droppable, mut cells) = (0.0, 0.0);
    for reader in readers(view) {
        let on_disk = reader.stats();
        let bytes = reader.bytes_on_disk();
        stats.old_sstables += u64::from(reader.descriptor().version != Version::default());
        stats.live_disk_bytes += bytes;
        stats.max_sstable_bytes = stats.max_sstable_bytes.max(bytes);
        let micros = on_disk.max_timestamp.saturating_sub(on_disk.min_timestamp);
        stats.max_sstable_millis = stats.max_sstable_millis.max(u64::try_from(micros / 1000).unwrap_or(0));
        let level = usize::try_from(on_disk.level).unwrap_or(0).min(LEVELS_MAX);
        if stats.levels.len() <= level {
            stats.levels.resize(level + 1, LevelStats::default());
        }
        stats.levels[level].sstables += 1;
        stats.levels[level].bytes += reader.data_bytes_on_disk();

        let uncompressed = reader.uncompressed_bytes();
        stats.uncompressed_bytes += uncompressed;
        if on_disk.pending_repair.is_some() {
            stats.pending_repair_bytes += uncompressed;
        } else if on_disk.repaired_at > 0 {
            stats.repaired_bytes += uncompressed;
        }
        if on_disk.compression_ratio >= 0.0 {
            stored += reader.data_bytes_on_disk();
            plain += uncompressed;
        }
        stats.estimated_partitions += reader.estimated_keys();
        stats.bloom_filter_bytes += reader.filter_heap_size() as u64;
        stats.index_summary_bytes += reader.summary_heap_size() as u64;
        stats.compression_metadata_bytes += reader.compression_heap_size() as u64;
        stats.checksum_bytes += reader.checksums_heap_size() as u64;

        let sizes = &on_disk.partition_sizes;
        let least = sizes.min().unsigned_abs();
        stats.min_partition_bytes = match stats.min_partition_bytes {
            0 => least,
            min => min.min(least),
        };
        stats.max_partition_bytes = stats.max_partition_bytes.max(sizes.max().unsigned_abs());
        partitions += i128::from(sizes.count());
        partition_bytes += i128::from(sizes.mean()) * i128::from(sizes.count());
        let cell_counts = &on_disk.cell_counts;
        droppable += on_disk.drop_times.count_until(i64::from(gc_before));
        cells += cell_counts.mean() as f64 * cell_counts.count() as f64;
    }
    stats.compression_ratio = (plain > 0).then(|| stored as f64 / plain as f64);
    stats.mean_partition_bytes =
        partition_bytes.checked_div(partitions).and_then(|mean| u64::try_from(mean).ok()).unwrap_or(0);
    stats.droppable_ratio = if cells > 0.0 { droppable / cells } else { 0.0 };
    stats
}

/// A file may contain any level; no strategy uses higher ones.
const LEVELS_MAX: usize = 64;
