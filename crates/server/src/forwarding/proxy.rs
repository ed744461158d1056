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

use super::Forwarding;
use crate::ServerConfig;
use crate::limits::{ConnectionPermit, Limits};

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
                            connections.spawn(forward(stream, peer, config, forwarding, permit, stopped.clone()));
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
    peer: SocketAddr,
    config: Arc<ServerConfig>,
    forwarding: Arc<Forwarding>,
    permit: ConnectionPermit,
    stopped: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!("connection from {peer}: cannot set TCP_NODELAY: {error}");
    }
    let client = match &config.tls {
        None => Socket::Plain(stream),
        Some(tls) => match tokio::time::timeout(config.handshake_timeout, tls.accept(stream)).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return debug!("connection from {peer}: TLS handshake: {error}"),
            Err(_) => {
                return debug!(
                    "connection from {peer}: no TLS handshake within {:?}",
                    config.handshake_timeout
                );
            }
        },
    };
    super::serve(client, peer, &forwarding, &config, &permit, stopped).await;
}
