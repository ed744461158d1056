//! Which parts of an SSTable a node gets.

use crate::token_range::TokenRange;

/// A part of the uncompressed Data that begins and ends with partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

/// The sections of an SSTable with the partitions of some token ranges, found while its partitions
/// are listed in order.
#[derive(Debug)]
pub struct SectionsBuilder<'r> {
    /// Normalized.
    ranges: &'r [TokenRange],
    /// The first range that may contain the next partition.
    next: usize,
    sections: Vec<Section>,
    /// The start of the section that the last partition belongs to.
    open: Option<u64>,
    keys: u64,
}

/// The sections, and what they contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sections {
    /// In order, not adjacent.
    pub sections: Vec<Section>,
    /// Number of partitions.
    pub keys: u64,
}

impl<'r> SectionsBuilder<'r> {
    /// Starts with the ranges of a node, which must be normalized.
    pub fn new(ranges: &'r [TokenRange]) -> Self {
        Self { ranges, next: 0, sections: Vec::new(), open: None, keys: 0 }
    }

    /// Adds the next partition: its token, and its offset in the uncompressed Data.
    pub fn add(&mut self, token: i64, offset: u64) {
        while self.ranges.get(self.next).is_some_and(|range| range.1 < token) {
            self.next += 1;
        }
        if self.ranges.get(self.next).is_some_and(|range| range.contains(token)) {
            self.keys += 1;
            self.open.get_or_insert(offset);
        } else if let Some(start) = self.open.take() {
            self.sections.push(Section { start, end: offset });
        }
    }

    /// Returns the sections of a Data of `length` bytes.
    pub fn finish(mut self, length: u64) -> Sections {
        if let Some(start) = self.open.take() {
            self.sections.push(Section { start, end: length });
        }
        Sections { sections: self.sections, keys: self.keys }
    }
}

impl Sections {
    /// Returns the uncompressed bytes.
    pub fn length(&self) -> u64 {
        self.sections.iter().map(|section| section.end - section.start).sum()
    }

    /// Returns whether a Data of `length` bytes belongs to them completely.
    pub fn are_all_of(&self, length: u64) -> bool {
        self.sections == [Section { start: 0, end: length }]
    }

    /// Returns the chunks with bytes of the sections, each once, in order.
    pub fn chunks(&self, chunk_length: u64) -> impl Iterator<Item = u64> + '_ {
        let mut next = 0;
        self.sections.iter().flat_map(move |section| {
            let start = (section.start / chunk_length).max(next);
            let end = section.end.div_ceil(chunk_length);
            next = end.max(next);
            start..end
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::token_range::normalized;

    fn sections(ranges: &[TokenRange], partitions: &[(i64, u64)], length: u64) -> Sections {
        let mut builder = SectionsBuilder::new(ranges);
        partitions.iter().for_each(|(token, offset)| builder.add(*token, *offset));
        builder.finish(length)
    }

    #[test]
    fn an_sstable_within_the_ranges_is_one_section() {
        let partitions = [(i64::MIN + 1, 0), (0, 10), (i64::MAX, 20)];
        let all = sections(&[TokenRange(i64::MIN, i64::MAX)], &partitions, 30);
        assert!(all.are_all_of(30));
        assert_eq!((all.keys, all.length()), (3, 30));
        let none = sections(&[TokenRange(1, 5)], &partitions, 30);
        assert_eq!((none.keys, none.length(), none.sections.len()), (0, 0, 0));
        assert!(!none.are_all_of(30));
    }

    proptest! {
        #[test]
        fn sections_hold_exactly_the_partitions_of_the_ranges(
            tokens in prop::collection::btree_set(-60i64..60, 1..40),
            lengths in prop::collection::vec(1u64..50, 40),
            bounds in prop::collection::vec((-70i64..70, -70i64..70), 0..8),
            chunk_length in prop::sample::select(vec![1u64, 4, 16, 64, 1024]),
        ) {
            let ranges = normalized(bounds.into_iter().map(|(a, b)| TokenRange(a, b)).collect());
            let mut offset = 0;
            let partitions: Vec<(i64, u64)> = tokens.iter().zip(&lengths).map(|(token, length)| {
                let start = offset;
                offset += length;
                (*token, start)
            }).collect();
            let found = sections(&ranges, &partitions, offset);
            let wanted = |token: i64| ranges.iter().any(|range| range.contains(token));
            prop_assert_eq!(found.keys, tokens.iter().filter(|token| wanted(**token)).count() as u64);
            for (index, (token, start)) in partitions.iter().enumerate() {
                let end = partitions.get(index + 1).map_or(offset, |next| next.1);
                let holds = found.sections.iter().filter(|s| s.start <= *start && end <= s.end).count();
                let touches = found.sections.iter().any(|s| s.start < end && *start < s.end);
                prop_assert_eq!(holds, usize::from(wanted(*token)));
                prop_assert_eq!(touches, wanted(*token));
            }
            for pair in found.sections.windows(2) {
                prop_assert!(pair[0].end < pair[1].start);
            }
            let chunks: Vec<u64> = found.chunks(chunk_length).collect();
            let expected: Vec<u64> = (0..offset.div_ceil(chunk_length)).filter(|chunk| {
                let (start, end) = (chunk * chunk_length, (chunk + 1) * chunk_length);
                found.sections.iter().any(|s| s.start < end && start < s.end)
            }).collect();
            prop_assert_eq!(chunks, expected);
        }
    }
}
