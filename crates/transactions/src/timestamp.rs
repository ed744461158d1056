//! Timestamps and final statuses of transactions.

use std::fmt;

/// A logical timestamp: a position in the order of all starts and commits. Neither a time of day
/// nor the write time of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The smallest start timestamp.
    pub const FIRST: Self = Self(1);
    /// Timestamp of cells that only conditional writes change.
    pub const ATOMIC: Self = Self(0);
    /// Timestamp of sentinels.
    pub const SENTINEL: Self = Self(-1);
    /// Greater than all others.
    pub const MAX: Self = Self(i64::MAX);
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The final status of a transaction. It never changes, so it can be cached permanently. A
/// transaction in progress has no status yet, which cannot be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransactionStatus {
    /// Its writes are visible to transactions that start above this timestamp.
    Committed(Timestamp),
    /// Its writes are never visible.
    Aborted,
}

impl TransactionStatus {
    /// Returns the commit timestamp if it committed.
    pub fn commit(self) -> Option<Timestamp> {
        match self {
            Self::Committed(commit) => Some(commit),
            Self::Aborted => None,
        }
    }
}
