//! Compaction: SSTables are merged into fewer, without what nothing needs any more.
//!
//! [Strategies](crate::strategies), which are pure functions over a
//! [`Tree`](crate::strategies::tree::Tree), choose what to compact; where they find nothing to do,
//! [`overlap`] chooses by what newer SSTables shadow. [`run`] carries it out, as one
//! [`Transaction`](crate::store::transaction::Transaction): after a crash at any step there are the
//! inputs or the outputs.

mod commands;
mod inputs;
mod overlap;
mod pace;
mod purge;
mod run;
mod schedule;
mod scrub;
mod shadow;
#[cfg(test)]
mod tests;

pub(crate) use commands::Upgraded;
pub use scrub::ScrubbedSSTable;
