//! Finding out what to compact next.

use std::sync::Arc;

use super::options::CompactionOptions;
use super::purge;
use super::run::Inputs;
use super::size_tiered::{self, Candidate};
use super::tombstones::{Tombstones, share_apart, worth_dropping};
use crate::core::{Core, Phase};
use crate::error::EngineError;
use crate::sstable_handle::SSTable;
use crate::table::{CompactionState, Table, View};

impl Core {
    /// Compacts until no table has anything to compact.
    pub fn compact_what_is_due(self: &Arc<Self>) {
        loop {
            let tables: Vec<_> = self.tables.load().values().cloned().collect();
            let mut done = false;
            for table in &tables {
                if self.compaction_wanted.is_stopped() || self.phase() != Phase::Open {
                    return;
                }
                let Some(inputs) = self.next_compaction(table) else { continue };
                match self.run_compaction(table, &inputs, true) {
                    Ok(()) => done = true,
                    Err(EngineError::Cancelled) => {}
                    // Tried again at the next occasion, not at once.
                    Err(error) => {
                        self.metrics.exceptions.add(1);
                        let name = table.metadata().qualified_name();
                        tracing::error!(table = name, %error, "a compaction failed; its inputs stay");
                    }
                }
            }
            if !done {
                return;
            }
        }
    }

    /// The inputs of the table's next compaction, marked.
    fn next_compaction(&self, table: &Arc<Table>) -> Option<Inputs> {
        let mut state = table.compaction.lock();
        if state.forbidden.is_some() || state.paused > 0 || table.is_dropped() {
            return None;
        }
        let view = table.view();
        let options = CompactionOptions::parse(&view.table.params.compaction).ok()?;
        if !options.enabled {
            return None;
        }
        let (free, candidates) = self.candidates(&view, &state, &options);
        let chosen = size_tiered::next(&candidates, &options);
        if chosen.is_empty() {
            return None;
        }
        let sstables = chosen.into_iter().map(|i| free[i].clone()).collect();
        Some(Inputs::mark(table, sstables, &mut state.compacting))
    }

    /// How many compactions the table waits for, about.
    pub fn pending_compactions(&self, table: &Table) -> usize {
        let state = table.compaction.lock();
        let view = table.view();
        match CompactionOptions::parse(&view.table.params.compaction) {
            Ok(options) if options.enabled => {
                size_tiered::pending(&self.candidates(&view, &state, &options).1, &options)
            }
            _ => 0,
        }
    }

    /// The SSTables that may be compacted, and what the strategy is shown of each.
    fn candidates(
        &self,
        view: &View,
        state: &CompactionState,
        options: &CompactionOptions,
    ) -> (Vec<Arc<SSTable>>, Vec<Candidate>) {
        let is_free =
            |sstable: &&Arc<SSTable>| !sstable.is_suspect() && !state.compacting.contains(&sstable.id());
        let free: Vec<_> = view.sstables.iter().filter(is_free).cloned().collect();
        let candidate = |sstable: &Arc<SSTable>| Candidate {
            size: sstable.reader.data_bytes_on_disk(),
            hotness: sstable.hotness(self.clock.monotonic()),
            worth_dropping_tombstones: self.is_worth_dropping_tombstones(view, sstable, options),
        };
        let candidates = free.iter().map(candidate).collect();
        (free, candidates)
    }

    fn is_worth_dropping_tombstones(
        &self,
        view: &View,
        sstable: &Arc<SSTable>,
        options: &CompactionOptions,
    ) -> bool {
        if options.only_purge_repaired_tombstones || !sstable.reader.may_have_deletions() {
            return false;
        }
        let now = self.now_seconds();
        let gc_before = now.saturating_sub(view.table.params.gc_grace_seconds);
        let tokens =
            |sstable: &SSTable| (sstable.reader.first_key().token().0, sstable.reader.last_key().token().0);
        let (first, last) = tokens(sstable);
        let others = view.sstables.iter().filter(|other| other.id() != sstable.id());
        let tombstones = Tombstones {
            age: u64::from(now.saturating_sub(sstable.created)),
            droppable_ratio: sstable.reader.stats().droppable_ratio(i64::from(gc_before)),
            keys_apart: share_apart(first, last, others.map(|other| tokens(other))),
            is_expired: !purge::expired(view, std::slice::from_ref(sstable), gc_before).is_empty(),
        };
        worth_dropping(&tombstones, options)
    }
}
