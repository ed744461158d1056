//! The LSM tree: commit log, memtables, flush, reads, compaction, caches.
