//! The throughput of a compaction, and the conditions for stopping it.

use std::sync::atomic::Ordering;

use crate::basics::error::{EngineError, Result};
use crate::store::core::Core;
use crate::store::progress::Running;
use crate::store::table::Table;

/// The priority of a compaction relative to requests and other compactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Priority {
    /// Whether it stops when compactions are paused.
    pub yields: bool,
    /// Whether it is limited to the throughput of low-priority compactions, too.
    pub is_low: bool,
}

/// Limits the throughput of a compaction, and stops it.
pub(super) struct Pace<'a> {
    core: &'a Core,
    table: &'a Table,
    running: &'a Running,
    priority: Priority,
    units: u32,
    /// Bytes on disk that the throttle has counted.
    taken: u64,
}

impl<'a> Pace<'a> {
    pub fn new(core: &'a Core, table: &'a Table, running: &'a Running, priority: Priority) -> Self {
        Self { core, table, running, priority, units: 0, taken: 0 }
    }

    /// Called at each partition, row and marker.
    ///
    /// # Errors
    /// [`EngineError::Cancelled`] if the table was dropped, the engine stops, or compactions are
    /// paused; [`EngineError::CompactionStopped`] if an operator has stopped this one.
    #[inline]
    pub fn step(&mut self) -> Result<()> {
        self.units += 1;
        if self.units.is_multiple_of(64) { self.check() } else { Ok(()) }
    }

    fn gives_up(&self) -> bool {
        let yields = self.priority.yields && self.table.compactions_yield.load(Ordering::Relaxed);
        yields || self.core.compaction_wanted.is_stopped() || self.table.is_dropped()
    }

    fn check(&mut self) -> Result<()> {
        if self.table.is_dropped() {
            return Err(EngineError::Cancelled);
        }
        let read = self.running.disk_bytes.load(Ordering::Relaxed);
        let stops = || self.running.is_stopped() || self.gives_up();
        self.core.throttle.take(read - self.taken, stops);
        if self.priority.is_low {
            self.core.low_priority_throttle.take(read - self.taken, stops);
        }
        if self.gives_up() {
            return Err(EngineError::Cancelled);
        }
        self.taken = read;
        if self.running.is_stopped() {
            return Err(EngineError::CompactionStopped { table: self.table.metadata().qualified_name() });
        }
        Ok(())
    }
}
