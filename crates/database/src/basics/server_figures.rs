//! What a server in front of the database says of itself: virtual tables show it beside what the database knows.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A server's figures.
pub trait ServerFigures: Send + Sync {
    /// The clients that are connected.
    fn clients(&self) -> Vec<Client>;

    /// The clients that came since the start, or since they were forgotten, also those that have left.
    fn seen_clients(&self) -> Vec<SeenClient>;

    /// Forgets which clients came.
    fn forget_seen_clients(&self);

    /// The requests that have a thread of their own, or wait for one. What memory answers at once is not among them.
    fn running_requests(&self) -> Vec<RunningRequest>;

    /// The threads that requests run on.
    fn requests(&self) -> Pool;

    /// Requests that were refused because too much was in flight.
    fn overloaded(&self) -> u64;

    /// Connections that were refused because there were too many.
    fn connections_refused(&self) -> u64;

    /// Requests, connections and periodic work that ended with a panic.
    fn panics(&self) -> u64;
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Where it comes from.
    pub address: SocketAddr,
    /// As whom it logged in; `None` if nobody asks.
    pub username: Option<String>,
    /// `established`, `authenticating` or `ready`.
    pub stage: &'static str,
    /// The version of the protocol that it speaks.
    pub protocol_version: u8,
    /// What it said when it came.
    pub options: BTreeMap<String, String>,
    /// Requests that it sent.
    pub requests: u64,
    /// The keyspace that it uses.
    pub keyspace: Option<String>,
}

/// An address that clients came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenClient {
    /// The version of the protocol that they spoke.
    pub protocol_version: u8,
    /// The address.
    pub address: IpAddr,
    /// When one came last, milliseconds since 1970.
    pub last_seen_millis: i64,
}

/// A request that has a thread of its own, or waits for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningRequest {
    /// The thread's name; no two that run have the same.
    pub thread: String,
    /// How long it waited for the thread.
    pub queued: Duration,
    /// For how long it has had it; zero, if it waits.
    pub running: Duration,
    /// What it is.
    pub description: String,
}

/// Threads that do one kind of work. The names are those of Cassandra's thread pools that do the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: &'static str,
    /// Tasks that are running.
    pub active: u64,
    /// Tasks that may run at a time.
    pub active_max: u64,
    /// Tasks that wait.
    pub pending: u64,
    /// Tasks done.
    pub completed: u64,
    /// Those who would give the pool a task and are held up because it is full.
    pub blocked: u64,
    /// How often that happened.
    pub blocked_all_time: u64,
}

/// Figures about prepared statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreparedFigures {
    /// How many are kept.
    pub count: u64,
    /// How many were thrown away for new ones.
    pub evicted: u64,
}
