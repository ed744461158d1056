//! Merges versions of the same data: cells, rows, partitions.
//!
//! The rules are Cassandra's (`db/rows/Cells.java`, `Row.Merger`, `UnfilteredRowIterators`): the
//! later write wins, a deletion removes what is at or below its timestamp, tombstones win ties. The
//! result does not depend on the order or grouping of the versions.

pub mod counter;
mod rows;
pub mod shadow;
mod stream;
mod tokens;

pub use rows::{merge_rows, reconcile};
pub use stream::MergedStream;

#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
