//! Partitions as streams.

use crate::clustering::{Bound, ClusteringComparator, Position};
use crate::deletion::DeletionTime;
use crate::error::Result;
use crate::key::DecoratedKey;
use crate::row::Row;

/// What comes before a partition's rows.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionHeader {
    /// Its key.
    pub key: DecoratedKey,
    /// The deletion of the whole partition, live if there is none.
    pub deletion: DeletionTime,
    /// The static row, if it holds anything.
    pub static_row: Option<Row>,
}

/// An end, a start, or both, of range tombstones, as met in the direction of iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeTombstoneMarker {
    /// Where.
    pub bound: Bound,
    /// The deletion that ends here.
    pub close: Option<DeletionTime>,
    /// The deletion that begins here.
    pub open: Option<DeletionTime>,
}

/// What follows in a partition: a row, or a range tombstone's marker.
#[derive(Debug, Clone, PartialEq)]
pub enum Unfiltered {
    /// A row.
    Row(Row),
    /// A marker. Boxed: there are few of them, and rows are handed through many streams.
    Marker(Box<RangeTombstoneMarker>),
}

impl From<RangeTombstoneMarker> for Unfiltered {
    fn from(marker: RangeTombstoneMarker) -> Self {
        Self::Marker(Box::new(marker))
    }
}

impl Unfiltered {
    /// Its place in the partition.
    pub fn position(&self) -> Position<'_> {
        match self {
            Self::Row(row) => row.clustering().into(),
            Self::Marker(marker) => marker.bound.position(),
        }
    }
}

/// Partitions in order of (token, key), each with its rows and markers.
///
/// Rows and markers ascend in the table's order, or descend when the read is reversed. Markers pair up: each open
/// deletion is closed in the same partition, and a marker's `close` repeats the deletion that was open. Under a
/// [`Selection`](crate::Selection) a range tombstone is clipped to each slice it meets: it opens at the slice's first
/// bound at the earliest and closes at the last one at the latest.
///
/// After an error the stream is not to be used again.
pub trait PartitionStream: Send {
    /// Goes to the next partition, passing over what is left of this one. `None` at the end.
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>>;

    /// The next row or marker of the current partition; `None` at its end, before the first partition and after the last.
    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>>;

    /// Whether nothing that it gives is deleted by anything else that it gives, so that a partition which no other
    /// stream holds can be handed on as it is. `false` says nothing.
    fn is_reconciled(&self) -> bool {
        false
    }
}

impl<S: PartitionStream + ?Sized> PartitionStream for Box<S> {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        (**self).next_partition()
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        (**self).next_unfiltered()
    }

    fn is_reconciled(&self) -> bool {
        (**self).is_reconciled()
    }
}

/// A stream without partitions.
#[derive(Debug, Default)]
pub struct EmptyStream;

impl PartitionStream for EmptyStream {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        Ok(None)
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        Ok(None)
    }
}

/// Puts the rows and the markers of one partition, each in the direction of iteration, into one sequence.
#[derive(Debug)]
pub struct Interleave<R: Iterator<Item = Row>, M: Iterator<Item = RangeTombstoneMarker>> {
    rows: std::iter::Peekable<R>,
    markers: std::iter::Peekable<M>,
    reversed: bool,
}

impl<R: Iterator<Item = Row>, M: Iterator<Item = RangeTombstoneMarker>> Interleave<R, M> {
    /// Both must be in the order that `reversed` says.
    pub fn new(rows: R, markers: M, reversed: bool) -> Self {
        Self { rows: rows.peekable(), markers: markers.peekable(), reversed }
    }

    /// The next of either.
    pub fn next(&mut self, comparator: &ClusteringComparator) -> Option<Unfiltered> {
        let row_first = match (self.rows.peek(), self.markers.peek()) {
            (Some(row), Some(marker)) => {
                let order = comparator.compare(row.clustering().into(), marker.bound.position());
                if self.reversed { order.is_gt() } else { order.is_lt() }
            }
            (row, _) => row.is_some(),
        };
        if row_first {
            self.rows.next().map(Unfiltered::Row)
        } else {
            self.markers.next().map(Unfiltered::from)
        }
    }
}
