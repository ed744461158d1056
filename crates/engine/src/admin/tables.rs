//! Creation, opening, alteration, truncation and removal of tables.

use std::io;
use std::path::Path;
use std::sync::Arc;

use cassette_rows::{StorageError, TableId, TableMetadata};
use cassette_sstable::descriptor::{FileName, parse_file_name};
use cassette_sstable::{Component, Descriptor, SSTableId, Version};
use cassette_vfs::DirEntry;
use hashbrown::{HashMap, HashSet};

use crate::admin::snapshots::{self, Cause};
use crate::basics::error::{EngineError, Result};
use crate::basics::options::DiskFailurePolicy;
use crate::basics::parallel;
use crate::log::commitlog::{AppendError, CommitLog, Event, EventKind, Position};
use crate::log::drop_records::{DropRecord, DropState};
use crate::log::replay_positions::Discard;
use crate::memory::memtable::Memtable;
use crate::store::core::{Core, Phase};
use crate::store::data_directory::TableDirectory;
use crate::store::sstable_handle::SSTable;
use crate::store::table::{Table, Unreadable};
use crate::store::transaction::{self, CommitError, Committed, OperationType, Transaction};
use crate::strategies::options::CompactionOptions;

impl Core {
    /// See [`Engine::create_tables`](crate::Engine::create_tables).
    pub fn create_tables(self: &Arc<Self>, created: &[Arc<TableMetadata>]) -> Result<()> {
        self.check_running()?;
        created.iter().try_for_each(|metadata| check_options(metadata))?;
        let _changing = self.changing_tables.lock();
        let mut tables = HashMap::clone(&self.tables.load());
        let directories = self.directory.create_tables(created)?;
        for (metadata, directory) in created.iter().zip(&directories) {
            if let Some(old) = tables.get(&metadata.id) {
                let name = old.metadata().qualified_name();
                return Err(EngineError::TableExists { id: metadata.id, name });
            }
            if metadata.index_of.is_some() && self.phase() == Phase::Open && !directory.is_new {
                self.empty_directory(&directory.path)?;
            }
            let table = Arc::new(self.open_table(metadata.clone(), directory)?);
            if self.phase() == Phase::Open {
                self.readopt(&table)?;
            }
            tables.insert(table.id, table);
        }
        self.tables.store(Arc::new(tables));
        let tables = self.tables.load();
        created
            .iter()
            .filter_map(|created| tables.get(&created.id))
            .for_each(|table| self.measure_compaction_debt(table));
        self.compaction_wanted.raise();
        Ok(())
    }

    /// Prepares a table with the id of an earlier one: log records of a dropped one remain
    /// discarded, and those kept for an unknown one are applied.
    fn readopt(self: &Arc<Self>, table: &Arc<Table>) -> Result<()> {
        let Some(log) = self.log.load_full() else { return Err(EngineError::Closed) };
        if self.drops.get(table.id).is_some() {
            self.positions.advance(table.id, log.position())?;
            self.drops.forget(|id, _| id == table.id)?;
        }
        self.claim_log(table, false)
    }

    /// Removes the files of a directory of an earlier index with the same name. An index contains
    /// only derived data, and is built again.
    fn empty_directory(&self, directory: &Path) -> Result<()> {
        let entries =
            self.fs.read_dir(directory).map_err(|error| StorageError::io(directory, "list", error))?;
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            let path = directory.join(&entry.name);
            self.fs.remove_file(&path).map_err(|error| StorageError::io(&path, "remove", error))?;
        }
        if !entries.is_empty() {
            let io = |error| StorageError::io(directory, "sync the directory", error);
            self.fs.sync_dir(directory).map_err(io)?;
        }
        Ok(())
    }

    fn open_table(
        self: &Arc<Self>,
        metadata: Arc<TableMetadata>,
        directory: &TableDirectory,
    ) -> Result<Table> {
        let TableDirectory { path: directory, is_new } = directory;
        let discard = |position| self.discard_log(metadata.id, position);
        let entries =
            if *is_new { Vec::new() } else { transaction::recover(self.fs.as_ref(), directory, discard)? };
        let found = found_sstables(&entries, directory)?;
        let open = |sstable: &FoundSSTable| {
            Ok::<_, EngineError>(if sstable.has_data {
                self.open_sstable(sstable.descriptor.clone(), &metadata)
            } else {
                // TOC is written last, so its SSTable was complete: without Data, rows are lost,
                // which must not be mistaken for an incomplete SSTable.
                Err(StorageError::corrupt(
                    sstable.descriptor.path(Component::Toc),
                    "its SSTable has no Data.db; bring the file back, or remove the SSTable's other files to go \
                     on without its rows",
                ))
            })
        };
        let opened = parallel::for_each(self.file_threads(), &found, open, |_| Ok(()))?;
        let mut sstables = Vec::new();
        let mut last_number = 0;
        let mut unreadable = Vec::new();
        for (FoundSSTable { descriptor, .. }, opened) in found.into_iter().zip(opened) {
            if let SSTableId::Sequence(number) = descriptor.id {
                last_number = last_number.max(number);
            }
            match opened {
                Ok(sstable) => sstables.push(Arc::new(sstable)),
                Err(error @ (StorageError::Corrupt { .. } | StorageError::Unsupported { .. }))
                    if self.options.disk_failure_policy != DiskFailurePolicy::Stop =>
                {
                    match self.options.disk_failure_policy {
                        DiskFailurePolicy::BestEffort => tracing::error!(
                            %error,
                            "an SSTable cannot be opened and is left out (disk_failure_policy: best_effort)"
                        ),
                        _ => tracing::error!(
                            %error,
                            "an SSTable cannot be opened: reads of its table fail until that is put right"
                        ),
                    }
                    unreadable.push(Unreadable { descriptor, error: Arc::new(error) });
                }
                Err(error) => return Err(error.into()),
            }
        }
        let begins = match &*self.log.load() {
            Some(log) => log.position(),
            None => crate::log::commitlog::Position::ZERO,
        };
        let now = self.clock.monotonic();
        let table = Table::new(metadata, directory.to_owned(), sstables, last_number, begins, now);
        table.change_view(|view| view.unreadable = unreadable.into());
        // Only a table that existed before recovery began has log records.
        table.recovery.lock().replayed = self.phase() == Phase::Open;
        Ok(table)
    }

    /// See [`Engine::alter_table`](crate::Engine::alter_table).
    pub fn alter_table(self: &Arc<Self>, metadata: Arc<TableMetadata>) -> Result<()> {
        self.check_running()?;
        check_options(&metadata)?;
        let table = self.table(metadata.id)?;
        let drops_columns = table.try_change_view(|view| {
            let altered = |sstable: &Arc<SSTable>| sstable.with_table(metadata.clone()).map(Arc::new);
            view.sstables = view.sstables.iter().map(altered).collect::<Result<_, _>>()?;
            view.quarantined = view.quarantined.iter().map(altered).collect::<Result<_, _>>()?;
            let dropped = |(old, new): (&Option<_>, &Option<_>)| old.is_some() && new.is_none();
            let drops_columns = view.table.columns.iter().zip(&metadata.columns).any(dropped);
            view.table = metadata.clone();
            Ok::<_, EngineError>(drops_columns)
        })?;
        if let Ok(options) = CompactionOptions::parse(&metadata.params.compaction) {
            // Once the schema agrees with the operator's setting, the schema applies again.
            table.compaction.lock().autocompaction.take_if(|on| *on == options.enabled);
        }
        if drops_columns && self.phase() == Phase::Open {
            // Memtables contain the dropped cells; SSTables get only those newer than the drop.
            self.flush(&table)?;
            // Rows may have been removed with them.
            table.change_view(|_| ());
        }
        self.measure_compaction_debt(&table);
        self.row_cache.forget(table.id);
        self.compaction_wanted.raise();
        Ok(())
    }

    /// See [`Engine::intend_drops`](crate::Engine::intend_drops).
    pub fn intend_drops(&self, ids: &[TableId]) -> Result<()> {
        self.check_running()?;
        let tables = self.tables.load();
        let tables = ids.iter().map(|id| Self::table_in(&tables, *id)).collect::<Result<Vec<_>>>()?;
        Ok(self.drops.intend(tables.iter().map(|table| self.drop_target(table)))?)
    }

    /// See [`Engine::cancel_drops`](crate::Engine::cancel_drops).
    pub fn cancel_drops(&self, ids: &[TableId]) {
        let log_failed = self.log.load().is_none() || self.log_failure().is_some();
        if log_failed {
            // It is unknown whether the schema change is durable: the next start resolves the
            // intents.
            return;
        }
        let is_intended = |record: &DropRecord| record.state == DropState::Intended;
        if let Err(error) = self.drops.forget(|id, record| ids.contains(&id) && is_intended(record)) {
            tracing::warn!(%error, "the intent of a failed DROP stays until the next change; it has no effect");
        }
    }

    fn drop_target(&self, table: &Arc<Table>) -> (TableId, String) {
        (table.id, self.directory.relative(&table.directory))
    }

    /// See [`Engine::drop_tables`](crate::Engine::drop_tables).
    pub fn drop_tables(&self, ids: &[TableId]) -> Result<()> {
        self.check_running()?;
        let _changing = self.changing_tables.lock();
        let Some(log) = self.log.load_full() else { return Err(EngineError::Recovering) };
        let dropped = self.close_tables(ids)?;
        // No writer is active: later log records contain nothing of the tables.
        self.drops.commit(dropped.iter().map(|table| self.drop_target(table)), log.position())?;
        let mut failure = None;
        for table in &dropped {
            let _no_import = table.importing.lock();
            let _no_compaction = self.pause_compactions(table);
            let _no_flush = table.flush.lock();
            self.forget_memtables(table);
            log.forget_table(table.id.0.as_u128());
            match snapshots::remove_table_files(self.fs.as_ref(), &table.directory) {
                Ok(_) => self.drops.removed(table.id),
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        self.positions.retain(|other| !ids.contains(&other))?;
        self.forget_finished_drops()?;
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Closes tables: later writes and reads are rejected. The caller holds `changing_tables`.
    fn close_tables(&self, ids: &[TableId]) -> Result<Vec<Arc<Table>>> {
        let mut tables = HashMap::clone(&self.tables.load());
        let remove = |id: &TableId| tables.remove(id).ok_or(EngineError::UnknownTable(*id));
        let closed = ids.iter().map(remove).collect::<Result<Vec<_>>>()?;
        for table in &closed {
            let _writers_held_out = table.write_order.write();
            table.set_dropped();
        }
        self.tables.store(Arc::new(tables));
        for id in ids {
            self.row_cache.forget(*id);
        }
        Ok(closed)
    }

    /// See [`Engine::discard_tables`](crate::Engine::discard_tables).
    pub fn discard_tables(&self, ids: &[TableId]) -> Result<()> {
        self.check_running()?;
        let _changing = self.changing_tables.lock();
        for table in self.close_tables(ids)? {
            let _no_import = table.importing.lock();
            let _no_compaction = self.pause_compactions(&table);
            let _no_flush = table.flush.lock();
            self.forget_memtables(&table);
            snapshots::remove_if_empty(self.fs.as_ref(), &table.directory)?;
        }
        Ok(())
    }

    /// See [`Engine::truncate`](crate::Engine::truncate).
    ///
    /// Without SSTables, all data is in the log: the position up to which it is not needed is
    /// recorded, in one step. Otherwise one transaction removes the SSTables and discards the log
    /// up to that position. If a snapshot is to be taken, which consists of SSTables, memtables are
    /// flushed first. If not, they are not, so that a table can be truncated on a full disk.
    pub fn truncate(self: &Arc<Self>, id: TableId, keep: Option<&str>) -> Result<()> {
        self.check_running()?;
        if self.phase() == Phase::Recovering {
            return Err(EngineError::Recovering);
        }
        let table = self.table(id)?;
        let _no_import = table.importing.lock();
        let _no_compaction = self.pause_compactions(&table);
        let _no_flush = table.flush.lock();
        let view = table.view();
        let has_sstables =
            !view.sstables.is_empty() || !view.quarantined.is_empty() || !view.unreadable.is_empty();
        let is_in_memory = view.memtables().any(|memtable| !memtable.is_empty());
        drop(view);
        if !has_sstables && (keep.is_none() || !is_in_memory) {
            return self.truncate_memtables(&table);
        }
        let log = self.usable_log()?;
        let event_position = log.event_position();
        match keep {
            Some(_) => self.flush_alone(&table)?,
            None => self.switch(&table),
        }
        // The removed memtables and SSTables contain the table's records up to here, and the active
        // memtable those of later writes.
        let begins = table.view().first_memtable().begins;
        let ends = table.view().memtable.begins.max(self.positions.get(id));
        // If the log had failed when the memtable was replaced, there is no such position, and this
        // fails. Nor must the truncation survive a crash that loses earlier writes of other tables.
        log.sync()?;
        if let Some(schema) = keep {
            self.snapshot_before(&table, Cause::Truncated, schema)?;
        }
        // Including those that could not be opened.
        let descriptors = self.data_files(&table.directory)?;
        let mut transaction =
            Transaction::begin(self.fs.clone(), &table.directory, OperationType::Truncate, self.time_uuid())?;
        transaction.discard_log(ends);
        let committed = self.commit_truncation(&table, &log, transaction, &descriptors)?;
        let discarded = table.change_view(|view| {
            view.sstables = Arc::new([]);
            view.quarantined = Arc::new([]);
            view.unreadable = Arc::new([]);
            std::mem::take(&mut view.flushing)
        });
        discarded.iter().for_each(|frozen| self.memory.release(frozen.bytes));
        self.row_cache.forget(id);
        self.measure_compaction_debt(&table);
        let is_known = self.positions.get(id) == ends;
        let saved = if is_known { self.positions.ensure_saved() } else { self.positions.advance(id, ends) };
        // The log may remove its segments even if that failed: the transaction has the position.
        log.mark_clean(id.0.as_u128(), begins, ends);
        // Flushes of other tables may succeed now.
        *self.flush_failure.lock() = None;
        // Before the files are removed: if that fails, the table is truncated nevertheless.
        self.log_event(&table, EventKind::Truncated, event_position.max(ends))?;
        if let Err(error) = self.finish_truncation(saved, committed) {
            tracing::warn!(%error, "files of a truncated table stay until the next start");
        }
        self.flush_wanted.raise();
        Ok(())
    }

    /// Commits the truncation of a table. If the outcome is unknown, the table has its rows until
    /// the next start. Nothing durable may depend on them: neither later writes, nor SSTables from
    /// compactions and flushes.
    fn commit_truncation(
        &self,
        table: &Table,
        log: &CommitLog,
        transaction: Transaction,
        removed: &[Descriptor],
    ) -> Result<Committed> {
        transaction.commit(removed).map_err(|error| match error {
            CommitError::Undone(error) => error.into(),
            CommitError::Unknown(error) => {
                // The lock of flushes is held, and compactions are paused.
                table.forbid_flushes(&error);
                self.forbid_compactions(table, &error);
                log.fail(io::Error::other(format!("whether a table is truncated is unknown: {error}")));
                error.into()
            }
        })
    }

    /// Removes the files of a truncation and of its transaction, whose position must be durable
    /// before. `saved` is the result of saving it: if space was lacking, the removed files give
    /// some.
    fn finish_truncation(&self, saved: cassette_rows::Result<()>, committed: Committed) -> Result<()> {
        if saved.is_err() {
            committed.remove_files()?;
            self.positions.ensure_saved()?;
        }
        Ok(committed.finish()?)
    }

    /// Discards the records up to the position of a truncation that a crash has interrupted.
    fn discard_log(&self, table: TableId, position: Position) -> cassette_rows::Result<()> {
        // A later position is not one of this log: the directory comes from elsewhere, and records
        // that are yet to come must not be skipped. During recovery the log has no end yet; it
        // continues after all positions.
        if self.log.load().as_ref().is_some_and(|log| position > log.position()) {
            return Ok(());
        }
        self.positions.advance(table, position)
    }

    /// Logs what readers of archived segments need, once it is durable: an event without its effect
    /// would lose data.
    pub fn log_event(&self, table: &Table, kind: EventKind, position: Position) -> Result<()> {
        let event = Event { table: table.id.0.as_u128(), kind, position };
        Ok(self.usable_log()?.append_event(&event)?)
    }

    /// Truncates a table without SSTables: its log records are not needed. The caller holds the
    /// table's flush lock.
    fn truncate_memtables(&self, table: &Table) -> Result<()> {
        let writers_held_out = table.write_order.write();
        let log = self.usable_log()?;
        let (ends, event_position) = (log.position(), log.event_position());
        let begins = table.view().first_memtable().begins;
        // The positions are durable immediately. A crash that the truncation survives must not lose
        // earlier acknowledged writes of other tables.
        log.sync()?;
        self.positions.discard_up_to(table.id, ends).map_err(|error| match error {
            Discard::Undone(error) => error,
            // A replay may or may not restore the rows that are still read. Later writes may depend
            // on them, as counter writes do, so there must be none.
            Discard::Unknown(error) => {
                log.fail(io::Error::other(format!("whether a table is truncated is unknown: {error}")));
                error
            }
        })?;
        self.forget_memtables(table);
        table.change_view(|view| {
            view.flushing.clear();
            view.memtable = Arc::new(Memtable::new(ends, self.clock.monotonic()));
        });
        drop(writers_held_out);
        log.mark_clean(table.id.0.as_u128(), begins, ends);
        self.log_event(table, EventKind::Truncated, event_position)
    }

    /// See [`Engine::log_failure`](crate::Engine::log_failure).
    pub fn log_failure(&self) -> Option<Arc<io::Error>> {
        self.log.load().as_ref().and_then(|log| log.failure())
    }

    /// Returns the log.
    ///
    /// # Errors
    /// When it is closed or has failed.
    pub(crate) fn usable_log(&self) -> Result<Arc<CommitLog>> {
        let Some(log) = self.log.load_full() else { return Err(EngineError::Closed) };
        match log.failure() {
            Some(source) => Err(AppendError::Failed { source }.into()),
            None => Ok(log),
        }
    }

    /// See [`Engine::snapshot_before_drop`](crate::Engine::snapshot_before_drop).
    pub fn snapshot_before_drop(self: &Arc<Self>, id: TableId, schema: &str) -> Result<()> {
        self.check_running()?;
        let table = self.table(id)?;
        let _no_import = table.importing.lock();
        let _no_compaction = self.pause_compactions(&table);
        let _no_flush = table.flush.lock();
        self.flush_alone(&table)?;
        self.snapshot_before(&table, Cause::Dropped, schema)
    }

    /// Returns the SSTables in a table's directory, complete or not.
    pub fn data_files(&self, directory: &Path) -> Result<Vec<Descriptor>> {
        let entries =
            self.fs.read_dir(directory).map_err(|error| StorageError::io(directory, "list", error))?;
        let descriptor = |entry: &DirEntry| match parse_file_name(&entry.name)? {
            FileName::Known(version, id, Component::Data) => {
                Some(Descriptor::of_version(directory, version, id))
            }
            _ => None,
        };
        Ok(entries.iter().filter_map(descriptor).collect())
    }

    /// Releases the memory of a table's memtables. Their writers are locked out permanently.
    fn forget_memtables(&self, table: &Table) {
        let view = table.view();
        let bytes = view.memtable.heap_bytes();
        self.memory.begin_flush(bytes);
        self.memory.release(bytes);
        for frozen in &view.flushing {
            self.memory.release(frozen.bytes);
        }
    }
}

/// An SSTable in the directory of its table.
struct FoundSSTable {
    descriptor: Descriptor,
    /// Whether it has a Data component, or only TOC.txt.
    has_data: bool,
}

/// Finds the SSTables of a directory: those with a Data component, and those whose TOC.txt shows
/// that they had one.
///
/// # Errors
/// If the format of one is not supported, or two have the same id.
fn found_sstables(entries: &[DirEntry], directory: &Path) -> Result<Vec<FoundSSTable>> {
    let names = file_names(entries);
    let mut found = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.is_dir) {
        match parse_file_name(&entry.name) {
            Some(FileName::Known(version, id, component @ (Component::Data | Component::Toc))) => {
                let descriptor = Descriptor::of_version(directory, version, id);
                let has_data = names.contains(&*descriptor.file_name(Component::Data));
                if component == Component::Data {
                    check_is_only(&names, &descriptor)?;
                } else if has_data {
                    continue;
                }
                found.push(FoundSSTable { descriptor, has_data });
            }
            Some(FileName::OtherVersion { version, format }) => {
                let detail = format!(
                    "SSTables of version {version} of the format {format} are not supported; supported: ma to \
                     oa (big), da (bti)"
                );
                return Err(StorageError::Unsupported { path: directory.join(&entry.name), detail }.into());
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the names of entries.
pub(crate) fn file_names(entries: &[DirEntry]) -> HashSet<&str> {
    entries.iter().map(|entry| &*entry.name).collect()
}

/// # Errors
/// If an SSTable of another version has the same id, which identifies an SSTable.
pub(crate) fn check_is_only(names: &HashSet<&str>, sstable: &Descriptor) -> Result<()> {
    for version in Version::ALL.into_iter().filter(|version| *version != sstable.version) {
        let other = Descriptor::of_version(&sstable.directory, version, sstable.id);
        if names.contains(&*other.file_name(Component::Data)) {
            let path = sstable.path(Component::Data);
            let detail = format!(
                "{} has the same id; give one of them another, in the names of all its files",
                other.file_name(Component::Data)
            );
            return Err(StorageError::Unsupported { path, detail }.into());
        }
    }
    Ok(())
}

/// Rejects unsupported options.
fn check_options(table: &TableMetadata) -> Result<()> {
    CompactionOptions::parse(&table.params.compaction)
        .map(drop)
        .map_err(|detail| EngineError::InvalidOptions { table: table.qualified_name(), detail })
}
