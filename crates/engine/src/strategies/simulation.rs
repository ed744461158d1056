//! The write amplification of leveled compaction, by simulation: SSTables are sets of keys, and
//! compactions merge these according to [`leveled`] and [`cut`](super::cut). The results are within
//! a tenth of those of real tables of 20 GB, which take an hour.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::cut::Cutter;
use super::leveled::{self, LeveledState};
use super::options::{CompactionOptions, LeveledOptions};
use super::tree::{Candidate, Outcome, Tree};

/// Bytes of a key with its row.
const ROW: u64 = 1 << 10;
/// Keys of an SSTable of the configured size.
const TABLE: usize = 500;
/// The keys of 125 such SSTables: 20 GB in SSTables of 160 MB.
const KEYS: usize = 125 * TABLE;

/// An SSTable: its keys, which are also their tokens, ascending.
struct Simulated {
    keys: Vec<i64>,
    level: u32,
    max_timestamp: i64,
}

/// A table whose compactions run immediately, one after the other.
struct Simulation {
    own: LeveledOptions,
    state: LeveledState,
    /// Keys of a flush.
    flush_keys: usize,
    sstables: Vec<Simulated>,
    flushes: i64,
    /// Keys that flushes and compactions have written.
    written: usize,
}

impl Simulation {
    fn new(flush_keys: usize) -> Self {
        let own = LeveledOptions { sstable_size: TABLE as u64 * ROW, ..LeveledOptions::default() };
        Self { own, state: LeveledState::default(), flush_keys, sstables: Vec::new(), flushes: 0, written: 0 }
    }

    fn flush(&mut self, mut keys: Vec<i64>) {
        keys.sort_unstable();
        keys.dedup();
        self.flushes += 1;
        self.written += keys.len();
        self.sstables.push(Simulated { keys, level: 0, max_timestamp: self.flushes });
        while self.compact() {}
    }

    /// Returns whether there was anything to compact.
    fn compact(&mut self) -> bool {
        let candidate = |sstable: &Simulated| Candidate {
            size: sstable.keys.len() as u64 * ROW,
            first: sstable.keys[0],
            last: sstable.keys[sstable.keys.len() - 1],
            level: sstable.level,
            max_timestamp: sstable.max_timestamp,
            ..Candidate::default()
        };
        let sstables = self.sstables.iter().map(candidate).collect();
        let tree = Tree { sstables, now: 1, flush_size: self.flush_keys as u64 * ROW };
        let task = leveled::next(&tree, &CompactionOptions::default(), &self.own, &mut self.state);
        let Some(task) = task else { return false };
        let Outcome::Merged { level, cut } = task.outcome else { panic!("{task:?}") };
        let from = task.inputs.iter().map(|i| self.sstables[*i].level).min().unwrap();
        let max_timestamp = task.inputs.iter().map(|i| self.sstables[*i].max_timestamp).max().unwrap();
        let mut keys: Vec<i64> =
            task.inputs.iter().flat_map(|i| self.sstables[*i].keys.iter().copied()).collect();
        keys.sort_unstable();
        keys.dedup();
        self.written += keys.len();

        let (mut cutter, mut outputs, mut output) = (Cutter::new(level, cut), Vec::new(), Vec::new());
        for key in keys {
            if let Some(last) = output.last()
                && cutter.ends(output.len() as u64 * ROW, *last, key)
            {
                outputs.push(std::mem::take(&mut output));
            }
            output.push(key);
        }
        outputs.push(output);
        self.state.compacted(from as usize, outputs[outputs.len() - 1][0]);
        let mut at = 0..;
        self.sstables.retain(|_| !task.inputs.contains(&at.next().unwrap()));
        self.sstables.extend(outputs.into_iter().map(|keys| Simulated { keys, level, max_timestamp }));
        true
    }

    /// Writes all keys in random order, then as many again at random. Returns the bytes written for
    /// each byte of the latter.
    fn load_and_overwrite(&mut self) -> f64 {
        let mut random = SmallRng::seed_from_u64(1);
        let mut order: Vec<i64> = (0..KEYS as i64).collect();
        order.shuffle(&mut random);
        order.chunks(self.flush_keys).for_each(|keys| self.flush(keys.to_vec()));
        assert_eq!(self.kept(), 1.0);
        let before = self.written;
        let flushes = KEYS / self.flush_keys;
        for _ in 0..flushes {
            self.flush((0..self.flush_keys).map(|_| random.random_range(0..KEYS as i64)).collect());
        }
        (self.written - before) as f64 / (flushes * self.flush_keys) as f64
    }

    fn kept(&self) -> f64 {
        self.sstables.iter().map(|sstable| sstable.keys.len()).sum::<usize>() as f64 / KEYS as f64
    }
}

#[test]
fn random_overwrites_of_many_sstables_write_twelve_bytes_for_each() {
    // Two flushes slightly smaller than an SSTable make a compaction of L0; and so do two that are
    // larger than one.
    for (flush, most) in [(TABLE * 49 / 50, 12.2), (TABLE * 5 / 4, 11.5)] {
        let mut simulation = Simulation::new(flush);
        let written = simulation.load_and_overwrite();
        let kept = simulation.kept();
        assert!(written < most, "{written} written for each byte given, in flushes of {flush} rows");
        assert!(kept < 1.3, "{kept} kept for each byte that is live");
        let largest = simulation.sstables.iter().filter(|sstable| sstable.level > 0);
        let largest = largest.map(|sstable| sstable.keys.len()).max().unwrap();
        assert!(largest <= TABLE + 1, "{largest}");
        let in_all = simulation.sstables.len();
        assert!(in_all < 250, "{in_all} SSTables");
    }
}
