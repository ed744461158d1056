//! The commit: steps C1 to C11 of the protocol.

use std::collections::{BTreeSet, HashMap};

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
use crate::timestamp::{Timestamp, TransactionStatus};

/// A table, and cells of it that the transaction read for update and does not write.
type ReadForUpdate = (Table, BTreeSet<Cell>);

pub(super) fn commit(
    transaction: &mut Transaction,
    condition: impl FnOnce(Option<Timestamp>) -> Result<()>,
) -> Result<Option<Timestamp>> {
    // C1.
    transaction.check_age()?;
    if transaction.writes.is_empty() {
        // Everything that it read existed at its start timestamp, so that is its position in the
        // order of transactions.
        condition(None)?;
        return Ok(None);
    }
    let inner = transaction.inner.clone();
    let read = transaction.reads.get_mut().only_read_for_update(&transaction.writes);
    // C2.
    let mut names = vec![start_lock(transaction.start)];
    for (table, cells) in &read {
        names.extend(cells.iter().filter_map(|cell| table.lock_name(cell)));
    }
    for (table, cells) in transaction.writes.tables() {
        names.extend(cells.keys().filter_map(|cell| table.lock_name(cell)));
    }
    let locks = inner.timelock.lock(names, inner.options.lock_timeout)?;
    let committed = with_locks(transaction, &inner, &read, &locks, condition);
    // C11.
    inner.timelock.unlock(locks);
    committed.map(Some)
}

fn with_locks(
    transaction: &Transaction,
    inner: &Inner,
    read: &[ReadForUpdate],
    locks: &LockToken,
    condition: impl FnOnce(Option<Timestamp>) -> Result<()>,
) -> Result<Timestamp> {
    let start = transaction.start;
    let check = || check_all(transaction, inner, read);
    // Before anything is written. The writes themselves were checked when they were made.
    let fits = |additions: &Additions| {
        additions
            .puts()
            .try_for_each(|put| check_length(put.table, put.cell, put.value.len(), inner.version_max))
    };
    let additions = if inner.store.puts_in_order() {
        // C3. C4 is executed with C5, and uses the results of C3.
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
            // C3 and C4 are independent, so they run concurrently.
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
            // Saves readers of the written cells the wait and the lookup. May fail.
            if let Err(error) = inner.service.put_unless_exists(start, TransactionStatus::Aborted) {
                tracing::debug!(%error, %start, "readers will roll the transaction back");
            }
            return Err(error);
        }
    };
    // C10.
    let (status, cql) = (TransactionStatus::Committed(commit), transaction.writes.cql());
    let put = if cql.is_empty() {
        inner.service.put_unless_exists(start, status)
    } else {
        inner.service.put_with(start, status, cql)
    };
    match put {
        Ok(Recorded::Recorded) => Ok(commit),
        Ok(Recorded::Exists(TransactionStatus::Aborted)) => Err(Error::RolledBack { start }),
        Ok(Recorded::Exists(found)) => Err(Error::TwoCommits { start, commit, found }),
        Err(ServiceError::NotPut { cause, .. }) => Err(match *cause {
            ServiceError::Store(cause) if !cql.is_empty() && !cause.is_transient => {
                Error::CqlNotApplied { start, cause }
            }
            cause => cause.into(),
        }),
        Err(cause) => Err(Error::OutcomeUnknown { start, commit, cause }),
    }
}

/// Returns the writes for the sweep queue. `firsts` are the cells without any version, in order.
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

/// Runs C5 to C9: everything that can fail without leaving the commit in doubt. `additions` are
/// queue entries that C4 has not stored yet; they are stored here, before the versions.
fn prepare(
    transaction: &Transaction,
    inner: &Inner,
    locks: &LockToken,
    additions: Option<Additions>,
    condition: impl FnOnce(Option<Timestamp>) -> Result<()>,
) -> Result<Timestamp> {
    let start = transaction.start;
    // C4, unless done before, and C5.
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
    // Without C10 they have no effect, so they need not be durable before it.
    inner.store.put_ahead(&puts)?;
    drop(puts);
    // Only now: an index cell that is remembered but not stored would hide later entries from
    // sweepers.
    if let Some(additions) = additions {
        inner.queue.added(additions);
    }
    // C6.
    let commit = inner.timelock.timestamp()?;
    // C7.
    let reads = transaction.reads.lock();
    if !reads.is_empty() {
        let now = Snapshot::of_commit(inner, start, commit, transaction.immutable);
        reads.check(&now, &transaction.writes)?;
    }
    drop(reads);
    // C8.
    condition(Some(commit))?;
    // C9.
    if inner.timelock.is_held(Some(locks), transaction.held.hold)? {
        Ok(commit)
    } else {
        Err(Error::LocksLost { start })
    }
}

/// Checks the writes, and the cells that were only read for update (C3). Returns the written cells
/// without a version of any age, in order.
fn check_all<'a>(
    transaction: &'a Transaction,
    inner: &Inner,
    read: &[ReadForUpdate],
) -> Result<Vec<&'a Cell>> {
    let mut firsts = Vec::new();
    for (table, cells) in transaction.writes.tables().filter(|(table, _)| table.handler().checks_writes()) {
        check_writes(inner, transaction.start, table, cells.keys().collect(), &mut firsts)?;
    }
    for (table, cells) in read {
        let checked = check_writes(inner, transaction.start, table, cells.iter().collect(), &mut Vec::new());
        checked.map_err(|error| match error {
            Error::WriteWriteConflict { table, cell, .. } => {
                Error::ReadWriteConflict { table, what: format!("{cell:02x?}") }
            }
            error => error,
        })?;
    }
    Ok(firsts)
}

/// Checks the writes (C3) of one table's cells, which are locked.
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
        let mut statuses = inner.service.get_many(&starts)?;
        starts.retain(|start| !statuses.contains_key(start));
        // Not waited for: a live writer would hold the lock that this transaction holds.
        inner.roll_back(&starts, &mut statuses)?;
        cells.clear();
        for (cell, other) in newest {
            match statuses.get(&other) {
                Some(TransactionStatus::Committed(commit)) if other > start || *commit > start => {
                    return Err(Error::WriteWriteConflict {
                        table: table.name().to_owned(),
                        cell: cell.clone(),
                        other,
                    });
                }
                Some(TransactionStatus::Committed(_)) => {}
                Some(TransactionStatus::Aborted) | None => {
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
