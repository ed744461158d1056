//! The choice of the next compaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cassette_sstable::data::deletion_codec;

use super::purge;
use super::run::{Inputs, Work};
use crate::basics::error::EngineError;
use crate::store::core::{Core, Phase};
use crate::store::progress::CompactionKind;
use crate::store::sstable_handle::SSTable;
use crate::store::table::{CompactionState, Table, View};
use crate::strategies::choose;
use crate::strategies::options::CompactionOptions;
use crate::strategies::tombstones::{Tombstones, share_apart, worth_dropping};
use crate::strategies::tree::{Candidate, Tree};

impl Core {
    /// Compacts until no table has a compaction that is due.
    pub fn compact_what_is_due(self: &Arc<Self>) {
        loop {
            let tables: Vec<_> = self.tables.load().values().cloned().collect();
            let mut done = false;
            for table in &tables {
                if self.compaction_wanted.is_stopped() || self.phase() != Phase::Open {
                    return;
                }
                let Some(work) = self.next_compaction(table) else { continue };
                // There may be work for another thread at the same time.
                self.compaction_wanted.raise();
                match self.run_compaction(table, &work) {
                    Ok(()) => done = true,
                    Err(EngineError::Cancelled) => {}
                    Err(error @ EngineError::CompactionStopped { .. }) => {
                        tracing::info!(%error, "a compaction")
                    }
                    // Retried later, not immediately.
                    Err(error) => {
                        self.metrics.exceptions.add(1);
                        let name = table.metadata().qualified_name();
                        tracing::error!(table = name, %error, "a compaction failed; its inputs stay");
                    }
                }
                drop(work);
                self.measure_compaction_debt(table);
            }
            if !done {
                return;
            }
        }
    }

    /// Returns the table's next compaction, with its inputs marked.
    fn next_compaction(&self, table: &Arc<Table>) -> Option<Work> {
        let mut state = table.compaction.lock();
        if state.forbidden.is_some() || state.paused || table.is_dropped() {
            return None;
        }
        let view = table.view();
        let options = CompactionOptions::parse(&view.table.params.compaction).ok()?;
        if !state.starts_compactions(&options) {
            return None;
        }
        let tree = self.tree(table, &view, &state, &options);
        let Some(task) = choose::next(&tree, &options, &mut state.strategy) else {
            return self.next_overlap_compaction(table, &view, &mut state, &tree, &options);
        };
        let sstables = task.inputs.iter().map(|i| view.sstables[*i].clone()).collect();
        Some(Work {
            inputs: Inputs::mark(table, sstables, &mut state.compacting),
            outcome: task.outcome,
            kind: if task.for_tombstones { CompactionKind::Tombstone } else { CompactionKind::Compaction },
            shadowed_by: None,
            if_shadowed: None,
            yields: true,
        })
    }

    /// Returns the approximate number of the table's pending compactions.
    pub fn pending_compactions(&self, table: &Table) -> usize {
        let state = table.compaction.lock();
        let view = table.view();
        match CompactionOptions::parse(&view.table.params.compaction) {
            Ok(options) if options.enabled || state.starts_compactions(&options) => {
                choose::pending(&self.tree(table, &view, &state, &options), &options, &state.strategy)
            }
            _ => 0,
        }
    }

    /// Updates the table's compaction debt.
    pub fn measure_compaction_debt(&self, table: &Table) {
        let debt = {
            let state = table.compaction.lock();
            let view = table.view();
            match CompactionOptions::parse(&view.table.params.compaction) {
                Ok(options) if state.starts_compactions(&options) && state.forbidden.is_none() => {
                    choose::debt(&self.tree(table, &view, &state, &options), &options)
                }
                _ => 0,
            }
        };
        table.compaction_debt.store(debt, Ordering::Relaxed);
    }

    /// Returns the level of each SSTable of the table's view.
    pub fn levels(&self, table: &Table) -> Vec<u32> {
        let state = table.compaction.lock();
        let view = table.view();
        let options = CompactionOptions::parse(&view.table.params.compaction).unwrap_or_default();
        let mut of = vec![0; view.sstables.len()];
        for (level, sstables) in (0u32..).zip(self.tree(table, &view, &state, &options).levels()) {
            sstables.into_iter().for_each(|i| of[i] = level);
        }
        of
    }

    /// Returns the table as input of a strategy: `sstables` are those of the view.
    pub(crate) fn tree(
        &self,
        table: &Table,
        view: &View,
        state: &CompactionState,
        options: &CompactionOptions,
    ) -> Tree {
        let candidate = |sstable: &Arc<SSTable>| {
            let (first, last) = sstable.tokens();
            let tombstones = self.tombstones(view, sstable, options);
            Candidate {
                size: sstable.reader.data_bytes_on_disk(),
                first,
                last,
                level: sstable.level(),
                max_timestamp: sstable.max_timestamp(),
                created: u64::from(sstable.created),
                hotness: sstable.hotness(self.clock.monotonic()),
                droppable_ratio: tombstones.map_or(0.0, |tombstones| tombstones.droppable_ratio),
                worth_dropping_tombstones: options.tombstone_compactions
                    && tombstones.is_some_and(|tombstones| worth_dropping(&tombstones, options)),
                is_expired: tombstones.is_some_and(|tombstones| tombstones.is_expired),
                compacting: state.compacting.contains(&sstable.id()),
                suspect: sstable.is_suspect(),
            }
        };
        let flushes = table.metrics.flushes.get();
        let flushed = table.metrics.bytes_flushed.get();
        Tree {
            sstables: view.sstables.iter().map(candidate).collect(),
            now: u64::from(self.now_seconds()),
            flush_size: flushed.checked_div(flushes).unwrap_or(0),
        }
    }

    /// Returns properties of an SSTable's tombstones; `None` if it has none that could be dropped.
    fn tombstones(
        &self,
        view: &View,
        sstable: &Arc<SSTable>,
        options: &CompactionOptions,
    ) -> Option<Tombstones> {
        if options.only_purge_repaired_tombstones || !sstable.reader.may_have_deletions() {
            return None;
        }
        let now = self.now_seconds();
        let gc_before = now.saturating_sub(view.table.params.gc_grace_seconds);
        let stats = sstable.reader.stats();
        let earliest = deletion_codec::from_stored(stats.min_local_deletion_time);
        if earliest.is_none_or(|earliest| earliest >= gc_before) {
            return None;
        }
        let (first, last) = sstable.tokens();
        let others = view.sstables.iter().filter(|other| other.id() != sstable.id());
        let expired =
            purge::expired(view, std::slice::from_ref(sstable), gc_before, options.ignores_overlaps());
        Some(Tombstones {
            age: u64::from(now.saturating_sub(sstable.created)),
            droppable_ratio: stats.droppable_ratio(i64::from(gc_before)),
            keys_apart: share_apart(first, last, others.map(|other| other.tokens())),
            is_expired: !expired.is_empty(),
        })
    }
}
