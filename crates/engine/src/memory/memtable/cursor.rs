//! Iterates over one partition of a memtable under a selection.

use std::iter::Peekable;
use std::sync::Arc;

use cassette_rows::{
    PROBED_COLUMNS, RangeTombstoneMarker, Row, RowProbe, Selection, TableMetadata, Unfiltered,
};

use super::columns::visible;
use super::partition::{Partition, Place};

/// The selected rows and markers of a snapshot of a partition, in the selection's direction.
pub(super) struct Cursor {
    partition: Partition,
    table: Arc<TableMetadata>,
    selection: Arc<Selection>,
    /// The number of slices entered so far, in the direction of iteration.
    slices: usize,
    /// The remaining rows of the current slice are between these two, in the table's order.
    from: Place,
    to: Place,
    markers: Peekable<std::vec::IntoIter<RangeTombstoneMarker>>,
    /// Whether rows are prefetched into the processor's caches, if they are read in the table's
    /// order.
    pub warms: bool,
}

impl Cursor {
    pub fn new(partition: Partition, table: Arc<TableMetadata>, selection: Arc<Selection>) -> Self {
        Self {
            partition,
            table,
            selection,
            slices: 0,
            from: Place::default(),
            to: Place::default(),
            markers: Vec::new().into_iter().peekable(),
            warms: false,
        }
    }

    pub fn next(&mut self) -> Option<Unfiltered> {
        loop {
            if self.from == self.to && self.markers.peek().is_none() {
                if !self.enter_next_slice() {
                    return None;
                }
                continue;
            }
            if !self.row_is_next() {
                return self.markers.next().map(Unfiltered::from);
            }
            if let Some(row) = self.next_row() {
                return Some(Unfiltered::Row(row));
            }
        }
    }

    /// See [`PartitionStream::pass_live_rows`](cassette_rows::PartitionStream::pass_live_rows).
    pub fn pass_live_rows(&mut self, limit: u64, probe: &mut dyn RowProbe) -> u64 {
        let is_plain = !self.selection.reversed
            && self.partition.tombstones().is_none()
            && self.table.dropped_columns.is_empty();
        if !is_plain {
            return 0;
        }
        let mut passed = 0;
        while passed < limit {
            if self.from == self.to {
                if self.enter_next_slice() {
                    continue;
                }
                break;
            }
            if self.warms {
                self.partition.warm_batch(self.from);
            }
            let Some(row) = self.partition.row_after(self.from) else { break };
            if !is_skipped(row, probe) {
                break;
            }
            self.from = self.partition.next(self.from);
            passed += 1;
        }
        passed
    }

    /// Returns the current row, if anything of it is left.
    fn next_row(&mut self) -> Option<Row> {
        let row = if self.selection.reversed {
            self.to = self.partition.previous(self.to);
            self.partition.row_after(self.to)
        } else {
            if self.warms {
                self.partition.warm_batch(self.from);
            }
            let row = self.partition.row_after(self.from);
            self.from = self.partition.next(self.from);
            row
        };
        visible(row?.clone(), &self.table)
    }

    fn row_is_next(&mut self) -> bool {
        let Some(marker) = self.markers.peek() else { return true };
        if self.from == self.to {
            return false;
        }
        let reversed = self.selection.reversed;
        let place = if reversed { self.partition.previous(self.to) } else { self.from };
        let Some(row) = self.partition.row_after(place) else { return false };
        let order = self.table.comparator.compare(row.clustering().into(), marker.bound.position());
        if reversed { order.is_gt() } else { order.is_lt() }
    }

    fn enter_next_slice(&mut self) -> bool {
        let slices = self.selection.slices.as_slice();
        let reversed = self.selection.reversed;
        let index = if reversed { slices.len().checked_sub(self.slices + 1) } else { Some(self.slices) };
        let Some(slice) = index.and_then(|index| slices.get(index)) else { return false };
        self.slices += 1;
        let comparator = &self.table.comparator;
        if slice.start.prefix.is_empty() && slice.end.prefix.is_empty() {
            (self.from, self.to) = (Place::default(), self.partition.end());
        } else {
            self.from = self.partition.place(slice.start.position(), comparator);
            self.to = self.partition.place(slice.end.position(), comparator);
        }
        if let Some(tombstones) = self.partition.tombstones() {
            self.markers = tombstones.markers(slice, reversed, comparator).into_iter().peekable();
        }
        true
    }
}

/// Returns whether every reader sees a row at any time, and `probe` skips it.
pub(super) fn is_skipped(row: &Row, probe: &mut dyn RowProbe) -> bool {
    if row.has_deletions() || row.liveness().is_empty() {
        return false;
    }
    let columns = probe.columns();
    if columns.is_empty() {
        return true;
    }
    let mut values = [None; PROBED_COLUMNS];
    let Some(values) = values.get_mut(..columns.len()) else { return false };
    for (value, column) in values.iter_mut().zip(columns) {
        *value = row.cell(*column).map(|cell| cell.value);
    }
    probe.skips(values)
}
