//! Positions in the commit log, and the tables of records.

use std::fmt;

/// The end of a record in the commit log. Positions are ordered like records, and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// The segment's id.
    pub segment: u64,
    /// Bytes from the start of the segment's file.
    pub offset: u32,
}

impl Position {
    /// Before every record.
    pub const ZERO: Position = Position { segment: 0, offset: 0 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment, self.offset)
    }
}

/// A table at one version of its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableVersion {
    /// The table's id.
    pub table: u128,
    /// The number of changes of its schema.
    pub schema: u32,
}
