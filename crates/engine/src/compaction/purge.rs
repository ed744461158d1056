//! The tombstones that a compaction may drop.

use std::sync::Arc;

use cassette_rows::DecoratedKey;
use cassette_rows::purge::PurgePolicy;
use cassette_rows::token::murmur3_hash;
use cassette_sstable::SSTableId;
use cassette_sstable::data::deletion_codec;
use hashbrown::HashSet;

use crate::store::sstable_handle::SSTable;
use crate::store::table::{Table, View};
use crate::strategies::tombstones::{Lifetime, fully_expired};

/// Purges by gc_grace_seconds and by overlap: a tombstone is dropped if all data outside the
/// compaction that may belong to the partition is newer.
pub(super) struct Purge {
    table: Arc<Table>,
    /// The compaction's inputs.
    compacting: HashSet<SSTableId>,
    /// Seconds since 1970; 0 purges nothing.
    gc_before: u32,
    /// The first and last key of the inputs.
    keys: Option<(DecoratedKey, DecoratedKey)>,
    /// The view at the last check, and its SSTables outside of the compaction in the range of these
    /// keys.
    seen: Option<(Arc<View>, Vec<Arc<SSTable>>)>,
}

impl Purge {
    /// Returns the policy of a compaction of `compacting`, which reads `inputs`.
    pub fn new(
        table: Arc<Table>,
        compacting: HashSet<SSTableId>,
        inputs: &[Arc<SSTable>],
        gc_before: u32,
    ) -> Self {
        let keys = inputs.iter().map(|input| (input.reader.first_key(), input.reader.last_key()));
        let keys = keys.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let keys = keys.map(|(first, last)| (first.clone(), last.clone()));
        Self { table, compacting, gc_before, keys, seen: None }
    }

    /// Returns the current view, which includes flushes since the compaction began.
    fn look(&mut self) -> Option<&(Arc<View>, Vec<Arc<SSTable>>)> {
        let view = self.table.view();
        if !self.seen.as_ref().is_some_and(|(seen, _)| Arc::ptr_eq(seen, &view)) {
            let (first, last) = self.keys.as_ref()?;
            let meets =
                |other: &&Arc<SSTable>| other.reader.first_key() <= last && first <= other.reader.last_key();
            let outside = outside(&view, &self.compacting).filter(meets).cloned().collect();
            self.seen = Some((Arc::clone(&view), outside));
        }
        self.seen.as_ref()
    }
}

impl PurgePolicy for Purge {
    fn gc_before(&self) -> u32 {
        self.gc_before
    }

    fn max_purgeable_timestamp(&mut self, key: &DecoratedKey) -> i64 {
        let Some((view, outside)) = self.look() else { return i64::MIN };
        if !view.unreadable.is_empty() {
            return i64::MIN;
        }
        let hash = murmur3_hash(key.key());
        let sstables = outside.iter().filter(|sstable| sstable.reader.may_contain_hashed(key, hash));
        let in_sstables = sstables.map(|sstable| sstable.min_timestamp()).min();
        let memtables = view.memtables().filter(|memtable| memtable.contains(key));
        let in_memtables = memtables.map(|memtable| memtable.min_timestamp()).min();
        in_sstables.unwrap_or(i64::MAX).min(in_memtables.unwrap_or(i64::MAX))
    }
}

/// Returns the SSTables of a view that a compaction of `compacting` does not read, including
/// quarantined ones.
fn outside<'a>(view: &'a View, compacting: &HashSet<SSTableId>) -> impl Iterator<Item = &'a Arc<SSTable>> {
    let all = view.sstables.iter().chain(&*view.quarantined);
    all.filter(move |sstable| !compacting.contains(&sstable.id()))
}

/// Returns the SSTables of `compacting` that can be dropped without being read. With
/// `ignore_overlaps`, older data in other SSTables does not prevent that: it may become visible
/// again.
pub(super) fn expired(
    view: &View,
    compacting: &[Arc<SSTable>],
    gc_before: u32,
    ignore_overlaps: bool,
) -> Vec<Arc<SSTable>> {
    if gc_before == 0 {
        return Vec::new();
    }
    if ignore_overlaps {
        let is_over = |sstable: &&Arc<SSTable>| lifetime(sstable).max_local_deletion_time < gc_before;
        return compacting.iter().filter(is_over).cloned().collect();
    }
    if !view.unreadable.is_empty() {
        return Vec::new();
    }
    let ids: HashSet<_> = compacting.iter().map(|sstable| sstable.id()).collect();
    let overlapping = outside(view, &ids).filter(|other| compacting.iter().any(|one| one.overlaps(other)));
    let overlapping: Vec<_> = overlapping.map(|sstable| lifetime(sstable)).collect();
    let lifetimes: Vec<_> = compacting.iter().map(|sstable| lifetime(sstable)).collect();
    let in_memtables = view.memtables().map(|memtable| memtable.min_timestamp()).min();
    let expired = fully_expired(&lifetimes, &overlapping, in_memtables.unwrap_or(i64::MAX), gc_before);
    expired.into_iter().map(|i| compacting[i].clone()).collect()
}

fn lifetime(sstable: &SSTable) -> Lifetime {
    let latest = deletion_codec::from_stored(sstable.reader.stats().max_local_deletion_time);
    Lifetime {
        min_timestamp: sstable.min_timestamp(),
        max_timestamp: sstable.max_timestamp(),
        max_local_deletion_time: latest.unwrap_or(u32::MAX),
    }
}
