//! Reads the partitions of a range, in order.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use cassette_rows::token::murmur3_token;
use cassette_rows::{
    DecoratedKey, PartitionHeader, PartitionStream, Result, RowProbe, Selection, Token, Unfiltered,
};

use super::SSTableReader;
use super::index_cursor::IndexCursor;
use super::partition::{self, Rows};
use crate::chunked_file::Caching;
use crate::data::Cursor;
use crate::read_ahead::ReadAhead;

/// Partitions between two keys as a stream.
#[derive(Debug)]
pub struct Scan {
    way: Way,
    is_reconciled: bool,
    /// The token of the first partition; `None` if there is none.
    first: Option<Token>,
}

#[derive(Debug)]
enum Way {
    Whole(Box<WholeScan>),
    Selected(Box<SelectedScan>),
}

/// All rows of all partitions in a range of Data, without reading Index.
#[derive(Debug)]
pub struct WholeScan {
    cursor: Cursor,
    /// The end of the range in the stream.
    end: u64,
    in_partition: bool,
}

/// A selection of each partition; reads Index and Data side by side.
#[derive(Debug)]
struct SelectedScan {
    reader: SSTableReader,
    index: IndexCursor,
    /// The end of the range in Index.db.
    end: u64,
    selection: Arc<Selection>,
    caching: Caching,
    rows: Rows,
    /// The progress in Data, over the partitions: each has its own cursor.
    ahead: ReadAhead,
}

impl Scan {
    pub(super) fn new(
        reader: &SSTableReader,
        start: Bound<&DecoratedKey>,
        end: Bound<&DecoratedKey>,
        selection: &Arc<Selection>,
        caching: Caching,
    ) -> Result<Self> {
        let first = first_at_or_after(reader, start, true, caching)?;
        let last = first_at_or_after(reader, end, false, caching)?;
        let is_reconciled = !reader.may_have_deletions();
        let empty = last.index_position <= first.index_position;
        if selection.slices.is_all() && !selection.reversed {
            let end = if empty { first.data_position } else { last.data_position };
            let whole = WholeScan::new(reader, first.data_position, end, caching);
            return Ok(Self {
                way: Way::Whole(Box::new(whole)),
                is_reconciled,
                first: first.token.filter(|_| !empty),
            });
        }
        let scan = SelectedScan {
            reader: reader.clone(),
            index: IndexCursor::new(reader.shared.index.clone(), first.index_position, caching),
            end: if empty { 0 } else { last.index_position },
            selection: selection.clone(),
            caching,
            rows: Rows::None,
            ahead: ReadAhead::new(),
        };
        Ok(Self { way: Way::Selected(Box::new(scan)), is_reconciled, first: first.token.filter(|_| !empty) })
    }
}

impl Scan {
    /// Loads the beginning of the first partition, if it can do so without reading Index.
    pub fn load(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Whole(scan) if self.first.is_some() => scan.cursor.load(),
            _ => Ok(()),
        }
    }

    /// Returns the progress of a scan of whole partitions: bytes of the uncompressed rows from the
    /// first one of the SSTable on.
    pub fn position(&self) -> u64 {
        match &self.way {
            Way::Whole(scan) => scan.cursor.offset(),
            Way::Selected(scan) => scan.index.position(),
        }
    }
}

/// The offsets of a partition's entry and of the partition, and its token; the ends of the files
/// after the last one.
struct Edge {
    index_position: u64,
    data_position: u64,
    token: Option<Token>,
}

/// Returns the first partition in a range that begins with `bound` (`is_start`), or the first one
/// after a range that ends with it.
fn first_at_or_after(
    reader: &SSTableReader,
    bound: Bound<&DecoratedKey>,
    is_start: bool,
    caching: Caching,
) -> Result<Edge> {
    let end = Edge {
        index_position: reader.shared.index.data_length(),
        data_position: reader.shared.data.data_length(),
        token: None,
    };
    let beginning = Edge { index_position: 0, data_position: 0, token: Some(reader.first_key().token()) };
    let (key, or_equal) = match bound {
        Bound::Unbounded if is_start => return Ok(beginning),
        Bound::Unbounded => return Ok(end),
        Bound::Included(key) => (key, is_start),
        Bound::Excluded(key) => (key, !is_start),
    };
    let wanted = (key.token(), key.key());
    let reached = |token: Token, other: &[u8]| match (token, other).cmp(&wanted) {
        Ordering::Less => false,
        Ordering::Equal => or_equal,
        Ordering::Greater => true,
    };
    if reached(reader.first_key().token(), reader.first_key().key()) {
        return Ok(beginning);
    }
    if !reached(reader.last_key().token(), reader.last_key().key()) {
        return Ok(end);
    }
    let start = reader.shared.summary.seek(key, !or_equal);
    let mut cursor = IndexCursor::new(reader.shared.index.clone(), start, caching);
    let found = cursor.find_from(|other| reached(murmur3_token(other), other))?;
    Ok(if found {
        Edge {
            index_position: cursor.entry_start(),
            data_position: cursor.position(),
            token: Some(murmur3_token(cursor.key())),
        }
    } else {
        end
    })
}

impl WholeScan {
    pub(super) fn new(reader: &SSTableReader, start: u64, end: u64, caching: Caching) -> Self {
        let mut cursor = reader.cursor(caching);
        cursor.seek(start);
        cursor.read_ahead_until(end);
        Self { cursor, end, in_partition: false }
    }

    /// Returns the offset of the next partition, row, marker, or end of partition in the
    /// uncompressed Data.
    pub fn position(&self) -> u64 {
        self.cursor.offset()
    }
}

impl PartitionStream for WholeScan {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        if self.in_partition {
            self.cursor.skip_partition()?;
        }
        self.in_partition = self.cursor.offset() < self.end;
        if self.in_partition { self.cursor.partition_header().map(Some) } else { Ok(None) }
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        if !self.in_partition {
            return Ok(None);
        }
        let next = self.cursor.next_unfiltered()?;
        self.in_partition = next.is_some();
        Ok(next)
    }
}

impl SelectedScan {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        self.rows = Rows::None;
        if self.index.entry_end() >= self.end || !self.index.advance()? {
            return Ok(None);
        }
        let data = &self.reader.shared.data;
        self.ahead.reads(self.index.position() / data.chunk_length());
        data.read_ahead(&mut self.ahead, self.caching);
        let cursor = self.reader.cursor(self.caching);
        let key = self.index.decorated_key();
        let (header, rows) =
            // Marks are for reads of few rows: a scan of many partitions would evict them.
            partition::start_at_entry(&self.reader, &key, &self.index, cursor, &self.selection, None)?;
        self.rows = rows;
        Ok(Some(header))
    }
}

impl PartitionStream for Scan {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        match &mut self.way {
            Way::Whole(scan) => scan.next_partition(),
            Way::Selected(scan) => scan.next_partition(),
        }
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        match &mut self.way {
            Way::Whole(scan) => scan.next_unfiltered(),
            Way::Selected(scan) => scan.rows.next(),
        }
    }

    fn pass_live_rows(&mut self, limit: u64, probe: &mut dyn RowProbe) -> Result<u64> {
        match &mut self.way {
            _ if !self.is_reconciled => Ok(0),
            Way::Whole(scan) if scan.in_partition => scan.cursor.pass_live_rows(limit, probe),
            Way::Whole(_) => Ok(0),
            Way::Selected(scan) => scan.rows.pass_live_rows(limit, probe),
        }
    }

    fn pass_live_partitions(
        &mut self,
        before: Option<Token>,
        limit: u64,
        probe: &mut dyn RowProbe,
    ) -> Result<u64> {
        match &mut self.way {
            Way::Whole(scan) if self.is_reconciled && !scan.in_partition => {
                scan.cursor.pass_live_partitions((before, scan.end), limit, probe)
            }
            _ => Ok(0),
        }
    }

    fn is_reconciled(&self) -> bool {
        self.is_reconciled
    }

    fn first_token(&self) -> Option<Token> {
        self.first
    }
}
