//! Metrics of the server in front of the database, which virtual tables show beside those of the
//! database.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Provides the metrics of a server.
pub trait ServerMetrics: Send + Sync {
    /// Returns the connected clients.
    fn clients(&self) -> Vec<Client>;

    /// Returns the clients that have connected since the start or the last
    /// [`forget_seen_clients`](Self::forget_seen_clients), including disconnected ones.
    fn seen_clients(&self) -> Vec<SeenClient>;

    /// Clears the list of [`seen_clients`](Self::seen_clients).
    fn forget_seen_clients(&self);

    /// Returns the requests that run on a request thread or wait for one. Requests that were
    /// answered from memory at once are not included.
    fn running_requests(&self) -> Vec<RunningRequest>;

    /// Interrupts one of the [`running_requests`](Self::running_requests), and returns its
    /// description; `None` if it has ended.
    fn cancel_request(&self, id: u64) -> Option<String>;

    /// Returns the pool of request threads.
    fn requests(&self) -> Pool;

    /// Returns the number of requests that were rejected because too many were in progress.
    fn overloaded(&self) -> u64;

    /// Returns the number of connections that were rejected because there were too many.
    fn connections_refused(&self) -> u64;

    /// Returns the number of logins with a wrong name or password.
    fn logins_failed(&self) -> u64;

    /// Returns the number of logins that were refused without a check, because too many had failed.
    fn logins_refused(&self) -> u64;

    /// Returns the number of connections that ended in the TLS handshake.
    fn tls_handshakes_failed(&self) -> u64;

    /// Returns the number of requests, connections and periodic tasks that ended in a panic.
    fn panics(&self) -> u64;
}

/// A client connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The remote address.
    pub address: SocketAddr,
    /// The user name; `None` without authentication.
    pub username: Option<String>,
    /// `established`, `authenticating` or `ready`.
    pub stage: &'static str,
    /// The protocol version of the connection.
    pub protocol_version: u8,
    /// The options of the STARTUP message.
    pub options: BTreeMap<String, String>,
    /// The number of requests on this connection.
    pub requests: u64,
    /// The current keyspace.
    pub keyspace: Option<String>,
    /// How the connection is encrypted; `None` without TLS.
    pub encryption: Option<Encryption>,
}

/// How a connection is encrypted, in Java's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encryption {
    /// The version of TLS, such as `TLSv1.3`.
    pub protocol: String,
    /// The cipher suite, such as `TLS_AES_256_GCM_SHA384`.
    pub cipher_suite: String,
}

/// An address from which clients have connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenClient {
    /// The protocol version that they used.
    pub protocol_version: u8,
    /// The address.
    pub address: IpAddr,
    /// The time of the last connection, milliseconds since 1970.
    pub last_seen_millis: i64,
}

/// A request that runs on a request thread or waits for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningRequest {
    /// Unique since the start of the server.
    pub id: u64,
    /// The name of the thread, unique among running threads.
    pub thread: String,
    /// The time that it waited for the thread.
    pub queued: Duration,
    /// The time that it has been running; zero while it waits.
    pub running: Duration,
    /// A description of the request.
    pub description: String,
}

/// A thread pool, named after Cassandra's pool for the same work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// The name in Cassandra's metrics.
    pub name: &'static str,
    /// Running tasks.
    pub active: u64,
    /// The maximum number of concurrent tasks.
    pub active_max: u64,
    /// Waiting tasks.
    pub pending: u64,
    /// Completed tasks.
    pub completed: u64,
    /// Callers that are blocked because the pool is full.
    pub blocked: u64,
    /// The number of times that a caller was blocked.
    pub blocked_all_time: u64,
}

/// Metrics of prepared statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreparedMetrics {
    /// Cached statements.
    pub count: u64,
    /// Evicted statements.
    pub evicted: u64,
}
