//! C1 to C11 of the protocol.

use std::collections::HashMap;

use super::manager::{Inner, start_lock};
use super::reads::Snapshot;
use super::table::Table;
use super::{Transaction, check_length};
use crate::encoding::sweep::WriteKind;
use crate::error::{Error, Result};
use crate::service::{Recorded, ServiceError, TransactionService};
use crate::store::{Cell, Put, Store};
use crate::sweep::{Additions, SweepStrategy};
use crate::timelock::LockToken;
use crate::timestamp::{Conclusion, Timestamp};

pub(super) fn commit(
    transaction: &mut Transaction,
    condition: impl FnOnce(Option<Timestamp>) -> Result<()>,
) -> Result<Option<Timestamp>> {
    // C1.
    transaction.check_age()?;
    if transaction.writes.is_empty() {
        // All that it read was there at its start: it happened then.
        condition(None)?;
        return Ok(None);
    }
    let inner = transaction.inner.clone();
    // C2.
    let mut names = vec![start_lock(transaction.start)];
    for (table, cells) in transaction.writes.tables() {
        names.extend(cells.keys().filter_map(|cell| table.lock_name(cell)));
    }
    let locks = inner.timelock.lock(names, inner.options.lock_timeout)?;
    let committed = with_locks(transaction, &inner, &locks, condition);
    // C11.
    inner.timelock.unlock(locks);
    committed.map(Some)
}

fn with_locks(
    transaction: &Transaction,
    inner: &Inner,
    locks: &LockToken,
    condition: impl FnOnce(Option<Timestamp>) -> Result<()>,
) -> Result<Timestamp> {
    let start = transaction.start;
    let check = || check_all(transaction, inner);
    // Before anything is written. The writes themselves were checked when they were made.
    let fits = |additions: &Additions| {
        additions
            .puts()
            .try_for_each(|put| check_length(put.table, put.cell, put.value.len(), inner.version_max))
    };
    let additions = if inner.store.puts_in_order() {
        // C3. C4 goes with C5, and can say what C3 found.
        let firsts = check()?;
        let additions = inner.queue.additions(start, queued(transaction, &firsts), inner.version_max);
        fits(&additions)?;
        Some(additions)
    } else {
        let additions = inner.queue.additions(start, queued(transaction, &[]), inner.version_max);
        fits(&additions)?;
        if additions.is_empty() {
            check()?;
        } else {
            // C3 and C4, which do not know of each other, in the time of one.
            let put = || inner.store.put(&additions.puts().collect::<Vec<_>>());
            let (checked, put) = std::thread::scope(|scope| {
                let put = scope.spawn(put);
                (check().map(drop), put.join())
            });
            checked?;
            match put {
                Ok(put) => put?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        inner.queue.added(additions);
        None
    };
    let commit = match prepare(transaction, inner, locks, additions, condition) {
        Ok(commit) => commit,
        Err(error) => {
            // Saves readers of what was written the wait and the look-up. It may fail.
            if let Err(error) = inner.service.put_unless_exists(start, Conclusion::Aborted) {
                tracing::debug!(%error, %start, "left to be rolled back by readers");
            }
            return Err(error);
        }
    };
    // C10.
    match inner.service.put_unless_exists(start, Conclusion::Committed(commit)) {
        Ok(Recorded::Recorded) => Ok(commit),
        Ok(Recorded::Exists(Conclusion::Aborted)) => Err(Error::RolledBack { start }),
        Ok(Recorded::Exists(found)) => Err(Error::TwoCommits { start, commit, found }),
        Err(cause @ ServiceError::NotPut { .. }) => Err(cause.into()),
        Err(cause) => Err(Error::OutcomeUnknown { start, commit, cause }),
    }
}

/// The writes, for the queue. `firsts` are those of cells without any version, in their order.
fn queued<'a>(
    transaction: &'a Transaction,
    firsts: &[&'a Cell],
) -> impl Iterator<Item = (&'a str, SweepStrategy, &'a Cell, WriteKind)> {
    let mut firsts = firsts.iter().peekable();
    let writes =
        transaction.writes.tables().flat_map(|(table, cells)| cells.iter().map(move |cell| (table, cell)));
    writes.map(move |(table, (cell, value))| {
        let is_first = firsts.next_if(|first| std::ptr::eq(**first, cell)).is_some();
        (table.name(), table.sweep(), cell, WriteKind { is_delete: value.is_empty(), is_first })
    })
}

/// C5 to C9: all that can fail without leaving the commit in doubt. `additions` are those that C4 has
/// not stored yet: they are stored here, before the versions.
fn prepare(
    transaction: &Transaction,
    inner: &Inner,
    locks: &LockToken,
    additions: Option<Additions>,
    condition: impl FnOnce(Option<Timestamp>) -> Result<()>,
) -> Result<Timestamp> {
    let start = transaction.start;
    // C4, where it was not done before, and C5.
    let mut puts: Vec<Put<'_>> = additions.iter().flat_map(Additions::puts).collect();
    for (table, cells) in transaction.writes.tables() {
        puts.extend(cells.iter().map(|(cell, value)| Put {
            table: table.name(),
            cell,
            timestamp: start,
            value: value.clone(),
            write_time: start.0,
        }));
    }
    // They are nothing without C10, and need not be safe before it.
    inner.store.put_ahead(&puts)?;
    drop(puts);
    // Only now: an index cell that was remembered and not stored would hide later entries from sweepers.
    if let Some(additions) = additions {
        inner.queue.added(additions);
    }
    // C6.
    let commit = inner.timelock.timestamp()?;
    // C7.
    if !transaction.reads.is_empty() {
        let now = Snapshot::of_commit(inner, start, commit, transaction.immutable);
        transaction.reads.check(&now, &transaction.writes)?;
    }
    // C8.
    condition(Some(commit))?;
    // C9.
    let held = match &transaction.started {
        Some(started) => inner.timelock.is_held(Some(locks), started.hold)?,
        None => false,
    };
    if held { Ok(commit) } else { Err(Error::LocksLost { start }) }
}

/// C3. Gives the cells, in their order, that have no version of any age.
fn check_all<'a>(transaction: &'a Transaction, inner: &Inner) -> Result<Vec<&'a Cell>> {
    let mut firsts = Vec::new();
    for (table, cells) in transaction.writes.tables().filter(|(table, _)| table.handler().checks_writes()) {
        check_writes(inner, transaction.start, table, cells.keys().collect(), &mut firsts)?;
    }
    Ok(firsts)
}

/// C3 for the cells of one table, which are locked.
fn check_writes<'a>(
    inner: &Inner,
    start: Timestamp,
    table: &Table,
    mut cells: Vec<&'a Cell>,
    firsts: &mut Vec<&'a Cell>,
) -> Result<()> {
    let mut below: HashMap<&Cell, Timestamp> = HashMap::new();
    let mut aborted: Vec<(&Cell, Timestamp)> = Vec::new();
    while !cells.is_empty() {
        let asked: Vec<_> =
            cells.iter().map(|cell| (*cell, below.get(cell).copied().unwrap_or(Timestamp::MAX))).collect();
        let newest = inner.store.get(table.name(), &asked)?;
        if below.is_empty() {
            let nothing = cells.iter().zip(&newest).filter(|(_, version)| version.is_none());
            firsts.extend(nothing.map(|(cell, _)| *cell));
        }
        let newest: Vec<(&Cell, Timestamp)> = cells
            .iter()
            .zip(newest)
            .filter_map(|(cell, version)| Some((*cell, version?.timestamp)))
            .collect();
        let mut starts: Vec<Timestamp> = newest.iter().map(|(_, start)| *start).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut conclusions = inner.service.get_many(&starts)?;
        starts.retain(|start| !conclusions.contains_key(start));
        // Not waited for: a writer that is alive would hold the lock that we hold.
        inner.roll_back(&starts, &mut conclusions)?;
        cells.clear();
        for (cell, other) in newest {
            match conclusions.get(&other) {
                Some(Conclusion::Committed(commit)) if other > start || *commit > start => {
                    return Err(Error::WriteWriteConflict {
                        table: table.name().to_owned(),
                        cell: cell.clone(),
                        other,
                    });
                }
                Some(Conclusion::Committed(_)) => {}
                Some(Conclusion::Aborted) | None => {
                    aborted.push((cell, other));
                    below.insert(cell, other);
                    cells.push(cell);
                }
            }
        }
    }
    inner.delete_aborted(table, &aborted);
    Ok(())
}
