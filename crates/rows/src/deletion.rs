//! Deletion times and row liveness.
//!
//! A write timestamp is signed microseconds, chosen by the client or the coordinator. A local
//! deletion time is seconds since 1970 on the server's clock: the creation of a tombstone, or the
//! expiration of a cell.

/// The timestamp of data that was never written.
pub const NO_TIMESTAMP: i64 = i64::MIN;
/// The TTL of data that does not expire, in seconds.
pub const NO_TTL: u32 = 0;
/// The local deletion time of data that is not deleted and does not expire.
pub const NO_DELETION_TIME: u32 = u32::MAX;

/// A deletion: it removes everything in its scope with a timestamp at or below its own.
///
/// Ordered by timestamp, then local deletion time: of two deletions the greater wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeletionTime {
    /// Write timestamp, microseconds (`markedForDeleteAt`).
    pub timestamp: i64,
    /// The creation time of the deletion, in seconds since 1970.
    pub local_deletion_time: u32,
}

impl DeletionTime {
    /// No deletion. It sorts below every deletion except one written at -2^63, from which it cannot
    /// be distinguished.
    pub const LIVE: Self = Self { timestamp: NO_TIMESTAMP, local_deletion_time: NO_DELETION_TIME };

    /// A deletion at `timestamp` (microseconds) made at `local_deletion_time` (seconds).
    pub const fn new(timestamp: i64, local_deletion_time: u32) -> Self {
        Self { timestamp, local_deletion_time }
    }

    /// Returns whether this is no deletion. Ignores the local deletion time, for which Cassandra
    /// writes unusual values.
    pub const fn is_live(&self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }

    /// Returns whether data written at `timestamp` is covered.
    pub const fn deletes(&self, timestamp: i64) -> bool {
        timestamp <= self.timestamp && !self.is_live()
    }

    /// Returns whether this deletion has an effect in addition to `other`.
    pub fn supersedes(&self, other: &DeletionTime) -> bool {
        match (self.is_live(), other.is_live()) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => self > other,
        }
    }

    /// Returns the deletion that covers more.
    pub fn max(self, other: Self) -> Self {
        if other.supersedes(&self) { other } else { self }
    }
}

/// The TTL of a liveness that is expired from the start: it ends a row of a materialized view whose
/// cells may become visible again. Cassandra's `EXPIRED_LIVENESS_TTL`.
pub const EXPIRED_TTL: u32 = i32::MAX as u32;

/// The liveness of a row's primary key, as an INSERT leaves it; an UPDATE leaves none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LivenessInfo {
    /// Write timestamp, microseconds; [`NO_TIMESTAMP`] if the row has no liveness.
    pub timestamp: i64,
    /// Seconds to live; [`NO_TTL`] if it does not expire.
    pub ttl: u32,
    /// When it expires, seconds since 1970; [`NO_DELETION_TIME`] if it does not.
    pub local_expiration: u32,
}

impl LivenessInfo {
    /// No liveness.
    pub const EMPTY: Self = Self { timestamp: NO_TIMESTAMP, ttl: NO_TTL, local_expiration: NO_DELETION_TIME };

    /// Liveness that does not expire.
    pub const fn new(timestamp: i64) -> Self {
        Self { timestamp, ttl: NO_TTL, local_expiration: NO_DELETION_TIME }
    }

    /// Liveness that ends `ttl` seconds after it was written, at `local_expiration`.
    pub const fn expiring(timestamp: i64, ttl: u32, local_expiration: u32) -> Self {
        Self { timestamp, ttl, local_expiration }
    }

    /// Returns whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }

    /// Returns whether it has a TTL, expired or not.
    pub const fn is_expiring(&self) -> bool {
        self.ttl != NO_TTL && !self.is_empty()
    }

    /// Returns whether it makes the row exist at `now` (seconds since 1970). One with
    /// [`EXPIRED_TTL`] never does, even if a clock that was set back shows a time before its
    /// expiration.
    pub const fn is_live(&self, now: u32) -> bool {
        !self.is_empty() && self.ttl != EXPIRED_TTL && (!self.is_expiring() || now < self.local_expiration)
    }

    /// Returns whether this one wins over `other`: the later write; on a tie the one with
    /// [`EXPIRED_TTL`], then the expiring one, then the later expiration.
    pub fn supersedes(&self, other: &Self) -> bool {
        if self.timestamp != other.timestamp {
            return self.timestamp > other.timestamp;
        }
        if (self.ttl == EXPIRED_TTL) != (other.ttl == EXPIRED_TTL) {
            return self.ttl == EXPIRED_TTL;
        }
        if self.is_expiring() != other.is_expiring() {
            return self.is_expiring();
        }
        self.local_expiration > other.local_expiration
    }
}
