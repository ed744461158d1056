//! What compaction may leave out.

use std::sync::Arc;

use cassette_rows::DecoratedKey;
use cassette_rows::purge::PurgePolicy;
use cassette_sstable::SSTableId;
use cassette_sstable::data::deletion_codec;
use hashbrown::HashSet;

use super::tombstones::{Lifetime, fully_expired};
use crate::sstable_handle::SSTable;
use crate::table::{Table, View};

/// Purges by gc_grace and by what overlaps: a tombstone goes when all data outside the compaction that may belong to the
/// partition is newer.
pub(super) struct Purge {
    pub table: Arc<Table>,
    /// The compaction's inputs.
    pub compacting: HashSet<SSTableId>,
    /// Seconds since 1970; 0 purges nothing.
    pub gc_before: u32,
}

impl PurgePolicy for Purge {
    fn gc_before(&self) -> u32 {
        self.gc_before
    }

    /// Asks the view as it is now: it has what was flushed since the compaction began.
    fn max_purgeable_timestamp(&mut self, key: &DecoratedKey) -> i64 {
        let view = self.table.view();
        if view.unreadable > 0 {
            return i64::MIN;
        }
        let sstables = outside(&view, &self.compacting).filter(|sstable| sstable.reader.may_contain(key));
        let in_sstables = sstables.map(|sstable| sstable.min_timestamp()).min();
        let memtables = view.memtables().filter(|memtable| memtable.contains(key));
        let in_memtables = memtables.map(|memtable| memtable.min_timestamp()).min();
        in_sstables.unwrap_or(i64::MAX).min(in_memtables.unwrap_or(i64::MAX))
    }
}

/// The SSTables of a view that a compaction of `compacting` does not read, those set aside among them.
fn outside<'a>(view: &'a View, compacting: &HashSet<SSTableId>) -> impl Iterator<Item = &'a Arc<SSTable>> {
    let all = view.sstables.iter().chain(&*view.set_aside);
    all.filter(move |sstable| !compacting.contains(&sstable.id()))
}

/// Those of `compacting` that can go unread.
pub(super) fn expired(view: &View, compacting: &[Arc<SSTable>], gc_before: u32) -> Vec<Arc<SSTable>> {
    if view.unreadable > 0 || gc_before == 0 {
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
