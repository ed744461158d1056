//! Recovery: what the log holds and no SSTable does goes back into memtables.
//!
//! The log is read as often as [`Core::replay`] is called, each time for the tables that have been created since: the
//! schema, which says what tables there are, is in tables itself. Nothing is written to the log before recovery ends.

use std::sync::Arc;

use cassette_rows::TableId;
use hashbrown::{HashMap, HashSet};
use uuid::Uuid;

use crate::commitlog::{self, CommitLog, CommitLogOptions, Entry, HandlerError, Position, TableVersion};
use crate::core::{Core, Phase};
use crate::engine::ReplaySummary;
use crate::error::{EngineError, Result};
use crate::mutation_codec::{self, Decoder};
use crate::table::Table;

impl Core {
    /// See [`Engine::replay`](crate::Engine::replay).
    pub fn replay(self: &Arc<Self>) -> Result<ReplaySummary> {
        self.check_recovering()?;
        let mut replay = Replay::new(self);
        if !replay.tables.is_empty() {
            let directory = self.directory.commitlog();
            let policy = self.options.commitlog_replay;
            let mut handler = |entry: Entry<'_>| replay.take(entry);
            commitlog::read(self.fs.as_ref(), &directory, policy, &mut handler)?;
        }
        replay.finish();
        Ok(replay.summary)
    }

    /// See [`Engine::finish_recovery`](crate::Engine::finish_recovery).
    pub fn finish_recovery(self: &Arc<Self>) -> Result<ReplaySummary> {
        self.check_recovering()?;
        let core = Arc::downgrade(self);
        let options = CommitLogOptions {
            sync: self.options.commitlog_sync,
            segment_size: self.options.commitlog_segment_size,
            total_space: self.options.commitlog_total_space,
            replay: self.options.commitlog_replay,
            first_segment_id: self.positions.last_segment() + 1,
            threads: self.options.background_threads,
            on_space_exceeded: Some(Arc::new(move || {
                if let Some(core) = core.upgrade() {
                    core.flush_wanted.raise();
                }
            })),
        };
        let mut replay = Replay::new(self);
        let mut unknown = HashSet::new();
        let mut handler = |entry: Entry<'_>| {
            if let Entry::Record { tables, .. } = entry {
                unknown.extend(tables.iter().map(|table| table.table));
            }
            replay.take(entry)
        };
        let directory = self.directory.commitlog();
        let (log, _) =
            CommitLog::open(self.fs.clone(), self.clock.clone(), &directory, options, &mut handler)?;
        replay.finish();
        let summary = replay.summary;

        let tables = self.tables.load();
        unknown.retain(|table| !tables.contains_key(&TableId(Uuid::from_u128(*table))));
        for table in unknown {
            log.forget_table(table);
        }
        self.positions.retain(|table| tables.contains_key(&table))?;
        for table in tables.keys() {
            log.mark_clean(table.0.as_u128(), Position::ZERO, self.positions.get(*table));
        }
        self.log.store(Some(Arc::new(log)));
        self.set_phase(Phase::Open);
        Ok(summary)
    }

    fn check_recovering(&self) -> Result<()> {
        match self.phase() {
            Phase::Recovering => Ok(()),
            Phase::Open => Err(EngineError::Recovered),
            Phase::Closed => Err(EngineError::Closed),
        }
    }
}

/// One reading of the log.
struct Replay<'a> {
    core: &'a Arc<Core>,
    /// The tables that it is for: those known and not replayed before.
    tables: HashMap<u128, Arc<Table>>,
    decoders: HashMap<TableVersion, Decoder>,
    position: Position,
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

    /// The log has been read to its end.
    fn finish(&mut self) {
        for table in self.tables.values() {
            let mut recovery = table.recovery.lock();
            recovery.replayed = true;
            recovery.position = recovery.position.max(self.position);
        }
    }
}
