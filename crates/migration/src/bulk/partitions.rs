//! Partitions as parts get them.

use cassette_rows::{PartitionHeader, Unfiltered};
use cassette_sstable::EncodingStats;

use crate::error::Result;

/// Partitions in token order, with their rows and deletions.
pub trait Partitions {
    /// Moves to the next partition, skipping the remainder of the current one.
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>>;

    /// Returns the next row or marker of the partition.
    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>>;

    /// Returns base values for the times of the next cells; `None` for those of the table.
    fn times(&self) -> Option<EncodingStats> {
        None
    }
}
