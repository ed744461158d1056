//! Secondary indexes: keeping and reading them.
//!
//! An index is a hidden table: a partition for each indexed value, a row in it for each row of the base table that holds
//! the value, in the order of the base table. Entries are written with the write that makes them, as one record of the
//! commit log, after the row that they lead to. Every reader checks them against that row: an entry may be stale, but a row
//! never lacks its entry.
//!
//! ```text
//! entries      the entries of a row, and what a write changes in them
//! maintenance  the mutations of indexes that go with those of their tables
//! search       the entries of a value, in the order of the base table
//! intersection those of several indexes
//! build_notes  how far indexes are built
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

pub(crate) use build_notes::{forget, load, mark_built, unbuild};
pub(crate) use intersection::Intersection;
pub(crate) use maintenance::add_index_mutations;
pub(crate) use search::{Hit, Hits, Within};
pub use search_metrics::SearchMetrics;
pub(crate) use search_metrics::SearchTally;
