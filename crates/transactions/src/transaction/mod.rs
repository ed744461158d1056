//! Transactions: writes buffered over a snapshot, and the commit.

mod commit;
mod manager;
mod opened;
mod options;
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
use crate::timelock::Started;
use crate::timestamp::Timestamp;

pub use manager::Transactions;
pub use options::{Options, Retries};
pub use scans::RowOfCells;
pub use table::{ConflictHandler, Table};

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
    /// `None` after the hold was released.
    started: Option<Started>,
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

impl Transaction {
    fn new(inner: Arc<Inner>, started: Started, read_only: bool) -> Self {
        Self {
            age_max: inner.options.age_max,
            inner,
            start: started.start,
            immutable: started.immutable,
            started: Some(started),
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

    /// Returns the value of a cell.
    pub fn get(
        &self,
        table: &Table,
        row: impl AsRef<[u8]>,
        column: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>> {
        Ok(self.get_many(table, &[cell(row, column)])?.pop().flatten())
    }

    /// Returns the values of several cells, in order.
    pub fn get_many(&self, table: &Table, cells: &[Cell]) -> Result<Vec<Option<Bytes>>> {
        self.check_age()?;
        cells.iter().try_for_each(|cell| check_name(table, cell))?;
        // R1.
        let own: Vec<Option<&Bytes>> = cells.iter().map(|cell| self.writes.get(table, cell)).collect();
        let asked: Vec<&Cell> =
            cells.iter().zip(&own).filter(|(_, own)| own.is_none()).map(|(cell, _)| cell).collect();
        let found = self.snapshot().get(table, &asked)?;
        self.check_hold(table)?;
        if table.handler().is_serializable() {
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

    /// Returns up to `limit` columns of a row in order, with their values. To continue, read the
    /// columns after the last one.
    pub fn columns<B: AsRef<[u8]>>(
        &self,
        table: &Table,
        row: impl AsRef<[u8]>,
        range: impl RangeBounds<B>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>> {
        self.check_age()?;
        let row = Bytes::copy_from_slice(row.as_ref());
        let columns = scans::columns(self, table, row, &range, limit)?;
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
    /// `TooLong` for a value that this store cannot write; `ReadOnly`.
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
    pub fn delete(&mut self, table: &Table, row: impl AsRef<[u8]>, column: impl AsRef<[u8]>) -> Result<()> {
        self.write(table, cell(row, column), Bytes::new())
    }

    fn write(&mut self, table: &Table, cell: Cell, value: Bytes) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly { start: self.start });
        }
        check_name(table, &cell)?;
        check_length(table.name(), &cell, value.len(), self.inner.version_max)?;
        self.writes.put(table, cell, value);
        Ok(())
    }

    /// Commits. Returns the commit timestamp, or `None` if the transaction wrote nothing.
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
    /// [`Error::outcome`] tells what is known of the transaction.
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

    /// Checks the hold after a read of a thoroughly swept table: without the hold, the read may
    /// have missed swept versions.
    fn check_hold(&self, table: &Table) -> Result<()> {
        match table.sweep() {
            SweepStrategy::Thorough => self.check_held(),
            SweepStrategy::Conservative | SweepStrategy::Nothing => Ok(()),
        }
    }

    fn check_held(&self) -> Result<()> {
        let held = match &self.started {
            Some(started) => self.inner.timelock.is_held(None, started.hold)?,
            None => false,
        };
        if held { Ok(()) } else { Err(Error::LocksLost { start: self.start }) }
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

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            self.inner.timelock.release(started.hold);
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
fn shortened(cell: &Cell) -> String {
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
