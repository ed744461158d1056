//! State in memory: memtables, their pool with its admission of writes, the counter cache.

pub(crate) mod admission;
pub(crate) mod cache_usage;
pub(crate) mod counter_cache;
pub(crate) mod memtable;
pub(crate) mod pool;
