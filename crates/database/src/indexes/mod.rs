//! Secondary indexes.
//!
//! An index is a hidden table: a partition for each indexed value, a row in it for each row of the base table that holds
//! the value, in the order of the base table. Entries are written with the write that makes them, as one record of the
//! commit log, after the row that they lead to. What they say is checked against that row by every reader: an entry may be
//! stale, but never is a row without its entry.
//!
//! ```text
//! analyzer     what becomes of a value before it is indexed
//! definition   what is indexed, and the hidden table of it
//! entries      the entries of a row, and what a write changes in them
//! maintenance  the mutations of indexes that go with those of their tables
//! build        entries of what was there before the index, in the background
//! search       the entries of a value, in the order of the base table
//! intersection those of several indexes
//! figures      what queries by storage-attached indexes came to
//! ```

mod analyzer;
mod build;
mod definition;
mod entries;
mod figures;
mod intersection;
mod maintenance;
mod search;

pub(crate) use analyzer::{Analyzer, Analyzers, BOOLEAN_OPTIONS, type_of_entries};
pub(crate) use build::{BuildState, Builds, forget, load, mark_built, unbuild};
pub(crate) use definition::{CLASS_NAME, Finds, Part, TARGET, Target};
pub use definition::{Index, IndexKind};
pub use figures::SearchFigures;
pub(crate) use figures::SearchTally;
pub(crate) use intersection::Intersection;
pub(crate) use maintenance::add_index_mutations;
pub(crate) use search::{Hit, Hits, Wanted, Within};

#[cfg(test)]
mod tests;
