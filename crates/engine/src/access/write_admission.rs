//! Admission of a write: compaction debt, memory and the commit log, in this order.
//!
//! A write that waits here can be interrupted, since nothing of it has been written. The wait may
//! be long, so its caller must hold no lock that others need: [`Core::try_admit`] admits a write
//! that need not wait, also under locks, and otherwise returns a demand, which the caller passes to
//! [`Core::admit`] after it has released its locks.

use std::sync::Arc;

use cassette_rows::{TableId, interrupt};

use crate::access::write::size_of_update;
use crate::basics::error::{EngineError, Result};
use crate::basics::mutation::Mutation;
use crate::memory::admission::LARGE;
use crate::memory::pool::WritePermit;
use crate::store::core::Core;
use crate::store::table::Table;

/// The resources that a write needs for its admission.
#[derive(Debug)]
pub struct WriteDemand {
    /// Tables whose compaction debt can stall the write.
    tables: Vec<TableId>,
    /// Its approximate size in memtables or in the commit log.
    bytes: usize,
}

impl Core {
    /// See [`Engine::try_admit`](crate::Engine::try_admit).
    pub fn try_admit<'a>(
        &'a self,
        mutations: &[Mutation],
        permit: Option<WritePermit<'a>>,
    ) -> Result<WritePermit<'a>, WriteDemand> {
        let bytes = mutations.iter().map(|mutation| size_of_update(&mutation.update)).sum();
        if let Some(permit) = permit.filter(|permit| permit.covers(bytes)) {
            return Ok(permit);
        }
        let tables = self.tables.load();
        // The write reports a table that was dropped.
        let mut known = mutations.iter().filter_map(|mutation| tables.get(&mutation.table.id));
        let is_ready = known.all(|table| self.accepts_writes(table)) && self.is_log_ready(bytes);
        let permit = is_ready.then(|| self.try_admit_bytes(bytes)).flatten();
        permit.ok_or_else(|| {
            let mut tables: Vec<TableId> = mutations.iter().map(|mutation| mutation.table.id).collect();
            tables.sort_unstable();
            tables.dedup();
            WriteDemand { tables, bytes }
        })
    }

    fn is_log_ready(&self, bytes: usize) -> bool {
        bytes < LARGE || self.log.load().as_ref().is_none_or(|log| !log.would_await_room(bytes))
    }

    fn try_admit_bytes(&self, bytes: usize) -> Option<WritePermit<'_>> {
        if self.options.background_threads {
            self.memory.try_admit(bytes)
        } else {
            (!self.memory.is_full()).then(|| self.memory.uncounted_permit())
        }
    }

    /// See [`Engine::admit`](crate::Engine::admit).
    pub fn admit(self: &Arc<Self>, demand: &WriteDemand) -> Result<WritePermit<'_>> {
        self.check_running()?;
        let tables = self.tables.load();
        self.admit_to(demand.tables.iter().filter_map(|table| tables.get(table)), demand.bytes)
    }

    /// Stalls a write of about `bytes` to `tables` until their debt allows it, memory is available
    /// in its turn, and the commit log is ready. The caller holds no lock of a table.
    ///
    /// # Errors
    /// Interrupted, if the request of this thread is; MemtablesFull and CompactionDebt, if waiting
    /// is pointless.
    pub fn admit_to<'t>(
        self: &Arc<Self>,
        mut tables: impl Iterator<Item = &'t Arc<Table>>,
        bytes: usize,
    ) -> Result<WritePermit<'_>> {
        tables.try_for_each(|table| self.wait_for_compactions(table))?;
        if !self.options.background_threads {
            if self.memory.is_full() {
                self.metrics.writes_stalled.add(1);
                // There is no background thread. The flush does not belong to the request, so its
                // deadline does not apply.
                interrupt::shielded(|| self.flush_what_is_due());
                if let Some(cause) = self.flush_failure.lock().clone() {
                    return Err(self.memtables_full(cause));
                }
            }
            return Ok(self.memory.uncounted_permit());
        }
        let mut is_held_up = false;
        let permit = self.memory.admit(bytes, || {
            if !std::mem::replace(&mut is_held_up, true) {
                self.metrics.writes_stalled.add(1);
            }
            self.check_running()?;
            if self.memory.is_short() {
                self.flush_wanted.raise();
                if let Some(cause) = self.flush_failure.lock().clone() {
                    return Err(self.memtables_full(cause));
                }
            }
            Ok(())
        })?;
        if bytes >= LARGE
            && let Some(log) = &*self.log.load()
        {
            log.await_room(bytes)?;
        }
        Ok(permit)
    }

    fn memtables_full(&self, cause: Arc<EngineError>) -> EngineError {
        EngineError::MemtablesFull { limit: self.options.memtable_heap_space, cause }
    }
}
