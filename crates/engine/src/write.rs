//! The way of a write: room, log, memtable.

use std::sync::Arc;
use std::time::Duration;

use cassette_rows::{DecoratedKey, PartitionUpdate, TableId, TableMetadata};
use parking_lot::RwLockReadGuard;

use crate::commitlog::{Record, TableVersion};
use crate::core::{Core, Phase};
use crate::engine::Mutation;
use crate::error::{EngineError, Result};
use crate::mutation_codec;
use crate::table::{Table, View};
use crate::trace::trace;

/// How long a writer waits for room before it looks whether there will be any.
const ROOM_CHECK: Duration = Duration::from_millis(50);

impl Core {
    /// See [`Engine::apply`](crate::Engine::apply).
    pub fn apply(self: &Arc<Self>, mutations: &[Mutation]) -> Result<()> {
        self.check_running()?;
        if self.phase() == Phase::Recovering {
            return Err(EngineError::Recovering);
        }
        self.wait_for_room()?;
        match mutations {
            [] => Ok(()),
            [only] => self.apply_one(only),
            many => self.apply_many(many),
        }
    }

    fn apply_one(self: &Arc<Self>, mutation: &Mutation) -> Result<()> {
        if mutation.update.is_empty() {
            return Ok(());
        }
        let started = self.clock.monotonic();
        let table = self.table(mutation.table.id)?;
        self.wait_for_compactions(&table)?;
        let writing = table.begin_write()?;
        let view = table.view();
        if table.has_durable_writes() {
            let tables = [version_of(mutation)];
            let mutations = std::slice::from_ref(mutation);
            self.append(&LogRecord { tables: &tables, mutations, places: &[Some(0)] })?;
        } else {
            self.leave_unlogged(&view)?;
        }
        trace(|| format!("Adding to {} memtable", mutation.table.name));
        let update = [(&mutation.update, &*mutation.table)];
        let also = || self.apply_to_row_cache(&table, &mutation.update.key, update.into_iter());
        let growth = view.memtable.apply_and(&mutation.update.key, update.into_iter(), also);
        drop(view);
        drop(writing);
        table.metrics.write_latency.record_latency(self.clock.monotonic().saturating_sub(started));
        sample(&table, &mutation.update);
        self.grown(growth);
        Ok(())
    }

    fn apply_many(self: &Arc<Self>, mutations: &[Mutation]) -> Result<()> {
        let started = self.clock.monotonic();
        // By table and key: locks are taken in the order of tables, and a partition's changes made together. The tables of
        // indexes come last: whoever finds an entry there finds the row that it was written with, too.
        let key = |i: usize| -> (bool, TableId, &DecoratedKey) {
            let mutation = &mutations[i];
            (mutation.table.index_of.is_some(), mutation.table.id, &mutation.update.key)
        };
        let mut order: Vec<usize> =
            (0..mutations.len()).filter(|i| !mutations[*i].update.is_empty()).collect();
        order.sort_by(|a, b| key(*a).cmp(&key(*b)));
        if order.is_empty() {
            return Ok(());
        }
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for i in &order {
            if tables.last().is_none_or(|table| table.id != key(*i).1) {
                tables.push(self.table(key(*i).1)?);
            }
        }
        tables.iter().try_for_each(|table| self.wait_for_compactions(table))?;
        let writing = tables.iter().map(|table| table.begin_write()).collect::<Result<Vec<_>>>()?;
        let is_durable = |id: TableId| {
            let table = tables.iter().find(|table| table.id == id);
            table.is_some_and(|table| table.has_durable_writes())
        };
        // Decided once: what is not logged must be noted in its memtable.
        let logged: Vec<usize> = order.iter().copied().filter(|i| is_durable(key(*i).1)).collect();
        if !logged.is_empty() {
            self.append_many(mutations, &logged)?;
        }
        if logged.len() < order.len() {
            for table in &tables {
                if order.iter().any(|i| key(*i).1 == table.id && !logged.contains(i)) {
                    self.leave_unlogged(&table.view())?;
                }
            }
        }

        let mut growth = 0;
        let mut changed = vec![0u32; tables.len()];
        let mut rest = &order[..];
        for (table, changed) in tables.iter().zip(&mut changed) {
            let view = table.view();
            trace(|| format!("Adding to {} memtable", view.table.name));
            while let Some(first) = rest.first().filter(|first| key(**first).1 == table.id) {
                let same = rest.iter().take_while(|i| key(**i) == key(*first)).count();
                let updates = rest[..same].iter().map(|i| (&mutations[*i].update, &*mutations[*i].table));
                let also = || self.apply_to_row_cache(table, key(*first).2, updates.clone());
                growth += view.memtable.apply_and(key(*first).2, updates.clone(), also);
                rest[..same].iter().for_each(|i| sample(table, &mutations[*i].update));
                rest = &rest[same..];
                *changed += 1;
            }
        }
        drop(writing);
        // The changes of many partitions are made as one: each took its share.
        let share = self.clock.monotonic().saturating_sub(started) / changed.iter().sum::<u32>().max(1);
        for (table, changed) in tables.iter().zip(changed) {
            (0..changed).for_each(|_| table.metrics.write_latency.record_latency(share));
        }
        self.grown(growth);
        Ok(())
    }

    /// Does to the row cache what is done to a memtable, under the same lock.
    fn apply_to_row_cache<'a>(
        &self,
        table: &Table,
        key: &DecoratedKey,
        updates: impl Iterator<Item = (&'a PartitionUpdate, &'a TableMetadata)>,
    ) {
        // The view of now: whoever reads into the cache with a later one reads what is in the memtable by then.
        if self.row_cache.is_enabled() && self.row_cache.takes(&table.view().table) {
            self.row_cache.apply(table.id, key, updates);
        }
    }

    /// Lets a write go to the memtable alone. Its table's `write_order` is held: closing flushes once nobody holds it.
    fn leave_unlogged(&self, view: &View) -> Result<()> {
        if self.phase() == Phase::Closed {
            return Err(EngineError::Closed);
        }
        view.memtable.note_unlogged();
        Ok(())
    }

    fn append_many(&self, mutations: &[Mutation], order: &[usize]) -> Result<()> {
        let mut tables: Vec<TableVersion> = Vec::new();
        let mut places = vec![None; mutations.len()];
        for i in order {
            let version = version_of(&mutations[*i]);
            let place = match tables.iter().position(|table| *table == version) {
                Some(place) => place,
                None => {
                    tables.push(version);
                    tables.len() - 1
                }
            };
            places[*i] = Some(place);
        }
        self.append(&LogRecord { tables: &tables, mutations, places: &places })
    }

    fn append(&self, record: &LogRecord<'_>) -> Result<()> {
        trace(|| "Appending to commitlog");
        let log = self.log.load();
        let Some(log) = &*log else { return Err(EngineError::Closed) };
        log.append(record).map(drop).map_err(EngineError::from)
    }

    /// Holds a writer up while memtables hold all the memory they may, and refuses it when none will become free.
    fn wait_for_room(self: &Arc<Self>) -> Result<()> {
        if self.memory.is_full() {
            self.metrics.writes_held_up.add(1);
        }
        while self.memory.is_full() {
            if self.options.background_threads {
                self.flush_wanted.raise();
            } else {
                self.flush_what_is_due();
            }
            if let Some(cause) = self.flush_failure.lock().clone() {
                return Err(EngineError::MemtablesFull { limit: self.options.memtable_heap_space, cause });
            }
            if !self.options.background_threads {
                return Ok(());
            }
            self.memory.wait_for_room(ROOM_CHECK);
            self.check_running()?;
        }
        Ok(())
    }

    fn grown(self: &Arc<Self>, growth: isize) {
        self.memory.grow(growth);
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
    /// Lets a write begin; its memtable stays the one to write to until the guard is dropped.
    fn begin_write(&self) -> Result<RwLockReadGuard<'_, ()>> {
        let guard = self.write_order.read();
        if self.is_dropped() { Err(EngineError::UnknownTable(self.id)) } else { Ok(guard) }
    }
}

/// Tells the table's sampler of a change, if somebody asks.
#[inline]
fn sample(table: &Table, update: &PartitionUpdate) {
    if table.metrics.sampler.is_on() {
        let bytes: usize =
            update.static_row.iter().chain(&update.rows).map(cassette_rows::Row::data_size).sum();
        table.metrics.sampler.sample_write(update.key.key(), bytes as u64);
    }
}

fn version_of(mutation: &Mutation) -> TableVersion {
    TableVersion { table: mutation.table.id.0.as_u128(), schema: mutation.table.version }
}

/// The mutations of one `apply` as a record of the commit log.
struct LogRecord<'a> {
    tables: &'a [TableVersion],
    mutations: &'a [Mutation],
    /// Of each mutation, the place of its table in `tables`; `None` for those that are not logged.
    places: &'a [Option<usize>],
}

impl LogRecord<'_> {
    fn updates(&self) -> impl Iterator<Item = (usize, &PartitionUpdate)> {
        let both = self.places.iter().zip(self.mutations);
        both.filter_map(|(place, mutation)| Some(((*place)?, &mutation.update)))
            .filter(|(_, update)| !update.is_empty())
    }
}

impl Record for LogRecord<'_> {
    fn tables(&self) -> &[TableVersion] {
        self.tables
    }

    fn encode_dictionary(&self, table: TableVersion, out: &mut Vec<u8>) {
        if let Some(mutation) = self.mutations.iter().find(|mutation| version_of(mutation) == table) {
            mutation_codec::encode_dictionary(&mutation.table, out);
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for (place, update) in self.updates() {
            mutation_codec::encode(place, update, out);
        }
    }
}
