//! The LSM tree: commit log, memtables, flush, reads, compaction, caches.
//!
//! An [`Engine`] holds tables. Writes go to the commit log and to a table's memtable; memtables are flushed to
//! SSTables, SSTables compacted into fewer. Reads merge what all of them hold.
//!
//! The streams that reads give contain tombstones and rows that are no longer live: whoever answers a query passes over
//! markers and over rows for which [`is_live`](cassette_rows::Row::is_live) says no.

#![allow(dead_code)]

pub mod commitlog;
mod engine;
mod error;
mod key_range;
mod memtable;
mod options;
mod partition_lock;
mod table;
#[cfg(test)]
mod testing;

pub use engine::{COMPACTION_STRATEGIES, Engine, Mutation, ReplaySummary, TableStats};
pub use error::{EngineError, Result};
pub use key_range::{KeyRange, PartitionPosition};
pub use options::Options;
pub use partition_lock::PartitionLock;
