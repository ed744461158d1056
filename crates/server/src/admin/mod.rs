//! The admin endpoint: figures and operations over HTTP, for `cassette nodetool`, Prometheus and a browser.
//!
//! | path | what |
//! | --- | --- |
//! | `GET /` | a page that draws the figures live |
//! | `GET /metrics` | the figures for Prometheus |
//! | `GET /v1/node`, `/v1/tables`, `/v1/compactions`, … | reports as JSON ([`cassette_admin_api`]) |
//! | `POST /v1/operations` | an [`Operation`](cassette_admin_api::Operation) as JSON |
//!
//! It has no passwords: it listens on loopback, unless it is told otherwise, and [`guard`] keeps web pages of others out.
//! Connections and the time that they may idle have [`Limits`].

mod guard;
mod http;
mod operations;
mod process;
mod prometheus;
mod report;
mod top_partitions;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use cassette_database::{Database, ServerFigures};
pub use cassette_http::Limits;
use tokio::net::TcpListener;

/// Open connections, at most: half of the descriptors that are not for storage or CQL.
const CONNECTIONS_MAX: usize = 64;

/// What the endpoint shows and steers.
pub struct Admin {
    database: Database,
    server: Arc<dyn ServerFigures>,
    logging: Arc<dyn LogLevels>,
    drain: Box<dyn Fn() + Send + Sync>,
    drained: AtomicBool,
    started: Instant,
}

/// How much is logged, and by whom.
pub trait LogLevels: Send + Sync {
    /// Modules and their levels; `ROOT` for all that are not named.
    fn levels(&self) -> Vec<(String, String)>;

    /// Sets the level of a module, or of all if `target` is empty or `ROOT`; an empty level is that of the start.
    ///
    /// # Errors
    /// If there is no such level.
    fn set(&self, target: &str, level: &str) -> Result<(), String>;
}

impl Admin {
    /// For a database and the server in front of it. `drain` stops the server from accepting requests.
    pub fn new(
        database: Database,
        server: Arc<dyn ServerFigures>,
        logging: Arc<dyn LogLevels>,
        drain: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (drain, drained) = (Box::new(drain), AtomicBool::new(false));
        Arc::new(Self { database, server, logging, drain, drained, started: Instant::now() })
    }

    /// Answers until `stop` is done.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        self.serve_within(listener, Limits::new(CONNECTIONS_MAX), stop).await
    }

    /// Answers until `stop` is done, within other limits than the default.
    pub async fn serve_within(
        self: Arc<Self>,
        listener: TcpListener,
        limits: Limits,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let router = http::router(self, limits.body_wait_max);
        cassette_http::serve(listener, router, limits, || (), stop).await
    }
}
