//! Transactions: buffered writes over a snapshot, and the commit.

mod commit;
mod manager;
mod opened;
mod reads;
mod reaper;
mod scans;
mod serializable;
mod table;
mod writes;

use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::store::Cell;
use crate::sweep::SweepStrategy;
use crate::timelock::Started;
use crate::timestamp::Timestamp;

pub use manager::{Options, Transactions};
pub use scans::RowOfCells;
pub use table::{ConflictHandler, Table};

use manager::Inner;
pub(crate) use manager::{METADATA, start_lock};
use reads::Snapshot;
use serializable::Reads;
use writes::Writes;

/// How long a transaction reads before it asks whether it still has its hold: much more often than a timelock server takes away those that nobody asks
/// for.
const RENEWAL: Duration = Duration::from_secs(60);
/// Bytes of a name that errors show, at most.
const NAME_SHOWN_MAX: usize = 64;

/// A transaction: it sees what was committed before it began, and its own writes. Dropped without a commit, it leaves
/// nothing.
///
/// From [`Transactions::start`] or, mostly, [`Transactions::run`].
pub struct Transaction {
    inner: Arc<Inner>,
    /// `None` when the hold was given back.
    started: Option<Started>,
    start: Timestamp,
    immutable: Timestamp,
    began: Instant,
    age_max: Duration,
    /// When the timelock is told again that the hold is in use.
    renew_at: Instant,
    read_only: bool,
    writes: Writes,
    reads: Reads,
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
            renew_at: Instant::now() + RENEWAL,
            read_only,
            writes: Writes::default(),
            reads: Reads::default(),
        }
    }

    /// The timestamp that it reads at.
    pub fn start_timestamp(&self) -> Timestamp {
        self.start
    }

    /// The value of a cell.
    pub fn get(
        &mut self,
        table: &Table,
        row: impl AsRef<[u8]>,
        column: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>> {
        Ok(self.get_many(table, &[cell(row, column)])?.pop().flatten())
    }

    /// The values of many cells, in their order.
    pub fn get_many(&mut self, table: &Table, cells: &[Cell]) -> Result<Vec<Option<Bytes>>> {
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
            self.reads.cells(table, asked.iter().map(|cell| (*cell).clone()).zip(versions));
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

    /// Up to `limit` columns of a row in order, with their values. To go on, ask for those after the last.
    pub fn columns<B: AsRef<[u8]>>(
        &mut self,
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

    /// Up to `limit` rows that have columns, each with all of them, after row `after`, in the store's order, which is not that of their names.
    pub fn rows(&mut self, table: &Table, after: Option<&[u8]>, limit: usize) -> Result<Vec<RowOfCells>> {
        self.check_age()?;
        let rows = scans::rows(self, table, after, limit)?;
        self.check_hold(table)?;
        Ok(rows)
    }

    /// Writes a value, when the transaction commits.
    ///
    /// # Errors
    /// EmptyValue, for none; Name, for a row or a column that no store can keep; TooLong, for a value that this store cannot
    /// write; ReadOnly.
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

    /// Deletes a cell, when the transaction commits.
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

    /// Commits, and says at which timestamp; a transaction that wrote nothing has none.
    ///
    /// It ends with it, so nothing can be written after the commit:
    ///
    /// ```compile_fail,E0382
    /// # fn example(mut tx: cassette_transactions::Transaction, table: cassette_transactions::Table) {
    /// tx.commit();
    /// tx.put(&table, "row", "column", "too late");
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`Error::outcome`] for what is known then.
    pub fn commit(self) -> Result<Option<Timestamp>> {
        self.commit_if(|_| Ok(()))
    }

    /// Commits if `condition`, which is asked last and given the commit timestamp to be, does not fail.
    pub fn commit_if(
        mut self,
        condition: impl FnOnce(Option<Timestamp>) -> Result<()>,
    ) -> Result<Option<Timestamp>> {
        commit::commit(&mut self, condition)
    }

    fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::new(&self.inner, self.start, self.immutable)
    }

    /// After a read of a table that is swept thoroughly: without the hold it may have read nothing where there was something.
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

    /// Before each read and the commit. A hold lasts as long as it is asked for.
    fn check_age(&mut self) -> Result<()> {
        if Instant::now() >= self.renew_at {
            self.check_held()?;
            self.renew_at = Instant::now() + RENEWAL;
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

fn check_name(table: &Table, cell: &Cell) -> Result<()> {
    cell.check().map_err(|error| Error::Name { table: table.name().to_owned(), error })
}

/// Refuses a version that is longer than the store can write.
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

/// The names of a cell, as far as they can be read in an error.
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
    fn a_transaction_that_is_open_for_long_asks_for_its_hold_and_ends_without_it() {
        let store = Arc::new(MemoryStore::new());
        let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
        let transactions = Transactions::open(store, timelock.clone(), Options::default()).unwrap();
        let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
        let mut tx = transactions.start().unwrap();
        tx.renew_at = Instant::now();
        tx.get(&table, "row", "column").unwrap();
        assert!(tx.renew_at > Instant::now(), "asked, and to be asked again later");
        timelock.revoke_all();
        tx.get(&table, "row", "column").unwrap();
        tx.renew_at = Instant::now();
        assert!(matches!(tx.get(&table, "row", "column"), Err(Error::LocksLost { .. })));
    }
}
