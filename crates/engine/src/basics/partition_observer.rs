//! The observer of the partitions and rows that flushes and compactions write.

use std::fmt::Debug;
use std::path::Path;

use cassette_rows::{DecoratedKey, Row, TableMetadata};
pub use cassette_sstable::writer::PartitionSize;

/// A partition that was written to an SSTable, which may not be in use yet.
#[derive(Debug, Clone, Copy)]
pub struct WrittenPartition<'p> {
    /// The table.
    pub table: &'p TableMetadata,
    /// The key.
    pub key: &'p DecoratedKey,
    /// The size.
    pub size: PartitionSize,
    /// The Data file that contains it.
    pub path: &'p Path,
}

/// A row that is about to be written to an SSTable.
#[derive(Debug, Clone, Copy)]
pub struct WrittenRow<'r> {
    /// The table.
    pub table: &'r TableMetadata,
    /// The key of its partition.
    pub key: &'r DecoratedKey,
    /// The row; a static one has no clustering.
    pub row: &'r Row,
    /// The current time for the liveness of cells, seconds since 1970.
    pub now: u32,
}

/// Observes every partition that flushes and compactions write. Called on the writing thread, so it
/// must be fast and must not call the engine.
pub trait PartitionObserver: Debug + Send + Sync {
    /// Whether partitions of this size are to be reported.
    fn wants(&self, size: PartitionSize) -> bool;

    /// Reports a written partition.
    fn written(&self, partition: WrittenPartition<'_>);

    /// Whether rows of this table are to be reported. Called once for each partition of a table
    /// with non-frozen collections; rows of other tables are never reported.
    fn wants_rows(&self, table: &TableMetadata) -> bool {
        let _ = table;
        false
    }

    /// Reports a row that is about to be written.
    fn row(&self, row: WrittenRow<'_>) {
        let _ = row;
    }
}
