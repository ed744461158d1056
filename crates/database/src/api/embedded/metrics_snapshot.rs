//! A snapshot of the metrics.

use std::time::Duration;

use cassette_engine::CacheStats;

use crate::api::database::Database;
use crate::basics::metrics::RequestKindMetrics;
use crate::schema::catalog::KeyspaceKind;

/// The metrics of a database at one moment; counters start when it is opened. Returned by
/// [`Database::metrics_snapshot`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MetricsSnapshot {
    /// SELECTs of named partitions.
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
    /// Available bytes of the disk, if known.
    pub disk_available_bytes: Option<u64>,
    /// The user tables, by keyspace and name.
    pub tables: Vec<TableSnapshot>,
}

/// Metrics of one kind of request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestSnapshot {
    /// Executed requests, including failed ones.
    pub count: u64,
    /// The median latency, rounded up to a bucket.
    pub p50: Duration,
    /// The 99th percentile of the latency.
    pub p99: Duration,
    /// The maximum latency.
    pub max: Duration,
    /// Requests that exceeded their timeout.
    pub timeouts: u64,
    /// Requests that failed for reasons other than invalid input.
    pub failures: u64,
    /// Requests that were rejected because of the statement or its values.
    pub invalid: u64,
}

/// Metrics of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheSnapshot {
    /// Look-ups that found an entry.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Used bytes.
    pub bytes: u64,
    /// The capacity in bytes.
    pub capacity: u64,
}

/// Metrics of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableSnapshot {
    /// The keyspace.
    pub keyspace: String,
    /// The name.
    pub name: String,
    /// Heap bytes of its memtables.
    pub memtable_bytes: u64,
    /// The number of SSTables.
    pub sstables: u64,
    /// Bytes of the SSTables' files.
    pub sstable_bytes: u64,
    /// The estimated number of partitions in SSTables; those in several are counted several times.
    pub estimated_partitions: u64,
    /// Flushed memtables.
    pub flushes: u64,
    /// Completed compactions.
    pub compactions: u64,
    /// The estimated number of pending compactions.
    pub pending_compactions: u64,
    /// Bytes written by flushes.
    pub flushed_bytes: u64,
    /// Bytes written by compactions.
    pub compacted_bytes: u64,
}

impl Database {
    /// Returns the current metrics, without blocking. Takes time proportional to the number of
    /// SSTables.
    pub fn metrics_snapshot(&self) -> MetricsSnapshot {
        let stats = self.engine().stats();
        let requests = self.metrics();
        let of = |metrics: &RequestKindMetrics| of_requests(metrics, stats.now);
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
        // A table that was dropped concurrently has no statistics.
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

fn of_requests(metrics: &RequestKindMetrics, now: Duration) -> RequestSnapshot {
    let latency = metrics.latency.snapshot(now).all;
    RequestSnapshot {
        count: latency.count(),
        p50: Duration::from_micros(latency.percentile(0.5)),
        p99: Duration::from_micros(latency.percentile(0.99)),
        max: Duration::from_micros(latency.max()),
        timeouts: metrics.timeouts.get(),
        failures: metrics.failures.get(),
        invalid: metrics.invalid.get(),
    }
}

fn of_cache(cache: &CacheStats) -> CacheSnapshot {
    CacheSnapshot { hits: cache.hits, misses: cache.misses, bytes: cache.bytes, capacity: cache.capacity }
}
