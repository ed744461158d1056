//! State that all connections share.

use std::{
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use cassette_protocol::response::Event;
use cassette_tls::Socket;
use tokio::{
    net::TcpStream,
    sync::{broadcast, watch},
    task::JoinError,
};
use tracing::debug;

use crate::{Backend, ServerConfig, gate::Gate, limits::Limits, logins::LoginGate, metrics::Metrics};

/// Settings, backend, limits and metrics of a server, and the events for its connections.
#[derive(Debug)]
pub(crate) struct Shared<B: Backend> {
    pub config: ServerConfig,
    pub backend: Arc<B>,
    pub limits: Arc<Limits>,
    pub metrics: Arc<Metrics>,
    pub events: broadcast::Sender<Arc<Event>>,
    pub logins: Arc<LoginGate>,
    pub gate: Arc<Gate>,
}

impl<B: Backend> Shared<B> {
    /// Carries out the TLS handshake, if TLS is configured. `None` if it failed, or the server
    /// stops.
    pub async fn encrypt(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        mut stopped: watch::Receiver<bool>,
    ) -> Option<Socket> {
        let Some(tls) = &self.config.tls else { return Some(Socket::Plain(stream)) };
        let accepted = tokio::select! {
            accepted = tokio::time::timeout(self.config.handshake_timeout, tls.accept(stream)) => accepted,
            // An error means that the server was dropped.
            _ = stopped.wait_for(|stopped| *stopped) => return None,
        };
        let error = match accepted {
            Ok(Ok(socket)) => return Some(socket),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not finished within {:?}", self.config.handshake_timeout),
        };
        self.logins.handshake_failed();
        debug!("connection from {peer}: TLS handshake: {error}");
        None
    }

    /// Lets the backend update its metrics. A panic must not end the server.
    pub fn tick(&self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.backend.tick())) {
            self.metrics.panicked("updating metrics", &*panic);
        }
    }

    /// Reports a connection that ended with a panic. Its resources are released by then.
    pub fn connection_ended(&self, ended: Result<(), JoinError>) {
        if let Err(Ok(panic)) = ended.map_err(JoinError::try_into_panic) {
            self.metrics.panicked("a connection", &*panic);
        }
    }
}
