//! A connection to the storage port of a node, after the handshake.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cassette_client::{ConnectError, Socket, explained};
use cassette_tls::ClientTls;

use super::handshake::{ACCEPT_LENGTH, Accept, initiate};
use super::messages::Message;

/// Maximum time in which a node must accept bytes, or continue a handshake.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Maximum length of a message from a node.
const MESSAGE_LENGTH_MAX: usize = 4 << 20;

/// A connection.
pub struct Connection {
    socket: Socket,
    /// This end, as nodes know it.
    pub from: SocketAddr,
    input: Vec<u8>,
}

impl Connection {
    /// Connects to a node.
    ///
    /// # Errors
    /// `Rejected` if it is no node that accepts these versions, or a certificate is invalid.
    pub fn open(address: SocketAddr, tls: Option<&ClientTls>) -> Result<Self, ConnectError> {
        let failed = |error: io::Error| {
            let hint = match error.kind() {
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                    "; the node may require TLS (--internode-tls-ca), or not allow this host"
                }
                _ => "",
            };
            ConnectError::Failed(format!("handshake with {address}: {}{hint}", explained(error)))
        };
        let mut socket = Socket::connect(&address.to_string(), tls, SILENCE_MAX)?;
        // Not the port of the connection, for each of which nodes would keep metrics.
        let from = SocketAddr::new(socket.local_address().map_err(failed)?.ip(), 0);
        socket.write_all(&initiate(from)).and_then(|()| socket.flush()).map_err(failed)?;
        let mut bytes = [0; ACCEPT_LENGTH];
        socket.read_exact(&mut bytes).map_err(failed)?;
        Accept::decode(bytes).map_err(|reason| ConnectError::Rejected(format!("{address}: {reason}")))?;
        Ok(Self { socket, from, input: Vec::new() })
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes).map_err(explained)
    }

    /// Sends what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.socket.flush().map_err(explained)
    }

    /// Waits for a message; `None` if there is none in time.
    pub fn receive(&mut self, wait: Duration) -> io::Result<Option<Message>> {
        let deadline = Instant::now() + wait;
        let invalid = |reason| io::Error::new(ErrorKind::InvalidData, reason);
        loop {
            if let Some((message, length)) = Message::decode(&self.input).map_err(invalid)? {
                self.input.drain(..length);
                return Ok(Some(message));
            }
            if self.input.len() > MESSAGE_LENGTH_MAX {
                return Err(invalid("a message is too long".to_owned()));
            }
            // A timeout of zero would be none.
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.socket.set_read_timeout(left)?;
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer) {
                Ok(0) => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "the node closed the connection"));
                }
                Ok(length) => self.input.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() >= deadline {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(explained(error)),
            }
        }
    }
}
