//! The LSM tree: commit log, memtables, flush, reads, compaction, caches.
//!
//! An [`Engine`] holds tables. Writes go to the commit log and to a table's memtable; memtables are flushed to
//! SSTables, SSTables compacted into fewer. Reads merge what all of them hold.
//!
//! The streams that reads give contain tombstones and rows that are no longer live: whoever answers a query passes over
//! markers and over rows for which [`is_live`](cassette_rows::Row::is_live) says no.

mod admission;
mod background;
mod backpressure;
pub mod commitlog;
pub mod compaction;
mod core;
mod counter_cache;
mod data_directory;
mod drop_records;
mod engine;
#[cfg(test)]
mod engine_tests;
mod error;
mod flush;
mod import;
mod import_source;
mod key_range;
mod memory;
mod memtable;
pub mod metrics;
mod mutation_codec;
mod options;
mod partition_lock;
mod partition_observer;
mod read;
mod recovery;
mod replay_positions;
mod row_cache;
mod saved_caches;
mod schema_journal;
mod snapshots;
mod sstable_handle;
mod sstable_writer;
mod stats;
mod table;
mod tables;
#[cfg(test)]
mod testing;
pub mod trace;
mod transaction;
mod unknown_tables;
mod verify;
mod write;

pub use cassette_sstable::chunk_cache::{CacheStats, DiskAccessMode};
pub use cassette_sstable::row_index_reads;
pub use cassette_sstable::scrub::{ScrubOptions, ScrubReport};
pub use cassette_sstable::waiting::{may_wait, without_waiting};
pub use compaction::{
    COMPACTION_STRATEGIES, CompactionKind, CompactionOptions, CompactionTotals, CompletedCompaction,
    OverlappingFigures, OverlappingTombstones, RunningCompaction, ScrubbedSSTable, SourcesPolicy,
};
pub use counter_cache::{Counted, PartitionCounters};
pub use engine::{Engine, Mutation, Promise, ReplaySummary, SSTableInfo};
pub use error::{EngineError, Result};
pub use import::{ImportOptions, ImportedSSTable, Transfer, import_summary};
pub use key_range::{KeyRange, PartitionPosition};
pub use options::{
    BackpressureOptions, CacheSaving, DiskFailurePolicy, FlushCompression, Options, OverlappingOptions,
    SavedCachesOptions,
};
pub use partition_lock::PartitionLock;
pub use partition_observer::{PartitionObserver, PartitionSize, WrittenPartition};
pub use saved_caches::CacheKind;
pub use snapshots::{Snapshot, SnapshotFilter, SnapshotOptions};
pub use stats::{BytesInUse, EngineStats, LevelStats, PartitionStats, TableStats};
pub use unknown_tables::UnknownTable;
pub use verify::VerifiedSSTable;
