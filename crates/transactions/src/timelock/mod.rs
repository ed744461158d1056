//! Timestamps and locks: what orders transactions.

mod frozen;
mod local;
mod locks;
mod timestamps;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::store::StoreError;
use crate::timestamp::Timestamp;

pub use frozen::Frozen;
pub use local::LocalTimeLock;
pub use timestamps::{Timestamps, stored_bound};

/// The timestamps that a transaction begins with, and the hold that protects its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Its start.
    pub start: Timestamp,
    /// The immutable timestamp when it began: every transaction with a smaller start had ended.
    pub immutable: Timestamp,
    /// Keeps the immutable timestamp from passing its start, until it is given back.
    pub hold: Hold,
}

/// A held timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    pub(crate) timestamp: Timestamp,
    pub(crate) epoch: u64,
}

/// Locks that were taken together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockToken {
    pub(crate) names: Arc<[Bytes]>,
    pub(crate) owner: u64,
    pub(crate) epoch: u64,
}

/// Why timestamps or locks were not to be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeLockError {
    /// Others held a lock for too long.
    #[error("a lock was not free within {} ms", waited.as_millis())]
    LockTimeout {
        /// How long it was waited for.
        waited: Duration,
    },
    /// The bound could not be stored.
    #[error("bound of timestamps: {0}")]
    Bound(#[from] StoreError),
    /// Another instance gives out timestamps of this store.
    #[error(
        "another instance gives out timestamps: the stored bound is {found}, expected {expected}. This one has stopped for good"
    )]
    AnotherInstance {
        /// What this instance had stored.
        expected: i64,
        /// What is stored.
        found: String,
    },
    /// The store was opened to be looked at.
    #[error("the store is only looked at: no timestamps are given out, and nothing is locked")]
    OnlyLookedAt,
    /// There are none left.
    #[error("timestamps are used up at {0}")]
    Exhausted(Timestamp),
}

/// Gives out timestamps and locks. A timestamp that is asked for after another was returned is greater.
pub trait TimeLock: Send + Sync {
    /// B1 to B4 of the protocol.
    fn start(&self) -> Result<Started, TimeLockError>;

    /// B1 to B4 of the protocol, with a start that leaves `residue` when divided by `modulus`, where the service can: then clients of different
    /// residues put conclusions in partitions of their own.
    fn start_with_residue(&self, residue: i64, modulus: i64) -> Result<Started, TimeLockError> {
        let _ = (residue, modulus);
        self.start()
    }

    /// A fresh timestamp.
    fn timestamp(&self) -> Result<Timestamp, TimeLockError>;

    /// The smallest timestamp that is held, or a fresh one if none is.
    fn immutable(&self) -> Result<Timestamp, TimeLockError>;

    /// Takes all locks, one after the other in the order of their names, or none.
    fn lock(&self, names: Vec<Bytes>, timeout: Duration) -> Result<LockToken, TimeLockError>;

    /// Waits until each of the locks was free at some moment, taking none.
    fn wait_for(&self, names: &[Bytes], timeout: Duration) -> Result<(), TimeLockError>;

    /// Whether the locks and the hold have been ours all the time.
    fn is_held(&self, locks: Option<&LockToken>, hold: Hold) -> Result<bool, TimeLockError>;

    /// Gives locks back. Those that were lost stay lost.
    fn unlock(&self, locks: LockToken);

    /// Gives a hold back.
    fn release(&self, hold: Hold);

    /// Makes all later timestamps greater than `timestamp`. Never goes back.
    fn fast_forward(&self, timestamp: Timestamp) -> Result<(), TimeLockError>;
}
