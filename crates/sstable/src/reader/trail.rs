//! A read's way through a block of rows: it begins at a mark that others left, and leaves marks itself, and a filter where it found nothing.

use std::ops::Range;
use std::sync::Arc;

use cassette_rows::{Bound, ClusteringComparator};

use super::RememberedKeys;
use crate::data::clustering_codec::ClusteringCodec;
use crate::row_filter::RowFilter;
use crate::row_marks::{NewMarks, RowMarks};

/// Where it is not known that a block is large, the cache is asked for marks once this many rows were passed over: that took about as long
/// as asking does, ...
const ROWS_BEFORE_ASKING: u32 = 16;
/// ... or this many bytes, a quarter of a chunk.
const BYTES_BEFORE_ASKING: u64 = 4 << 10;

/// What is known of a block that is being read, and what was seen of it.
#[derive(Debug)]
pub(super) struct Trail {
    keys: RememberedKeys,
    /// Where the block begins in the stream.
    block: u64,
    /// What the cache has, once it was asked.
    known: Option<Arc<RowMarks>>,
    asked: bool,
    new: NewMarks,
    /// Where the last mark lies in the stream; where the block begins, if it has none.
    last: u64,
    /// Up to here, from the beginning of the block, rows lie side by side: what does not begin here is not marked. It stays where a
    /// marker is, and where the read went on elsewhere.
    clear_to: u64,
    /// Rows up to there that were passed over.
    rows: u32,
    /// Where the block ends.
    end: u64,
}

impl Trail {
    /// For a block that begins at `block` of the stream and whose end is not known.
    pub fn new(keys: RememberedKeys, block: u64) -> Self {
        let (new, end) = (NewMarks::default(), u64::MAX);
        Self { keys, block, known: None, asked: false, new, last: block, clear_to: block, rows: 0, end }
    }

    /// Goes to the block at `block..end`, or stays there.
    pub fn enter(&mut self, block: u64, end: u64) {
        self.end = end;
        if block != self.block {
            (self.block, self.last, self.clear_to) = (block, block, block);
            (self.known, self.asked, self.rows) = (None, false, 0);
            self.new.clear();
        }
    }

    /// Whether so much was passed over that there may be a [`shortcut`](Self::shortcut), and the cache was not asked yet.
    #[inline]
    pub fn is_long(&self) -> bool {
        !self.asked && (self.rows >= ROWS_BEFORE_ASKING || self.clear_to - self.block >= BYTES_BEFORE_ASKING)
    }

    /// Where a row before `bound` begins in the stream that a read at `from`, in this block, may go on with; asks the cache if that was not done yet.
    pub fn shortcut(
        &mut self,
        bound: &Bound,
        from: u64,
        codec: &ClusteringCodec,
        comparator: &ClusteringComparator,
    ) -> Option<u64> {
        let offset = self.ask()?.last_before(bound, codec, comparator)?;
        Some(self.block + offset).filter(|target| *target > from)
    }

    /// What the cache has of the block, which is asked if that was not done yet.
    pub fn ask(&mut self) -> Option<&RowMarks> {
        if !self.asked {
            self.told(self.keys.cache.marks(self.keys.sstable, self.block));
        }
        self.known.as_deref()
    }

    /// That the cache was asked of the block, and had this.
    pub fn told(&mut self, known: Option<Arc<RowMarks>>) {
        self.asked = true;
        self.known = known;
        if let Some(known) = &self.known {
            // Marks seen on the way so far are among them, or are made again.
            self.new.clear();
            self.last = self.block + known.last();
            self.clear_to = self.clear_to.max(self.last);
        }
    }

    /// Counts a read that found nothing. The block, if a filter of it is to be made now.
    pub fn missed(&self) -> Option<Range<u64>> {
        let block = self.block..self.end;
        let known = self.known.as_ref()?;
        (RowFilter::can_filter(&block) && known.wants_filter()).then_some(block)
    }

    /// Leaves the filter of the block to other reads.
    pub fn leave_filter(&mut self, filter: RowFilter) {
        let marks = self.new.behind(self.known.as_deref());
        self.leave(marks.with_filter(filter));
    }

    /// Whether the cache had marks of the block.
    pub fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Takes note of a row at `start..end` of the stream. `encode` appends its clustering as Data has it: about `size` bytes.
    #[inline]
    pub fn passed(&mut self, start: u64, end: u64, size: usize, encode: impl FnOnce(&mut Vec<u8>)) {
        if start != self.clear_to || start >= self.end {
            return;
        }
        self.clear_to = end;
        self.rows = self.rows.saturating_add(1);
        let (offset, distance) = (start - self.block, start - self.last);
        if self.new.note(self.known.as_deref(), (offset, distance), size, encode) {
            self.last = start;
        }
    }

    /// Leaves the marks that were made to other reads.
    #[inline]
    pub fn leave_marks(&mut self) {
        if self.asked && !self.new.is_empty() {
            let marks = self.new.behind(self.known.as_deref());
            self.leave(marks);
        }
    }

    fn leave(&mut self, marks: RowMarks) {
        let marks = Arc::new(marks);
        self.keys.cache.insert_marks(self.keys.sstable, self.block, marks.clone());
        self.known = Some(marks);
    }
}
