//! Running a compaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cassette_rows::purge::PurgingStream;
use cassette_rows::{MergedStream, PartitionStream, Selection};
use cassette_sstable::SSTableId;
use cassette_sstable::chunked_file::Caching;
use hashbrown::HashSet;

use super::options::CompactionOptions;
use super::purge::{self, Purge};
use crate::core::Core;
use crate::error::Result;
use crate::sstable_handle::SSTable;
use crate::sstable_writer::{Contents, Job};
use crate::table::Table;
use crate::transaction::OperationType;

/// SSTables that one compaction has for itself until this is dropped.
pub(super) struct Inputs {
    table: Arc<Table>,
    pub sstables: Vec<Arc<SSTable>>,
}

impl Inputs {
    /// Marks SSTables as being compacted. Called with the table's compaction lock held by way of `compacting`.
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

/// While it lives no compaction of the table begins but by its holder.
pub(crate) struct Pause<'a> {
    table: &'a Table,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.table.compaction.lock().paused -= 1;
        self.table.compactions_yield.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Core {
    /// Lets the table's running compactions give up, and waits for that.
    pub fn pause_compactions<'a>(&self, table: &'a Table) -> Pause<'a> {
        let mut state = table.compaction.lock();
        state.paused += 1;
        table.compactions_yield.fetch_add(1, Ordering::Relaxed);
        while !state.compacting.is_empty() {
            table.compaction_ended.wait(&mut state);
        }
        drop(state);
        Pause { table }
    }

    /// See [`Engine::compact`](crate::Engine::compact).
    pub fn compact(self: &Arc<Self>, table: &Arc<Table>) -> Result<()> {
        self.check_running()?;
        // One command at a time: the next one waits here.
        let _alone = table.major_compaction.lock();
        let _others_paused = self.pause_compactions(table);
        let inputs = {
            let mut state = table.compaction.lock();
            if let Some(reason) = &state.forbidden {
                return Err(crate::EngineError::CompactionsForbidden { reason: reason.clone() });
            }
            let view = table.view();
            let sstables = view.sstables.iter().filter(|sstable| !sstable.is_suspect()).cloned().collect();
            Inputs::mark(table, sstables, &mut state.compacting)
        };
        if inputs.sstables.is_empty() {
            return Ok(());
        }
        self.run_compaction(table, &inputs, false)
    }

    /// Compacts the inputs into one SSTable, or none. With `yields` it gives up when compactions are paused.
    pub(super) fn run_compaction(
        self: &Arc<Self>,
        table: &Arc<Table>,
        inputs: &Inputs,
        yields: bool,
    ) -> Result<()> {
        let _active = self.metrics.active_compactions.enter();
        let view = table.view();
        let metadata = view.table.clone();
        let options = CompactionOptions::parse(&metadata.params.compaction).unwrap_or_default();
        let now = self.now_seconds();
        let gc_before = match options.only_purge_repaired_tombstones {
            true => 0,
            false => now.saturating_sub(metadata.params.gc_grace_seconds),
        };
        // The view's handles: those at hand may read for an older version of the table.
        let ids: HashSet<_> = inputs.sstables.iter().map(|sstable| sstable.id()).collect();
        let current: Vec<_> =
            view.sstables.iter().filter(|sstable| ids.contains(&sstable.id())).cloned().collect();
        let expired = purge::expired(&view, &current, gc_before);
        drop(view);
        let read: Vec<_> = current
            .iter()
            .filter(|sstable| !expired.iter().any(|other| other.id() == sstable.id()))
            .cloned()
            .collect();

        // The output is no larger than the inputs, and these stay until it is there.
        let needed = read.iter().map(|sstable| sstable.reader.bytes_on_disk()).sum();
        let available = self.fs.available_space(&table.directory);
        if let Ok(available) = available
            && available < needed
        {
            let table = metadata.qualified_name();
            return Err(crate::EngineError::NoSpaceToCompact { table, needed, available });
        }

        let selection = Arc::new(Selection::all());
        let mut sources: Vec<Box<dyn PartitionStream>> = Vec::with_capacity(read.len());
        for sstable in &read {
            let (start, end) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
            sources.push(Box::new(sstable.scan(start, end, &selection, Caching::LeaveAlone)?));
        }
        let merged = MergedStream::new(sources, metadata.clone(), false);
        let policy = Purge { table: table.clone(), compacting: ids, gc_before };
        let mut stream = PurgingStream::new(merged, policy, now);
        let job = Job {
            operation: OperationType::Compaction,
            contents: Contents::of_sstables(&read, &metadata),
            compression: std::borrow::Cow::Borrowed(&metadata.params.compression),
            removed: &current,
            yields,
        };
        let written = self.replace_sstables(table, &metadata, job, &mut stream, |_| {})?;
        for (compactions, bytes) in [
            (&table.metrics.compactions, &table.metrics.bytes_compacted),
            (&self.metrics.compactions, &self.metrics.bytes_compacted),
        ] {
            compactions.add(1);
            bytes.add(written);
        }
        tracing::debug!(
            table = metadata.qualified_name(),
            inputs = current.len(),
            expired = expired.len(),
            written,
            "compacted"
        );
        Ok(())
    }
}
