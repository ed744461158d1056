//! Statistics of the row cache and the counter cache: hits, misses, frequently accessed keys.

use std::cmp::Reverse;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering};

use cassette_sstable::chunk_cache::CacheStats;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, Weighter};

/// Counters of the look-ups in a cache.
#[derive(Default)]
pub(crate) struct Lookups {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Lookups {
    pub fn record(&self, hit: bool) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the statistics of `cache`, whose look-ups these are.
    pub fn stats<K, V, W, H, L>(&self, cache: &Cache<K, V, W, H, L>) -> CacheStats
    where
        K: Eq + Hash,
        V: Clone,
        W: Weighter<K, V> + Clone,
        H: BuildHasher + Clone,
        L: Lifecycle<K, V> + Clone,
    {
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            entries: cache.len(),
            bytes: cache.weight(),
            capacity: cache.capacity(),
            miss_nanos: 0,
        }
    }
}

/// Returns the keys of a cache, unordered; the `most` most frequently accessed ones if it has more.
pub(crate) fn most_accessed<K, V, W, H, L>(cache: &Cache<K, V, W, H, L>, most: usize) -> Vec<K>
where
    K: Eq + Hash + Clone,
    V: Clone,
    W: Weighter<K, V> + Clone,
    H: BuildHasher + Clone,
    L: Lifecycle<K, V> + Clone,
{
    let accesses = |key: &K| cache.item_stats(key).map_or(0, |stats| stats.access_count);
    let mut keys: Vec<_> = cache.iter().map(|(key, _)| (accesses(&key), key)).collect();
    if most < keys.len() {
        keys.select_nth_unstable_by_key(most, |(accesses, _)| Reverse(*accesses));
        keys.truncate(most);
    }
    keys.into_iter().map(|(_, key)| key).collect()
}
