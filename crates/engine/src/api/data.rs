//! Writes and reads of partitions, and their locks.

use std::collections::HashSet;

use cassette_rows::interrupt::Interrupted;
use cassette_rows::{DecoratedKey, PartitionStream, Selection, TableId, TableMetadata};
use cassette_sstable::chunked_file::Caching;
use cassette_vfs::FileId;

use super::Engine;
use crate::access::write_admission::WriteDemand;
use crate::basics::error::Result;
use crate::basics::key_range::KeyRange;
use crate::basics::mutation::{Durability, Mutation};
use crate::log::commitlog::SyncMode;
use crate::memory::counter_cache::PartitionCounters;
use crate::memory::pool::WritePermit;
use crate::store::core::Core;
use crate::store::partition_lock::PartitionLock;

impl Engine {
    /// Applies all mutations or none: they are one record of the commit log. The changes of a
    /// partition become visible together, and those of index tables not before the others. Returns
    /// when the write is as durable as `commitlog_sync` guarantees.
    ///
    /// Waits for [admission](Self::admit) first, so a caller that needs the lock of a partition
    /// admits a write that may be large before it takes the lock.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`](crate::EngineError::Interrupted), without an effect, if the
    /// request of this thread is [interrupted](cassette_rows::interrupt) before the write is
    /// admitted.
    pub fn apply(&self, mutations: &[Mutation]) -> Result<()> {
        self.apply_with(mutations, Durability::Configured)
    }

    /// Applies mutations as [`apply`](Self::apply) does, with this durability when it returns.
    pub fn apply_with(&self, mutations: &[Mutation], durability: Durability) -> Result<()> {
        self.inner.core.apply(mutations, durability).map(drop)
    }

    /// [Applies](Self::apply) a schema change. When this returns, the change is durable in the
    /// commit log, and its part in tables for which `is_schema` returns true is durable outside the
    /// log too.
    ///
    /// # Errors
    /// [`EngineError::OnlyInLog`] if the change took effect and is durable in the commit log alone.
    /// After any other error it did not take effect.
    pub fn apply_schema(
        &self,
        mutations: &[Mutation],
        is_schema: &dyn Fn(&TableMetadata) -> bool,
    ) -> Result<()> {
        self.inner.core.apply_schema(mutations, is_schema)
    }

    /// Admits a write, unless it would have to wait: for its turn, for memory, for compactions or
    /// for the commit log. `permit` is what the write has been admitted to before, perhaps when it
    /// was smaller. On failure nothing is held, and [`admit`](Self::admit) waits.
    ///
    /// # Errors
    /// What the write needs.
    pub fn try_admit<'a>(
        &'a self,
        mutations: &[Mutation],
        permit: Option<WritePermit<'a>>,
    ) -> Result<WritePermit<'a>, WriteDemand> {
        self.inner.core.try_admit(mutations, permit)
    }

    /// Waits until a write can be admitted. No lock of a partition may be held: a large write that
    /// has been admitted, and stalls all others, may wait for that lock.
    ///
    /// # Errors
    /// [`EngineError::Interrupted`](crate::EngineError::Interrupted), if the request of this thread
    /// is [interrupted](cassette_rows::interrupt) first; those of [`apply`](Self::apply).
    pub fn admit(&self, demand: &WriteDemand) -> Result<WritePermit<'_>> {
        self.inner.core.admit(demand)
    }

    /// [`apply_with`](Self::apply_with) of a write that has been admitted. Waits for no thread that
    /// waits for admission or for a lock of a partition.
    pub fn apply_admitted(
        &self,
        mutations: &[Mutation],
        durability: Durability,
        permit: WritePermit<'_>,
    ) -> Result<()> {
        self.inner.core.apply_admitted(mutations, durability, Some(permit)).map(drop)
    }

    /// Returns whether [`apply`](Self::apply) would block now: for a disk, as `commitlog_sync`
    /// `group` and `batch` do with every write, for space in memtables, for compactions, or for
    /// large writes of other clients.
    pub fn apply_would_wait(&self) -> bool {
        let core = &self.inner.core;
        !matches!(core.options.commitlog_sync, SyncMode::Periodic { .. })
            || core.memory.is_contended()
            || core.stalls_writes()
    }

    /// Waits for the lock of a partition, for a write that depends on a read. Plain writes do not
    /// acquire it. A thread that holds one must not acquire another.
    ///
    /// # Errors
    /// If the request of this thread is [interrupted](cassette_rows::interrupt) first.
    pub fn lock_partition(&self, id: TableId, key: &DecoratedKey) -> Result<PartitionLock<'_>, Interrupted> {
        self.inner.core.partition_locks.lock(id, key)
    }

    /// Waits for the locks of many partitions, for a write of all of them that depends on reads. As
    /// with [`lock_partition`](Self::lock_partition), a thread that holds any must not acquire
    /// more.
    ///
    /// # Errors
    /// If the request of this thread is [interrupted](cassette_rows::interrupt) first.
    pub fn lock_partitions<'k>(
        &self,
        partitions: impl Iterator<Item = (TableId, &'k DecoratedKey)>,
    ) -> Result<Vec<PartitionLock<'_>>, Interrupted> {
        self.inner.core.partition_locks.lock_all(partitions)
    }

    /// Locks partitions as [`lock_partitions`](Self::lock_partitions) does, unless another thread
    /// holds one of them.
    pub fn try_lock_partitions<'k>(
        &self,
        partitions: impl Iterator<Item = (TableId, &'k DecoratedKey)>,
    ) -> Option<Vec<PartitionLock<'_>>> {
        self.inner.core.partition_locks.try_lock_all(partitions)
    }

    /// Locks a partition unless another thread holds its lock, which may be waiting for a disk.
    pub fn try_lock_partition(&self, id: TableId, key: &DecoratedKey) -> Option<PartitionLock<'_>> {
        self.inner.core.partition_locks.try_lock(id, key)
    }

    /// Reads a partition: the stream has at most one, merged, with its tombstones.
    pub fn read(
        &self,
        id: TableId,
        key: &DecoratedKey,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        self.read_first(id, key, selection, None)
    }

    /// Returns whether memtables and bloom filters allow that a partition is stored, without
    /// reading a disk; `false` is certain.
    pub fn may_contain(&self, id: TableId, key: &DecoratedKey) -> Result<bool> {
        let core = &self.inner.core;
        core.may_contain(&*core.table(id)?, key)
    }

    /// Reads a partition as [`read`](Self::read) does, for a caller that stops after `rows` live
    /// rows: then the row cache can answer from the first rows of a partition.
    pub fn read_first(
        &self,
        id: TableId,
        key: &DecoratedKey,
        selection: &Selection,
        rows: Option<u32>,
    ) -> Result<Box<dyn PartitionStream>> {
        let core = &self.inner.core;
        let tables = core.tables.load();
        core.read(Core::table_in(&tables, id)?, key, selection, rows)
    }

    /// Reads a partition without the row cache, and returns how many SSTables had it.
    pub fn read_uncached(
        &self,
        id: TableId,
        key: &DecoratedKey,
        selection: &Selection,
    ) -> Result<(Box<dyn PartitionStream>, u64)> {
        let core = &self.inner.core;
        let tables = core.tables.load();
        core.read_uncached(Core::table_in(&tables, id)?, key, selection)
    }

    /// Returns the counter cache for a write to the partition; `None` if it is disabled. The caller
    /// holds the [partition's lock](Self::lock_partition), reads nothing before this, and keeps the
    /// lock until it has written.
    pub fn counters<'a>(
        &'a self,
        id: TableId,
        key: &'a DecoratedKey,
    ) -> Result<Option<PartitionCounters<'a>>> {
        let core = &self.inner.core;
        let table = core.table(id)?;
        Ok(core.counter_cache.is_enabled().then(|| core.counters(&table, key)))
    }

    /// Reads the partitions of a range in token order, merged, with their tombstones. Reads at most
    /// a few partitions ahead of the caller.
    pub fn scan(
        &self,
        id: TableId,
        range: &KeyRange,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        let core = &self.inner.core;
        core.scan(&*core.table(id)?, range, selection, Caching::Use)
    }

    /// Does [`scan`](Self::scan) for a reader of a whole range, which reads it once: the chunk
    /// cache and the system's page cache stay as they are.
    pub fn scan_once(
        &self,
        id: TableId,
        range: &KeyRange,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        let core = &self.inner.core;
        core.scan(&*core.table(id)?, range, selection, Caching::LeaveAlone)
    }

    /// Returns the identities of the Data files that may have rows of a range; `None` if memtables
    /// have rows of the table, or if a file was removed. Tables of two engines that have the same
    /// columns and the same files, through links, have the same rows.
    pub fn data_files(&self, id: TableId, range: &KeyRange) -> Result<Option<HashSet<FileId>>> {
        let core = &self.inner.core;
        core.data_files_of(&*core.table(id)?, range)
    }
}
