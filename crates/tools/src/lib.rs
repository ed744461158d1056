//! Cassandra's nodetool and its offline tools for SSTables and logs of queries, as commands of
//! `cassette`.

pub mod nodetool;
pub mod query_log;
pub mod sstable;
pub mod units;
