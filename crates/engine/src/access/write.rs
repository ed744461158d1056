//! The path of a write: admission, commit log, memtable.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cassette_rows::interrupt;
use cassette_rows::key::MAX_KEY_LENGTH;
use cassette_rows::{DecoratedKey, PartitionUpdate, Row, TableId, TableMetadata};
use crossbeam_utils::sync::ShardedLockReadGuard;

use crate::basics::error::{EngineError, Result};
use crate::basics::mutation::{Durability, Mutation};
use crate::basics::trace::trace;
use crate::log::commitlog::{AppendError, Position, Record, TableVersion};
use crate::log::mutation_codec;
use crate::log::schema_journal::JournalRecord;
use crate::memory::pool::WritePermit;
use crate::store::core::{Core, Phase};
use crate::store::table::{Table, View};

impl Core {
    /// See [`Engine::apply`](crate::Engine::apply) and [`Durability`]. Returns the end of the log
    /// record; the minimum position if nothing was logged.
    pub fn apply(self: &Arc<Self>, mutations: &[Mutation], durability: Durability) -> Result<Position> {
        self.apply_admitted(mutations, durability, None)
    }

    /// [`apply`](Self::apply) for a write that has been admitted, if there is a `permit`.
    pub fn apply_admitted(
        self: &Arc<Self>,
        mutations: &[Mutation],
        durability: Durability,
        permit: Option<WritePermit<'_>>,
    ) -> Result<Position> {
        self.check_running()?;
        if self.phase() == Phase::Recovering {
            return Err(EngineError::Recovering);
        }
        mutations.iter().try_for_each(check_lengths)?;
        match mutations {
            [] => Ok(Position::ZERO),
            [only] => self.apply_one(only, durability, permit),
            many => self.apply_many(many, durability, permit),
        }
    }

    /// See [`Engine::apply_schema`](crate::Engine::apply_schema).
    pub fn apply_schema(
        self: &Arc<Self>,
        mutations: &[Mutation],
        is_schema: &dyn Fn(&TableMetadata) -> bool,
    ) -> Result<()> {
        self.check_running()?;
        if self.phase() == Phase::Recovering {
            return Err(EngineError::Recovering);
        }
        let journaled: Vec<&Mutation> = mutations
            .iter()
            .filter(|mutation| !mutation.update.is_empty() && is_schema(&mutation.table))
            .collect();
        let mut record = JournalRecord::new(&LogRecord::of_mutations(&journaled));
        if !journaled.is_empty() {
            self.journal.reserve(&record)?;
        }
        record.position = self.apply(mutations, Durability::Configured)?;
        if let Some(log) = &*self.log.load() {
            log.sync()?;
        }
        if journaled.is_empty() {
            return Ok(());
        }
        let tables: Vec<TableId> = record.table_ids().collect();
        if let Err(cause) = self.journal.append(record) {
            tracing::warn!(error = %cause, "cannot write the schema journal: flushing the schema instead");
            self.flushed_together.lock().pending.extend(tables);
            return self.flush_pending(Duration::ZERO).map_err(|_| EngineError::OnlyInLog { cause });
        }
        if let Err(error) = self.flush_together(&tables) {
            tracing::warn!(%error, "schema changes stay in the schema journal until their tables are flushed");
        }
        Ok(())
    }

    fn apply_one(
        self: &Arc<Self>,
        mutation: &Mutation,
        durability: Durability,
        permit: Option<WritePermit<'_>>,
    ) -> Result<Position> {
        if mutation.update.is_empty() {
            return Ok(Position::ZERO);
        }
        let started = self.clock.monotonic();
        let tables = self.tables.load();
        let table = Self::table_in(&tables, mutation.table.id)?;
        let bytes = size_of_update(&mutation.update);
        let mut permit = match permit {
            Some(permit) => permit,
            None => self.admit_to(std::iter::once(table), bytes)?,
        };
        permit.begin(bytes);
        // From here on the write must not be interrupted halfway.
        interrupt::shielded(|| self.write_one(mutation, table, durability, started))
    }

    /// Writes one mutation that has been admitted.
    fn write_one(
        self: &Arc<Self>,
        mutation: &Mutation,
        table: &Table,
        durability: Durability,
        started: Duration,
    ) -> Result<Position> {
        let mut position = Position::ZERO;
        let writing = table.begin_write()?;
        let view = table.view();
        if table.has_durable_writes() {
            let record = LogRecord { tables: vec![version_of(mutation)], mutations: vec![(0, mutation)] };
            position = self.append(&record, durability)?;
        } else {
            self.leave_unlogged(&view)?;
        }
        trace(|| format!("Adding to {} memtable", mutation.table.name));
        let update = [(&mutation.update, &*mutation.table)];
        let also = || self.apply_to_row_cache(table, &mutation.update.key, update.into_iter());
        let growth = view.memtable.apply_and(&mutation.update.key, update.into_iter(), also);
        self.memory.grow(growth);
        drop(view);
        drop(writing);
        table.metrics.write_latency.record_latency(self.clock.monotonic().saturating_sub(started));
        sample(table, &mutation.update);
        self.flush_if_wanted();
        Ok(position)
    }

    fn apply_many(
        self: &Arc<Self>,
        mutations: &[Mutation],
        durability: Durability,
        permit: Option<WritePermit<'_>>,
    ) -> Result<Position> {
        let started = self.clock.monotonic();
        // By table and key: locks are acquired in the order of tables, and the changes of a
        // partition are applied together. Index tables come last: a reader that finds an entry also
        // finds the row that was written with it.
        let key = |mutation: &Mutation| (mutation.table.index_of.is_some(), mutation.table.id);
        let mut order: Vec<&Mutation> =
            mutations.iter().filter(|mutation| !mutation.update.is_empty()).collect();
        order.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.update.key.cmp(&b.update.key)));
        let of_tables = || order.chunk_by(|a, b| a.table.id == b.table.id);
        let all = self.tables.load();
        let tables = of_tables().map(|of_table| Self::table_in(&all, of_table[0].table.id));
        let tables = tables.collect::<Result<Vec<&Arc<Table>>>>()?;
        if tables.is_empty() {
            return Ok(Position::ZERO);
        }
        let bytes = order.iter().map(|mutation| size_of_update(&mutation.update)).sum();
        let mut permit = match permit {
            Some(permit) => permit,
            None => self.admit_to(tables.iter().copied(), bytes)?,
        };
        permit.begin(bytes);
        interrupt::shielded(|| self.write_many(&order, &tables, durability, started))
    }

    /// Writes mutations that have been admitted, in the order of `tables` and of keys.
    fn write_many(
        self: &Arc<Self>,
        order: &[&Mutation],
        tables: &[&Arc<Table>],
        durability: Durability,
        started: Duration,
    ) -> Result<Position> {
        let mut position = Position::ZERO;
        let of_tables = order.chunk_by(|a, b| a.table.id == b.table.id);
        let writing = tables.iter().map(|table| table.begin_write()).collect::<Result<Vec<_>>>()?;
        // Decided once whether it is logged, since unlogged writes must be recorded in their
        // memtable.
        let part = |(mutations, table)| Part { table, mutations, is_logged: table.has_durable_writes() };
        let parts: Vec<Part<'_>> = of_tables.zip(tables.iter().map(|table| &***table)).map(part).collect();
        if parts.iter().any(|part| part.is_logged) {
            position = self.append(&LogRecord::of(&parts), durability)?;
        }
        for part in parts.iter().filter(|part| !part.is_logged) {
            self.leave_unlogged(&part.table.view())?;
        }

        let (mut growth, mut changed) = (0, 0);
        for part in &parts {
            let view = part.table.view();
            trace(|| format!("Adding to {} memtable", view.table.name));
            for same in part.partitions() {
                let key = &same[0].update.key;
                let updates = same.iter().map(|mutation| (&mutation.update, &*mutation.table));
                let also = || self.apply_to_row_cache(part.table, key, updates.clone());
                growth += view.memtable.apply_and(key, updates.clone(), also);
                same.iter().for_each(|mutation| sample(part.table, &mutation.update));
                changed += 1;
            }
        }
        // The changes of many partitions are one operation: each is attributed an equal share of
        // the time.
        let share = self.clock.monotonic().saturating_sub(started) / changed;
        for part in &parts {
            part.partitions().for_each(|_| part.table.metrics.write_latency.record_latency(share));
        }
        self.memory.grow(growth);
        drop(writing);
        self.flush_if_wanted();
        Ok(position)
    }

    /// Applies updates to the row cache, under the same lock as to the memtable.
    fn apply_to_row_cache<'a>(
        &self,
        table: &Table,
        key: &DecoratedKey,
        updates: impl Iterator<Item = (&'a PartitionUpdate, &'a TableMetadata)>,
    ) {
        // The current view: a reader that fills the cache from a later one reads the memtable after
        // this update.
        if self.row_cache.is_enabled() && self.row_cache.takes(&table.view().table) {
            self.row_cache.apply(table.id, key, updates);
        }
    }

    /// Writes to the memtable without logging. The caller holds `write_order` of the table: closing
    /// flushes after acquiring it.
    fn leave_unlogged(&self, view: &View) -> Result<()> {
        if self.phase() == Phase::Closed {
            return Err(EngineError::Closed);
        }
        view.memtable.note_unlogged();
        Ok(())
    }

    fn append(&self, record: &LogRecord<'_>, durability: Durability) -> Result<Position> {
        trace(|| "Appending to commitlog");
        let log = self.log.load();
        let Some(log) = &*log else { return Err(EngineError::Closed) };
        let appended = match durability {
            Durability::Configured => log.append(record),
            Durability::WithLater => log.append_ahead(record),
        };
        appended.map_err(|error| match error {
            AppendError::CdcFull { directory, used } => record.cdc_full(directory, used),
            error => error.into(),
        })
    }

    /// Wakes the flushing thread if memtables have grown too large; without threads, flushes.
    fn flush_if_wanted(self: &Arc<Self>) {
        if self.options.background_threads {
            if self.memory.wants_flush() {
                self.flush_wanted.raise();
            }
        } else if self.flush_wanted.take() || self.memory.wants_flush() {
            self.flush_what_is_due();
        }
    }
}

impl Table {
    /// Begins a write; its memtable remains the active one until the guard is dropped.
    fn begin_write(&self) -> Result<ShardedLockReadGuard<'_, ()>> {
        let guard = self.write_order.read();
        if self.is_dropped() { Err(EngineError::UnknownTable(self.id)) } else { Ok(guard) }
    }
}

/// Rejects lengths that SSTables do not support: every flush would fail.
fn check_lengths(mutation: &Mutation) -> Result<()> {
    let too_long = |length| EngineError::KeyTooLong { table: mutation.table.qualified_name(), length };
    let length = mutation.update.key.key().len();
    if length > MAX_KEY_LENGTH {
        return Err(too_long(length));
    }
    // The table of an index or a view has the values of several keys, which may be longer together.
    for row in &mutation.update.rows {
        if row.clustering().excessive_length().is_some()
            && let Some(value) =
                row.clustering().values().flatten().find(|value| value.len() > MAX_KEY_LENGTH)
        {
            return Err(too_long(value.len()));
        }
    }
    Ok(())
}

/// Returns the approximate size of an update in a memtable or in the commit log.
pub(crate) fn size_of_update(update: &PartitionUpdate) -> usize {
    let rows: usize = update.static_row.iter().chain(&update.rows).map(Row::heap_size).sum();
    update.key.key().len() + rows
}

/// Reports a change to the table's sampler, if it is enabled.
#[inline]
fn sample(table: &Table, update: &PartitionUpdate) {
    if table.metrics.sampler.is_on() {
        let bytes: usize = update.static_row.iter().chain(&update.rows).map(Row::data_size).sum();
        table.metrics.sampler.sample_write(update.key.key(), bytes as u64);
    }
}

fn version_of(mutation: &Mutation) -> TableVersion {
    TableVersion { table: mutation.table.id.0.as_u128(), schema: mutation.table.version }
}

/// The part of a write in one table.
struct Part<'a> {
    table: &'a Table,
    /// At least one, none of them empty, in the order of keys.
    mutations: &'a [&'a Mutation],
    is_logged: bool,
}

impl<'a> Part<'a> {
    /// Returns the mutations of each partition.
    fn partitions(&self) -> impl Iterator<Item = &'a [&'a Mutation]> {
        self.mutations.chunk_by(|a, b| a.update.key == b.update.key)
    }
}

/// The mutations of one `apply` as a record of the commit log.
struct LogRecord<'a> {
    tables: Vec<TableVersion>,
    /// Non-empty mutations, each with the index of its table in `tables`.
    mutations: Vec<(usize, &'a Mutation)>,
}

impl<'a> LogRecord<'a> {
    /// Returns the record of all logged parts.
    fn of(parts: &[Part<'a>]) -> Self {
        let mut record = LogRecord { tables: Vec::with_capacity(parts.len()), mutations: Vec::new() };
        record.mutations.reserve(parts.iter().map(|part| part.mutations.len()).sum());
        for part in parts.iter().filter(|part| part.is_logged) {
            // Several versions of a table occur only while it is being altered.
            let first = record.tables.len();
            part.mutations.iter().for_each(|mutation| record.add(first, mutation));
        }
        record
    }

    /// Returns the record of non-empty mutations of a few tables.
    fn of_mutations(mutations: &[&'a Mutation]) -> Self {
        let mut record = LogRecord { tables: Vec::new(), mutations: Vec::new() };
        mutations.iter().for_each(|mutation| record.add(0, mutation));
        record
    }

    /// Adds a mutation of one of the tables from `first` on, or of another.
    fn add(&mut self, first: usize, mutation: &'a Mutation) {
        let version = version_of(mutation);
        let place = match self.tables[first..].iter().position(|table| *table == version) {
            Some(place) => first + place,
            None => {
                self.tables.push(version);
                self.tables.len() - 1
            }
        };
        self.mutations.push((place, mutation));
    }
}

impl LogRecord<'_> {
    /// Returns the first captured table of the record.
    fn captured(&self) -> Option<&TableMetadata> {
        self.mutations.iter().map(|(_, mutation)| &*mutation.table).find(|table| table.params.cdc)
    }

    fn cdc_full(&self, directory: PathBuf, used: u64) -> EngineError {
        let keyspace = self.captured().map(|table| table.keyspace.clone()).unwrap_or_default();
        let error = EngineError::CdcFull { keyspace, directory, used };
        tracing::warn!("{error}");
        error
    }
}

impl Record for LogRecord<'_> {
    fn tables(&self) -> &[TableVersion] {
        &self.tables
    }

    fn encode_dictionary(&self, table: TableVersion, out: &mut Vec<u8>) {
        if let Some((_, mutation)) = self.mutations.iter().find(|(_, mutation)| version_of(mutation) == table)
        {
            mutation_codec::encode_dictionary(&mutation.table, out);
        }
    }

    fn is_captured(&self) -> bool {
        self.captured().is_some()
    }

    fn size_hint(&self) -> usize {
        self.mutations.iter().map(|(_, mutation)| size_of_update(&mutation.update)).sum()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for (place, mutation) in &self.mutations {
            mutation_codec::encode(*place, &mutation.update, out);
        }
    }
}
