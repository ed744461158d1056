//! The process that executes jobs: one driver at a time, and only drivers with the token.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cassette_tls::secret::Token;
use cassette_vfs::Clock;

use super::job::AgentLogin;
use super::link::Link;
use super::message::GREETING_LENGTH_MAX;
use super::session;
use crate::LabError;
use crate::format::printable;

/// The maximum number of open connections, including those that have proved nothing yet.
const CONNECTIONS_MAX: usize = 16;
/// The maximum length of a line of the log.
const LINE_LENGTH_MAX: usize = 1000;
/// Pause after a failure to accept a connection, such as a lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Receives a line about each driver and each job.
pub type Log = Box<dyn Fn(&str) + Send + Sync>;

/// Settings of an agent.
pub struct AgentSettings {
    /// Token that drivers must have.
    pub token: Token,
    /// What it presents to servers that require a login or TLS.
    pub login: AgentLogin,
    /// Process that it observes instead of executing jobs, such as that of a server.
    pub observes: Option<u32>,
    /// The machine's clock.
    pub clock: Arc<dyn Clock>,
    /// Receives what it does.
    pub log: Log,
}

/// What all connections share.
pub(super) struct Shared {
    pub settings: AgentSettings,
    pub name: String,
    /// Held by the driver's connection.
    pub driver: Mutex<()>,
    connections: AtomicUsize,
}

impl Shared {
    /// Logs a line.
    pub fn log(&self, text: &str) {
        (self.settings.log)(&printable(text, LINE_LENGTH_MAX));
    }
}

/// An agent that listens.
pub struct Agent {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Agent {
    /// Listens on an address with a port.
    pub fn bind(address: &str, settings: AgentSettings) -> Result<Self, LabError> {
        let attempt = |error| LabError::io(format!("listening on {address}"), error);
        let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(attempt)?.collect();
        let listener = TcpListener::bind(&addresses[..]).map_err(attempt)?;
        let address = listener.local_addr().map_err(attempt)?;
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (driver, connections) = (Mutex::new(()), AtomicUsize::new(0));
        Ok(Self { listener, address, shared: Arc::new(Shared { settings, name, driver, connections }) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves drivers, without an end.
    pub fn serve(&self) -> ! {
        loop {
            match self.listener.accept() {
                Ok((stream, peer)) => self.accepted(stream, peer),
                Err(error) => {
                    self.shared.log(&format!("cannot accept a connection: {error}"));
                    std::thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Serves a connection on its own thread: a peer that proves nothing must not delay others.
    fn accepted(&self, stream: TcpStream, peer: SocketAddr) {
        let shared = Arc::clone(&self.shared);
        if shared.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
            shared.log(&format!("{peer} refused: {CONNECTIONS_MAX} connections are open"));
            return;
        }
        let served = std::thread::Builder::new().name("lab agent".into()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                let _open = Open(&shared);
                match serve(&shared, stream, peer) {
                    Ok(None) => {}
                    Ok(Some(reason)) => shared.log(&format!("{peer} refused: {reason}")),
                    Err(error) => shared.log(&format!("{peer}: {error}")),
                }
            }
        });
        if let Err(error) = served {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
            shared.log(&format!("{peer}: {error}"));
        }
    }
}

fn serve(shared: &Shared, stream: TcpStream, peer: SocketAddr) -> io::Result<Option<String>> {
    session::serve(shared, &mut Link::new(stream, GREETING_LENGTH_MAX)?, &peer.to_string())
}

/// Counts an open connection until it is dropped, also by a panic.
struct Open<'a>(&'a Shared);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}
