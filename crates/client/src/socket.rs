//! Connections over TCP, with TLS if it is configured.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use cassette_tls::rustls::pki_types::ServerName;
use cassette_tls::rustls::{ClientConnection, StreamOwned};
use cassette_tls::{ClientTls, explain};

const CONNECT_MAX: Duration = Duration::from_secs(10);

/// An open connection.
pub enum Socket {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Why a connection could not be opened, as a text for users.
#[derive(Debug)]
pub enum ConnectError {
    /// The network or the peer failed: it may succeed later.
    Failed(String),
    /// The peer's certificate or its name is invalid, or it rejects the client's.
    Rejected(String),
}

impl Socket {
    /// Connects to `host:port`. Reads and writes fail after `silence_max` without progress.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        address: &str,
        tls: Option<&ClientTls>,
        silence_max: Duration,
    ) -> Result<Self, ConnectError> {
        let failed = |error: io::Error| ConnectError::Failed(format!("connecting to {address}: {error}"));
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        let mut connected = None;
        for resolved in address.to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&resolved, CONNECT_MAX) {
                Ok(stream) => {
                    connected = Some(stream);
                    break;
                }
                Err(error) => last = error,
            }
        }
        let mut stream = connected.ok_or_else(|| failed(last))?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(silence_max)).map_err(failed)?;
        stream.set_write_timeout(Some(silence_max)).map_err(failed)?;
        let Some(tls) = tls else { return Ok(Self::Plain(stream)) };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| ConnectError::Rejected(format!("{host} is not a name for TLS: {error}")))?;
        let mut session = ClientConnection::new(tls.config().clone(), name)
            .map_err(|error| ConnectError::Rejected(explain(&error)))?;
        while session.is_handshaking() {
            if let Err(error) = session.complete_io(&mut stream) {
                return Err(match error.get_ref().and_then(|error| error.downcast_ref()) {
                    Some(cause) => ConnectError::Rejected(explain(cause)),
                    None => failed(error),
                });
            }
        }
        Ok(Self::Encrypted(Box::new(StreamOwned::new(session, stream))))
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Encrypted(stream) => stream.get_ref(),
        }
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    /// If the socket is broken.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.tcp().local_addr()
    }

    /// Changes how long a read waits.
    ///
    /// # Errors
    /// If the socket is broken.
    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.tcp().set_read_timeout(Some(timeout))
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}

/// Describes an alert of the peer, which can follow the handshake.
pub fn explained(error: io::Error) -> io::Error {
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(cause) => io::Error::other(explain(cause)),
        None => error,
    }
}
