//! The observer of the partitions and rows that flushes and compactions write.

use std::fmt::Debug;
use std::path::Path;

use cassette_rows::{DecoratedKey, Row, TableMetadata};
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

/// A row that is about to be written to an SSTable.
#[derive(Debug, Clone, Copy)]
pub struct WrittenRow<'r> {
    /// Its table.
    pub table: &'r TableMetadata,
    /// The key of its partition.
    pub key: &'r DecoratedKey,
    /// The row; a static one has no clustering.
    pub row: &'r Row,
    /// Seconds since 1970, for which cells are live or not.
    pub now: u32,
}

/// Receives every partition that a flush or a compaction has written. Called on the thread that
/// writes, so it must be quick and must not call the engine.
pub trait PartitionObserver: Debug + Send + Sync {
    /// Whether partitions of this size are of interest.
    fn wants(&self, size: PartitionSize) -> bool;

    /// A partition of interest has been written.
    fn written(&self, partition: WrittenPartition<'_>);

    /// Whether rows of this table are of interest. Called once for each partition of a table with
    /// collections that have a cell for each element; rows of other tables are never passed on.
    fn wants_rows(&self, table: &TableMetadata) -> bool {
        let _ = table;
        false
    }

    /// A row of interest is about to be written.
    fn row(&self, row: WrittenRow<'_>) {
        let _ = row;
    }
}
