//! Cassandra's nodetool and its offline tools for SSTables, logs of queries and captured changes,
//! as commands of `cassette`.

pub mod cdc;
pub mod nodetool;
pub mod query_log;
pub mod sstable;
pub mod units;
