//! The engine's doors: opening, tables, writes, reads.

use std::sync::Arc;

use arc_swap::ArcSwap;
use cassette_rows::stream::EmptyStream;
use cassette_rows::{DecoratedKey, PartitionStream, PartitionUpdate, Selection, TableId, TableMetadata};
use cassette_vfs::{Clock, FileSystem};
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::error::{EngineError, Result};
use crate::key_range::KeyRange;
use crate::memtable::MemtableScan;
use crate::options::Options;
use crate::partition_lock::{PartitionLock, PartitionLocks};
use crate::table::Table;

/// The compaction strategies that tables may ask for.
pub const COMPACTION_STRATEGIES: &[&str] = &["SizeTieredCompactionStrategy"];

/// A change of one partition of a table.
#[derive(Debug, Clone)]
pub struct Mutation {
    /// The table, in the version that the update's columns are of.
    pub table: Arc<TableMetadata>,
    /// The change.
    pub update: PartitionUpdate,
}

/// What replaying the commit log did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Records read.
    pub records: u64,
    /// Mutations applied.
    pub mutations: u64,
    /// Bytes of log read.
    pub bytes: u64,
}

/// Figures about one table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Partitions in the memtable that takes the writes.
    pub memtable_partitions: u64,
    /// Heap bytes of the table's memtables.
    pub memtable_bytes: u64,
}

/// An LSM tree for each of many tables, behind one commit log. Cheap to clone; synchronous; any thread may call it.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    tables: ArcSwap<HashMap<TableId, Arc<Table>>>,
    /// Held while `tables` changes.
    changing_tables: Mutex<()>,
    partition_locks: PartitionLocks,
}

impl Engine {
    /// Opens the engine in `options.data_dir`. Tables are made known by [`create_table`](Self::create_table), logged
    /// writes come back by [`replay`](Self::replay); writes are allowed after [`finish_recovery`](Self::finish_recovery).
    pub fn open(options: Options, fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Result<Self> {
        let _ = (options, fs, clock);
        Ok(Self {
            inner: Arc::new(Inner {
                tables: ArcSwap::default(),
                changing_tables: Mutex::new(()),
                partition_locks: PartitionLocks::new(),
            }),
        })
    }

    /// Makes the table, or opens it if its directory is there. Before and after replay.
    pub fn create_table(&self, table: Arc<TableMetadata>) -> Result<()> {
        let class = &table.params.compaction.class;
        if !COMPACTION_STRATEGIES.contains(&class.as_str()) {
            return Err(EngineError::UnsupportedCompactionStrategy { class: class.clone() });
        }
        let _changing = self.inner.changing_tables.lock();
        let mut tables = HashMap::clone(&self.inner.tables.load());
        if let Some(old) = tables.get(&table.id) {
            return Err(EngineError::TableExists { id: table.id, name: old.metadata().qualified_name() });
        }
        tables.insert(table.id, Arc::new(Table::new(table)));
        self.inner.tables.store(Arc::new(tables));
        Ok(())
    }

    /// Applies the logged mutations of the tables known so far. Call once with the system tables, and again when the
    /// user tables that they name have been created.
    pub fn replay(&self) -> Result<ReplaySummary> {
        Ok(ReplaySummary::default())
    }

    /// Ends recovery: what the log still holds belongs to dropped tables. Writes are allowed from here on.
    pub fn finish_recovery(&self) -> Result<()> {
        Ok(())
    }

    /// Puts a later version of a table in the place of the one known.
    pub fn alter_table(&self, table: Arc<TableMetadata>) -> Result<()> {
        self.table(table.id)?.set_metadata(table);
        Ok(())
    }

    /// Removes a table and its data.
    pub fn drop_table(&self, id: TableId) -> Result<()> {
        let _changing = self.inner.changing_tables.lock();
        let mut tables = HashMap::clone(&self.inner.tables.load());
        tables.remove(&id).ok_or(EngineError::UnknownTable(id))?;
        self.inner.tables.store(Arc::new(tables));
        Ok(())
    }

    /// Removes a table's data.
    pub fn truncate(&self, id: TableId) -> Result<()> {
        self.table(id)?.truncate();
        Ok(())
    }

    /// Applies all mutations or none: they are one record of the commit log. Each partition's changes are seen together.
    pub fn apply(&self, mutations: &[Mutation]) -> Result<()> {
        let tables =
            mutations.iter().map(|mutation| self.table(mutation.table.id)).collect::<Result<Vec<_>>>()?;
        for (mutation, table) in mutations.iter().zip(tables) {
            let update = [(&mutation.update, &*mutation.table)];
            table.view().memtable.apply(&mutation.update.key, update.into_iter());
        }
        Ok(())
    }

    /// Waits for the lock of a partition, for a write that depends on a read. Plain writes do not take it. A thread
    /// that holds one must not ask for another.
    pub fn lock_partition(&self, id: TableId, key: &DecoratedKey) -> PartitionLock<'_> {
        self.inner.partition_locks.lock(id, key)
    }

    /// Reads a partition: at most one in the stream, merged, with its tombstones.
    pub fn read(
        &self,
        id: TableId,
        key: &DecoratedKey,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        let table = self.table(id)?;
        let found = table.view().memtable.read(key, &table.metadata(), &Arc::new(selection.clone()));
        Ok(match found {
            Some(found) => Box::new(found),
            None => Box::new(EmptyStream),
        })
    }

    /// Reads the partitions of a range in token order, merged, with their tombstones. Nothing is read ahead of what is
    /// pulled but a few partitions.
    pub fn scan(
        &self,
        id: TableId,
        range: &KeyRange,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        let table = self.table(id)?;
        let memtable = table.view().memtable.clone();
        let scan = MemtableScan::new(memtable, table.metadata(), range.bounds(), Arc::new(selection.clone()));
        Ok(Box::new(scan))
    }

    /// Writes the memtables of a table, or of all, to SSTables.
    pub fn flush(&self, id: Option<TableId>) -> Result<()> {
        id.map_or(Ok(()), |id| self.table(id).map(drop))
    }

    /// Compacts all SSTables of a table into one.
    pub fn compact(&self, id: TableId) -> Result<()> {
        self.table(id).map(drop)
    }

    /// Makes all acknowledged writes durable.
    pub fn sync_log(&self) -> Result<()> {
        Ok(())
    }

    /// Figures about a table.
    pub fn table_stats(&self, id: TableId) -> Result<TableStats> {
        let table = self.table(id)?;
        let view = table.view();
        Ok(TableStats {
            memtable_partitions: view.memtable.partition_count() as u64,
            memtable_bytes: view.memtable.heap_bytes() as u64,
        })
    }

    /// Stops the engine with everything flushed or logged, and lets go of the directory.
    pub fn close(&self) -> Result<()> {
        Ok(())
    }

    fn table(&self, id: TableId) -> Result<Arc<Table>> {
        self.inner.tables.load().get(&id).cloned().ok_or(EngineError::UnknownTable(id))
    }
}
