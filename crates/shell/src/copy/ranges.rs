//! Ranges of tokens that are read in parallel.

/// A range of tokens: after `start`, up to and including `end`. `None` is unbounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRange {
    /// The token before the range.
    pub start: Option<i64>,
    /// The last token.
    pub end: Option<i64>,
}

/// Divides the tokens between `begin` and `end` into about `count` ranges of equal length.
pub fn divide(begin: Option<i64>, end: Option<i64>, count: usize) -> Vec<TokenRange> {
    let first = i128::from(begin.unwrap_or(i64::MIN));
    let last = i128::from(end.unwrap_or(i64::MAX));
    if first >= last {
        return Vec::new();
    }
    let count = i128::try_from(count.max(1)).unwrap_or(1).min(last - first);
    let bound = |index: i128| i64::try_from(first + (last - first) * index / count).ok();
    (0..count)
        .map(|index| TokenRange {
            start: if index == 0 { begin } else { bound(index) },
            end: if index == count - 1 { end } else { bound(index + 1) },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_each_other_and_cover_all_tokens() {
        for (begin, end) in [(None, None), (Some(-5), Some(100)), (Some(7), None), (None, Some(7))] {
            let ranges = divide(begin, end, 8);
            assert_eq!(ranges.len(), 8);
            assert_eq!((ranges[0].start, ranges[7].end), (begin, end));
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].end.is_some()));
        }
        assert_eq!(divide(Some(1), Some(3), 8).len(), 2);
        assert_eq!(divide(Some(3), Some(3), 8), []);
    }
}
