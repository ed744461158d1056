//! Options with the names of cassandra.yaml.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cassette_engine::{CdcSettings, DiskFailurePolicy, commitlog::SyncMode};
use cassette_vfs::encryption::Encryption;

use crate::api::database::{Database, Options};
use crate::basics::error::Result;
use crate::basics::timeouts::Timeout;
use crate::store::seeded::Seed;

/// The options of opening a database. Each setting has its name in cassandra.yaml; sizes are bytes.
///
/// ```
/// # fn main() -> cassette_database::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path();
/// let database = cassette_database::OpenOptions::new()
///     .memtable_heap_space(64 << 20)
///     .file_cache_size(32 << 20)
///     .guardrail("page_size_fail_threshold", "10000")
///     .open(path)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct OpenOptions(Options);

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenOptions").field(&self.0.engine).finish()
    }
}

impl OpenOptions {
    /// Returns the defaults of an embedded database: those of Cassandra, without request timeouts.
    pub fn new() -> Self {
        Self(Options::new(PathBuf::new()))
    }

    /// Opens the database in the directory, which is created if it does not exist.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open(self, path: impl Into<PathBuf>) -> Result<Database> {
        Database::open(self.options(path))
    }

    /// Opens an empty database in memory: see [`Database::in_memory`].
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_in_memory(self) -> Result<Database> {
        let Options { engine, file_system, .. } = Options::in_memory();
        let mut options = self.options(engine.data_dir);
        options.file_system = file_system;
        Database::open(options)
    }

    /// Returns all options, for settings without a method.
    pub fn options(mut self, path: impl Into<PathBuf>) -> Options {
        self.0.engine.data_dir = path.into();
        self.0
    }

    /// `commitlog_sync`: when a write is acknowledged. Default: periodic, 10 s.
    pub fn commitlog_sync(mut self, mode: SyncMode) -> Self {
        self.0.engine.commitlog_sync = mode;
        self
    }

    /// `transparent_data_encryption_options`: what encrypts new segments of the commit log and
    /// decrypts existing ones, which open with their keys only. Feature `encryption` of `cassette`
    /// has an implementation. Default: none.
    pub fn commitlog_encryption(mut self, encryption: Arc<dyn Encryption>) -> Self {
        self.0.engine.commitlog_encryption = Some(encryption);
        self
    }

    /// `cdc_enabled` and its settings: change data capture of tables with `cdc = true`, which
    /// [`Database::change_stream`] reads. Default: disabled.
    pub fn cdc(mut self, settings: CdcSettings) -> Self {
        self.0.engine.cdc = settings;
        self
    }

    /// `commitlog_segment_size`; a statement may write half of it to a partition. Default: 32 MiB.
    pub fn commitlog_segment_size(mut self, bytes: u32) -> Self {
        self.0.engine.commitlog_segment_size = bytes;
        self
    }

    /// `commitlog_total_space`: beyond it, tables are flushed. Default: 1 GiB.
    pub fn commitlog_total_space(mut self, bytes: u64) -> Self {
        self.0.engine.commitlog_total_space = bytes;
        self
    }

    /// `memtable_heap_space`: beyond it, writes are stalled. Default: 256 MiB, or an eighth of the
    /// memory if that is less.
    pub fn memtable_heap_space(mut self, bytes: usize) -> Self {
        self.0.engine.memtable_heap_space = bytes;
        self
    }

    /// `memtable_flush_writers`: the number of flushing threads. Default: 2.
    pub fn memtable_flush_writers(mut self, threads: usize) -> Self {
        self.0.engine.memtable_flush_writers = threads;
        self
    }

    /// `file_cache_size`: decompressed chunks of SSTables in memory. Default: 512 MiB, or a
    /// sixteenth of the memory if that is less.
    pub fn file_cache_size(mut self, bytes: u64) -> Self {
        self.0.engine.file_cache_size = bytes;
        self
    }

    /// `key_cache_size`. Default: 50 MiB; 0 disables it.
    pub fn key_cache_size(mut self, bytes: u64) -> Self {
        self.0.engine.key_cache_size = bytes;
        self
    }

    /// `row_cache_size`, for tables with `rows_per_partition` in `caching`. Default: 0.
    pub fn row_cache_size(mut self, bytes: u64) -> Self {
        self.0.engine.row_cache_size = bytes;
        self
    }

    /// `counter_cache_size`. Default: 50 MiB; 0 disables it.
    pub fn counter_cache_size(mut self, bytes: u64) -> Self {
        self.0.engine.counter_cache_size = bytes;
        self
    }

    /// `prepared_statements_cache_size`. Default: 10 MiB.
    pub fn prepared_statements_cache_size(mut self, bytes: u64) -> Self {
        self.0.prepared_statements_cache_size = bytes;
        self
    }

    /// `concurrent_compactors`: the number of compacting threads. Default: 2.
    pub fn concurrent_compactors(mut self, threads: usize) -> Self {
        self.0.engine.concurrent_compactors = threads;
        self
    }

    /// `compaction_throughput`: bytes a second that compactions read; 0 for no limit. Default: 64
    /// MiB.
    pub fn compaction_throughput(mut self, bytes_per_second: u64) -> Self {
        self.0.engine.compaction_throughput = bytes_per_second;
        self
    }

    /// `auto_snapshot`: whether TRUNCATE and DROP TABLE take a snapshot. Default: true.
    pub fn auto_snapshot(mut self, enabled: bool) -> Self {
        self.0.engine.auto_snapshot = enabled;
        self
    }

    /// `disk_failure_policy`: the reaction to a corrupt SSTable. Default: ignore.
    pub fn disk_failure_policy(mut self, policy: DiskFailurePolicy) -> Self {
        self.0.engine.disk_failure_policy = policy;
        self
    }

    /// `materialized_views_enabled`: whether CREATE MATERIALIZED VIEW is allowed. Default: false.
    pub fn materialized_views_enabled(mut self, enabled: bool) -> Self {
        self.0.materialized_views_enabled = enabled;
        self
    }

    /// `enforce_replica_counts`: whether consistency levels that need more than one replica of a
    /// keyspace fail with [`Unavailable`](crate::DatabaseError::Unavailable), to test how a program
    /// handles it. Default: false.
    pub fn enforce_replica_counts(mut self, enforce: bool) -> Self {
        self.0.enforce_replica_counts = enforce;
        self
    }

    /// Makes the times and UUIDs of a new database the same in each run, for snapshot tests:
    /// `.seed(7)`. Without a seed, they are those of the machine's clock, and random.
    pub fn seed(mut self, seed: impl Into<Seed>) -> Self {
        self.0.seed = Some(seed.into());
        self
    }

    /// `vector_graph_memory`: the maximum memory of the graphs of vector indexes, bytes. Searches
    /// without a graph compare all rows. Default: 1 GiB.
    pub fn vector_graph_memory(mut self, bytes: u64) -> Self {
        self.0.vector_graph_memory = bytes;
        self
    }

    /// `dynamic_data_masking_enabled`: whether columns can be masked. Masks apply to roles of a
    /// server's clients, never to the program. Default: false.
    pub fn dynamic_data_masking_enabled(mut self, enabled: bool) -> Self {
        self.0.dynamic_data_masking_enabled = enabled;
        self
    }

    /// `user_defined_functions_enabled`: whether functions can be created and called, and
    /// aggregates created. The languages are cargo features: `lua`. Default: false.
    pub fn user_defined_functions_enabled(mut self, enabled: bool) -> Self {
        self.0.functions.enabled = enabled;
        self
    }

    /// `sasi_indexes_enabled`: whether SASI indexes can be created, which answer LIKE. Default:
    /// false.
    pub fn sasi_indexes_enabled(mut self, enabled: bool) -> Self {
        self.0.sasi_indexes_enabled = enabled;
        self
    }

    /// `drop_compact_storage_enabled`: whether ALTER TABLE … DROP COMPACT STORAGE is allowed.
    /// Default: false.
    pub fn drop_compact_storage_enabled(mut self, enabled: bool) -> Self {
        self.0.drop_compact_storage_enabled = enabled;
        self
    }

    /// Sets one of the `*_request_timeout` keys or `cas_contention_timeout`; `None` for no limit,
    /// the default.
    pub fn timeout(self, timeout: Timeout, time: Option<Duration>) -> Self {
        self.0.timeouts.set(timeout, time);
        self
    }

    /// Sets a guardrail by its name in cassandra.yaml, such as `tables_fail_threshold`, with its
    /// value as text. Opening fails if the guardrail does not exist or the value is invalid.
    pub fn guardrail(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.guardrails.insert(name.into(), value.into());
        self
    }
}
