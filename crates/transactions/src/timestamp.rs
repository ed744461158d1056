//! Timestamps of transactions, and what becomes of a transaction.

use std::fmt;

/// A logical timestamp: a place in the order of all starts and commits. No time of day, and no write time of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The smallest that a transaction can start with.
    pub const FIRST: Self = Self(1);
    /// Of cells that only conditional writes change.
    pub const ATOMIC: Self = Self(0);
    /// Of sentinels.
    pub const SENTINEL: Self = Self(-1);
    /// Above all others.
    pub const MAX: Self = Self(i64::MAX);
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What became of a transaction that has ended. It never changes, so it may be cached for ever; that a transaction is in
/// progress is the absence of a conclusion, and cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Conclusion {
    /// Its writes are seen by those who start above this timestamp.
    Committed(Timestamp),
    /// Its writes are never seen.
    Aborted,
}

impl Conclusion {
    /// The commit timestamp, if it committed.
    pub fn commit(self) -> Option<Timestamp> {
        match self {
            Self::Committed(commit) => Some(commit),
            Self::Aborted => None,
        }
    }
}
