//! One partition's rows and markers under a selection, forward or reversed.
//!
//! A [`Source`] returns all of them in the direction of the read and supports seeking; [`Sliced`]
//! keeps those in the slices, and clips range tombstones to them.

use std::cmp::Ordering;
use std::sync::Arc;

use cassette_rows::{
    Bound, DeletionTime, Position, RangeTombstoneMarker, Result, RowProbe, Selection, Slice, TableMetadata,
    Unfiltered,
};

/// Rows and markers of one partition in one direction.
pub trait Source {
    /// Moves to the start of the rows of `slice`, in the direction of the read, or to a position
    /// before it.
    fn seek(&mut self, slice: &Slice, table: &TableMetadata) -> Result<Sought>;

    /// Returns the position of the next row or marker; `None` at the end.
    fn peek(&mut self) -> Result<Option<Position<'_>>>;

    /// Returns the next row or marker; `None` if nothing is left of the row, or at the end.
    fn take(&mut self) -> Result<Option<Unfiltered>>;

    /// Skips the next row or marker; returns the marker.
    fn skip(&mut self) -> Result<Option<RangeTombstoneMarker>>;

    /// Skips some of the next rows before `bound`, where that is cheaper than one by one.
    fn pass_rows_before(&mut self, _bound: &Bound, _table: &TableMetadata) -> Result<()> {
        Ok(())
    }

    /// Skips live rows before `bound`, up to `limit`. Returns their number; 0 is always correct.
    fn pass_live_rows_before(
        &mut self,
        _bound: &Bound,
        _table: &TableMetadata,
        _limit: u64,
        _probe: &mut dyn RowProbe,
    ) -> Result<u64> {
        Ok(0)
    }

    /// All rows before the slice were skipped.
    fn arrived(&mut self) {}

    /// Nothing was found in the last slice.
    fn missed(&mut self, _slice: &Slice, _table: &TableMetadata) {}
}

/// The result of seeking a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sought {
    /// No marker was skipped; the slice may begin later.
    Near,
    /// Markers may have been skipped: the deletion open at the position, in the direction of the
    /// read. The slice may begin later.
    Beyond(Option<DeletionTime>),
    /// The slice contains neither rows nor markers, and no deletion is open there. The source has
    /// not moved.
    Nothing,
}

/// The part of a [`Source`] in a selection.
#[derive(Debug)]
pub struct Sliced<S> {
    source: S,
    table: Arc<TableMetadata>,
    selection: Arc<Selection>,
    /// Slices entered, counted in the direction of the read.
    entered: usize,
    within: bool,
    /// Whether anything was found in the current slice.
    found: bool,
    /// The deletion open at the source's position.
    open: Option<DeletionTime>,
}

impl<S: Source> Sliced<S> {
    /// Creates the selection of a source at its beginning.
    pub fn new(source: S, table: Arc<TableMetadata>, selection: Arc<Selection>) -> Self {
        Self { source, table, selection, entered: 0, within: false, found: false, open: None }
    }

    /// The next row or marker.
    pub fn next(&mut self) -> Result<Option<Unfiltered>> {
        loop {
            if !self.within {
                match self.enter()? {
                    Some(Some(marker)) => return Ok(Some(marker.into())),
                    Some(None) if !self.within => continue,
                    Some(None) => {}
                    None => return Ok(None),
                }
            }
            let Some(slice) = slice(&self.selection, self.entered - 1) else { return Ok(None) };
            let last = edge(slice, &self.selection, true);
            let reversed = self.selection.reversed;
            let before_end = match self.source.peek()? {
                Some(position) => compare(&self.table, reversed, position, last.position()).is_lt(),
                None => false,
            };
            if before_end {
                self.found = true;
                match self.source.take()? {
                    Some(Unfiltered::Marker(marker)) => {
                        self.open = marker.open;
                        return Ok(Some(Unfiltered::Marker(marker)));
                    }
                    Some(row) => return Ok(Some(row)),
                    None => continue,
                }
            }
            self.within = false;
            if !self.found {
                self.source.missed(slice, &self.table);
            }
            if self.open.is_some() {
                let marker = RangeTombstoneMarker { bound: last.clone(), close: self.open, open: None };
                return Ok(Some(marker.into()));
            }
        }
    }

    /// Skips live rows of the current slice; see
    /// [`PartitionStream::pass_live_rows`](cassette_rows::PartitionStream::pass_live_rows).
    pub fn pass_live_rows(&mut self, limit: u64, probe: &mut dyn RowProbe) -> Result<u64> {
        if !self.within || self.open.is_some() || self.selection.reversed {
            return Ok(0);
        }
        let Some(slice) = slice(&self.selection, self.entered - 1) else { return Ok(0) };
        let passed = self.source.pass_live_rows_before(&slice.end, &self.table, limit, probe)?;
        self.found |= passed > 0;
        Ok(passed)
    }

    /// Moves to the next slice: returns `None` if there is none, else the marker for a deletion
    /// that is open there. Skips an empty slice.
    fn enter(&mut self) -> Result<Option<Option<RangeTombstoneMarker>>> {
        let Some(slice) = slice(&self.selection, self.entered) else { return Ok(None) };
        let first = edge(slice, &self.selection, false);
        let reversed = self.selection.reversed;
        self.entered += 1;
        match self.source.seek(slice, &self.table)? {
            Sought::Near => {}
            Sought::Beyond(open) => self.open = open,
            Sought::Nothing => return Ok(Some(None)),
        }
        loop {
            match self.source.peek()? {
                // A marker at the slice's edge counts as passed: its deletion is opened again
                // there.
                Some(position) if compare(&self.table, reversed, position, first.position()).is_le() => {}
                _ => break,
            }
            if let Some(marker) = self.source.skip()? {
                self.open = marker.open;
            }
            self.source.pass_rows_before(first, &self.table)?;
        }
        self.source.arrived();
        self.within = true;
        self.found = self.open.is_some();
        Ok(Some(self.open.map(|open| RangeTombstoneMarker {
            bound: first.clone(),
            close: None,
            open: Some(open),
        })))
    }
}

/// Returns slice number `index`, in the direction of the read.
fn slice(selection: &Selection, index: usize) -> Option<&Slice> {
    let slices = selection.slices.as_slice();
    if selection.reversed { slices.get(slices.len().checked_sub(index + 1)?) } else { slices.get(index) }
}

/// Returns the start or end of a slice, in the direction of the read.
fn edge<'a>(slice: &'a Slice, selection: &Selection, end: bool) -> &'a Bound {
    if end == selection.reversed { &slice.start } else { &slice.end }
}

/// Compares two positions in the direction of the read.
fn compare(table: &TableMetadata, reversed: bool, a: Position<'_>, b: Position<'_>) -> Ordering {
    if reversed { table.comparator.compare(b, a) } else { table.comparator.compare(a, b) }
}
