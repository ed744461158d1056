//! The reference with which the node is compared: every write that was sent, and its outcome.
//!
//! # Unknown writes
//!
//! A write that was answered with an error, or that a crash interrupted, may have been applied or
//! not. Such a write is [`Fate::Open`], and what is read must be explained by some choice for the
//! open writes of the partition: all effects of a write together, in every partition that it
//! touches. Once every choice that explains an observation has a write applied, it is applied, and
//! may not disappear again. A write that failed may show up after the next start, because its
//! record may have reached the commit log; from the first complete read after that start its fate
//! does not change.
//!
//! # Periodic sync
//!
//! A crash of the machine may lose acknowledged writes since the last sync, but only the newest:
//! what survives is a prefix of the order in which they were acknowledged. Where the reads after
//! the start allow more than one prefix, the writes between the shortest and the longest are open,
//! and later reads decide: a write that is seen shows that those before it survived, one that is
//! missing that those behind it were lost.

pub mod partition;

use std::collections::{BTreeMap, BTreeSet};

use partition::{Effect, Stamped, rows, token_order};

use crate::schema::{Row, Shape};
use crate::value::Val;

/// The number of a write, in the order in which they were sent.
pub type WriteId = usize;

/// The values of the partition key.
pub type Key = Vec<Val>;

/// Outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was acknowledged or read.
    Applied,
    /// It was never applied and will not be.
    Lost,
    /// It may have been applied.
    Open {
        /// The process lifetime in which it was sent.
        life: u32,
        /// A choice that explains the last observation.
        guess: bool,
    },
}

/// An effect of a write on a partition.
#[derive(Debug, Clone)]
struct Entry {
    write: WriteId,
    stamp: i64,
    effect: Effect,
}

/// A table and everything written to it.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its definition.
    pub shape: Shape,
    /// Its snapshots.
    pub snapshots: BTreeMap<String, Snapshot>,
    partitions: BTreeMap<Key, Vec<Entry>>,
    truncations: Vec<WriteId>,
}

/// Contents of a table when a snapshot of it was taken.
#[derive(Debug, Clone)]
pub struct Snapshot(BTreeMap<Key, Vec<Entry>>);

impl Table {
    /// Creates a table without data.
    pub fn new(shape: Shape) -> Self {
        Self { shape, snapshots: BTreeMap::new(), partitions: BTreeMap::new(), truncations: Vec::new() }
    }

    /// The keys of all partitions ever written, in token order.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.partitions.keys().cloned().collect();
        keys.sort_by_cached_key(|key| token_order(key));
        keys
    }
}

/// Everything written to all tables.
#[derive(Debug, Default, Clone)]
pub struct Model {
    /// The keyspaces.
    pub keyspaces: BTreeSet<String>,
    /// The number of fields of the type `pair`, by keyspace.
    pub types: BTreeMap<String, u8>,
    /// The tables by `keyspace.table`.
    pub tables: BTreeMap<String, Table>,
    /// A deliberate mistake of the model, to test that mistakes are detected.
    mistake: Option<Mistake>,
    fates: Vec<Fate>,
    /// Acknowledged, and lost if the machine crashes now.
    unsynced: Vec<WriteId>,
    /// For each crash with an unknown loss of acknowledged writes: these writes, in order.
    crashes: Vec<Vec<WriteId>>,
}

/// A deliberate mistake of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// The older of two values wins.
    OlderWins,
    /// Deletions of ranges have no effect.
    RangesStay,
}

impl Model {
    /// A model without tables.
    pub fn new(mistake: Option<Mistake>) -> Self {
        Self { mistake, ..Self::default() }
    }

    /// The number of the next write, which is open until its fate is set.
    pub fn begin(&mut self, life: u32) -> WriteId {
        self.fates.push(Fate::Open { life, guess: false });
        self.fates.len() - 1
    }

    /// The write was acknowledged; `synced` if it survives a crash of the machine from here on.
    pub fn acknowledge(&mut self, write: WriteId, synced: bool) {
        self.fates[write] = Fate::Applied;
        if !synced {
            self.unsynced.push(write);
        }
    }

    /// Everything acknowledged is durable.
    pub fn synced(&mut self) {
        self.unsynced.clear();
    }

    /// Returns the outcome of each write.
    pub fn fates(&self) -> &[Fate] {
        &self.fates
    }

    /// Returns the number of writes of this process lifetime whose outcome is unknown.
    pub fn open_writes(&self, now: u32) -> usize {
        self.fates.iter().filter(|fate| matches!(fate, Fate::Open { life, .. } if *life == now)).count()
    }

    /// The acknowledged writes that a crash of the machine may lose.
    pub fn take_unsynced(&mut self) -> Vec<WriteId> {
        std::mem::take(&mut self.unsynced)
    }

    /// Decides that of the writes that a crash may have lost the first `kept` survived.
    pub fn cut(&mut self, unsynced: &[WriteId], kept: usize) {
        for (at, write) in unsynced.iter().enumerate() {
            self.fates[*write] = if at < kept { Fate::Applied } else { Fate::Lost };
        }
    }

    /// Decides that of the writes that a crash may have lost at least the first `shortest` and at
    /// most the first `longest` survived. `life` is the process lifetime that the crash ended.
    pub fn cut_between(&mut self, unsynced: &[WriteId], (shortest, longest): (usize, usize), life: u32) {
        self.cut(unsynced, shortest);
        for write in &unsynced[shortest..longest] {
            self.fates[*write] = Fate::Open { life, guess: true };
        }
        for write in &unsynced[longest..] {
            self.fates[*write] = Fate::Lost;
        }
        if shortest < longest {
            self.crashes.push(unsynced[shortest..longest].to_vec());
        }
    }

    /// Returns whether, by a choice, each crash lost only the newest writes.
    fn takes_newest(&self, choice: &BTreeMap<WriteId, bool>) -> bool {
        self.crashes.iter().all(|writes| {
            let known = writes.iter().filter_map(|write| match self.fates[*write] {
                Fate::Applied => Some(true),
                Fate::Lost => Some(false),
                Fate::Open { .. } => choice.get(write).copied(),
            });
            known.is_sorted_by(|earlier, later| earlier >= later)
        })
    }

    /// Propagates the outcome of a write to the other writes that the same crash may have lost.
    fn carry_over(&mut self) {
        for writes in &self.crashes {
            let survived = writes.iter().rposition(|write| self.fates[*write] == Fate::Applied);
            let survived = survived.map_or(0, |at| at + 1);
            let lost = writes.iter().position(|write| self.fates[*write] == Fate::Lost);
            writes[..survived].iter().for_each(|write| self.fates[*write] = Fate::Applied);
            writes[lost.unwrap_or(writes.len())..].iter().for_each(|write| self.fates[*write] = Fate::Lost);
        }
        let fates = &self.fates;
        self.crashes.retain(|writes| writes.iter().any(|write| matches!(fates[*write], Fate::Open { .. })));
    }

    /// Adds an effect of a write on a partition.
    pub fn add(&mut self, write: WriteId, table: &str, key: &Key, stamp: i64, effect: Effect) {
        let mistaken = match self.mistake {
            Some(Mistake::OlderWins) => matches!(effect, Effect::Cell { .. }).then_some(-stamp),
            Some(Mistake::RangesStay) => matches!(effect, Effect::DeleteRange(_)).then_some(i64::MIN),
            None => None,
        };
        let stamp = mistaken.unwrap_or(stamp);
        if let Some(table) = self.tables.get_mut(table) {
            table.partitions.entry(key.clone()).or_default().push(Entry { write, stamp, effect });
        }
    }

    /// Adds a truncation of a table.
    pub fn truncate(&mut self, write: WriteId, table: &str) {
        if let Some(table) = self.tables.get_mut(table) {
            table.truncations.push(write);
        }
    }

    /// Records the contents of a table. No write to it may be open.
    pub fn snapshot(&mut self, table: &str, name: &str) {
        let Some(found) = self.tables.get(table) else { return };
        let held = found.partitions.iter().map(|(key, entries)| {
            let entries = self.applied(found, entries, &BTreeMap::new());
            (key.clone(), entries.into_iter().cloned().collect())
        });
        let snapshot = Snapshot(held.collect());
        if let Some(found) = self.tables.get_mut(table) {
            found.snapshots.insert(name.to_owned(), snapshot);
        }
    }

    /// Adds the contents of a snapshot to its table.
    pub fn restore(&mut self, write: WriteId, table: &str, name: &str) {
        let Some(found) = self.tables.get_mut(table) else { return };
        let Some(Snapshot(held)) = found.snapshots.get(name).cloned() else { return };
        for (key, entries) in held {
            let entries = entries.into_iter().map(|entry| Entry { write, ..entry });
            found.partitions.entry(key).or_default().extend(entries);
        }
    }

    /// Returns whether writes to a table are open.
    pub fn is_open(&self, table: &str) -> bool {
        self.tables.get(table).is_some_and(|table| {
            table.partitions.values().any(|entries| !self.open_in(table, entries).is_empty())
        })
    }

    /// Returns the rows of a partition by the last guess.
    pub fn rows(&self, table: &str, key: &Key, now: i64) -> Vec<Row> {
        let Some(table) = self.tables.get(table) else { return Vec::new() };
        self.rows_if(table, key, now, &BTreeMap::new())
    }

    /// Returns all rows of a table in the order of a scan, by the last guess.
    pub fn scan(&self, table: &str, now: i64) -> Vec<Row> {
        let keys = self.tables.get(table).map(Table::keys).unwrap_or_default();
        keys.iter().flat_map(|key| self.rows(table, key, now)).collect()
    }

    /// Holds rows that were read against those of a partition after `project`, and decides what
    /// that shows of open writes.
    ///
    /// # Errors
    /// Returns the expected rows if no choice for the open writes explains the rows.
    pub fn observe(
        &mut self,
        table: &str,
        key: &Key,
        (now, life): (i64, u32),
        project: impl Fn(Vec<Row>) -> Vec<Row>,
        seen: &[Row],
    ) -> Result<(), Vec<Row>> {
        let found = self.tables.get(table).ok_or_else(Vec::new)?;
        let entries = found.partitions.get(key).map(Vec::as_slice).unwrap_or_default();
        let (choices, is_complete) = self.choices(&self.open_in(found, entries));
        let explains = |choice: &BTreeMap<WriteId, bool>| {
            self.takes_newest(choice) && project(self.rows_if(found, key, now, choice)) == seen
        };
        let explained: Vec<BTreeMap<WriteId, bool>> = choices.into_iter().filter(explains).collect();
        // The guess stays if it explains the rows: it also explains those of other partitions.
        let guessed = explained.iter().position(|choice| {
            choice.iter().all(|(write, applied)| match self.fates[*write] {
                Fate::Open { guess, .. } => guess == *applied,
                Fate::Applied | Fate::Lost => false,
            })
        });
        let Some(first) = explained.get(guessed.unwrap_or_default()) else {
            if !is_complete {
                return Ok(()); // Too many to try: the start that follows decides them.
            }
            return Err(project(self.rows(table, key, now)));
        };
        for (write, applied) in first {
            let agreed = is_complete && explained.iter().all(|choice| choice[write] == *applied);
            let Fate::Open { life: sent, .. } = self.fates[*write] else { continue };
            self.fates[*write] = match (agreed, *applied) {
                (true, true) => Fate::Applied,
                (true, false) if sent < life => Fate::Lost,
                (_, guess) => Fate::Open { life: sent, guess },
            };
        }
        self.carry_over();
        Ok(())
    }

    /// The choices for open writes: each crash takes only the newest of those that it may have
    /// taken, and all other writes are independent of each other. False if some of these are left
    /// out, because they are too many.
    fn choices(&self, open: &BTreeSet<WriteId>) -> (Vec<BTreeMap<WriteId, bool>>, bool) {
        const INDEPENDENT_MAX: usize = 10;
        let mut choices = vec![BTreeMap::new()];
        let mut independent = open.clone();
        for crash in &self.crashes {
            let taken: Vec<WriteId> =
                crash.iter().copied().filter(|write| independent.remove(write)).collect();
            let survivors = |choice: &BTreeMap<WriteId, bool>, count: usize| {
                let fates = taken.iter().enumerate().map(|(at, write)| (*write, at < count));
                choice.iter().map(|(write, applied)| (*write, *applied)).chain(fates).collect()
            };
            choices = (choices.iter())
                .flat_map(|choice| (0..=taken.len()).map(move |count| (choice, count)))
                .map(|(choice, count)| survivors(choice, count))
                .collect();
        }
        let is_complete = independent.len() <= INDEPENDENT_MAX;
        for write in independent.into_iter().take(INDEPENDENT_MAX) {
            let with = |applied: bool| {
                move |choice: &BTreeMap<WriteId, bool>| {
                    let mut choice = choice.clone();
                    choice.insert(write, applied);
                    choice
                }
            };
            choices = choices.iter().map(with(false)).chain(choices.iter().map(with(true))).collect();
        }
        (choices, is_complete)
    }

    /// The open writes that decide what a partition shows.
    fn open_in(&self, table: &Table, entries: &[Entry]) -> BTreeSet<WriteId> {
        let writes = entries.iter().map(|entry| entry.write).chain(table.truncations.iter().copied());
        writes.filter(|write| matches!(self.fates[*write], Fate::Open { .. })).collect()
    }

    fn is_applied(&self, write: WriteId, choice: &BTreeMap<WriteId, bool>) -> bool {
        match self.fates[write] {
            Fate::Applied => true,
            Fate::Lost => false,
            Fate::Open { guess, .. } => choice.get(&write).copied().unwrap_or(guess),
        }
    }

    fn applied<'t>(
        &self,
        table: &Table,
        entries: &'t [Entry],
        choice: &BTreeMap<WriteId, bool>,
    ) -> Vec<&'t Entry> {
        let truncated = table.truncations.iter().filter(|write| self.is_applied(**write, choice)).max();
        let remains = |entry: &&Entry| {
            truncated.is_none_or(|truncated| entry.write > *truncated) && self.is_applied(entry.write, choice)
        };
        entries.iter().filter(remains).collect()
    }

    fn rows_if(&self, table: &Table, key: &Key, now: i64, choice: &BTreeMap<WriteId, bool>) -> Vec<Row> {
        let entries = table.partitions.get(key).map(Vec::as_slice).unwrap_or_default();
        let applied = self.applied(table, entries, choice);
        let stamped: Vec<Stamped<'_>> = applied.iter().map(|entry| (entry.stamp, &entry.effect)).collect();
        rows(&table.shape, key, &stamped, now)
    }
}
