//! What clients and the server say to each other: JSON over HTTP.
//!
//! | path | what |
//! | --- | --- |
//! | `POST /v1/batch` | a [`Batch`] of what does not wait; [`BatchReply`] |
//! | `POST /v1/lock` | a [`LockRequest`], answered when the locks are free; [`LockReply`] |
//! | `POST /v1/fast-forward` | [`FastForward`]; the [`Status`] after it |
//! | `POST /v1/stop` | gives the lease back and ends the server |
//! | `GET /v1/status` | [`Status`] |
//!
//! A refusal has status 503 and says why as a [`Refusal`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::TimeLockError;

/// Transactions that begin with one batch, at most.
pub(super) const BATCH_STARTS_MAX: u32 = 500;
/// Fresh timestamps of one batch, at most.
pub(super) const BATCH_FRESH_MAX: u32 = 1000;
/// How often a client sends a heartbeat.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
/// Names of locks in one request, at most: those of a transaction of as many writes.
pub(super) const REQUEST_LOCKS_MAX: usize = 100_000;
/// Bytes of the names of locks in one request, at most. In base64 and with the rest they are a request that servers read.
pub(super) const REQUEST_BYTES_MAX: usize = 20 << 20;

/// What clients ask together: everything that does not wait for others.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Batch {
    /// The client, a random number.
    pub session: u64,
    /// Greater with every batch of the client. Comes back with the answer.
    pub batch: u64,
    /// Greater with every try of the batch.
    pub attempt: u32,
    /// The newest batch whose answer came. What later ones hold nobody knows of.
    pub answered: u64,
    /// Transactions that begin.
    pub starts: u32,
    /// Fresh timestamps.
    pub timestamps: u32,
    /// Whether the immutable timestamp is asked for.
    pub immutable: bool,
    /// Holds, each with the token of locks, to be checked.
    pub checks: Vec<(i64, Option<i64>)>,
    /// Tokens of locks to be given back. May come again.
    pub unlock: Vec<i64>,
    /// Holds to be given back, once for each transaction.
    pub release: Vec<i64>,
    /// Requests for locks that are not waited for any more.
    pub cancel: Vec<u64>,
}

/// The answer to a [`Batch`].
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct BatchReply {
    /// As in the question.
    pub batch: u64,
    /// As in the question.
    pub attempt: u32,
    /// For transactions that begin.
    pub starts: Option<Starts>,
    /// The first of the fresh timestamps; the others follow it.
    pub timestamps: Option<i64>,
    /// The immutable timestamp.
    pub immutable: Option<i64>,
    /// Whether each of the checked is held.
    pub held: Vec<bool>,
}

/// Timestamps of transactions that begin together.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub struct Starts {
    /// What they hold, each once.
    pub hold: i64,
    /// The immutable timestamp.
    pub immutable: i64,
    /// The first start.
    pub first: i64,
    /// From one start to the next.
    pub step: i64,
}

/// Asks for locks.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct LockRequest {
    /// The client.
    pub session: u64,
    /// The request. Tried again with the same number, it has the same locks.
    pub number: u64,
    /// The smallest number of a request that the client has not ended with.
    pub oldest_open: u64,
    /// Names in base64.
    pub names: Vec<String>,
    /// How long to wait.
    pub timeout_ms: u64,
    /// To see each free at some moment, and take none.
    pub only_wait: bool,
}

/// The locks are held, or were seen free.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct LockReply {
    /// As in the question.
    pub number: u64,
    /// A timestamp taken when the locks were: greater than that of every holder before.
    pub fence: Option<i64>,
}

/// Makes all later timestamps greater than one.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub struct FastForward {
    /// The timestamp.
    pub to: i64,
}

/// What a server says of itself.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Status {
    /// `leading`, `standby`, or why it has ended.
    pub state: String,
    /// Where clients reach it.
    pub address: String,
    /// Who leads, as far as it knows.
    pub leader: Option<String>,
    /// Its version of Cassette.
    pub version: String,
    /// Seconds since its start.
    pub uptime_seconds: u64,
    /// What a leader has.
    pub leading: Option<LeaderStatus>,
    /// Requests answered since the start.
    pub requests: u64,
}

/// What a leader has.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct LeaderStatus {
    /// The random number by which its store knows it.
    pub holder: u64,
    /// Greater with every leader.
    pub term: u64,
    /// The last timestamp given out.
    pub last: i64,
    /// The stored bound.
    pub bound: i64,
    /// The smallest timestamp that is held.
    pub smallest_held: Option<i64>,
    /// Clients.
    pub sessions: usize,
    /// Locks that are held.
    pub locks: usize,
    /// Requests that wait for locks.
    pub queued: usize,
    /// Holds.
    pub holds: usize,
}

/// Why a server does not do what is asked.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Refusal {
    /// What a client makes of it.
    pub kind: RefusalKind,
    /// In words.
    pub message: String,
    /// Who leads, if this server knows.
    pub leader: Option<String>,
}

/// What a client makes of a refusal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// Ask another server.
    NotLeading,
    /// Ask again: the lease or the bound is being renewed.
    NotNow,
    /// The locks were not free in time. Nothing is held.
    LockTimeout,
    /// A late copy of a request that has ended. Nothing was done.
    Ended,
    /// Never ask again.
    Never,
    /// The question is none.
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
