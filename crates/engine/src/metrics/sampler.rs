//! The most active partitions, while sampling is enabled.
//!
//! Frequencies are counted by the "space saving" algorithm (Metwally, Agrawal and El Abbadi, 2005):
//! without free space, a new partition replaces the least frequent one and takes over its count,
//! which may then be too high by that much.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The sampled quantities, by Cassandra's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants are Cassandra's names")]
pub enum Sampled {
    Reads,
    Writes,
    LocalReadTime,
    ReadRowCount,
    ReadTombstoneCount,
    ReadSSTableCount,
    WriteSize,
}

impl Sampled {
    /// All quantities.
    pub const ALL: [Self; 7] = [
        Self::Reads,
        Self::Writes,
        Self::LocalReadTime,
        Self::ReadRowCount,
        Self::ReadTombstoneCount,
        Self::ReadSSTableCount,
        Self::WriteSize,
    ];

    /// Returns the name in nodetool.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reads => "READS",
            Self::Writes => "WRITES",
            Self::LocalReadTime => "LOCAL_READ_TIME",
            Self::ReadRowCount => "READ_ROW_COUNT",
            Self::ReadTombstoneCount => "READ_TOMBSTONE_COUNT",
            Self::ReadSSTableCount => "READ_SSTABLE_COUNT",
            Self::WriteSize => "WRITE_SIZE",
        }
    }

    /// Whether occurrences are added up; otherwise the maximum counts.
    const fn is_frequency(self) -> bool {
        matches!(self, Self::Reads | Self::Writes)
    }
}

/// A sampled partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The partition's key.
    pub key: Vec<u8>,
    /// The frequency or the maximum.
    pub count: u64,
    /// The maximum by which the count may be too high.
    pub error: u64,
}

/// A table's sampler; disabled by default, at almost no cost.
#[derive(Debug, Default)]
pub struct Sampler {
    on: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    capacity: usize,
    /// Count and error by key.
    found: BTreeMap<Sampled, HashMap<Vec<u8>, (u64, u64)>>,
}

thread_local!(static SSTABLES: Cell<u64> = const { Cell::new(0) });

impl Sampler {
    /// Enables sampling, with capacity for so many partitions of each quantity; `false` if it is
    /// enabled already.
    pub fn begin(&self, capacity: usize) -> bool {
        let mut state = self.state.lock();
        if self.on.load(Ordering::Relaxed) {
            return false;
        }
        *state = State { capacity: capacity.max(1), found: BTreeMap::new() };
        self.on.store(true, Ordering::Relaxed);
        true
    }

    /// Disables sampling, and returns the partitions with the greatest counts.
    pub fn end(&self, top: usize) -> Vec<(Sampled, Vec<Sample>)> {
        self.on.store(false, Ordering::Relaxed);
        let found = std::mem::take(&mut self.state.lock().found);
        let sorted = |samples: HashMap<Vec<u8>, (u64, u64)>| {
            let mut samples: Vec<_> =
                samples.into_iter().map(|(key, (count, error))| Sample { key, count, error }).collect();
            samples.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
            samples.truncate(top);
            samples
        };
        found.into_iter().map(|(what, samples)| (what, sorted(samples))).collect()
    }

    /// Whether sampling is enabled.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Records in how many SSTables the current read of this thread found its partition.
    pub(super) fn note_sstables(&self, sstables: u64) {
        SSTABLES.set(sstables);
    }

    /// Records the end of the current read of this thread.
    pub(super) fn sample_read(&self, key: &[u8], micros: u64, live_rows: u64, tombstones: u64) {
        let mut state = self.state.lock();
        for (what, n) in [
            (Sampled::Reads, 1),
            (Sampled::LocalReadTime, micros),
            (Sampled::ReadRowCount, live_rows),
            (Sampled::ReadTombstoneCount, tombstones),
            (Sampled::ReadSSTableCount, SSTABLES.take()),
        ] {
            state.add(what, key, n);
        }
    }

    /// Records a change of a partition by `bytes`.
    pub(crate) fn sample_write(&self, key: &[u8], bytes: u64) {
        let mut state = self.state.lock();
        state.add(Sampled::Writes, key, 1);
        state.add(Sampled::WriteSize, key, bytes);
    }
}

impl State {
    fn add(&mut self, what: Sampled, key: &[u8], n: u64) {
        if n == 0 {
            return;
        }
        let found = self.found.entry(what).or_default();
        if let Some((count, _)) = found.get_mut(key) {
            *count = if what.is_frequency() { *count + n } else { n.max(*count) };
            return;
        }
        let mut given = (n, 0);
        if found.len() >= self.capacity {
            let least = found.iter().min_by_key(|(_, (count, _))| *count);
            let Some((least, count)) = least.map(|(key, (count, _))| (key.clone(), *count)) else { return };
            if what.is_frequency() {
                given = (count + n, count);
            } else if n <= count {
                return;
            }
            found.remove(&least);
        }
        found.insert(key.to_vec(), given);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_stay_and_say_how_wrong_they_may_be() {
        let sampler = Sampler::default();
        assert!(!sampler.is_on());
        assert!(sampler.begin(2) && !sampler.begin(2) && sampler.is_on());
        for key in [b"a", b"a", b"a", b"b", b"c"] {
            sampler.sample_write(key, 10);
        }
        sampler.note_sstables(3);
        sampler.sample_read(b"a", 50, 2, 0);
        sampler.sample_read(b"a", 40, 1, 0);
        let found: BTreeMap<_, _> = sampler.end(10).into_iter().collect();
        let counts = |what| {
            found.get(&what).map(|samples| samples.iter().map(|s| (s.count, s.error)).collect::<Vec<_>>())
        };
        assert_eq!(counts(Sampled::Writes), Some(vec![(3, 0), (2, 1)]));
        assert_eq!(counts(Sampled::Reads), Some(vec![(2, 0)]));
        assert_eq!(counts(Sampled::LocalReadTime), Some(vec![(50, 0)]));
        assert_eq!(counts(Sampled::ReadSSTableCount), Some(vec![(3, 0)]));
        assert_eq!(counts(Sampled::ReadTombstoneCount), None);
        assert!(!sampler.is_on() && sampler.begin(1));
    }
}
