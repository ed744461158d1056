//! The partitions of a shard, in the order of SSTables.
//!
//! A search compares only tokens: in the nodes of the tree they are contiguous, where complete keys
//! would take most of a cache line each, and cache misses dominate the cost of a write. Keys with
//! the same token, as rare as equal 64-bit hashes, are in a separate map.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use cassette_rows::{DecoratedKey, Token};

use super::Partition;
use crate::basics::key_range::KeyBounds;

/// Partitions by their keys.
#[derive(Default)]
pub(super) struct Partitions {
    by_token: BTreeMap<Token, Slot>,
    len: usize,
}

/// The partitions of one token.
enum Slot {
    One(Bytes, Partition),
    /// Several keys.
    Many(BTreeMap<Bytes, Partition>),
}

/// The size of a partition in the tree, whose nodes are between half full and full, without the
/// bytes of its key.
pub(super) const ENTRY_SIZE: usize = (size_of::<Token>() + size_of::<Slot>()) * 4 / 3;

impl Partitions {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get(&self, key: &DecoratedKey) -> Option<&Partition> {
        match self.by_token.get(&key.token())? {
            Slot::One(only, partition) => (*only == key.key()).then_some(partition),
            Slot::Many(many) => many.get(key.key()),
        }
    }

    /// Returns the partition, which is created if it does not exist, and whether it was created.
    /// The key's bytes are copied: the caller's may be part of a larger buffer.
    pub fn get_or_insert(&mut self, key: &DecoratedKey) -> (&mut Partition, bool) {
        let (partition, is_new) = match self.by_token.entry(key.token()) {
            Entry::Vacant(vacant) => {
                let slot = vacant.insert(Slot::One(Bytes::copy_from_slice(key.key()), Partition::new()));
                (slot.of(key.key()).0, true)
            }
            Entry::Occupied(occupied) => occupied.into_mut().of(key.key()),
        };
        self.len += usize::from(is_new);
        (partition, is_new)
    }

    /// Returns the partitions within `range`, which must not be empty, in order.
    pub fn range<'a>(
        &'a self,
        range: &'a KeyBounds,
    ) -> impl Iterator<Item = (DecoratedKey, &'a Partition)> + 'a {
        let token = |bound: &Bound<DecoratedKey>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Bound::Included(key.token()),
            Bound::Unbounded => Bound::Unbounded,
        };
        let slots = self.by_token.range((token(&range.start), token(&range.end)));
        let keys = slots.flat_map(|(token, slot)| {
            let key = |key: &Bytes| DecoratedKey::with_token(*token, key.clone());
            let (one, many) = match slot {
                Slot::One(only, partition) => (Some((only, partition)), None),
                Slot::Many(many) => (None, Some(many.iter())),
            };
            let all = one.into_iter().chain(many.into_iter().flatten());
            all.map(move |(bytes, partition)| (key(bytes), partition))
        });
        let bounds = (range.start.as_ref(), range.end.as_ref());
        keys.filter(move |(key, _)| RangeBounds::<DecoratedKey>::contains(&bounds, key))
    }
}

impl Slot {
    /// Returns the partition of a key, and whether it was created.
    fn of(&mut self, key: &[u8]) -> (&mut Partition, bool) {
        if matches!(self, Slot::One(only, _) if *only != key)
            && let Slot::One(only, partition) = std::mem::replace(self, Slot::Many(BTreeMap::new()))
            && let Slot::Many(many) = self
        {
            many.insert(only, partition);
        }
        match self {
            Slot::One(_, partition) => (partition, false),
            Slot::Many(many) => {
                let is_new = !many.contains_key(key);
                (many.entry(Bytes::copy_from_slice(key)).or_insert_with(Partition::new), is_new)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(token: i64, bytes: &'static [u8]) -> DecoratedKey {
        DecoratedKey::with_token(Token(token), Bytes::from_static(bytes))
    }

    #[test]
    fn keys_of_one_token_are_told_apart_and_lie_in_order() {
        let mut partitions = Partitions::default();
        let keys = [key(-1, b"z"), key(5, b"a"), key(5, b"b"), key(5, b"c"), key(9, b"a")];
        for i in [2, 4, 1, 0, 3, 2, 4, 1] {
            partitions.get_or_insert(&keys[i]);
        }
        assert_eq!(partitions.len(), 5);
        assert!(keys.iter().all(|key| partitions.get(key).is_some()));
        assert!(partitions.get(&key(5, b"d")).is_none() && partitions.get(&key(9, b"")).is_none());
        for (start, first) in [
            (Bound::Unbounded, 0),
            (Bound::Included(keys[1].clone()), 1),
            (Bound::Excluded(keys[1].clone()), 2),
            (Bound::Excluded(keys[3].clone()), 4),
        ] {
            for (end, behind) in [
                (Bound::Unbounded, 5),
                (Bound::Excluded(keys[4].clone()), 4),
                (Bound::Included(keys[4].clone()), 5),
            ] {
                let range = KeyBounds { start: start.clone(), end };
                let found: Vec<_> = partitions.range(&range).map(|(key, _)| key).collect();
                assert_eq!(found, keys[first..behind], "{range:?}");
            }
        }
    }
}
