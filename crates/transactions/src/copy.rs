//! Copies a store to another one while it is in use, and compares two stores.
//!
//! A pass makes the target equal to one snapshot of the source: it reads both, and writes only the
//! cells that differ. The first pass fills an empty store. Each later one transfers what was
//! committed meanwhile, or repairs what an interruption left incomplete. When the source's programs
//! have ended, a last pass and a comparison without a difference complete the move.
//!
//! The target is written by ordinary transactions, in its own layout of commit records, with
//! timestamps above those of the source. No other program may write to it before the move is
//! complete.

use std::iter::Peekable;
use std::time::Duration;

use bytes::Bytes;

use crate::backup::data_tables;
use crate::error::Error;
use crate::store::{Cell, StoreError};
use crate::timelock::TimeLockError;
use crate::transaction::{Table, Transaction, Transactions};

/// Number of row names that are read at once.
const ROWS: usize = 1_000;
/// The maximum of a transaction's writes, in cells and bytes.
const WRITES: usize = 1_000;
const WRITE_BYTES: usize = 1 << 20;
/// How long a lock of a random name, which no other client has, may take.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// What a pass may do to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Fill it. It must be empty.
    First,
    /// Make it equal to the source, whatever it has in the source's tables.
    Next,
    /// Compare it only.
    Compare,
}

/// What a pass has read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    /// The snapshot timestamp of the source.
    pub timestamp: i64,
    /// Number of tables.
    pub tables: u64,
    /// Number of rows of the source.
    pub rows: u64,
    /// Number of cells of the source.
    pub cells: u64,
    /// Cells that the target lacked, or had with other values.
    pub different: u64,
    /// Cells that only the target had.
    pub superfluous: u64,
}

impl Copied {
    /// Returns whether the target had nothing else than the source.
    pub fn is_equal(&self) -> bool {
        self.different == 0 && self.superfluous == 0
    }
}

/// A cell that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Name of the table.
    pub table: String,
    /// Row and column.
    pub cell: Cell,
    /// The source's value; `None` if only the target has the cell.
    pub value: Option<Bytes>,
}

/// Errors of a pass. What it has written remains, and the next pass continues from there.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Source and target are one store.
    #[error("source and target are the same store: both have the same locks; specify another target")]
    SameStore,
    /// The target has data, and the pass was to be the first.
    #[error(
        "table {table} of the target is not empty: copy into a new keyspace, or continue an earlier copy"
    )]
    NotEmpty {
        /// A table with data.
        table: String,
    },
    /// The target has indexes, whose entries a copy does not write.
    #[error("table {table} of the target has index {index}: declare and build it after the copy")]
    Indexed {
        /// A table with an index.
        table: String,
        /// Name of the index.
        index: String,
    },
    /// The target has a table that the source lacks.
    #[error("table {table} exists only at the target: it is no copy of this store")]
    Foreign {
        /// Name of the table.
        table: String,
    },
    /// A step of a transaction failed.
    #[error(transparent)]
    Transaction(#[from] Error),
}

impl From<StoreError> for CopyError {
    fn from(error: StoreError) -> Self {
        Self::Transaction(error.into())
    }
}

impl From<TimeLockError> for CopyError {
    fn from(error: TimeLockError) -> Self {
        Self::Transaction(error.into())
    }
}

impl Transactions {
    /// Makes `target` equal to what is committed in this store when the pass begins, or compares
    /// both. Other transactions may run in this store. `report` gets every difference that is
    /// found, before it is written.
    ///
    /// Conflict handlers and sweep strategies are copied, too. Indexes are not: declare them at the
    /// target and build them.
    ///
    /// # Errors
    /// `SameStore`, `NotEmpty`, `Indexed`, `Foreign`, before anything is written; errors of reads
    /// and commits.
    pub fn copy_to(
        &self,
        target: &Self,
        pass: Pass,
        report: impl FnMut(&Copied, &Difference),
    ) -> Result<Copied, CopyError> {
        if self.is_same_store(target)? {
            return Err(CopyError::SameStore);
        }
        let source = self.start_for_backup()?;
        let tables = data_tables(self.store())?;
        let of_target = target.check_is_copy(&tables, pass)?;
        let timestamp = source.start_timestamp();
        if pass != Pass::Compare {
            target.timelock().fast_forward(timestamp)?;
        }
        let copied = Copied { timestamp: timestamp.0, ..Copied::default() };
        let mut copy = Copy { source, found: target.start_for_backup()?, copied, report };
        for name in &tables {
            copy.copied.tables += 1;
            let mut writer = Writer::new(self, target, name, pass)?;
            let exists = of_target.contains(name);
            copy.rows_of_source(&mut writer, exists)?;
            if exists && pass != Pass::First {
                copy.rows_of_target_only(&mut writer)?;
            }
            writer.flush()?;
        }
        if pass != Pass::Compare {
            target.timelock().fast_forward(self.timelock().timestamp()?)?;
        }
        Ok(copy.copied)
    }

    /// Returns whether `target` is this store, by whatever addresses and servers it was reached:
    /// all clients of a store have the same locks.
    fn is_same_store(&self, target: &Self) -> Result<bool, CopyError> {
        let name = Bytes::from(format!("copy {:032x}", rand::random::<u128>()));
        let held = self.timelock().lock(vec![name.clone()], LOCK_TIMEOUT)?;
        let free = target.timelock().wait_for(&[name], LOCK_TIMEOUT);
        self.timelock().unlock(held);
        match free {
            Ok(()) => Ok(false),
            Err(TimeLockError::LockTimeout { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the tables of this store, the target of a copy of `tables`.
    fn check_is_copy(&self, tables: &[String], pass: Pass) -> Result<Vec<String>, CopyError> {
        let own = data_tables(self.store())?;
        if pass == Pass::First
            && let Some(table) = self.first_table_in_use()?
        {
            return Err(CopyError::NotEmpty { table });
        }
        if let Some(table) = own.iter().find(|table| !tables.contains(table)) {
            return Err(CopyError::Foreign { table: table.clone() });
        }
        match self.first_index()? {
            Some((table, index)) if pass != Pass::Compare => Err(CopyError::Indexed { table, index }),
            _ => Ok(own),
        }
    }
}

/// A pass in progress.
struct Copy<R> {
    source: Transaction,
    /// A snapshot of the target before the pass, which writes no cell twice.
    found: Transaction,
    copied: Copied,
    report: R,
}

impl<R: FnMut(&Copied, &Difference)> Copy<R> {
    /// Copies or compares the rows of a table that have cells at the source.
    fn rows_of_source(&mut self, writer: &mut Writer<'_>, exists: bool) -> Result<(), CopyError> {
        let table = writer.reading.clone();
        for row in row_names(writer.source, &table) {
            let row = row?;
            let mut of_source = columns(&self.source, &table, &row).peekable();
            if of_source.peek().is_none() {
                continue;
            }
            self.copied.rows += 1;
            let of_target = exists.then(|| columns(&self.found, &table, &row)).into_iter().flatten();
            for column in compare(of_source, of_target) {
                let (column, value) = match column? {
                    Compared::Equal => {
                        self.copied.cells += 1;
                        continue;
                    }
                    Compared::Different(column, value) => {
                        self.copied.cells += 1;
                        self.copied.different += 1;
                        (column, Some(value))
                    }
                    Compared::Superfluous(column) => {
                        self.copied.superfluous += 1;
                        (column, None)
                    }
                };
                let difference = writer.difference(&row, column, value);
                (self.report)(&self.copied, &difference);
                writer.write(difference)?;
            }
        }
        Ok(())
    }

    /// Removes or counts the cells of rows that have none at the source.
    fn rows_of_target_only(&mut self, writer: &mut Writer<'_>) -> Result<(), CopyError> {
        let table = writer.reading.clone();
        for row in row_names(writer.target, &table) {
            let row = row?;
            if columns(&self.source, &table, &row).next().transpose()?.is_some() {
                continue;
            }
            for column in columns(&self.found, &table, &row) {
                self.copied.superfluous += 1;
                let difference = writer.difference(&row, column?.0, None);
                (self.report)(&self.copied, &difference);
                writer.write(difference)?;
            }
        }
        Ok(())
    }
}

/// Writes differences of a table to the target, in transactions of bounded size.
struct Writer<'a> {
    source: &'a Transactions,
    target: &'a Transactions,
    /// The table as it is read, of both stores.
    reading: Table,
    /// The table as it is written; `None` in a comparison.
    writing: Option<Table>,
    pending: Vec<Difference>,
    bytes: usize,
}

impl<'a> Writer<'a> {
    fn new(
        source: &'a Transactions,
        target: &'a Transactions,
        name: &str,
        pass: Pass,
    ) -> Result<Self, CopyError> {
        let writing = if pass == Pass::Compare { None } else { Some(target.table_as_in(source, name)?) };
        let reading = source.table_for_backup(name);
        Ok(Self { source, target, reading, writing, pending: Vec::new(), bytes: 0 })
    }

    fn difference(&self, row: &Bytes, column: Bytes, value: Option<Bytes>) -> Difference {
        Difference { table: self.reading.name().to_owned(), cell: Cell::new(row.clone(), column), value }
    }

    fn write(&mut self, difference: Difference) -> Result<(), CopyError> {
        if self.writing.is_none() {
            return Ok(());
        }
        let Difference { cell, value, .. } = &difference;
        self.bytes += cell.row.len() + cell.column.len() + value.as_ref().map_or(0, Bytes::len);
        self.pending.push(difference);
        if self.pending.len() >= WRITES || self.bytes >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), CopyError> {
        let Some(table) = &self.writing else { return Ok(()) };
        if !self.pending.is_empty() {
            self.target.run(|tx| {
                self.pending.iter().try_for_each(|Difference { cell, value, .. }| match value {
                    Some(value) => tx.put(table, &cell.row, &cell.column, value),
                    None => tx.delete(table, &cell.row, &cell.column),
                })
            })?;
            self.pending.clear();
            self.bytes = 0;
        }
        Ok(())
    }
}

/// Iterates over the names of a table's rows, which may have no cells, page by page.
fn row_names<'a>(
    transactions: &'a Transactions,
    table: &'a Table,
) -> impl Iterator<Item = Result<Bytes, Error>> + 'a {
    let mut page = Vec::new().into_iter();
    let mut after = None;
    let mut is_last = false;
    std::iter::from_fn(move || {
        loop {
            if let Some(row) = page.next() {
                return Some(Ok(row));
            }
            if is_last {
                return None;
            }
            let rows: Vec<Bytes> = match transactions.store().rows(table.name(), after.as_deref(), ROWS) {
                Ok(rows) => rows,
                Err(error) => {
                    is_last = true;
                    return Some(Err(error.into()));
                }
            };
            is_last = rows.len() < ROWS;
            after = rows.last().cloned();
            page = rows.into_iter();
        }
    })
}

fn columns<'t>(
    transaction: &'t Transaction,
    table: &Table,
    row: &Bytes,
) -> impl Iterator<Item = Result<(Bytes, Bytes), Error>> + 't {
    transaction.range::<&[u8]>(table, row, ..)
}

/// A column of the source or the target.
#[derive(Debug, PartialEq, Eq)]
enum Compared {
    Equal,
    /// The target lacks the value of the source.
    Different(Bytes, Bytes),
    /// Only the target has the column.
    Superfluous(Bytes),
}

/// Merges the columns of a row, which are in ascending order on both sides.
fn compare<E>(
    source: impl Iterator<Item = Result<(Bytes, Bytes), E>>,
    target: impl Iterator<Item = Result<(Bytes, Bytes), E>>,
) -> impl Iterator<Item = Result<Compared, E>> {
    let (mut source, mut target) = (source.peekable(), target.peekable());
    std::iter::from_fn(move || next_compared(&mut source, &mut target).transpose())
}

fn next_compared<E>(
    source: &mut Peekable<impl Iterator<Item = Result<(Bytes, Bytes), E>>>,
    target: &mut Peekable<impl Iterator<Item = Result<(Bytes, Bytes), E>>>,
) -> Result<Option<Compared>, E> {
    use std::cmp::Ordering;
    // An error of either side is the next element.
    let order = match (source.peek(), target.peek()) {
        (Some(Ok((of_source, _))), Some(Ok((of_target, _)))) => of_source.cmp(of_target),
        (Some(Err(_)), _) | (Some(_), None) => Ordering::Less,
        (_, Some(_)) => Ordering::Greater,
        (None, None) => return Ok(None),
    };
    let of_source = if order.is_le() { source.next().transpose()? } else { None };
    let of_target = if order.is_ge() { target.next().transpose()? } else { None };
    Ok(match (of_source, of_target) {
        (Some((column, value)), Some((_, found))) if value != found => {
            Some(Compared::Different(column, value))
        }
        (Some(_), Some(_)) => Some(Compared::Equal),
        (Some((column, value)), None) => Some(Compared::Different(column, value)),
        (None, found) => found.map(|(column, _)| Compared::Superfluous(column)),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    type Columns = BTreeMap<Vec<u8>, Vec<u8>>;

    fn row() -> impl Strategy<Value = Columns> {
        let short = || prop::collection::vec(0..3_u8, 0..3);
        prop::collection::btree_map(short(), short(), 0..12)
    }

    fn iterate(columns: &Columns) -> impl Iterator<Item = Result<(Bytes, Bytes), Infallible>> {
        columns.clone().into_iter().map(|(column, value)| Ok((column.into(), value.into())))
    }

    proptest! {
        #[test]
        fn applying_the_differences_makes_the_rows_equal(source in row(), target in row()) {
            let mut changed = target.clone();
            for compared in compare(iterate(&source), iterate(&target)) {
                match compared.unwrap() {
                    Compared::Equal => {}
                    Compared::Different(column, value) => {
                        prop_assert!(target.get(&column[..]).is_none_or(|found| *found != value));
                        changed.insert(column.to_vec(), value.to_vec());
                    }
                    Compared::Superfluous(column) => {
                        prop_assert!(changed.remove(&column[..]).is_some());
                    }
                }
            }
            prop_assert_eq!(changed, source);
        }
    }

    #[test]
    fn an_error_of_either_side_ends_the_comparison() {
        let column = || Ok((Bytes::from_static(b"a"), Bytes::from_static(b"1")));
        for (source, target) in [(vec![column(), Err("x")], vec![]), (vec![column()], vec![Err("x")])] {
            let compared: Result<Vec<_>, _> = compare(source.into_iter(), target.into_iter()).collect();
            assert_eq!(compared, Err("x"));
        }
    }
}
