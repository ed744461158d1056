//! The range tombstones of one partition in memory.

use crate::clustering::{Bound, ClusteringComparator, Position};
use crate::deletion::DeletionTime;
use crate::selection::Slice;
use crate::stream::RangeTombstoneMarker;

/// A deletion of all rows between two bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeTombstone {
    /// The first bound.
    pub start: Bound,
    /// The last bound.
    pub end: Bound,
    /// Never live.
    pub deletion: DeletionTime,
}

/// Range tombstones in the table's order that do not overlap: where two overlap, the greater
/// deletion is kept.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RangeTombstoneList(Vec<RangeTombstone>);

impl RangeTombstoneList {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tombstones in order.
    pub fn as_slice(&self) -> &[RangeTombstone] {
        &self.0
    }

    /// Adds a tombstone; where it overlaps others the greater deletion of each stretch stays.
    /// Ignores empty ranges and live deletions. Amortised O(1) if tombstones are added in order.
    pub fn add(&mut self, new: RangeTombstone, comparator: &ClusteringComparator) {
        let compare = |a: &Bound, b: &Bound| comparator.compare(a.position(), b.position());
        if new.deletion.is_live() || compare(&new.start, &new.end).is_ge() {
            return;
        }
        let first = match self.0.last() {
            Some(last) if compare(&last.end, &new.start).is_lt() => self.0.len(),
            _ => self.0.partition_point(|t| compare(&t.end, &new.start).is_lt()),
        };
        let after = first + self.0[first..].partition_point(|t| compare(&t.start, &new.end).is_le());

        // Iterate over the tombstones that overlap or touch the new one, and cut the stretch into
        // pieces.
        let mut pieces: Vec<RangeTombstone> = Vec::with_capacity(2 * (after - first) + 1);
        let mut push = |start: &Bound, end: &Bound, deletion: DeletionTime| {
            if compare(start, end).is_ge() {
                return;
            }
            match pieces.last_mut() {
                Some(last) if last.deletion == deletion && compare(&last.end, start).is_eq() => {
                    last.end = end.clone();
                }
                _ => pieces.push(RangeTombstone { start: start.clone(), end: end.clone(), deletion }),
            }
        };
        let mut at = &new.start;
        for old in &self.0[first..after] {
            if compare(&old.start, at).is_lt() {
                let cut = if compare(&old.end, at).is_lt() { &old.end } else { at };
                push(&old.start, cut, old.deletion);
            } else {
                push(at, &old.start, new.deletion);
                at = &old.start;
            }
            let end = if compare(&old.end, &new.end).is_lt() { &old.end } else { &new.end };
            push(at, end, old.deletion.max(new.deletion));
            if compare(at, end).is_lt() {
                at = end;
            }
            if compare(&old.end, &new.end).is_gt() {
                let start = if compare(&old.start, &new.end).is_gt() { &old.start } else { &new.end };
                push(start, &old.end, old.deletion);
            }
        }
        push(at, &new.end, new.deletion);
        self.0.splice(first..after, pieces);
    }

    /// The deletion that covers `position`, live if none does.
    pub fn covering(&self, position: Position<'_>, comparator: &ClusteringComparator) -> DeletionTime {
        let i = self.0.partition_point(|t| comparator.compare(t.end.position(), position).is_lt());
        match self.0.get(i) {
            Some(t) if comparator.compare(t.start.position(), position).is_lt() => t.deletion,
            _ => DeletionTime::LIVE,
        }
    }

    /// Returns the markers of the tombstones within `slice`, clipped to it, in the direction of
    /// iteration; ranges that touch share a boundary.
    pub fn markers(
        &self,
        slice: &Slice,
        reversed: bool,
        comparator: &ClusteringComparator,
    ) -> Vec<RangeTombstoneMarker> {
        let compare = |a: &Bound, b: &Bound| comparator.compare(a.position(), b.position());
        let mut markers: Vec<RangeTombstoneMarker> = Vec::new();
        let mut push = |tombstone: &RangeTombstone| {
            let start =
                if compare(&tombstone.start, &slice.start).is_lt() { &slice.start } else { &tombstone.start };
            let end = if compare(&tombstone.end, &slice.end).is_gt() { &slice.end } else { &tombstone.end };
            if compare(start, end).is_ge() {
                return;
            }
            let (first, last) = if reversed { (end, start) } else { (start, end) };
            match markers.last_mut() {
                Some(previous) if compare(&previous.bound, first).is_eq() => {
                    previous.open = Some(tombstone.deletion)
                }
                _ => markers.push(RangeTombstoneMarker {
                    bound: first.clone(),
                    close: None,
                    open: Some(tombstone.deletion),
                }),
            }
            markers.push(RangeTombstoneMarker {
                bound: last.clone(),
                close: Some(tombstone.deletion),
                open: None,
            });
        };
        let first = self.0.partition_point(|t| compare(&t.end, &slice.start).is_le());
        let count = self.0[first..].partition_point(|t| compare(&t.start, &slice.end).is_lt());
        let within = &self.0[first..first + count];
        if reversed {
            within.iter().rev().for_each(&mut push);
        } else {
            within.iter().for_each(&mut push);
        }
        markers
    }
}
