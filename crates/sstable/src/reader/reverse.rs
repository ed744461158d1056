//! The rows of a partition of Data.db as a [`Source`], in reverse order.

use std::ops::Range;

use cassette_rows::{
    Bound, DeletionTime, Position, RangeTombstoneMarker, Result, Slice, StorageError, TableMetadata,
    Unfiltered,
};

use super::RememberedKeys;
use super::rows::{Place, check_place};
use super::slicing::{Sought, Source};
use super::trail::Trail;
use crate::data::{Cursor, Pending};
use crate::index::PromotedIndex;
use crate::row_marks::RowMarks;

/// Returns rows from the last to the first.
///
/// Each row and marker contains the length of the one before it. A read of one slice traverses
/// forward to the last row of the slice, from a mark if the block has one, and then continues
/// backward from row to row. It checks that each row ends where the next one begins.
///
/// Other reads proceed block by block: each block is traversed forward once, which finds where its
/// rows and markers begin; they are decoded as they are returned. These are reads of several
/// slices, which may be in one block; of slices whose block has markers before their end, which
/// determine the deletion that is open there; and of rows whose lengths are wrong. A partition
/// without a row index is one block.
#[derive(Debug)]
pub struct Reverse {
    cursor: Cursor,
    place: Place,
    /// Whether the read has one slice.
    is_single: bool,
    /// The cache of marks.
    marks: Option<RememberedKeys>,
    /// The next row or marker of a read from row to row; `None` for a read block by block.
    back: Option<Back>,
    /// The blocks below this number are not yet read.
    unread: usize,
    /// Rows and markers from this offset on are not read block by block.
    before: u64,
    /// Offsets of the rows and markers that are left of the block read last, ascending.
    starts: Vec<u64>,
    /// The indexes in `starts` of the markers, ascending.
    markers: Vec<usize>,
    /// The next row or marker, if its head was read.
    pending: Option<Pending>,
}

/// The position of a read from row to row.
#[derive(Debug, Clone, Copy)]
enum Back {
    /// The row or marker at `start` is next; it must end at `end`, if that is known.
    At { start: u64, end: Option<u64> },
    /// There is none before.
    Beginning,
}

impl Reverse {
    /// The position of `cursor` is arbitrary. `marks` are used and extended. `is_single`: one slice
    /// is read.
    pub fn new(cursor: Cursor, place: Place, marks: Option<&RememberedKeys>, is_single: bool) -> Self {
        let unread = place.index.get().map_or(1, PromotedIndex::len);
        let codec = &cursor.format().clustering;
        let marks = marks.filter(|keys| keys.cache.keeps_marks() && RowMarks::can_mark(codec)).cloned();
        let (starts, markers) = (Vec::new(), Vec::new());
        Self {
            cursor,
            place,
            is_single,
            marks,
            back: None,
            unread,
            before: u64::MAX,
            starts,
            markers,
            pending: None,
        }
    }

    fn load(&mut self) -> Result<()> {
        if self.pending.is_some() {
            return Ok(());
        }
        match self.back {
            Some(Back::Beginning) => return Ok(()),
            Some(Back::At { start, end }) => {
                self.cursor.seek(start);
                match (self.cursor.next_head(), end) {
                    (Ok(pending), Some(end)) if pending.end_of_body(self.cursor.offset()) != Some(end) => {
                        self.go_by_blocks(end)?;
                    }
                    (Err(StorageError::Corrupt { .. }), Some(end)) => self.go_by_blocks(end)?,
                    (pending, _) => {
                        self.pending = Some(pending?);
                        return Ok(());
                    }
                }
            }
            None => {}
        }
        while self.starts.is_empty() && self.unread > 0 {
            self.unread -= 1;
            self.load_block()?;
        }
        if let Some(start) = self.starts.last() {
            self.cursor.seek(*start);
            self.pending = Some(self.cursor.next_head()?);
        }
        Ok(())
    }

    /// Continues block by block with the last row or marker before offset `before`: the length in
    /// the row there is wrong.
    fn go_by_blocks(&mut self, before: u64) -> Result<()> {
        self.back = None;
        self.before = before;
        let codec = &self.cursor.format().clustering;
        if let Some(index) = self.place.index.get() {
            while let Some(last) = self.unread.checked_sub(1) {
                let block = index.place(last, codec).map_err(|e| self.place.error(e))?;
                if self.place.start.saturating_add(block.offset) < before {
                    break;
                }
                self.unread = last;
            }
        }
        Ok(())
    }

    /// Returns the number and the offsets of the last block that begins before `bound`, and the
    /// deletion that is open at its beginning. A partition without a row index is one block.
    fn block_before(
        &self,
        bound: &Bound,
        table: &TableMetadata,
    ) -> Result<(usize, Range<u64>, DeletionTime)> {
        let Some(index) = self.place.index.get() else {
            return Ok((0, self.place.rows_start..u64::MAX, DeletionTime::LIVE));
        };
        let codec = &self.cursor.format().clustering;
        let found = index.last_beginning(bound.position(), codec, &table.comparator).and_then(|last| {
            let before = last.checked_sub(1).map(|before| index.place(before, codec)).transpose()?;
            Ok((last, index.place(last, codec)?, before))
        });
        let (number, place, before) = found.map_err(|e| self.place.error(e))?;
        let start = self.place.start.saturating_add(place.offset);
        let open = before.map_or(DeletionTime::LIVE, |before| before.open);
        Ok((number, start..start.saturating_add(place.width), open))
    }

    /// Finds the last row before `bound`, for a read from row to row. Returns the deletion that is
    /// open at `bound`; `None` if the block has a marker before it, or no row where the index has
    /// one.
    fn land(&mut self, bound: &Bound, table: &TableMetadata) -> Result<Option<DeletionTime>> {
        let (comparator, format) = (&table.comparator, self.cursor.format().clone());
        let codec = &format.clustering;
        let (number, block, open) = self.block_before(bound, table)?;
        let mut trail = self.marks.clone().map(|keys| Box::new(Trail::new(keys, self.place.rows_start)));
        self.cursor.seek(block.start);
        let mut expected = None;
        if self.place.index.get().is_some() {
            if let Some(trail) = &mut trail {
                trail.enter(block.start, block.end);
                let shortcut = trail.shortcut(bound, block.start, codec, comparator);
                self.cursor.seek(shortcut.unwrap_or(block.start));
            }
            // The read that left marks has checked it.
            if !trail.as_ref().is_some_and(|trail| trail.is_known()) {
                expected = self.place.first_of_block(number, &self.cursor)?;
            }
        }
        let mut last = None;
        while self.cursor.offset() < block.end {
            let pending = self.cursor.next_head()?;
            if let Some(expected) = expected.take() {
                check_place(&self.cursor, &pending, &expected)?;
            }
            if pending.is_marker() {
                return Ok(None);
            }
            let Some((clustering, body_length)) = pending.row() else { break };
            if comparator.compare(clustering.into(), bound.position()).is_gt() {
                break;
            }
            last = Some(pending.start());
            if let Some(trail) = &mut trail {
                let end = self.cursor.offset() + body_length as u64;
                trail.passed(pending.start(), end, clustering.data_size(), |out| {
                    codec.encode_values(clustering, out);
                });
            }
            self.cursor.skip_body(&pending);
            if self.cursor.offset() >= block.end {
                break;
            }
            self.cursor.pass_rows_before(bound, comparator, |start, end, clustering| {
                last = Some(start);
                let Some(trail) = &mut trail else { return end < block.end };
                trail.passed(start, end, clustering.len(), |out| out.extend_from_slice(clustering));
                end < block.end && !trail.is_long()
            })?;
            // A small partition may have no marks, and may end before a look-up of them pays.
            if let Some(trail) = trail.as_mut().filter(|trail| trail.is_long())
                && let Some(target) = trail.shortcut(bound, self.cursor.offset(), codec, comparator)
            {
                self.cursor.seek(target);
            }
        }
        if let Some(trail) = &mut trail {
            trail.leave_marks();
        }
        self.back = match last {
            Some(start) => Some(Back::At { start, end: None }),
            None if number == 0 => Some(Back::Beginning),
            None => return Ok(None),
        };
        Ok(Some(open))
    }

    /// Finds the rows and markers of block `unread`.
    fn load_block(&mut self) -> Result<()> {
        let mut end = u64::MAX;
        let mut expected = None;
        match self.place.index.get() {
            Some(index) => {
                let block = index
                    .block(self.unread, &self.cursor.format().clustering)
                    .map_err(|e| self.place.error(e))?;
                let start = self.place.start.saturating_add(block.offset);
                end = start.saturating_add(block.width);
                self.cursor.seek(start);
                expected = Some(block.first);
            }
            None => self.cursor.seek(self.place.rows_start),
        }
        end = end.min(self.before);
        while self.cursor.offset() < end {
            let pending = self.cursor.next_head()?;
            if pending.is_end() {
                break;
            }
            if let Some(expected) = expected.take() {
                check_place(&self.cursor, &pending, &expected)?;
            }
            if pending.is_marker() {
                self.markers.push(self.starts.len());
            }
            self.starts.push(pending.start());
            self.cursor.skip_body(&pending);
            self.cursor.pass_rows(end, &mut self.starts)?;
        }
        Ok(())
    }

    /// Takes the row or marker that [`load`](Self::load) found. The cursor is at its body.
    fn pop(&mut self) -> Result<Option<Pending>> {
        if self.back.is_none() {
            self.starts.pop();
            self.markers.pop_if(|marker| *marker >= self.starts.len());
            return Ok(self.pending.take());
        }
        let Some(pending) = self.pending.take() else { return Ok(None) };
        let start = pending.start();
        self.back = Some(if start <= self.place.rows_start {
            Back::Beginning
        } else {
            let length = self.cursor.length_of_previous()?;
            // A wrong length fails the check that the row there ends here.
            let previous = start.checked_sub(length).filter(|at| *at >= self.place.rows_start);
            Back::At { start: previous.unwrap_or(start), end: Some(start) }
        });
        Ok(Some(pending))
    }

    fn clear(&mut self) {
        self.starts.clear();
        self.markers.clear();
        self.pending = None;
    }
}

/// Mirrors a marker for the opposite direction.
fn reversed(mut marker: RangeTombstoneMarker) -> RangeTombstoneMarker {
    std::mem::swap(&mut marker.close, &mut marker.open);
    marker
}

impl Source for Reverse {
    fn seek(&mut self, slice: &Slice, table: &TableMetadata) -> Result<Sought> {
        if self.is_single
            && let Some(open) = self.land(&slice.end, table)?
        {
            return Ok(Sought::Beyond(Some(open).filter(|open| !open.is_live())));
        }
        let Some(index) = self.place.index.get() else { return Ok(Sought::Near) };
        let codec = self.cursor.format().clustering.clone();
        let found = index
            .last_beginning(slice.end.position(), &codec, &table.comparator)
            .and_then(|number| Ok((number, index.block(number, &codec)?)));
        let (number, block) = found.map_err(|e| self.place.error(e))?;
        // The block is the next one, or has been read already.
        if number + 1 >= self.unread {
            return Ok(Sought::Near);
        }
        self.clear();
        self.unread = number + 1;
        Ok(Sought::Beyond(Some(block.open).filter(|open| !open.is_live())))
    }

    fn peek(&mut self) -> Result<Option<Position<'_>>> {
        self.load()?;
        Ok(self.pending.as_ref().and_then(Pending::position))
    }

    fn take(&mut self) -> Result<Option<Unfiltered>> {
        self.load()?;
        let Some(pending) = self.pop()? else { return Ok(None) };
        Ok(match self.cursor.body(pending)? {
            Some(Unfiltered::Marker(marker)) => Some(reversed(*marker).into()),
            other => other,
        })
    }

    fn skip(&mut self) -> Result<Option<RangeTombstoneMarker>> {
        self.load()?;
        match self.pop()? {
            Some(pending) if pending.is_marker() => match self.cursor.body(pending)? {
                Some(Unfiltered::Marker(marker)) => Ok(Some(reversed(*marker))),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Skips the rows from the end to the last marker that are not before `bound`.
    fn pass_rows_before(&mut self, bound: &Bound, table: &TableMetadata) -> Result<()> {
        if self.pending.is_some() || self.back.is_some() {
            return Ok(());
        }
        let (mut low, mut high) = (self.markers.last().map_or(0, |marker| marker + 1), self.starts.len());
        while low < high {
            let middle = low + (high - low) / 2;
            self.cursor.seek(self.starts[middle]);
            let is_before = match self.cursor.next_head()?.position() {
                Some(position) => table.comparator.compare(position, bound.position()).is_lt(),
                None => false,
            };
            if is_before { low = middle + 1 } else { high = middle }
        }
        self.starts.truncate(low);
        Ok(())
    }
}
