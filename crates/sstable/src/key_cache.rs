//! Where partitions lie, remembered, so that Summary and Index need not be searched again: the key cache. Of large partitions it
//! also holds their index (`large_partition`), where some of their rows lie, and which are there (`row_marks`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::chunk_cache::CacheStats;
use crate::large_partition::LargePartition;
use crate::row_marks::RowMarks;

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

/// What the cache has of a partition.
#[derive(Debug, Clone)]
pub(crate) enum Remembered {
    /// One without an index of its rows: where it begins in the uncompressed Data. Nearly all are.
    Small(u64),
    /// One with an index.
    Large(Arc<LargePartition>),
}

impl Remembered {
    /// That it lies there.
    pub fn at(place: PartitionPlace) -> Self {
        match place.promoted_length {
            0 => Self::Small(place.position),
            _ => Self::Large(Arc::new(LargePartition::at(place))),
        }
    }

    /// Where it lies. Where the index begins of one that has none is not known, and told as 0.
    pub fn place(&self) -> PartitionPlace {
        match self {
            Self::Small(position) => {
                PartitionPlace { position: *position, promoted_start: 0, promoted_length: 0 }
            }
            Self::Large(large) => large.place(),
        }
    }
}

/// Key and value; with the links of the cache's list (two), its count of accesses, its state, and a slot of its hash table of
/// which 7 in 8 are used.
const ENTRY_BYTES: u64 = (size_of::<Key>() + size_of::<Remembered>() + 16 + 8 + 8) as u64;

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

impl Weighter<Key, Remembered> for EntryWeight {
    fn weight(&self, _: &Key, remembered: &Remembered) -> u64 {
        match remembered {
            Remembered::Small(_) => ENTRY_BYTES,
            Remembered::Large(large) => ENTRY_BYTES + large.heap_size(),
        }
    }
}

/// Which block of rows: the SSTable's number, and where the block begins in the uncompressed Data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct BlockKey {
    sstable: u64,
    start: u64,
}

/// Of marks without what they hold: key, pointer, the counts before what it points to, and what the cache has for an entry (see
/// [`ENTRY_BYTES`]); and what an allocator adds to three allocations.
const MARKS_BYTES: u64 =
    (size_of::<BlockKey>() + 8 + 16 + size_of::<RowMarks>() + 16 + 8 + 8) as u64 + 3 * 16;

#[derive(Debug, Clone)]
struct MarksWeight;

impl Weighter<BlockKey, Arc<RowMarks>> for MarksWeight {
    fn weight(&self, _: &BlockKey, marks: &Arc<RowMarks>) -> u64 {
        MARKS_BYTES + marks.heap_size() as u64
    }
}

/// What of `capacity` is for marks: a quarter. With what they weigh, up to a sixteenth of the rows, and a byte a row for filters, that of
/// 50 MiB serves 100 MiB of large partitions of rows of 20 bytes, 200 MiB of others, beside 500,000 places.
fn marks_capacity(capacity: u64) -> u64 {
    capacity / 4
}

/// The places of partitions read lately, and marks in large ones, bounded by bytes.
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
    /// A cache of up to `capacity` bytes; 0 keeps nothing.
    pub fn new(capacity: u64) -> Self {
        // It grows as it fills: the estimate only sizes the first tables.
        let items = |bytes: u64, each: u64| (bytes / each).clamp(16, 1 << 16) as usize;
        let marks = marks_capacity(capacity);
        let keys = capacity - marks;
        Self {
            cache: Cache::with_weighter(items(keys, ENTRY_BYTES), keys, EntryWeight),
            // Those of a block of 64 KiB have up to 4 KiB.
            marks: Cache::with_weighter(items(marks, 4 << 10), marks, MarksWeight),
            keeps_marks: AtomicBool::new(marks > 0),
            sstables: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// A number for an SSTable; never given twice.
    pub(crate) fn register(&self) -> u64 {
        self.sstables.fetch_add(1, Ordering::Relaxed)
    }

    /// What is known of the partition of a key with this hash.
    #[inline]
    pub(crate) fn get(&self, sstable: u64, hash: (u64, u64)) -> Option<Remembered> {
        let found = self.cache.get(&Key { sstable, hash });
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Remembers a partition.
    pub(crate) fn insert(&self, sstable: u64, hash: (u64, u64), partition: Remembered) {
        self.cache.insert(Key { sstable, hash }, partition);
    }

    /// Whether it is known where a key with this hash lies; a question that nobody counts and that keeps nothing in the cache.
    #[inline]
    pub(crate) fn knows(&self, sstable: u64, hash: (u64, u64)) -> bool {
        self.cache.peek(&Key { sstable, hash }).is_some()
    }

    /// Forgets a place.
    pub(crate) fn remove(&self, sstable: u64, hash: (u64, u64)) {
        self.cache.remove(&Key { sstable, hash });
    }

    /// Whether it has room for marks at all.
    #[inline]
    pub(crate) fn keeps_marks(&self) -> bool {
        self.keeps_marks.load(Ordering::Relaxed)
    }

    /// The marks of the block of rows that begins at `start` of the uncompressed Data, if it has any. Nobody counts the question: those
    /// about keys are what is shown.
    #[inline]
    pub(crate) fn marks(&self, sstable: u64, start: u64) -> Option<Arc<RowMarks>> {
        self.marks.get(&BlockKey { sstable, start })
    }

    /// Remembers marks, instead of those that the block had: what only one of two readers found is lost, and found again.
    pub(crate) fn insert_marks(&self, sstable: u64, start: u64, marks: Arc<RowMarks>) {
        self.marks.insert(BlockKey { sstable, start }, marks);
    }

    /// Whether it holds no places.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// The places it holds, those together that are of one SSTable; of more than `most` the ones asked for most often.
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

    /// Whether another place would push one out.
    pub fn is_full(&self) -> bool {
        self.cache.weight() + ENTRY_BYTES > self.cache.capacity()
    }

    /// What it holds, marks included, and how often it knew a place.
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

    /// Sets how many bytes it may hold, and forgets what is beyond.
    pub fn set_capacity(&self, capacity: u64) {
        let marks = marks_capacity(capacity);
        self.cache.set_capacity(capacity - marks);
        self.marks.set_capacity(marks);
        self.keeps_marks.store(marks > 0, Ordering::Relaxed);
    }

    /// Forgets everything.
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
