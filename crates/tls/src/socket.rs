//! A client's connection: over TCP alone, or encrypted.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::options::{protocol_name, suite_name};

/// How a connection is encrypted, in Java's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encryption {
    /// The version of the protocol.
    pub protocol: String,
    /// The cipher suite.
    pub cipher_suite: String,
}

/// A stream of bytes from and to a client.
#[derive(Debug)]
pub enum Socket {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Returns the connection below any encryption.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Encrypted(stream) => stream.get_ref().0,
        }
    }

    /// Returns whether what is written has to be flushed.
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Encrypted(_))
    }

    /// Returns how the connection is encrypted, if it is.
    pub fn encryption(&self) -> Option<Encryption> {
        let Self::Encrypted(stream) = self else { return None };
        let session = stream.get_ref().1;
        Some(Encryption {
            protocol: protocol_name(session.protocol_version()?),
            cipher_suite: suite_name(session.negotiated_cipher_suite()?),
        })
    }

    /// Returns the certificate that the client has presented, in DER. It has been verified.
    pub fn client_certificate(&self) -> Option<&[u8]> {
        let Self::Encrypted(stream) = self else { return None };
        stream.get_ref().1.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// Writes what can be written without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if nothing can, or the bytes have to be encrypted.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.try_write(bytes),
            Self::Encrypted(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Encrypted(stream) => match Pin::new(stream).poll_read(cx, buffer) {
                // Many clients close the connection without announcing it. A truncated message is
                // noticed by its length.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Poll::Ready(Ok(()))
                }
                read => read,
            },
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Encrypted(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
