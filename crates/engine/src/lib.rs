//! The LSM tree: commit log, memtables, flush, reads, compaction, caches.
//!
//! An [`Engine`] contains tables. Writes go to the commit log and to a table's memtable; memtables
//! are flushed to SSTables, which are compacted into fewer. Reads merge memtables and SSTables.
//!
//! The streams returned by reads contain tombstones and rows that are no longer live: callers that
//! answer a query skip markers, and rows for which [`is_live`](cassette_rows::Row::is_live) is
//! false.

mod access;
mod admin;
mod api;
mod basics;
mod compaction;
#[cfg(test)]
mod engine_tests;
mod flush;
mod log;
mod memory;
pub mod metrics;
mod store;
mod strategies;

pub use access::write_admission::WriteDemand;
pub use admin::archived::ArchivedLog;
pub use admin::import::{ImportOptions, ImportStep, ImportedSSTable, Transfer, import_summary};
pub use admin::recovery::ReplaySummary;
pub use admin::snapshots::{Snapshot, SnapshotFilter, SnapshotOptions, SnapshotPosition, snapshot_position};
pub use admin::stats::{BytesInUse, EngineStats, LevelStats, PartitionStats, SSTableInfo, TableStats};
pub use admin::unknown_tables::UnknownTable;
pub use admin::verify::VerifiedSSTable;
pub use api::Engine;
pub use basics::error::{EngineError, Result};
pub use basics::key_range::{KeyRange, PartitionPosition};
pub use basics::mutation::{Durability, Mutation};
pub use basics::options::{
    BackpressureOptions, CacheKind, CacheSaving, CdcSettings, DiskFailurePolicy, FlushCompression, Options,
    OverlappingOptions, OverlappingTombstones, SavedCachesOptions, SourcesPolicy,
};
pub use basics::partition_observer::{PartitionObserver, PartitionSize, WrittenPartition, WrittenRow};
pub use basics::trace;
pub use cassette_sstable::SSTableId;
pub use cassette_sstable::chunk_cache::{CacheStats, DiskAccessMode};
pub use cassette_sstable::row_index_reads;
pub use cassette_sstable::scrub::{ScrubOptions, ScrubReport};
pub use cassette_sstable::waiting::{may_wait, without_waiting};
pub use compaction::{ScrubbedSSTable, SplitSSTable};
pub use log::change_stream as cdc;
pub use log::commitlog;
pub use memory::counter_cache::{Counted, PartitionCounters};
pub use memory::pool::WritePermit;
pub use store::overlapping::OverlapMetrics;
pub use store::partition_lock::PartitionLock;
pub use store::progress::{CompactionKind, CompactionTotals, CompletedCompaction, RunningCompaction};
pub use strategies::options::{COMPACTION_STRATEGIES, CompactionOptions};
