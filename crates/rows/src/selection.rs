//! Selects the part of a partition that a read returns.

use crate::clustering::{Bound, Clustering, ClusteringComparator, Position};

/// A range of clusterings from `start` to `end` in the table's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The first bound.
    pub start: Bound,
    /// The last bound.
    pub end: Bound,
}

impl Slice {
    /// Everything.
    pub fn all() -> Self {
        Self { start: Bound::bottom(), end: Bound::top() }
    }

    /// Selects the rows whose clustering begins with `prefix`; one row, if the prefix is a complete
    /// clustering.
    pub fn prefix(prefix: Clustering) -> Self {
        Self { start: Bound::before(prefix.clone()), end: Bound::after(prefix) }
    }

    /// Returns whether the slice contains `position`.
    pub fn contains(&self, position: Position<'_>, comparator: &ClusteringComparator) -> bool {
        comparator.compare(self.start.position(), position).is_le()
            && comparator.compare(position, self.end.position()).is_le()
    }

    /// Returns whether the slice can contain nothing.
    pub fn is_empty(&self, comparator: &ClusteringComparator) -> bool {
        comparator.compare(self.start.position(), self.end.position()).is_ge()
    }
}

/// Slices in the table's order that neither overlap nor touch out of order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slices(Vec<Slice>);

impl Slices {
    /// The whole partition.
    pub fn all() -> Self {
        Self(vec![Slice::all()])
    }

    /// Selects no row, for a read of the static row alone.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Sorts `slices`, drops empty ones and joins those that overlap.
    pub fn new(mut slices: Vec<Slice>, comparator: &ClusteringComparator) -> Self {
        slices.retain(|s| !s.is_empty(comparator));
        if slices.len() < 2 {
            return Self(slices);
        }
        slices.sort_by(|a, b| comparator.compare(a.start.position(), b.start.position()));
        let mut joined: Vec<Slice> = Vec::with_capacity(slices.len());
        for slice in slices {
            match joined.last_mut() {
                Some(last) if comparator.compare(slice.start.position(), last.end.position()).is_le() => {
                    if comparator.compare(last.end.position(), slice.end.position()).is_lt() {
                        last.end = slice.end;
                    }
                }
                _ => joined.push(slice),
            }
        }
        Self(joined)
    }

    /// The slices in the table's order.
    pub fn as_slice(&self) -> &[Slice] {
        &self.0
    }

    /// Returns whether it is the whole partition.
    pub fn is_all(&self) -> bool {
        matches!(&self.0[..], [only] if *only == Slice::all())
    }

    /// Returns whether one of the slices contains `position`.
    pub fn contains(&self, position: Position<'_>, comparator: &ClusteringComparator) -> bool {
        let i = self.0.partition_point(|s| comparator.compare(s.end.position(), position).is_lt());
        self.0.get(i).is_some_and(|s| s.contains(position, comparator))
    }

    /// Returns the positions in both.
    pub fn intersection(&self, other: &Self, comparator: &ClusteringComparator) -> Self {
        let compare = |a: &Bound, b: &Bound| comparator.compare(a.position(), b.position());
        let mut common = Vec::new();
        for a in &self.0 {
            for b in &other.0 {
                let start = if compare(&a.start, &b.start).is_lt() { &b.start } else { &a.start };
                let end = if compare(&a.end, &b.end).is_lt() { &a.end } else { &b.end };
                common.push(Slice { start: start.clone(), end: end.clone() });
            }
        }
        Self::new(common, comparator)
    }

    /// Returns whether one of the slices and the range from `min` to `max` have a position in
    /// common.
    pub fn intersects(
        &self,
        min: Position<'_>,
        max: Position<'_>,
        comparator: &ClusteringComparator,
    ) -> bool {
        self.0.iter().any(|s| {
            comparator.compare(s.start.position(), max).is_le()
                && comparator.compare(min, s.end.position()).is_le()
        })
    }
}

/// The part of each partition that a read returns. The static row and the partition's deletion are
/// always included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The selected rows.
    pub slices: Slices,
    /// Whether rows are returned in descending order.
    pub reversed: bool,
}

impl Selection {
    /// Selects the whole partition in ascending order.
    pub fn all() -> Self {
        Self { slices: Slices::all(), reversed: false }
    }
}
