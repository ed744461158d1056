//! Compaction: SSTables are merged into fewer, without data that is no longer needed.
//!
//! [Strategies](crate::strategies), which are pure functions of a
//! [`Tree`](crate::strategies::tree::Tree), choose what to compact; if they find nothing,
//! [`overlap`] chooses by what newer SSTables shadow. [`run`] executes it as one
//! [`Transaction`](crate::store::transaction::Transaction): after a crash at any step either the
//! inputs or the outputs exist.

mod commands;
mod inputs;
mod overlap;
mod pace;
mod purge;
mod run;
mod schedule;
mod scrub;
mod shadow;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use commands::Upgraded;
pub use scrub::ScrubbedSSTable;
pub use split::SplitSSTable;
