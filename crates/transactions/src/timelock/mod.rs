//! Timestamps and locks, which order transactions.

// The server and its client share halts, leases, messages and bounds with what is always compiled.
#![cfg_attr(not(feature = "timelock"), allow(dead_code, reason = "only the server uses all of them"))]

#[cfg(feature = "timelock")]
mod connections;
#[cfg(feature = "timelock")]
mod election;
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
mod read_only;
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
#[cfg(feature = "timelock")]
pub use cassette_tls::{ClientCertificates, Keystore, Tls, TlsError, TlsOptions, secret::Tokens};
#[cfg(feature = "timelock-client")]
pub use cassette_tls::{ClientTls, ClientTlsOptions, secret::Token};
pub use halt::{Cleared, clear_halt};
pub use known::known_timestamp;
pub use local::LocalTimeLock;
pub use read_only::ReadOnlyTimeLock;
#[cfg(feature = "timelock-client")]
pub use remote::{Operator, RemoteOptions, RemoteTimeLock};
#[cfg(feature = "timelock")]
pub use server::{ServerOptions, TimeLockServer};
pub use timestamps::{Timestamps, stored_bound};

/// The greatest timestamp that an operator or a backup can fast-forward to. It leaves half of the
/// range: 146 years at a billion timestamps per second.
pub const FAST_FORWARD_MAX: i64 = 1 << 62;

/// The timestamps of a new transaction, and the hold that protects its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Start timestamp.
    pub start: Timestamp,
    /// Immutable timestamp when the transaction began: all transactions with a smaller start
    /// timestamp had ended.
    pub immutable: Timestamp,
    /// Keeps the immutable timestamp below the start timestamp until released.
    pub hold: Hold,
}

/// A held timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    pub(crate) timestamp: Timestamp,
    pub(crate) epoch: u64,
}

/// Locks acquired by one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockToken {
    pub(crate) names: Arc<[Bytes]>,
    pub(crate) owner: u64,
    pub(crate) epoch: u64,
    pub(crate) fence: Option<Timestamp>,
}

impl LockToken {
    /// Returns the fencing token: greater than that of every previous holder of any of these locks.
    /// External stores use it to reject writes of former holders. `None` for an in-process
    /// timelock, whose locks are lost only when the process ends.
    pub fn fence(&self) -> Option<Timestamp> {
        self.fence
    }
}

/// Errors of timestamps and locks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeLockError {
    /// Another holder kept a lock longer than the timeout.
    #[error("lock not acquired within {} ms", waited.as_millis())]
    LockTimeout {
        /// Time spent waiting.
        waited: Duration,
    },
    /// The bound could not be stored.
    #[error("timestamp bound: {0}")]
    Bound(#[from] StoreError),
    /// Another instance issues timestamps of this store.
    #[error(
        "another instance issues timestamps: expected stored bound {expected}, found {found}. \
         This instance has stopped permanently, and the request has not committed: let a single \
         process use the store, or run `cassette timelock` and let all processes use it"
    )]
    AnotherInstance {
        /// Bound that this instance stored.
        expected: i64,
        /// Bound found in the store.
        found: String,
    },
    /// This process already issues timestamps of this store. Two independent sources in one
    /// process would not order their timestamps relative to each other.
    #[error(
        "the store in keyspace {keyspace} is already open in this process, with its own timestamps \
         and locks. Nothing was begun: clone the existing Transactions, which is cheap, instead of \
         opening another"
    )]
    AlreadyOpen {
        /// Keyspace of the store.
        keyspace: String,
    },
    /// The store was opened read-only.
    #[error("the store is open read-only: timestamps and locks are unavailable")]
    ReadOnly,
    /// The stored bound is missing or malformed.
    #[error(
        "the timestamp bound is lost: {what}. No timestamps are issued until an operator \
         supplies a timestamp above all previous ones: stop all writers, take the greatest version \
         or commit timestamp in any table, and run `cassette timelock fast-forward --lost-bound`"
    )]
    BoundLost {
        /// Reason.
        what: String,
    },
    /// A server halted the timestamps of this store until an operator clears the halt.
    #[error(
        "the timestamps of this store are halted: {reason}. No timestamps are issued until an \
         operator determines what was lost and runs `cassette timelock clear`; they then continue \
         above {bound}"
    )]
    Halted {
        /// Reason.
        reason: String,
        /// Greatest known bound: no timestamp above it was issued.
        bound: Timestamp,
    },
    /// The store's timestamps are not halted.
    #[error("the timestamps of this store are not halted: nothing was changed")]
    NotHalted,
    /// The timestamp to recover above is not above one that was issued.
    #[error(
        "recovery timestamp too small: expected above {known}, which the store records as \
         issued, found {asked}. Nothing was changed: use at least {}, and more if any table holds a \
         greater version or commit timestamp", known.0.saturating_add(1)
    )]
    RecoveredBelow {
        /// Requested timestamp.
        asked: Timestamp,
        /// Greatest timestamp recorded in the store.
        known: Timestamp,
    },
    /// A timelock server issues the timestamps of this store.
    #[error(
        "a timelock server issues the timestamps of this store, last at {address}: connect to \
         it instead of issuing them in this process"
    )]
    ServedElsewhere {
        /// Last known address of the server.
        address: String,
    },
    /// The server's lease expired before it was renewed. The request had no effect.
    #[error(
        "the lease lapsed: expected an age below {1} ms, found {0} ms{2}. No timestamps were \
         issued: try again when the store responds and the lease is renewed",
        elapsed.as_millis(), lease.as_millis(), if *jumped { ", because the clock jumped" } else { "" }
    )]
    LeaseLapsed {
        /// Age of the lease.
        elapsed: Duration,
        /// Length of the lease.
        lease: Duration,
        /// Whether the wall clock advanced much further than the monotonic clock.
        jumped: bool,
    },
    /// The server was stopped.
    #[error("the timelock server is stopped")]
    Stopped,
    /// No server answered in time. New transactions have not begun, and transactions that were
    /// about to commit have not committed.
    #[error("no leading timelock server reached within {} ms; last response: {last}", waited.as_millis())]
    NoLeader {
        /// Time spent trying.
        waited: Duration,
        /// Last response or error.
        last: String,
    },
    /// A transaction needs more locks, or longer lock names, than one request may have.
    #[error(
        "too many locks for one transaction: expected at most {} with names of {} bytes, found \
         {count} with names of {bytes} bytes. Nothing was written: use several transactions, or \
         tables that lock rows",
        messages::REQUEST_LOCKS_MAX,
        messages::REQUEST_BYTES_MAX
    )]
    TooManyLocks {
        /// Number of locks needed.
        count: usize,
        /// Total length of their names.
        bytes: usize,
    },
    /// The server ended a lock request that the client is still waiting for. No lock is held.
    #[error(
        "the timelock server at {server} ended this lock request, and no lock is held: run the \
         transaction again"
    )]
    RequestEnded {
        /// Address of the server.
        server: String,
    },
    /// Timestamps went backwards.
    #[error(
        "timestamps went backwards: expected above {seen}, found {got} from {server}. This client \
         has stopped permanently, and its request has not committed. Stop all writers: the bound \
         was lost or restored from an old copy, or the clocks of two servers failed. Then \
         fast-forward above the greatest known timestamp"
    )]
    WentBackwards {
        /// Greatest timestamp seen before the request was sent.
        seen: Timestamp,
        /// Timestamp received.
        got: Timestamp,
        /// Server that sent it.
        server: String,
    },
    /// The server issues the timestamps of another store. Transactions that used them could read
    /// data that is not written yet and overwrite newer data.
    #[error(
        "the timelock server at {server} issues timestamps of another store: in this one \
         {found}. Nothing was begun: use the servers started with this store's --store and \
         --keyspace"
    )]
    OtherStore {
        /// Address of the server.
        server: String,
        /// State of the timestamps according to the store.
        found: String,
    },
    /// The server rejected the request permanently.
    #[error("the timelock server at {server} refused the request: {}", refusal.message)]
    Refused {
        /// Address of the server.
        server: String,
        /// Reason given by the server.
        refusal: messages::Refusal,
    },
    /// Timestamps cannot continue above the requested one.
    #[error(
        "fast-forward out of range: expected at most {}, found {asked}. Nothing was changed",
        FAST_FORWARD_MAX
    )]
    OutOfRange {
        /// Requested timestamp.
        asked: Timestamp,
    },
    /// No timestamps are left.
    #[error("timestamps exhausted at {0}")]
    Exhausted(Timestamp),
}

impl TimeLockError {
    /// Returns whether the cause may pass without intervention: unreachable servers, or a bound
    /// that could not be stored in time.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Bound(error) => error.is_transient,
            Self::NoLeader { .. } | Self::LeaseLapsed { .. } => true,
            Self::LockTimeout { .. }
            | Self::RequestEnded { .. }
            | Self::TooManyLocks { .. }
            | Self::AnotherInstance { .. }
            | Self::AlreadyOpen { .. }
            | Self::ReadOnly
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

/// Source of timestamps and locks. A timestamp requested after another was returned is greater.
pub trait TimeLock: Send + Sync {
    /// Begins a transaction: steps B1 to B4 of the protocol.
    fn start(&self) -> Result<Started, TimeLockError>;

    /// Begins a transaction (B1 to B4) with a start timestamp congruent to `residue` modulo
    /// `modulus`, where the implementation supports it. Clients with different residues write their
    /// commit records to different partitions.
    fn start_with_residue(&self, residue: i64, modulus: i64) -> Result<Started, TimeLockError> {
        let _ = (residue, modulus);
        self.start()
    }

    /// Returns the residue modulo `modulus` that the fewest clients use. `None` if clients need no
    /// residue.
    fn next_residue(&self, modulus: i64) -> Option<i64> {
        let _ = modulus;
        None
    }

    /// Checks that the timestamps belong to `store`.
    ///
    /// # Errors
    /// `OtherStore` if they belong to another store, or the error of the check.
    fn check_store(&self, store: &dyn Store) -> Result<(), TimeLockError>;

    /// Returns a fresh timestamp.
    fn timestamp(&self) -> Result<Timestamp, TimeLockError>;

    /// Returns the smallest held timestamp, or a fresh one if none is held.
    fn immutable(&self) -> Result<Timestamp, TimeLockError>;

    /// Acquires all locks in the order of their names, or none.
    fn lock(&self, names: Vec<Bytes>, timeout: Duration) -> Result<LockToken, TimeLockError>;

    /// Blocks until each lock was free at some moment. Acquires none.
    fn wait_for(&self, names: &[Bytes], timeout: Duration) -> Result<(), TimeLockError>;

    /// Returns whether the locks and the hold were held without interruption since they were
    /// acquired.
    fn is_held(&self, locks: Option<&LockToken>, hold: Hold) -> Result<bool, TimeLockError>;

    /// Releases locks. Lost locks stay lost.
    fn unlock(&self, locks: LockToken);

    /// Releases a hold.
    fn release(&self, hold: Hold);

    /// Makes all later timestamps greater than `timestamp`. Timestamps never go back.
    fn fast_forward(&self, timestamp: Timestamp) -> Result<(), TimeLockError>;
}
