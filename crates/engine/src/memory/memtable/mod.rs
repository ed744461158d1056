//! Memtables: the latest writes of a table, in memory, in the order of SSTables.
//!
//! A memtable is divided into shards by token. A shard is a sorted map of partitions behind a lock.
//! A partition is a structure of shared parts: a reader takes a snapshot under the lock, in
//! constant time, and reads it without the lock. A mutation changes its partition under the shard's
//! write lock, so it is visible as a whole or not at all.

mod columns;
mod cursor;
mod partition;
mod partitions;
mod stats;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cassette_rows::{DecoratedKey, PartitionUpdate, Selection, TableMetadata, Token};
use crossbeam_utils::CachePadded;
use parking_lot::RwLock;

use crate::basics::key_range::KeyBounds;
use crate::log::commitlog::Position;
pub(crate) use partition::Partition;
use partitions::{ENTRY_SIZE, Partitions};
pub(crate) use stats::MemtableStats;
pub(crate) use stream::{MemtableScan, PartitionRead};

/// The number of shards, a power of two: more than there are concurrent writers, and few enough to
/// iterate over.
const SHARDS: usize = 16;

/// The writes of one table since its last flush.
pub(crate) struct Memtable {
    /// The commit log position where its writes begin.
    pub begins: Position,
    /// The time of its creation, monotonic.
    pub created: Duration,
    shards: [CachePadded<RwLock<Shard>>; SHARDS],
    heap_bytes: AtomicUsize,
    /// Whether it contains writes that the commit log does not.
    has_unlogged: AtomicBool,
}

#[derive(Default)]
struct Shard {
    partitions: Partitions,
    stats: MemtableStats,
}

impl Memtable {
    /// Returns an empty memtable for writes logged from `begins` on.
    pub fn new(begins: Position, created: Duration) -> Self {
        Self {
            begins,
            created,
            shards: std::array::from_fn(|_| CachePadded::default()),
            heap_bytes: AtomicUsize::new(0),
            has_unlogged: AtomicBool::new(false),
        }
    }

    fn shard_of(token: Token) -> usize {
        ((token.0 as u64 ^ 1 << 63) >> (64 - SHARDS.ilog2())) as usize
    }

    fn shard_count(&self) -> usize {
        SHARDS
    }

    /// Applies updates of one partition together. Returns the growth of the memtable in heap bytes.
    pub fn apply<'a>(
        &self,
        key: &DecoratedKey,
        updates: impl Iterator<Item = (&'a PartitionUpdate, &'a TableMetadata)>,
    ) -> isize {
        self.apply_and(key, updates, || {})
    }

    /// [`Self::apply`], and calls `also` before the changes become visible.
    pub fn apply_and<'a>(
        &self,
        key: &DecoratedKey,
        updates: impl Iterator<Item = (&'a PartitionUpdate, &'a TableMetadata)>,
        also: impl FnOnce(),
    ) -> isize {
        let mut shard = self.shards[Self::shard_of(key.token())].write();
        let Shard { partitions, stats } = &mut *shard;
        let mut growth = 0;
        let (partition, is_new) = partitions.get_or_insert(key);
        if is_new {
            growth += (ENTRY_SIZE + key.key().len()) as isize;
        }
        for (update, table) in updates {
            stats.add(update);
            growth += partition.apply(update, table);
        }
        also();
        drop(shard);
        self.heap_bytes.fetch_add(growth as usize, Ordering::Relaxed);
        growth
    }

    /// Takes a snapshot of a partition.
    pub fn read(
        &self,
        key: &DecoratedKey,
        table: &Arc<TableMetadata>,
        selection: &Arc<Selection>,
    ) -> Option<PartitionRead> {
        let partition = self.shards[Self::shard_of(key.token())].read().partitions.get(key).cloned()?;
        Some(PartitionRead::new(key.clone(), partition, table.clone(), selection.clone()))
    }

    /// Whether anything was written to the partition.
    pub fn contains(&self, key: &DecoratedKey) -> bool {
        self.shards[Self::shard_of(key.token())].read().partitions.get(key).is_some()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.read().partitions.is_empty())
    }

    /// The number of partitions.
    pub fn partition_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().partitions.len()).sum()
    }

    /// Returns its heap bytes.
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes.load(Ordering::Relaxed)
    }

    /// Records that it contains writes that the commit log does not.
    pub fn note_unlogged(&self) {
        self.has_unlogged.store(true, Ordering::Relaxed);
    }

    /// Whether it contains writes that the commit log does not.
    pub fn has_unlogged(&self) -> bool {
        self.has_unlogged.load(Ordering::Relaxed)
    }

    /// Returns statistics of its contents.
    pub fn stats(&self) -> MemtableStats {
        let mut all = MemtableStats::default();
        for shard in &self.shards {
            all.merge(&shard.read().stats);
        }
        all
    }

    /// Returns the minimum write timestamp, microseconds; `i64::MAX` if there is none.
    pub fn min_timestamp(&self) -> i64 {
        self.shards.iter().map(|shard| shard.read().stats.min_timestamp).min().unwrap_or(i64::MAX)
    }

    /// Copies up to `limit` partitions of a shard within `range`. Returns whether the shard may
    /// have more.
    fn copy_partitions(
        &self,
        shard: usize,
        range: &KeyBounds,
        limit: usize,
        out: &mut VecDeque<(DecoratedKey, Partition)>,
    ) -> bool {
        let shard = self.shards[shard].read();
        let before = out.len();
        let within = shard.partitions.range(range).take(limit);
        out.extend(within.map(|(key, partition)| (key, partition.clone())));
        out.len() - before == limit
    }
}
