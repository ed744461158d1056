//! Materialized views: tables with the rows of another table under another key.
//!
//! A view's table is stored like any other. Each write of the base table reads the previous rows,
//! under the locks of their partitions, and adds the changes of their entries in the views to its
//! commit log record. So an entry exists if and only if its row does, after any crash.
//!
//! ```text
//! updates      the changes of entries, from a row before and after a write; Cassandra's rules
//! maintenance  the mutations of views that accompany those of their tables
//! entry_budget the memory of view rows until they are written
//! build_notes  the progress of builds
//! ```

pub(crate) mod build_notes;
mod entry_budget;
mod maintenance;
#[cfg(test)]
mod tests;
mod updates;

pub(crate) use build_notes::{forget, load, truncated, unbuild};
pub(crate) use entry_budget::{EntryBudget, LargeWrites, Reason};
pub(crate) use maintenance::{EntryWriter, add_view_mutations, lock_partitions};
