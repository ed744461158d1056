//! Ranges of tokens.

/// Tokens above the first, up to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRange(pub i64, pub i64);

impl TokenRange {
    /// Returns the `index`-th of `count` equal parts of the ring. No key has the lowest token.
    pub fn part(index: u32, count: u32) -> Self {
        let bound = |index: u32| {
            let offset = (u128::from(index) << 64) / u128::from(count.max(1));
            (i128::from(i64::MIN) + i128::try_from(offset).unwrap_or(0)).min(i128::from(i64::MAX))
        };
        let token = |bound: i128| i64::try_from(bound).unwrap_or(i64::MAX);
        Self(token(bound(index)), token(bound(index + 1)))
    }

    /// Returns both halves; `None` if it has one token.
    pub fn halves(self) -> Option<[Self; 2]> {
        let middle = ((i128::from(self.0) + i128::from(self.1)) >> 1) as i64;
        (middle != self.0).then_some([Self(self.0, middle), Self(middle, self.1)])
    }

    /// Returns the fraction of the ring that it is.
    pub fn width(self) -> f64 {
        (i128::from(self.1) - i128::from(self.0)) as f64 / 2f64.powi(64)
    }

    /// Returns whether it contains a token.
    pub fn contains(self, token: i64) -> bool {
        self.0 < token && token <= self.1
    }
}

/// Sorts ranges, joins those that touch or overlap, and removes empty ones.
pub fn normalized(mut ranges: Vec<TokenRange>) -> Vec<TokenRange> {
    ranges.retain(|range| range.0 < range.1);
    ranges.sort_unstable_by_key(|range| (range.0, range.1));
    let mut joined: Vec<TokenRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.0 <= last.1 => last.1 = last.1.max(range.1),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_ring_without_overlap() {
        for count in [1, 2, 3, 7, 256, 65_536] {
            let mut last = i64::MIN;
            for index in 0..count {
                let TokenRange(start, end) = TokenRange::part(index, count);
                assert_eq!(start, last, "{index} of {count}");
                assert!(end > start, "{index} of {count}");
                last = end;
            }
            assert_eq!(last, i64::MAX, "{count}");
        }
    }

    #[test]
    fn halves_cover_the_range_and_end_at_one_token() {
        let whole = TokenRange(i64::MIN, i64::MAX);
        assert_eq!(whole.halves(), Some([TokenRange(i64::MIN, -1), TokenRange(-1, i64::MAX)]));
        assert_eq!(TokenRange(4, 6).halves(), Some([TokenRange(4, 5), TokenRange(5, 6)]));
        assert_eq!(TokenRange(5, 6).halves(), None);
        assert_eq!(TokenRange(-2, -1).halves(), None);
    }

    #[test]
    fn normalized_ranges_are_disjoint_and_contain_the_same_tokens() {
        let ranges =
            vec![TokenRange(5, 9), TokenRange(-3, 0), TokenRange(0, 2), TokenRange(7, 7), TokenRange(6, 8)];
        let joined = normalized(ranges.clone());
        assert_eq!(joined, [TokenRange(-3, 2), TokenRange(5, 9)]);
        for token in -5..12 {
            let is_in = |ranges: &[TokenRange]| ranges.iter().any(|range| range.contains(token));
            assert_eq!(is_in(&joined), is_in(&ranges), "{token}");
        }
    }
}
