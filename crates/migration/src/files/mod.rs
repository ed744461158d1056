//! A move by files: the SSTables of a data directory are streamed to the nodes of a cluster.
//!
//! Rows are not decoded, so that everything arrives that an SSTable contains: deletions, counters
//! with their shards, row markers, the write timestamps and expirations of all cells.

mod columns;
pub mod delivery;
mod grace;
mod job;
mod pool;
mod progress;
pub mod target;
mod topology;
pub mod transfers;

pub use job::{dry_run, run};
