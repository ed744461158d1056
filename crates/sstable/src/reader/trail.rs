//! The progress of a read in a block of rows: it begins at a mark of earlier reads, and leaves
//! marks for later ones, and a filter if it found nothing.

use std::ops::Range;
use std::sync::Arc;

use cassette_rows::{Bound, ClusteringComparator};

use super::RememberedKeys;
use crate::clustering_codec::ClusteringCodec;
use crate::row_filter::RowFilter;
use crate::row_marks::{NewMarks, RowMarks};

/// If a block is not known to be large, marks are looked up after this many rows were skipped,
/// which took about as long as a lookup, ...
const ROWS_BEFORE_ASKING: u32 = 16;
/// ... or after this many bytes, a quarter of a chunk.
const BYTES_BEFORE_ASKING: u64 = 4 << 10;

/// The cached and the new information about the current block.
#[derive(Debug)]
pub(super) struct Trail {
    keys: RememberedKeys,
    /// The offset of the block in the stream.
    block: u64,
    /// The cached marks, once looked up.
    known: Option<Arc<RowMarks>>,
    asked: bool,
    new: NewMarks,
    /// The offset of the last mark in the stream; that of the block, if it has none.
    last: u64,
    /// Rows are contiguous from the beginning of the block up to this offset: rows elsewhere are
    /// not marked. It ends at a marker, and where the read continued elsewhere.
    clear_to: u64,
    /// Skipped rows up to there.
    rows: u32,
    /// The end of the block.
    end: u64,
}

impl Trail {
    /// Creates a trail for a block at `block` of the stream with an unknown end.
    pub fn new(keys: RememberedKeys, block: u64) -> Self {
        let (new, end) = (NewMarks::default(), u64::MAX);
        Self { keys, block, known: None, asked: false, new, last: block, clear_to: block, rows: 0, end }
    }

    /// Moves to the block at `block..end`, or stays there.
    pub fn enter(&mut self, block: u64, end: u64) {
        self.end = end;
        if block != self.block {
            (self.block, self.last, self.clear_to) = (block, block, block);
            (self.known, self.asked, self.rows) = (None, false, 0);
            self.new.clear();
        }
    }

    /// Returns whether enough was skipped for a [`shortcut`](Self::shortcut), and the cache was not
    /// consulted yet.
    #[inline]
    pub fn is_long(&self) -> bool {
        !self.asked && (self.rows >= ROWS_BEFORE_ASKING || self.clear_to - self.block >= BYTES_BEFORE_ASKING)
    }

    /// Returns the offset of a row before `bound` at which a read at `from`, in this block, can
    /// continue; consults the cache if necessary.
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

    /// Returns the cached marks of the block; looks them up if necessary.
    pub fn ask(&mut self) -> Option<&RowMarks> {
        if !self.asked {
            self.told(self.keys.cache.marks(self.keys.sstable, self.block));
        }
        self.known.as_deref()
    }

    /// Stores the result of a cache lookup for the block.
    pub fn told(&mut self, known: Option<Arc<RowMarks>>) {
        self.asked = true;
        self.known = known;
        if let Some(known) = &self.known {
            // The marks collected so far are among them, or are collected again.
            self.new.clear();
            self.last = self.block + known.last();
            self.clear_to = self.clear_to.max(self.last);
        }
    }

    /// Counts a read that found nothing. Returns the block, if a filter of it must be built now.
    pub fn missed(&self) -> Option<Range<u64>> {
        let block = self.block..self.end;
        let known = self.known.as_ref()?;
        (RowFilter::can_filter(&block) && known.wants_filter()).then_some(block)
    }

    /// Caches the filter of the block for other reads.
    pub fn leave_filter(&mut self, filter: RowFilter) {
        let marks = self.new.behind(self.known.as_deref());
        self.leave(marks.with_filter(filter));
    }

    /// Returns whether the cache had marks of the block.
    pub fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Records a row at `start..end` of the stream. `encode` appends its clustering in the encoding
    /// of Data: about `size` bytes.
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

    /// Caches the new marks for other reads.
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
