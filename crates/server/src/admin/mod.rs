//! The admin endpoint: metrics and operations over HTTP, for `cassette nodetool`, Prometheus and a
//! browser.
//!
//! | path | content |
//! | --- | --- |
//! | `GET /` | a live dashboard |
//! | `GET /metrics` | the metrics for Prometheus |
//! | `GET /v1/node`, `/v1/tables`, `/v1/compactions`, … | reports as JSON ([`cassette_admin_api`]) |
//! | `GET /v1/history` | the metrics of the last 24 hours |
//! | `POST /v1/query` | executes a SELECT |
//! | `POST /v1/operations` | an [`Operation`](cassette_admin_api::Operation) as JSON |
//! | `POST /v1/cut_over` | a step of a move that takes over the clients, as JSON |
//!
//! [`Access`] authenticates clients; without an authenticator and tokens, every client has full
//! access, so it listens on loopback by default. [`guard`] keeps foreign web pages out. [`Limits`]
//! apply to connections and their idle time.

mod access;
mod backups;
mod cidr;
mod cut_over;
mod faults;
mod guard;
mod history;
mod http;
#[cfg(test)]
mod monitoring;
mod operations;
mod process;
mod prometheus;
mod query_logs;
mod report;
mod statements;
mod top_partitions;

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub use access::{Access, TOKEN_LEVELS};
pub use backups::backup_keys;
pub use cassette_admin_api::LogLine;
use cassette_backup::BackupService;
use cassette_database::{Database, ServerMetrics};
pub use cassette_http::{Limits, Listener};
use cassette_tls::Tls;
pub use cut_over::Switch;
pub use history::History;

use crate::query_logs::QueryLogs;

/// The maximum number of open connections: half of the descriptors reserved for neither storage nor
/// CQL.
const CONNECTIONS_MAX: usize = 64;

/// The state of the endpoint.
pub struct Admin {
    database: Database,
    server: Arc<dyn ServerMetrics>,
    logging: Arc<dyn LogLevels>,
    access: Access,
    drain: Box<dyn Fn() + Send + Sync>,
    drained: AtomicBool,
    /// The certificates of the server for CQL.
    tls: OnceLock<Tls>,
    started: Instant,
    query_logs: OnceLock<Arc<QueryLogs>>,
    backups: OnceLock<Arc<BackupService>>,
    switch: OnceLock<Switch>,
    history: OnceLock<Arc<History>>,
    /// Running queries of the dashboard.
    queries: AtomicUsize,
}

/// Access to the log: its levels, and its latest lines.
pub trait LogLevels: Send + Sync {
    /// Returns modules and their levels; `ROOT` for all others.
    fn levels(&self) -> Vec<(String, String)>;

    /// Sets the level of a module, or of all if `target` is empty or `ROOT`; an empty level
    /// restores that of the start.
    ///
    /// # Errors
    /// If the level is unknown.
    fn set(&self, target: &str, level: &str) -> Result<(), String>;

    /// Returns the latest lines of the log, the oldest first.
    fn recent_lines(&self) -> Vec<LogLine> {
        Vec::new()
    }
}

impl Admin {
    /// Creates the endpoint of a database and its server. `drain` makes the server stop accepting
    /// requests.
    pub fn new(
        database: Database,
        server: Arc<dyn ServerMetrics>,
        logging: Arc<dyn LogLevels>,
        access: Access,
        drain: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (drain, drained) = (Box::new(drain), AtomicBool::new(false));
        Arc::new(Self {
            database,
            server,
            logging,
            access,
            drain,
            drained,
            tls: OnceLock::new(),
            started: Instant::now(),
            query_logs: OnceLock::new(),
            backups: OnceLock::new(),
            switch: OnceLock::new(),
            history: OnceLock::new(),
            queries: AtomicUsize::new(0),
        })
    }

    /// Sets the logs that operations enable and disable. Called at most once.
    pub fn set_query_logs(&self, logs: Arc<QueryLogs>) {
        // A second call is a mistake without consequences.
        let _ = self.query_logs.set(logs);
    }

    /// Sets the scheduled backups that are shown. Called at most once.
    pub fn set_backups(&self, backups: Arc<BackupService>) {
        // A second call is a mistake without consequences.
        let _ = self.backups.set(backups);
    }

    /// Sets the history that is shown. Effective once.
    pub fn set_history(&self, history: Arc<History>) {
        // A second value has no effect.
        let _ = self.history.set(history);
    }

    /// Lets moves stall and forward the clients of the server. Effective once.
    pub fn set_switch(&self, switch: Switch) {
        // A second value has no effect.
        let _ = self.switch.set(switch);
    }

    /// Lets `nodetool reloadssl` reload the certificates of the server for CQL. Effective once.
    pub fn set_tls(&self, tls: Tls) {
        // A second value has no effect.
        let _ = self.tls.set(tls);
    }

    /// Encrypts the connections of a listener, and counts failed handshakes.
    pub fn encrypted(self: &Arc<Self>, listener: Listener, tls: Tls) -> Listener {
        let access = self.access.clone();
        listener.with_tls(tls, move || access.handshake_failed())
    }

    /// Answers requests until `stop` completes.
    pub async fn serve(
        self: Arc<Self>,
        listener: impl Into<Listener>,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        self.serve_within(listener, Limits::new(CONNECTIONS_MAX), stop).await
    }

    /// Answers requests until `stop` completes, with other limits than the default.
    pub async fn serve_within(
        self: Arc<Self>,
        listener: impl Into<Listener>,
        limits: Limits,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let router = http::router(self, limits.body_wait_max);
        cassette_http::serve(listener, router, limits, access::OfConnection::new, stop).await
    }
}
