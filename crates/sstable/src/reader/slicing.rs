//! One partition's rows and markers under a selection, forwards or in reverse.
//!
//! A [`Source`] gives all of them in the direction of the read and knows how to jump; [`Sliced`] keeps what lies in the
//! slices, and clips range tombstones to them.

use std::cmp::Ordering;
use std::sync::Arc;

use cassette_rows::{
    Bound, DeletionTime, Position, RangeTombstoneMarker, Result, Selection, TableMetadata, Unfiltered,
};

/// Rows and markers of one partition in one direction.
pub trait Source {
    /// Goes on to where the rows beyond `bound` begin, or stays before it. If it passed over markers to get there,
    /// gives the deletion that is open there, in the direction of the read.
    fn seek(&mut self, bound: &Bound, table: &TableMetadata) -> Result<Option<Option<DeletionTime>>>;

    /// The place of the next row or marker; `None` at the end.
    fn peek(&mut self) -> Result<Option<Position<'_>>>;

    /// The next row or marker; `None` if nothing is left of the row, or at the end.
    fn take(&mut self) -> Result<Option<Unfiltered>>;

    /// Passes over the next row or marker; the marker is given.
    fn skip(&mut self) -> Result<Option<RangeTombstoneMarker>>;

    /// Passes over some of the rows before `bound` that come next, where that is cheaper than one by one.
    fn pass_rows_before(&mut self, _bound: &Bound, _table: &TableMetadata) -> Result<()> {
        Ok(())
    }

    /// All rows before the bound were passed over.
    fn arrived(&mut self) {}
}

/// What of a [`Source`] lies in a selection.
#[derive(Debug)]
pub struct Sliced<S> {
    source: S,
    table: Arc<TableMetadata>,
    selection: Arc<Selection>,
    /// Slices entered, counted in the direction of the read.
    entered: usize,
    within: bool,
    /// The deletion open at the source's place.
    open: Option<DeletionTime>,
}

impl<S: Source> Sliced<S> {
    /// Of a source at its beginning.
    pub fn new(source: S, table: Arc<TableMetadata>, selection: Arc<Selection>) -> Self {
        Self { source, table, selection, entered: 0, within: false, open: None }
    }

    /// The next row or marker.
    pub fn next(&mut self) -> Result<Option<Unfiltered>> {
        loop {
            if !self.within {
                match self.enter()? {
                    Some(Some(marker)) => return Ok(Some(marker.into())),
                    Some(None) => {}
                    None => return Ok(None),
                }
            }
            let Some(last) = edge(&self.selection, self.entered - 1, true) else { return Ok(None) };
            let reversed = self.selection.reversed;
            let before_end = match self.source.peek()? {
                Some(position) => compare(&self.table, reversed, position, last.position()).is_lt(),
                None => false,
            };
            if before_end {
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
            if self.open.is_some() {
                let marker = RangeTombstoneMarker { bound: last.clone(), close: self.open, open: None };
                return Ok(Some(marker.into()));
            }
        }
    }

    /// Goes to the next slice: `None` if there is none, else the marker that a deletion open there needs.
    fn enter(&mut self) -> Result<Option<Option<RangeTombstoneMarker>>> {
        let Some(first) = edge(&self.selection, self.entered, false) else { return Ok(None) };
        let reversed = self.selection.reversed;
        if let Some(open) = self.source.seek(first, &self.table)? {
            self.open = open;
        }
        loop {
            match self.source.peek()? {
                // A marker at the slice's edge counts as passed: what it opens is opened anew there.
                Some(position) if compare(&self.table, reversed, position, first.position()).is_le() => {}
                _ => break,
            }
            if let Some(marker) = self.source.skip()? {
                self.open = marker.open;
            }
            self.source.pass_rows_before(first, &self.table)?;
        }
        self.source.arrived();
        self.entered += 1;
        self.within = true;
        Ok(Some(self.open.map(|open| RangeTombstoneMarker {
            bound: first.clone(),
            close: None,
            open: Some(open),
        })))
    }
}

/// Where slice number `index`, in the direction of the read, begins or ends.
fn edge(selection: &Selection, index: usize, end: bool) -> Option<&Bound> {
    let slices = selection.slices.as_slice();
    let slice = match selection.reversed {
        true => slices.get(slices.len().checked_sub(index + 1)?)?,
        false => slices.get(index)?,
    };
    Some(if end == selection.reversed { &slice.start } else { &slice.end })
}

/// The order of two places in the direction of the read.
fn compare(table: &TableMetadata, reversed: bool, a: Position<'_>, b: Position<'_>) -> Ordering {
    match reversed {
        true => table.comparator.compare(b, a),
        false => table.comparator.compare(a, b),
    }
}
