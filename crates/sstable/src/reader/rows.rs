//! The rows of a partition of Data.db as [`Source`]s: forwards, and in reverse.

use std::sync::Arc;

use cassette_rows::{Bound, DeletionTime, Position, RangeTombstoneMarker, Result, TableMetadata, Unfiltered};

use super::slicing::Source;
use crate::chunked_file::ChunkedFile;
use crate::data::clustering_codec::Prefix;
use crate::data::{Cursor, Pending};
use crate::error::Malformed;
use crate::index::PromotedIndex;

/// A partition's index of rows, and where things lie.
#[derive(Debug)]
pub struct Place {
    /// Where the partition begins in the stream.
    pub start: u64,
    /// Where its first row or marker, or its end, lies in the stream.
    pub rows_start: u64,
    /// Its index, if it is large enough to have one.
    pub promoted: Option<PromotedIndex>,
    /// The file that the index is from.
    pub index_file: Arc<ChunkedFile>,
}

impl Place {
    fn error(&self, malformed: Malformed) -> cassette_rows::StorageError {
        malformed.at(self.index_file.path())
    }
}

/// Rows in the table's order.
#[derive(Debug)]
pub struct Forward {
    cursor: Cursor,
    place: Place,
    pending: Option<Pending>,
    /// What the index says comes next; checked when it is read.
    expected: Option<Prefix>,
}

impl Forward {
    /// `cursor` stands at the partition's first row or marker.
    pub fn new(cursor: Cursor, place: Place) -> Self {
        Self { cursor, place, pending: None, expected: None }
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
}

/// Fails if Index.db and Data.db do not agree on what a block begins with.
fn check_place(cursor: &Cursor, pending: &Pending, expected: &Prefix) -> Result<()> {
    let expected = expected.position();
    match pending.position() {
        Some(found) if found.prefix == expected.prefix && found.side == expected.side => Ok(()),
        _ => Err(cursor.corrupt(pending.start(), "the row expected with which Index.db says a block begins")),
    }
}

impl Source for Forward {
    fn seek(&mut self, bound: &Bound, table: &TableMetadata) -> Result<Option<Option<DeletionTime>>> {
        let Some(index) = &self.place.promoted else { return Ok(None) };
        let codec = self.cursor.format().clustering.clone();
        let found = index
            .first_reaching(bound.position(), &codec, &table.comparator)
            // When no block reaches so far, the last one still says what is open at the end: nothing.
            .and_then(|block| Ok((block, index.block(block.min(index.len() - 1), &codec)?)))
            .and_then(|(number, block)| {
                let open = match number.checked_sub(1) {
                    Some(before) => index.block(before, &codec)?.open,
                    None => DeletionTime::LIVE,
                };
                Ok((block, open))
            });
        let (block, open) = found.map_err(|e| self.place.error(e))?;
        let target = self.place.start.saturating_add(block.offset);
        if target <= self.offset() {
            return Ok(None);
        }
        self.cursor.seek(target);
        self.pending = None;
        self.expected = Some(block.first);
        Ok(Some(Some(open).filter(|open| !open.is_live())))
    }

    fn peek(&mut self) -> Result<Option<Position<'_>>> {
        self.load()?;
        Ok(self.pending.as_ref().and_then(Pending::position))
    }

    fn take(&mut self) -> Result<Option<Unfiltered>> {
        self.load()?;
        match self.pending.take_if(|pending| !pending.is_end()) {
            Some(pending) => self.cursor.body(pending),
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
                self.cursor.skip_row(&pending);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn pass_rows_before(&mut self, bound: &Bound, table: &TableMetadata) {
        // What the index says of the next one is still to be checked, and what is read already is not passed over twice.
        if self.pending.is_none() && self.expected.is_none() {
            self.cursor.pass_rows_before(bound, &table.comparator);
        }
    }
}

/// Rows from the last to the first: block by block, each read forwards and given backwards. A partition without an
/// index of its rows is one block.
#[derive(Debug)]
pub struct Reverse {
    cursor: Cursor,
    place: Place,
    /// Blocks not yet read lie below this.
    unread: usize,
    /// What is left of the block read last, in the table's order.
    stack: Vec<Unfiltered>,
}

impl Reverse {
    /// `cursor` stands anywhere.
    pub fn new(cursor: Cursor, place: Place) -> Self {
        let unread = place.promoted.as_ref().map_or(1, PromotedIndex::len);
        Self { cursor, place, unread, stack: Vec::new() }
    }

    fn load(&mut self) -> Result<()> {
        while self.stack.is_empty() && self.unread > 0 {
            self.unread -= 1;
            let mut end = u64::MAX;
            let mut expected = None;
            match &self.place.promoted {
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
            while self.cursor.offset() < end {
                let pending = self.cursor.next_head()?;
                if pending.is_end() {
                    break;
                }
                if let Some(expected) = expected.take() {
                    check_place(&self.cursor, &pending, &expected)?;
                }
                self.stack.extend(self.cursor.body(pending)?);
            }
        }
        Ok(())
    }
}

/// A marker as met from the other side.
fn reversed(mut marker: RangeTombstoneMarker) -> RangeTombstoneMarker {
    std::mem::swap(&mut marker.close, &mut marker.open);
    marker
}

impl Source for Reverse {
    fn seek(&mut self, bound: &Bound, table: &TableMetadata) -> Result<Option<Option<DeletionTime>>> {
        let Some(index) = &self.place.promoted else { return Ok(None) };
        let codec = self.cursor.format().clustering.clone();
        let found = index
            .last_beginning(bound.position(), &codec, &table.comparator)
            .and_then(|number| Ok((number, index.block(number, &codec)?)));
        let (number, block) = found.map_err(|e| self.place.error(e))?;
        // The block is the next one, or has been read already.
        if number + 1 >= self.unread {
            return Ok(None);
        }
        self.stack.clear();
        self.unread = number + 1;
        Ok(Some(Some(block.open).filter(|open| !open.is_live())))
    }

    fn peek(&mut self) -> Result<Option<Position<'_>>> {
        self.load()?;
        Ok(self.stack.last().map(Unfiltered::position))
    }

    fn take(&mut self) -> Result<Option<Unfiltered>> {
        self.load()?;
        Ok(match self.stack.pop() {
            Some(Unfiltered::Marker(marker)) => Some(reversed(*marker).into()),
            other => other,
        })
    }

    fn skip(&mut self) -> Result<Option<RangeTombstoneMarker>> {
        self.load()?;
        Ok(match self.stack.pop() {
            Some(Unfiltered::Marker(marker)) => Some(reversed(*marker)),
            _ => None,
        })
    }
}
