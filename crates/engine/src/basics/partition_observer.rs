//! The observer of the partitions that flushes and compactions write.

use std::fmt::Debug;
use std::path::Path;

use cassette_rows::{DecoratedKey, TableMetadata};
pub use cassette_sstable::writer::PartitionSize;

/// A partition that was written to an SSTable, which may not be in use yet.
#[derive(Debug, Clone, Copy)]
pub struct WrittenPartition<'p> {
    /// Its table.
    pub table: &'p TableMetadata,
    /// Its key.
    pub key: &'p DecoratedKey,
    /// How large it is.
    pub size: PartitionSize,
    /// The Data file that holds it.
    pub path: &'p Path,
}

/// Receives every partition that a flush or a compaction has written. Called on the thread that writes, so it must be
/// quick and must not call the engine.
pub trait PartitionObserver: Debug + Send + Sync {
    /// Whether partitions of this size are of interest.
    fn wants(&self, size: PartitionSize) -> bool;

    /// A partition of interest has been written.
    fn written(&self, partition: WrittenPartition<'_>);
}
