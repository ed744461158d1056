//! How an engine is to behave. Names and defaults are cassandra.yaml's where it has them.

use std::path::PathBuf;

/// How an engine is to behave.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory that holds everything: tables in `data/<keyspace>/<table>-<id>/`, the log in `commitlog/`.
    pub data_dir: PathBuf,
    /// `memtable_heap_space`, bytes that all memtables together may hold; writers wait beyond it. 256 MiB.
    pub memtable_heap_space: usize,
}

impl Options {
    /// The defaults, in `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: data_dir.into(), memtable_heap_space: 256 << 20 }
    }
}
