//! Decompressed, verified chunks, and blocks of chunks, in memory, shared by all files.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};

/// The key of a chunk: a file's number in this process, and the chunk's number in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    file: u64,
    chunk: u64,
}

#[derive(Debug, Clone)]
struct ByteWeight;

impl Weighter<Key, Bytes> for ByteWeight {
    fn weight(&self, _: &Key, chunk: &Bytes) -> u64 {
        // The approximate overhead of an entry: key, slice, and the cache's links.
        chunk.len() as u64 + 96
    }
}

/// Reuses the memory of evicted chunks without readers for chunks that this thread reads next. A
/// full cache then needs no allocations: memory of this size is expensive to allocate and to clear.
struct Spare;

/// Buffers kept per thread: as many as one chunk can evict, unless sizes are very uneven.
const SPARE_BUFFERS: usize = 4;
/// The largest buffer kept by a thread.
const SPARE_LENGTH_MAX: usize = 128 << 10;

thread_local! {
    static SPARE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

impl Spare {
    fn keep(chunk: Bytes) {
        if chunk.len() > SPARE_LENGTH_MAX {
            return;
        }
        if let Ok(buffer) = chunk.try_into_mut() {
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < SPARE_BUFFERS {
                    spare.push(buffer);
                }
            });
        }
    }
}

/// Returns a buffer of `length` bytes with arbitrary content.
pub(crate) fn buffer(length: usize) -> BytesMut {
    // A much larger buffer would stay allocated as long as the chunk is cached.
    let fits = |buffer: &BytesMut| (length..=length.saturating_mul(2)).contains(&buffer.capacity());
    match SPARE.with_borrow_mut(|spare| spare.pop()).filter(fits) {
        Some(mut buffer) => {
            buffer.resize(length, 0);
            buffer
        }
        None => BytesMut::zeroed(length),
    }
}

#[derive(Debug, Clone)]
struct KeepEvicted;

impl Lifecycle<Key, Bytes> for KeepEvicted {
    type RequestState = Vec<Bytes>;

    fn on_evict(&self, evicted: &mut Vec<Bytes>, _: Key, chunk: Bytes) {
        evicted.push(chunk);
    }
}

/// How files are read: `disk_access_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiskAccessMode {
    /// Into memory of this process: every chunk read is cached, or copied.
    #[default]
    Standard,
    /// Index mapped by the system, Data read.
    MmapIndexOnly,
    /// Index and Data mapped: uncompressed chunks are used in the system's page cache.
    Mmap,
}

impl DiskAccessMode {
    /// Returns its name in cassandra.yaml.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::MmapIndexOnly => "mmap_index_only",
            Self::Mmap => "mmap",
        }
    }

    /// Returns the mode of that name; `auto` selects the default.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::default()),
            _ => {
                [Self::Standard, Self::MmapIndexOnly, Self::Mmap].into_iter().find(|mode| mode.name() == name)
            }
        }
    }
}

/// A cache of chunks, limited by bytes. A reader keeps a chunk alive beyond its eviction.
#[derive(Debug)]
pub struct ChunkCache {
    cache: Cache<Key, Bytes, ByteWeight, DefaultHashBuilder, KeepEvicted>,
    disk_access: DiskAccessMode,
    files: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    miss_nanos: AtomicU64,
}

/// Content and counters of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    /// Successful lookups.
    pub hits: u64,
    /// Unsuccessful lookups.
    pub misses: u64,
    /// Nanoseconds spent on loading missing entries, where that is measured: chunks.
    pub miss_nanos: u64,
    ///  Entries in the cache.
    pub entries: usize,
    /// Bytes in the cache.
    pub bytes: u64,
    /// The limit of bytes.
    pub capacity: u64,
}

impl CacheStats {
    /// Returns the number of lookups.
    pub fn requests(&self) -> u64 {
        self.hits + self.misses
    }

    /// Returns the fraction of successful lookups; NaN without lookups, as Cassandra shows it.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.requests() as f64
    }

    /// Returns the mean time of a miss in microseconds; NaN without misses.
    pub fn miss_latency_micros(&self) -> f64 {
        self.miss_nanos as f64 / 1000.0 / self.misses as f64
    }
}

impl ChunkCache {
    /// Creates a cache of up to `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        // Chunks have 4 to 64 KiB; the estimate only sizes the cache's first tables, which grow.
        let items = (capacity / (16 << 10)).clamp(16, 1 << 14) as usize;
        Self {
            cache: Cache::with(items, capacity, ByteWeight, DefaultHashBuilder::default(), KeepEvicted),
            disk_access: DiskAccessMode::default(),
            files: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            miss_nanos: AtomicU64::new(0),
        }
    }

    /// Sets how files opened for this cache are read.
    pub fn with_disk_access(self, disk_access: DiskAccessMode) -> Self {
        Self { disk_access, ..self }
    }

    pub(crate) fn disk_access(&self) -> DiskAccessMode {
        self.disk_access
    }

    /// Returns a unique number for a file.
    pub(crate) fn register_file(&self) -> u64 {
        self.files.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the chunk, if it is cached.
    #[inline]
    pub(crate) fn get(&self, file: u64, chunk: u64) -> Option<Bytes> {
        let found = self.cache.get(&Key { file, chunk });
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Does [`Self::get`] without counting a miss, for a caller that looks elsewhere then.
    #[inline]
    pub(crate) fn peek(&self, file: u64, chunk: u64) -> Option<Bytes> {
        let found = self.cache.get(&Key { file, chunk });
        if found.is_some() {
            self.hits.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// Counts a miss of a caller that has only [peeked](Self::peek).
    #[inline]
    pub(crate) fn count_miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the time to read a missing chunk.
    pub(crate) fn record_miss(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.miss_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Sets the capacity, and evicts the excess.
    pub fn set_capacity(&self, capacity: u64) {
        self.cache.set_capacity(capacity);
    }

    /// Caches a chunk. Two concurrent readers that miss both read it; the second one's replaces the
    /// first's.
    pub(crate) fn insert(&self, file: u64, chunk: u64, bytes: Bytes) {
        let mut evicted = Vec::new();
        self.cache.insert_with_lifecycle(Key { file, chunk }, bytes, &mut evicted);
        evicted.into_iter().for_each(Spare::keep);
    }

    /// Returns content and counters.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            miss_nanos: self.miss_nanos.load(Ordering::Relaxed),
            entries: self.cache.len(),
            bytes: self.cache.weight(),
            capacity: self.cache.capacity(),
        }
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.cache.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_held_stay_within_the_capacity() {
        let cache = ChunkCache::new(1 << 20);
        let file = cache.register_file();
        for chunk in 0..1000 {
            cache.insert(file, chunk, Bytes::from(vec![0; 16 << 10]));
        }
        let stats = cache.stats();
        assert!(stats.bytes <= stats.capacity && stats.entries > 16, "{stats:?}");
        assert_ne!(cache.register_file(), file);
    }

    #[test]
    fn a_chunk_that_is_read_keeps_its_bytes_when_it_is_evicted() {
        let cache = ChunkCache::new(1 << 20);
        let file = cache.register_file();
        let read = |chunk: u64| {
            let mut buffer = buffer(16 << 10);
            buffer.fill(chunk as u8);
            let bytes = buffer.freeze();
            cache.insert(file, chunk, bytes.clone());
            bytes
        };
        let held: Vec<_> = (0..10).map(read).collect();
        (10..1000).for_each(|chunk| drop(read(chunk)));
        for (chunk, bytes) in held.iter().enumerate() {
            assert!(bytes.len() == 16 << 10 && bytes.iter().all(|byte| *byte == chunk as u8));
        }
        for chunk in 0..1000 {
            if let Some(bytes) = cache.get(file, chunk) {
                assert!(bytes.iter().all(|byte| *byte == chunk as u8));
            }
        }
        assert_eq!(buffer(100).len(), 100);
    }
}
