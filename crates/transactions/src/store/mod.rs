//! Stores of versioned cells, as transactions need them.
//!
//! Stores are independent of transactions. Their contract: successful writes are visible to all
//! later reads, and conditional writes on a row are atomic.

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
use cassette_database::{Database, DeferredWrite};

use crate::timestamp::Timestamp;

pub use cell_loader::{CellBatching, CellLoader};
#[cfg(feature = "cluster")]
pub use cluster::{Cluster, ClusterOptions, ClusterStore};
pub use cql::CqlStore;
pub use embedded::{Embedded, EmbeddedStore};
pub use failing::{FailingStore, Fault};
pub use layout::TableKind;
pub(crate) use layout::is_table_of_versions;
pub use memory::MemoryStore;

/// Address of a cell within a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Row name: the partition key.
    pub row: Bytes,
    /// Column name within the row. Columns of a row are in byte order.
    pub column: Bytes,
}

impl Cell {
    /// Maximum length of a row name: partition keys have a two-byte length.
    pub const ROW_LENGTH_MAX: usize = u16::MAX as usize;
    /// Maximum length of a column name: together with the 8 bytes of `column2` it forms a
    /// clustering, which has a two-byte length.
    pub const COLUMN_LENGTH_MAX: usize = u16::MAX as usize - size_of::<i64>();

    /// Creates the address of a cell.
    pub fn new(row: impl Into<Bytes>, column: impl Into<Bytes>) -> Self {
        Self { row: row.into(), column: column.into() }
    }

    /// Returns the total length of its names, bytes.
    pub(crate) fn name_length(&self) -> usize {
        self.row.len() + self.column.len()
    }

    /// Rejects names that no store can represent.
    ///
    /// # Errors
    /// An empty row name, or a name longer than [`ROW_LENGTH_MAX`](Self::ROW_LENGTH_MAX) or
    /// [`COLUMN_LENGTH_MAX`](Self::COLUMN_LENGTH_MAX).
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

/// Why a row or column name is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The row name is empty.
    #[error("invalid row name: expected at least 1 byte")]
    NoRow,
    /// The row name is too long.
    #[error("row name too long: expected at most {} bytes, found {length}", Cell::ROW_LENGTH_MAX)]
    LongRow {
        /// Its length.
        length: usize,
    },
    /// The column name is too long.
    #[error("column name too long: expected at most {} bytes, found {length}", Cell::COLUMN_LENGTH_MAX)]
    LongColumn {
        /// Its length.
        length: usize,
    },
}

/// A value at a timestamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Timestamp of the version.
    pub timestamp: Timestamp,
    /// Value; empty for a deletion.
    pub value: Bytes,
}

/// A version to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put<'a> {
    /// Table of the cell.
    pub table: &'a str,
    /// Address of the cell.
    pub cell: &'a Cell,
    /// Timestamp of the version.
    pub timestamp: Timestamp,
    /// Value; may be empty.
    pub value: Bytes,
    /// Write time, which decides between writes of the same version: the greatest wins.
    pub write_time: i64,
}

/// A range of columns of a row: from `start`, before `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnRange {
    /// Row name.
    pub row: Bytes,
    /// First column; empty for the beginning of the row.
    pub start: Bytes,
    /// Exclusive end.
    pub end: Option<Bytes>,
    /// Maximum number of columns; at least 1.
    pub limit: usize,
    /// Whether the last columns are read, in descending order, instead of the first ones in
    /// ascending order.
    pub is_reversed: bool,
}

/// Columns to put in one row atomically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutRow {
    /// Row name.
    pub row: Bytes,
    /// Distinct columns and their values.
    pub columns: Vec<(Bytes, Bytes)>,
}

/// Result of a conditional put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutOutcome {
    /// All columns were put.
    Applied,
    /// None was put, because these existed; lists all of them with their values.
    Exists(Vec<(Bytes, Bytes)>),
}

/// Result of a check-and-set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The value was as expected and has been replaced.
    Applied,
    /// The actual value.
    Actual(Option<Bytes>),
}

/// Possible effect of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// None.
    None,
    /// None, partial or complete; now or later.
    Unknown,
}

/// Error of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{attempted}: {cause}")]
pub struct StoreError {
    /// Attempted operation, with its table.
    pub attempted: String,
    /// Cause.
    pub cause: String,
    /// Possible effect.
    pub effect: Effect,
    /// Whether the cause may pass without intervention: a node that is down, a timeout, an
    /// overload. The same request may then succeed later.
    pub is_transient: bool,
}

impl StoreError {
    /// A request without effect that will never succeed.
    pub(crate) fn refused(attempted: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self::new(attempted, cause, Effect::None, false)
    }

    /// A request without effect, for a transient cause.
    pub(crate) fn unavailable(attempted: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self::new(attempted, cause, Effect::None, true)
    }

    /// A request with an unknown effect, for a transient cause.
    pub(crate) fn unknown(attempted: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self::new(attempted, cause, Effect::Unknown, true)
    }

    /// A request with an unknown effect, for a permanent cause.
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

/// Rejects puts with invalid names.
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

/// Identity of a store in this process: equal for two stores with the same tables.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId {
    /// Address of the open database in memory.
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

/// Tables of versioned cells. Any thread may use a store; calls block.
///
/// "Atomic" cells are changed only by [`put_unless_exists`](Self::put_unless_exists) and
/// [`check_and_set`](Self::check_and_set). They have one version, at [`Timestamp::ATOMIC`].
pub trait Store: Send + Sync {
    /// Creates a table unless it exists. Required once before each table is used.
    ///
    /// # Errors
    /// If the name is not 1 to 48 letters, digits and underscores, or the table cannot be created.
    fn create_table(&self, table: &str, kind: TableKind) -> StoreResult<()>;

    /// Opens a table if it exists. Returns whether it does.
    ///
    /// # Errors
    /// If it has other columns.
    fn open_table(&self, table: &str) -> StoreResult<bool>;

    /// Lists all existing tables in any order, whether or not they are open.
    fn tables(&self) -> StoreResult<Vec<String>>;

    /// Returns the newest version of each cell below a timestamp, in the requested order.
    fn get(&self, table: &str, cells: &[(&Cell, Timestamp)]) -> StoreResult<Vec<Option<Version>>>;

    /// Returns the newest version of each column below `below`, in parts of rows: for each range
    /// its columns in the range's order. Fewer than the range's limit mean that there are no more.
    fn columns(
        &self,
        table: &str,
        ranges: &[ColumnRange],
        below: Timestamp,
    ) -> StoreResult<Vec<Vec<(Bytes, Version)>>>;

    /// Returns up to `limit` rows after row `after` in the store's order, which is that of tokens.
    /// May include rows without versions. Fewer than `limit` mean that there are no more.
    fn rows(&self, table: &str, after: Option<&[u8]>, limit: usize) -> StoreResult<Vec<Bytes>>;

    /// Writes versions, possibly of several tables. After an error, each may have been written or
    /// not.
    fn put(&self, puts: &[Put<'_>]) -> StoreResult<()>;

    /// Writes versions like [`put`](Self::put). Visible at once, but durable only as soon as any
    /// later write to this store is durable: use it for writes that are only meaningful together
    /// with a later one. It saves stores that preserve the order of writes a sync.
    fn put_ahead(&self, puts: &[Put<'_>]) -> StoreResult<()> {
        self.put(puts)
    }

    /// Puts the columns of each row unless one of them has a value: each row atomically,
    /// independently of the others. For atomic cells.
    fn put_unless_exists(&self, table: &str, rows: &[PutRow]) -> Vec<StoreResult<PutOutcome>>;

    /// Replaces the value of an atomic cell by `new` if it is `expected`.
    fn check_and_set(
        &self,
        table: &str,
        cell: &Cell,
        expected: &Bytes,
        new: &Bytes,
    ) -> StoreResult<CheckOutcome>;

    /// Returns the values of atomic cells of one row, linearizable with conditional writes
    /// including failed ones: slower than [`get`](Self::get).
    fn get_serial(&self, table: &str, row: &Bytes, columns: &[Bytes]) -> StoreResult<Vec<Option<Bytes>>>;

    /// Removes exactly these versions, if they were written before `write_time`.
    fn delete(&self, table: &str, versions: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()>;

    /// Removes the versions of each cell from timestamp 0 and below a timestamp, if they were
    /// written before `write_time`. Those of one cell are removed together.
    fn delete_older(&self, table: &str, cells: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()>;

    /// Removes everything in these rows that was written before `write_time`.
    fn delete_rows(&self, table: &str, rows: &[Bytes], write_time: i64) -> StoreResult<()>;

    /// Puts a column as [`put_unless_exists`](Self::put_unless_exists), together with writes to CQL
    /// tables: all of it atomically and durably, or nothing if the column has a value.
    ///
    /// # Errors
    /// Refused by stores without a [`database`](Self::database).
    fn put_unless_exists_with(
        &self,
        table: &str,
        row: &Bytes,
        column: &(Bytes, Bytes),
        writes: &[DeferredWrite],
    ) -> StoreResult<PutOutcome> {
        let _ = (row, column, writes);
        Err(StoreError::refused(format_args!("put unless exists in {table}"), "the store has no CQL tables"))
    }

    /// Returns the database of the store if it is embedded, so that commits can include writes to
    /// its CQL tables.
    fn database(&self) -> Option<&Database> {
        None
    }

    /// Returns the identity of the store if it belongs to this process, in which only one source
    /// may give it timestamps. `None` if other processes may use it too, or if no other instance
    /// can.
    fn id(&self) -> Option<StoreId> {
        None
    }

    /// Returns the maximum bytes of names and value of one version; `None` without a limit.
    /// [`put`](Self::put) of a longer one fails.
    fn version_max(&self) -> Option<usize> {
        None
    }

    /// Returns whether a failure preserves a prefix of the writes of one call of
    /// [`put`](Self::put).
    fn puts_in_order(&self) -> bool;

    /// Returns whether all reads agree on a failed conditional write. If not, commit records must
    /// be stored in two stages.
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

    fn put_unless_exists_with(
        &self,
        table: &str,
        row: &Bytes,
        column: &(Bytes, Bytes),
        writes: &[DeferredWrite],
    ) -> StoreResult<PutOutcome> {
        (**self).put_unless_exists_with(table, row, column, writes)
    }

    fn database(&self) -> Option<&Database> {
        (**self).database()
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
