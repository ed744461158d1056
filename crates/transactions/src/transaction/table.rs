//! Tables of applications, and their conflict handlers.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::store::Cell;
use crate::sweep::SweepStrategy;

/// What two concurrent transactions may not both do in a table. Conflicts are detected by cell;
/// rows or cells are locked. A table keeps its handler permanently.
///
/// Two transactions are concurrent if each began before the other one committed. The one that
/// commits first succeeds. [`WriteWriteByCell`](Self::WriteWriteByCell) suits most tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictHandler {
    /// No conflicts: of two writes of a cell, that of the transaction with the greater start
    /// timestamp is visible.
    Ignore,
    /// Snapshot isolation: they may not both write a cell. Locks rows.
    WriteWriteByRow,
    /// The same, locking cells: for rows whose columns are written concurrently.
    WriteWriteByCell,
    /// Serializable: neither may write what the other read, nor may both write a cell. Locks rows.
    SerializableByRow,
    /// The same, locking cells.
    SerializableByCell,
}

impl ConflictHandler {
    /// Returns the name that is stored for the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ignore => "ignore",
            Self::WriteWriteByRow => "write-write by row",
            Self::WriteWriteByCell => "write-write by cell",
            Self::SerializableByRow => "serializable by row",
            Self::SerializableByCell => "serializable by cell",
        }
    }

    /// Returns the handler with a [name](Self::name).
    pub(super) fn of_name(name: impl AsRef<[u8]>) -> Option<Self> {
        let all = [
            Self::Ignore,
            Self::WriteWriteByRow,
            Self::WriteWriteByCell,
            Self::SerializableByRow,
            Self::SerializableByCell,
        ];
        all.into_iter().find(|handler| handler.name().as_bytes() == name.as_ref())
    }

    pub(super) fn checks_writes(self) -> bool {
        self != Self::Ignore
    }

    pub(super) fn is_serializable(self) -> bool {
        matches!(self, Self::SerializableByRow | Self::SerializableByCell)
    }
}

/// A table used by transactions, from [`Transactions::table`](crate::Transactions::table). Cheap to
/// clone.
///
/// It gives access to cells of bytes by the methods of [`Transaction`](crate::Transaction), and of
/// typed ones by [`column`](Self::column) and [`columns`](Self::columns).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    name: Arc<str>,
    handler: ConflictHandler,
    sweep: SweepStrategy,
}

impl Table {
    pub(super) fn new(name: &str, handler: ConflictHandler, sweep: SweepStrategy) -> Self {
        Self { name: name.into(), handler, sweep }
    }

    /// Returns the name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the conflict handler.
    pub fn handler(&self) -> ConflictHandler {
        self.handler
    }

    /// Returns the sweep strategy.
    pub fn sweep(&self) -> SweepStrategy {
        self.sweep
    }

    /// Returns the name of the lock for a write of `cell`, if one is needed.
    ///
    /// ```text
    /// row:  'r' | length of table, 1 byte | table | row
    /// cell: 'c' | length of table, 1 byte | table | length of row, 4 bytes | row | column
    /// ```
    ///
    /// The lengths keep the names of two cells distinct, whatever bytes they contain.
    pub(super) fn lock_name(&self, cell: &Cell) -> Option<Bytes> {
        let mut name = BytesMut::with_capacity(6 + self.name.len() + cell.row.len() + cell.column.len());
        // Table names have at most 48 bytes.
        let length = self.name.len() as u8;
        match self.handler {
            ConflictHandler::Ignore => return None,
            ConflictHandler::WriteWriteByRow | ConflictHandler::SerializableByRow => {
                name.put_u8(b'r');
                name.put_u8(length);
                name.put_slice(self.name.as_bytes());
                name.put_slice(&cell.row);
            }
            ConflictHandler::WriteWriteByCell | ConflictHandler::SerializableByCell => {
                name.put_u8(b'c');
                name.put_u8(length);
                name.put_slice(self.name.as_bytes());
                name.put_u32(cell.row.len() as u32);
                name.put_slice(&cell.row);
                name.put_slice(&cell.column);
            }
        }
        Some(name.freeze())
    }
}
