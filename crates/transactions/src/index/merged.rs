//! Several rows of entries as one iterator in order, from both ends.

use bytes::Bytes;

use crate::Range;
use crate::error::Result;

type Item = (Bytes, Bytes);

/// Columns of several rows, which have no column in common, in order.
pub(super) struct Merged<'t> {
    rows: Vec<Row<'t>>,
}

/// A row with the next column at each end, once it was needed.
struct Row<'t> {
    range: Range<'t>,
    front: Option<Item>,
    back: Option<Item>,
}

impl<'t> Row<'t> {
    /// Returns the first column that is left.
    fn first(&mut self) -> Result<Option<&Item>> {
        if self.front.is_none() {
            self.front = self.range.next().transpose()?.or_else(|| self.back.take());
        }
        Ok(self.front.as_ref())
    }

    fn last(&mut self) -> Result<Option<&Item>> {
        if self.back.is_none() {
            self.back = self.range.next_back().transpose()?.or_else(|| self.front.take());
        }
        Ok(self.back.as_ref())
    }
}

impl<'t> Merged<'t> {
    pub fn new(rows: Vec<Range<'t>>) -> Self {
        Self { rows: rows.into_iter().map(|range| Row { range, front: None, back: None }).collect() }
    }

    fn take_first(&mut self) -> Result<Option<Item>> {
        if let [row] = &mut self.rows[..] {
            // The usual case: nothing to compare.
            return row.first().map(drop).map(|()| row.front.take());
        }
        let mut least: Option<(usize, Bytes)> = None;
        for (index, row) in self.rows.iter_mut().enumerate() {
            if let Some((column, _)) = row.first()?
                && least.as_ref().is_none_or(|(_, least)| column < least)
            {
                least = Some((index, column.clone()));
            }
        }
        Ok(least.and_then(|(index, _)| self.rows.get_mut(index)?.front.take()))
    }

    fn take_last(&mut self) -> Result<Option<Item>> {
        let mut greatest: Option<(usize, Bytes)> = None;
        for (index, row) in self.rows.iter_mut().enumerate() {
            if let Some((column, _)) = row.last()?
                && greatest.as_ref().is_none_or(|(_, greatest)| column > greatest)
            {
                greatest = Some((index, column.clone()));
            }
        }
        Ok(greatest.and_then(|(index, _)| self.rows.get_mut(index)?.back.take()))
    }
}

impl Iterator for Merged<'_> {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take_first().transpose()
    }
}

impl DoubleEndedIterator for Merged<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take_last().transpose()
    }
}
