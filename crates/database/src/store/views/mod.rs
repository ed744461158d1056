//! Materialized views: tables that hold the rows of another one under another key.
//!
//! A view's table is stored as any other. Each write of the base table reads what the rows were, under the locks of their
//! partitions, and brings with it, in the same commit log record, what becomes of their entries in the views. So an entry is
//! there when its row is, after any crash.
//!
//! ```text
//! updates      from a row before and after a write to the changes of its entries; Cassandra's rules
//! maintenance  the mutations of views that go with those of their tables
//! entry_budget the memory of view rows until they are written
//! build_notes  how far views are built
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
