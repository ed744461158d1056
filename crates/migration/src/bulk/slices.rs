//! The token ranges that a table is written by.

use crate::token_range::{TokenRange, normalized};

/// A range that one thread reads; it becomes one part or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Index of the table.
    pub table: usize,
    pub range: TokenRange,
}

/// Smallest parts that a table is divided into, unless it is smaller.
const PART_BYTES_MIN: u64 = 8 << 20;
/// Maximum number of slices of a table.
const SLICES_MAX: u64 = 1 << 16;

/// Describes how a table is divided.
#[derive(Debug, Clone, Copy)]
pub struct Division<'d> {
    /// Bytes of the table; 0 if unknown.
    pub bytes: u64,
    /// Maximum bytes of a part.
    pub part_bytes: u64,
    /// Slices that there should be at least, so that all threads have one.
    pub threads: u64,
    /// The ranges that each node replicates.
    pub replicas: &'d [Vec<TokenRange>],
}

impl Division<'_> {
    /// Returns the ranges of the slices, which cover the ring.
    ///
    /// They also begin where other nodes replicate the partitions, because a node copies the files
    /// of an SSTable whose partitions it all replicates, and writes others again; but not if parts
    /// became small by that.
    pub fn ranges(&self) -> Vec<TokenRange> {
        let small = if self.bytes == 0 { self.threads } else { self.bytes / PART_BYTES_MIN };
        // With a reserve: a slice that became a full part and a rest would be two SSTables.
        let by_size = self.bytes.div_ceil((self.part_bytes / 8 * 7).max(1));
        let count = self.threads.min(small).max(by_size).clamp(1, SLICES_MAX);
        let count = u32::try_from(count).unwrap_or(1);
        let mut ends: Vec<i64> = (0..count).map(|index| TokenRange::part(index, count).1).collect();
        let mut bounds: Vec<i64> = self.replicas.iter().flatten().flat_map(|of| [of.0, of.1]).collect();
        bounds.retain(|bound| *bound != i64::MIN);
        bounds.sort_unstable();
        bounds.dedup();
        if bounds.len() as u64 <= small {
            ends.extend(bounds);
            ends.sort_unstable();
            ends.dedup();
        }
        let starts = std::iter::once(i64::MIN).chain(ends.iter().copied());
        starts.zip(&ends).map(|(start, end)| TokenRange(start, *end)).collect()
    }
}

/// Returns the parts of ranges that are not in `done`.
pub fn left(ranges: &[TokenRange], done: &[TokenRange]) -> Vec<TokenRange> {
    let done = normalized(done.to_vec());
    let mut left = Vec::new();
    for range in ranges {
        let mut start = range.0;
        for of in done.iter().filter(|of| of.0 < range.1 && range.0 < of.1) {
            if start < of.0 {
                left.push(TokenRange(start, of.0));
            }
            start = start.max(of.1);
        }
        if start < range.1 {
            left.push(TokenRange(start, range.1));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RING: TokenRange = TokenRange(i64::MIN, i64::MAX);

    fn division(bytes: u64, replicas: &[Vec<TokenRange>]) -> Division<'_> {
        Division { bytes, part_bytes: 128 << 20, threads: 2, replicas }
    }

    #[test]
    fn tables_are_divided_by_their_size_and_the_threads() {
        let all = [vec![RING]];
        assert_eq!(division(1000, &all).ranges(), [RING], "a small table");
        assert_eq!(division(100 << 20, &all).ranges().len(), 2, "one for each thread");
        assert_eq!(division(1 << 30, &all).ranges().len(), 10);
        assert_eq!(division(0, &all).ranges().len(), 2, "of unknown size");
    }

    #[test]
    fn large_tables_are_divided_where_other_nodes_replicate_them() {
        let replicas = [vec![TokenRange(i64::MIN, 10), TokenRange(20, i64::MAX)], vec![TokenRange(10, 20)]];
        assert_eq!(division(1 << 20, &replicas).ranges(), [RING]);
        let ranges = division(64 << 20, &replicas).ranges();
        let ends: Vec<i64> = ranges.iter().map(|range| range.1).collect();
        assert_eq!(ends, [0, 10, 20, i64::MAX]);
    }

    proptest! {
        #[test]
        fn slices_cover_the_ring_and_what_is_left_covers_what_is_not_done(
            bytes in 0u64..1 << 34,
            part_bytes in 0u64..1 << 30,
            bounds in prop::collection::vec((any::<i64>(), any::<i64>()), 0..6),
            done in prop::collection::vec((any::<i64>(), any::<i64>()), 0..6),
            tokens in prop::collection::vec(any::<i64>(), 50),
        ) {
            let of = |pairs: &[(i64, i64)]| {
                normalized(pairs.iter().map(|(a, b)| TokenRange(*a.min(b), *a.max(b))).collect())
            };
            let (replicas, done) = ([of(&bounds)], of(&done));
            let part_bytes = part_bytes.max(1 << 20);
            let ranges = Division { bytes, part_bytes, threads: 4, replicas: &replicas }.ranges();
            let mut last = i64::MIN;
            for range in &ranges {
                prop_assert_eq!(range.0, last);
                prop_assert!(range.1 > range.0);
                last = range.1;
            }
            prop_assert_eq!(last, i64::MAX);
            let left = left(&ranges, &done);
            prop_assert!(left.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            for token in tokens.into_iter().filter(|token| *token != i64::MIN) {
                let is_done = done.iter().any(|range| range.contains(token));
                let holds = left.iter().filter(|range| range.contains(token)).count();
                prop_assert_eq!(holds, usize::from(!is_done));
            }
        }
    }
}
