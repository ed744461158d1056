//! The engine's doors: opening, tables, writes, reads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cassette_rows::interrupt::Interrupted;
use cassette_rows::{
    ColumnKind, ColumnMetadata, DecoratedKey, PartitionStream, Selection, TableId, TableMetadata,
};
use cassette_sstable::scrub::ScrubOptions;
use cassette_sstable::{Descriptor, SSTableId};
use cassette_vfs::{Clock, FileSystem};
use uuid::Uuid;

use crate::admin::import::{ImportOptions, ImportedSSTable};
use crate::admin::recovery::ReplaySummary;
use crate::admin::snapshots::{Snapshot, SnapshotFilter, SnapshotOptions};
use crate::admin::stats::{BytesInUse, EngineStats, PartitionStats, SSTableInfo, TableStats};
use crate::admin::unknown_tables::UnknownTable;
use crate::admin::verify::VerifiedSSTable;
use crate::api::background::Background;
use crate::basics::error::{EngineError, Result};
use crate::basics::key_range::KeyRange;
use crate::basics::mutation::{Durability, Mutation};
use crate::basics::options::{CacheKind, Options, OverlappingTombstones};
use crate::compaction::{ScrubbedSSTable, Upgraded};
use crate::log::commitlog::SyncMode;
use crate::memory::counter_cache::PartitionCounters;
use crate::metrics::{EngineMetrics, HistogramSnapshot, TableMetrics};
use crate::store::core::{Core, Phase};
use crate::store::overlapping::OverlappingFigures;
use crate::store::partition_lock::PartitionLock;
use crate::store::progress::{CompactionKind, CompactionTotals, CompletedCompaction, RunningCompaction};
use crate::store::throttle::gentle_rate;

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

    /// Makes the table, or opens it if its directory is there. Before and after recovery. The table of an index is made anew
    /// after recovery, whatever an earlier index of its name left.
    pub fn create_table(&self, table: Arc<TableMetadata>) -> Result<()> {
        self.create_tables(&[table])
    }

    /// [Makes or opens](Self::create_table) many tables, with far fewer syncs than one after the other takes. On error none of
    /// them is there, but for directories.
    pub fn create_tables(&self, tables: &[Arc<TableMetadata>]) -> Result<()> {
        self.inner.core.create_tables(tables)
    }

    /// Applies the logged mutations of the tables that were created since the last call. Call once with the system tables,
    /// and again when the user tables that they name have been created.
    ///
    /// # Errors
    /// If the log is damaged where no crash damages it: [`OpenError::Corrupt`](crate::log::commitlog::OpenError::Corrupt) says
    /// where, and what to do.
    pub fn replay(&self) -> Result<ReplaySummary> {
        self.inner.core.replay()
    }

    /// Ends recovery: replays what belongs to tables that were created since the last [`replay`](Self::replay). To be called
    /// when all tables have been created: files and log records of tables that a drop record names are removed, those of
    /// other tables are kept and reported. Writes are allowed from here on, and background work begins.
    pub fn finish_recovery(&self) -> Result<ReplaySummary> {
        let summary = self.inner.core.finish_recovery()?;
        self.inner.background.start().map_err(EngineError::Thread)?;
        self.inner.core.compaction_wanted.raise();
        Ok(summary)
    }

    /// Says whether the writes of a table go to the commit log, as they do unless this says otherwise. Those that do not are
    /// lost when the process dies before their memtable was flushed; [`close`](Self::close) flushes it, and so does this when
    /// writes become durable: from then on nothing that the table holds is lost. After an error the answer is as before.
    pub fn set_durable_writes(&self, id: TableId, durable: bool) -> Result<()> {
        self.inner.core.set_durable_writes(id, durable)
    }

    /// Puts a later version of a table in the place of the one known.
    pub fn alter_table(&self, table: Arc<TableMetadata>) -> Result<()> {
        self.inner.core.alter_table(table)
    }

    /// Durably records that tables are about to be dropped. Call before the schema change becomes durable: after a crash the
    /// next start removes the files of those that the schema does not name any more, and of no others.
    ///
    /// # Errors
    /// If one of them does not exist, or the records cannot be written; then nothing is recorded.
    pub fn intend_drops(&self, ids: &[TableId]) -> Result<()> {
        self.inner.core.intend_drops(ids)
    }

    /// Takes back [`intend_drops`](Self::intend_drops) after the schema change failed. No-op if the commit log has failed:
    /// it is unknown whether the change is durable, and the next start finds out.
    pub fn cancel_drops(&self, ids: &[TableId]) {
        self.inner.core.cancel_drops(ids);
    }

    /// Removes tables and their data; their snapshots stay. The schema must not name them any more. Indexes' tables come
    /// before the table that they are of. A durable record names the tables before any file is removed.
    ///
    /// # Errors
    /// After an error the tables are out of use, and the next start removes what is left of their files.
    pub fn drop_tables(&self, ids: &[TableId]) -> Result<()> {
        self.inner.core.drop_tables(ids)
    }

    /// [Drops](Self::drop_tables) one table.
    pub fn drop_table(&self, id: TableId) -> Result<()> {
        self.drop_tables(&[id])
    }

    /// Takes back [`create_tables`](Self::create_tables) after the schema change failed. Directories without any file are
    /// removed; files of a table that existed before stay.
    pub fn discard_tables(&self, ids: &[TableId]) -> Result<()> {
        self.inner.core.discard_tables(ids)
    }

    /// Declares that the schema from which tables were created lacks something, so that
    /// [`finish_recovery`](Self::finish_recovery) removes no files.
    pub fn mark_schema_incomplete(&self) {
        self.inner.core.schema_incomplete.store(true, Ordering::Relaxed);
    }

    /// Whether replay skipped damage, so that the schema may lack something. Then this start removes no files.
    pub fn log_damage_skipped(&self) -> bool {
        self.inner.core.log_damage_skipped.load(Ordering::Relaxed)
    }

    /// Lists data of tables that were not created and not dropped: the schema may have lost their rows. To adopt such a
    /// table, [create](Self::create_table) it with its keyspace, name and id; log records that were kept for it are applied.
    pub fn unknown_tables(&self) -> Result<Vec<UnknownTable>> {
        self.inner.core.unknown_tables()
    }

    /// Returns the columns of an unknown table as its SSTables' serialization headers have them; none without an SSTable.
    /// Headers do not name key columns: `key_names` does, by kind and place.
    pub fn unknown_table_columns(
        &self,
        unknown: &UnknownTable,
        key_names: &dyn Fn(ColumnKind, usize) -> String,
    ) -> Result<Vec<ColumnMetadata>> {
        self.inner.core.unknown_table_columns(unknown, key_names)
    }

    /// Returns the `schema.cql` of the newest snapshot of an unknown table.
    pub fn snapshot_schema(&self, unknown: &UnknownTable) -> Result<Option<String>> {
        self.inner.core.snapshot_schema(unknown)
    }

    /// Returns the `schema.cql` in a directory, such as that of a snapshot; `None` if it is missing or empty.
    pub fn schema_file(&self, directory: &Path) -> Result<Option<String>> {
        self.inner.core.schema_file(directory)
    }

    /// Removes the data of an unknown table; its snapshots stay.
    ///
    /// # Errors
    /// [`EngineError::UnknownTable`] if it has been created or removed since it was listed.
    pub fn remove_unknown_table(&self, unknown: &UnknownTable) -> Result<()> {
        self.inner.core.remove_unknown_table(unknown)
    }

    /// Removes a table's data, in one step; its snapshots stay.
    pub fn truncate(&self, id: TableId) -> Result<()> {
        self.inner.core.truncate(id, None)
    }

    /// [`truncate`](Self::truncate), with all that is removed in a snapshot `truncated-<milliseconds>-<table>`, if there is
    /// anything. `schema` is what its schema.cql will say.
    pub fn truncate_with_snapshot(&self, id: TableId, schema: &str) -> Result<()> {
        self.inner.core.truncate(id, Some(schema))
    }

    /// Takes a snapshot `dropped-<milliseconds>-<table>` of a table that is to be dropped, if it has any data.
    pub fn snapshot_before_drop(&self, id: TableId, schema: &str) -> Result<()> {
        self.inner.core.snapshot_before_drop(id, schema)
    }

    /// Takes a snapshot of each of the tables, which come with what schema.cql is to say: of all, or after an error of none.
    /// Memtables are flushed before, one table after the other: across tables a snapshot is not of one moment.
    pub fn snapshot(
        &self,
        tables: &[(TableId, String)],
        options: &SnapshotOptions<'_>,
    ) -> Result<Vec<Snapshot>> {
        self.inner.core.snapshot(tables, options)
    }

    /// All snapshots there are, also of tables that have been dropped; by name, keyspace and table.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>> {
        self.inner.core.list_snapshots()
    }

    /// Removes snapshots, and gives what was removed.
    pub fn clear_snapshots(&self, filter: &SnapshotFilter<'_>) -> Result<Vec<Snapshot>> {
        self.inner.core.clear_snapshots(filter)
    }

    /// Removes the snapshots whose time has come. The engine's own threads do that within seconds.
    pub fn remove_expired_snapshots(&self) -> Result<()> {
        self.inner.core.clear_expired_snapshots()
    }

    /// Takes all SSTables of a directory into a table: those that Cassandra wrote, or that a snapshot holds. All of them, or
    /// after an error none, and then nothing is left in the table's directory. A crash at any time leaves all or none in the
    /// table; of SSTables that were to be moved some may then still be in the directory too, and do no harm there.
    /// Snapshots and backups are linked, or copied with [`ImportOptions::copy_data`], never moved. Other directories within the
    /// data directory are refused, whatever path, link or mount leads there.
    ///
    /// # Errors
    /// [`EngineError::ImportRefused`] names the file that does not fit and says why.
    pub fn import(
        &self,
        id: TableId,
        directory: &Path,
        options: &ImportOptions,
    ) -> Result<Vec<ImportedSSTable>> {
        let imported = self.inner.core.import(id, directory, options)?;
        self.inner.core.compaction_wanted.raise();
        Ok(imported)
    }

    /// Takes in what was put into the table's own directory while it was open. Running compactions of the table give way, and
    /// begin again. All of the new SSTables, or after an error none; their files stay where they are.
    pub fn refresh(&self, id: TableId) -> Result<Vec<ImportedSSTable>> {
        let found = self.inner.core.refresh(id)?;
        self.inner.core.compaction_wanted.raise();
        Ok(found)
    }

    /// Reads every SSTable of a table whole and holds it against its checksums and its own index; `extended` also every value
    /// against its type. What is wrong with one does not keep the others from being read.
    pub fn verify(&self, id: TableId, extended: bool) -> Result<Vec<VerifiedSSTable>> {
        self.inner.core.verify(id, extended)
    }

    /// Rewrites each SSTable of a table as one of all that can be read of it, also those that are left out of reads because they are
    /// corrupt. Running compactions give way. With `keep`, what schema.cql is to say, a snapshot `pre-scrub-<milliseconds>` is
    /// taken first. What is wrong with one does not keep the others from being scrubbed; one that cannot be stays as it is.
    pub fn scrub(
        &self,
        id: TableId,
        options: &ScrubOptions,
        keep: Option<&str>,
    ) -> Result<Vec<ScrubbedSSTable>> {
        let core = &self.inner.core;
        let table = core.table(id)?;
        let snapshot = |sstables: &[Descriptor]| {
            keep.map(|schema| core.snapshot_before_scrub(&table, sstables, schema)).transpose()
        };
        let scrubbed = core.scrub(&table, options, snapshot)?;
        core.compaction_wanted.raise();
        Ok(scrubbed)
    }

    /// Applies all mutations or none: they are one record of the commit log. Each partition's changes are seen together, and
    /// those of indexes' tables not before the others.
    /// Returns when the write is as safe as `commitlog_sync` promises.
    pub fn apply(&self, mutations: &[Mutation]) -> Result<()> {
        self.apply_with(mutations, Durability::Configured)
    }

    /// Applies mutations as [`apply`](Self::apply) does, with this durability when it returns.
    pub fn apply_with(&self, mutations: &[Mutation], durability: Durability) -> Result<()> {
        self.inner.core.apply(mutations, durability).map(drop)
    }

    /// [Applies](Self::apply) a schema change. When this returns, the change is durable in the commit log, and what it changes in
    /// tables for which `is_schema` returns true is durable outside of it too.
    ///
    /// # Errors
    /// [`EngineError::OnlyInLog`] if the change took effect and is durable in the commit log alone. After any other error it did
    /// not take effect.
    pub fn apply_schema(
        &self,
        mutations: &[Mutation],
        is_schema: &dyn Fn(&TableMetadata) -> bool,
    ) -> Result<()> {
        self.inner.core.apply_schema(mutations, is_schema)
    }

    /// Returns what damage to the schema journal may have taken from the schema. Available after [`replay`](Self::replay).
    pub fn schema_journal_damage(&self) -> Option<String> {
        self.inner.core.journal.damage()
    }

    /// Whether [`apply`](Self::apply) would keep its caller waiting, as far as can be told now: for a disk, as `commitlog_sync`
    /// `group` and `batch` do with every write, for room in memtables, or for large writes of others.
    pub fn apply_would_wait(&self) -> bool {
        let core = &self.inner.core;
        !matches!(core.options.commitlog_sync, SyncMode::Periodic { .. })
            || core.memory.is_contended()
            || core.holds_writers_up()
    }

    /// Waits for the lock of a partition, for a write that depends on a read. Plain writes do not take it. A thread
    /// that holds one must not ask for another.
    ///
    /// # Errors
    /// If the request of this thread is [interrupted](cassette_rows::interrupt) first.
    pub fn lock_partition(&self, id: TableId, key: &DecoratedKey) -> Result<PartitionLock<'_>, Interrupted> {
        self.inner.core.partition_locks.lock(id, key)
    }

    /// Waits for the locks of many partitions, for a write of all of them that depends on reads. As with
    /// [`lock_partition`](Self::lock_partition), a thread that holds any must not ask for more.
    ///
    /// # Errors
    /// If the request of this thread is [interrupted](cassette_rows::interrupt) first.
    pub fn lock_partitions<'k>(
        &self,
        partitions: impl Iterator<Item = (TableId, &'k DecoratedKey)>,
    ) -> Result<Vec<PartitionLock<'_>>, Interrupted> {
        self.inner.core.partition_locks.lock_all(partitions)
    }

    /// [`lock_partitions`](Self::lock_partitions), unless somebody holds one of them.
    pub fn try_lock_partitions<'k>(
        &self,
        partitions: impl Iterator<Item = (TableId, &'k DecoratedKey)>,
    ) -> Option<Vec<PartitionLock<'_>>> {
        self.inner.core.partition_locks.try_lock_all(partitions)
    }

    /// The lock of a partition, if nobody holds it. It may be held by somebody who waits for a disk.
    pub fn try_lock_partition(&self, id: TableId, key: &DecoratedKey) -> Option<PartitionLock<'_>> {
        self.inner.core.partition_locks.try_lock(id, key)
    }

    /// Reads a partition: at most one in the stream, merged, with its tombstones.
    pub fn read(
        &self,
        id: TableId,
        key: &DecoratedKey,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        self.read_first(id, key, selection, None)
    }

    /// Whether something may be stored of a partition, as memtables and bloom filters say. No disk is asked; `false` is certain.
    pub fn may_contain(&self, id: TableId, key: &DecoratedKey) -> Result<bool> {
        let core = &self.inner.core;
        core.may_contain(&*core.table(id)?, key)
    }

    /// [`Self::read`] by somebody who stops pulling after so many live rows: then the row cache can answer from the first
    /// rows of a partition.
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

    /// [`Self::read`] past the row cache; says also how many SSTables had the partition.
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

    /// Empties the key cache.
    pub fn invalidate_key_cache(&self) {
        self.inner.core.key_cache.clear();
    }

    /// Empties the row cache.
    pub fn invalidate_row_cache(&self) {
        self.inner.core.row_cache.clear();
    }

    /// Empties the counter cache.
    pub fn invalidate_counter_cache(&self) {
        self.inner.core.counter_cache.clear();
    }

    /// Sets how many bytes the key cache, the row cache and the counter cache may hold, until the next start.
    ///
    /// # Errors
    /// If that is more than the memory there is.
    pub fn set_cache_capacity(&self, key_cache: u64, row_cache: u64, counter_cache: u64) -> Result<()> {
        let core = &self.inner.core;
        let options = Options {
            key_cache_size: key_cache,
            row_cache_size: row_cache,
            counter_cache_size: counter_cache,
            ..core.options.clone()
        };
        options.check_sizes(cassette_vfs::memory_limit())?;
        core.key_cache.set_capacity(key_cache);
        core.row_cache.set_capacity(row_cache);
        core.counter_cache.set_capacity(counter_cache);
        Ok(())
    }

    /// Says how many keys of a cache are saved at most, those asked for most often; until the next start.
    pub fn set_cache_keys_to_save(&self, cache: CacheKind, most: usize) {
        self.inner.core.saved_caches.set_keys_to_save(cache, most);
    }

    /// Saves the caches that are to be saved at all, as is done periodically and by [`close`](Self::close). What goes wrong is
    /// logged.
    pub fn save_caches(&self) {
        self.inner.core.save_caches();
    }

    /// Brings recent figures up to date, if that is due.
    #[cfg(test)]
    pub fn tick_metrics(&self) {
        self.inner.core.tick_metrics();
    }

    /// Saves the caches whose period is over, in the calling thread. The engine's own threads do that within seconds.
    pub fn save_caches_when_due(&self) {
        self.inner.core.save_caches_when_due();
    }

    /// Loads what was saved of the caches, in the background: to be called once after
    /// [`finish_recovery`](Self::finish_recovery). `node` is whose counts the counter cache is to have. Nothing depends on the
    /// files: what is wrong with them is logged.
    pub fn load_saved_caches(&self, node: [u8; 16]) {
        self.inner.core.request_saved_caches(node);
    }

    /// The counter cache, for a write to the partition, if there is such a cache. The caller holds the
    /// [partition's lock](Self::lock_partition), reads nothing before this, and keeps the lock until it has written.
    pub fn counters<'a>(
        &'a self,
        id: TableId,
        key: &'a DecoratedKey,
    ) -> Result<Option<PartitionCounters<'a>>> {
        let core = &self.inner.core;
        let table = core.table(id)?;
        Ok(core.counter_cache.is_enabled().then(|| core.counters(&table, key)))
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

    /// Compacts all SSTables of a table as its strategy does that: into one, into levels, or into shards. Memtables are not
    /// flushed before.
    pub fn compact(&self, id: TableId) -> Result<()> {
        let core = &self.inner.core;
        core.compact(&core.table(id)?, false)
    }

    /// [`compact`](Self::compact) into SSTables of a half, a quarter and so on, if the strategy is size-tiered.
    pub fn compact_split(&self, id: TableId) -> Result<()> {
        let core = &self.inner.core;
        core.compact(&core.table(id)?, true)
    }

    /// Compacts some SSTables of a table together.
    pub fn compact_sstables(&self, id: TableId, sstables: &[SSTableId]) -> Result<()> {
        let core = &self.inner.core;
        core.compact_sstables(&core.table(id)?, sstables)
    }

    /// Rewrites every SSTable of a table by itself, under the table's options of now.
    pub fn upgrade_sstables(&self, id: TableId) -> Result<()> {
        let core = &self.inner.core;
        core.upgrade_sstables(&core.table(id)?, Upgraded::All)
    }

    /// Rewrites the SSTables of a table that are of another version than `nb`, which is written.
    pub fn upgrade_other_versions(&self, id: TableId) -> Result<()> {
        let core = &self.inner.core;
        core.upgrade_sstables(&core.table(id)?, Upgraded::OtherVersions)
    }

    /// Rewrites every SSTable of a table by itself, the oldest first, without what newer ones shadow; see
    /// [`OverlappingTombstones`].
    pub fn garbage_collect(&self, id: TableId, by: OverlappingTombstones) -> Result<()> {
        let core = &self.inner.core;
        core.garbage_collect(&core.table(id)?, by)
    }

    /// Figures about what compactions asked of overlapping SSTables, since the start.
    pub fn overlapping_figures(&self) -> OverlappingFigures {
        self.inner.core.operations.overlapping.figures()
    }

    /// What is known of a table's SSTables, those with the greatest timestamps first.
    pub fn sstables(&self, id: TableId) -> Result<Vec<SSTableInfo>> {
        let core = &self.inner.core;
        let table = core.table(id)?;
        let info = |sstable: &Arc<crate::store::sstable_handle::SSTable>| SSTableInfo {
            id: sstable.id(),
            level: sstable.level(),
            bytes_on_disk: sstable.reader.bytes_on_disk(),
            uncompressed_bytes: sstable.reader.uncompressed_bytes(),
            partitions: sstable.reader.estimated_keys(),
            tokens: sstable.tokens(),
            min_timestamp: sstable.min_timestamp(),
            max_timestamp: sstable.max_timestamp(),
        };
        Ok(table.view().sstables.iter().map(info).collect())
    }

    /// The level of each of a table's SSTables. Below L0 one that shares tokens with another of its level counts as one of L0.
    pub fn sstable_levels(&self, id: TableId) -> Result<Vec<u32>> {
        let core = &self.inner.core;
        Ok(core.levels(&*core.table(id)?))
    }

    /// Whether compactions of a table start by themselves; until the next start. Nothing changes for those that are running.
    pub fn set_autocompaction(&self, id: TableId, on: bool) -> Result<()> {
        let core = &self.inner.core;
        core.set_autocompaction(&*core.table(id)?, on);
        Ok(())
    }

    /// The compactions that are running.
    pub fn running_compactions(&self) -> Vec<RunningCompaction> {
        self.inner.core.operations.running()
    }

    /// The compactions that have ended well since the start, the oldest first; the last thousand.
    pub fn compaction_history(&self) -> Vec<CompletedCompaction> {
        self.inner.core.operations.history()
    }

    /// Figures about all compactions since the start.
    pub fn compaction_totals(&self) -> CompactionTotals {
        self.inner.core.operations.totals()
    }

    /// Applies the mutation that `note` returns for each compaction that ends well from here on, in
    /// the thread that ran it. A failure is logged, and not repeated.
    pub fn note_compactions(
        &self,
        note: impl Fn(&CompletedCompaction) -> Option<Mutation> + Send + Sync + 'static,
    ) {
        let core = Arc::downgrade(&self.inner.core);
        let write = move |completed: &CompletedCompaction| {
            if let Some(core) = core.upgrade()
                && let Some(mutation) = note(completed)
                && let Err(error) = core.apply(&[mutation], Durability::Configured)
            {
                tracing::warn!(%error, "a compaction could not be noted");
            }
        };
        self.inner.core.operations.listen(Arc::new(write));
    }

    /// Lets running compactions of a kind give up, of all kinds for `None`; how many were told.
    pub fn stop_compactions(&self, kind: Option<CompactionKind>) -> usize {
        self.inner.core.operations.stop(|running| kind.is_none_or(|kind| kind == running.kind))
    }

    /// Lets the running compaction with this id give up; whether there is one.
    pub fn stop_compaction(&self, id: Uuid) -> bool {
        self.inner.core.operations.stop(|running| running.id == id) > 0
    }

    /// `compaction_throughput`: bytes a second that all compactions together may read from disk; 0 for no limit.
    pub fn compaction_throughput(&self) -> u64 {
        self.inner.core.throttle.rate()
    }

    /// `concurrent_compactors`: threads that compact.
    pub fn concurrent_compactors(&self) -> usize {
        self.inner.background.compactors()
    }

    /// Sets `concurrent_compactors` until the next start. Compactions that are running go on to their end.
    pub fn set_concurrent_compactors(&self, count: usize) -> Result<()> {
        self.inner.background.set_compactors(count).map_err(EngineError::Thread)
    }

    /// Sets `compaction_throughput` until the next start, for compactions that are running too.
    pub fn set_compaction_throughput(&self, bytes_a_second: u64) {
        let core = &self.inner.core;
        core.throttle.set_rate(bytes_a_second);
        core.gentle_throttle.set_rate(gentle_rate(bytes_a_second));
    }

    /// Runs the compactions that the strategies ask for, in the calling thread, until there are none.
    pub fn run_pending_compactions(&self) {
        self.inner.core.compact_what_is_due();
    }

    /// Returns the error that ended the commit log: no write is accepted until the next start.
    pub fn log_failure(&self) -> Option<Arc<std::io::Error>> {
        self.inner.core.log_failure()
    }

    /// Makes all acknowledged writes durable, whatever `commitlog_sync` says.
    pub fn sync_log(&self) -> Result<()> {
        match &*self.inner.core.log.load() {
            Some(log) => Ok(log.sync()?),
            None => Ok(()),
        }
    }

    /// Figures about a table as it is now. Looks at all its SSTables, and at some of their files.
    pub fn table_stats(&self, id: TableId) -> Result<TableStats> {
        let core = &self.inner.core;
        Ok(core.table_stats(&core.table(id)?))
    }

    /// How large the partitions in a table's SSTables are.
    pub fn partition_stats(&self, id: TableId) -> Result<PartitionStats> {
        let core = &self.inner.core;
        Ok(core.partition_stats(&*core.table(id)?))
    }

    /// What is counted and timed about a table, since it was opened.
    pub fn table_metrics(&self, id: TableId) -> Result<Arc<TableMetrics>> {
        Ok(self.inner.core.table(id)?.metrics.clone())
    }

    /// Counts a read of one partition that did not come by a statement: how long it took, and what it came across. Of a table that is not there nothing
    /// is counted.
    pub fn record_partition_read(
        &self,
        id: TableId,
        key: &DecoratedKey,
        time: Duration,
        live_rows: u64,
        tombstones: u64,
    ) {
        if let Some(table) = self.inner.core.tables.load().get(&id) {
            table.metrics.record_partition_read(key.key(), time, live_rows, tombstones);
        }
    }

    /// The SSTable whose Data component is at `path`, and its table.
    pub fn sstable_at(&self, path: &Path) -> Option<(TableId, SSTableId)> {
        self.inner.core.sstable_at(path)
    }

    /// All tables that are open, by keyspace and name.
    pub fn tables(&self) -> Vec<(TableId, Arc<TableMetadata>)> {
        self.inner.core.table_list()
    }

    /// Figures about the whole engine as it is now.
    pub fn stats(&self) -> EngineStats {
        self.inner.core.stats()
    }

    /// How much storage all tables take. Cheaper than [`Self::stats`].
    pub fn bytes_in_use(&self) -> BytesInUse {
        self.inner.core.bytes_in_use()
    }

    /// The room that is left on the disk with the data directory.
    pub fn available_space(&self) -> std::io::Result<u64> {
        self.inner.core.fs.available_space(&self.inner.core.options.data_dir)
    }

    /// Latency of the commit log's syncs; `None` until recovery has ended.
    pub fn commit_log_sync_latency(&self) -> Option<HistogramSnapshot> {
        let core = &self.inner.core;
        core.log.load().as_ref().map(|log| log.sync_latency().snapshot(core.clock.monotonic()))
    }

    /// What is counted about the whole engine, since it was opened.
    pub fn metrics(&self) -> &EngineMetrics {
        &self.inner.core.metrics
    }

    /// What it was opened with.
    pub fn options(&self) -> &Options {
        &self.inner.core.options
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
        let was_open = core.phase() == Phase::Open;
        if was_open {
            core.save_caches();
        }
        core.set_phase(Phase::Closed);
        // Writers that were past the check of the phase finish. Later ones that would not log see it and are refused, ...
        let wait_for_writers =
            || core.tables.load().values().for_each(|table| drop(table.write_order.write()));
        wait_for_writers();
        let unlogged_flushed = if was_open { core.flush_unlogged() } else { Ok(()) };
        // ... and the others find no log.
        let log = core.log.swap(None);
        wait_for_writers();
        let closed = log.map_or(Ok(()), close_log);
        core.directory.release();
        flushed.and(unlogged_flushed).and(closed)
    }
}

/// Closes the log once nobody uses it; if somebody goes on doing so, makes it durable all the same.
fn close_log(mut log: Arc<crate::log::commitlog::CommitLog>) -> Result<()> {
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
