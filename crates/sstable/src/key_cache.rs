//! The key cache: positions of partitions, so that Summary and Index need not be searched again.
//! For large partitions it also stores their index (`large_partition`), positions of some of their
//! rows, and filters of existing rows (`row_marks`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::chunk_cache::CacheStats;
use crate::large_partition::{LargePartition, PartitionPlace};
use crate::row_marks::RowMarks;

/// The key of a partition: the SSTable's number in this process, and the key's 128 bits of Murmur3.
///
/// Two keys can share their hash, so readers compare their key with the one in Data at the
/// position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    sstable: u64,
    hash: (u64, u64),
}

/// The cached information about a partition.
#[derive(Debug, Clone)]
pub(crate) enum Remembered {
    /// A partition without a row index: its offset in the uncompressed Data. Nearly all are.
    Small(u64),
    /// One with an index.
    Large(Arc<LargePartition>),
}

impl Remembered {
    /// Creates the entry of a partition at this position.
    pub fn at(place: PartitionPlace) -> Self {
        match place.promoted_length {
            0 => Self::Small(place.position),
            _ => Self::Large(Arc::new(LargePartition::at(place))),
        }
    }

    /// Returns its position. The offset of an absent row index is 0.
    pub fn place(&self) -> PartitionPlace {
        match self {
            Self::Small(position) => {
                PartitionPlace { position: *position, promoted_start: 0, promoted_length: 0 }
            }
            Self::Large(large) => large.place(),
        }
    }
}

/// Key and value; with the links of the cache's list (two), its count of accesses, its state, and a
/// slot of its hash table, of which 7 in 8 are used.
const ENTRY_BYTES: u64 = (size_of::<Key>() + size_of::<Remembered>() + 16 + 8 + 8) as u64;

/// A position with its SSTable and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RememberedPlace {
    /// The SSTable's [number](crate::SSTableReader::key_cache_number).
    pub sstable: u64,
    /// The key's Murmur3 hash.
    pub hash: (u64, u64),
    /// The place.
    pub place: PartitionPlace,
}

#[derive(Debug, Clone)]
struct EntryWeight;

impl Weighter<Key, Remembered> for EntryWeight {
    fn weight(&self, _: &Key, remembered: &Remembered) -> u64 {
        match remembered {
            Remembered::Small(_) => ENTRY_BYTES,
            Remembered::Large(large) => ENTRY_BYTES + large.heap_size(),
        }
    }
}

/// The key of a block of rows: the SSTable's number, and the block's offset in the uncompressed
/// Data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct BlockKey {
    sstable: u64,
    start: u64,
}

/// The overhead of marks: key, pointer, reference counts, and the cache's overhead of an entry (see
/// [`ENTRY_BYTES`]); and an allocator's overhead of three allocations.
const MARKS_BYTES: u64 =
    (size_of::<BlockKey>() + 8 + 16 + size_of::<RowMarks>() + 16 + 8 + 8) as u64 + 3 * 16;

#[derive(Debug, Clone)]
struct MarksWeight;

impl Weighter<BlockKey, Arc<RowMarks>> for MarksWeight {
    fn weight(&self, _: &BlockKey, marks: &Arc<RowMarks>) -> u64 {
        MARKS_BYTES + marks.heap_size() as u64
    }
}

/// Returns the share of `capacity` for marks: a quarter. With their weight of up to a sixteenth of
/// the rows, and a byte per row for filters, that of 50 MiB serves 100 MiB of large partitions with
/// rows of 20 bytes, 200 MiB of others, in addition to 500,000 positions.
fn marks_capacity(capacity: u64) -> u64 {
    capacity / 4
}

/// Positions of recently read partitions, and marks in large ones, limited by bytes.
#[derive(Debug)]
pub struct KeyCache {
    cache: Cache<Key, Remembered, EntryWeight>,
    marks: Cache<BlockKey, Arc<RowMarks>, MarksWeight>,
    keeps_marks: AtomicBool,
    sstables: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl KeyCache {
    /// Creates a cache of up to `capacity` bytes; 0 disables it.
    pub fn new(capacity: u64) -> Self {
        // The tables grow: the estimate only sizes the first ones.
        let items = |bytes: u64, each: u64| (bytes / each).clamp(16, 1 << 16) as usize;
        let marks = marks_capacity(capacity);
        let keys = capacity - marks;
        Self {
            cache: Cache::with_weighter(items(keys, ENTRY_BYTES), keys, EntryWeight),
            // Marks of a block of 64 KiB take up to 4 KiB.
            marks: Cache::with_weighter(items(marks, 4 << 10), marks, MarksWeight),
            keeps_marks: AtomicBool::new(marks > 0),
            sstables: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Returns a unique number for an SSTable.
    pub(crate) fn register(&self) -> u64 {
        self.sstables.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the cached partition of a key with this hash.
    #[inline]
    pub(crate) fn get(&self, sstable: u64, hash: (u64, u64)) -> Option<Remembered> {
        let found = self.cache.get(&Key { sstable, hash });
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Caches a partition.
    pub(crate) fn insert(&self, sstable: u64, hash: (u64, u64), partition: Remembered) {
        self.cache.insert(Key { sstable, hash }, partition);
    }

    /// Returns whether the position of a key with this hash is cached; neither counted nor treated
    /// as an access.
    #[inline]
    pub(crate) fn knows(&self, sstable: u64, hash: (u64, u64)) -> bool {
        self.cache.peek(&Key { sstable, hash }).is_some()
    }

    /// Removes a position.
    pub(crate) fn remove(&self, sstable: u64, hash: (u64, u64)) {
        self.cache.remove(&Key { sstable, hash });
    }

    /// Returns whether it has space for marks at all.
    #[inline]
    pub(crate) fn keeps_marks(&self) -> bool {
        self.keeps_marks.load(Ordering::Relaxed)
    }

    /// Returns the marks of the block of rows at `start` of the uncompressed Data, if it has any.
    /// Not counted: the counters are those of keys.
    #[inline]
    pub(crate) fn marks(&self, sstable: u64, start: u64) -> Option<Arc<RowMarks>> {
        self.marks.get(&BlockKey { sstable, start })
    }

    /// Caches marks in place of the block's former ones: those that only one of two readers found
    /// are lost, and found again.
    pub(crate) fn insert_marks(&self, sstable: u64, start: u64, marks: Arc<RowMarks>) {
        self.marks.insert(BlockKey { sstable, start }, marks);
    }

    /// Returns whether it contains no positions.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Returns the cached positions, grouped by SSTable; of more than `most` the ones accessed most
    /// often.
    pub fn places(&self, most: usize) -> Vec<RememberedPlace> {
        let of = |(key, partition): (Key, Remembered)| RememberedPlace {
            sstable: key.sstable,
            hash: key.hash,
            place: partition.place(),
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

    /// Returns whether another position would evict one.
    pub fn is_full(&self) -> bool {
        self.cache.weight() + ENTRY_BYTES > self.cache.capacity()
    }

    /// Returns content and counters; includes marks.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            miss_nanos: 0,
            entries: self.cache.len() + self.marks.len(),
            bytes: self.cache.weight() + self.marks.weight(),
            capacity: self.cache.capacity() + self.marks.capacity(),
        }
    }

    /// Sets the capacity, and evicts the excess.
    pub fn set_capacity(&self, capacity: u64) {
        let marks = marks_capacity(capacity);
        self.cache.set_capacity(capacity - marks);
        self.marks.set_capacity(marks);
        self.keeps_marks.store(marks > 0, Ordering::Relaxed);
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.cache.clear();
        self.marks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row_marks::NewMarks;

    fn position(found: Option<Remembered>) -> Option<u64> {
        found.map(|found| found.place().position)
    }

    #[test]
    fn bytes_held_stay_within_the_capacity() {
        let cache = KeyCache::new(100 * ENTRY_BYTES);
        let sstable = cache.register();
        for n in 0..1000 {
            cache.insert(sstable, (n, n), Remembered::Small(n));
        }
        let stats = cache.stats();
        assert!(stats.bytes <= stats.capacity && stats.entries > 50, "{stats:?}");
        assert!(cache.get(cache.register(), (999, 999)).is_none());
        assert!((0..1000).any(|n| position(cache.get(sstable, (n, n))) == Some(n)));
    }

    #[test]
    fn the_index_of_a_large_partition_is_counted() {
        let cache = KeyCache::new(1 << 20);
        let sstable = cache.register();
        let place = PartitionPlace { position: 7, promoted_start: 70, promoted_length: 700 };
        cache.insert(sstable, (1, 1), Remembered::at(place));
        assert_eq!(cache.get(sstable, (1, 1)).unwrap().place(), place);
        assert!(
            (ENTRY_BYTES + 700 + 77 * 8..ENTRY_BYTES + 1800).contains(&cache.stats().bytes),
            "{:?}",
            cache.stats()
        );
    }

    #[test]
    fn marks_take_a_quarter_of_the_capacity_and_places_the_rest() {
        let cache = KeyCache::new(4 << 20);
        let (sstable, other) = (cache.register(), cache.register());
        let marks = |rows: u64| {
            let mut new = NewMarks::default();
            (1..=rows).for_each(|row| _ = new.note(None, (row * 512, 512), 8, |out| out.extend([1; 8])));
            Arc::new(new.behind(None))
        };
        cache.insert_marks(sstable, 7, marks(2));
        assert_eq!(cache.stats().bytes, MARKS_BYTES + 2 * (8 + 8));
        cache.insert_marks(sstable, 7, marks(3));
        assert_eq!(cache.marks(sstable, 7), Some(marks(3)));
        assert_eq!((cache.marks(sstable, 8), cache.marks(other, 7)), (None, None));
        for start in 0..4000 {
            cache.insert_marks(sstable, start, marks(128));
        }
        let bytes = cache.stats().bytes;
        assert!((900 << 10..=1 << 20).contains(&bytes), "{bytes}");
        for n in 0..200_000 {
            cache.insert(sstable, (n, n), Remembered::Small(n));
        }
        let stats = cache.stats();
        assert!((7 << 19..=4 << 20).contains(&stats.bytes) && stats.capacity == 4 << 20, "{stats:?}");
        cache.set_capacity(2 << 20);
        assert!(cache.stats().bytes <= 2 << 20 && cache.stats().capacity == 2 << 20);
        cache.clear();
        assert_eq!((cache.stats().bytes, cache.stats().entries), (0, 0));
    }

    #[test]
    fn of_more_places_than_wanted_those_come_that_were_asked_for_most() {
        let cache = KeyCache::new(1 << 20);
        let (one, other) = (cache.register(), cache.register());
        for n in 0..100 {
            cache.insert(if n % 2 == 0 { one } else { other }, (n, n), Remembered::Small(100 - n));
        }
        for n in [7, 8, 50] {
            cache.get(if n % 2 == 0 { one } else { other }, (n, n)).unwrap();
        }
        let hottest: Vec<_> =
            cache.places(3).iter().map(|found| (found.sstable, found.hash.0, found.place.position)).collect();
        assert_eq!(hottest, [(one, 50, 50), (one, 8, 92), (other, 7, 93)]);
        assert_eq!((cache.places(100).len(), cache.places(0).len()), (100, 0));
    }
}
