//! The counter cache: the counts of this node, so that an increment need not read before it writes.
//!
//! An entry is this node's clock and count in one counter. These rules make it equivalent to a
//! read:
//!
//! 1. A thread that looks up or inserts an entry holds the partition's lock, like every counter
//!    write, from before the look-up until its write is complete or has failed. After a failure,
//!    and after a deletion, all entries of the partition are invalidated.
//! 2. Changes other than writes (truncation, import, scrub, ALTER TABLE, a quarantined SSTable)
//!    change the view's [`contents`](crate::store::table::View::contents): an entry is valid for
//!    the contents taken before it was read or written.
//! 3. An entry contains the latest deletion of the data read for it, and is valid only for later
//!    increments: an older one would be counted although the deletion covers it. A deleted counter,
//!    as opposed to its row, remains deleted after later writes, so it has no entry.
//!
//! A partition is invalidated by incrementing its epoch. There is a fixed number of epochs, each
//! shared by the partitions whose tokens map to it, so no search is necessary. The other
//! partitions' entries are read again.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cassette_rows::{Clustering, ColumnId, DecoratedKey, TableId};
use cassette_sstable::chunk_cache::CacheStats;
use hashbrown::HashSet;
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};

use crate::memory::cache_usage::{Lookups, most_accessed};

/// This node's part of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Increases with each write.
    pub clock: i64,
    /// The count.
    pub count: i64,
    /// The write timestamp of the latest deletion that may cover it, microseconds; the minimum if
    /// there is none. Only later increments count.
    pub deleted: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    table: TableId,
    key: DecoratedKey,
    clustering: Clustering,
    column: ColumnId,
}

/// A key for look-ups.
struct KeyRef<'a> {
    table: TableId,
    key: &'a DecoratedKey,
    clustering: &'a Clustering,
    column: ColumnId,
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.table.hash(state);
        self.key.hash(state);
        self.clustering.hash(state);
        self.column.hash(state);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.table == key.table
            && self.column == key.column
            && *self.key == key.key
            && *self.clustering == key.clustering
    }
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    counted: Counted,
    contents: u64,
    epoch: u64,
}

/// Key and slot; with the cache's links, count, state and hash slot, and the headers of the key's
/// two allocations.
const ENTRY_BYTES: u64 = (size_of::<Key>() + size_of::<Slot>() + 32 + 32) as u64;

#[derive(Clone)]
struct ByteWeight;

impl Weighter<Key, Slot> for ByteWeight {
    fn weight(&self, key: &Key, _: &Slot) -> u64 {
        key.key.key().len() as u64 + key.clustering.heap_size() as u64 + ENTRY_BYTES
    }
}

/// 32 KiB; two partitions share an epoch with a probability of 1 in 4096.
const EPOCHS: usize = 4096;

/// The counts of this node, bounded by bytes.
pub(crate) struct CounterCache {
    cache: Cache<Key, Slot, ByteWeight>,
    epochs: Box<[AtomicU64]>,
    lookups: Lookups,
}

impl CounterCache {
    /// Returns a cache of up to `capacity` bytes; 0 disables it.
    pub fn new(capacity: u64) -> Self {
        // The estimate determines only the initial size of the tables.
        let items = (capacity / 256).clamp(16, 1 << 14) as usize;
        Self {
            cache: Cache::with_weighter(items, capacity, ByteWeight),
            epochs: (0..EPOCHS).map(|_| AtomicU64::new(0)).collect(),
            lookups: Lookups::default(),
        }
    }

    /// Whether the cache has a capacity.
    pub fn is_enabled(&self) -> bool {
        self.cache.capacity() > 0
    }

    /// Whether there is almost no space left.
    pub fn is_full(&self) -> bool {
        self.cache.weight() + 2 * ENTRY_BYTES > self.cache.capacity()
    }

    fn epoch(&self, key: &DecoratedKey) -> &AtomicU64 {
        &self.epochs[key.token().0.unsigned_abs() as usize % EPOCHS]
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.cache.clear();
    }

    /// Sets the capacity in bytes, and evicts what exceeds it.
    pub fn set_capacity(&self, capacity: u64) {
        self.cache.set_capacity(capacity);
    }

    /// Returns the rows with cached counters, by table; those of the `most` most frequently
    /// accessed counters if there are more.
    pub fn rows(&self, most: usize) -> Vec<(TableId, DecoratedKey, Clustering)> {
        let counters = most_accessed(&self.cache, most).into_iter();
        let rows: HashSet<_> = counters.map(|key| (key.table, key.key, key.clustering)).collect();
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_unstable_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        rows
    }

    /// Returns the statistics of the cache.
    pub fn stats(&self) -> CacheStats {
        self.lookups.stats(&self.cache)
    }
}

/// The counter cache for a write of one partition, whose lock the writer holds.
pub struct PartitionCounters<'a> {
    cache: &'a CounterCache,
    table: TableId,
    key: &'a DecoratedKey,
    contents: u64,
    epoch: u64,
}

impl<'a> PartitionCounters<'a> {
    /// Called before the partition is read; `contents` are those of the table's view.
    pub(crate) fn new(cache: &'a CounterCache, table: TableId, key: &'a DecoratedKey, contents: u64) -> Self {
        Self { cache, table, key, contents, epoch: cache.epoch(key).load(Ordering::Acquire) }
    }

    fn key_ref<'k>(&self, clustering: &'k Clustering, column: ColumnId) -> KeyRef<'k>
    where
        'a: 'k,
    {
        KeyRef { table: self.table, key: self.key, clustering, column }
    }

    /// Returns this node's count of a counter, for an increment with this write timestamp; static
    /// counters have the empty clustering.
    pub fn get(&self, clustering: &Clustering, column: ColumnId, timestamp: i64) -> Option<Counted> {
        let slot = self.cache.cache.get(&self.key_ref(clustering, column));
        let found = slot
            .filter(|slot| slot.contents == self.contents && slot.epoch == self.epoch)
            .map(|slot| slot.counted)
            .filter(|counted| counted.deleted < timestamp);
        self.cache.lookups.record(found.is_some());
        found
    }

    /// Records a count that was written or read.
    pub fn put(&self, clustering: &Clustering, column: ColumnId, counted: Counted) {
        let slot = Slot { counted, contents: self.contents, epoch: self.epoch };
        // Copies: the key may share a buffer much larger than itself.
        let key = Bytes::copy_from_slice(self.key.key());
        let key = Key {
            table: self.table,
            key: DecoratedKey::with_token(self.key.token(), key),
            clustering: clustering.clone(),
            column,
        };
        self.cache.cache.insert(key, slot);
    }

    /// Invalidates all entries of the partition: it was partly deleted, or a write failed that may
    /// still take effect.
    pub fn forget(&self) {
        self.cache.epoch(self.key).fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine_tests::testing::{clustering, key};

    const TABLE: TableId = TableId(uuid::Uuid::from_u128(1));
    const COLUMN: ColumnId = ColumnId(0);

    fn counted(n: i64) -> Counted {
        Counted { clock: n, count: n, deleted: n }
    }

    #[test]
    fn a_count_is_good_until_the_partition_or_the_contents_of_the_table_change() {
        let cache = CounterCache::new(1 << 20);
        let (one, row) = (key(1), clustering(1, 1));
        let at = |contents| PartitionCounters::new(&cache, TABLE, &one, contents);
        at(0).put(&row, COLUMN, counted(4));
        assert_eq!(at(0).get(&row, COLUMN, 5), Some(counted(4)));
        assert_eq!(at(0).get(&row, COLUMN, 4), None, "the deletion covers it");
        assert_eq!(at(0).get(&row, ColumnId(1), 5), None);
        assert_eq!(at(0).get(&clustering(1, 2), COLUMN, 5), None);
        assert_eq!(at(1).get(&row, COLUMN, 5), None);
        let before = at(0);
        at(0).forget();
        assert_eq!(at(0).get(&row, COLUMN, 5), None);
        before.put(&row, COLUMN, counted(5));
        assert_eq!(at(0).get(&row, COLUMN, 6), None, "it was read before the deletion");
        assert_eq!((cache.stats().hits, cache.stats().misses), (1, 6));
    }

    #[test]
    fn bytes_held_stay_within_the_capacity_and_the_rows_asked_for_most_are_known() {
        let cache = CounterCache::new(1 << 16);
        for k in 0..2000 {
            let key = key(k);
            let counters = PartitionCounters::new(&cache, TABLE, &key, 0);
            counters.put(&clustering(k, 0), COLUMN, counted(1));
            counters.put(&clustering(k, 0), ColumnId(1), counted(1));
        }
        let stats = cache.stats();
        assert!(stats.bytes <= stats.capacity && stats.entries > 100, "{stats:?}");
        let cache = CounterCache::new(1 << 20);
        for k in 0..10 {
            let key = key(k);
            let counters = PartitionCounters::new(&cache, TABLE, &key, 0);
            counters.put(&clustering(k, 0), COLUMN, counted(1));
            if k == 4 {
                counters.get(&clustering(k, 0), COLUMN, 2);
            }
        }
        assert_eq!(cache.rows(1), [(TABLE, key(4), clustering(4, 0))]);
        assert_eq!(cache.rows(usize::MAX).len(), 10);
        cache.clear();
        assert_eq!(cache.stats().entries, 0);
    }
}
