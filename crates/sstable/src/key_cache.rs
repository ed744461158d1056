//! Where partitions lie, remembered, so that Summary and Index need not be searched again: the key cache.

use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::chunk_cache::CacheStats;

/// Which partition of which SSTable: the SSTable's number in this process, and the key's 128 bits of Murmur3.
///
/// Two keys may share their hash. Whoever finds a place therefore compares the key that is in Data there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    sstable: u64,
    hash: (u64, u64),
}

/// What Index.db says of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionPlace {
    /// Where it begins in the uncompressed Data.
    pub position: u64,
    /// Where the index of its rows begins in Index.db.
    pub promoted_start: u64,
    /// Bytes of that; 0 if it has none.
    pub promoted_length: u32,
}

/// Key and place; with the links of the cache's list (two), its count of accesses, its state, and a slot of its hash table of
/// which 7 in 8 are used.
const ENTRY_BYTES: u64 = (size_of::<Key>() + size_of::<PartitionPlace>() + 16 + 8 + 8) as u64;

/// A place with whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RememberedPlace {
    /// The SSTable's [number](crate::SSTableReader::key_cache_number).
    pub sstable: u64,
    /// The key's Murmur3 hash.
    pub hash: (u64, u64),
    /// Where it lies.
    pub place: PartitionPlace,
}

#[derive(Debug, Clone)]
struct EntryWeight;

impl Weighter<Key, PartitionPlace> for EntryWeight {
    fn weight(&self, _: &Key, _: &PartitionPlace) -> u64 {
        ENTRY_BYTES
    }
}

/// The places of partitions read lately, bounded by bytes.
#[derive(Debug)]
pub struct KeyCache {
    cache: Cache<Key, PartitionPlace, EntryWeight>,
    sstables: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl KeyCache {
    /// A cache of up to `capacity` bytes; 0 keeps nothing.
    pub fn new(capacity: u64) -> Self {
        // It grows as it fills: the estimate only sizes the first tables.
        let items = (capacity / ENTRY_BYTES).clamp(16, 1 << 16) as usize;
        Self {
            cache: Cache::with_weighter(items, capacity, EntryWeight),
            sstables: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// A number for an SSTable; never given twice.
    pub(crate) fn register(&self) -> u64 {
        self.sstables.fetch_add(1, Ordering::Relaxed)
    }

    /// Where a key with this hash lies, if that is known.
    #[inline]
    pub(crate) fn get(&self, sstable: u64, hash: (u64, u64)) -> Option<PartitionPlace> {
        let found = self.cache.get(&Key { sstable, hash });
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Remembers a place.
    pub(crate) fn insert(&self, sstable: u64, hash: (u64, u64), place: PartitionPlace) {
        self.cache.insert(Key { sstable, hash }, place);
    }

    /// Where a key with this hash lies, if that is known; a question that nobody counts and that keeps nothing in the cache.
    #[inline]
    pub(crate) fn peek(&self, sstable: u64, hash: (u64, u64)) -> Option<PartitionPlace> {
        self.cache.peek(&Key { sstable, hash })
    }

    /// Forgets a place.
    pub(crate) fn remove(&self, sstable: u64, hash: (u64, u64)) {
        self.cache.remove(&Key { sstable, hash });
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// What it holds, those together that are of one SSTable; of more than `most` the ones asked for most often.
    pub fn places(&self, most: usize) -> Vec<RememberedPlace> {
        let of = |(key, place): (Key, PartitionPlace)| RememberedPlace {
            sstable: key.sstable,
            hash: key.hash,
            place,
        };
        let mut places: Vec<_> = if self.cache.len() <= most {
            self.cache.iter().map(of).collect()
        } else {
            let asked = |key: &Key| self.cache.item_stats(key).map_or(0, |stats| stats.access_count);
            let mut places: Vec<_> = self.cache.iter().map(|entry| (asked(&entry.0), of(entry))).collect();
            if most < places.len() {
                places.select_nth_unstable_by_key(most, |(asked, _)| std::cmp::Reverse(*asked));
                places.truncate(most);
            }
            places.into_iter().map(|(_, place)| place).collect()
        };
        places.sort_unstable_by_key(|place| (place.sstable, place.place.position));
        places
    }

    /// Whether another place would push one out.
    pub fn is_full(&self) -> bool {
        self.cache.weight() + ENTRY_BYTES > self.cache.capacity()
    }

    /// What it holds and how often it helped.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            miss_nanos: 0,
            entries: self.cache.len(),
            bytes: self.cache.weight(),
            capacity: self.cache.capacity(),
        }
    }

    /// Sets how many bytes it may hold, and forgets what is beyond.
    pub fn set_capacity(&self, capacity: u64) {
        self.cache.set_capacity(capacity);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.cache.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(position: u64) -> PartitionPlace {
        PartitionPlace { position, promoted_start: 0, promoted_length: 0 }
    }

    #[test]
    fn bytes_held_stay_within_the_capacity() {
        let cache = KeyCache::new(100 * ENTRY_BYTES);
        let sstable = cache.register();
        for n in 0..1000 {
            cache.insert(sstable, (n, n), place(n));
        }
        let stats = cache.stats();
        assert!(stats.bytes <= stats.capacity && stats.entries > 50, "{stats:?}");
        assert_eq!(cache.get(cache.register(), (999, 999)), None);
        assert!((0..1000).any(|n| cache.get(sstable, (n, n)) == Some(place(n))));
    }

    #[test]
    fn of_more_places_than_wanted_those_come_that_were_asked_for_most() {
        let cache = KeyCache::new(1 << 20);
        let (one, other) = (cache.register(), cache.register());
        for n in 0..100 {
            cache.insert(if n % 2 == 0 { one } else { other }, (n, n), place(100 - n));
        }
        for n in [7, 8, 50] {
            cache.get(if n % 2 == 0 { one } else { other }, (n, n)).unwrap();
        }
        let hottest: Vec<_> =
            cache.places(3).iter().map(|found| (found.sstable, found.hash.0, found.place)).collect();
        assert_eq!(hottest, [(one, 50, place(50)), (one, 8, place(92)), (other, 7, place(93))]);
        assert_eq!((cache.places(100).len(), cache.places(0).len()), (100, 0));
    }
}
