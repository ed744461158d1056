//! The rows of a partition of Data.db as a [`Source`], in the table's order.

use std::sync::Arc;

use cassette_rows::{
    Bound, Position, RangeTombstoneMarker, Result, RowProbe, Slice, TableMetadata, Unfiltered,
};

use super::RememberedKeys;
use super::slicing::{Sought, Source};
use super::trail::Trail;
use crate::chunked_file::ChunkedFile;
use crate::clustering_codec::Prefix;
use crate::data::{Cursor, Pending};
use crate::error::Malformed;
use crate::index::{Landing, PromotedIndex};
use crate::large_partition::LargePartition;
use crate::row_filter::RowFilter;
use crate::row_marks::RowMarks;

/// A partition's row index and positions.
#[derive(Debug)]
pub struct Place {
    /// The partition's offset in the stream.
    pub start: u64,
    /// The offset of its first row or marker, or its end, in the stream.
    pub rows_start: u64,
    /// Its index, if it is large enough to have one, and the read uses it.
    pub index: RowIndex,
    /// The file of the index.
    pub index_file: Arc<ChunkedFile>,
}

/// The owner of a partition's row index.
#[derive(Debug)]
pub enum RowIndex {
    /// No index.
    None,
    /// Loaded by this read.
    Read(PromotedIndex),
    /// Owned by the key cache.
    Remembered(Arc<LargePartition>),
}

impl RowIndex {
    pub(super) fn get(&self) -> Option<&PromotedIndex> {
        match self {
            Self::None => None,
            Self::Read(index) => Some(index),
            Self::Remembered(large) => large.index(),
        }
    }
}

impl Place {
    pub(super) fn error(&self, malformed: Malformed) -> cassette_rows::StorageError {
        malformed.at(self.index_file.path())
    }

    /// Returns the first position of a block of the index.
    pub(super) fn first_of_block(&self, number: usize, cursor: &Cursor) -> Result<Option<Prefix>> {
        let Some(index) = self.index.get() else { return Ok(None) };
        let first = index.first(number, &cursor.format().clustering).map_err(|e| self.error(e))?;
        Ok(Some(first))
    }
}

/// The block at which a slice begins, and its cached marks.
#[derive(Debug)]
pub struct Landed {
    pub landing: Landing,
    pub known: Option<Arc<RowMarks>>,
}

impl Landed {
    /// Returns whether the slice contains neither rows nor markers. `true` is certain.
    pub fn rules_out(&self, slice: &Slice, table: &TableMetadata) -> bool {
        rules_out(&self.landing, slice, table, self.known.as_deref())
    }
}

/// The block reaches the slice or beyond, if any does: without a row of the slice it goes beyond,
/// or the partition ends there.
fn rules_out(landing: &Landing, slice: &Slice, table: &TableMetadata, known: Option<&RowMarks>) -> bool {
    landing.open.is_live()
        && known.is_some_and(|known| {
            let value = RowFilter::value_of(slice, &table.comparator);
            value.is_some_and(|value| known.filter().rules_out(value))
        })
}

/// Rows in the table's order.
#[derive(Debug)]
pub struct Forward {
    cursor: Cursor,
    place: Place,
    pending: Option<Pending>,
    /// The next position by the index; checked when it is read.
    expected: Option<Prefix>,
    /// The cache of marks, until a trail takes it over.
    marks: Option<RememberedKeys>,
    /// The start of the first slice, if it is already known.
    landed: Option<Landed>,
    /// The progress in the current block; none before a row is skipped, or for a partition of
    /// several blocks.
    trail: Option<Box<Trail>>,
}

impl Forward {
    /// `cursor` is at the partition's first row or marker. `marks` are used for lookups and
    /// extended for other reads. `landed` is that of the first slice.
    pub fn new(cursor: Cursor, place: Place, marks: Option<&RememberedKeys>, landed: Option<Landed>) -> Self {
        let codec = &cursor.format().clustering;
        let marks = marks.filter(|keys| keys.cache.keeps_marks() && RowMarks::can_mark(codec)).cloned();
        Self { cursor, place, pending: None, expected: None, marks, landed, trail: None }
    }

    fn offset(&self) -> u64 {
        self.pending.as_ref().map_or(self.cursor.offset(), Pending::start)
    }

    fn load(&mut self) -> Result<()> {
        if self.pending.is_none() {
            let pending = self.cursor.next_head()?;
            if let Some(expected) = self.expected.take() {
                check_place(&self.cursor, &pending, &expected)?;
            }
            self.pending = Some(pending);
        }
        Ok(())
    }

    fn begin_trail(&mut self) {
        if let Some(keys) = self.marks.take() {
            self.trail = Some(Box::new(Trail::new(keys, self.place.rows_start)));
        }
    }

    /// Continues at the last mark before `bound` in the trail's block, if that is after `from`,
    /// which is in the block.
    fn take_shortcut(&mut self, bound: &Bound, from: u64, table: &TableMetadata) -> bool {
        let codec = &self.cursor.format().clustering;
        let shortcut =
            self.trail.as_mut().and_then(|trail| trail.shortcut(bound, from, codec, &table.comparator));
        if let Some(target) = shortcut {
            self.cursor.seek(target);
            self.pending = None;
            self.expected = None;
        }
        shortcut.is_some()
    }

    /// Records a row whose body is read or skipped next.
    #[inline]
    fn note(&mut self, pending: &Pending) {
        if let Some(trail) = &mut self.trail
            && let Some((clustering, body_length)) = pending.row()
        {
            let end = self.cursor.offset() + body_length as u64;
            let codec = &self.cursor.format().clustering;
            trail.passed(pending.start(), end, clustering.data_size(), |out| {
                codec.encode_values(clustering, out);
            });
        }
    }

    fn pass(&mut self, bound: &Bound, table: &TableMetadata) -> Result<()> {
        let comparator = &table.comparator;
        let Some(trail) = &mut self.trail else {
            return self.cursor.pass_rows_before(bound, comparator, |_, _, _| true);
        };
        self.cursor.pass_rows_before(bound, comparator, |start, end, clustering| {
            trail.passed(start, end, clustering.len(), |out| out.extend_from_slice(clustering));
            !trail.is_long()
        })
    }
}

/// Fails if Index.db and Data.db disagree about the first position of a block.
pub(super) fn check_place(cursor: &Cursor, pending: &Pending, expected: &Prefix) -> Result<()> {
    let expected = expected.position();
    match pending.position() {
        Some(found) if found.prefix == expected.prefix && found.side == expected.side => Ok(()),
        _ => Err(cursor.corrupt(pending.start(), "expected the first row of a block in Index.db")),
    }
}

impl Source for Forward {
    fn seek(&mut self, slice: &Slice, table: &TableMetadata) -> Result<Sought> {
        let bound = &slice.start;
        let Some(index) = self.place.index.get() else {
            // The partition is a single block.
            if self.trail.as_ref().is_some_and(|trail| trail.is_known())
                && self.take_shortcut(bound, self.offset(), table)
            {
                self.pass(bound, table)?;
            }
            return Ok(Sought::Near);
        };
        let codec = &self.cursor.format().clustering;
        let (landing, known) = match self.landed.take() {
            Some(Landed { landing, known }) => (landing, Some(known)),
            None => {
                let landing = index.landing(bound, codec, &table.comparator);
                (landing.map_err(|e| self.place.error(e))?, None)
            }
        };
        let Landing { number, place: block, open } = landing;
        let target = self.place.start.saturating_add(block.offset);
        let is_ahead = target > self.offset();
        self.begin_trail();
        if let Some(trail) = &mut self.trail {
            trail.enter(target, target.saturating_add(block.width));
            match known {
                // The filter did not exclude the slice.
                Some(known) => trail.told(known),
                None if rules_out(&landing, slice, table, trail.ask()) => return Ok(Sought::Nothing),
                None => {}
            }
        }
        if self.take_shortcut(bound, target.max(self.offset()), table) {
            self.pass(bound, table)?;
        } else if is_ahead {
            // The read that left marks has checked it.
            let first = if self.trail.as_ref().is_some_and(|trail| trail.is_known()) {
                None
            } else {
                self.place.first_of_block(number, &self.cursor)?
            };
            self.cursor.seek(target);
            self.pending = None;
            self.expected = first;
        }
        // A deletion open at the beginning of a block is open at its marks.
        Ok(if is_ahead { Sought::Beyond(Some(open).filter(|open| !open.is_live())) } else { Sought::Near })
    }

    fn peek(&mut self) -> Result<Option<Position<'_>>> {
        self.load()?;
        Ok(self.pending.as_ref().and_then(Pending::position))
    }

    fn take(&mut self) -> Result<Option<Unfiltered>> {
        self.load()?;
        match self.pending.take_if(|pending| !pending.is_end()) {
            Some(pending) => {
                self.note(&pending);
                self.cursor.body(pending)
            }
            None => Ok(None),
        }
    }

    fn skip(&mut self) -> Result<Option<RangeTombstoneMarker>> {
        self.load()?;
        match self.pending.take_if(|pending| !pending.is_end()) {
            Some(pending) if pending.is_marker() => match self.cursor.body(pending)? {
                Some(Unfiltered::Marker(marker)) => Ok(Some(*marker)),
                _ => Ok(None),
            },
            Some(pending) => {
                self.begin_trail();
                self.note(&pending);
                self.cursor.skip_body(&pending);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn pass_rows_before(&mut self, bound: &Bound, table: &TableMetadata) -> Result<()> {
        // The next position by the index is still to be checked, and rows that are already read
        // must not be skipped.
        if self.pending.is_some() || self.expected.is_some() {
            return Ok(());
        }
        self.pass(bound, table)?;
        if self.trail.as_ref().is_some_and(|trail| trail.is_long()) {
            self.take_shortcut(bound, self.cursor.offset(), table);
            self.pass(bound, table)?;
        }
        Ok(())
    }

    fn pass_live_rows_before(
        &mut self,
        bound: &Bound,
        table: &TableMetadata,
        limit: u64,
        probe: &mut dyn RowProbe,
    ) -> Result<u64> {
        if self.pending.is_some() || self.expected.is_some() {
            return Ok(0);
        }
        self.cursor.pass_live_rows_before(bound, &table.comparator, limit, probe)
    }

    fn arrived(&mut self) {
        if let Some(trail) = &mut self.trail {
            trail.leave_marks();
        }
    }

    fn missed(&mut self, slice: &Slice, table: &TableMetadata) {
        let Some(trail) = &mut self.trail else { return };
        if RowFilter::value_of(slice, &table.comparator).is_some()
            && let Some(block) = trail.missed()
        {
            let cursor = &self.cursor;
            let cursor = Cursor::new(cursor.file().clone(), cursor.format().clone(), cursor.caching());
            // The error concerns rows outside of this read; reads of those rows report it.
            if let Ok(filter) = RowFilter::of_block(cursor, block) {
                trail.leave_filter(filter);
            }
        }
    }
}
