//! The engine's doors: opening, tables, writes, reads.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cassette_rows::{DecoratedKey, PartitionStream, PartitionUpdate, Selection, TableId, TableMetadata};
use cassette_sstable::chunk_cache::CacheStats;
use cassette_vfs::{Clock, FileSystem};

use crate::background::Background;
use crate::commitlog::{CommitLogStats, SyncMode};
use crate::core::{Core, Phase};
use crate::error::{EngineError, Result};
use crate::key_range::KeyRange;
use crate::options::Options;
use crate::partition_lock::PartitionLock;

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
    /// Mutations applied: those of known tables that no SSTable holds yet.
    pub mutations: u64,
    /// Bytes of log read.
    pub bytes: u64,
}

/// Figures about one table; counters are since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Partitions in the memtable that takes the writes.
    pub memtable_partitions: u64,
    /// Heap bytes of the table's memtables.
    pub memtable_bytes: u64,
    /// Memtables that are being flushed or wait for it.
    pub pending_flushes: u64,
    /// Memtables flushed.
    pub flushes: u64,
    /// Bytes written by flushes.
    pub bytes_flushed: u64,
    /// SSTables that are read.
    pub sstables: u64,
    /// SSTables that were found corrupt and are left out.
    pub sstables_set_aside: u64,
    /// Bytes of the files of the SSTables that are read.
    pub live_disk_bytes: u64,
    /// Bytes of their rows before compression.
    pub uncompressed_bytes: u64,
    /// Partitions in SSTables, about: those in several count several times.
    pub estimated_partitions: u64,
    /// Bytes that bloom filters take in memory.
    pub bloom_filter_bytes: u64,
    /// Bytes that index summaries take in memory.
    pub index_summary_bytes: u64,
    /// Compactions that wait to be done, about.
    pub pending_compactions: u64,
    /// Compactions done.
    pub compactions: u64,
    /// Bytes written by compactions.
    pub bytes_compacted: u64,
    /// Reads of single partitions.
    pub reads: u64,
    /// SSTables that they read.
    pub sstables_read: u64,
}

/// Figures about the whole engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineStats {
    /// Heap bytes of all memtables.
    pub memtable_bytes: u64,
    /// The chunk cache.
    pub chunk_cache: CacheStats,
    /// The commit log, once recovery has ended.
    pub commit_log: Option<CommitLogStats>,
}

/// An LSM tree for each of many tables, behind one commit log. Cheap to clone; synchronous; any thread may call it.
///
/// Dropping the last clone is like the death of the process, but orderly for threads: what was acknowledged is in the log.
/// [`close`](Self::close) does more.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    // Stopped first.
    background: Background,
    core: Arc<Core>,
}

impl Engine {
    /// Opens the engine in `options.data_dir`. Tables are made known by [`create_table`](Self::create_table), logged
    /// writes come back by [`replay`](Self::replay); writes are allowed after [`finish_recovery`](Self::finish_recovery).
    ///
    /// # Errors
    /// If another process has the directory open, or it is another version's or another program's.
    pub fn open(options: Options, fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Result<Self> {
        let core = Arc::new(Core::open(options, fs, clock)?);
        Ok(Self { inner: Arc::new(Inner { background: Background::new(core.clone()), core }) })
    }

    /// Makes the table, or opens it if its directory is there. Before and after recovery.
    pub fn create_table(&self, table: Arc<TableMetadata>) -> Result<()> {
        self.inner.core.create_table(table)
    }

    /// Applies the logged mutations of the tables that were created since the last call. Call once with the system tables,
    /// and again when the user tables that they name have been created.
    ///
    /// # Errors
    /// If the log is damaged where no crash damages it: [`OpenError::Corrupt`](crate::commitlog::OpenError::Corrupt) says
    /// where, and what to do.
    pub fn replay(&self) -> Result<ReplaySummary> {
        self.inner.core.replay()
    }

    /// Ends recovery: replays what belongs to tables that were created since the last [`replay`](Self::replay); what the
    /// log holds beyond that belongs to dropped tables. Writes are allowed from here on, and background work begins.
    pub fn finish_recovery(&self) -> Result<ReplaySummary> {
        let summary = self.inner.core.finish_recovery()?;
        self.inner.background.start().map_err(EngineError::Thread)?;
        self.inner.core.compaction_wanted.raise();
        Ok(summary)
    }

    /// Puts a later version of a table in the place of the one known.
    pub fn alter_table(&self, table: Arc<TableMetadata>) -> Result<()> {
        self.inner.core.alter_table(table)
    }

    /// Removes a table and its data.
    pub fn drop_table(&self, id: TableId) -> Result<()> {
        self.inner.core.drop_table(id)
    }

    /// Removes the directories of tables that are not known: those that were dropped shortly before a crash. To be called when
    /// all tables have been created that there are. Gives what was removed.
    ///
    /// # Errors
    /// If some known table has a corrupt SSTable: it may hold the schema, and the unknown tables may be none that were dropped.
    pub fn remove_unknown_tables(&self) -> Result<Vec<PathBuf>> {
        self.inner.core.remove_unknown_tables()
    }

    /// Removes a table's data, in one step.
    pub fn truncate(&self, id: TableId) -> Result<()> {
        self.inner.core.truncate(id)
    }

    /// Applies all mutations or none: they are one record of the commit log. Each partition's changes are seen together.
    /// Returns when the write is as safe as `commitlog_sync` promises.
    pub fn apply(&self, mutations: &[Mutation]) -> Result<()> {
        self.inner.core.apply(mutations)
    }

    /// Whether [`apply`](Self::apply) would keep its caller waiting, as far as can be told now: for a disk, as `commitlog_sync`
    /// `group` and `batch` do with every write, or for room in memtables.
    pub fn apply_would_wait(&self) -> bool {
        let core = &self.inner.core;
        !matches!(core.options.commitlog_sync, SyncMode::Periodic { .. }) || core.memory.is_full()
    }

    /// Waits for the lock of a partition, for a write that depends on a read. Plain writes do not take it. A thread
    /// that holds one must not ask for another.
    pub fn lock_partition(&self, id: TableId, key: &DecoratedKey) -> PartitionLock<'_> {
        self.inner.core.partition_locks.lock(id, key)
    }

    /// Reads a partition: at most one in the stream, merged, with its tombstones.
    pub fn read(
        &self,
        id: TableId,
        key: &DecoratedKey,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        let core = &self.inner.core;
        core.read(&*core.table(id)?, key, selection)
    }

    /// Reads the partitions of a range in token order, merged, with their tombstones. Nothing is read ahead of what is
    /// pulled but a few partitions.
    pub fn scan(
        &self,
        id: TableId,
        range: &KeyRange,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        let core = &self.inner.core;
        core.scan(&*core.table(id)?, range, selection)
    }

    /// Writes the memtables of a table, or of all, to SSTables.
    pub fn flush(&self, id: Option<TableId>) -> Result<()> {
        let core = &self.inner.core;
        core.check_running()?;
        match id {
            Some(id) => core.flush(&core.table(id)?),
            None => core.tables.load().values().try_for_each(|table| core.flush(table)),
        }
    }

    /// Compacts all SSTables of a table into one. Memtables are not flushed before.
    pub fn compact(&self, id: TableId) -> Result<()> {
        let core = &self.inner.core;
        core.compact(&core.table(id)?)
    }

    /// Runs the compactions that the strategies ask for, in the calling thread, until there are none.
    pub fn run_pending_compactions(&self) {
        self.inner.core.compact_what_is_due();
    }

    /// Makes all acknowledged writes durable, whatever `commitlog_sync` says.
    pub fn sync_log(&self) -> Result<()> {
        match &*self.inner.core.log.load() {
            Some(log) => Ok(log.sync()?),
            None => Ok(()),
        }
    }

    /// Figures about a table.
    pub fn table_stats(&self, id: TableId) -> Result<TableStats> {
        let core = &self.inner.core;
        let table = core.table(id)?;
        let view = table.view();
        let counters = &table.counters;
        let sum = |figure: fn(&cassette_sstable::SSTableReader) -> u64| {
            view.sstables.iter().map(|sstable| figure(&sstable.reader)).sum()
        };
        Ok(TableStats {
            memtable_partitions: view.memtable.partition_count() as u64,
            memtable_bytes: view.memtables().map(|memtable| memtable.heap_bytes() as u64).sum(),
            pending_flushes: view.flushing.len() as u64,
            flushes: counters.flushes.load(Ordering::Relaxed),
            bytes_flushed: counters.bytes_flushed.load(Ordering::Relaxed),
            sstables: view.sstables.len() as u64,
            sstables_set_aside: (view.set_aside.len() + view.unreadable) as u64,
            live_disk_bytes: sum(|reader| reader.bytes_on_disk()),
            uncompressed_bytes: sum(|reader| reader.uncompressed_bytes()),
            estimated_partitions: sum(|reader| reader.estimated_keys()),
            bloom_filter_bytes: sum(|reader| reader.filter_heap_size() as u64),
            index_summary_bytes: sum(|reader| reader.summary_heap_size() as u64),
            pending_compactions: core.pending_compactions(&table) as u64,
            compactions: counters.compactions.load(Ordering::Relaxed),
            bytes_compacted: counters.bytes_compacted.load(Ordering::Relaxed),
            reads: counters.reads.load(Ordering::Relaxed),
            sstables_read: counters.sstables_read.load(Ordering::Relaxed),
        })
    }

    /// Figures about the whole engine.
    pub fn stats(&self) -> EngineStats {
        let core = &self.inner.core;
        EngineStats {
            memtable_bytes: core.memory.used() as u64,
            chunk_cache: core.cache.stats(),
            commit_log: core.log.load().as_ref().map(|log| log.stats()),
        }
    }

    /// Stops the engine with everything flushed or logged, durably, and lets go of the directory. Everything is refused from
    /// here on, but for streams that are being read.
    pub fn close(&self) -> Result<()> {
        let core = &self.inner.core;
        if core.phase() == Phase::Closed {
            return Ok(());
        }
        self.inner.background.stop();
        let flushed = if core.phase() == Phase::Open { core.flush_before_closing() } else { Ok(()) };
        core.set_phase(Phase::Closed);
        // Writers that were past the check of the phase finish; later ones find no log.
        let log = core.log.swap(None);
        for table in core.tables.load().values() {
            drop(table.write_order.write());
        }
        let closed = log.map_or(Ok(()), close_log);
        core.directory.release();
        flushed.and(closed)
    }
}

/// Closes the log once nobody uses it; if somebody goes on doing so, makes it durable all the same.
fn close_log(mut log: Arc<crate::commitlog::CommitLog>) -> Result<()> {
    const PATIENCE: u32 = 1000;
    for _ in 0..PATIENCE {
        match Arc::try_unwrap(log) {
            Ok(log) => return Ok(log.close()?),
            Err(shared) => log = shared,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(log.sync()?)
}
