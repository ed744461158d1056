//! The listener: accepts connections, and ends them all when the server stops.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use cassette_database::ServerFigures;
use cassette_protocol::response::Event;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{broadcast, watch},
    task::JoinSet,
    time::MissedTickBehavior,
};
use tracing::{debug, info, warn};

use crate::{
    Backend, ServerConfig,
    connection::Connection,
    figures::Figures,
    limits::{ConnectionRefused, Limits},
};

/// How many events a connection may be behind before it is closed. A client that reconnects reads the schema anew,
/// one that missed an event would not.
const EVENTS_BEHIND_MAX: usize = 1024;

/// How long accepting pauses after it failed, which it does when file descriptors have run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How often the backend brings its figures up to date.
const TICK: Duration = Duration::from_secs(5);

/// How many interrupted requests a stopping server names, and how much of each.
const CUT_NAMED_MAX: usize = 20;
const CUT_DESCRIPTION_MAX: usize = 300;

/// How often refused connections are logged.
const REFUSALS_INTERVAL: Duration = Duration::from_secs(1);

/// A server that listens, but accepts nobody before [`Server::serve`].
#[derive(Debug)]
pub struct Server<B: Backend> {
    listener: TcpListener,
    shared: Arc<Shared<B>>,
    /// Ends when the server does.
    _subscription: B::Subscription,
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared<B: Backend> {
    pub config: ServerConfig,
    pub backend: Arc<B>,
    pub limits: Arc<Limits>,
    pub figures: Arc<Figures>,
    pub events: broadcast::Sender<Arc<Event>>,
}

impl<B: Backend> Server<B> {
    /// Listens at the configured address.
    pub async fn bind(config: ServerConfig, backend: Arc<B>) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen_address).await?;
        Ok(Self::with_listener(listener, config, backend))
    }

    /// Takes a listener, whatever address is configured: for a backend that must know the port before it is opened.
    pub fn with_listener(listener: TcpListener, config: ServerConfig, backend: Arc<B>) -> Self {
        let (events, _) = broadcast::channel(EVENTS_BEHIND_MAX);
        let sender = events.clone();
        let subscription = backend.subscribe(Box::new(move |change| {
            // An error only says that nobody has registered.
            let _ = sender.send(Arc::new(Event::SchemaChange(change.clone())));
        }));
        let limits = Limits::new(&config);
        let figures = Figures::new(Arc::clone(&limits.threads));
        let shared = Arc::new(Shared { config, backend, limits, figures, events });
        Self { listener, shared, _subscription: subscription }
    }

    /// Where it listens, with the port that was taken.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What it counts.
    pub fn figures(&self) -> Arc<dyn ServerFigures> {
        Arc::clone(&self.shared.figures) as Arc<dyn ServerFigures>
    }

    /// As [`serve_until`](Self::serve_until), with nothing that cuts the draining short.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        self.serve_until(stop, std::future::pending()).await;
    }

    /// Serves until `stop` is done. Then it accepts no more connections, reads no more requests, lets those in flight
    /// finish, sends their answers and closes. After the configured time, or when `cut` is done, it interrupts what has
    /// not ended, names it in the log and returns.
    pub async fn serve_until(self, stop: impl Future<Output = ()>, cut: impl Future<Output = ()>) {
        let Self { listener, shared, _subscription } = self;
        let (stopping, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut refusals = Refusals::default();
        tokio::pin!(stop);
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        if let Err(refused) = accept(&shared, stream, peer, &stopped, &mut connections) {
                            shared.figures.connections_refused.fetch_add(1, Ordering::Relaxed);
                            refusals.log(peer, refused);
                        }
                    }
                    Err(error) => {
                        warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(ACCEPT_RETRY).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                _ = ticks.tick() => shared.backend.tick(),
                () = &mut stop => break,
            }
        }
        drop(listener);
        info!("stopping: {} connections to end", connections.len());
        // An error only says that there is no connection.
        let _ = stopping.send(true);
        let timeout = shared.config.stop_timeout;
        let why_cut = tokio::select! {
            () = async { while connections.join_next().await.is_some() {} } => return,
            () = tokio::time::sleep(timeout) => format!("within {timeout:?}"),
            () = cut => "before the server was told again to stop".to_owned(),
        };
        warn!("{} connections did not end {why_cut}; closing them", connections.len());
        let running = shared.figures.running.list();
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

/// Logs refused connections without letting them fill the log.
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
        warn!("connection from {peer} refused: {refused} ({} more since the last message)", self.unlogged);
        (self.last_logged, self.unlogged) = (Some(now), 0);
    }
}

fn accept<B: Backend>(
    shared: &Arc<Shared<B>>,
    stream: TcpStream,
    peer: SocketAddr,
    stopped: &watch::Receiver<bool>,
    connections: &mut JoinSet<()>,
) -> Result<(), ConnectionRefused> {
    let permit = shared.limits.admit(peer.ip())?;
    let (shared, stopped) = (Arc::clone(shared), stopped.clone());
    connections.spawn(async move {
        // Answers are sent in one piece as soon as they are ready; waiting for more to send would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            debug!("connection from {peer}: cannot set TCP_NODELAY: {error}");
        }
        debug!("connection from {peer}");
        match Connection::new(shared, stream, peer, permit, stopped).run().await {
            Ok(()) => debug!("connection from {peer} ended"),
            Err(error) => debug!("connection from {peer} broke: {error}"),
        }
    });
    Ok(())
}
