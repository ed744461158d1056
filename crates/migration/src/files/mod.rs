//! A move by files: the SSTables of a data directory are streamed to the nodes of a cluster.
//!
//! Rows are not decoded, so that everything arrives that an SSTable contains: deletions, counters
//! with their shards, row markers, the write timestamps and expirations of all cells.

pub mod columns;
pub mod delivery;
pub mod grace;
mod job;
mod pool;
pub mod progress;
pub mod target;
pub mod topology;
pub mod transfers;

pub use job::{Places, dropped_columns, dry_run, needs_directory, run};
