//! Execution of a compaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cassette_rows::merge::shadow::ShadowingStream;
use cassette_rows::purge::PurgingStream;
use cassette_rows::{PartitionStream, StorageError, TableMetadata};
use cassette_sstable::SSTableId;
use hashbrown::HashSet;
use parking_lot::MutexGuard;

use super::inputs;
use super::overlap::IfShadowed;
use super::pace::{Pace, Priority};
use super::purge::{self, Purge};
use super::shadow::{Plan, Sources};
use crate::basics::error::{EngineError, Result};
use crate::basics::options::OverlappingTombstones;
use crate::store::contents::Contents;
use crate::store::core::Core;
use crate::store::outputs::OutputSet;
use crate::store::progress::CompactionKind;
use crate::store::sstable_handle::SSTable;
use crate::store::table::{Table, View};
use crate::store::transaction::OperationType;
use crate::strategies::cut::Cutter;
use crate::strategies::options::CompactionOptions;
use crate::strategies::tree::Outcome;

/// SSTables that one compaction uses exclusively until this is dropped.
pub(super) struct Inputs {
    table: Arc<Table>,
    pub sstables: Vec<Arc<SSTable>>,
}

impl Inputs {
    /// Marks SSTables as being compacted. Called with the table's compaction lock held through
    /// `compacting`.
    pub fn mark(
        table: &Arc<Table>,
        sstables: Vec<Arc<SSTable>>,
        compacting: &mut HashSet<SSTableId>,
    ) -> Self {
        compacting.extend(sstables.iter().map(|sstable| sstable.id()));
        Self { table: table.clone(), sstables }
    }
}

impl Drop for Inputs {
    fn drop(&mut self) {
        let mut state = self.table.compaction.lock();
        for sstable in &self.sstables {
            state.compacting.remove(&sstable.id());
        }
        drop(state);
        self.table.compaction_ended.notify_all();
    }
}

/// Prevents compactions of the table, except by its holder, until it is dropped.
pub(crate) struct Pause<'a> {
    table: &'a Table,
    /// Another holder could compact what this one removes, and restore it.
    _only: MutexGuard<'a, ()>,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.table.compaction.lock().paused = false;
        self.table.compactions_yield.store(false, Ordering::Relaxed);
    }
}

/// A compaction to execute.
pub(super) struct Work {
    pub inputs: Inputs,
    pub outcome: Outcome,
    pub kind: CompactionKind,
    /// The data of overlapping SSTables that may remove data, if a command specifies it.
    pub shadowed_by: Option<OverlappingTombstones>,
    /// If set, the only input is compacted if newer SSTables shadow a share of it, and otherwise
    /// not changed.
    pub if_shadowed: Option<IfShadowed>,
    /// Whether it stops when compactions are paused.
    pub yields: bool,
}

impl Core {
    /// Waits for other holders of a pause, such as commands that compact, stops the table's running
    /// compactions, and waits for them to end.
    pub fn pause_compactions<'a>(&self, table: &'a Table) -> Pause<'a> {
        let only = table.compaction_pause.lock();
        let mut state = table.compaction.lock();
        state.paused = true;
        table.compactions_yield.store(true, Ordering::Relaxed);
        while !state.compacting.is_empty() {
            table.compaction_ended.wait(&mut state);
        }
        drop(state);
        Pause { table, _only: only }
    }

    /// Executes a compaction. After an error the inputs are unchanged.
    pub(super) fn run_compaction(self: &Arc<Self>, table: &Arc<Table>, work: &Work) -> Result<()> {
        let _active = self.metrics.active_compactions.enter();
        match (&work.if_shadowed, &work.inputs.sstables[..]) {
            (Some(asked), [sstable]) => self.compact_if_shadowed(table, work, asked, sstable),
            _ => self.carry_out(table, work).map(drop),
        }
    }

    /// Executes it whether or not anything is shadowed. Returns the ids of the outputs.
    pub(super) fn carry_out(self: &Arc<Self>, table: &Arc<Table>, work: &Work) -> Result<HashSet<SSTableId>> {
        match work.outcome {
            Outcome::Relabeled { level } => {
                self.relabel(table, &work.inputs, level).map(|()| HashSet::default())
            }
            Outcome::Merged { level, ref cut } => {
                let outputs = self.merge(table, work, Cutter::new(level, cut.clone()))?;
                work.inputs.sstables.iter().for_each(|sstable| sstable.reader.drop_from_page_cache());
                Ok(outputs)
            }
        }
    }

    /// Changes the level of the only input.
    fn relabel(&self, table: &Table, inputs: &Inputs, level: u32) -> Result<()> {
        for sstable in &inputs.sstables {
            let from = sstable.level();
            sstable.set_level(level)?;
            let mut state = table.compaction.lock();
            state.strategy.leveled.compacted(from as usize, sstable.tokens().0);
        }
        Ok(())
    }

    /// Writes the merged inputs. Returns the ids of the outputs.
    fn merge(
        self: &Arc<Self>,
        table: &Arc<Table>,
        work: &Work,
        cutter: Cutter,
    ) -> Result<HashSet<SSTableId>> {
        let view = table.view();
        let metadata = view.table.clone();
        let options = CompactionOptions::parse(&metadata.params.compaction).unwrap_or_default();
        let began = self.clock.monotonic();
        let now = self.now_seconds();
        // A split purges nothing.
        let is_split = work.kind == CompactionKind::Split;
        let gc_before = if is_split { 0 } else { gc_before(&options, &metadata, now) };
        let ids: HashSet<_> = work.inputs.sstables.iter().map(|sstable| sstable.id()).collect();
        let (current, read) = current_inputs(&view, &ids, gc_before, options.ignores_overlaps());
        drop(view);
        let expired = current.len() - read.len();
        let bytes_in: u64 = read.iter().map(|sstable| sstable.reader.data_bytes_on_disk()).sum();
        self.check_space(table, &read)?;

        let total = read.iter().map(|sstable| sstable.reader.uncompressed_bytes()).sum();
        let registered = self.operations.begin(
            self.time_uuid(),
            work.kind,
            metadata.clone(),
            &table.directory,
            (current.len(), total),
        );
        let (read, metadata) = with_dropped_columns(read, metadata)?;
        let (stream, merged) = inputs::merged(&read, &metadata, &registered.running)?;
        let mut plan = Plan::new(&options, &self.options.overlapping);
        if let Some(by) = work.shadowed_by {
            plan = Plan { by, max_sources: 0, ..plan };
        }
        let sources = Sources::new(&table.view(), &ids, &read, plan, &self.operations.overlapping);
        let stream = with_overlapping(Box::new(stream), plan, sources, &metadata);
        let policy = Purge::new(table.clone(), ids, &read, gc_before);
        let mut stream =
            PurgingStream::new(stream, policy, now).with_strict_liveness(metadata.strict_liveness);
        let removed: Vec<_> = current.iter().map(|sstable| sstable.reader.descriptor().clone()).collect();
        let outputs = OutputSet::begin(
            self,
            table,
            &metadata,
            OperationType::Compaction,
            &metadata.params.compression,
            Contents::of_sstables(&read, &metadata),
            cutter,
        )?;
        let mut outputs = outputs.match_page_cache_of(&read).migrate_keys_of(&current);
        let is_low = work.if_shadowed.is_some() && self.options.concurrent_compactors > 1;
        let priority = Priority { yields: work.yields, is_low };
        let mut pace = Pace::new(self, table, &registered.running, priority);
        let written = outputs.write(&mut stream, || pace.step());
        written.inspect_err(|error| suspect_inputs(&read, error))?;
        let written = outputs.publish(&removed, |view| view.purges += 1)?;
        drop(stream);
        let from = current.iter().map(|sstable| sstable.level()).min().unwrap_or(0);
        if let Some(last) = written.last() {
            let mut state = table.compaction.lock();
            state.strategy.leveled.compacted(from as usize, last.first_key.token().0);
        }
        let bytes_written = written.iter().map(|sstable| sstable.bytes_on_disk).sum();
        let bytes_out = written.iter().map(|sstable| sstable.data_bytes_on_disk).sum();
        self.count_compaction(table, began, bytes_written);
        let merged = std::mem::take(&mut *merged.lock());
        let completed = registered.ended(self.clock.now_micros() / 1000, (bytes_in, bytes_out), merged);
        self.operations.report(&completed);
        tracing::debug!(
            table = metadata.qualified_name(),
            inputs = current.len(),
            expired,
            outputs = written.len(),
            written = bytes_out,
            "compacted"
        );
        Ok(written.iter().map(|sstable| sstable.descriptor.id).collect())
    }

    /// Adds a compaction to the metrics.
    fn count_compaction(&self, table: &Table, began: Duration, bytes_written: u64) {
        table.metrics.compactions.add(1);
        table.metrics.bytes_compacted.add(bytes_written);
        self.metrics.compaction_duration.record_latency(self.clock.monotonic().saturating_sub(began));
        self.metrics.compactions.add(1);
        self.metrics.bytes_compacted.add(bytes_written);
    }

    /// Checks the disk space: the output is at most as large as the inputs, and these are kept
    /// until it is complete.
    fn check_space(&self, table: &Table, read: &[Arc<SSTable>]) -> Result<()> {
        let needed = read.iter().map(|sstable| sstable.reader.bytes_on_disk()).sum();
        match self.fs.available_space(&table.directory) {
            Ok(available) if available < needed => {
                let table = table.metadata().qualified_name();
                Err(EngineError::NoSpaceToCompact { table, needed, available })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the handles of all inputs in `view`, and of those that are not entirely expired. Earlier
/// handles may read for an older version of the table.
fn current_inputs(
    view: &View,
    ids: &HashSet<SSTableId>,
    gc_before: u32,
    ignores_overlaps: bool,
) -> (Vec<Arc<SSTable>>, Vec<Arc<SSTable>>) {
    let is_input = |sstable: &&Arc<SSTable>| ids.contains(&sstable.id());
    let current: Vec<_> = view.sstables.iter().filter(is_input).cloned().collect();
    let expired = purge::expired(view, &current, gc_before, ignores_overlaps);
    let is_expired = |sstable: &Arc<SSTable>| expired.iter().any(|other| other.id() == sstable.id());
    let read = current.iter().filter(|sstable| !is_expired(sstable)).cloned().collect();
    (current, read)
}

/// Returns the time in seconds before which tombstones may be purged; 0 for none.
fn gc_before(options: &CompactionOptions, table: &TableMetadata, now: u32) -> u32 {
    if options.only_purge_repaired_tombstones {
        return 0;
    }
    now.saturating_sub(table.params.gc_grace_seconds)
}

/// Returns `stream` without what the sources shadow, as far as `plan` provides for it.
fn with_overlapping(
    stream: Box<dyn PartitionStream>,
    plan: Plan,
    sources: Sources,
    table: &Arc<TableMetadata>,
) -> Box<dyn PartitionStream> {
    match plan.shadowed_by() {
        Some(by) if !sources.is_empty() => Box::new(ShadowingStream::new(stream, sources, by, table.clone())),
        _ => stream,
    }
}

/// Marks all inputs as suspect after an error that means that rows of one of them cannot be
/// written: it is unknown which, and otherwise they would be compacted repeatedly until the next
/// start. An SSTable that cannot be read has marked itself, and no other.
fn suspect_inputs(inputs: &[Arc<SSTable>], error: &EngineError) {
    if let EngineError::Storage(StorageError::Unwritable { .. }) = error {
        inputs.iter().for_each(|sstable| sstable.mark_suspect());
    }
}

/// If some SSTables have dropped columns, returns the SSTables with a schema that includes these
/// columns: data written to such a column after it was dropped is kept, and is visible again when a
/// column of its name is added.
fn with_dropped_columns(
    sstables: Vec<Arc<SSTable>>,
    table: Arc<TableMetadata>,
) -> Result<(Vec<Arc<SSTable>>, Arc<TableMetadata>)> {
    let has_dropped = |sstable: &Arc<SSTable>| {
        let header = sstable.reader.header();
        let mut columns = header.static_columns.iter().chain(&header.regular_columns);
        columns.any(|column| table.dropped_columns.contains_key(&column.name))
    };
    if table.dropped_columns.is_empty() || !sstables.iter().any(has_dropped) {
        return Ok((sstables, table));
    }
    let Some(whole) = table.with_dropped_columns().map(Arc::new) else { return Ok((sstables, table)) };
    let read = sstables.iter().map(|sstable| sstable.with_table(whole.clone()).map(Arc::new));
    Ok((read.collect::<cassette_rows::Result<_>>()?, whole))
}
