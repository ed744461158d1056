//! Snapshot reads: R2 to R6 of the protocol.

use std::collections::HashMap;

use bytes::Bytes;

use super::manager::{Inner, start_lock};
use super::table::Table;
use crate::error::{Error, Result};
use crate::service::{Recorded, TransactionService};
use crate::store::{Cell, Store, Version};
use crate::timelock::TimeLock;
use crate::timestamp::{Timestamp, TransactionStatus};

/// Maximum number of versions of a cell that one read skips, not counting those of aborted
/// transactions: versions of transactions that were open when it began and committed later.
const VERSIONS_MAX: usize = 200;
/// Number of versions of aborted transactions that a read finds before it removes them and
/// continues.
const ABORTED_MAX: usize = 1_000;

/// The committed state at a timestamp.
pub(super) struct Snapshot<'a> {
    inner: &'a Inner,
    at: Timestamp,
    /// Transactions that started below it have ended and are not waited for.
    immutable: Timestamp,
    /// For the check of a committing transaction's reads: its own start timestamp.
    committing: Option<Timestamp>,
}

impl<'a> Snapshot<'a> {
    pub fn new(inner: &'a Inner, at: Timestamp, immutable: Timestamp) -> Self {
        Self { inner, at, immutable, committing: None }
    }

    /// Creates the state against which a transaction that began at `start` and commits at `commit`
    /// checks its reads. Includes its own versions.
    pub fn of_commit(inner: &'a Inner, start: Timestamp, commit: Timestamp, immutable: Timestamp) -> Self {
        Self { inner, at: commit, immutable, committing: Some(start) }
    }

    /// Returns the timestamp of the snapshot.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Returns the shared state below.
    pub fn inner(&self) -> &'a Inner {
        self.inner
    }

    /// Returns the visible version of each cell, which may be a deletion.
    pub fn get(&self, table: &Table, cells: &[&Cell]) -> Result<Vec<Option<Version>>> {
        if cells.is_empty() {
            return Ok(Vec::new());
        }
        // R2.
        let asked: Vec<_> = cells.iter().map(|cell| (*cell, self.at)).collect();
        let newest = self.inner.store.get(table.name(), &asked)?;
        self.resolve(table, cells, newest)
    }

    /// Finds the visible version of each cell, starting from `versions`, the newest ones below the
    /// snapshot.
    ///
    /// Versions of transactions that committed after the snapshot or aborted are skipped by reading
    /// below them, so the loop continues with the cells that are left.
    pub fn resolve(
        &self,
        table: &Table,
        cells: &[&Cell],
        mut versions: Vec<Option<Version>>,
    ) -> Result<Vec<Option<Version>>> {
        let mut open: Vec<usize> = (0..cells.len()).filter(|i| versions[*i].is_some()).collect();
        let mut aborted: Vec<(&Cell, Timestamp)> = Vec::new();
        let mut passed_over = 0;
        while !open.is_empty() {
            if aborted.len() >= ABORTED_MAX {
                self.delete(table, &std::mem::take(&mut aborted));
            }
            let timestamp =
                |index: usize| versions[index].as_ref().map_or(Timestamp::ATOMIC, |v| v.timestamp);
            // R3.
            let mut swept = Vec::new();
            open.retain(|index| {
                let is_sentinel = timestamp(*index) == Timestamp::SENTINEL;
                if is_sentinel {
                    swept.push(*index);
                }
                !is_sentinel
            });
            let mut starts: Vec<Timestamp> = open.iter().map(|index| timestamp(*index)).collect();
            starts.sort_unstable();
            starts.dedup();
            // R4 and R5.
            let statuses = self.final_statuses(table, &starts)?;
            // R6.
            let mut again = Vec::new();
            let mut hides_later_ones = false;
            for index in open {
                let start = timestamp(index);
                match statuses.get(&start) {
                    Some(TransactionStatus::Committed(commit)) if *commit < self.at => {}
                    // Its own version, at its commit timestamp.
                    _ if self.committing == Some(start) => {}
                    Some(TransactionStatus::Aborted) => {
                        aborted.push((cells[index], start));
                        again.push(index);
                    }
                    _ => {
                        hides_later_ones = true;
                        again.push(index);
                    }
                }
            }
            passed_over += usize::from(hides_later_ones);
            if passed_over > VERSIONS_MAX {
                self.delete(table, &aborted);
                let (table, versions) = (table.name().to_owned(), VERSIONS_MAX);
                return Err(Error::TooManyVersions { table, start: self.at, versions });
            }
            for index in swept {
                versions[index] = self.after_sentinel(table, cells[index])?;
            }
            let asked: Vec<_> = again
                .iter()
                .map(|index| {
                    let below = versions[*index].as_ref().map_or(Timestamp::ATOMIC, |v| v.timestamp);
                    (cells[*index], below)
                })
                .collect();
            if !asked.is_empty() {
                let older = self.inner.store.get(table.name(), &asked)?;
                for (index, version) in again.iter().zip(older) {
                    versions[*index] = version;
                }
            }
            again.retain(|index| versions[*index].is_some());
            open = again;
        }
        self.delete(table, &aborted);
        Ok(versions)
    }

    /// Handles a cell with only the sentinel below the snapshot: empty if there is no newer
    /// version; otherwise the visible version may have been swept.
    fn after_sentinel(&self, table: &Table, cell: &Cell) -> Result<Option<Version>> {
        let newest = self.inner.store.get(table.name(), &[(cell, Timestamp::MAX)])?.pop().flatten();
        match newest {
            Some(version) if version.timestamp != Timestamp::SENTINEL => {
                Err(Error::SnapshotTooOld { start: self.at, table: table.name().to_owned() })
            }
            _ => Ok(None),
        }
    }

    /// Returns the statuses of all `starts`, except that of the committing transaction itself.
    /// Transactions in progress whose writers are dead are rolled back first.
    fn final_statuses(
        &self,
        table: &Table,
        starts: &[Timestamp],
    ) -> Result<HashMap<Timestamp, TransactionStatus>> {
        let service = &self.inner.service;
        let mut statuses = HashMap::with_capacity(starts.len());
        let mut unknown = Vec::new();
        for start in starts {
            match service.cached(*start) {
                Some(status) => drop(statuses.insert(*start, status)),
                None if self.committing == Some(*start) => {}
                None => unknown.push(*start),
            }
        }
        if unknown.is_empty() {
            return Ok(statuses);
        }
        // A committing transaction waits only for older ones, so that no two wait for each other.
        let is_waited_for =
            |start: &Timestamp| *start >= self.immutable && self.committing.is_none_or(|own| *start < own);
        let locks: Vec<Bytes> =
            unknown.iter().filter(|start| is_waited_for(start)).map(|start| start_lock(*start)).collect();
        if !locks.is_empty() {
            self.inner.timelock.wait_for(&locks, self.inner.options.lock_timeout)?;
        }
        statuses.extend(service.get_many(&unknown)?);
        let mut dead = Vec::new();
        for start in unknown {
            if statuses.contains_key(&start) {
                continue;
            }
            if self.committing.is_some_and(|own| start > own) {
                return Err(Error::ReadWriteConflict {
                    table: table.name().to_owned(),
                    what: format!("a cell that the transaction which began at {start} is writing"),
                });
            }
            dead.push(start);
        }
        self.inner.roll_back(&dead, &mut statuses)?;
        Ok(statuses)
    }

    fn delete(&self, table: &Table, aborted: &[(&Cell, Timestamp)]) {
        self.inner.delete_aborted(table, aborted);
    }
}

impl Inner {
    /// Aborts each start timestamp without a status (R5), and adds the statuses that stand to
    /// `statuses`.
    pub(super) fn roll_back(
        &self,
        starts: &[Timestamp],
        statuses: &mut HashMap<Timestamp, TransactionStatus>,
    ) -> Result<()> {
        if starts.is_empty() {
            return Ok(());
        }
        let aborts: Vec<_> = starts.iter().map(|start| (*start, TransactionStatus::Aborted)).collect();
        for (start, result) in starts.iter().zip(self.service.put_many_unless_exists(&aborts)) {
            let standing = match result? {
                Recorded::Recorded => TransactionStatus::Aborted,
                Recorded::Exists(standing) => standing,
            };
            statuses.insert(*start, standing);
        }
        Ok(())
    }

    /// Removes versions of aborted transactions. They are never visible, so a failure has no
    /// consequence.
    pub(super) fn delete_aborted(&self, table: &Table, versions: &[(&Cell, Timestamp)]) {
        match &self.reaper {
            _ if versions.is_empty() => {}
            Some(reaper) => reaper.remove(table.name(), versions),
            None => remove_aborted(&*self.store, &*self.timelock, table.name(), versions),
        }
    }
}

/// Removes versions on a best-effort basis.
pub(super) fn remove_aborted(
    store: &dyn Store,
    timelock: &dyn TimeLock,
    table: &str,
    versions: &[(&Cell, Timestamp)],
) {
    let deleted = timelock
        .timestamp()
        .map_err(Error::from)
        .and_then(|fresh| store.delete(table, versions, fresh.0).map_err(Error::from));
    if let Err(error) = deleted {
        tracing::debug!(%error, table, "aborted versions were not removed");
    }
}
