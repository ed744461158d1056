//! Row marks: positions of some rows of a block, learned from reads that skipped them.
//!
//! A block of Cassandra's row index has 64 KiB, which can be thousands of rows; a read of one of
//! them skips all rows before it. It marks about one skipped row per [`SPACING`] bytes, and the
//! next read of that block begins at the last mark before its row. The key cache stores the marks:
//! they are never written, and no I/O is done for them.
//!
//! Marks are valid as long as the file of their block exists: only rows are between its beginning
//! and its last mark, no marker, so the range deletion open at the beginning is open at each mark.

use std::sync::atomic::{AtomicU32, Ordering};

use cassette_rows::{Bound, ClusteringComparator};

use crate::clustering_codec::{ClusteringCodec, FEW};
use crate::input::Input;
use crate::row_filter::RowFilter;

/// The minimum bytes of rows from one mark to the next. A read skips half of them, six rows of the
/// smallest; the marks of a block of 64 KiB are 256 or fewer, of which a search compares eight.
const SPACING: u64 = 256;

/// The minimum ratio of bytes of rows to bytes of marks: rows with long clusterings have fewer
/// marks.
const ROWS_TO_MARKS: usize = 16;

/// The maximum bytes of a block's marks: a sixteenth of 2 MiB of rows. Larger blocks have none
/// after these.
const BYTES_MAX: usize = 128 << 10;

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    /// Its offset in the block.
    offset: u32,
    /// The end of its clustering among the clusterings; it begins at the end of the previous
    /// mark's.
    end: u32,
}

/// Marks of a block, ascending.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RowMarks {
    marks: Box<[Mark]>,
    /// Clusterings in the encoding of Data.
    clusterings: Box<[u8]>,
    filter: RowFilter,
    misses: Misses,
}

/// Reads that found nothing in the block. Does not affect the equality of marks.
#[derive(Debug, Default)]
struct Misses(AtomicU32);

impl PartialEq for Misses {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Misses {}

/// The number of reads that find nothing in a block before it gets a filter. Scanning a block takes
/// as long as skipping its rows twice, 200 µs for the smallest; where blocks evict each other from
/// the cache, that is 6 µs for each of those reads, and none where they are evicted sooner.
const MISSES_BEFORE_FILTER: u32 = 32;

impl RowMarks {
    /// Returns whether a table's rows can be marked: values of very many clustering columns are not
    /// compared in place, and without clustering columns there is only one row.
    pub fn can_mark(codec: &ClusteringCodec) -> bool {
        (1..=FEW).contains(&codec.columns())
    }

    /// Bytes on the heap.
    pub fn heap_size(&self) -> usize {
        self.marks_size() + self.filter.heap_size()
    }

    /// Returns the same marks with a filter of the block's rows.
    pub fn with_filter(self, filter: RowFilter) -> Self {
        Self { filter, ..self }
    }

    /// Counts a read that found nothing; returns whether the block should get a filter now.
    pub fn wants_filter(&self) -> bool {
        self.filter == RowFilter::Unknown
            && self.misses.0.fetch_add(1, Ordering::Relaxed) + 1 >= MISSES_BEFORE_FILTER
    }

    /// Returns the filter of the block's rows.
    #[inline]
    pub fn filter(&self) -> &RowFilter {
        &self.filter
    }

    fn marks_size(&self) -> usize {
        self.marks.len() * size_of::<Mark>() + self.clusterings.len()
    }

    /// Returns the offset of the last marked row in the block; 0 if there is none.
    pub fn last(&self) -> u64 {
        self.marks.last().map_or(0, |mark| mark.offset.into())
    }

    /// Returns the offset of the last marked row before `bound` in the block.
    pub fn last_before(
        &self,
        bound: &Bound,
        codec: &ClusteringCodec,
        comparator: &ClusteringComparator,
    ) -> Option<u64> {
        let is_before = |index: usize| {
            let mut values = [None; FEW];
            let mut input = Input::new(self.clustering(index));
            match codec.borrow_values(&mut input, &mut values) {
                Ok(Some(count)) => comparator.is_row_before(&values[..count], bound),
                // They were decoded before they were recorded.
                _ => false,
            }
        };
        let (mut low, mut high) = (0, self.marks.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle) { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1).map(|index| self.marks[index].offset.into())
    }

    fn clustering(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.marks[before].end);
        &self.clusterings[start as usize..self.marks[index].end as usize]
    }
}

/// Marks after those that a block has.
#[derive(Debug, Default)]
pub(crate) struct NewMarks {
    marks: Vec<Mark>,
    clusterings: Vec<u8>,
}

impl NewMarks {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Records a row, `offset` bytes from the beginning of the block and `distance` from the mark
    /// before it, unless that is too near or there is no space after the `known` marks. `encode`
    /// appends its clustering in the encoding of Data: about `size` bytes.
    #[inline]
    pub fn note(
        &mut self,
        known: Option<&RowMarks>,
        (offset, distance): (u64, u64),
        size: usize,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        distance >= SPACING && self.note_far(known, (offset, distance), size, encode)
    }

    #[cold]
    fn note_far(
        &mut self,
        known: Option<&RowMarks>,
        (offset, distance): (u64, u64),
        size: usize,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let bytes = size_of::<Mark>() + size;
        let (known_size, known_end) =
            known.map_or((0, 0), |known| (known.marks_size(), known.clusterings.len()));
        let held = known_size + self.marks.len() * size_of::<Mark>() + self.clusterings.len();
        let Ok(offset) = u32::try_from(offset) else { return false };
        if distance < (bytes * ROWS_TO_MARKS) as u64 || held + bytes > BYTES_MAX {
            return false;
        }
        encode(&mut self.clusterings);
        // About BYTES_MAX, plus one mark.
        let end = (known_end + self.clusterings.len()) as u32;
        self.marks.push(Mark { offset, end });
        true
    }

    /// Appends these to the `known` marks.
    pub fn behind(&mut self, known: Option<&RowMarks>) -> RowMarks {
        let filter = known.map_or(RowFilter::Unknown, |known| known.filter.clone());
        let misses = known.map_or(0, |known| known.misses.0.load(Ordering::Relaxed));
        let known = known.map_or((&[][..], &[][..]), |known| (&known.marks, &known.clusterings));
        let all = RowMarks {
            marks: [known.0, &self.marks].concat().into(),
            clusterings: [known.1, &self.clusterings].concat().into(),
            filter,
            misses: Misses(misses.into()),
        };
        *self = Self::default();
        all
    }

    /// Removes all marks.
    pub fn clear(&mut self) {
        self.marks.clear();
        self.clusterings.clear();
    }
}

#[cfg(test)]
mod tests {
    use cassette_rows::{Clustering, DataType, Side};
    use proptest::prelude::*;

    use super::*;

    fn codec() -> ClusteringCodec {
        ClusteringCodec::new(&[DataType::Int, DataType::Text])
    }

    fn comparator() -> ClusteringComparator {
        ClusteringComparator::new([(DataType::Int, false), (DataType::Text, true)])
    }

    /// Marks of rows 1000 bytes apart, in two steps.
    fn marks(rows: &[Clustering]) -> RowMarks {
        let (codec, mut marks) = (codec(), RowMarks::default());
        for (step, rows) in [&rows[..rows.len() / 3], &rows[rows.len() / 3..]].into_iter().enumerate() {
            let first = if step == 0 { 1 } else { marks.marks.len() + 1 };
            let mut new = NewMarks::default();
            for (index, row) in rows.iter().enumerate() {
                let mut bytes = Vec::new();
                codec.encode_values(row, &mut bytes);
                let offset = (first + index) as u64 * 1000;
                assert!(new.note(Some(&marks), (offset, 1000), bytes.len(), |out| out.extend(&bytes)));
            }
            marks = new.behind(Some(&marks));
            assert!(new.is_empty());
        }
        marks
    }

    proptest! {
        #[test]
        fn the_last_mark_before_a_bound_is_found_as_going_through_them_finds_it(
            rows in prop::collection::btree_set((0..20i32, 0..4usize), 0..40),
            (number, length, columns, after) in (-1..21i32, 0..4usize, 0..3usize, any::<bool>()),
        ) {
            let text = ["", "a", "ab", "b"];
            let clustering = |number: i32, length: usize| match length {
                0 => Clustering::new([Some(&number.to_be_bytes()[..]), None]),
                _ => Clustering::of(&[&number.to_be_bytes(), text[length].as_bytes()]),
            };
            let comparator = comparator();
            let mut rows: Vec<_> = rows.into_iter().map(|(number, length)| clustering(number, length)).collect();
            rows.sort_by(|a, b| comparator.compare_rows(a, b));
            let side = if after { Side::After } else { Side::Before };
            let bound = Bound { prefix: clustering(number, length).prefix(columns), side };
            let before = rows.iter().filter(|row| comparator.compare((*row).into(), bound.position()).is_lt());
            let expected = Some(before.count() as u64 * 1000).filter(|offset| *offset > 0);
            let marks = marks(&rows);
            prop_assert_eq!(marks.last_before(&bound, &codec(), &comparator), expected);
            prop_assert_eq!(marks.last(), rows.len() as u64 * 1000);
        }
    }

    #[test]
    fn marks_are_a_sixteenth_of_their_rows_or_less_and_bounded() {
        let mut new = NewMarks::default();
        let mut note = |known: Option<&RowMarks>, offset, distance, length| {
            let noted =
                new.note(known, (offset, distance), length, |out| out.resize(out.len() + length, b'x'));
            (noted, new.behind(known))
        };
        assert!(!note(None, 255, 255, 1).0 && note(None, 256, 256, 1).0);
        assert!(!note(None, 16_000, 1008 * 16 - 1, 1000).0);
        let (noted, mut known) = note(None, 17_000, 1008 * 16, 1000);
        assert!(noted && known.heap_size() == 8 + 1000);
        assert!(!note(Some(&known), 5 << 30, 1 << 20, 1).0, "offsets have 32 bits");
        for offset in 1..200 {
            known = note(Some(&known), offset << 20, 1 << 20, 1000).1;
        }
        assert!((120 << 10..=BYTES_MAX).contains(&known.heap_size()), "{}", known.heap_size());
    }
}
