//! Materialized views: tables that hold the rows of another one under another key.
//!
//! A view's table is stored as any other. Each write of the base table reads what the rows were, under the locks of their
//! partitions, and brings with it, in the same commit log record, what becomes of their entries in the views. So an entry is
//! there when its row is, after any crash.
//!
//! ```text
//! definition   what a view is: base, table, WHERE
//! updates      from a row before and after a write to the changes of its entries; Cassandra's rules
//! maintenance  the mutations of views that go with those of their tables
//! entry_budget the memory of view rows until they are written
//! build        entries of what was there before the view, in the background
//! ```

mod build;
mod definition;
mod entry_budget;
mod maintenance;
#[cfg(test)]
mod tests;
mod updates;

pub(crate) use build::{forget, load, truncated, unbuild};
pub use definition::View;
pub(crate) use entry_budget::{EntryBudget, LargeWrites};
pub(crate) use maintenance::{add_view_mutations, lock_partitions};
