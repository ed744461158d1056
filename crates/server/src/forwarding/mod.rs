//! Forwarding: the connections of clients passed on to another cluster.
//!
//! A connection that begins while the server forwards is passed on byte by byte ([`pass_on`]): its
//! client negotiates version, compression and login with the target. Memory is bounded, because no
//! side is read from while the other does not receive.

mod marker;
mod proxy;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use cassette_tls::ClientTls;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

pub use marker::Marker;
pub(crate) use marker::Recording;
pub use proxy::Proxy;

/// Maximum time to connect to the target.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long responses are still passed on when the server stops.
const LINGER: Duration = Duration::from_secs(1);
const BUFFER_LENGTH: usize = 64 << 10;

/// Where requests are forwarded to.
pub struct Forwarding {
    /// `host:port`.
    target: String,
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
    /// Forwards to `target`, `host:port`; with TLS if `tls` is present.
    pub fn new(target: String, tls: Option<ClientTls>) -> Arc<Self> {
        Arc::new(Self { target, tls })
    }

    /// Returns `host:port`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Connects to the target.
    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Upstream>> {
        let connecting = async {
            let stream = TcpStream::connect(&self.target).await?;
            stream.set_nodelay(true)?;
            let Some(tls) = &self.tls else { return Ok(Box::new(stream) as Box<dyn Upstream>) };
            let host = self.target.rsplit_once(':').map_or(&*self.target, |(host, _)| host);
            let stream = tls.connect(host.trim_matches(['[', ']']), stream).await?;
            Ok(Box::new(stream) as Box<dyn Upstream>)
        };
        let connected = tokio::time::timeout(CONNECT_MAX, connecting).await;
        connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Passes bytes on until their source ends.
pub(crate) async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_LENGTH];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
        to.flush().await?;
    }
}

/// Passes bytes on in both directions until one of them ends, or the server stops: then responses
/// are passed on a little longer.
pub(crate) async fn pass_on(
    client: impl AsyncRead + AsyncWrite + Send + Unpin,
    upstream: impl AsyncRead + AsyncWrite + Send + Unpin,
    stopped: &mut watch::Receiver<bool>,
) -> io::Result<()> {
    let (mut client_in, mut client_out) = tokio::io::split(client);
    let (mut upstream_in, mut upstream_out) = tokio::io::split(upstream);
    let requests = copy(&mut client_in, &mut upstream_out);
    let responses = copy(&mut upstream_in, &mut client_out);
    join(requests, responses, stopped).await
}

/// Runs both directions of a connection to their ends.
pub(crate) async fn join(
    requests: impl Future<Output = io::Result<()>>,
    responses: impl Future<Output = io::Result<()>>,
    stopped: &mut watch::Receiver<bool>,
) -> io::Result<()> {
    tokio::pin!(responses);
    tokio::select! {
        // The target has ended the connection: no request can be answered any more.
        ended = &mut responses => return ended,
        ended = requests => ended?,
        // An error means that the server was dropped.
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
    match tokio::time::timeout(LINGER, responses).await {
        Ok(ended) => ended,
        Err(_) => Ok(()),
    }
}
