//! Recovery: log records that SSTables do not contain are applied to memtables.
//!
//! The log is read at each call of [`Core::replay`], for the tables that have been created since
//! the previous call: the schema, which determines the other tables, is in tables itself. Nothing
//! is written to the log before recovery ends.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cassette_rows::{StorageError, TableId};
use cassette_vfs::FileSystem;
use cassette_vfs::encryption::Encryption;
use hashbrown::HashMap;
use uuid::Uuid;

use crate::basics::error::{EngineError, Result};
use crate::log::commitlog::unclaimed::UnclaimedLog;
use crate::log::commitlog::{
    self, CdcOptions, CommitLog, CommitLogOptions, Entry, HandlerError, Position, ReadOptions, TableVersion,
    unclaimed,
};
use crate::log::mutation_codec::{self, Decoder};
use crate::log::schema_journal::JournalRecord;
use crate::store::core::{Core, Phase};
use crate::store::table::Table;

/// The result of replaying the commit log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Records read.
    pub records: u64,
    /// Mutations applied: those of known tables that no SSTable contains yet.
    pub mutations: u64,
    /// Bytes of log read.
    pub bytes: u64,
}

impl Core {
    /// See [`Engine::replay`](crate::Engine::replay).
    pub fn replay(self: &Arc<Self>) -> Result<ReplaySummary> {
        self.check_recovering()?;
        let mut replay = Replay::new(self);
        if !replay.tables.is_empty() {
            let directory = self.directory.commitlog();
            let options = ReadOptions {
                replay: self.options.commitlog_replay,
                encryption: self.options.commitlog_encryption.clone(),
                cdc: Some(self.cdc_options()?),
            };
            let mut handler = |entry: Entry<'_>| replay.take(entry);
            let read = commitlog::read(&self.fs, &self.clock, &directory, &options, &mut handler)?;
            self.note_damage(read.skipped);
            self.replay_journal(&mut replay, &read);
        }
        replay.finish();
        Ok(replay.summary)
    }

    /// Applies the records of the schema journal, after the log was read.
    fn replay_journal(&self, replay: &mut Replay<'_>, read: &commitlog::ReplaySummary) {
        self.journal.replay(|record| replay.journal_record(record).map_err(|error| error.to_string()));
        let log_is_intact = read.segments > 0 && read.skipped == 0;
        self.journal.settle(log_is_intact, |record| self.is_needed(record));
        if self.journal.damage().is_some() {
            self.schema_incomplete.store(true, Ordering::Relaxed);
        }
    }

    fn note_damage(&self, skipped: u64) {
        if skipped > 0 {
            self.log_damage_skipped.store(true, Ordering::Relaxed);
        }
    }

    /// See [`Engine::finish_recovery`](crate::Engine::finish_recovery).
    pub fn finish_recovery(self: &Arc<Self>) -> Result<ReplaySummary> {
        self.check_recovering()?;
        let dropped = self.resolve_intents()?;
        let mut replay = Replay::new(self);
        let mut foreign = ForeignRecords { core: self, dropped: &dropped, found: BTreeMap::new() };
        let mut handler = |entry: Entry<'_>| {
            if let Entry::Record { position, tables, .. } = entry {
                foreign.note(position, tables);
            }
            replay.take(entry)
        };
        let directory = self.directory.commitlog();
        let (log, read) = CommitLog::open(
            self.fs.clone(),
            self.clock.clone(),
            &directory,
            self.commitlog_options()?,
            &mut handler,
        )?;
        self.note_damage(read.skipped);
        self.replay_journal(&mut replay, &read);
        replay.finish();
        let summary = replay.summary;
        let foreign = foreign.found;

        // Durable before the log discards anything of these tables.
        if !dropped.is_empty() {
            self.drops.commit(dropped.into_iter(), log.position())?;
        }
        for (table, segments) in foreign {
            if !segments.is_empty() {
                unclaimed::keep(self.fs.as_ref(), &directory, table, &segments).map_err(|error| {
                    StorageError::io(&directory, "keep segments with records of unknown tables in", error)
                })?;
            }
            log.forget_table(table);
        }
        let tables = self.tables.load();
        for table in tables.keys() {
            log.mark_clean(table.0.as_u128(), Position::ZERO, self.positions.get(*table));
        }
        self.log.store(Some(Arc::new(log)));
        self.set_phase(Phase::Open);
        self.settle_unclaimed()?;
        self.finish_drops();
        self.flushed_together.lock().pending.extend(self.journal.table_ids());
        let unknown = self.report_unknown_tables()?;
        // The positions of unknown tables determine which kept records are in their SSTables.
        self.positions.retain(|table| tables.contains_key(&table) || unknown.contains(&table))?;
        Ok(summary)
    }

    fn commitlog_options(self: &Arc<Self>) -> Result<CommitLogOptions> {
        let core = Arc::downgrade(self);
        // Recorded positions must precede those of new segments, regardless of the clock.
        let last_segment =
            self.positions.last_segment().max(self.drops.last_segment()).max(self.journal.last_segment());
        Ok(CommitLogOptions {
            sync: self.options.commitlog_sync,
            segment_size: self.options.commitlog_segment_size,
            record_size_max: self.options.record_size_max(),
            total_space: self.options.commitlog_total_space,
            replay: self.options.commitlog_replay,
            first_segment_id: last_segment.max(self.last_unclaimed_segment()?) + 1,
            encryption: self.options.commitlog_encryption.clone(),
            cdc: Some(self.cdc_options()?),
            archive: self.options.commitlog_archiving.then(|| self.time_uuid().as_u128()),
            threads: self.options.background_threads,
            on_space_exceeded: Some(Arc::new(move || {
                if let Some(core) = core.upgrade() {
                    core.flush_wanted.raise();
                }
            })),
        })
    }

    fn cdc_options(&self) -> Result<CdcOptions> {
        const TOTAL_SPACE: u64 = 4 << 30;
        let settings = &self.options.cdc;
        let total_space = match settings.total_space {
            Some(bytes) => bytes,
            None if !settings.enabled => TOTAL_SPACE,
            None => {
                let root = self.directory.root();
                let available = self.fs.available_space(root);
                let available =
                    available.map_err(|e| StorageError::io(root, "read the available space of", e))?;
                TOTAL_SPACE.min(available / 8)
            }
        };
        Ok(CdcOptions {
            enabled: settings.enabled,
            directory: self.cdc_directory(),
            total_space,
            block_writes: settings.block_writes,
            check_interval: settings.check_interval,
            is_captured: mutation_codec::is_captured,
            chain: self.time_uuid().as_u128(),
        })
    }

    /// Returns the directory of captured segments.
    pub fn cdc_directory(&self) -> PathBuf {
        self.options.cdc.directory.clone().unwrap_or_else(|| self.directory.cdc_raw())
    }

    /// Applies the log records that were kept while a table was unknown, and flushes them. No other
    /// thread uses the table. After a crash in between, all of them are applied again.
    ///
    /// # Errors
    /// If records may have cells of columns that the table lacks. Once recovered there is no error:
    /// they are applied without these cells, and the segments are kept under a name that nothing
    /// reads.
    pub fn claim_log(self: &Arc<Self>, table: &Arc<Table>, is_recovered: bool) -> Result<()> {
        let Some(log) = self.log.load_full() else { return Err(EngineError::Closed) };
        let directory = self.directory.commitlog();
        let kept = unclaimed::of_table(self.fs.as_ref(), &directory, table.id.0.as_u128())
            .map_err(|error| StorageError::io(&directory, "list the unclaimed segments of", error))?;
        let Some(kept) = kept else { return Ok(()) };
        let encryption = self.options.commitlog_encryption.as_deref();
        let missing = missing_columns(self.fs.as_ref(), &kept, encryption, table)?;
        let name = table.metadata().qualified_name();
        if !missing.is_empty() && !is_recovered {
            let columns = missing.into_iter().collect();
            return Err(EngineError::MissingColumns { table: name, id: table.id, columns });
        }
        table.recovery.lock().claiming = true;
        let mut replay = Replay::of_claimed(self, table);
        unclaimed::read(self.fs.as_ref(), &kept, encryption, &mut |entry| replay.take(entry))?;
        let mutations = replay.summary.mutations;
        self.flush(table)?;
        self.positions.advance(table.id, log.position())?;
        table.recovery.lock().claiming = false;
        tracing::info!(table = name, mutations, "applied kept commit log records");
        if missing.is_empty() {
            return self.remove_unclaimed(table.id);
        }
        let retired = unclaimed::retire(self.fs.as_ref(), &directory, kept.table)
            .map_err(|error| StorageError::io(&directory, "rename unclaimed segments in", error))?;
        tracing::error!(
            table = name,
            ?missing,
            "kept commit log records were applied without columns that the table lacks; the segments stay in {}",
            retired.display()
        );
        Ok(())
    }

    fn check_recovering(&self) -> Result<()> {
        match self.phase() {
            Phase::Recovering => Ok(()),
            Phase::Open => Err(EngineError::Recovered),
            Phase::Closed => Err(EngineError::Closed),
        }
    }
}

/// Returns the columns that kept records may have cells of and that the table neither has nor
/// dropped.
fn missing_columns(
    fs: &dyn FileSystem,
    kept: &UnclaimedLog,
    encryption: Option<&dyn Encryption>,
    table: &Table,
) -> Result<BTreeSet<String>> {
    let mut missing = BTreeSet::new();
    unclaimed::read(fs, kept, encryption, &mut |entry| {
        if let Entry::Dictionary { table: version, content } = entry
            && version.table == kept.table
            && let Some(decoder) = Decoder::new(table.metadata(), content)
        {
            missing.extend(decoder.missing_columns().iter().cloned());
        }
        Ok(())
    })?;
    Ok(missing)
}

/// Collects the segments with records of unknown tables, by table. Tables without needed records
/// are omitted.
struct ForeignRecords<'a> {
    core: &'a Core,
    /// Tables whose drop is about to be recorded.
    dropped: &'a [(TableId, String)],
    found: BTreeMap<u128, BTreeSet<u64>>,
}

impl ForeignRecords<'_> {
    fn note(&mut self, position: Position, tables: &[TableVersion]) {
        let known = self.core.tables.load();
        for version in tables {
            let id = TableId(Uuid::from_u128(version.table));
            if known.contains_key(&id) {
                continue;
            }
            let segments = self.found.entry(version.table).or_default();
            let is_needed = position > self.core.positions.get(id)
                && !self.core.drops.covers(id, position)
                && self.dropped.iter().all(|(dropped, _)| *dropped != id);
            if is_needed {
                segments.insert(position.segment);
            }
        }
    }
}

/// One replay of the log.
struct Replay<'a> {
    core: &'a Arc<Core>,
    /// The tables to replay: known ones that were not replayed before.
    tables: HashMap<u128, Arc<Table>>,
    decoders: HashMap<TableVersion, Decoder>,
    position: Position,
    /// The table whose kept records are replayed, if it is not the log that is.
    claimed: Option<Arc<Table>>,
    summary: ReplaySummary,
}

impl<'a> Replay<'a> {
    fn new(core: &'a Arc<Core>) -> Self {
        let known = core.tables.load();
        let tables = known.values().filter(|table| !table.recovery.lock().replayed);
        Self {
            core,
            tables: tables.map(|table| (table.id.0.as_u128(), table.clone())).collect(),
            decoders: HashMap::new(),
            position: Position::ZERO,
            claimed: None,
            summary: ReplaySummary::default(),
        }
    }

    fn of_claimed(core: &'a Arc<Core>, table: &Arc<Table>) -> Self {
        Self {
            core,
            tables: HashMap::from([(table.id.0.as_u128(), table.clone())]),
            decoders: HashMap::new(),
            position: Position::ZERO,
            claimed: Some(table.clone()),
            summary: ReplaySummary::default(),
        }
    }

    fn take(&mut self, entry: Entry<'_>) -> Result<(), HandlerError> {
        match entry {
            Entry::Dictionary { table, content } => {
                if let Some(known) = self.tables.get(&table.table) {
                    let decoder = Decoder::new(known.metadata(), content)
                        .ok_or("a dictionary that cannot be decoded, though its checksum holds")?;
                    self.decoders.insert(table, decoder);
                }
            }
            Entry::Record { position, tables, content } => {
                self.position = position;
                self.summary.records += 1;
                self.summary.bytes += content.len() as u64;
                if tables.iter().any(|table| self.tables.contains_key(&table.table)) {
                    self.record(position, tables, content)?;
                }
            }
        }
        Ok(())
    }

    fn record(
        &mut self,
        position: Position,
        tables: &[TableVersion],
        content: &[u8],
    ) -> Result<(), HandlerError> {
        self.apply(position, tables, content)?;
        if let Some(table) = &self.claimed {
            if self.core.memory.wants_flush() {
                self.core.flush(table)?;
            }
            return Ok(());
        }
        for version in tables {
            if let Some(table) = self.tables.get(&version.table) {
                table.recovery.lock().position = position;
            }
        }
        if self.core.memory.wants_flush() {
            self.core.flush_what_is_due();
            if let Some(cause) = self.core.flush_failure.lock().clone() {
                return Err(format!("no room in memtables, and a flush failed: {cause}").into());
            }
        }
        Ok(())
    }

    /// Applies a record of the schema journal, which does not change the position of the log.
    fn journal_record(&mut self, record: &JournalRecord) -> Result<(), HandlerError> {
        for (table, content) in &record.tables {
            self.take(Entry::Dictionary { table: *table, content })?;
        }
        let tables: Vec<TableVersion> = record.tables.iter().map(|(table, _)| *table).collect();
        self.apply(record.position, &tables, &record.content)
    }

    fn apply(
        &mut self,
        position: Position,
        tables: &[TableVersion],
        content: &[u8],
    ) -> Result<(), HandlerError> {
        const UNDECODABLE: &str = "a mutation that cannot be decoded, though its checksum holds";
        for (place, update) in mutation_codec::split_record(content).ok_or(UNDECODABLE)? {
            let version = tables.get(place).ok_or(UNDECODABLE)?;
            let Some(table) = self.tables.get(&version.table) else { continue };
            if position <= self.core.positions.get(table.id) {
                continue;
            }
            let decoder = self.decoders.get(version).ok_or("a mutation whose dictionary is missing")?;
            let update = decoder.update(update).ok_or(UNDECODABLE)?;
            if update.is_empty() {
                continue;
            }
            let changes = [(&update, &**decoder.table())];
            let growth = table.view().memtable.apply(&update.key, changes.into_iter());
            self.core.memory.grow(growth);
            self.summary.mutations += 1;
        }
        Ok(())
    }

    /// Completes the replay of the log.
    fn finish(&mut self) {
        for table in self.tables.values() {
            let mut recovery = table.recovery.lock();
            recovery.replayed = true;
            recovery.position = recovery.position.max(self.position);
        }
    }
}
