//! Seeded runs of a log: appends, syncs, flushes, full disks and failures, each ended by a crash,
//! several in a row.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// The state of a record, by its number.
#[derive(Debug, Clone, PartialEq)]
struct Fate {
    content: Vec<u8>,
    tables: Vec<u128>,
    /// Acknowledged, appended ahead, or replayed since.
    position: Option<Position>,
    /// Whether it was written: it survives a crash of the process.
    written: bool,
    /// Whether it survives a crash of the machine.
    durable: bool,
    /// Refused: replay must not find it.
    refused: bool,
    /// Its tables that have been flushed.
    flushed: Vec<u128>,
}

impl Fate {
    fn is_flushed(&self) -> bool {
        self.tables.iter().all(|table| self.flushed.contains(table))
    }
}

struct Life {
    seed: u64,
    random: SmallRng,
    fs: FakeFileSystem,
    sync: SyncMode,
    /// Whether each life encrypts its segments, with another key than the previous one.
    encrypts: bool,
    lives: usize,
    fates: BTreeMap<u64, Fate>,
    next: u64,
    flushed_upto: BTreeMap<u128, Position>,
}

const TABLES: u128 = 4;

impl Life {
    fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let sync = match random.random_range(0..3) {
            0 => PERIODIC,
            1 => SyncMode::Batch,
            _ => SyncMode::Group { window: Duration::from_millis(1) },
        };
        let fs = FakeFileSystem::new();
        Self {
            seed,
            random,
            fs,
            sync,
            encrypts: seed.is_multiple_of(3),
            lives: 0,
            fates: BTreeMap::new(),
            next: 0,
            flushed_upto: BTreeMap::new(),
        }
    }

    fn options(&self) -> CommitLogOptions {
        let encryption = self.encrypts.then(|| encryption(["a", "b"][self.lives % 2]));
        CommitLogOptions { encryption, ..options(self.sync) }
    }

    fn append(&mut self, log: &CommitLog) {
        let number = self.next;
        self.next += 1;
        let tables = match self.random.random_range(0..5) {
            0 => vec![1, 2],
            _ => vec![self.random.random_range(0..TABLES)],
        };
        let mut content = number.to_be_bytes().to_vec();
        // Some do not fit a segment of 2048 bytes.
        let most = if self.random.random_ratio(1, 20) { 7000 } else { 400 };
        content.resize(8 + self.random.random_range(0..most), number as u8);
        let ahead = self.random.random_ratio(1, 4);
        let record = record(&tables, &content);
        let appended = if ahead { log.append_ahead(&record) } else { log.append(&record) };
        let (written, durable) =
            if ahead || appended.is_err() { (false, false) } else { (true, self.sync != PERIODIC) };
        // Records appended ahead are as durable as the one that is acknowledged now.
        for fate in self.fates.values_mut().filter(|fate| fate.position.is_some()) {
            (fate.written, fate.durable) = (fate.written || written, fate.durable || durable);
        }
        let fate = Fate {
            content,
            tables,
            position: appended.as_ref().ok().copied(),
            written,
            durable,
            refused: matches!(appended, Err(AppendError::Refused { .. })),
            flushed: Vec::new(),
        };
        self.fates.insert(number, fate);
    }

    fn sync(&mut self, log: &CommitLog) {
        if log.sync().is_ok() {
            self.fates.values_mut().for_each(|fate| fate.durable |= fate.position.is_some());
        }
    }

    fn flush(&mut self, log: &CommitLog) {
        let table = self.random.random_range(0..TABLES);
        let from = self.flushed_upto.get(&table).copied().unwrap_or_default();
        let upto = log.position();
        for fate in self.fates.values_mut().filter(|fate| fate.tables.contains(&table)) {
            if fate.position.is_some_and(|position| position <= upto) {
                fate.flushed.push(table);
            }
        }
        log.mark_clean(table, from, upto);
        self.flushed_upto.insert(table, upto);
    }

    /// One run: opens the log, checks the replay, uses it, and crashes.
    fn live(&mut self) {
        self.lives += 1;
        self.fs.heal();
        self.fs.set_capacity(u64::MAX);
        if self.random.random_ratio(1, 8) {
            // The first start fails at some operation, and the machine or the process crashes
            // again.
            self.fs.fail_from(self.fs.operations() + self.random.random_range(1..20));
            match try_open(&self.fs, self.options()) {
                Ok(_) | Err(OpenError::Io { .. }) => {}
                Err(error) => panic!("seed {}: {error}", self.seed),
            }
            self.fs = self.die();
        }
        let opened = match try_open(&self.fs, self.options()) {
            Ok(opened) => opened,
            Err(error) => panic!("seed {}: {error}", self.seed),
        };
        self.check(&opened.records);
        let log = opened.log;
        match self.random.random_range(0..4) {
            0 => self.fs.fail_from(self.fs.operations() + self.random.random_range(1..80)),
            1 => self.fs.set_capacity(self.fs.used() + self.random.random_range(0..3 * 2048)),
            _ => {}
        }
        for _ in 0..self.random.random_range(0..60) {
            match self.random.random_range(0..20) {
                0 => self.sync(&log),
                1 | 2 => self.flush(&log),
                3 => self.fs.set_capacity(u64::MAX),
                _ => self.append(&log),
            }
        }
        if self.random.random_ratio(1, 8) && log.close().is_ok() {
            self.fates.values_mut().for_each(|fate| fate.durable |= fate.position.is_some());
        }
        self.fs = self.die();
    }

    fn die(&mut self) -> FakeFileSystem {
        if self.random.random_ratio(1, 3) {
            self.fs.kill()
        } else {
            for fate in self.fates.values_mut() {
                fate.written = fate.durable;
                // The truncated bytes may reappear: the truncation was not synced.
                fate.refused = false;
            }
            self.fs.crash(self.random.random())
        }
    }

    fn check(&mut self, records: &[Replayed]) {
        let seed = self.seed;
        let mut found = BTreeMap::new();
        let mut last = None;
        for replayed in records {
            let number = u64::from_be_bytes(replayed.content[..8].try_into().unwrap());
            assert!(last < Some(number), "seed {seed}: record {number} is out of order or twice there");
            last = Some(number);
            let fate = self.fates.get(&number);
            let fate = fate.unwrap_or_else(|| panic!("seed {seed}: record {number} comes from nowhere"));
            let tables: Vec<u128> = replayed.tables.iter().map(|table| table.table).collect();
            assert_eq!(
                (&fate.content, &fate.tables),
                (&replayed.content, &tables),
                "seed {seed}: record {number}"
            );
            assert!(!fate.refused, "seed {seed}: record {number} was refused");
            if let Some(position) = fate.position {
                assert_eq!(position, replayed.position, "seed {seed}: record {number} has moved");
            }
            found.insert(number, replayed.position);
        }
        for (number, fate) in &self.fates {
            if fate.is_flushed() || found.contains_key(number) || fate.position.is_none() {
                continue;
            }
            assert!(!fate.written, "seed {seed}: record {number} at {:?} is lost", fate.position);
            assert!(last < Some(*number), "seed {seed}: record {number} is missing before one that is there");
        }
        // Records that were not replayed are lost permanently.
        self.fates.retain(|number, _| found.contains_key(number));
        for (number, position) in found {
            if let Some(fate) = self.fates.get_mut(&number) {
                fate.position = Some(position);
                (fate.written, fate.durable) = (true, true);
            }
        }
    }
}

#[test]
fn in_ten_thousand_seeded_crashes_nothing_acknowledged_is_lost_moved_or_made_up() {
    // Two to six runs each, with a crash after every one.
    for seed in 0..3000 {
        let mut life = Life::new(seed);
        for _ in 0..1 + seed % 5 {
            life.live();
        }
        life.live();
    }
}
