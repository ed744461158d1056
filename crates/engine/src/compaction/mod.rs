//! Compaction: SSTables are merged into fewer, and what nothing needs any more is left out.
//!
//! What to compact is decided by pure functions over a [`Tree`](tree::Tree) ([`size_tiered`], [`leveled`], [`time_window`],
//! [`unified`], [`tombstones`]), and where they find nothing to do, by what newer SSTables shadow ([`garbage`]); [`run`](self)
//! does it, as one [`Transaction`](crate::store::transaction::Transaction): after a crash at any step there are the inputs or the outputs.

mod commands;
mod garbage;
mod inputs;
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
