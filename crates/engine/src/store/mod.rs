//! The state of the engine and of its tables, and its changes: views, SSTables, transactions.

pub(crate) mod compression;
pub(crate) mod contents;
pub(crate) mod core;
pub(crate) mod data_directory;
mod observed_rows;
mod opening;
pub(crate) mod outputs;
pub(crate) mod overlapping;
pub(crate) mod partition_lock;
pub(crate) mod progress;
pub(crate) mod row_cache;
pub(crate) mod saved_caches;
pub(crate) mod signal;
pub(crate) mod sstable_handle;
pub(crate) mod table;
pub(crate) mod throttle;
pub(crate) mod transaction;
