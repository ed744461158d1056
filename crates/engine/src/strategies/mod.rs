//! Compaction strategies: pure functions from a [`Tree`](tree::Tree) to a [`Task`](tree::Task).

pub(crate) mod choose;
pub(crate) mod cut;
pub(crate) mod leveled;
pub(crate) mod options;
#[cfg(test)]
mod simulation;
mod size_tiered;
mod time_window;
pub(crate) mod tombstones;
pub(crate) mod tree;
mod unified;
