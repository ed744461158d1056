//! Secondary indexes: maintenance and searches.
//!
//! An index is a hidden table with a partition for each indexed value. The partition has a row for
//! each row of the base table with that value, in the order of the base table. Entries are written
//! in the same commit log record as the row that they refer to, and applied after it. Every reader
//! checks them against that row: an entry may be stale, but a row never lacks its entry.
//!
//! ```text
//! entries      the entries of a row, and how a write changes them
//! maintenance  the mutations of indexes that accompany those of their tables
//! search       the entries of a value, in the order of the base table
//! intersection those of several indexes
//! build_notes  the progress of builds
//! vectors      graphs that find the most similar vectors
//! search_metrics  metrics of queries by storage-attached indexes
//! ```

pub(crate) mod build_notes;
pub(crate) mod entries;
mod intersection;
mod maintenance;
mod search;
mod search_metrics;
#[cfg(test)]
mod tests;
pub(crate) mod vectors;

pub(crate) use build_notes::{forget, load, mark_built, unbuild};
pub(crate) use intersection::Intersection;
pub(crate) use maintenance::add_index_mutations;
pub(crate) use search::{Hit, Hits, Within};
pub use search_metrics::SearchMetrics;
pub(crate) use search_metrics::SearchTally;
