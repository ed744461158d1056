//! Metrics as plain values at one moment.

use std::time::Duration;

use cassette_engine::CacheStats;

use crate::api::database::Database;
use crate::basics::metrics::RequestFigures;
use crate::schema::catalog::KeyspaceKind;

/// The metrics of a database at one moment; counters are since it was opened.
/// [`Database::metrics_snapshot`] takes it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MetricsSnapshot {
    /// SELECTs of partitions that they name.
    pub reads: RequestSnapshot,
    /// SELECTs over ranges of partitions.
    pub range_reads: RequestSnapshot,
    /// INSERTs, UPDATEs, DELETEs and batches without conditions.
    pub writes: RequestSnapshot,
    /// SELECTs with a serial consistency level.
    pub conditional_reads: RequestSnapshot,
    /// Writes and batches with conditions.
    pub conditional_writes: RequestSnapshot,
    /// Heap bytes of all memtables.
    pub memtable_bytes: u64,
    /// `memtable_heap_space`, bytes.
    pub memtable_bytes_max: u64,
    /// Decompressed chunks of SSTables: `file_cache_size`.
    pub file_cache: CacheSnapshot,
    /// `key_cache_size`.
    pub key_cache: CacheSnapshot,
    /// `row_cache_size`.
    pub row_cache: CacheSnapshot,
    /// `counter_cache_size`.
    pub counter_cache: CacheSnapshot,
    /// Bytes of commit log segments.
    pub commitlog_bytes: u64,
    /// Bytes of all SSTables.
    pub sstable_bytes: u64,
    /// Bytes that can still be written to the disk, if the operating system tells.
    pub disk_available_bytes: Option<u64>,
    /// The users' tables, by keyspace and name.
    pub tables: Vec<TableSnapshot>,
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestSnapshot {
    /// Those that were executed, failed ones included.
    pub count: u64,
    /// The latency that half of them stayed within, rounded up to a bucket.
    pub p50: Duration,
    /// The latency that 99 % stayed within.
    pub p99: Duration,
    /// The longest latency.
    pub max: Duration,
    /// Those that took longer than their timeout.
    pub timeouts: u64,
    /// Those that failed through no fault of the statement.
    pub failures: u64,
    /// Those that were refused because of the statement or its values.
    pub invalid: u64,
}

/// A cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheSnapshot {
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Bytes in it.
    pub bytes: u64,
    /// Bytes that may be in it.
    pub capacity: u64,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSnapshot {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// Heap bytes of its memtables.
    pub memtable_bytes: u64,
    /// SSTables.
    pub sstables: u64,
    /// Bytes of their files.
    pub sstable_bytes: u64,
    /// Estimated partitions in SSTables; those in several count several times.
    pub estimated_partitions: u64,
    /// Memtables flushed.
    pub flushes: u64,
    /// Compactions completed.
    pub compactions: u64,
    /// Estimated compactions that are due.
    pub pending_compactions: u64,
    /// Bytes written by flushes.
    pub flushed_bytes: u64,
    /// Bytes written by compactions.
    pub compacted_bytes: u64,
}

impl Database {
    /// The metrics now. Takes time in the order of the number of SSTables, and waits for nothing.
    pub fn metrics_snapshot(&self) -> MetricsSnapshot {
        let stats = self.engine().stats();
        let requests = self.metrics();
        let of = |figures: &RequestFigures| of_requests(figures, stats.now);
        MetricsSnapshot {
            reads: of(&requests.read),
            range_reads: of(&requests.range),
            writes: of(&requests.write),
            conditional_reads: of(&requests.cas_read),
            conditional_writes: of(&requests.cas_write),
            memtable_bytes: stats.memtable_bytes,
            memtable_bytes_max: stats.memtable_bytes_max,
            file_cache: of_cache(&stats.chunk_cache),
            key_cache: of_cache(&stats.key_cache),
            row_cache: of_cache(&stats.row_cache),
            counter_cache: of_cache(&stats.counter_cache),
            commitlog_bytes: stats.commit_log.map_or(0, |log| log.total_size),
            sstable_bytes: self.engine().bytes_in_use().disk,
            disk_available_bytes: self.engine().available_space().ok(),
            tables: self.table_snapshots(),
        }
    }

    fn table_snapshots(&self) -> Vec<TableSnapshot> {
        let catalog = self.catalog();
        let users = catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User);
        let tables = users.flat_map(|keyspace| keyspace.tables.values());
        // A table that is dropped meanwhile has no statistics.
        let of_table = |table: &std::sync::Arc<cassette_rows::TableMetadata>| {
            let stats = self.engine().table_stats(table.id).ok()?;
            Some(TableSnapshot {
                keyspace: table.keyspace.clone(),
                name: table.name.clone(),
                memtable_bytes: stats.memtable_bytes,
                sstables: stats.sstables,
                sstable_bytes: stats.total_disk_bytes,
                estimated_partitions: stats.estimated_partitions,
                flushes: stats.flushes,
                compactions: stats.compactions,
                pending_compactions: stats.pending_compactions,
                flushed_bytes: stats.bytes_flushed,
                compacted_bytes: stats.bytes_compacted,
            })
        };
        tables.filter_map(of_table).collect()
    }
}

fn of_requests(figures: &RequestFigures, now: Duration) -> RequestSnapshot {
    let latency = figures.latency.snapshot(now).all;
    RequestSnapshot {
        count: latency.count(),
        p50: Duration::from_micros(latency.percentile(0.5)),
        p99: Duration::from_micros(latency.percentile(0.99)),
        max: Duration::from_micros(latency.max()),
        timeouts: figures.timeouts.get(),
        failures: figures.failures.get(),
        invalid: figures.invalid.get(),
    }
}

fn of_cache(cache: &CacheStats) -> CacheSnapshot {
    CacheSnapshot { hits: cache.hits, misses: cache.misses, bytes: cache.bytes, capacity: cache.capacity }
}
