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

    /// The offset of the end of any segment.
    pub const END_OF_SEGMENT: u32 = u32::MAX;
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment, self.offset)
    }
}

/// What a consumer of captured changes must have read at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturePoint {
    /// The end of the log. Later records end after it.
    pub end: Position,
    /// The end of the last captured record, or of the segment that it is in. It can be read.
    pub captured: Position,
    /// The number of the chain of captured segments: another one if changes have not been captured
    /// for a time.
    pub chain: u128,
}

/// A table at one version of its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableVersion {
    /// The table's id.
    pub table: u128,
    /// The number of changes of its schema.
    pub schema: u32,
}
