//! A partition, or a change to one, in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::clustering::ClusteringComparator;
use crate::deletion::DeletionTime;
use crate::error::Result;
use crate::key::DecoratedKey;
use crate::merge::merge_rows;
use crate::range_tombstones::RangeTombstoneList;
use crate::row::Row;
use crate::schema::TableMetadata;
use crate::selection::Selection;
use crate::stream::{PartitionHeader, PartitionStream, Unfiltered};

/// The changes of a statement in one partition. Visible completely or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionUpdate {
    /// The partition.
    pub key: DecoratedKey,
    /// A deletion of the whole partition, or live.
    pub deletion: DeletionTime,
    /// Changes of static columns.
    pub static_row: Option<Row>,
    /// Changed rows, ascending, without duplicate clusterings.
    pub rows: Vec<Row>,
    /// Deleted ranges.
    pub range_tombstones: RangeTombstoneList,
}

impl PartitionUpdate {
    /// Creates an empty change.
    pub fn new(key: DecoratedKey) -> Self {
        Self {
            key,
            deletion: DeletionTime::LIVE,
            static_row: None,
            rows: Vec::new(),
            range_tombstones: RangeTombstoneList::default(),
        }
    }

    /// Returns whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.deletion.is_live()
            && self.static_row.is_none()
            && self.rows.is_empty()
            && self.range_tombstones.is_empty()
    }

    /// Inserts a row, merged with one of the same clustering. O(1) if rows are added in order.
    pub fn add_row(&mut self, row: Row, table: &TableMetadata) {
        let comparator = &table.comparator;
        match self.rows.last() {
            Some(last) if comparator.compare_rows(last.clustering(), row.clustering()).is_ge() => {
                match self
                    .rows
                    .binary_search_by(|r| comparator.compare_rows(r.clustering(), row.clustering()))
                {
                    Ok(i) => {
                        let pair = [self.rows[i].clone(), row];
                        // Two non-empty rows can merge to nothing only if one is shadowed by the
                        // other's deletion, which then stays.
                        if let Some(merged) = merge_rows(&pair, DeletionTime::LIVE, table) {
                            self.rows[i] = merged;
                        }
                    }
                    Err(i) => self.rows.insert(i, row),
                }
            }
            _ => self.rows.push(row),
        }
    }

    /// Adds changes of static columns, merged with existing ones.
    pub fn add_static_row(&mut self, row: Row, table: &TableMetadata) {
        self.static_row = match self.static_row.take() {
            Some(old) => merge_rows(&[old, row], DeletionTime::LIVE, table),
            None => Some(row),
        };
    }

    /// Adds all changes of `other`, an update of the same partition, as a batch does.
    pub fn absorb(&mut self, other: PartitionUpdate, table: &TableMetadata) {
        debug_assert_eq!(self.key, other.key);
        self.deletion = self.deletion.max(other.deletion);
        if let Some(row) = other.static_row {
            self.add_static_row(row, table);
        }
        for row in other.rows {
            self.add_row(row, table);
        }
        for tombstone in other.range_tombstones.as_slice() {
            self.range_tombstones.add(tombstone.clone(), &table.comparator);
        }
    }

    /// Returns the selected part as a stream of one partition. Data shadowed by the update's
    /// deletions is still included: merge the stream to remove it.
    pub fn into_stream(self, table: Arc<TableMetadata>, selection: &Selection) -> UpdateStream {
        let pending = select(&self.rows, &self.range_tombstones, selection, &table.comparator);
        UpdateStream {
            header: Some(PartitionHeader {
                key: self.key,
                deletion: self.deletion,
                static_row: self.static_row,
            }),
            pending,
            started: false,
        }
    }
}

/// The rows and markers within `selection`, in its direction.
fn select(
    rows: &[Row],
    tombstones: &RangeTombstoneList,
    selection: &Selection,
    comparator: &ClusteringComparator,
) -> VecDeque<Unfiltered> {
    let mut out = VecDeque::new();
    for slice in selection.slices.as_slice() {
        let from = rows
            .partition_point(|r| comparator.compare(r.clustering().into(), slice.start.position()).is_lt());
        let count = rows[from..]
            .partition_point(|r| comparator.compare(r.clustering().into(), slice.end.position()).is_lt());
        let within = rows[from..from + count].iter().cloned();
        let markers = tombstones.markers(slice, false, comparator).into_iter();
        let mut both = crate::stream::Interleave::new(within, markers, false);
        while let Some(next) = both.next(comparator) {
            out.push_back(next);
        }
    }
    if selection.reversed {
        out = out.into_iter().rev().map(reverse).collect();
    }
    out
}

/// Mirrors a marker for the opposite direction of iteration.
fn reverse(unfiltered: Unfiltered) -> Unfiltered {
    match unfiltered {
        Unfiltered::Row(row) => Unfiltered::Row(row),
        Unfiltered::Marker(mut marker) => {
            std::mem::swap(&mut marker.close, &mut marker.open);
            Unfiltered::Marker(marker)
        }
    }
}

/// A stream over one [`PartitionUpdate`].
#[derive(Debug)]
pub struct UpdateStream {
    header: Option<PartitionHeader>,
    pending: VecDeque<Unfiltered>,
    started: bool,
}

impl PartitionStream for UpdateStream {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        if self.started {
            self.pending.clear();
        }
        self.started = true;
        Ok(self.header.take())
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        Ok(if self.started { self.pending.pop_front() } else { None })
    }
}
