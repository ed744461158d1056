//! The interface to anything that executes CQL.

use std::fmt;

use bytes::Bytes;
use cassette_database::{Database, DeferredWrite, Durability};

#[cfg(doc)]
use crate::store::Store;
#[cfg(doc)]
use crate::store::layout::Texts;
use crate::store::{Cell, Put, PutOutcome, StoreResult, Version};
use crate::timestamp::Timestamp;

/// Bound values in their wire encoding.
pub type Values = Vec<Bytes>;

/// A row of a result; `None` is null.
pub type Row = Vec<Option<Bytes>>;

/// Description of an operation for error messages; formatted only when an error occurs.
pub type Attempted<'a> = fmt::Arguments<'a>;

/// Column names and rows of a result.
pub type NamedRows = (Vec<String>, Vec<Row>);

/// Effect of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// A read.
    Read,
    /// A read that is linearizable with conditional writes.
    SerialRead,
    /// A write with an explicit write time, which makes it idempotent.
    Write,
    /// A deletion with an explicit write time.
    Delete,
    /// A conditional write.
    Conditional,
}

/// Executes prepared CQL. Any thread may use it; calls block.
pub trait Cql: Send + Sync {
    /// A prepared statement.
    type Statement: Clone + Send + Sync;

    /// Returns the keyspace of all tables.
    fn keyspace(&self) -> &str;

    /// Executes a schema change.
    fn define(&self, cql: &str) -> StoreResult<()>;

    /// Prepares a statement.
    fn prepare(&self, cql: &str, kind: StatementKind) -> StoreResult<Self::Statement>;

    /// Executes reads, concurrently where possible. Returns all rows of each.
    fn read(
        &self,
        attempted: Attempted<'_>,
        requests: Vec<(Self::Statement, Values)>,
    ) -> StoreResult<Vec<Vec<Row>>>;

    /// Executes writes. Those of the same key and table have the same first component. After an
    /// error, each may have been executed or not.
    fn write(
        &self,
        attempted: Attempted<'_>,
        requests: Vec<(WriteGroup, Self::Statement, Values)>,
    ) -> StoreResult<()>;

    /// Executes groups of conditional statements, each group on one partition: all of its
    /// statements if all conditions hold, else none. Returns the column names and the rows of each
    /// group's result.
    fn conditional(
        &self,
        attempted: Attempted<'_>,
        groups: Vec<Vec<(Self::Statement, Values)>>,
    ) -> Vec<StoreResult<NamedRows>>;

    /// Executes statement `get` of [`Texts`] on a checked table by a faster path; `None` if there
    /// is none for it.
    fn get_directly(
        &self,
        attempted: Attempted<'_>,
        table: &str,
        cell: &Cell,
        below: Timestamp,
    ) -> Option<StoreResult<Option<Version>>> {
        let _ = (attempted, table, cell, below);
        None
    }

    /// As [`get_directly`](Self::get_directly), for `put`. The writes must have the specified
    /// durability.
    fn put_directly(
        &self,
        attempted: Attempted<'_>,
        puts: &[Put<'_>],
        durability: Durability,
    ) -> Option<StoreResult<()>> {
        let _ = (attempted, puts, durability);
        None
    }

    /// As [`get_directly`](Self::get_directly), for `put_unless_exists` of one column.
    fn put_unless_exists_directly(
        &self,
        attempted: Attempted<'_>,
        table: &str,
        row: &Bytes,
        column: &(Bytes, Bytes),
    ) -> Option<StoreResult<PutOutcome>> {
        let _ = (attempted, table, row, column);
        None
    }

    /// As [`put_unless_exists_directly`](Self::put_unless_exists_directly), together with writes to
    /// CQL tables. `None` if the executor has none, or cannot put the column directly.
    fn put_unless_exists_with(
        &self,
        attempted: Attempted<'_>,
        table: &str,
        row: &Bytes,
        column: &(Bytes, Bytes),
        writes: &[DeferredWrite],
    ) -> Option<StoreResult<PutOutcome>> {
        let _ = (attempted, table, row, column, writes);
        None
    }

    /// See [`Store::database`].
    fn embedded_database(&self) -> Option<&Database> {
        None
    }

    /// Returns the address of the database in memory if only this process has it. It stays the same
    /// while this executor exists.
    fn database(&self) -> Option<usize> {
        None
    }

    /// Returns the maximum bytes of values in one write; `None` without a limit.
    fn write_max(&self) -> Option<usize> {
        None
    }

    /// Returns whether a failure preserves a prefix of the writes of one call.
    fn writes_in_order(&self) -> bool;

    /// See [`Store::is_linearizable_after_failures`].
    fn is_linearizable_after_failures(&self) -> bool;
}

/// Number of a table and key: writes with the same number can share a batch that touches one
/// partition.
pub type WriteGroup = usize;
