//! Stores: cells with versions, and what transactions need of them.
//!
//! A store knows nothing of transactions. What it must promise: what was written without an error is there for every later
//! read, and conditional writes on a row are atomic.

mod cell_loader;
#[cfg(feature = "cluster")]
mod cluster;
mod cql;
mod direct;
mod embedded;
mod failing;
mod layout;
mod memory;
#[cfg(feature = "cluster")]
mod node_settings;

use std::fmt;

use bytes::Bytes;

use crate::timestamp::Timestamp;

pub use cell_loader::{CellBatching, CellLoader};
#[cfg(feature = "cluster")]
pub use cluster::{Cluster, ClusterOptions, ClusterStore};
pub use cql::CqlStore;
pub use embedded::{Embedded, EmbeddedStore};
pub use failing::{FailingStore, Fault};
pub use layout::TableKind;
pub use memory::MemoryStore;

/// Where a value is, but for its table and timestamp.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// The row: the partition key.
    pub row: Bytes,
    /// The column within the row; rows have their columns in the order of bytes.
    pub column: Bytes,
}

impl Cell {
    /// The longest name of a row: partition keys have two bytes for their length.
    pub const ROW_LENGTH_MAX: usize = u16::MAX as usize;
    /// The longest name of a column: it and the 8 bytes of a version's `column2` are one clustering, which has two bytes for its length.
    pub const COLUMN_LENGTH_MAX: usize = u16::MAX as usize - size_of::<i64>();

    /// A cell of these names.
    pub fn new(row: impl Into<Bytes>, column: impl Into<Bytes>) -> Self {
        Self { row: row.into(), column: column.into() }
    }

    /// The length of its names, bytes.
    pub(crate) fn name_length(&self) -> usize {
        self.row.len() + self.column.len()
    }

    /// Refuses names that no store of any kind can keep.
    ///
    /// # Errors
    /// A row without a name, or a name longer than [`ROW_LENGTH_MAX`](Self::ROW_LENGTH_MAX) or [`COLUMN_LENGTH_MAX`](Self::COLUMN_LENGTH_MAX).
    pub fn check(&self) -> Result<(), NameError> {
        check_row(&self.row).and_then(|()| check_column(&self.column))
    }
}

fn check_row(row: &[u8]) -> Result<(), NameError> {
    match row.len() {
        0 => Err(NameError::NoRow),
        1..=Cell::ROW_LENGTH_MAX => Ok(()),
        length => Err(NameError::LongRow { length }),
    }
}

fn check_column(column: &[u8]) -> Result<(), NameError> {
    match column.len() {
        length if length > Cell::COLUMN_LENGTH_MAX => Err(NameError::LongColumn { length }),
        _ => Ok(()),
    }
}

/// Why a row or a column cannot have its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The row has none.
    #[error("a row has a name of at least one byte")]
    NoRow,
    /// The row's is too long.
    #[error("the name of the row has {length} bytes, and may have {}", Cell::ROW_LENGTH_MAX)]
    LongRow {
        /// How long.
        length: usize,
    },
    /// The column's is too long.
    #[error("the name of the column has {length} bytes, and may have {}", Cell::COLUMN_LENGTH_MAX)]
    LongColumn {
        /// How long.
        length: usize,
    },
}

/// A value at a timestamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The timestamp.
    pub timestamp: Timestamp,
    /// The value; empty for a deletion.
    pub value: Bytes,
}

/// A version to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put<'a> {
    /// The table.
    pub table: &'a str,
    /// The cell.
    pub cell: &'a Cell,
    /// The version's timestamp.
    pub timestamp: Timestamp,
    /// The value; may be empty.
    pub value: Bytes,
    /// The time that decides between writes of the same version; the greatest wins.
    pub write_time: i64,
}

/// A part of a row: the columns from `start`, before `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnRange {
    /// The row.
    pub row: Bytes,
    /// The first column; empty for the row's first.
    pub start: Bytes,
    /// The column that ends the range and is not in it.
    pub end: Option<Bytes>,
    /// Columns at most; at least 1.
    pub limit: usize,
}

/// Columns to be put in one row, together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutRow {
    /// The row.
    pub row: Bytes,
    /// Columns, none twice, and their values.
    pub columns: Vec<(Bytes, Bytes)>,
}

/// What a conditional put did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutOutcome {
    /// All columns were put.
    Applied,
    /// None was, because of these, all that there are, with their values.
    Exists(Vec<(Bytes, Bytes)>),
}

/// What a check-and-set did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The value was as expected, and is the new one now.
    Applied,
    /// The value is this one.
    Actual(Option<Bytes>),
}

/// What may have come of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Nothing, a part or all of it; now or later.
    Unknown,
}

/// Why a store did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{attempted}: {cause}")]
pub struct StoreError {
    /// What was to be done, on which table.
    pub attempted: String,
    /// What went wrong.
    pub cause: String,
    /// What may have come of it.
    pub effect: Effect,
    /// Whether the cause may pass by itself: a node that is down, a timeout, an overload. The same request
    /// may then succeed later.
    pub is_transient: bool,
}

impl StoreError {
    /// A request that had no effect and never will succeed.
    pub(crate) fn refused(attempted: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self::new(attempted, cause, Effect::None, false)
    }

    /// A request that had no effect, for a cause that may pass.
    pub(crate) fn unavailable(attempted: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self::new(attempted, cause, Effect::None, true)
    }

    /// A request that was done, in part maybe, or was not, for a cause that may pass.
    pub(crate) fn unknown(attempted: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self::new(attempted, cause, Effect::Unknown, true)
    }

    /// A request that was done, in part maybe, or was not, for a cause that stays.
    pub(crate) fn broken(attempted: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self::new(attempted, cause, Effect::Unknown, false)
    }

    fn new(
        attempted: impl fmt::Display,
        cause: impl fmt::Display,
        effect: Effect,
        is_transient: bool,
    ) -> Self {
        Self { attempted: attempted.to_string(), cause: cause.to_string(), effect, is_transient }
    }
}

/// Refuses a call that would write a name that cannot be kept.
fn check_puts(puts: &[Put<'_>]) -> StoreResult<()> {
    puts.iter().try_for_each(|put| {
        put.cell
            .check()
            .map_err(|why| StoreError::refused(format_args!("put a version in {}", put.table), why))
    })
}

/// The same for conditional puts.
fn check_put_row(table: &str, put: &PutRow) -> StoreResult<()> {
    let columns = || put.columns.iter().try_for_each(|(column, _)| check_column(column));
    check_row(&put.row)
        .and_then(|()| columns())
        .map_err(|why| StoreError::refused(format_args!("put unless exists in {table}"), why))
}

/// Which store of this process it is: equal for two that have the same tables.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId {
    /// Where the open database is in memory.
    database: usize,
    keyspace: Box<str>,
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.keyspace)
    }
}

/// A result with a [`StoreError`].
pub type StoreResult<T> = Result<T, StoreError>;

/// Tables of cells with versions. Any thread may use a store; calls block.
///
/// "Atomic" cells are those that only [`put_unless_exists`](Self::put_unless_exists) and
/// [`check_and_set`](Self::check_and_set) change: they have one version, at [`Timestamp::ATOMIC`].
pub trait Store: Send + Sync {
    /// Makes the table, unless it is there. To be called for each table before it is used.
    ///
    /// # Errors
    /// If the name is not one to 48 letters, digits and underscores, or the table cannot be made.
    fn create_table(&self, table: &str, kind: TableKind) -> StoreResult<()>;

    /// Whether the table is there. If so it may be used; it is not made.
    ///
    /// # Errors
    /// If it has other columns.
    fn open_table(&self, table: &str) -> StoreResult<bool>;

    /// The names of all tables that are there, in any order; whether they can be used without [`create_table`](Self::create_table) is not said.
    fn tables(&self) -> StoreResult<Vec<String>>;

    /// Of each cell the newest version below a timestamp, in the order asked for.
    fn get(&self, table: &str, cells: &[(&Cell, Timestamp)]) -> StoreResult<Vec<Option<Version>>>;

    /// Of each column in some part of a row the newest version below `below`: for each range its columns in order. Fewer than
    /// the range's limit means that there are no more.
    fn columns(
        &self,
        table: &str,
        ranges: &[ColumnRange],
        below: Timestamp,
    ) -> StoreResult<Vec<Vec<(Bytes, Version)>>>;

    /// Up to `limit` rows that come after row `after`, in the store's own order, which is that of tokens. Rows without versions may be among
    /// them. Fewer than `limit` means that there are no more.
    fn rows(&self, table: &str, after: Option<&[u8]>, limit: usize) -> StoreResult<Vec<Bytes>>;

    /// Writes versions, of several tables maybe. After an error each may be written or not.
    fn put(&self, puts: &[Put<'_>]) -> StoreResult<()>;

    /// [`put`](Self::put) of what is nothing without a later write to this store: reads see it at once, and it is there after whatever
    /// failure if a write is that began when this had returned. That saves a store that keeps its writes in order a wait.
    fn put_ahead(&self, puts: &[Put<'_>]) -> StoreResult<()> {
        self.put(puts)
    }

    /// Puts the columns of each row unless one of them has a value: each row whole or not at all, independently of the others. Atomic
    /// cells.
    fn put_unless_exists(&self, table: &str, rows: &[PutRow]) -> Vec<StoreResult<PutOutcome>>;

    /// Sets an atomic cell that has value `expected` to `new`.
    fn check_and_set(
        &self,
        table: &str,
        cell: &Cell,
        expected: &Bytes,
        new: &Bytes,
    ) -> StoreResult<CheckOutcome>;

    /// The values of atomic cells of one row, linearizable with conditional writes, also with those that failed: slower than
    /// [`get`](Self::get).
    fn get_serial(&self, table: &str, row: &Bytes, columns: &[Bytes]) -> StoreResult<Vec<Option<Bytes>>>;

    /// Removes exactly these versions, if they were written before `write_time`.
    fn delete(&self, table: &str, versions: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()>;

    /// Removes of each cell the versions from timestamp 0 and below a timestamp, if they were written before `write_time`. Those of one cell
    /// together.
    fn delete_older(&self, table: &str, cells: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()>;

    /// Removes all of these rows that was written before `write_time`.
    fn delete_rows(&self, table: &str, rows: &[Bytes], write_time: i64) -> StoreResult<()>;

    /// Which one it is, if it is in this process: then only one may give it timestamps. `None` where other processes may have it, too, or nobody else can.
    fn id(&self) -> Option<StoreId> {
        None
    }

    /// Bytes of names and value that one version may have; `None` without a limit. [`put`](Self::put) of a longer one fails.
    fn version_max(&self) -> Option<usize> {
        None
    }

    /// Whether of what one call of [`put`](Self::put) writes anything is there only if all before it in the call is.
    fn puts_in_order(&self) -> bool;

    /// Whether every read sees the same of a conditional write that failed. Where not, conclusions must be stored in two
    /// stages.
    fn is_linearizable_after_failures(&self) -> bool;
}

impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    fn create_table(&self, table: &str, kind: TableKind) -> StoreResult<()> {
        (**self).create_table(table, kind)
    }

    fn open_table(&self, table: &str) -> StoreResult<bool> {
        (**self).open_table(table)
    }

    fn tables(&self) -> StoreResult<Vec<String>> {
        (**self).tables()
    }

    fn get(&self, table: &str, cells: &[(&Cell, Timestamp)]) -> StoreResult<Vec<Option<Version>>> {
        (**self).get(table, cells)
    }

    fn columns(
        &self,
        table: &str,
        ranges: &[ColumnRange],
        below: Timestamp,
    ) -> StoreResult<Vec<Vec<(Bytes, Version)>>> {
        (**self).columns(table, ranges, below)
    }

    fn rows(&self, table: &str, after: Option<&[u8]>, limit: usize) -> StoreResult<Vec<Bytes>> {
        (**self).rows(table, after, limit)
    }

    fn put(&self, puts: &[Put<'_>]) -> StoreResult<()> {
        (**self).put(puts)
    }

    fn put_ahead(&self, puts: &[Put<'_>]) -> StoreResult<()> {
        (**self).put_ahead(puts)
    }

    fn put_unless_exists(&self, table: &str, rows: &[PutRow]) -> Vec<StoreResult<PutOutcome>> {
        (**self).put_unless_exists(table, rows)
    }

    fn check_and_set(
        &self,
        table: &str,
        cell: &Cell,
        expected: &Bytes,
        new: &Bytes,
    ) -> StoreResult<CheckOutcome> {
        (**self).check_and_set(table, cell, expected, new)
    }

    fn get_serial(&self, table: &str, row: &Bytes, columns: &[Bytes]) -> StoreResult<Vec<Option<Bytes>>> {
        (**self).get_serial(table, row, columns)
    }

    fn delete(&self, table: &str, versions: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()> {
        (**self).delete(table, versions, write_time)
    }

    fn delete_older(&self, table: &str, cells: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()> {
        (**self).delete_older(table, cells, write_time)
    }

    fn delete_rows(&self, table: &str, rows: &[Bytes], write_time: i64) -> StoreResult<()> {
        (**self).delete_rows(table, rows, write_time)
    }

    fn id(&self) -> Option<StoreId> {
        (**self).id()
    }

    fn version_max(&self) -> Option<usize> {
        (**self).version_max()
    }

    fn puts_in_order(&self) -> bool {
        (**self).puts_in_order()
    }

    fn is_linearizable_after_failures(&self) -> bool {
        (**self).is_linearizable_after_failures()
    }
}
