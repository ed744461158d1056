//! What is kept in memory: memtables, their pool with its admission of writes, counters.

pub(crate) mod admission;
pub(crate) mod cache_usage;
pub(crate) mod counter_cache;
pub(crate) mod memtable;
pub(crate) mod pool;
