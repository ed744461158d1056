//! Partitions as streams.

use crate::clustering::{Bound, ClusteringComparator, Position};
use crate::deletion::DeletionTime;
use crate::error::Result;
use crate::key::DecoratedKey;
use crate::row::Row;
use crate::schema::ColumnId;
use crate::token::Token;

/// The part of a partition that precedes its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionHeader {
    /// Its key.
    pub key: DecoratedKey,
    /// The deletion of the whole partition, live if there is none.
    pub deletion: DeletionTime,
    /// The static row, if it contains anything.
    pub static_row: Option<Row>,
}

/// An end, a start, or both, of range tombstones, in the direction of iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeTombstoneMarker {
    /// The position of the marker.
    pub bound: Bound,
    /// The deletion that ends at the bound.
    pub close: Option<DeletionTime>,
    /// The deletion that begins at the bound.
    pub open: Option<DeletionTime>,
}

/// An item of a partition: a row, or the marker of a range tombstone.
#[derive(Debug, Clone, PartialEq)]
pub enum Unfiltered {
    /// A row.
    Row(Row),
    /// Boxed: markers are rare, and rows move through many streams.
    Marker(Box<RangeTombstoneMarker>),
}

impl From<RangeTombstoneMarker> for Unfiltered {
    fn from(marker: RangeTombstoneMarker) -> Self {
        Self::Marker(Box::new(marker))
    }
}

impl Unfiltered {
    /// Returns its position in the partition.
    pub fn position(&self) -> Position<'_> {
        match self {
            Self::Row(row) => row.clustering().into(),
            Self::Marker(marker) => marker.bound.position(),
        }
    }
}

/// What a reader needs of rows that a stream skips without creating a [`Row`].
pub trait RowProbe {
    /// The columns whose values are needed: simple regular ones without counters, each once, and at
    /// most [`PROBED_COLUMNS`]. Rows are only counted if there are none.
    fn columns(&self) -> &[ColumnId];

    /// Receives the values of [`columns`](Self::columns) in a row; `None` for null. Returns whether
    /// the row is skipped; if not, the stream stops before it. Not called without columns.
    fn skips(&mut self, values: &[Option<&[u8]>]) -> bool;
}

/// The maximum number of columns of a [`RowProbe`].
pub const PROBED_COLUMNS: usize = 8;

/// Partitions in order of (token, key), each with its rows and markers.
///
/// Rows and markers ascend in the table's order, or descend when the read is reversed. Markers pair
/// up: each open deletion is closed in the same partition, and a marker's `close` repeats the
/// deletion that was open. Under a [`Selection`](crate::Selection) a range tombstone is clipped to
/// each slice that it overlaps: it opens at the slice's first bound at the earliest and closes at
/// the last one at the latest.
///
/// The stream must not be used after an error.
pub trait PartitionStream: Send {
    /// Moves to the next partition, skipping the remainder of the current one. `None` at the end.
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>>;

    /// The next row or marker of the current partition; `None` at its end, before the first
    /// partition and after the last.
    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>>;

    /// Skips rows of the current partition that every reader sees at any time: their primary key is
    /// live, and nothing in them is deleted or expires. Returns their number, up to `limit`. 0 is
    /// always correct, and does not mean that no such row follows.
    ///
    /// `probe` receives each skipped row once, in order, and may have received the row after them.
    fn pass_live_rows(&mut self, limit: u64, probe: &mut dyn RowProbe) -> Result<u64> {
        let _ = (limit, probe);
        Ok(0)
    }

    /// Skips the partitions that follow the current one, which has ended, as long as their tokens
    /// are below `before`, and they consist of rows that [`pass_live_rows`](Self::pass_live_rows)
    /// skips. Returns the number of rows; stops after `limit` of them. As there, 0 is always
    /// correct.
    fn pass_live_partitions(
        &mut self,
        before: Option<Token>,
        limit: u64,
        probe: &mut dyn RowProbe,
    ) -> Result<u64> {
        let _ = (before, limit, probe);
        Ok(0)
    }

    /// Returns whether nothing in the output is deleted by anything else in it, so that a partition
    /// in no other stream can be passed on unchanged. `false` is always correct.
    fn is_reconciled(&self) -> bool {
        false
    }

    /// Returns a token that the first partition is not before, if that is known without reading
    /// the partition. A merge does not access the stream before it reaches the token.
    fn first_token(&self) -> Option<Token> {
        None
    }
}

impl<S: PartitionStream + ?Sized> PartitionStream for Box<S> {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        (**self).next_partition()
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        (**self).next_unfiltered()
    }

    fn pass_live_rows(&mut self, limit: u64, probe: &mut dyn RowProbe) -> Result<u64> {
        (**self).pass_live_rows(limit, probe)
    }

    fn pass_live_partitions(
        &mut self,
        before: Option<Token>,
        limit: u64,
        probe: &mut dyn RowProbe,
    ) -> Result<u64> {
        (**self).pass_live_partitions(before, limit, probe)
    }

    fn is_reconciled(&self) -> bool {
        (**self).is_reconciled()
    }

    fn first_token(&self) -> Option<Token> {
        (**self).first_token()
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

/// Merges the rows and the markers of one partition, each in the direction of iteration.
#[derive(Debug)]
pub struct Interleave<R: Iterator<Item = Row>, M: Iterator<Item = RangeTombstoneMarker>> {
    rows: std::iter::Peekable<R>,
    markers: std::iter::Peekable<M>,
    reversed: bool,
}

impl<R: Iterator<Item = Row>, M: Iterator<Item = RangeTombstoneMarker>> Interleave<R, M> {
    /// Both must be in the order of `reversed`.
    pub fn new(rows: R, markers: M, reversed: bool) -> Self {
        Self { rows: rows.peekable(), markers: markers.peekable(), reversed }
    }

    /// Returns the next row or marker.
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
