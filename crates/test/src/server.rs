//! The server: a database in memory behind a listener on a free port.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cassette_database::{Database, Options, RequestTimeouts, Seed};
use cassette_server::ServerConfig;
use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::keyspace::{self, Keyspace};
use crate::script;

/// The data center of the server, for load balancing policies.
pub const LOCAL_DATACENTER: &str = "datacenter1";

/// The time for requests of clients to end when the server stops.
const STOP_MAX: Duration = Duration::from_secs(2);

/// A server in this process, on a free port of 127.0.0.1. It stops when it is dropped.
///
/// Any number of servers can run at the same time. The server has its own threads, so the tests
/// need no runtime, or can have any; one of tests of a single thread is not blocked.
pub struct Server {
    address: SocketAddr,
    database: Database,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Whether the database is closed when the server stops, so that its directory can be opened.
    is_in_directory: bool,
}

/// A change of the options of the database.
type Change = Box<dyn FnOnce(&mut Options)>;

/// How a [`Server`] is started.
#[derive(Default)]
#[must_use]
pub struct Builder {
    directory: Option<PathBuf>,
    changes: Vec<Change>,
}

impl Builder {
    /// Keeps the files in this directory instead of memory, for tests that start a server again.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// Changes the options of the database:
    /// `Server::builder().configure(|options| options.materialized_views_enabled = true)`.
    pub fn configure(mut self, change: impl FnOnce(&mut Options) + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Makes UUIDs and times the same in each run, for snapshot tests: `Server::builder().seed(7)`.
    /// Each reset of a keyspace returns them to their start.
    pub fn seed(self, seed: impl Into<Seed> + 'static) -> Self {
        self.configure(|options| options.seed = Some(seed.into()))
    }

    /// Starts the server.
    ///
    /// # Errors
    /// If no port is free, or the database cannot be opened.
    pub fn start(self) -> Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::Start)?;
        let address = listener.local_addr().map_err(Error::Start)?;
        let is_in_directory = self.directory.is_some();
        let mut options = match &self.directory {
            Some(path) => Options::new(path),
            None => Options::in_memory(),
        };
        // What clients observe of a server.
        options.timeouts = RequestTimeouts::of_cassandra();
        // TRUNCATE and DROP create no snapshots, which would take time and memory.
        options.engine.auto_snapshot = false;
        for change in self.changes {
            change(&mut options);
        }
        // Drivers connect to the address that the node has in `system.local`.
        options.node.address = address.ip();
        options.node.port = address.port();
        let database = Database::open(options)?;
        let (stop, stopped) = oneshot::channel();
        let thread = serve(listener, database.clone(), stopped).map_err(Error::Start)?;
        Ok(Server { address, database, stop: Some(stop), thread: Some(thread), is_in_directory })
    }
}

impl Server {
    /// Starts a server whose files are in memory.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// Returns how a server is started, to change it.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the address for drivers; the data center is [`LOCAL_DATACENTER`].
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the database, for access without the network.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Creates an empty keyspace.
    ///
    /// # Errors
    /// If the database was closed.
    pub fn keyspace(&self) -> Result<Keyspace> {
        Keyspace::create(&self.database)
    }

    /// Creates a keyspace, and executes the statements of a text in it.
    ///
    /// # Errors
    /// As [`Keyspace::execute`].
    pub fn keyspace_of(&self, schema: &str) -> Result<Keyspace> {
        let keyspace = self.keyspace()?;
        keyspace.execute(schema)?;
        Ok(keyspace)
    }

    /// Creates a keyspace, and executes the statements of files in it, in order.
    ///
    /// # Errors
    /// As [`Keyspace::execute_file`].
    pub fn keyspace_from<P: AsRef<Path>>(&self, files: impl IntoIterator<Item = P>) -> Result<Keyspace> {
        let keyspace = self.keyspace()?;
        for file in files {
            keyspace.execute_file(file)?;
        }
        Ok(keyspace)
    }

    /// Executes the statements of a text, which can create keyspaces.
    ///
    /// # Errors
    /// As [`Keyspace::execute`].
    pub fn execute(&self, cql: &str) -> Result<()> {
        script::execute(&self.database.session(), "CQL", cql)
    }

    /// Removes the rows of all tables of a keyspace, and keeps its schema. With a seed, UUIDs and
    /// times start again.
    ///
    /// # Errors
    /// If a table cannot be truncated.
    pub fn reset(&self, keyspace: &str) -> Result<()> {
        keyspace::truncate(&self.database.session(), keyspace)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if the thread has ended.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if self.is_in_directory {
            // The commit log has what could not be flushed.
            let _ = self.database.close();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Starts the thread of the server. It owns the runtime, which must not be dropped in a runtime of
/// the test.
fn serve(
    listener: TcpListener,
    database: Database,
    stopped: oneshot::Receiver<()>,
) -> io::Result<JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let config = ServerConfig {
        listen_address: listener.local_addr()?,
        stop_timeout: STOP_MAX,
        ..ServerConfig::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("cassette-test")
        .worker_threads(2)
        .max_blocking_threads(config.blocking_threads())
        .enable_all()
        .build()?;
    let server = {
        let _entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        cassette_server::Server::with_listeners(vec![listener], config, Arc::new(database.clone()))?
    };
    let run = move || {
        database.set_server(&server.metrics());
        runtime.block_on(server.serve(async {
            // An error means that the sender was dropped, which also stops the server.
            let _ = stopped.await;
        }));
        runtime.shutdown_timeout(STOP_MAX);
    };
    thread::Builder::new().name("cassette-test".to_owned()).spawn(run)
}
