//! Sockets that accept connections, and what is known about the clients.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cassette_tls::{Socket, Tls};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A listening socket.
pub struct Listener {
    socket: ListeningSocket,
    tls: Option<Tls>,
    handshake_failed: Arc<dyn Fn() + Send + Sync>,
}

enum ListeningSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Accepts connections over a Unix socket, whose file permissions decide who can connect.
    pub fn unix(listener: UnixListener) -> Self {
        Self { socket: ListeningSocket::Unix(listener), tls: None, handshake_failed: Arc::new(|| ()) }
    }

    /// Encrypts connections over TCP. Calls `failed` for each handshake that fails.
    #[must_use]
    pub fn with_tls(self, tls: Tls, failed: impl Fn() + Send + Sync + 'static) -> Self {
        Self { tls: Some(tls), handshake_failed: Arc::new(failed), ..self }
    }

    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        let stream = match &self.socket {
            ListeningSocket::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                // Without it small responses are only delayed.
                let _ = stream.set_nodelay(true);
                AcceptedStream::Tcp { stream, address, tls: self.tls.clone() }
            }
            ListeningSocket::Unix(listener) => AcceptedStream::Unix(listener.accept().await?.0),
        };
        Ok(Accepted { stream, handshake_failed: Arc::clone(&self.handshake_failed) })
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self { socket: ListeningSocket::Tcp(listener), tls: None, handshake_failed: Arc::new(|| ()) }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("tls", &self.tls).finish_non_exhaustive()
    }
}

/// An accepted connection, before the handshake of TLS.
pub(crate) struct Accepted {
    stream: AcceptedStream,
    handshake_failed: Arc<dyn Fn() + Send + Sync>,
}

enum AcceptedStream {
    Tcp { stream: TcpStream, address: SocketAddr, tls: Option<Tls> },
    Unix(UnixStream),
}

impl Accepted {
    /// Carries out the handshake, if the listener encrypts connections. `None` if it failed.
    pub async fn established(self, wait_max: Duration) -> Option<(Stream, Peer)> {
        let (stream, address, tls) = match self.stream {
            AcceptedStream::Unix(stream) => return Some((Stream::Unix(stream), Peer::default())),
            AcceptedStream::Tcp { stream, address, tls } => (stream, Some(address.ip()), tls),
        };
        let Some(tls) = tls else {
            return Some((Stream::Tcp(Socket::Plain(stream)), Peer { address, ..Peer::default() }));
        };
        match tokio::time::timeout(wait_max, tls.accept(stream)).await {
            Ok(Ok(socket)) => {
                let certificate = socket.client_certificate().map(Arc::from);
                let is_encrypted = socket.is_encrypted();
                Some((Stream::Tcp(socket), Peer { address, is_encrypted, certificate }))
            }
            failed => {
                (self.handshake_failed)();
                let why = failed.map(|done| done.err().map(|error| error.to_string()));
                tracing::debug!(?address, ?why, "a TLS handshake for HTTP has failed");
                None
            }
        }
    }
}

/// What is known about the client of a connection.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// Its address; `None` over a Unix socket.
    pub address: Option<IpAddr>,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
    /// The certificate that it has proved to own, in DER.
    pub certificate: Option<Arc<[u8]>>,
}

/// A connection of either kind.
pub(crate) enum Stream {
    Tcp(Socket),
    Unix(UnixStream),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(Socket::Plain(stream)) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Tcp(Socket::Encrypted(stream)) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(Socket::Plain(stream)) => stream.is_write_vectored(),
            Self::Tcp(Socket::Encrypted(stream)) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
