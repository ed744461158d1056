//! A server that only forwards.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cassette_tls::Socket;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use super::{Forwarding, pass_on};
use crate::ServerConfig;
use crate::limits::Limits;

/// The pause after a failed accept, whose usual cause is a lack of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A listener whose connections are passed on to a target.
pub struct Proxy {
    listener: TcpListener,
    config: ServerConfig,
    forwarding: Arc<Forwarding>,
}

impl Proxy {
    /// Forwards the connections of `listener`, with the limits on connections and the TLS of
    /// `config`.
    pub fn new(listener: TcpListener, config: ServerConfig, forwarding: Arc<Forwarding>) -> Self {
        Self { listener, config, forwarding }
    }

    /// Serves until `stop` completes, then passes on responses a little longer.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { listener, config, forwarding } = self;
        let limits = Limits::new(&config);
        let config = Arc::new(config);
        let (stopping, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => match limits.admit(peer.ip()) {
                        Ok(permit) => {
                            let (config, forwarding) = (Arc::clone(&config), Arc::clone(&forwarding));
                            let stopped = stopped.clone();
                            connections.spawn(async move {
                                let _permit = permit;
                                if let Err(error) = forward(stream, &config, &forwarding, stopped).await {
                                    debug!("connection from {peer} broke: {error}");
                                }
                            });
                        }
                        Err(refused) => debug!("connection from {peer} closed: {refused}"),
                    },
                    Err(error) => {
                        warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(ACCEPT_RETRY).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                () = &mut stop => break,
            }
        }
        drop(listener);
        info!("stopping: {} connections to end", connections.len());
        let _ = stopping.send(true);
        let ended = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(config.stop_timeout, ended).await;
        connections.shutdown().await;
    }

    /// Returns the listening address with the actual port.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

async fn forward(
    stream: TcpStream,
    config: &ServerConfig,
    forwarding: &Forwarding,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let client = match &config.tls {
        None => Socket::Plain(stream),
        Some(tls) => {
            let accepted = tokio::time::timeout(config.handshake_timeout, tls.accept(stream)).await;
            accepted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?
        }
    };
    let upstream = forwarding.connect().await.inspect_err(|error| {
        warn!("cannot forward to {}: {error}", forwarding.target());
    })?;
    pass_on(client, upstream, &mut stopped).await
}
