//! Messages between clients and the server: JSON over HTTP.
//!
//! | path | what |
//! | --- | --- |
//! | `POST /v1/batch` | a [`Batch`] of what does not wait; [`BatchReply`] |
//! | `POST /v1/lock` | a [`LockRequest`], answered when the locks are free; [`LockReply`] |
//! | `POST /v1/fast-forward` | [`FastForward`]; the [`Status`] after it |
//! | `POST /v1/stop` | releases the lease and ends the server |
//! | `GET /v1/status` | [`Status`] |
//!
//! A refusal has status 503 and a [`Refusal`] as its body.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::TimeLockError;

/// Maximum number of transactions that begin with one batch.
pub(super) const BATCH_STARTS_MAX: u32 = 500;
/// Maximum number of fresh timestamps in one batch.
pub(super) const BATCH_FRESH_MAX: u32 = 1000;
/// Interval between heartbeats of a client.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
/// Maximum number of lock names in one request: those of a transaction with as many writes.
pub(super) const REQUEST_LOCKS_MAX: usize = 100_000;
/// Maximum total length of the lock names of a request, bytes. In base64 and with the other fields,
/// they fit the server's limit on requests.
pub(super) const REQUEST_BYTES_MAX: usize = 20 << 20;

/// Requests of a client that are served together: all that never wait for other clients.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Batch {
    /// Session of the client, a random number.
    pub session: u64,
    /// Number of the batch, which increases. The reply repeats it.
    pub batch: u64,
    /// Attempt of the batch, which increases.
    pub attempt: u32,
    /// Newest batch whose reply arrived. The client does not know the holds of later ones.
    pub answered: u64,
    /// Number of transactions that begin.
    pub starts: u32,
    /// Number of fresh timestamps.
    pub timestamps: u32,
    /// Whether the immutable timestamp is requested.
    pub immutable: bool,
    /// Holds to check, each with the fencing token of its locks.
    pub checks: Vec<(i64, Option<i64>)>,
    /// Fencing tokens to release. May be repeated.
    pub unlock: Vec<i64>,
    /// Holds to release, one entry per transaction.
    pub release: Vec<i64>,
    /// Lock requests that the client no longer waits for.
    pub cancel: Vec<u64>,
}

/// Reply to a [`Batch`].
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct BatchReply {
    /// Number of the batch.
    pub batch: u64,
    /// Attempt of the batch.
    pub attempt: u32,
    /// Timestamps of the transactions that begin.
    pub starts: Option<Starts>,
    /// First of the fresh timestamps, which are consecutive.
    pub timestamps: Option<i64>,
    /// Immutable timestamp.
    pub immutable: Option<i64>,
    /// Result of each check.
    pub held: Vec<bool>,
}

/// Timestamps of transactions that begin together.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub struct Starts {
    /// Timestamp that each of them holds once.
    pub hold: i64,
    /// Immutable timestamp.
    pub immutable: i64,
    /// First start timestamp.
    pub first: i64,
    /// Difference between consecutive start timestamps.
    pub step: i64,
}

/// Request for locks.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct LockRequest {
    /// Session of the client.
    pub session: u64,
    /// Number of the request. A retry with the same number has the same locks.
    pub number: u64,
    /// Smallest number of a request that the client has not ended.
    pub oldest_open: u64,
    /// Lock names in base64.
    pub names: Vec<String>,
    /// How long to wait for the locks.
    pub timeout_ms: u64,
    /// Waits until each lock was free at some moment, and acquires none.
    pub only_wait: bool,
}

/// Reply to a [`LockRequest`]: the locks are held, or were observed free.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct LockReply {
    /// Number of the request.
    pub number: u64,
    /// Fencing token, taken after the locks: greater than that of every previous holder.
    pub fence: Option<i64>,
}

/// Makes all later timestamps greater than a timestamp.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub struct FastForward {
    /// The timestamp.
    pub to: i64,
}

/// Status of a server.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Status {
    /// `leading`, `standby`, or why the server has ended.
    pub state: String,
    /// Address where clients reach it.
    pub address: String,
    /// Address of the leader, as far as the server knows.
    pub leader: Option<String>,
    /// Version of Cassette.
    pub version: String,
    /// Seconds since the server started.
    pub uptime_seconds: u64,
    /// Statistics of the leader.
    pub leading: Option<LeaderStatus>,
    /// Requests served since the start.
    pub requests: u64,
}

/// Statistics of a leader.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct LeaderStatus {
    /// Random number of the server in the store.
    pub holder: u64,
    /// Increases with every leader.
    pub term: u64,
    /// Last timestamp issued.
    pub last: i64,
    /// Stored bound.
    pub bound: i64,
    /// Smallest held timestamp.
    pub smallest_held: Option<i64>,
    /// Number of sessions.
    pub sessions: usize,
    /// Number of held locks.
    pub locks: usize,
    /// Number of queued requests.
    pub queued: usize,
    /// Number of holds.
    pub holds: usize,
}

/// Why a server does not serve a request.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Refusal {
    /// How the client should react.
    pub kind: RefusalKind,
    /// Explanation.
    pub message: String,
    /// Address of the leader, if the server knows.
    pub leader: Option<String>,
}

/// How a client should react to a refusal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// Try another server.
    NotLeading,
    /// Try again: the lease or the bound is being renewed.
    NotNow,
    /// The locks were not free in time. No lock is held.
    LockTimeout,
    /// A stale duplicate of a request that has ended. It had no effect.
    Ended,
    /// Never try again.
    Never,
    /// The request is malformed.
    Usage,
}

impl Refusal {
    pub(super) fn new(kind: RefusalKind, message: impl ToString) -> Self {
        Self { kind, message: message.to_string(), leader: None }
    }

    pub(super) fn of(error: &TimeLockError) -> Self {
        let kind = match error {
            TimeLockError::LeaseLapsed { .. } => RefusalKind::NotNow,
            TimeLockError::Stopped => RefusalKind::NotLeading,
            TimeLockError::LockTimeout { .. } => RefusalKind::LockTimeout,
            _ => RefusalKind::Never,
        };
        Self::new(kind, error)
    }
}
