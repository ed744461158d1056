//! Flushing: a memtable is written to an SSTable during concurrent writes.
//!
//! 1. Switch: with writers of the table locked out briefly, a new memtable replaces the old one,
//!    and the position of the log is recorded: the old one contains every record of the table
//!    before it, the new one all after.
//! 2. The old memtable is written to an SSTable, under a [`Transaction`].
//! 3. The view is replaced by one with the SSTable instead of the old memtable. Every read sees
//!    exactly one of them.
//! 4. The position is durably recorded in
//!    [`ReplayPositions`](crate::log::replay_positions::ReplayPositions).
//! 5. The log is notified that the table is clean up to there, and may remove segments.
//!
//! If any step fails the memtable remains in the view and is flushed again. A crash before the
//! commit of step 2 does not affect the log; after a later crash, records are replayed that the
//! SSTable contains, which changes nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::basics::error::{EngineError, Result};
use crate::basics::key_range::KeyRange;
use crate::log::commitlog::Position;
use crate::memory::memtable::{Memtable, MemtableScan};
use crate::store::compression::flush_compression;
use crate::store::contents::Contents;
use crate::store::core::{Core, Phase};
use crate::store::outputs::OutputSet;
use crate::store::table::{FrozenMemtable, Table};
use crate::store::transaction::OperationType;
use crate::strategies::cut::Cutter;
use cassette_rows::{Selection, TableId};

impl Core {
    /// Flushes all current memtables of the table.
    pub fn flush(self: &Arc<Self>, table: &Arc<Table>) -> Result<()> {
        let _alone = table.flush.lock();
        self.flush_alone(table)
    }

    /// [`flush`](Self::flush), with the table's flush lock held.
    pub fn flush_alone(self: &Arc<Self>, table: &Arc<Table>) -> Result<()> {
        self.switch(table);
        let flushed = self.flush_frozen(table);
        match &flushed {
            Ok(()) => *self.flush_failure.lock() = None,
            // Its rows are removed, so the SSTable is not needed.
            Err(_) if table.is_dropped() => {}
            Err(error) => {
                self.metrics.exceptions.add(1);
                tracing::error!(table = table.metadata().qualified_name(), %error, "a flush failed; it will \
                    be tried again");
            }
        }
        flushed
    }

    fn flush_frozen(self: &Arc<Self>, table: &Arc<Table>) -> Result<()> {
        table.check_flushes()?;
        loop {
            let Some(oldest) = table.view().flushing.first().cloned() else { return Ok(()) };
            self.write_out(table, &oldest)?;
        }
    }

    /// Replaces the active memtable by a new one, unless it is empty. The caller holds the table's
    /// flush lock.
    pub fn switch(&self, table: &Table) {
        let writers_held_out = table.write_order.write();
        let memtable = table.view().memtable.clone();
        let ends = self.log_position(table, memtable.begins);
        if !memtable.is_empty() {
            let bytes = memtable.heap_bytes();
            self.memory.begin_flush(bytes);
            table.rearrange_view(|view| {
                view.flushing.push(Arc::new(FrozenMemtable { memtable: memtable.clone(), ends, bytes }));
                view.memtable = Arc::new(Memtable::new(ends, self.clock.monotonic()));
            });
            return;
        }
        drop(writers_held_out);
        // Log records of the table between these positions have no effect.
        if let Some(log) = &*self.log.load() {
            log.mark_clean(table.id.0.as_u128(), memtable.begins, ends);
        }
    }

    /// Returns the end of the last log record of the table that a replay may skip once the memtable
    /// that begins at `begins` is flushed. Writers of the table are locked out.
    ///
    /// A record that was refused because the log failed is in no memtable, but replay may find it.
    /// It must be applied to all its tables or to none, so nothing logged since `begins` is
    /// skipped.
    fn log_position(&self, table: &Table, begins: Position) -> Position {
        match &*self.log.load() {
            Some(log) => log.usable_position().unwrap_or(begins),
            None => table.recovery.lock().position,
        }
    }

    fn write_out(self: &Arc<Self>, table: &Arc<Table>, frozen: &Arc<FrozenMemtable>) -> Result<()> {
        let _active = self.metrics.active_flushes.enter();
        let began = self.clock.monotonic();
        if let Some(log) = &*self.log.load() {
            // The log must be durable up to here before the SSTable is used; until then the disk
            // has time for it.
            log.begin_sync();
        }
        let metadata = table.metadata();
        // Data written to a column after it was dropped is kept, and is visible again when the
        // column is added again.
        let metadata = metadata.with_dropped_columns().map_or(metadata, Arc::new);
        let selection = Arc::new(Selection::all());
        let memtable = frozen.memtable.clone();
        let scan = MemtableScan::new(memtable, metadata.clone(), KeyRange::ALL.bounds(), selection);
        let mut scan = scan.of_whole_rows();
        let compression = flush_compression(&metadata.params.compression, self.options.flush_compression);
        let contents = Contents::of_memtable(&frozen.memtable);
        let outputs = OutputSet::begin(
            self,
            table,
            &metadata,
            OperationType::Flush,
            &compression,
            contents,
            Cutter::never(),
        )?;
        // Compactions use several processors by running concurrently; there are few flushes.
        let mut outputs = outputs.pipelined();
        let mut units = 0_u32;
        outputs.write(&mut scan, || {
            units = units.wrapping_add(1);
            if units.is_multiple_of(64) && table.is_dropped() { Err(EngineError::Cancelled) } else { Ok(()) }
        })?;
        if !outputs.is_empty()
            && let Some(log) = &*self.log.load()
            && let Err(error) = log.sync()
        {
            // A batch must not be durable in one table and lost in another. If the log has failed,
            // this SSTable is all that remains.
            tracing::error!(%error, "flushing although the commit log cannot be synced");
        }
        let written = outputs.publish(&[], |view| {
            view.flushing.retain(|other| !Arc::ptr_eq(other, frozen));
        })?;
        let written = written.iter().map(|sstable| sstable.bytes_on_disk).sum();
        for (flushes, bytes) in [
            (&table.metrics.flushes, &table.metrics.bytes_flushed),
            (&self.metrics.flushes, &self.metrics.bytes_flushed),
        ] {
            flushes.add(1);
            bytes.add(written);
        }
        self.metrics.flush_duration.record_latency(self.clock.monotonic().saturating_sub(began));
        self.mark_clean(table, frozen.memtable.begins, frozen.ends);
        self.memory.release(frozen.bytes);
        self.measure_compaction_debt(table);
        self.compaction_wanted.raise();
        Ok(())
    }

    /// Records that SSTables contain the table's log records up to `ends`, or that these are not
    /// needed.
    pub fn mark_clean(&self, table: &Table, begins: Position, ends: Position) {
        if table.recovery.lock().claiming {
            return;
        }
        if let Err(error) = self.positions.advance(table.id, ends) {
            tracing::error!(%error, "replay positions were not saved; the log keeps its segments until they are");
            return;
        }
        if let Some(log) = &*self.log.load() {
            log.mark_clean(table.id.0.as_u128(), begins, ends);
        }
    }

    /// Flushes what is due because of memory, the log's size or a table's flush period, and
    /// memtables whose flush failed.
    pub fn flush_what_is_due(self: &Arc<Self>) {
        self.flush_left_over();
        if let Err(error) = self.flush_pending(Duration::from_secs(1)) {
            *self.flush_failure.lock() = Some(Arc::new(error));
        }
        while self.memory.wants_flush() && !self.flush_wanted.is_stopped() {
            let mut tables: Vec<_> = self.tables.load().values().cloned().collect();
            let size = |table: &Arc<Table>| table.view().memtable.heap_bytes();
            tables.sort_by_cached_key(|table| std::cmp::Reverse(size(table)));
            // Another thread may be flushing the largest one. Then the next ones are flushed, too,
            // unless they are small: those would be flushed repeatedly until that is done, and free
            // almost nothing.
            let worth_it = tables.first().map_or(0, size) / 4;
            let mut large = tables.iter().filter(|table| size(table) > worth_it);
            if !large.any(|table| self.try_flush(table)) {
                break;
            }
        }
        let by_log = self.log.load().as_ref().map(|log| log.tables_to_flush()).unwrap_or_default();
        let now = self.clock.monotonic();
        for table in self.tables.load().values() {
            let view = table.view();
            let period = Duration::from_millis(u64::from(view.table.params.memtable_flush_period_in_ms));
            let by_period = !period.is_zero()
                && now.saturating_sub(view.memtable.created) >= period
                && !view.memtable.is_empty();
            drop(view);
            if (by_period || by_log.contains(&table.id.0.as_u128())) && !self.flush_wanted.is_stopped() {
                self.try_flush(table);
            }
        }
    }

    /// Flushes tables whose changes must not stay in the schema journal for long: immediately,
    /// unless such a flush took place within the last second or the engine was opened within it.
    /// Then the background thread flushes them after that second, and so does closing.
    pub fn flush_together(self: &Arc<Self>, ids: &[TableId]) -> Result<()> {
        self.flushed_together.lock().pending.extend(ids);
        self.flush_pending(Duration::from_secs(1))
    }

    /// Flushes the tables that wait for it, if the last such flush is at least `pause` ago, and
    /// removes their flushed changes from the schema journal. Those that fail wait again.
    pub fn flush_pending(self: &Arc<Self>, pause: Duration) -> Result<()> {
        let pending = {
            let mut together = self.flushed_together.lock();
            let now = self.clock.monotonic();
            if together.pending.is_empty() || now.saturating_sub(together.last) < pause {
                return Ok(());
            }
            together.last = now;
            std::mem::take(&mut together.pending)
        };
        let mut failure = None;
        for id in pending {
            // It may have been dropped since.
            let Ok(table) = self.table(id) else { continue };
            if let Err(error) = self.flush(&table)
                && !table.is_dropped()
            {
                self.flushed_together.lock().pending.insert(id);
                failure.get_or_insert(error);
            }
        }
        if let Err(error) = self.journal.retain(|record| self.is_needed(record)) {
            tracing::warn!(%error, "the schema journal keeps records longer than they are needed");
        }
        failure.map_or(Ok(()), Err)
    }

    /// Flushes memtables whose flush failed before.
    fn flush_left_over(self: &Arc<Self>) {
        for table in self.tables.load().values() {
            if !table.view().flushing.is_empty()
                && let Some(_alone) = table.flush.try_lock()
            {
                match self.flush_frozen(table) {
                    Ok(()) => *self.flush_failure.lock() = None,
                    Err(error) => self.flush_failed(table, error),
                }
            }
        }
    }

    /// Flushes the table unless another thread does. Returns whether that freed memory.
    fn try_flush(self: &Arc<Self>, table: &Arc<Table>) -> bool {
        let Some(_alone) = table.flush.try_lock() else { return false };
        match self.flush_alone(table) {
            Ok(()) => true,
            Err(error) => {
                self.flush_failed(table, error);
                false
            }
        }
    }

    /// Makes writes that wait for memory fail, unless the table was dropped: the drop releases its
    /// memory.
    fn flush_failed(&self, table: &Table, error: EngineError) {
        if !table.is_dropped() {
            *self.flush_failure.lock() = Some(Arc::new(error));
        }
    }

    /// Flushes the memtables with unlogged writes. Called when no more of them can be added.
    pub fn flush_unlogged(self: &Arc<Self>) -> Result<()> {
        let tables = self.tables.load();
        let unlogged = |table: &&Arc<Table>| table.view().memtables().any(|memtable| memtable.has_unlogged());
        tables.values().filter(unlogged).try_for_each(|table| self.flush(table))
    }

    /// See [`Engine::set_durable_writes`](crate::Engine::set_durable_writes).
    pub fn set_durable_writes(self: &Arc<Self>, id: TableId, durable: bool) -> Result<()> {
        let table = self.table(id)?;
        let before = {
            // A writer that used the previous setting has recorded an unlogged write by the time it
            // releases the lock.
            let _writers_held_out = table.write_order.write();
            let before = table.has_durable_writes();
            table.set_durable_writes(durable);
            before
        };
        if durable && !before && table.view().memtables().any(|memtable| memtable.has_unlogged()) {
            let flushed = self.flush(&table);
            if flushed.is_err() {
                table.set_durable_writes(before);
            }
            return flushed;
        }
        Ok(())
    }

    /// Flushes large memtables before closing; the log keeps the rest.
    pub fn flush_before_closing(self: &Arc<Self>) -> Result<()> {
        /// Replaying this much takes a few milliseconds, about as long as flushing it.
        const LEFT_TO_THE_LOG: usize = 1 << 20;
        debug_assert_ne!(self.phase(), Phase::Recovering);
        self.flush_pending(Duration::ZERO)?;
        for table in self.tables.load().values() {
            if table.view().memtable.heap_bytes() > LEFT_TO_THE_LOG || !table.view().flushing.is_empty() {
                self.flush(table)?;
            }
        }
        Ok(())
    }
}
