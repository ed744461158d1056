//! Ranges of partitions on the ring.

use std::ops::Bound;

use bytes::Bytes;
use cassette_rows::{DecoratedKey, Token};

/// A position in the order of partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionPosition {
    /// Before all partitions with this token.
    Before(Token),
    /// After all partitions with this token.
    After(Token),
    /// At a partition.
    At(DecoratedKey),
}

/// The partitions between two positions, in order of (token, key).
///
/// Whether a bound at [`PartitionPosition::Before`] or [`PartitionPosition::After`] is inclusive
/// makes no difference: no partition is at that position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The lower bound.
    pub start: Bound<PartitionPosition>,
    /// The upper bound.
    pub end: Bound<PartitionPosition>,
}

impl KeyRange {
    /// All partitions.
    pub const ALL: Self = Self { start: Bound::Unbounded, end: Bound::Unbounded };

    /// Returns the partitions with tokens between two: those of `token(k) > ? AND token(k) <= ?`.
    pub fn tokens(start: Bound<Token>, end: Bound<Token>) -> Self {
        let start = match start {
            Bound::Included(token) => Bound::Included(PartitionPosition::Before(token)),
            Bound::Excluded(token) => Bound::Included(PartitionPosition::After(token)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let end = match end {
            Bound::Included(token) => Bound::Included(PartitionPosition::After(token)),
            Bound::Excluded(token) => Bound::Included(PartitionPosition::Before(token)),
            Bound::Unbounded => Bound::Unbounded,
        };
        Self { start, end }
    }

    /// Returns the range of one partition.
    pub fn key(key: DecoratedKey) -> Self {
        Self {
            start: Bound::Included(PartitionPosition::At(key.clone())),
            end: Bound::Included(PartitionPosition::At(key)),
        }
    }

    /// Whether the range contains `key`.
    pub fn contains(&self, key: &DecoratedKey) -> bool {
        self.bounds().intersects(key, key)
    }

    /// Returns the part after `key`, where the next page begins.
    pub fn after(self, key: DecoratedKey) -> Self {
        Self { start: Bound::Excluded(PartitionPosition::At(key)), end: self.end }
    }

    /// Returns the part from `key` on, including it.
    pub fn from(self, key: DecoratedKey) -> Self {
        Self { start: Bound::Included(PartitionPosition::At(key)), end: self.end }
    }

    /// Returns the range with keys as bounds. The empty key, which no partition has, sorts before
    /// all keys of its token.
    pub(crate) fn bounds(&self) -> KeyBounds {
        let before = |token| DecoratedKey::with_token(token, Bytes::new());
        let after = |token: Token| token.0.checked_add(1).map(|next| before(Token(next)));
        let start = match &self.start {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(PartitionPosition::At(key)) => Bound::Included(key.clone()),
            Bound::Excluded(PartitionPosition::At(key)) => Bound::Excluded(key.clone()),
            Bound::Included(PartitionPosition::Before(token))
            | Bound::Excluded(PartitionPosition::Before(token)) => Bound::Included(before(*token)),
            Bound::Included(PartitionPosition::After(token))
            | Bound::Excluded(PartitionPosition::After(token)) => match after(*token) {
                Some(key) => Bound::Included(key),
                None => return KeyBounds::nothing(),
            },
        };
        let end = match &self.end {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(PartitionPosition::At(key)) => Bound::Included(key.clone()),
            Bound::Excluded(PartitionPosition::At(key)) => Bound::Excluded(key.clone()),
            Bound::Included(PartitionPosition::Before(token))
            | Bound::Excluded(PartitionPosition::Before(token)) => Bound::Excluded(before(*token)),
            Bound::Included(PartitionPosition::After(token))
            | Bound::Excluded(PartitionPosition::After(token)) => {
                after(*token).map_or(Bound::Unbounded, Bound::Excluded)
            }
        };
        KeyBounds { start, end }
    }
}

/// A [`KeyRange`] whose bounds are keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyBounds {
    pub start: Bound<DecoratedKey>,
    pub end: Bound<DecoratedKey>,
}

impl KeyBounds {
    fn nothing() -> Self {
        let least = DecoratedKey::with_token(Token::MIN, Bytes::new());
        Self { start: Bound::Included(least.clone()), end: Bound::Excluded(least) }
    }

    /// Whether it can contain no key.
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (
                Bound::Included(start) | Bound::Excluded(start),
                Bound::Included(end) | Bound::Excluded(end),
            ) => start >= end,
            _ => false,
        }
    }

    /// Whether it contains a key from `first` to `last`, both inclusive.
    pub fn intersects(&self, first: &DecoratedKey, last: &DecoratedKey) -> bool {
        let starts_in_time = match &self.start {
            Bound::Unbounded => true,
            Bound::Included(start) => start <= last,
            Bound::Excluded(start) => start < last,
        };
        let ends_late = match &self.end {
            Bound::Unbounded => true,
            Bound::Included(end) => first <= end,
            Bound::Excluded(end) => first < end,
        };
        starts_in_time && ends_late
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds;

    use super::*;

    fn key(token: i64, key: &'static [u8]) -> DecoratedKey {
        DecoratedKey::with_token(Token(token), Bytes::from_static(key))
    }

    fn contains(range: &KeyRange, key: &DecoratedKey) -> bool {
        let bounds = range.bounds();
        assert_eq!(bounds.intersects(key, key), (bounds.start.clone(), bounds.end.clone()).contains(key));
        (bounds.start, bounds.end).contains(key)
    }

    #[test]
    fn token_bounds_include_or_exclude_every_key_of_the_token() {
        let range = KeyRange::tokens(Bound::Excluded(Token(1)), Bound::Included(Token(3)));
        assert!(!contains(&range, &key(1, b"\xff\xff")));
        assert!(contains(&range, &key(2, b"a")));
        assert!(contains(&range, &key(3, b"\xff\xff")));
        assert!(!contains(&range, &key(4, b"a")));
    }

    #[test]
    fn the_greatest_token_has_nothing_after_it_and_itself_before_the_end() {
        let beyond = KeyRange::tokens(Bound::Excluded(Token::MAX), Bound::Unbounded);
        assert!(beyond.bounds().is_empty());
        let up_to = KeyRange::tokens(Bound::Unbounded, Bound::Included(Token::MAX));
        assert!(contains(&up_to, &key(i64::MAX, b"a")));
    }

    #[test]
    fn a_page_goes_on_after_the_key_or_with_it() {
        let middle = key(5, b"m");
        assert!(!contains(&KeyRange::ALL.after(middle.clone()), &middle));
        assert!(contains(&KeyRange::ALL.from(middle.clone()), &middle));
        assert!(contains(&KeyRange::ALL.after(middle), &key(5, b"n")));
    }

    #[test]
    fn a_range_turned_round_is_empty() {
        let range = KeyRange::tokens(Bound::Included(Token(3)), Bound::Excluded(Token(3)));
        assert!(range.bounds().is_empty());
        assert!(!KeyRange::key(key(3, b"a")).bounds().is_empty());
    }
}
