//! Cassandra's nodetool and its offline tools for SSTables, as commands of `cassette`.

pub mod nodetool;
pub mod sstable;
pub mod units;
