//! A sample of an SSTable that measures how much of it newer ones shadow.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use cassette_rows::merge::shadow::{Dropped, ShadowSources, ShadowedBy};
use cassette_rows::{
    DecoratedKey, DeletionTime, PartitionHeader, PartitionStream, Result as StorageResult, Row, Selection,
    Token, Unfiltered,
};
use cassette_sstable::chunked_file::Caching;
use cassette_sstable::reader::Scan;

use crate::compaction::shadow::Sources;
use crate::store::sstable_handle::{SSTable, Watched};

/// The number of positions at which a sample is read.
const PLACES: usize = 8;
/// The number of partitions read at each. With 64 in total, the standard error of the share is
/// about 0.06 if half is shadowed, and less otherwise.
const PARTITIONS: usize = 8;
/// The maximum number of rows and markers read of each: large partitions are measured by their
/// beginnings.
const ITEMS: usize = 128;
/// The maximum number of rows and markers of newer SSTables read for a sample, about ten
/// milliseconds. Those of large partitions may all precede what is read here.
const ITEMS_ABOVE: usize = 4 * PLACES * PARTITIONS * ITEMS;

/// The approximate size of a deletion, bytes.
const DELETION: usize = 12;

fn size_of_deletion(deletion: &DeletionTime) -> usize {
    if deletion.is_live() { 0 } else { DELETION }
}

fn size_of_row(row: &Row) -> usize {
    row.data_size() + size_of_deletion(&row.deletion())
}

pub(super) fn size_of_head(header: &PartitionHeader) -> usize {
    size_of_deletion(&header.deletion) + header.static_row.as_ref().map_or(0, size_of_row)
}

pub(super) fn size(unfiltered: &Unfiltered) -> usize {
    match unfiltered {
        Unfiltered::Row(row) => size_of_row(row),
        Unfiltered::Marker(_) => DELETION,
    }
}

/// Counts of a sample.
#[derive(Default)]
pub(super) struct Tally {
    /// Bytes of rows of the sample.
    pub bytes: AtomicUsize,
    /// Rows and markers of newer SSTables.
    pub items_above: AtomicUsize,
}

/// Sources that count what they return.
pub(super) struct Counted {
    pub sources: Sources,
    pub tally: Arc<Tally>,
}

impl ShadowSources for Counted {
    fn begin(&mut self, key: &DecoratedKey) -> usize {
        self.sources.begin(key)
    }

    fn max_timestamp(&self, index: usize) -> i64 {
        self.sources.max_timestamp(index)
    }

    fn open(&mut self, index: usize, wanted: ShadowedBy) -> StorageResult<Option<PartitionHeader>> {
        self.sources.open(index, wanted)
    }

    /// Returns nothing more once the sample is large enough.
    fn next_unfiltered(&mut self, index: usize) -> StorageResult<Option<Unfiltered>> {
        match self.tally.items_above.fetch_add(1, Relaxed) {
            ITEMS_ABOVE.. => Ok(None),
            _ => self.sources.next_unfiltered(index),
        }
    }

    fn end(&mut self, dropped: &Dropped) {
        self.sources.end(dropped);
    }
}

/// The first partitions from each of several positions of an SSTable on, in order, and their
/// beginnings.
pub(super) struct Sample {
    sstable: Arc<SSTable>,
    tally: Arc<Tally>,
    /// The remaining positions, in reverse order.
    places: Vec<Token>,
    at: Option<Watched<Scan>>,
    partitions_left: usize,
    items_left: usize,
    last: Option<DecoratedKey>,
}

impl Sample {
    pub fn new(sstable: Arc<SSTable>, tally: Arc<Tally>) -> Self {
        let (first, last) = sstable.tokens();
        let step = (i128::from(last) - i128::from(first)) / PLACES as i128;
        // Between two tokens, so it is a valid token.
        let place = |n: usize| Token((i128::from(first) + step * n as i128) as i64);
        let places = (0..PLACES).rev().map(place).collect();
        Self { sstable, tally, places, at: None, partitions_left: 0, items_left: 0, last: None }
    }

    /// Advances to the next position, but never back; `None` after the last one.
    fn advance(&mut self) -> StorageResult<Option<()>> {
        let Some(token) = self.places.pop() else { return Ok(None) };
        let place = DecoratedKey::with_token(token, bytes::Bytes::new());
        let start = match &self.last {
            Some(last) if *last >= place => Bound::Excluded(last),
            _ => Bound::Included(&place),
        };
        self.at = Some(self.scan_from(start)?);
        self.partitions_left = PARTITIONS;
        self.items_left = ITEMS;
        Ok(Some(()))
    }

    fn scan_from(&self, start: Bound<&DecoratedKey>) -> StorageResult<Watched<Scan>> {
        let selection = Arc::new(Selection::all());
        self.sstable.scan(start, Bound::Unbounded, &selection, Caching::LeaveAlone)
    }

    fn count(&self, bytes: usize) {
        self.tally.bytes.fetch_add(bytes, Relaxed);
    }
}

impl PartitionStream for Sample {
    fn next_partition(&mut self) -> StorageResult<Option<PartitionHeader>> {
        while self.tally.items_above.load(Relaxed) < ITEMS_ABOVE {
            if self.items_left == 0
                && let Some(last) = &self.last
                && self.at.is_some()
            {
                // The rest of a large partition is skipped without being read.
                self.at = Some(self.scan_from(Bound::Excluded(last))?);
            }
            if let Some(scan) = self.at.as_mut().filter(|_| self.partitions_left > 0)
                && let Some(header) = scan.next_partition()?
            {
                self.partitions_left -= 1;
                self.items_left = ITEMS;
                self.last = Some(header.key.clone());
                self.count(size_of_head(&header));
                return Ok(Some(header));
            }
            if self.advance()?.is_none() {
                break;
            }
        }
        Ok(None)
    }

    fn next_unfiltered(&mut self) -> StorageResult<Option<Unfiltered>> {
        let Some(scan) = self.at.as_mut().filter(|_| self.items_left > 0) else { return Ok(None) };
        self.items_left -= 1;
        let next = scan.next_unfiltered()?;
        if let Some(unfiltered) = &next {
            self.count(size(unfiltered));
        }
        Ok(next)
    }
}
