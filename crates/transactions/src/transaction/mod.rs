//! Transactions: writes buffered over a snapshot, and the commit.

mod commit;
mod cql;
mod indexes;
mod manager;
mod opened;
mod options;
mod range;
mod reads;
mod reaper;
mod scans;
mod serializable;
mod table;
mod writes;

use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::store::Cell;
use crate::sweep::SweepStrategy;
use crate::timelock::{Hold, Started};
use crate::timestamp::Timestamp;

pub use indexes::Built;
pub(crate) use indexes::{Definition, shard_of, shard_row};
pub use manager::Transactions;
pub use options::{Options, Retries};
pub use range::{Cells, Range};
pub use scans::RowOfCells;
pub use table::{ConflictHandler, Table};
pub use writes::Savepoint;

use manager::Inner;
pub(crate) use manager::{METADATA, start_lock};
use reads::Snapshot;
use serializable::Reads;
use writes::Writes;

/// How long a transaction reads before it renews its hold: much more often than a timelock server
/// expires unused holds.
const RENEWAL: Duration = Duration::from_secs(60);
/// Maximum bytes of a name shown in errors.
const NAME_SHOWN_MAX: usize = 64;

/// A transaction. It sees what was committed before it began, and its own writes. Dropped without a
/// commit, it has no effect.
///
/// Created by [`Transactions::start`] or, usually, [`Transactions::run`].
///
/// Reads borrow the transaction shared, so several threads may read at the same time; writes are
/// buffered in it and borrow it exclusively:
///
/// ```
/// # use cassette_transactions::{Result, Table, Transaction};
/// # fn example(tx: &Transaction, accounts: &Table) -> Result<()> {
/// let balances = std::thread::scope(|scope| {
///     let read = |name| scope.spawn(move || tx.get(accounts, name, "balance"));
///     ["alice", "bob"].map(read).map(|thread| thread.join().expect("reads do not panic"))
/// });
/// # let [alice, bob] = balances;
/// # (alice?, bob?);
/// # Ok(())
/// # }
/// ```
pub struct Transaction {
    inner: Arc<Inner>,
    /// Shared by the snapshots that it preserves.
    held: Arc<Held>,
    start: Timestamp,
    immutable: Timestamp,
    began: Instant,
    age_max: Duration,
    /// When to renew the hold: milliseconds after `began`.
    renew_at: AtomicU64,
    read_only: bool,
    writes: Writes,
    reads: Mutex<Reads>,
}

/// A hold, which is released when dropped.
struct Held {
    inner: Arc<Inner>,
    hold: Hold,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.inner.timelock.release(self.hold);
    }
}

impl Transaction {
    fn new(inner: Arc<Inner>, started: Started, read_only: bool) -> Self {
        Self {
            age_max: inner.options.age_max,
            held: Arc::new(Held { inner: inner.clone(), hold: started.hold }),
            inner,
            start: started.start,
            immutable: started.immutable,
            began: Instant::now(),
            renew_at: AtomicU64::new(milliseconds(RENEWAL)),
            read_only,
            writes: Writes::default(),
            reads: Mutex::default(),
        }
    }

    /// Returns the start timestamp, at which it reads.
    pub fn start_timestamp(&self) -> Timestamp {
        self.start
    }

    /// Begins a read-only transaction that reads at `timestamp`: it sees what was committed below
    /// it, without the writes of this transaction.
    ///
    /// Old versions are removed when no open transaction needs them, so this transaction preserves
    /// what can be read: from about the time at which it began. The new one shares that, and may
    /// outlive it. To read at earlier timestamps again and again, keep a read-only transaction
    /// open; the store grows meanwhile by what is written.
    ///
    /// ```
    /// # use cassette_transactions::{Result, Table, Timestamp, Transactions};
    /// # fn example(transactions: &Transactions, accounts: &Table) -> Result<()> {
    /// let preserved = transactions.start_read_only()?;
    /// let mut tx = transactions.start()?;
    /// tx.put(accounts, "alice", "balance", "50")?;
    /// let committed = tx.commit()?.expect("it has written");
    /// transactions.run(|tx| tx.put(accounts, "alice", "balance", "0"))?;
    /// // The state right after the first commit.
    /// let then = preserved.snapshot_at(Timestamp(committed.0 + 1))?;
    /// assert_eq!(then.get(accounts, "alice", "balance")?.as_deref(), Some(&b"50"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoSnapshot` for a timestamp below those that this transaction preserves, or above the last
    /// one that was issued; `LocksLost` if this transaction preserves nothing any more.
    pub fn snapshot_at(&self, timestamp: Timestamp) -> Result<Self> {
        self.check_held()?;
        let oldest = self.held.hold.timestamp;
        // Transactions that commit below a timestamp that was issued have stored their versions, so
        // the snapshot is complete.
        let newest = self.inner.timelock.timestamp()?;
        if !(oldest..=newest).contains(&timestamp) {
            return Err(Error::NoSnapshot { asked: timestamp, oldest, newest });
        }
        Ok(Self {
            inner: self.inner.clone(),
            held: self.held.clone(),
            start: timestamp,
            immutable: self.immutable,
            began: Instant::now(),
            age_max: self.age_max,
            renew_at: AtomicU64::new(milliseconds(RENEWAL)),
            read_only: true,
            writes: Writes::default(),
            reads: Mutex::default(),
        })
    }

    /// Returns the value of a cell in the snapshot of the transaction, or the one that it has
    /// written.
    ///
    /// # Errors
    /// `Name` for a row or a column that no store can represent; `OpenTooLong`; `SnapshotTooOld` or
    /// `LocksLost` if the hold was lost; an error of the store, the commit records or the locks.
    pub fn get(
        &self,
        table: &Table,
        row: impl AsRef<[u8]>,
        column: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>> {
        Ok(self.get_many(table, &[cell(row, column)])?.pop().flatten())
    }

    /// Returns the values of several cells, in order, with one read of the store.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many(&self, table: &Table, cells: &[Cell]) -> Result<Vec<Option<Bytes>>> {
        self.check_age()?;
        cells.iter().try_for_each(|cell| check_name(table, cell))?;
        // R1.
        let own: Vec<Option<&Bytes>> = cells.iter().map(|cell| self.writes.get(table, cell)).collect();
        let asked: Vec<&Cell> =
            cells.iter().zip(&own).filter(|(_, own)| own.is_none()).map(|(cell, _)| cell).collect();
        let found = self.snapshot().get(table, &asked)?;
        self.check_hold(table)?;
        if self.validates_reads(table) {
            let versions = found.iter().map(|version| serializable::seen(version.as_ref()));
            self.reads.lock().cells(table, asked.iter().map(|cell| (*cell).clone()).zip(versions));
        }
        let mut found = found.into_iter();
        let value = |own: Option<&Bytes>| {
            let value = match own {
                Some(own) => Some(own.clone()),
                None => found.next().flatten().map(|version| version.value),
            };
            value.filter(|value| !value.is_empty())
        };
        Ok(own.into_iter().map(value).collect())
    }

    /// Returns the value of a cell, and makes the commit fail if another transaction changes the
    /// cell after this one began.
    ///
    /// A value that was read with [`get`](Self::get) may have changed when the transaction commits:
    /// snapshot isolation permits write skew. A transaction whose writes depend on a cell that it
    /// does not write itself reads it for update. The commit then locks the cell as if it were
    /// written, and succeeds only if the cell has not changed: what was read for update is what the
    /// cell contains at the commit timestamp. Nothing is locked before the commit, and nothing is
    /// written. A rollback to a savepoint does not undo it. A transaction without writes commits
    /// without the check, because its snapshot is consistent.
    ///
    /// ```
    /// # use cassette_transactions::{Error, Result, Table, Transactions};
    /// # fn example(transactions: &Transactions, on_call: &Table) -> Result<()> {
    /// // Two doctors on call may not both leave at the same time.
    /// transactions.run(|tx| {
    ///     if tx.get_for_update(on_call, "bob", "is on call")?.is_none() {
    ///         return Err(Error::caller("bob is not on call"));
    ///     }
    ///     tx.delete(on_call, "alice", "is on call")
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get); `NoConflictChecks` for a table without conflict checks; `ReadOnly`.
    /// The commit fails with `ReadWriteConflict`.
    pub fn get_for_update(
        &self,
        table: &Table,
        row: impl AsRef<[u8]>,
        column: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>> {
        Ok(self.get_many_for_update(table, &[cell(row, column)])?.pop().flatten())
    }

    /// Returns the values of several cells, in order, as [`get_for_update`](Self::get_for_update).
    ///
    /// # Errors
    /// As [`get_for_update`](Self::get_for_update).
    pub fn get_many_for_update(&self, table: &Table, cells: &[Cell]) -> Result<Vec<Option<Bytes>>> {
        if self.read_only {
            return Err(Error::ReadOnly { start: self.start });
        }
        if !table.handler().checks_writes() {
            return Err(Error::NoConflictChecks { table: table.name().to_owned() });
        }
        let values = self.get_many(table, cells)?;
        self.reads.lock().for_update(table, cells.iter().cloned());
        Ok(values)
    }

    /// Returns the columns of a row within bounds, with their values, as an iterator in order that
    /// reads page by page. It can be reversed.
    ///
    /// ```
    /// # use cassette_transactions::{Result, Table, Transaction};
    /// # fn example(tx: &Transaction, log: &Table) -> Result<()> {
    /// for column in tx.range(log, "today", "09:00".."17:00").rev().take(10) {
    ///     let (time, what) = column?;
    ///     # drop((time, what));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn range<B: AsRef<[u8]>>(
        &self,
        table: &Table,
        row: impl AsRef<[u8]>,
        range: impl RangeBounds<B>,
    ) -> Range<'_> {
        Range::new(self, table, Bytes::copy_from_slice(row.as_ref()), scans::Span::of(&range))
    }

    /// Returns the columns of a row whose names begin with `prefix`, as [`range`](Self::range). The
    /// empty prefix returns all columns.
    pub fn prefix(&self, table: &Table, row: impl AsRef<[u8]>, prefix: impl AsRef<[u8]>) -> Range<'_> {
        let span = scans::Span::of_prefix(prefix.as_ref());
        Range::new(self, table, Bytes::copy_from_slice(row.as_ref()), span)
    }

    /// Returns all cells of a table with their values, as an iterator that reads page by page. Rows
    /// are in the order of the store, which is not that of their names.
    pub fn cells(&self, table: &Table) -> Cells<'_> {
        Cells::new(self, table)
    }

    /// Returns up to `limit` columns of a row in order, with their values. To continue, read the
    /// columns after the last one, or use [`range`](Self::range).
    pub fn columns<B: AsRef<[u8]>>(
        &self,
        table: &Table,
        row: impl AsRef<[u8]>,
        range: impl RangeBounds<B>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>> {
        self.check_age()?;
        let row = Bytes::copy_from_slice(row.as_ref());
        let columns = scans::columns(self, table, &row, scans::Span::of(&range), limit)?;
        self.check_hold(table)?;
        Ok(columns)
    }

    /// Returns up to `limit` rows that have columns, each with all of them, after row `after`, in
    /// the store's order, which is not the order of their names.
    pub fn rows(&self, table: &Table, after: Option<&[u8]>, limit: usize) -> Result<Vec<RowOfCells>> {
        self.check_age()?;
        let rows = scans::rows(self, table, after, limit)?;
        self.check_hold(table)?;
        Ok(rows)
    }

    /// Returns several rows with all of their columns, in the requested order; a row without
    /// columns is empty. On a cluster the rows are read concurrently. All of them are in memory at
    /// once.
    pub fn get_rows<R: AsRef<[u8]>>(
        &self,
        table: &Table,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<Vec<RowOfCells>> {
        self.check_age()?;
        let rows: Vec<Bytes> = rows.into_iter().map(|row| Bytes::copy_from_slice(row.as_ref())).collect();
        rows.iter().try_for_each(|row| check_name(table, &Cell::new(row.clone(), Bytes::new())))?;
        let rows = scans::whole_rows(self, table, &rows)?;
        self.check_hold(table)?;
        Ok(rows)
    }

    /// Buffers the write of a value until the commit.
    ///
    /// # Errors
    /// `EmptyValue` for an empty value; `Name` for a row or a column that no store can represent;
    /// `TooLong` for a value that this store cannot write; `ReadOnly`. For a cell with an
    /// [index](crate::Index): `IndexNotDeclared`, `UniqueViolation`, `OtherType` for a value that
    /// the index cannot read, and the errors of [`get`](Self::get).
    pub fn put(
        &mut self,
        table: &Table,
        row: impl AsRef<[u8]>,
        column: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let value = value.as_ref();
        if value.is_empty() {
            return Err(Error::EmptyValue { table: table.name().to_owned() });
        }
        self.write(table, cell(row, column), Bytes::copy_from_slice(value))
    }

    /// Buffers the deletion of a cell until the commit.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&mut self, table: &Table, row: impl AsRef<[u8]>, column: impl AsRef<[u8]>) -> Result<()> {
        self.write(table, cell(row, column), Bytes::new())
    }

    /// Replaces the value of a cell by a function of it, and returns the new value. `None` is an
    /// absent value. The cell is read for update: of two concurrent transactions that change it,
    /// one fails at its commit with a conflict, so that no change is lost. Writes nothing if the
    /// value stays the same.
    ///
    /// ```
    /// # use bytes::Bytes;
    /// # use cassette_transactions::{Result, Table, Transactions};
    /// # fn example(transactions: &Transactions, log: &Table) -> Result<()> {
    /// transactions.run(|tx| {
    ///     tx.update(log, "today", "visitors", |seen| {
    ///         let seen = seen.unwrap_or_default();
    ///         Ok(Some([&seen[..], &b"alice "[..]].concat().into()))
    ///     })
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get_for_update`](Self::get_for_update) and [`put`](Self::put); the error of `change`.
    pub fn update(
        &mut self,
        table: &Table,
        row: impl AsRef<[u8]>,
        column: impl AsRef<[u8]>,
        change: impl FnOnce(Option<Bytes>) -> Result<Option<Bytes>>,
    ) -> Result<Option<Bytes>> {
        let cell = cell(row, column);
        let before = self.get_many_for_update(table, std::slice::from_ref(&cell))?.pop().flatten();
        let after = change(before.clone())?;
        if after != before {
            if after.as_ref().is_some_and(Bytes::is_empty) {
                return Err(Error::EmptyValue { table: table.name().to_owned() });
            }
            self.write(table, cell, after.clone().unwrap_or_default())?;
        }
        Ok(after)
    }

    /// Creates a savepoint, to which later writes can be [rolled back](Self::roll_back_to). While
    /// there is one, the transaction keeps the value that each write replaces.
    ///
    /// ```
    /// # use cassette_transactions::{Result, Table, Transactions};
    /// # fn import(_: &mut cassette_transactions::Transaction, _: &str) -> Result<()> { Ok(()) }
    /// # fn example(transactions: &Transactions, files: &[&str]) -> Result<()> {
    /// // Imports the files that can be imported, all of them in one transaction.
    /// transactions.run(|tx| {
    ///     for file in files {
    ///         let before = tx.savepoint();
    ///         if import(tx, file).is_err() {
    ///             tx.roll_back_to(before)?;
    ///         }
    ///         tx.release(before)?;
    ///     }
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint()
    }

    /// Undoes all writes since `savepoint`. It can be rolled back to again; savepoints made after
    /// it end. Reads are not undone: in serializable tables they are validated at the commit, as
    /// are reads for update.
    ///
    /// # Errors
    /// `NoSavepoint` if it has ended or belongs to another transaction. Nothing is undone then.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        if self.writes.roll_back_to(savepoint) {
            Ok(())
        } else {
            Err(Error::NoSavepoint { start: self.start })
        }
    }

    /// Ends a savepoint, and those made after it. The writes stay.
    ///
    /// # Errors
    /// As [`roll_back_to`](Self::roll_back_to).
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        if self.writes.release(savepoint) { Ok(()) } else { Err(Error::NoSavepoint { start: self.start }) }
    }

    fn write(&mut self, table: &Table, cell: Cell, value: Bytes) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly { start: self.start });
        }
        check_name(table, &cell)?;
        check_length(table.name(), &cell, value.len(), self.inner.version_max)?;
        let entries = self.index_writes(table, &cell, &value)?;
        self.writes.put(table, cell, value);
        for (table, entry, value) in entries {
            self.writes.put(&table, entry, value);
        }
        Ok(())
    }

    /// Commits. Returns the commit timestamp, or `None` if the transaction wrote nothing, neither
    /// cells nor rows of CQL tables.
    ///
    /// Committing consumes the transaction, so nothing can be written afterwards:
    ///
    /// ```compile_fail,E0382
    /// # fn example(mut tx: cassette_transactions::Transaction, table: cassette_transactions::Table) {
    /// tx.commit();
    /// tx.put(&table, "row", "column", "too late");
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::outcome`] returns what is known about the transaction.
    pub fn commit(self) -> Result<Option<Timestamp>> {
        self.commit_if(|_| Ok(()))
    }

    /// Commits if `condition` succeeds. It is called last, with the prospective commit timestamp.
    pub fn commit_if(
        mut self,
        condition: impl FnOnce(Option<Timestamp>) -> Result<()>,
    ) -> Result<Option<Timestamp>> {
        commit::commit(&mut self, condition)
    }

    fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::new(&self.inner, self.start, self.immutable)
    }

    /// Returns whether the commit repeats the reads of a table (C7).
    fn validates_reads(&self, table: &Table) -> bool {
        table.handler().is_serializable() && !self.read_only
    }

    /// Checks the hold after a read of a thoroughly swept table: without the hold, the read may
    /// have missed swept versions.
    fn check_hold(&self, table: &Table) -> Result<()> {
        match table.sweep() {
            SweepStrategy::Thorough => self.check_held(),
            SweepStrategy::Conservative | SweepStrategy::Nothing => Ok(()),
        }
    }

    fn check_held(&self) -> Result<()> {
        if self.inner.timelock.is_held(None, self.held.hold)? {
            Ok(())
        } else {
            Err(Error::LocksLost { start: self.start })
        }
    }

    /// Called before each read and the commit. A hold lasts as long as it is renewed.
    fn check_age(&self) -> Result<()> {
        if milliseconds(self.began.elapsed()) >= self.renew_at.load(Ordering::Relaxed) {
            self.check_held()?;
            self.renew_at.store(milliseconds(self.began.elapsed() + RENEWAL), Ordering::Relaxed);
        }
        let (age, max) = (self.began.elapsed(), self.age_max);
        if age > max {
            Err(Error::OpenTooLong {
                start: self.start,
                age_seconds: age.as_secs(),
                max_seconds: max.as_secs(),
            })
        } else {
            Ok(())
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn check_name(table: &Table, cell: &Cell) -> Result<()> {
    cell.check().map_err(|error| Error::Name { table: table.name().to_owned(), error })
}

/// Rejects a version that is longer than the store can write.
fn check_length(table: &str, cell: &Cell, value: usize, max: Option<usize>) -> Result<()> {
    let bytes = cell.name_length() + value;
    match max.filter(|max| bytes > *max) {
        Some(max) => {
            let cell = shortened(cell);
            Err(Error::TooLong { table: table.to_owned(), cell, bytes, max })
        }
        None => Ok(()),
    }
}

/// Returns the names of a cell, shortened for an error message.
pub(crate) fn shortened(cell: &Cell) -> String {
    let part = |name: &[u8]| {
        let end = name.len().min(NAME_SHOWN_MAX);
        let more = if end < name.len() { "..." } else { "" };
        format!("\"{}{more}\"", name[..end].escape_ascii())
    };
    format!("row {}, column {}", part(&cell.row), part(&cell.column))
}

fn cell(row: impl AsRef<[u8]>, column: impl AsRef<[u8]>) -> Cell {
    Cell::new(Bytes::copy_from_slice(row.as_ref()), Bytes::copy_from_slice(column.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use crate::timelock::LocalTimeLock;

    #[test]
    fn a_long_transaction_renews_its_hold_and_fails_without_it() {
        let store = Arc::new(MemoryStore::new());
        let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
        let transactions = Transactions::open(store, timelock.clone(), Options::default()).unwrap();
        let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
        let tx = transactions.start().unwrap();
        tx.renew_at.store(0, Ordering::Relaxed);
        tx.get(&table, "row", "column").unwrap();
        assert_ne!(tx.renew_at.load(Ordering::Relaxed), 0, "asked, and to be asked again later");
        timelock.revoke_all();
        tx.get(&table, "row", "column").unwrap();
        tx.renew_at.store(0, Ordering::Relaxed);
        assert!(matches!(tx.get(&table, "row", "column"), Err(Error::LocksLost { .. })));
    }
}
