//! INSERT, UPDATE, DELETE and BATCH: execution.
//!
//! ```text
//! plan + values --> PartitionUpdates --> one Store::apply, after the conditions, if any, were checked
//! ```

mod batch;
mod batch_limits;
mod cells;
mod conditional;
mod counters;
mod execute;
mod list_view;
mod mutations;
mod question;
mod rows;
#[cfg(test)]
mod tests;

pub(crate) use batch::apply_batch;
pub(crate) use execute::guard_disk_usage;
pub(crate) use mutations::Mutations;
