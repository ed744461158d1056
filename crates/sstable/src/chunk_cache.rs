//! Decompressed, verified chunks in memory, shared by all files.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Which chunk: a file's number in this process, and the chunk's in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    file: u64,
    chunk: u64,
}

#[derive(Debug, Clone)]
struct ByteWeight;

impl Weighter<Key, Bytes> for ByteWeight {
    fn weight(&self, _: &Key, chunk: &Bytes) -> u64 {
        // The entry itself, about: key, slice, and the cache's own links.
        chunk.len() as u64 + 96
    }
}

/// A cache of chunks bounded by bytes. Whoever holds a chunk keeps it alive beyond its eviction.
#[derive(Debug)]
pub struct ChunkCache {
    cache: Cache<Key, Bytes, ByteWeight>,
    files: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What a cache has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    /// Chunks found.
    pub hits: u64,
    /// Chunks that had to be read.
    pub misses: u64,
    /// Chunks held.
    pub entries: usize,
    /// Bytes held.
    pub bytes: u64,
    /// Bytes that may be held.
    pub capacity: u64,
}

impl ChunkCache {
    /// A cache of up to `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        // Chunks are 4 to 64 KiB; the estimate only sizes the cache's first tables.
        let items = (capacity / (16 << 10)).clamp(16, 1 << 20) as usize;
        Self {
            cache: Cache::with_weighter(items, capacity, ByteWeight),
            files: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// A number for a file whose chunks will be asked for; never given twice.
    pub(crate) fn register_file(&self) -> u64 {
        self.files.fetch_add(1, Ordering::Relaxed)
    }

    /// The chunk, if it is here.
    #[inline]
    pub(crate) fn get(&self, file: u64, chunk: u64) -> Option<Bytes> {
        let found = self.cache.get(&Key { file, chunk });
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps a chunk. Two readers that miss at once both read it; the second one's replaces the first's.
    pub(crate) fn insert(&self, file: u64, chunk: u64, bytes: Bytes) {
        self.cache.insert(Key { file, chunk }, bytes);
    }

    /// What it holds and how often it helped.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            entries: self.cache.len(),
            bytes: self.cache.weight(),
            capacity: self.cache.capacity(),
        }
    }

    /// Drops everything.
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
}
