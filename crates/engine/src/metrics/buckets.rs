//! The buckets of histograms: Cassandra's, whose upper bounds grow by a fifth.

/// Upper bounds of the buckets: 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, … each the previous one
/// times 1.2, rounded, or plus one.
pub const BUCKET_OFFSETS: [u64; 164] = offsets();

const fn offsets() -> [u64; 164] {
    let mut offsets = [1; 164];
    let mut i = 1;
    while i < offsets.len() {
        let last = offsets[i - 1];
        // 1.2 times, rounded: 12 * n / 10 is never halfway between two integers.
        let next = (12 * last + 5) / 10;
        offsets[i] = if next == last { last + 1 } else { next };
        i += 1;
    }
    offsets
}

/// For each class of values, by leading bit and the three following bits, its first bucket. Values
/// of a class differ by at most an eighth, so their buckets are at most two further.
static FIRST: [[u8; 8]; 64] = first();

const fn first() -> [[u8; 8]; 64] {
    let mut first = [[0; 8]; 64];
    let mut bit = 0;
    while bit < 64 {
        let mut eighth = 0;
        while eighth < 8 {
            // The minimum of the class; below 8 several classes share a value, and only one of them
            // is used.
            let least = ((8 + eighth as u128) << bit) >> 3;
            let mut bucket = 0;
            while bucket < BUCKET_OFFSETS.len() && (BUCKET_OFFSETS[bucket] as u128) < least {
                bucket += 1;
            }
            first[bit][eighth] = bucket as u8;
            eighth += 1;
        }
        bit += 1;
    }
    first
}

/// Returns the bucket of a value: the first whose upper bound is not less. The length of
/// [`BUCKET_OFFSETS`] if the value exceeds them all.
#[inline]
pub(super) fn bucket(value: u64) -> usize {
    let value = value.max(1);
    let zeros = value.leading_zeros();
    let eighth = (value << zeros >> 60) & 7;
    let mut bucket = FIRST[63 - zeros as usize][eighth as usize] as usize;
    while bucket < BUCKET_OFFSETS.len() && BUCKET_OFFSETS[bucket] < value {
        bucket += 1;
    }
    bucket
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_those_that_cassandra_prints() {
        assert_eq!(BUCKET_OFFSETS[..14], [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24]);
        assert_eq!(BUCKET_OFFSETS[117], 4_139_110_981);
        assert_eq!(BUCKET_OFFSETS[154], 3_520_571_548_412);
    }

    #[test]
    fn every_value_finds_the_first_bucket_that_holds_it() {
        let by_search = |value: u64| BUCKET_OFFSETS.partition_point(|offset| *offset < value);
        let ends = BUCKET_OFFSETS.iter().flat_map(|offset| [offset - 1, *offset, offset + 1]);
        for value in (0..100_000).chain(ends).chain((0..64).map(|bit| 1 << bit)).chain([u64::MAX]) {
            assert_eq!(bucket(value), by_search(value), "{value}");
        }
    }
}
