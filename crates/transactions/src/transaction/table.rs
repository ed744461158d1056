//! Tables of applications, and what counts as a conflict in them.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::store::Cell;
use crate::sweep::SweepStrategy;

/// What two transactions that overlap in time may not both do in a table. Conflicts are found by cell; locks are of
/// rows or cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictHandler {
    /// They may do anything: of two writes of a cell that of the transaction which began last is seen.
    Ignore,
    /// They may not write one cell: snapshot isolation. Rows are locked.
    WriteWriteByRow,
    /// The same with cells locked: for rows that many write different columns of.
    WriteWriteByCell,
    /// Neither may write what the other read, nor both the same: as if one had run after the other. Rows are locked.
    SerializableByRow,
    /// The same with cells locked.
    SerializableByCell,
}

impl ConflictHandler {
    /// The name that is stored for the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ignore => "ignore",
            Self::WriteWriteByRow => "write-write by row",
            Self::WriteWriteByCell => "write-write by cell",
            Self::SerializableByRow => "serializable by row",
            Self::SerializableByCell => "serializable by cell",
        }
    }

    pub(super) fn checks_writes(self) -> bool {
        self != Self::Ignore
    }

    pub(super) fn is_serializable(self) -> bool {
        matches!(self, Self::SerializableByRow | Self::SerializableByCell)
    }
}

/// A table that transactions use. Cheap to clone.
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What counts as a conflict in it.
    pub fn handler(&self) -> ConflictHandler {
        self.handler
    }

    /// How its old versions go away.
    pub fn sweep(&self) -> SweepStrategy {
        self.sweep
    }

    /// The name of the lock that a write of `cell` takes, if it takes one.
    ///
    /// ```text
    /// row:  'r' | length of table, 1 byte | table | row
    /// cell: 'c' | length of table, 1 byte | table | length of row, 4 bytes | row | column
    /// ```
    ///
    /// Lengths keep two cells from sharing a name, whatever bytes their names have.
    pub(super) fn lock_name(&self, cell: &Cell) -> Option<Bytes> {
        let mut name = BytesMut::with_capacity(6 + self.name.len() + cell.row.len() + cell.column.len());
        // Names of tables have at most 48 bytes.
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
