//! A Bloom filter in memory whose lookups access one cache line: the hash selects a line and five
//! of its bits.
//!
//! The five bits of a plain filter are in five lines, and each access waits for memory if filters
//! are not in the processor's caches: half a microsecond. Lines have more or fewer values than the
//! mean, which makes errors slightly more frequent (Putze, Sanders and Singler, "Cache-, Hash- and
//! Space-Efficient Bloom Filters", 2007: blocked filters).

use cassette_rows::token::murmur3_hash;

/// Bits per line, which has 64 bytes.
const LINE_BITS: usize = 512;
const NUMBER_BITS: u32 = LINE_BITS.trailing_zeros();

/// 8 bits per value: with 5 of them set, three of a hundred absent values pass.
const VALUES_PER_LINE: usize = LINE_BITS / 8;
const BITS_SET: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
struct Line([u64; LINE_BITS / 64]);

/// A set of values for tests of absence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineFilter {
    lines: Box<[Line]>,
}

impl LineFilter {
    /// Creates a filter of values with these [`murmur3_hash`]es.
    pub fn of_hashes(hashes: &[(u64, u64)]) -> Self {
        let count = hashes.len().div_ceil(VALUES_PER_LINE).max(1);
        let mut lines = vec![Line([0; LINE_BITS / 64]); count].into_boxed_slice();
        for hash in hashes {
            let line = &mut lines[line_of(*hash, count)];
            bits_of(*hash).for_each(|bit| line.0[bit / 64] |= 1 << (bit % 64));
        }
        Self { lines }
    }

    /// Returns whether the filter may contain the value; `false` is certain.
    #[inline]
    pub fn may_contain(&self, value: &[u8]) -> bool {
        let hash = murmur3_hash(value);
        let line = &self.lines[line_of(hash, self.lines.len())];
        bits_of(hash).all(|bit| line.0[bit / 64] >> (bit % 64) & 1 == 1)
    }

    /// Bytes on the heap.
    pub fn heap_size(&self) -> usize {
        size_of_val(&*self.lines)
    }
}

/// The high half of a product distributes the hash over `count` lines without a division.
#[inline]
fn line_of((hash, _): (u64, u64), count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

#[inline]
fn bits_of((_, hash): (u64, u64)) -> impl Iterator<Item = usize> {
    (0..BITS_SET).map(move |n| (hash >> (n * NUMBER_BITS)) as usize % LINE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_found_and_three_of_a_hundred_others() {
        let hashes: Vec<_> = (0..5000u32).map(|n| murmur3_hash(&n.to_be_bytes())).collect();
        let filter = LineFilter::of_hashes(&hashes);
        assert_eq!(filter.heap_size(), 5000usize.div_ceil(64) * 64);
        assert!((0..5000u32).all(|n| filter.may_contain(&n.to_be_bytes())));
        let wrong = (5000..105_000u32).filter(|n| filter.may_contain(&n.to_be_bytes())).count();
        assert!((2000..4000).contains(&wrong), "{wrong} of 100,000");
    }

    #[test]
    fn without_values_nothing_is_there() {
        assert!(!LineFilter::of_hashes(&[]).may_contain(b"x"));
    }
}
