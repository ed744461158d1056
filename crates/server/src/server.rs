//! The listener: accepts connections, and ends them when the server stops.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use cassette_database::ServerMetrics;
use cassette_protocol::response::Event;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{broadcast, mpsc},
    time::MissedTickBehavior,
};
use tracing::{debug, info, warn};

use crate::{
    Backend, ServerConfig,
    connection::Connection,
    forwarding,
    gate::{Gate, Phase},
    limits::{ConnectionRefused, Limits},
    listeners::{Command, Connections, Listeners, ServerNodes},
    logins::{LoginGate, Logins},
    metrics::Metrics,
    shared::Shared,
};

/// The number of undelivered events at which a connection is closed. A client that reconnects reads
/// the schema again, one that missed an event would not.
const EVENTS_BEHIND_MAX: usize = 1024;

/// The pause after a failed accept, whose usual cause is a lack of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How often the backend updates its metrics.
const TICK: Duration = Duration::from_secs(5);

/// How many interrupted requests a stopping server logs, and how much of each.
const CUT_NAMED_MAX: usize = 20;
const CUT_DESCRIPTION_MAX: usize = 300;

/// The maximum memory of a connection's task, which an idle connection keeps.
const TASK_LENGTH_MAX: usize = 4096;

/// How often rejected connections are logged.
const REFUSALS_INTERVAL: Duration = Duration::from_secs(1);

/// A listening server, which accepts no connection before [`Server::serve`].
#[derive(Debug)]
pub struct Server<B: Backend> {
    listeners: Listeners,
    /// Requests to open and close listeners, and their sender.
    commands: (mpsc::UnboundedSender<Command>, mpsc::UnboundedReceiver<Command>),
    shared: Arc<Shared<B>>,
    /// Ends with the server.
    _subscription: B::Subscription,
}

impl<B: Backend> Server<B> {
    /// Listens on the configured address.
    pub async fn bind(config: ServerConfig, backend: Arc<B>) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen_address).await?;
        Self::with_listeners(vec![listener], config, backend)
    }

    /// Uses existing listeners instead of the configured address, for a backend that needs the port
    /// before it is opened: one, or one for each virtual node.
    pub fn with_listeners(
        listeners: Vec<TcpListener>,
        mut config: ServerConfig,
        backend: Arc<B>,
    ) -> io::Result<Self> {
        let listeners = Listeners::new(listeners)?;
        if backend.executes_in_order() {
            config.max_threads_per_connection = 1;
        }
        let (events, _) = broadcast::channel(EVENTS_BEHIND_MAX);
        let sender = events.clone();
        let subscription = backend.subscribe(Box::new(move |change| {
            // An error only means that no connection has subscribed.
            let _ = sender.send(Arc::new(Event::SchemaChange(change.clone())));
        }));
        let limits = Limits::new(&config);
        let metrics = Metrics::new(Arc::clone(&limits.threads));
        let logins = LoginGate::new(Arc::clone(&limits.auth_threads), Arc::clone(&metrics));
        let shared = Arc::new(Shared { config, backend, limits, metrics, events, logins, gate: Gate::new() });
        Ok(Self { listeners, commands: mpsc::unbounded_channel(), shared, _subscription: subscription })
    }

    /// Returns the listening address with the actual port.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listeners.sockets.address().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Returns the metrics.
    pub fn metrics(&self) -> Arc<dyn ServerMetrics> {
        Arc::clone(&self.shared.metrics) as Arc<dyn ServerMetrics>
    }

    /// Returns what opens and closes the listeners of virtual nodes while the server serves.
    pub fn nodes(&self) -> io::Result<ServerNodes> {
        let (commands, events) = (self.commands.0.clone(), self.shared.events.clone());
        Ok(ServerNodes { commands, events, port: self.local_address()?.port() })
    }

    /// Returns what stalls and forwards requests, for the admin endpoint.
    pub fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.shared.gate)
    }

    /// Returns the verification of logins, for other listeners: failures count together.
    pub fn logins(&self) -> Logins {
        Logins {
            gate: Arc::clone(&self.shared.logins),
            authenticator: self.shared.config.authenticator.clone(),
        }
    }

    /// Does [`serve_until`](Self::serve_until) without a second signal.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        self.serve_until(stop, std::future::pending()).await;
    }

    /// Serves until `stop` completes. Then it accepts no more connections, reads no more requests,
    /// completes those in flight, sends their answers and closes. After the configured time, or
    /// when `cut` completes, it interrupts the remaining requests, names them in the log and
    /// returns.
    pub async fn serve_until(self, stop: impl Future<Output = ()>, cut: impl Future<Output = ()>) {
        let Self { mut listeners, commands: (_sender, mut commands), shared, _subscription } = self;
        let mut refusals = Refusals::default();
        tokio::pin!(stop);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let Listeners { sockets, connections } = &mut listeners;
            tokio::select! {
                (node, accepted) = sockets.accept() => match accepted {
                    Ok((stream, peer)) => {
                        if let Err(refused) = accept(&shared, stream, peer, node, connections) {
                            shared.metrics.connections_refused.fetch_add(1, Ordering::Relaxed);
                            refusals.log(peer, refused);
                        }
                    }
                    Err(error) => {
                        warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(ACCEPT_RETRY).await;
                    }
                },
                ended = connections.ended() => shared.connection_ended(ended),
                Some(command) = commands.recv() => listeners.execute(command).await,
                _ = ticks.tick() => shared.tick(),
                () = &mut stop => break,
            }
        }
        let Listeners { sockets, mut connections } = listeners;
        drop((sockets, commands));
        info!("stopping: {} connections to end", connections.len());
        connections.stop();
        let timeout = shared.config.stop_timeout;
        let why_cut = tokio::select! {
            () = async {
                while connections.len() > 0 {
                    shared.connection_ended(connections.ended().await);
                }
            } => return,
            () = tokio::time::sleep(timeout) => format!("within {timeout:?}"),
            () = cut => "before the server received a second signal".to_owned(),
        };
        warn!("{} connections did not end {why_cut}; closing them", connections.len());
        let running = shared.metrics.running.list();
        for request in running.iter().take(CUT_NAMED_MAX) {
            let description: String = request.description.chars().take(CUT_DESCRIPTION_MAX).collect();
            warn!("interrupted after {:?}: {description}", request.queued + request.running);
        }
        if running.len() > CUT_NAMED_MAX {
            warn!("interrupted: {} more requests", running.len() - CUT_NAMED_MAX);
        }
        connections.shutdown().await;
    }
}

/// Logs rejected connections at a limited rate.
#[derive(Default)]
struct Refusals {
    last_logged: Option<Instant>,
    unlogged: u64,
}

impl Refusals {
    fn log(&mut self, peer: SocketAddr, refused: ConnectionRefused) {
        let now = Instant::now();
        if self.last_logged.is_some_and(|last| now - last < REFUSALS_INTERVAL) {
            self.unlogged += 1;
            return;
        }
        warn!("connection from {peer} closed: {refused} ({} more since the last message)", self.unlogged);
        (self.last_logged, self.unlogged) = (Some(now), 0);
    }
}

fn accept<B: Backend>(
    shared: &Arc<Shared<B>>,
    stream: TcpStream,
    peer: SocketAddr,
    node: usize,
    connections: &mut Connections,
) -> Result<(), ConnectionRefused> {
    let permit = shared.limits.admit(peer.ip())?;
    let Some((connections, stopped)) = connections.of(node) else { return Ok(()) };
    let shared = Arc::clone(shared);
    let task = async move {
        // Answers are sent in one piece as soon as they are ready; waiting for more to send would
        // only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            debug!("connection from {peer}: cannot set TCP_NODELAY: {error}");
        }
        debug!("connection from {peer}");
        // Boxed: an idle connection would keep the room of its handshake, and of forwarding.
        let Some(stream) = Box::pin(shared.encrypt(stream, peer, stopped.clone())).await else { return };
        let phase = Phase::clone(&shared.gate.phase().borrow());
        if let Phase::Forwarding(to) = phase {
            return Box::pin(forwarding::serve(stream, peer, &to, &shared.config, &permit, stopped)).await;
        }
        match Connection::new(shared, stream, (peer, node), permit, stopped).run().await {
            Ok(()) => debug!("connection from {peer} ended"),
            Err(error) => debug!("connection from {peer} broke: {error}"),
        }
    };
    debug_assert!(std::mem::size_of_val(&task) <= TASK_LENGTH_MAX, "box what few connections need");
    connections.spawn(task);
    Ok(())
}
