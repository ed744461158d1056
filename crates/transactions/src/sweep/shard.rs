//! One sweep step of a shard: S2 to S8 of the protocol.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use super::queue::Next;
use super::{Sweeper, Swept};
use crate::encoding::sweep::{COARSE, Entry, FINE, QueuedWrite, Shard, WriteKind};
use crate::error::Result;
use crate::service::Recorded;
use crate::store::{Cell, Put, Store};
use crate::timestamp::{Timestamp, TransactionStatus};

/// Maximum number of entries in a step. Each has up to 50 writes, or refers to more in dedicated
/// rows that are then read page by page.
const ENTRIES_MAX: usize = 1_000;
/// Number of cells whose old versions are removed together.
const CELLS_MAX: usize = 500;

/// Newest write of each cell by table: start timestamp and kind.
type Newest = HashMap<Box<str>, BTreeMap<Cell, (Timestamp, WriteKind)>>;

impl Sweeper {
    /// Runs a step. `below` is an earlier immutable timestamp; without it, a fresh one is
    /// requested.
    pub(super) fn step_of(&self, shard: Shard, below: Option<Timestamp>) -> Result<Swept> {
        // S2.
        let below = match below {
            Some(below) => below,
            None => self.timelock.immutable()?,
        };
        let last = below.0 - 1;
        // S3.
        let done = self.queue.progress(shard)?;
        let mut swept = Swept { is_done: true, ..Swept::default() };
        if done >= last {
            return Ok(swept);
        }
        // S4.
        let fine = match self.queue.next(shard, (done + 1) / FINE, last / FINE)? {
            Next::Fine(fine) => fine,
            Next::NoneUpTo(fine) => {
                let reached = last.min((fine + 1) * FINE - 1);
                self.pass(shard, done, reached, None)?;
                swept.is_done = reached == last;
                return Ok(swept);
            }
        };
        let first = (done + 1).max(fine * FINE);
        let end = last.min((fine + 1) * FINE - 1);
        let mut entries = self.queue.entries(shard, first, end, ENTRIES_MAX)?;
        let is_whole = entries.len() < ENTRIES_MAX;
        // S5.
        let statuses = self.final_statuses(&entries.iter().map(|(start, _)| *start).collect::<Vec<_>>())?;
        let is_too_new = |start: &Timestamp| {
            let status = statuses.get(start);
            matches!(status, Some(TransactionStatus::Committed(commit)) if *commit >= below)
        };
        let stop = entries.iter().position(|(start, _)| is_too_new(start));
        let reached = match (stop, is_whole) {
            (Some(index), _) => entries[index].0.0 - 1,
            (None, true) => end,
            (None, false) => entries.last().map_or(end, |(start, _)| start.0),
        };
        entries.truncate(stop.unwrap_or(entries.len()));
        swept.entries = entries.len() as u64;
        // S6.
        self.sweep_entries(shard, entries, &statuses, &mut swept)?;
        // S7 and S8.
        self.pass(shard, done, reached, Some(fine).filter(|_| swept.entries > 0 || reached < last))?;
        swept.is_done = stop.is_some() || reached == last;
        Ok(swept)
    }

    /// Returns the statuses of all `starts`, which lie below the immutable timestamp: their
    /// transactions have ended, and those without a commit record are aborted.
    fn final_statuses(&self, starts: &[Timestamp]) -> Result<HashMap<Timestamp, TransactionStatus>> {
        let mut statuses = self.service.get_many(starts)?;
        let missing = starts.iter().filter(|start| !statuses.contains_key(start));
        let aborts: Vec<_> = missing.map(|start| (*start, TransactionStatus::Aborted)).collect();
        if !aborts.is_empty() {
            let results = self.service.put_many_unless_exists(&aborts);
            for ((start, _), result) in aborts.iter().zip(results) {
                let standing = match result? {
                    Recorded::Recorded => TransactionStatus::Aborted,
                    Recorded::Exists(standing) => standing,
                };
                statuses.insert(*start, standing);
            }
        }
        Ok(statuses)
    }

    fn sweep_entries(
        &self,
        shard: Shard,
        entries: Vec<(Timestamp, Entry)>,
        statuses: &HashMap<Timestamp, TransactionStatus>,
        swept: &mut Swept,
    ) -> Result<()> {
        let mut newest = Newest::new();
        let mut aborted: HashMap<Box<str>, Vec<(Cell, Timestamp)>> = HashMap::new();
        for (start, entry) in entries {
            let committed = matches!(statuses.get(&start), Some(TransactionStatus::Committed(_)));
            match entry {
                Entry::Inline(writes) => gather(start, committed, writes, &mut newest, &mut aborted),
                Entry::Dedicated(rows) => {
                    let now = self.timelock.timestamp()?;
                    self.queue.dedicated(shard, start, rows, |writes| {
                        let (mut newest, mut aborted) = (Newest::new(), HashMap::new());
                        gather(start, committed, writes, &mut newest, &mut aborted);
                        self.remove_aborted(aborted, swept)?;
                        self.remove_older(shard, newest, swept)
                    })?;
                    self.queue.remove_dedicated(shard, start, rows, now)?;
                }
            }
        }
        self.remove_aborted(aborted, swept)?;
        self.remove_older(shard, newest, swept)
    }

    /// Removes versions of aborted transactions, and no others.
    fn remove_aborted(
        &self,
        aborted: HashMap<Box<str>, Vec<(Cell, Timestamp)>>,
        swept: &mut Swept,
    ) -> Result<()> {
        for (table, versions) in aborted {
            // Another process may have created it, or it was dropped and must not come back.
            if !self.store.open_table(&table)? {
                continue;
            }
            for versions in versions.chunks(CELLS_MAX) {
                let now = self.timelock.timestamp()?;
                let versions: Vec<_> = versions.iter().map(|(cell, start)| (cell, *start)).collect();
                self.store.delete(&table, &versions, now.0)?;
                swept.aborted += versions.len() as u64;
            }
        }
        Ok(())
    }

    /// Removes versions older than the newest committed version of each cell, where every reader
    /// stops.
    fn remove_older(&self, shard: Shard, newest: Newest, swept: &mut Swept) -> Result<()> {
        for (table, cells) in newest {
            if !self.store.open_table(&table)? {
                continue;
            }
            // The first write of a cell has nothing below. If there is something after all, the
            // next write of the cell removes it.
            let is_over = |kind: WriteKind| shard.thorough && kind.is_delete;
            let mut cells: Vec<_> = cells.into_iter().collect();
            cells.retain(|(_, (_, kind))| !kind.is_first || is_over(*kind));
            for cells in cells.chunks(CELLS_MAX) {
                let asked: Vec<_> = cells.iter().map(|(cell, (start, _))| (cell, *start)).collect();
                // A cell with nothing below needs neither sentinel nor tombstone, which would slow
                // readers down for long.
                let older = self.store.get(&table, &asked)?;
                let is_older =
                    older.iter().map(|v| v.as_ref().is_some_and(|v| v.timestamp > Timestamp::SENTINEL));
                let mut stale = Vec::new();
                for ((cell, (start, kind)), is_older) in cells.iter().zip(is_older) {
                    match is_over(*kind) {
                        // The deletion itself is removed with the versions it hid, by one
                        // tombstone, so that none reappears in between.
                        true => stale.push((cell, Timestamp(start.0 + 1))),
                        false if is_older => stale.push((cell, *start)),
                        false => {}
                    }
                }
                if stale.is_empty() {
                    continue;
                }
                let now = self.timelock.timestamp()?;
                if !shard.thorough {
                    let sentinel = |(cell, _): &(&'_ Cell, Timestamp)| (*cell).clone();
                    let sentinels: Vec<Cell> = stale.iter().map(sentinel).collect();
                    let puts = sentinels.iter().map(|cell| Put {
                        table: &table,
                        cell,
                        timestamp: Timestamp::SENTINEL,
                        value: Bytes::new(),
                        write_time: now.0,
                    });
                    // Before the removal: a reader that finds neither would miss a value.
                    self.store.put(&puts.collect::<Vec<_>>())?;
                }
                self.store.delete_older(&table, &stale, now.0)?;
                swept.cells += stale.len() as u64;
            }
        }
        Ok(())
    }

    /// Completes all start timestamps of the shard after `done` up to `reached` (S7 and S8),
    /// including those of fine partition `fine`. Removes completed partitions, then stores the
    /// progress if that saves the next step work.
    fn pass(&self, shard: Shard, done: i64, reached: i64, fine: Option<i64>) -> Result<()> {
        if reached <= done {
            return Ok(());
        }
        let fine_over = fine.filter(|fine| reached >= (fine + 1) * FINE - 1);
        let coarse = (done + 1) / COARSE;
        let coarse_over = reached >= (coarse + 1) * COARSE - 1;
        if fine_over.is_some() || coarse_over {
            let now = self.timelock.timestamp()?;
            if let Some(fine) = fine_over {
                self.queue.remove_fine(shard, fine, now)?;
            }
            if coarse_over {
                self.queue.remove_coarse(shard, coarse, now)?;
            }
        }
        if fine.is_some() || coarse_over { self.queue.advance(shard, reached) } else { Ok(()) }
    }
}

fn gather(
    start: Timestamp,
    committed: bool,
    writes: Vec<QueuedWrite>,
    newest: &mut Newest,
    aborted: &mut HashMap<Box<str>, Vec<(Cell, Timestamp)>>,
) {
    for QueuedWrite { table, cell, kind } in writes {
        if committed {
            newest.entry(table).or_default().insert(cell, (start, kind));
        } else {
            aborted.entry(table).or_default().push((cell, start))
        }
    }
}
