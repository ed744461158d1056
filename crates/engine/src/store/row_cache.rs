//! The row cache: merged partitions, or their first rows.
//!
//! An entry holds the result of a read of the whole partition, in the structure of memtables: a
//! reader takes a snapshot of it in constant time. Writes are applied to the entry as to the
//! memtable. These rules make the entry equivalent to a read without it:
//!
//! 1. A reader that misses first inserts an entry in state *loading*, and then takes the view that
//!    it reads from.
//! 2. A writer changes the memtable and the entry under one lock, that of the memtable's shard. If
//!    the entry is loading, the change is recorded in it: the reader may have read before the
//!    change. Applying it twice has no further effect.
//! 3. The reader publishes what it read, merged with the recorded changes, for the view that it
//!    read from. An entry is valid for views with the same
//!    [`contents`](crate::store::table::View::contents): flushes and compactions preserve that, all
//!    other changes of SSTables or of the schema do not.
//! 4. A compaction may purge tombstones, so that an older write that arrives later becomes visible.
//!    An entry with deletions is valid only for the [`purges`](crate::store::table::View::purges)
//!    of its view.
//!
//! Lock order: memtable shard, a shard of the cache for the duration of a look-up, entry. No entry
//! is locked while a lock of the cache is held.

use std::sync::Arc;

use cassette_rows::schema::RowsPerPartition;
use cassette_rows::{
    Bound, Clustering, DecoratedKey, PartitionStream, PartitionUpdate, RangeTombstone, Result, Selection,
    TableId, TableMetadata, Unfiltered,
};
use cassette_sstable::chunk_cache::CacheStats;
use parking_lot::{Mutex, RwLock};
use quick_cache::sync::{Cache, EntryAction, EntryResult};
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};

use crate::memory::cache_usage::{Lookups, most_accessed};
use crate::memory::memtable::Partition;
use crate::store::table::View;

/// A partition of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub table: TableId,
    pub key: DecoratedKey,
}

/// An entry, and its weight in bytes at the last weighing.
#[derive(Clone)]
struct Slot {
    entry: Arc<Entry>,
    bytes: u64,
}

#[derive(Clone)]
struct ByteWeight;

impl Weighter<Key, Slot> for ByteWeight {
    fn weight(&self, key: &Key, slot: &Slot) -> u64 {
        slot.bytes + key.key.key().len() as u64 + ENTRY_BYTES
    }
}

/// Collects evicted entries, which are dropped after the cache's lock is released: a partition may
/// have many rows.
#[derive(Clone)]
struct DropLater;

impl Lifecycle<Key, Slot> for DropLater {
    type RequestState = Vec<Slot>;

    fn on_evict(&self, evicted: &mut Vec<Slot>, _: Key, slot: Slot) {
        evicted.push(slot);
    }
}

/// Key, slot, the cache's links, count and hash slot; the entry with its counts.
const ENTRY_BYTES: u64 = (size_of::<Key>() + size_of::<Slot>() + 32 + size_of::<Entry>() + 16) as u64;

/// The maximum number of updates recorded in a loading entry. More arrive only if reading the
/// partition takes long; the entry is then discarded.
const PENDING_MAX: usize = 64;

pub(crate) struct Entry(RwLock<State>);

enum State {
    /// The partition is being read. Contains the updates since the read began.
    Loading(Vec<PartitionUpdate>),
    Ready(Cached),
    /// The partition is too large for the cache, for views with these contents.
    TooLarge {
        contents: u64,
    },
    /// The entry was discarded.
    Gone,
}

/// A cached partition.
struct Cached {
    partition: Partition,
    /// Whether the partition exists.
    exists: bool,
    reach: Reach,
    /// The number of rows to cache; the entry may have more temporarily.
    rows_max: usize,
    /// Whether it contains or contained deletions or expiring data.
    has_deletions: bool,
    /// Heap bytes of the partition.
    bytes: usize,
    contents: u64,
    purges: u64,
}

/// The extent of the cached rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reach {
    /// The whole partition.
    All,
    /// Up to and including the row with this clustering.
    UpTo(Clustering),
}

/// The result of a look-up.
pub(crate) enum Found {
    /// The current partition; `None` if it does not exist.
    Hit(Option<Partition>),
    /// There is an entry, which cannot answer the read and cannot be replaced now.
    Unusable,
    /// There is no entry. The result of a read can be [published](Loading::publish) after
    /// [`begin`](RowCache::begin).
    Nothing,
}

/// The entry of a partition that a thread is reading.
pub(crate) struct Loading {
    cache: Arc<RowCache>,
    key: Key,
    entry: Arc<Entry>,
}

/// Cached partitions, bounded by bytes.
pub(crate) struct RowCache {
    cache: Cache<Key, Slot, ByteWeight, DefaultHashBuilder, DropLater>,
    /// Locked while the capacity is set.
    resizing: Mutex<()>,
    lookups: Lookups,
}

impl RowCache {
    /// Returns a cache of up to `capacity` bytes; 0 disables it.
    pub fn new(capacity: u64) -> Arc<Self> {
        // The estimate determines only the initial size of the tables.
        let items = (capacity / 1024).clamp(16, 1 << 14) as usize;
        let hasher = DefaultHashBuilder::default();
        Arc::new(Self {
            cache: Cache::with(items, capacity, ByteWeight, hasher, DropLater),
            resizing: Mutex::new(()),
            lookups: Lookups::default(),
        })
    }

    /// Whether the cache has a capacity.
    pub fn is_enabled(&self) -> bool {
        self.cache.capacity() > 0
    }

    /// Whether partitions of the table are cached according to `caching`. Counters are never
    /// cached: each increment reads and writes, so caching gains nothing.
    pub fn takes(&self, table: &TableMetadata) -> bool {
        table.params.caching.rows_per_partition != RowsPerPartition::None && !table.is_counter
    }

    /// Looks up a partition under `selection`, of which the reader needs at most `wanted` live rows
    /// if that is known.
    pub fn find(&self, view: &View, key: &DecoratedKey, selection: &Selection, wanted: Option<u32>) -> Found {
        let found = self.look(view, key, selection, wanted);
        self.lookups.record(matches!(found, Found::Hit(_)));
        found
    }

    /// [`Self::find`] without recording a hit or miss.
    pub fn look(&self, view: &View, key: &DecoratedKey, selection: &Selection, wanted: Option<u32>) -> Found {
        let key = Key { table: view.table.id, key: key.clone() };
        let Some(slot) = self.cache.get(&key) else { return Found::Nothing };
        let state = slot.entry.0.read();
        match &*state {
            State::Ready(cached) if cached.is_good_for(view) => {
                return if cached.reach.answers(&cached.partition, selection, wanted, &view.table) {
                    Found::Hit(cached.exists.then(|| cached.partition.clone()))
                } else {
                    Found::Unusable
                };
            }
            State::TooLarge { contents } if *contents == view.contents => return Found::Unusable,
            State::Loading(_) => return Found::Unusable,
            State::Ready(_) | State::TooLarge { .. } | State::Gone => {}
        }
        drop(state);
        self.remove(&key, &slot.entry);
        Found::Nothing
    }

    /// Inserts a loading entry for a partition; `None` if there is an entry already.
    pub fn begin(self: &Arc<Self>, table: TableId, key: &DecoratedKey) -> Option<Loading> {
        // A copy: the key may share a buffer much larger than itself.
        let bytes = bytes::Bytes::copy_from_slice(key.key());
        let key = Key { table, key: DecoratedKey::with_token(key.token(), bytes) };
        let entry = Arc::new(Entry(RwLock::new(State::Loading(Vec::new()))));
        match self.cache.entry(&key, None, |_, _| EntryAction::Retain(())) {
            EntryResult::Vacant(guard) => {
                // An entry that is not in the cache would miss writes.
                guard.insert(Slot { entry: entry.clone(), bytes: 0 }).ok()?;
                Some(Loading { cache: self.clone(), key, entry })
            }
            _ => None,
        }
    }

    /// Applies updates to the entry of their partition. The caller holds the lock under which they
    /// are applied to the memtable.
    pub fn apply<'a>(
        &self,
        table: TableId,
        key: &DecoratedKey,
        updates: impl Iterator<Item = (&'a PartitionUpdate, &'a TableMetadata)>,
    ) {
        let key = Key { table, key: key.clone() };
        let Some(slot) = self.cache.peek(&key) else { return };
        let mut state = slot.entry.0.write();
        for (update, table) in updates {
            match &mut *state {
                State::Loading(pending) if pending.len() < PENDING_MAX => pending.push(update.clone()),
                State::Loading(_) => *state = State::Gone,
                State::Ready(cached) => cached.apply(update, table),
                State::TooLarge { .. } | State::Gone => {}
            }
        }
        let State::Ready(cached) = &*state else { return };
        let bytes = cached.bytes as u64;
        drop(state);
        // Each weighing takes the lock of a shard; small changes are included in the next one.
        if bytes.abs_diff(slot.bytes) > slot.bytes / 16 {
            self.weigh(&key, &slot.entry, bytes);
        }
    }

    /// Updates the weight of the entry, if it is still in the cache.
    fn weigh(&self, key: &Key, entry: &Arc<Entry>, bytes: u64) {
        self.change(key, entry, |slot| {
            slot.bytes = bytes;
            EntryAction::Retain(())
        });
        // Inserts evict entries, but growing entries do not. Setting the capacity does.
        if self.cache.weight() > self.cache.capacity() {
            let _alone = self.resizing.lock();
            self.cache.set_capacity(self.cache.capacity());
        }
    }

    /// Removes the entry from the cache, if it is still there.
    fn remove(&self, key: &Key, entry: &Arc<Entry>) {
        self.change(key, entry, |_| EntryAction::Remove);
    }

    fn change(&self, key: &Key, entry: &Arc<Entry>, change: impl FnOnce(&mut Slot) -> EntryAction<()>) {
        let result = self.cache.entry(key, None, |_, slot| {
            if Arc::ptr_eq(&slot.entry, entry) { change(slot) } else { EntryAction::Retain(()) }
        });
        // Dropping the guard of a vacant entry inserts nothing.
        drop(result);
    }

    /// Removes a table's partitions.
    pub fn forget(&self, table: TableId) {
        self.cache.retain(|key, _| key.table != table);
    }

    /// Removes all partitions.
    pub fn clear(&self) {
        self.cache.clear();
    }

    /// Sets the capacity in bytes, and evicts what exceeds it.
    pub fn set_capacity(&self, capacity: u64) {
        let _alone = self.resizing.lock();
        self.cache.set_capacity(capacity);
    }

    /// Returns the cached partitions, by table and token; the `most` most frequently accessed ones
    /// if there are more.
    pub fn keys(&self, most: usize) -> Vec<(TableId, DecoratedKey)> {
        let keys = most_accessed(&self.cache, most).into_iter();
        let mut keys: Vec<_> = keys.map(|key| (key.table, key.key)).collect();
        keys.sort_unstable();
        keys
    }

    /// Whether there is almost no space left.
    pub fn is_full(&self) -> bool {
        self.cache.weight() + 2 * ENTRY_BYTES > self.cache.capacity()
    }

    /// Returns the statistics of the cache.
    pub fn stats(&self) -> CacheStats {
        self.lookups.stats(&self.cache)
    }
}

impl Loading {
    /// Reads the partition from `stream` and publishes it. The stream must be of `view`, which was
    /// taken after [`begin`](RowCache::begin), without a selection. Caches the rows selected by
    /// `rows`, and at most a share of the cache.
    pub fn publish(
        self,
        stream: &mut dyn PartitionStream,
        view: &View,
        rows: RowsPerPartition,
        now: u32,
    ) -> Result<()> {
        /// Larger partitions than this fraction of a shard would evict too many others.
        const SHARE: u64 = 4;
        let bytes_max = self.cache.cache.shard_capacity() / SHARE;
        let Some(mut cached) = Cached::read(stream, &self.key.key, view, rows, now, bytes_max)? else {
            *self.entry.0.write() = State::TooLarge { contents: view.contents };
            return Ok(());
        };
        let mut state = self.entry.0.write();
        let State::Loading(pending) = &mut *state else { return Ok(()) };
        for update in std::mem::take(pending) {
            cached.apply(&update, &view.table);
        }
        let bytes = cached.bytes as u64;
        *state = State::Ready(cached);
        drop(state);
        self.cache.weigh(&self.key, &self.entry, bytes);
        Ok(())
    }
}

impl Drop for Loading {
    /// Removes an entry that was not published.
    fn drop(&mut self) {
        let mut state = self.entry.0.write();
        if matches!(*state, State::Loading(_) | State::Gone) {
            *state = State::Gone;
            drop(state);
            self.cache.remove(&self.key, &self.entry);
        }
    }
}

impl Cached {
    /// Reads a partition from a stream, or its first rows. `None` if it exceeds `bytes_max`.
    fn read(
        stream: &mut dyn PartitionStream,
        key: &DecoratedKey,
        view: &View,
        rows: RowsPerPartition,
        now: u32,
        bytes_max: u64,
    ) -> Result<Option<Self>> {
        let rows_max = match rows {
            RowsPerPartition::None => return Ok(None),
            RowsPerPartition::Head(rows) => rows as usize,
            RowsPerPartition::All => usize::MAX,
        };
        let table = &view.table;
        let mut update = PartitionUpdate::new(key.clone());
        let mut reach = Reach::All;
        let header = stream.next_partition()?;
        let exists = header.is_some();
        if let Some(header) = header {
            update.deletion = header.deletion;
            update.static_row = header.static_row.map(|row| row.compacted());
            let mut opened: Option<(Bound, cassette_rows::DeletionTime)> = None;
            let (mut live, mut bytes) = (0, 0);
            while let Some(unfiltered) = stream.next_unfiltered()? {
                match unfiltered {
                    Unfiltered::Row(row) => {
                        let row = row.compacted();
                        live += usize::from(row.is_live(now));
                        bytes += row.heap_size();
                        let ends = (live >= rows_max).then(|| row.clustering().clone());
                        update.rows.push(row);
                        if let Some(last) = ends {
                            reach = Reach::UpTo(last);
                            break;
                        }
                    }
                    Unfiltered::Marker(marker) => {
                        if let Some((start, deletion)) = opened.take() {
                            let end = marker.bound.clone();
                            let tombstone = RangeTombstone { start, end, deletion };
                            update.range_tombstones.add(tombstone, &table.comparator);
                            bytes += size_of::<RangeTombstone>();
                        }
                        opened = marker.open.map(|deletion| (marker.bound, deletion));
                    }
                }
                if bytes as u64 > bytes_max {
                    return Ok(None);
                }
            }
            // A range deletion that is open after the last cached row is closed there.
            if let (Some((start, deletion)), Reach::UpTo(last)) = (opened, &reach) {
                let tombstone = RangeTombstone { start, end: Bound::after(last.clone()), deletion };
                update.range_tombstones.add(tombstone, &table.comparator);
            }
        }
        let mut partition = Partition::new();
        let bytes = partition.apply(&update, table);
        Ok(Some(Self {
            partition,
            exists,
            reach,
            rows_max,
            has_deletions: has_deletions(&update),
            bytes: usize::try_from(bytes).unwrap_or(0),
            contents: view.contents,
            purges: view.purges,
        }))
    }

    /// Whether it equals the result of a read from `view`.
    fn is_good_for(&self, view: &View) -> bool {
        self.contents == view.contents && (self.purges == view.purges || !self.has_deletions)
    }

    fn apply(&mut self, update: &PartitionUpdate, table: &TableMetadata) {
        let growth = match &self.reach {
            Reach::All => self.partition.apply(update, table),
            Reach::UpTo(last) => {
                let is_known =
                    |clustering: &Clustering| table.comparator.compare_rows(clustering, last).is_le();
                if update.rows.last().is_none_or(|row| is_known(row.clustering())) {
                    self.partition.apply(update, table)
                } else {
                    let mut known = update.clone();
                    known.rows.retain(|row| is_known(row.clustering()));
                    self.partition.apply(&known, table)
                }
            }
        };
        self.exists = true;
        self.has_deletions |= has_deletions(update);
        self.bytes = self.bytes.saturating_add_signed(growth);
        if self.partition.row_count() > self.rows_max.saturating_mul(2) {
            self.cut(table);
        }
    }

    /// Removes rows beyond `rows_max`, because new ones are also inserted before them.
    fn cut(&mut self, table: &TableMetadata) {
        let mut kept = PartitionUpdate::new(DecoratedKey::new(bytes::Bytes::new()));
        kept.deletion = self.partition.deletion();
        kept.static_row = self.partition.static_row().cloned();
        kept.rows = self.partition.iter().take(self.rows_max).cloned().collect();
        let Some(last) = kept.rows.last().map(|row| row.clustering().clone()) else { return };
        let end = Bound::after(last.clone());
        for tombstone in self.partition.tombstones().map_or(&[][..], |list| list.as_slice()) {
            let compare = |bound: &Bound| table.comparator.compare(bound.position(), end.position());
            if compare(&tombstone.start).is_lt() {
                let mut tombstone = tombstone.clone();
                if compare(&tombstone.end).is_gt() {
                    tombstone.end = end.clone();
                }
                kept.range_tombstones.add(tombstone, &table.comparator);
            }
        }
        let mut partition = Partition::new();
        self.bytes = usize::try_from(partition.apply(&kept, table)).unwrap_or(0);
        self.partition = partition;
        self.reach = Reach::UpTo(last);
    }
}

fn has_deletions(update: &PartitionUpdate) -> bool {
    !update.deletion.is_live()
        || !update.range_tombstones.is_empty()
        || update.static_row.iter().chain(&update.rows).any(cassette_rows::Row::has_deletions)
}

impl Reach {
    /// Whether the cached rows contain all rows of the selection, or the `wanted` ones.
    fn answers(
        &self,
        partition: &Partition,
        selection: &Selection,
        wanted: Option<u32>,
        table: &TableMetadata,
    ) -> bool {
        let Self::UpTo(last) = self else { return true };
        let end = Bound::after(last.clone());
        let compare = |bound: &Bound| table.comparator.compare(bound.position(), end.position());
        if selection.slices.as_slice().iter().all(|slice| compare(&slice.end).is_le()) {
            return true;
        }
        let Some(wanted) = wanted else { return false };
        // Only rows that never expire count, since the reader's time is not known here.
        selection.slices.is_all()
            && !selection.reversed
            && partition.lasting_rows(wanted as usize) >= wanted as usize
    }
}
