//! Decides which SSTables to compact alone, or to drop completely, for their tombstones. Pure
//! functions.

use super::options::CompactionOptions;

/// Properties of an SSTable's tombstones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tombstones {
    /// Seconds since it was written.
    pub age: u64,
    /// The fraction of its cells that could be dropped without overlaps.
    pub droppable_ratio: f64,
    /// The fraction of its keys that no other SSTable's range covers.
    pub keys_apart: f64,
    /// Whether it can be dropped completely.
    pub is_expired: bool,
}

/// Whether compacting an SSTable alone drops enough tombstones.
pub fn worth_dropping(tombstones: &Tombstones, options: &CompactionOptions) -> bool {
    // Estimates may be wrong: without the interval the same SSTable could be compacted repeatedly
    // without effect.
    if tombstones.age < options.tombstone_compaction_interval
        || tombstones.droppable_ratio <= options.tombstone_threshold
    {
        return false;
    }
    options.unchecked_tombstone_compaction
        || tombstones.is_expired
        || tombstones.keys_apart * tombstones.droppable_ratio > options.tombstone_threshold
}

/// The properties that decide whether an SSTable can be dropped without being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// The minimum write timestamp.
    pub min_timestamp: i64,
    /// The maximum write timestamp.
    pub max_timestamp: i64,
    /// The maximum local deletion time, seconds; `u32::MAX` if anything in it never expires.
    pub max_local_deletion_time: u32,
}

/// Returns the indexes of SSTables in `compacting` that contain only data deleted or expired before
/// `gc_before` and cover nothing elsewhere: neither in SSTables of `compacting` and `overlapping`
/// with live data, nor in memtables, whose minimum timestamp is an argument.
pub fn fully_expired(
    compacting: &[Lifetime],
    overlapping: &[Lifetime],
    memtables_min_timestamp: i64,
    gc_before: u32,
) -> Vec<usize> {
    let is_candidate = |sstable: &Lifetime| sstable.max_local_deletion_time < gc_before;
    let living = compacting.iter().chain(overlapping).filter(|sstable| !is_candidate(sstable));
    let limit = living.map(|sstable| sstable.min_timestamp).fold(memtables_min_timestamp, i64::min);
    let expired = compacting.iter().enumerate().filter(|(_, sstable)| is_candidate(sstable));
    expired.filter(|(_, sstable)| sstable.max_timestamp < limit).map(|(i, _)| i).collect()
}

/// Returns the fraction of the tokens from `first` to `last` that none of the ranges covers.
pub fn share_apart(first: i64, last: i64, others: impl Iterator<Item = (i64, i64)>) -> f64 {
    let mut others: Vec<_> =
        others.map(|(from, to)| (from.max(first), to.min(last))).filter(|(from, to)| from <= to).collect();
    others.sort_unstable();
    let width = |from: i64, to: i64| (i128::from(to) - i128::from(from) + 1) as f64;
    let mut covered = 0.0;
    let mut up_to: Option<i64> = None;
    for (from, to) in others {
        let from = match up_to {
            Some(up_to) if up_to >= to => continue,
            Some(up_to) => from.max(up_to + 1),
            None => from,
        };
        covered += width(from, to);
        up_to = Some(to);
    }
    1.0 - covered / width(first, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(min_timestamp: i64, max_timestamp: i64, max_local_deletion_time: u32) -> Lifetime {
        Lifetime { min_timestamp, max_timestamp, max_local_deletion_time }
    }

    const LIVING: u32 = u32::MAX;

    #[test]
    fn what_expired_goes_if_it_is_older_than_everything_that_lives() {
        let old = life(1, 9, 50);
        let none: [usize; 0] = [];
        assert_eq!(fully_expired(&[old], &[], i64::MAX, 100), [0]);
        assert_eq!(fully_expired(&[old], &[], i64::MAX, 50), none, "not yet beyond gc_grace");
        assert_eq!(fully_expired(&[old], &[life(10, 20, LIVING)], i64::MAX, 100), [0]);
        assert_eq!(fully_expired(&[old], &[life(9, 20, LIVING)], i64::MAX, 100), none);
        assert_eq!(fully_expired(&[old], &[], 9, 100), none, "a memtable holds older data");
        // Other expired SSTables contain nothing that depends on it.
        assert_eq!(fully_expired(&[old, life(0, 5, 60)], &[life(0, 3, 70)], i64::MAX, 100), [0, 1]);
        assert_eq!(fully_expired(&[old, life(4, 20, LIVING), life(0, 3, 7)], &[], i64::MAX, 100), [2]);
    }

    #[test]
    fn the_share_apart_is_what_no_other_covers() {
        let share = |others: &[(i64, i64)]| share_apart(0, 99, others.iter().copied());
        assert_eq!(share(&[]), 1.0);
        assert_eq!(share(&[(0, 99)]), 0.0);
        assert_eq!(share(&[(-50, 49)]), 0.5);
        assert_eq!(share(&[(0, 24), (10, 29), (20, 22), (90, 200)]), 0.6);
        assert_eq!(share_apart(i64::MIN, i64::MAX, std::iter::once((i64::MIN, i64::MAX))), 0.0);
    }

    #[test]
    fn an_sstable_is_compacted_alone_when_it_is_old_and_full_of_tombstones() {
        let options = CompactionOptions::default();
        let worth = Tombstones { age: 100_000, droppable_ratio: 0.5, keys_apart: 1.0, is_expired: false };
        assert!(worth_dropping(&worth, &options));
        assert!(!worth_dropping(&Tombstones { age: 86_399, ..worth }, &options));
        assert!(!worth_dropping(&Tombstones { droppable_ratio: 0.2, ..worth }, &options));
        let covered = Tombstones { keys_apart: 0.3, ..worth };
        assert!(!worth_dropping(&covered, &options));
        assert!(worth_dropping(&Tombstones { is_expired: true, ..covered }, &options));
        let unchecked = CompactionOptions { unchecked_tombstone_compaction: true, ..options };
        assert!(worth_dropping(&covered, &unchecked));
    }
}
