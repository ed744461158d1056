//! Compaction: SSTables are merged into fewer, and what nothing needs any more is left out.
//!
//! What to compact is decided by pure functions over a [`Tree`](tree::Tree) ([`size_tiered`], [`leveled`], [`time_window`],
//! [`unified`], [`tombstones`]), and where they find nothing to do, by what newer SSTables shadow ([`garbage`]); [`run`](self)
//! does it, as one [`Transaction`](crate::transaction::Transaction): after a crash at any step there are the inputs or the outputs.

pub mod choose;
mod commands;
mod cut;
mod garbage;
mod inputs;
pub mod leveled;
mod options;
mod progress;
mod purge;
mod run;
mod schedule;
mod scrub;
mod shadow;
#[cfg(test)]
mod simulation;
pub mod size_tiered;
#[cfg(test)]
mod tests;
mod throttle;
pub mod time_window;
pub mod tombstones;
pub mod tree;
pub mod unified;

pub(crate) use commands::Upgraded;
pub(crate) use cut::Cutter;
pub(crate) use garbage::{Look, gentle_rate};
pub use options::{
    COMPACTION_STRATEGIES, CompactionOptions, Inclusion, LeveledOptions, OverlappingTombstones,
    SizeTieredOptions, SourcesPolicy, Strategy, TimeUnit, TimeWindowOptions, UnifiedOptions,
};
pub use progress::{CompactionKind, CompactionTotals, CompletedCompaction, RunningCompaction};
pub(crate) use progress::{Operations, Running};
pub use scrub::ScrubbedSSTable;
pub use shadow::OverlappingFigures;
pub(crate) use throttle::Throttle;
