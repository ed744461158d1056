//! SSTables compacted alone for what newer ones shadow in them: `provide_overlapping_tombstones` where nothing else is to be done.
//!
//! What a compaction leaves out depends on which SSTables it is given, and strategies choose them by their sizes: what is shadowed in an
//! SSTable that nothing makes them choose would stay. So a table that has the setting, and nothing else to compact, goes on:
//!
//! 1. Statistics say whether newer SSTables have enough rows above an SSTable to shadow the share that is asked for
//!    (`overlapping_tombstones_threshold`), and as many more than when it was last looked at ([`worth_a_look`]).
//! 2. A look reads a sample of its partitions as the compaction would, and measures what that would leave out.
//! 3. If it is that share or more, the SSTable is compacted alone, and stays in its level.
//!
//! One runs at a time in all of the engine, and reads a quarter of what compactions may (`compaction_throughput`) if there are other threads
//! for these: nothing waits for it, and many at once would be felt by requests.
//!
//! What it may cost follows: with a share of 1/10 at most 9 bytes are written for each that goes, and no more can go than was written.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use cassette_rows::merge::shadow::{Dropped, ShadowSources, ShadowedBy, ShadowingStream};
use cassette_rows::{
    DecoratedKey, DeletionTime, PartitionHeader, PartitionStream, Result as StorageResult, Row, Selection,
    Token, Unfiltered,
};
use cassette_sstable::chunked_file::Caching;
use cassette_sstable::reader::Scan;
use hashbrown::HashSet;

use super::run::{Inputs, Work};
use super::shadow::{Plan, Sources};
use crate::basics::error::Result;
use crate::basics::options::OverlappingTombstones;
use crate::store::core::Core;
use crate::store::overlapping::OverlapCounters;
use crate::store::progress::CompactionKind;
use crate::store::sstable_handle::{Look, SSTable, Watched};
use crate::store::table::{CompactionState, Table, View};
use crate::strategies::choose;
use crate::strategies::options::CompactionOptions;
use crate::strategies::tombstones::share_apart;
use crate::strategies::tree::Tree;

/// What one that is to be looked at first needs.
pub(super) struct IfShadowed {
    pub threshold: f64,
    _turn: Turn,
}

/// Nobody else looks at SSTables or compacts them for what is shadowed while it lives.
struct Turn(Arc<AtomicBool>);

impl Turn {
    /// `None` if it is somebody else's.
    fn take(taken: &Arc<AtomicBool>) -> Option<Self> {
        (!taken.swap(true, Acquire)).then(|| Self(taken.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

/// Where a sample is read.
const PLACES: usize = 8;
/// Partitions read at each. With 64 in all the share is known to about 6 hundredths where half is shadowed, to less elsewhere.
const PARTITIONS: usize = 8;
/// Rows and markers read of each: large partitions are measured by how they begin.
const ITEMS: usize = 128;
/// Rows and markers of newer SSTables gone through in a look, some ten milliseconds. Those of large partitions may all lie before what
/// is read here.
const ITEMS_ABOVE: usize = 4 * PLACES * PARTITIONS * ITEMS;

/// Whether to read a sample of an SSTable of so many rows: whether what came above it since the last look could shadow `threshold` of it.
fn worth_a_look(rows: f64, above: f64, looked_at: f64, threshold: f64) -> bool {
    above - looked_at >= threshold * rows
}

/// Of the rows of `other`, those in the range of `sstable`, if they are newer than something in it: as many of its rows they may shadow.
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

/// For each SSTable of the view the rows above it: all [`rows_over`] it.
fn rows_above(view: &View, by: OverlappingTombstones) -> Vec<f64> {
    let sstables = &view.sstables;
    let spans: Vec<_> = sstables.iter().map(|sstable| sstable.tokens()).collect();
    let mut above = vec![0.0; spans.len()];
    meetings(&spans, |i, other| above[i] += rows_over(&sstables[i], &sstables[other], by));
    above
}

/// Tells each pair of ranges that meet, both ways round. Goes along the tokens: of thousands of SSTables each meets few.
fn meetings(spans: &[(i64, i64)], mut tell: impl FnMut(usize, usize)) {
    let mut by_first: Vec<usize> = (0..spans.len()).collect();
    by_first.sort_unstable_by_key(|i| spans[*i]);
    let mut begun: Vec<usize> = Vec::new();
    for i in by_first {
        begun.retain(|other| spans[*other].1 >= spans[i].0);
        for other in &begun {
            tell(i, *other);
            tell(*other, i);
        }
        begun.push(i);
    }
}

/// Rows of an SSTable, or its partitions where it does not say, or has deletions of partitions alone.
fn rows_of(sstable: &SSTable) -> f64 {
    (sstable.reader.stats().rows as f64).max(sstable.reader.estimated_keys() as f64)
}

impl Core {
    /// The SSTable to look at next, and to compact alone if much of it is shadowed. Called with the table's compaction lock held by
    /// way of `state`.
    pub(super) fn next_shadowed(
        &self,
        table: &Arc<Table>,
        view: &View,
        state: &mut CompactionState,
        tree: &Tree,
        options: &CompactionOptions,
    ) -> Option<Work> {
        let plan = Plan::new(options, &self.options.overlapping);
        plan.shadowed_by()?;
        let turn = Turn::take(&self.gentle_compaction)?;
        let rows_above = rows_above(view, plan.by);
        let mut most: Option<(f64, usize)> = None;
        for i in choose::at_rest(tree, options) {
            let sstable = &view.sstables[i];
            let rows = rows_of(sstable).max(1.0);
            let above = rows_above[i];
            let looked_at = sstable.look_at_most(plan.by, above);
            if worth_a_look(rows, above, looked_at, plan.threshold) {
                let more = (above - looked_at) / rows;
                most = most.filter(|(other, _)| *other >= more).or(Some((more, i)));
            }
        }
        let (_, i) = most?;
        Some(Work {
            inputs: Inputs::mark(table, vec![view.sstables[i].clone()], &mut state.compacting),
            outcome: choose::user_defined(tree, vec![i], options).outcome,
            kind: CompactionKind::Tombstone,
            shadowed_by: None,
            if_shadowed: Some(IfShadowed { threshold: plan.threshold, _turn: turn }),
            yields: true,
        })
    }

    /// Looks at the only input of `work`, and does the compaction if enough of it is shadowed.
    pub(super) fn compact_if_shadowed(
        self: &Arc<Self>,
        table: &Arc<Table>,
        work: &Work,
        asked: &IfShadowed,
        sstable: &Arc<SSTable>,
    ) -> Result<()> {
        let view = table.view();
        let options = CompactionOptions::parse(&view.table.params.compaction).unwrap_or_default();
        let plan = Plan::new(&options, &self.options.overlapping);
        let over = |other| rows_over(sstable, other, plan.by);
        let look = Look { by: plan.by, rows_above: view.sstables.iter().map(over).sum() };
        sstable.set_look(Some(look));
        let share = self.shadowed_share(&view, sstable, plan)?;
        let name = view.table.qualified_name();
        tracing::debug!(table = name, sstable = %sstable.id(), share, "looked at what is shadowed");
        drop(view);
        if share < asked.threshold {
            return Ok(());
        }
        // It stays what it is, and is looked at again at the next occasion.
        let written = self.carry_out(table, work).inspect_err(|_| sstable.set_look(None))?;
        // What was above the input is above these, and has taken from them what it can.
        let view = table.view();
        let is_output = |sstable: &&Arc<SSTable>| written.contains(&sstable.id());
        view.sstables.iter().filter(is_output).for_each(|sstable| sstable.set_look(Some(look)));
        Ok(())
    }

    /// The share of the bytes in a sample of `sstable` that newer ones shadow.
    fn shadowed_share(&self, view: &View, sstable: &Arc<SSTable>, plan: Plan) -> Result<f64> {
        // The view's handle: that at hand may read for an older version of the table.
        let current = view.sstables.iter().find(|other| other.id() == sstable.id());
        let (Some(current), Some(by)) = (current, plan.shadowed_by()) else { return Ok(0.0) };
        let inputs = std::slice::from_ref(current);
        // What the look would leave out is not left out: only what it costs is counted.
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

/// What a deletion takes, about, bytes.
const DELETION: usize = 12;

fn size_of_deletion(deletion: &DeletionTime) -> usize {
    if deletion.is_live() { 0 } else { DELETION }
}

fn size_of_row(row: &Row) -> usize {
    row.data_size() + size_of_deletion(&row.deletion())
}

fn size_of_head(header: &PartitionHeader) -> usize {
    size_of_deletion(&header.deletion) + header.static_row.as_ref().map_or(0, size_of_row)
}

fn size(unfiltered: &Unfiltered) -> usize {
    match unfiltered {
        Unfiltered::Row(row) => size_of_row(row),
        Unfiltered::Marker(_) => DELETION,
    }
}

/// How much was read for a look.
#[derive(Default)]
struct Tally {
    /// Bytes of rows of the sample.
    bytes: AtomicUsize,
    /// Rows and markers of newer SSTables.
    items_above: AtomicUsize,
}

/// Sources that count what they give.
struct Counted {
    sources: Sources,
    tally: Arc<Tally>,
}

impl ShadowSources for Counted {
    fn begin(&mut self, key: &DecoratedKey) -> usize {
        self.sources.begin(key)
    }

    fn max_timestamp(&self, index: usize) -> i64 {
        self.sources.max_timestamp(index)
    }

    fn open(&mut self, index: usize, wanted: ShadowedBy) -> StorageResult<Option<PartitionHeader>> {
        self.sources.open(index, wanted)
    }

    /// Nothing more once the look has seen enough: what it says is of that.
    fn next_unfiltered(&mut self, index: usize) -> StorageResult<Option<Unfiltered>> {
        match self.tally.items_above.fetch_add(1, Relaxed) {
            ITEMS_ABOVE.. => Ok(None),
            _ => self.sources.next_unfiltered(index),
        }
    }

    fn end(&mut self, dropped: &Dropped) {
        self.sources.end(dropped);
    }
}

/// The first partitions from each of some places of an SSTable on, in order, and how these begin.
struct Sample {
    sstable: Arc<SSTable>,
    tally: Arc<Tally>,
    /// The places left, the first one last.
    places: Vec<Token>,
    at: Option<Watched<Scan>>,
    partitions_left: usize,
    items_left: usize,
    last: Option<DecoratedKey>,
}

impl Sample {
    fn new(sstable: Arc<SSTable>, tally: Arc<Tally>) -> Self {
        let (first, last) = sstable.tokens();
        let step = (i128::from(last) - i128::from(first)) / PLACES as i128;
        // Between two tokens, so it is one.
        let place = |n: usize| Token((i128::from(first) + step * n as i128) as i64);
        let places = (0..PLACES).rev().map(place).collect();
        Self { sstable, tally, places, at: None, partitions_left: 0, items_left: 0, last: None }
    }

    /// Goes to the next place, but never back; `None` after the last one.
    fn advance(&mut self) -> StorageResult<Option<()>> {
        let Some(token) = self.places.pop() else { return Ok(None) };
        let place = DecoratedKey::with_token(token, bytes::Bytes::new());
        let start = match &self.last {
            Some(last) if *last >= place => Bound::Excluded(last),
            _ => Bound::Included(&place),
        };
        self.at = Some(self.scan_from(start)?);
        self.partitions_left = PARTITIONS;
        self.items_left = ITEMS;
        Ok(Some(()))
    }

    fn scan_from(&self, start: Bound<&DecoratedKey>) -> StorageResult<Watched<Scan>> {
        let selection = Arc::new(Selection::all());
        self.sstable.scan(start, Bound::Unbounded, &selection, Caching::LeaveAlone)
    }

    fn count(&self, bytes: usize) {
        self.tally.bytes.fetch_add(bytes, Relaxed);
    }
}

impl PartitionStream for Sample {
    fn next_partition(&mut self) -> StorageResult<Option<PartitionHeader>> {
        while self.tally.items_above.load(Relaxed) < ITEMS_ABOVE {
            if self.items_left == 0
                && let Some(last) = &self.last
                && self.at.is_some()
            {
                // What is left of a large partition is not read to pass over it.
                self.at = Some(self.scan_from(Bound::Excluded(last))?);
            }
            if let Some(scan) = self.at.as_mut().filter(|_| self.partitions_left > 0)
                && let Some(header) = scan.next_partition()?
            {
                self.partitions_left -= 1;
                self.items_left = ITEMS;
                self.last = Some(header.key.clone());
                self.count(size_of_head(&header));
                return Ok(Some(header));
            }
            if self.advance()?.is_none() {
                break;
            }
        }
        Ok(None)
    }

    fn next_unfiltered(&mut self) -> StorageResult<Option<Unfiltered>> {
        let Some(scan) = self.at.as_mut().filter(|_| self.items_left > 0) else { return Ok(None) };
        self.items_left -= 1;
        let next = scan.next_unfiltered()?;
        if let Some(unfiltered) = &next {
            self.count(size(unfiltered));
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_worth_it_when_as_much_as_is_asked_for_came_above_since_the_last() {
        assert!(worth_a_look(100.0, 10.0, 0.0, 0.1));
        assert!(!worth_a_look(100.0, 9.0, 0.0, 0.1));
        assert!(!worth_a_look(100.0, 59.0, 50.0, 0.1));
        assert!(worth_a_look(100.0, 60.0, 50.0, 0.1));
        assert!(!worth_a_look(100.0, 40.0, 50.0, 0.1));
    }

    #[test]
    fn all_ranges_that_meet_are_told() {
        let spans = [(0, 9), (5, 5), (9, 20), (21, 30), (0, 40), (-5, -1), (9, 20)];
        let mut told = Vec::new();
        meetings(&spans, |i, other| told.push((i, other)));
        told.sort_unstable();
        let meet = |i: usize, j: usize| spans[i].0 <= spans[j].1 && spans[j].0 <= spans[i].1;
        let all = (0..7).flat_map(|i| (0..7).map(move |j| (i, j)));
        assert_eq!(told, all.filter(|(i, j)| i != j && meet(*i, *j)).collect::<Vec<_>>());
    }

    #[test]
    fn one_has_the_turn_at_a_time() {
        let taken = Arc::default();
        let turn = Turn::take(&taken);
        assert!(turn.is_some() && Turn::take(&taken).is_none());
        drop(turn);
        assert!(Turn::take(&taken).is_some());
    }
}
