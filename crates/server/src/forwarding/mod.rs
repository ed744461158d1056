//! Forwarding: the connections of clients passed on to another cluster.
//!
//! A connection that begins while the server forwards is passed on byte by byte ([`passing`]): its
//! client negotiates version, compression and login with the target. Memory is bounded, because no
//! side is read from while the other does not receive.

mod check;
mod marker;
pub(crate) mod passing;
mod proxy;
pub(crate) mod target;
pub(crate) mod watchdog;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cassette_tls::{ClientTls, Socket};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::{debug, warn};

pub(crate) use check::Own;
pub use marker::Marker;
pub(crate) use marker::Recording;
pub use proxy::Proxy;

use crate::ServerConfig;
use crate::limits::ConnectionPermit;

/// Maximum time to connect to a contact point.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// The longest text of a target.
const TARGET_LENGTH_MAX: usize = 1024;
/// TCP checks a silent peer after this time, and then at this interval.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The number of checks without an answer after which a connection has failed.
const KEEPALIVE_CHECKS: u32 = 4;

/// Where requests are forwarded to.
pub struct Forwarding {
    /// `host:port`, several ones separated by commas.
    target: String,
    /// At least one.
    contacts: Vec<String>,
    /// The contact point that new connections try first: the last one that accepted.
    current: AtomicUsize,
    tls: Option<ClientTls>,
}

impl std::fmt::Debug for Forwarding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Forwarding").field("target", &self.target).finish_non_exhaustive()
    }
}

/// A connection to the target.
pub(crate) trait Upstream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Upstream for T {}

impl Forwarding {
    /// Forwards to a server, `host:port`, or to a cluster: several contact points separated by
    /// commas. With TLS if `tls` is present.
    ///
    /// # Errors
    /// If the target is something else.
    pub fn new(target: &str, tls: Option<ClientTls>) -> Result<Arc<Self>, String> {
        if target.len() > TARGET_LENGTH_MAX {
            return Err(format!(
                "invalid target: expected at most {TARGET_LENGTH_MAX} bytes, found {}",
                target.len()
            ));
        }
        let contacts: Vec<_> = target.split(',').map(str::to_owned).collect();
        if let Some(contact) = contacts.iter().find(|contact| !is_contact(contact)) {
            return Err(format!("invalid target: expected HOST:PORT, found {contact:?}"));
        }
        Ok(Arc::new(Self { target: target.to_owned(), contacts, current: AtomicUsize::new(0), tls }))
    }

    /// Returns `host:port`, several ones separated by commas.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Connects to the target: to the contact point that accepted last, or to another one if it
    /// does not accept.
    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Upstream>> {
        let current = self.current.load(Ordering::Relaxed);
        let mut failed = None;
        for number in (0..self.contacts.len()).map(|offset| (current + offset) % self.contacts.len()) {
            let contact = &self.contacts[number];
            match self.connect_to(contact).await {
                Ok(stream) => {
                    if number != current {
                        warn!(
                            "{contact} accepts forwarded connections instead of {}",
                            self.contacts[current]
                        );
                        self.current.store(number, Ordering::Relaxed);
                    }
                    return Ok(stream);
                }
                Err(error) => failed = Some(io::Error::new(error.kind(), format!("{contact}: {error}"))),
            }
        }
        Err(failed.unwrap_or_else(|| io::ErrorKind::NotConnected.into()))
    }

    /// Connects to a contact point.
    async fn connect_to(&self, contact: &str) -> io::Result<Box<dyn Upstream>> {
        let connecting = async {
            let stream = TcpStream::connect(contact).await?;
            stream.set_nodelay(true)?;
            keep_alive(&stream);
            let Some(tls) = &self.tls else { return Ok(Box::new(stream) as Box<dyn Upstream>) };
            let host = contact.rsplit_once(':').map_or(contact, |(host, _)| host);
            let stream = tls.connect(host.trim_matches(['[', ']']), stream).await?;
            Ok(Box::new(stream) as Box<dyn Upstream>)
        };
        let connected = tokio::time::timeout(CONNECT_MAX, connecting).await;
        connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Returns whether a text is `host:port`.
fn is_contact(text: &str) -> bool {
    let is_of_host = |char: char| char.is_ascii_alphanumeric() || "-._:[]%".contains(char);
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && host.chars().all(is_of_host) && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

/// Enables TCP keepalive, which detects a peer that has gone without closing the connection: a
/// forwarded connection can be idle for any time.
pub(crate) fn keep_alive(stream: &TcpStream) {
    let kept = sockopt::set_socket_keepalive(stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, KEEPALIVE_CHECKS));
    if let Err(error) = kept {
        debug!("cannot set SO_KEEPALIVE: {error}");
    }
}

/// Serves a connection that begins while the server forwards, until one side ends it.
pub(crate) async fn serve(
    client: Socket,
    peer: SocketAddr,
    to: &Forwarding,
    config: &ServerConfig,
    permit: &ConnectionPermit,
    stopped: watch::Receiver<bool>,
) {
    match serve_with(client, Vec::new(), to, config, permit, stopped).await {
        Ok(()) => debug!("the forwarded connection of {peer} ended"),
        Err(error) => warn!("the connection of {peer} cannot be forwarded to {}: {error}", to.target()),
    }
}

/// Forwards a connection whose client has already sent `first`.
///
/// # Errors
/// If the target cannot be connected to. What breaks the connection later is no error.
pub(crate) async fn serve_with(
    client: Socket,
    first: Vec<u8>,
    to: &Forwarding,
    config: &ServerConfig,
    permit: &ConnectionPermit,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    keep_alive(client.tcp());
    let _socket = permit.second_socket().map_err(io::Error::other)?;
    let upstream = to.connect().await?;
    if let Err(error) = passing::pass_on(client, upstream, first, config, &mut stopped).await {
        debug!("a forwarded connection broke: {error}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn targets_are_bounded_lists_of_hosts_with_ports() {
        for target in ["10.0.0.1:9042", "[::1]:9042", "a.example:1,b-c:65535"] {
            assert_eq!(Forwarding::new(target, None).unwrap().target(), target);
        }
        let long = format!("{}:9042", "a".repeat(TARGET_LENGTH_MAX));
        for target in ["", "host", ":9042", "host:0", "host:65536", "a:1,", "a:1, b:2", "a\"b:1", &long] {
            assert!(Forwarding::new(target, None).is_err(), "{target:.40}");
        }
    }

    #[tokio::test]
    async fn tcp_detects_that_a_silent_peer_has_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(!sockopt::socket_keepalive(&stream).unwrap());
        keep_alive(&stream);
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), KEEPALIVE_IDLE);
    }

    #[tokio::test]
    async fn new_connections_go_to_another_contact_point_when_one_is_down() {
        let (first, second) = (
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        );
        let addresses = [&first, &second].map(|listener| listener.local_addr().unwrap());
        let to = Forwarding::new(&format!("{},{}", addresses[0], addresses[1]), None).unwrap();
        to.connect().await.unwrap();
        first.accept().await.unwrap();
        drop(first);
        to.connect().await.unwrap();
        second.accept().await.unwrap();
        let first = TcpListener::bind(addresses[0]).await.unwrap();
        to.connect().await.unwrap();
        second.accept().await.unwrap();
        drop(second);
        to.connect().await.unwrap();
        first.accept().await.unwrap();
        drop(first);
        let failed = to.connect().await.err().unwrap();
        assert!(failed.to_string().contains("127.0.0.1:"), "{failed}");
    }
}
