//! Compaction: SSTables are merged into fewer, and what nothing needs any more is left out.
//!
//! What to compact is decided by pure functions ([`size_tiered`], [`tombstones`]); [`run`](self) does it, as one
//! [`Transaction`](crate::transaction::Transaction): after a crash at any step there are the inputs or the output.

mod options;
mod purge;
mod run;
mod schedule;
pub mod size_tiered;
#[cfg(test)]
mod tests;
mod throttle;
pub mod tombstones;

pub use options::{COMPACTION_STRATEGIES, COMPACTION_STRATEGIES_TO_COME, CompactionOptions};
pub(crate) use throttle::Throttle;
