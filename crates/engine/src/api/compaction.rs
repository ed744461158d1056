//! Flushes and compactions.

use std::sync::Arc;

use cassette_rows::TableId;
use cassette_sstable::SSTableId;
use uuid::Uuid;

use super::Engine;
use crate::basics::error::{EngineError, Result};
use crate::basics::mutation::{Durability, Mutation};
use crate::basics::options::OverlappingTombstones;
use crate::compaction::Upgraded;
use crate::store::overlapping::OverlapMetrics;
use crate::store::progress::{CompactionKind, CompactionTotals, CompletedCompaction, RunningCompaction};
use crate::store::throttle::low_priority_rate;

impl Engine {
    /// Writes the memtables of a table, or of all tables, to SSTables.
    pub fn flush(&self, id: Option<TableId>) -> Result<()> {
        let core = &self.inner.core;
        core.check_running()?;
        match id {
            Some(id) => core.flush(&core.table(id)?),
            None => core.tables.load().values().try_for_each(|table| core.flush(table)),
        }
    }

    /// Compacts all SSTables of a table as its strategy does for a major compaction: into one, into
    /// levels, or into shards. Does not flush memtables.
    pub fn compact(&self, id: TableId) -> Result<()> {
        let core = &self.inner.core;
        core.compact(&core.table(id)?, false)
    }

    /// Compacts as [`compact`](Self::compact) does; a size-tiered strategy writes SSTables of a
    /// half, a quarter and so on.
    pub fn compact_split(&self, id: TableId) -> Result<()> {
        let core = &self.inner.core;
        core.compact(&core.table(id)?, true)
    }

    /// Compacts some SSTables of a table together.
    pub fn compact_sstables(&self, id: TableId, sstables: &[SSTableId]) -> Result<()> {
        let core = &self.inner.core;
        core.compact_sstables(&core.table(id)?, sstables)
    }

    /// Rewrites each SSTable of a table separately, with the table's current options.
    pub fn upgrade_sstables(&self, id: TableId) -> Result<()> {
        let core = &self.inner.core;
        core.upgrade_sstables(&core.table(id)?, Upgraded::All)
    }

    /// Rewrites the SSTables of a table whose version is not `nb`, which the engine writes.
    pub fn upgrade_other_versions(&self, id: TableId) -> Result<()> {
        let core = &self.inner.core;
        core.upgrade_sstables(&core.table(id)?, Upgraded::OtherVersions)
    }

    /// Rewrites each SSTable of a table separately, the oldest first, without the data that newer
    /// ones shadow; see [`OverlappingTombstones`].
    pub fn garbage_collect(&self, id: TableId, by: OverlappingTombstones) -> Result<()> {
        let core = &self.inner.core;
        core.garbage_collect(&core.table(id)?, by)
    }

    /// Sets whether compactions of a table start automatically, until the next start. Running ones
    /// continue.
    pub fn set_autocompaction(&self, id: TableId, on: bool) -> Result<()> {
        let core = &self.inner.core;
        core.set_autocompaction(&*core.table(id)?, on);
        Ok(())
    }

    /// Returns the running compactions.
    pub fn running_compactions(&self) -> Vec<RunningCompaction> {
        self.inner.core.operations.running()
    }

    /// Returns the last thousand compactions that completed since the start, the oldest first.
    pub fn compaction_history(&self) -> Vec<CompletedCompaction> {
        self.inner.core.operations.history()
    }

    /// Returns the totals of all compactions since the start.
    pub fn compaction_totals(&self) -> CompactionTotals {
        self.inner.core.operations.totals()
    }

    /// Returns the metrics of checking overlapping SSTables during compactions, since the start.
    pub fn overlap_metrics(&self) -> OverlapMetrics {
        self.inner.core.operations.overlapping.metrics()
    }

    /// Applies the mutation that `note` returns for each compaction that completes from now on, in
    /// the thread that ran it. A failure is logged, and not retried.
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

    /// Stops the running compactions of a kind, or of all kinds for `None`; returns their number.
    pub fn stop_compactions(&self, kind: Option<CompactionKind>) -> usize {
        self.inner.core.operations.stop(|running| kind.is_none_or(|kind| kind == running.kind))
    }

    /// Stops the running compaction with this id; returns whether there is one.
    pub fn stop_compaction(&self, id: Uuid) -> bool {
        self.inner.core.operations.stop(|running| running.id == id) > 0
    }

    /// `compaction_throughput`: bytes per second that all compactions together may read from disk;
    /// 0 for no limit.
    pub fn compaction_throughput(&self) -> u64 {
        self.inner.core.throttle.rate()
    }

    /// Sets `compaction_throughput` until the next start, for running compactions too.
    pub fn set_compaction_throughput(&self, bytes_a_second: u64) {
        let core = &self.inner.core;
        core.throttle.set_rate(bytes_a_second);
        core.low_priority_throttle.set_rate(low_priority_rate(bytes_a_second));
    }

    /// `concurrent_compactors`: threads that compact.
    pub fn concurrent_compactors(&self) -> usize {
        self.inner.background.compactors()
    }

    /// Sets `concurrent_compactors` until the next start. Running compactions continue to their
    /// end.
    pub fn set_concurrent_compactors(&self, count: usize) -> Result<()> {
        self.inner.background.set_compactors(count).map_err(EngineError::Thread)
    }

    /// Runs the compactions that the strategies choose, in the calling thread, until there are
    /// none.
    pub fn run_pending_compactions(&self) {
        self.inner.core.compact_what_is_due();
    }
}
