//! Compactions of single SSTables for what newer ones shadow: `provide_overlapping_tombstones`
//! where nothing else is to be compacted.
//!
//! Strategies choose SSTables by their sizes, and a compaction removes only what its inputs shadow.
//! What is shadowed in an SSTable that no strategy chooses would stay. A table that has the
//! setting, and nothing else to compact, therefore goes on:
//!
//! 1. Statistics show whether newer SSTables have enough rows above an SSTable to shadow the
//!    required share (`overlapping_tombstones_threshold`), and as many more than at its last sample
//!    ([`should_sample`]).
//! 2. A sample of its partitions is read as the compaction would read them, and measures how much
//!    that would remove.
//! 3. If it is that share or more, the SSTable is compacted alone, and stays in its level.
//!
//! One runs at a time in the engine. With several compaction threads it is limited to a quarter of
//! `compaction_throughput`: it is not urgent, and requests would notice many at once.
//!
//! The cost follows: with a share of 1/10 at most 9 bytes are written for each that is removed, and
//! no more can be removed than was written.

mod sample;

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};

use cassette_rows::PartitionStream;
use cassette_rows::merge::shadow::ShadowingStream;
use hashbrown::HashSet;

use self::sample::{Counted, Sample, Tally, size, size_of_head};
use super::run::{Inputs, Work};
use super::shadow::{Plan, Sources};
use crate::basics::error::Result;
use crate::basics::options::OverlappingTombstones;
use crate::store::core::Core;
use crate::store::overlapping::OverlapCounters;
use crate::store::progress::CompactionKind;
use crate::store::sstable_handle::{OverlapSample, SSTable};
use crate::store::table::{CompactionState, Table, View};
use crate::strategies::choose;
use crate::strategies::options::CompactionOptions;
use crate::strategies::tombstones::share_apart;
use crate::strategies::tree::Tree;

/// The condition of a compaction that a sample decides.
pub(super) struct IfShadowed {
    pub threshold: f64,
    _slot: LowPrioritySlot,
}

/// The permission to sample SSTables and to compact them for what is shadowed; there is one.
struct LowPrioritySlot(Arc<AtomicBool>);

impl LowPrioritySlot {
    /// Returns `None` if it is in use.
    fn take(taken: &Arc<AtomicBool>) -> Option<Self> {
        (!taken.swap(true, Acquire)).then(|| Self(taken.clone()))
    }
}

impl Drop for LowPrioritySlot {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

/// Returns whether to sample an SSTable of `rows` rows: whether the rows that were added above it
/// since the last sample could shadow `threshold` of it.
fn should_sample(rows: f64, above: f64, sampled: f64, threshold: f64) -> bool {
    above - sampled >= threshold * rows
}

/// Estimates how many rows of `sstable` the rows of `other` may shadow: those in its range, if they
/// are newer than something in it.
fn rows_over(sstable: &Arc<SSTable>, other: &Arc<SSTable>, by: OverlappingTombstones) -> f64 {
    let may_shadow = other.id() != sstable.id()
        && !other.is_suspect()
        && other.max_timestamp() >= sstable.min_timestamp()
        && (by == OverlappingTombstones::Cell || other.reader.may_have_deletions())
        && sstable.overlaps(other);
    if !may_shadow {
        return 0.0;
    }
    let (first, last) = other.tokens();
    rows_of(other) * (1.0 - share_apart(first, last, std::iter::once(sstable.tokens())))
}

/// Returns for each SSTable of the view the rows above it: all [`rows_over`] it.
fn rows_above(view: &View, by: OverlappingTombstones) -> Vec<f64> {
    let sstables = &view.sstables;
    let spans: Vec<_> = sstables.iter().map(|sstable| sstable.tokens()).collect();
    let mut above = vec![0.0; spans.len()];
    overlapping_pairs(&spans, |i, other| above[i] += rows_over(&sstables[i], &sstables[other], by));
    above
}

/// Visits each pair of overlapping ranges, in both orders. Sweeps along the tokens: of thousands of
/// SSTables each overlaps few.
fn overlapping_pairs(spans: &[(i64, i64)], mut visit: impl FnMut(usize, usize)) {
    let mut by_first: Vec<usize> = (0..spans.len()).collect();
    by_first.sort_unstable_by_key(|i| spans[*i]);
    let mut begun: Vec<usize> = Vec::new();
    for i in by_first {
        begun.retain(|other| spans[*other].1 >= spans[i].0);
        for other in &begun {
            visit(i, *other);
            visit(*other, i);
        }
        begun.push(i);
    }
}

/// Returns the rows of an SSTable, or its partitions if those are unknown or it only has deletions
/// of partitions.
fn rows_of(sstable: &SSTable) -> f64 {
    (sstable.reader.stats().rows as f64).max(sstable.reader.estimated_keys() as f64)
}

impl Core {
    /// Returns the SSTable to sample next, and to compact alone if much of it is shadowed. Called
    /// with the table's compaction lock held through `state`.
    pub(super) fn next_overlap_compaction(
        &self,
        table: &Arc<Table>,
        view: &View,
        state: &mut CompactionState,
        tree: &Tree,
        options: &CompactionOptions,
    ) -> Option<Work> {
        let plan = Plan::new(options, &self.options.overlapping);
        plan.shadowed_by()?;
        let slot = LowPrioritySlot::take(&self.low_priority_slot)?;
        let rows_above = rows_above(view, plan.by);
        let mut most: Option<(f64, usize)> = None;
        for i in choose::at_rest(tree, options) {
            let sstable = &view.sstables[i];
            let rows = rows_of(sstable).max(1.0);
            let above = rows_above[i];
            let sampled = sstable.rows_above_last_sample(plan.by, above);
            if should_sample(rows, above, sampled, plan.threshold) {
                let more = (above - sampled) / rows;
                most = most.filter(|(other, _)| *other >= more).or(Some((more, i)));
            }
        }
        let (_, i) = most?;
        Some(Work {
            inputs: Inputs::mark(table, vec![view.sstables[i].clone()], &mut state.compacting),
            outcome: choose::user_defined(tree, vec![i], options).outcome,
            kind: CompactionKind::Tombstone,
            shadowed_by: None,
            if_shadowed: Some(IfShadowed { threshold: plan.threshold, _slot: slot }),
            yields: true,
        })
    }

    /// Samples the only input of `work`, and compacts it if enough of it is shadowed.
    pub(super) fn compact_if_shadowed(
        self: &Arc<Self>,
        table: &Arc<Table>,
        work: &Work,
        condition: &IfShadowed,
        sstable: &Arc<SSTable>,
    ) -> Result<()> {
        let view = table.view();
        let options = CompactionOptions::parse(&view.table.params.compaction).unwrap_or_default();
        let plan = Plan::new(&options, &self.options.overlapping);
        let over = |other| rows_over(sstable, other, plan.by);
        let sample = OverlapSample { by: plan.by, rows_above: view.sstables.iter().map(over).sum() };
        sstable.set_overlap_sample(Some(sample));
        let share = self.shadowed_share(&view, sstable, plan)?;
        let name = view.table.qualified_name();
        tracing::debug!(table = name, sstable = %sstable.id(), share, "sampled what is shadowed");
        drop(view);
        if share < condition.threshold {
            return Ok(());
        }
        // After an error the SSTable is unchanged, and is sampled again at the next opportunity.
        let written = self.carry_out(table, work).inspect_err(|_| sstable.set_overlap_sample(None))?;
        // SSTables above the input are above its outputs, and have removed from them what they can.
        let view = table.view();
        let is_output = |sstable: &&Arc<SSTable>| written.contains(&sstable.id());
        view.sstables.iter().filter(is_output).for_each(|sstable| sstable.set_overlap_sample(Some(sample)));
        Ok(())
    }

    /// The share of the bytes in a sample of `sstable` that newer ones shadow.
    fn shadowed_share(&self, view: &View, sstable: &Arc<SSTable>, plan: Plan) -> Result<f64> {
        // The view's handle: the other may read for an older version of the table.
        let current = view.sstables.iter().find(|other| other.id() == sstable.id());
        let (Some(current), Some(by)) = (current, plan.shadowed_by()) else { return Ok(0.0) };
        let inputs = std::slice::from_ref(current);
        // A sample removes nothing: only its cost is counted.
        let counters = Arc::new(OverlapCounters::default());
        let sources = Sources::new(view, &HashSet::from([current.id()]), inputs, plan, &counters);
        if sources.is_empty() {
            return Ok(0.0);
        }
        let tally = Arc::new(Tally::default());
        let sample = Sample::new(current.clone(), tally.clone());
        let sources = Counted { sources, tally: tally.clone() };
        let mut stream = ShadowingStream::new(sample, sources, by, view.table.clone());
        let mut left = 0;
        while let Some(header) = stream.next_partition()? {
            left += size_of_head(&header);
            while let Some(unfiltered) = stream.next_unfiltered()? {
                left += size(&unfiltered);
            }
        }
        drop(stream);
        self.operations.overlapping.add_cost(&counters.metrics());
        let all = tally.bytes.load(Relaxed);
        Ok(if all == 0 { 0.0 } else { 1.0 - left as f64 / all as f64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_worth_it_when_as_much_as_is_asked_for_came_above_since_the_last() {
        assert!(should_sample(100.0, 10.0, 0.0, 0.1));
        assert!(!should_sample(100.0, 9.0, 0.0, 0.1));
        assert!(!should_sample(100.0, 59.0, 50.0, 0.1));
        assert!(should_sample(100.0, 60.0, 50.0, 0.1));
        assert!(!should_sample(100.0, 40.0, 50.0, 0.1));
    }

    #[test]
    fn all_ranges_that_meet_are_told() {
        let spans = [(0, 9), (5, 5), (9, 20), (21, 30), (0, 40), (-5, -1), (9, 20)];
        let mut told = Vec::new();
        overlapping_pairs(&spans, |i, other| told.push((i, other)));
        told.sort_unstable();
        let meet = |i: usize, j: usize| spans[i].0 <= spans[j].1 && spans[j].0 <= spans[i].1;
        let all = (0..7).flat_map(|i| (0..7).map(move |j| (i, j)));
        assert_eq!(told, all.filter(|(i, j)| i != j && meet(*i, *j)).collect::<Vec<_>>());
    }

    #[test]
    fn one_has_the_turn_at_a_time() {
        let taken = Arc::default();
        let slot = LowPrioritySlot::take(&taken);
        assert!(slot.is_some() && LowPrioritySlot::take(&taken).is_none());
        drop(slot);
        assert!(LowPrioritySlot::take(&taken).is_some());
    }
}
