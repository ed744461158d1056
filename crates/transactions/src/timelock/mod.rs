//! Timestamps and locks: what orders transactions.

// The server and its client share halts, leases, messages and bounds with what is always compiled.
#![cfg_attr(not(feature = "timelock"), allow(dead_code, reason = "only the server uses all of them"))]

#[cfg(feature = "timelock")]
mod connections;
#[cfg(feature = "timelock")]
mod election;
mod frozen;
mod halt;
#[cfg(feature = "timelock")]
mod http;
mod known;
mod lease;
mod local;
mod locks;
#[cfg(feature = "timelock")]
mod log_rate;
pub mod messages;
#[cfg(feature = "timelock")]
mod registry;
#[cfg(feature = "timelock-client")]
mod remote;
#[cfg(feature = "timelock")]
mod server;
#[cfg(all(test, feature = "timelock"))]
mod simulation;
mod timestamps;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::store::{Store, StoreError};
use crate::timestamp::Timestamp;

#[cfg(feature = "timelock")]
pub use cassette_http::Limits;
pub use frozen::Frozen;
pub use halt::{Cleared, clear_halt};
pub use known::known_timestamp;
pub use local::LocalTimeLock;
#[cfg(feature = "timelock-client")]
pub use remote::{Operator, RemoteOptions, RemoteTimeLock};
#[cfg(feature = "timelock")]
pub use server::{ServerOptions, TimeLockServer};
pub use timestamps::{Timestamps, stored_bound};

/// Above it no operator and no backup can make timestamps go on: half of all are left then, for 146 years at a billion a second.
pub const FAST_FORWARD_MAX: i64 = 1 << 62;

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
    pub(crate) fence: Option<Timestamp>,
}

impl LockToken {
    /// A number greater than that of whoever held one of the locks before, for stores of other kinds that are to refuse late writers. `None` from a
    /// timelock in this process, where locks are lost only with the process.
    pub fn fence(&self) -> Option<Timestamp> {
        self.fence
    }
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
        "another instance gives out timestamps: the stored bound is {found}, expected {expected}. This one has stopped for good, and what it was asked for has not \
         committed: let one process alone have the store, or give all of them timestamps from `cassette timelock`"
    )]
    AnotherInstance {
        /// What this instance had stored.
        expected: i64,
        /// What is stored.
        found: String,
    },
    /// This process gives out timestamps of this store already: two who do would order nothing between them.
    #[error(
        "the store in keyspace {keyspace} is open in this process already, with timestamps and locks of its own. Nothing was begun: use those \
         Transactions, which are cheap to clone, instead of opening others"
    )]
    AlreadyOpen {
        /// Its keyspace.
        keyspace: String,
    },
    /// The store was opened to be looked at.
    #[error("the store is only looked at: no timestamps are given out, and nothing is locked")]
    OnlyLookedAt,
    /// The stored bound is gone, or is none.
    #[error(
        "the bound of timestamps is lost: {what}. Nothing is given out until an operator says what is above all timestamps that ever were: stop all \
         writers, take the greatest version and commit that any table holds, and run `cassette timelock fast-forward --lost-bound`"
    )]
    BoundLost {
        /// What is wrong.
        what: String,
    },
    /// A server has stopped the timestamps of this store, until an operator clears that.
    #[error(
        "the timestamps of this store were stopped: {reason}. Nothing is given out until an operator has found out what was lost and runs \
         `cassette timelock clear`; they then go on above {bound}"
    )]
    Halted {
        /// Why.
        reason: String,
        /// The greatest bound that was known: all timestamps given out are at most this.
        bound: Timestamp,
    },
    /// There is nothing to clear.
    #[error("the timestamps of this store were not stopped by a server: nothing was changed")]
    NotHalted,
    /// What was said to be above all timestamps lies below one that was given out.
    #[error(
        "timestamp {known} was given out, as the store says, and {asked} is not above it: nothing was changed. The least that can be right is {}; any \
         version or commit in a table may be greater", known.0.saturating_add(1)
    )]
    RecoveredBelow {
        /// What was asked for.
        asked: Timestamp,
        /// The greatest that the store knows of.
        known: Timestamp,
    },
    /// A server gives out the timestamps of this store.
    #[error(
        "the timestamps of this store are given out by a timelock server, last at {address}: connect to it instead of giving them out in this process"
    )]
    ServedElsewhere {
        /// Where it was reached.
        address: String,
    },
    /// A server's lease ran out before it was renewed. What it was asked was not done.
    #[error(
        "the lease to give out timestamps is {} ms old and was good for {} ms{}; nothing was given out. It is renewed when the store answers",
        elapsed.as_millis(), lease.as_millis(), if *jumped { ", for the clock has jumped" } else { "" }
    )]
    LeaseLapsed {
        /// Its age.
        elapsed: Duration,
        /// For how long it was good.
        lease: Duration,
        /// Whether the wall clock went much further than the monotonic one.
        jumped: bool,
    },
    /// The server was told to stop.
    #[error("the timelock server has been stopped")]
    Stopped,
    /// No server answered in time. Transactions that were to begin have not begun, and those that were to commit have not committed.
    #[error("no timelock server that leads was reached in {} ms; the last answer: {last}", waited.as_millis())]
    NoLeader {
        /// How long servers were asked.
        waited: Duration,
        /// What the last one said.
        last: String,
    },
    /// A transaction writes more cells or rows, or with longer names, than can be locked at a time.
    #[error(
        "{count} locks with names of {bytes} bytes are too many for one transaction: at most {} with names of {} bytes can be taken. Nothing was \
         written: write in several transactions, or in tables that lock rows",
        messages::REQUEST_LOCKS_MAX,
        messages::REQUEST_BYTES_MAX
    )]
    TooManyLocks {
        /// How many locks it needs.
        count: usize,
        /// The length of their names.
        bytes: usize,
    },
    /// The server has ended a request for locks that the client still waits for. No lock is held.
    #[error(
        "the timelock server at {server} has ended this request for locks: no lock is held; run the transaction again"
    )]
    RequestEnded {
        /// The server.
        server: String,
    },
    /// Timestamps went backwards.
    #[error(
        "timestamps went backwards: {got} came from {server} after {seen} had been seen. This client has stopped for good, and what it was doing has not \
         committed. Stop all writers: a bound was lost or an old one restored, or the clocks of two servers failed; then fast-forward above the \
         greatest timestamp known"
    )]
    WentBackwards {
        /// The greatest seen before the request was sent.
        seen: Timestamp,
        /// What came.
        got: Timestamp,
        /// From where.
        server: String,
    },
    /// A server's timestamps are of another store: transactions with them could read what is not written yet, and overwrite what is newer.
    #[error(
        "the timelock server at {server} gives out the timestamps of another store: in this one {found}. Nothing was begun; name the servers that were \
         started with this store's --store and --keyspace"
    )]
    OtherStore {
        /// The server.
        server: String,
        /// What the store says of its timestamps.
        found: String,
    },
    /// A server will not do what it was asked, ever.
    #[error("the timelock server at {server} refuses: {}", refusal.message)]
    Refused {
        /// The server.
        server: String,
        /// What it says.
        refusal: messages::Refusal,
    },
    /// Timestamps cannot go on from there.
    #[error(
        "timestamps cannot go on above {asked}: the greatest to go on above is {}, so that enough are left. Nothing was changed",
        FAST_FORWARD_MAX
    )]
    OutOfRange {
        /// What was asked for.
        asked: Timestamp,
    },
    /// There are none left.
    #[error("timestamps are used up at {0}")]
    Exhausted(Timestamp),
}

impl TimeLockError {
    /// Whether the cause may pass by itself: servers that do not answer now, a bound that could not be
    /// stored in time.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Bound(error) => error.is_transient,
            Self::NoLeader { .. } | Self::LeaseLapsed { .. } => true,
            Self::LockTimeout { .. }
            | Self::RequestEnded { .. }
            | Self::TooManyLocks { .. }
            | Self::AnotherInstance { .. }
            | Self::AlreadyOpen { .. }
            | Self::OnlyLookedAt
            | Self::BoundLost { .. }
            | Self::Halted { .. }
            | Self::NotHalted
            | Self::RecoveredBelow { .. }
            | Self::ServedElsewhere { .. }
            | Self::Stopped
            | Self::WentBackwards { .. }
            | Self::OtherStore { .. }
            | Self::Refused { .. }
            | Self::OutOfRange { .. }
            | Self::Exhausted(_) => false,
        }
    }
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

    /// A residue modulo `modulus` for the starts of one client: of those that asked, fewest have it. `None` where clients need not ask.
    fn next_residue(&self, modulus: i64) -> Option<i64> {
        let _ = modulus;
        None
    }

    /// Fails if the timestamps are known to be another store's.
    ///
    /// # Errors
    /// OtherStore; or it cannot be found out.
    fn check_store(&self, store: &dyn Store) -> Result<(), TimeLockError>;

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
