//! The bytes of a connection, encrypted or not.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use bytes::BytesMut;
use cassette_tls::rustls::ClientConnection;
use cassette_tls::rustls::pki_types::ServerName;
use cassette_tls::{ClientTls, explain};
use rustix::net::{SendFlags, send};

/// Maximum bytes that are encrypted and not sent yet.
const UNSENT_MAX: usize = 1 << 20;

/// A connected socket.
#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
    session: Option<Box<ClientConnection>>,
}

impl Stream {
    /// Connects to `contact`, `HOST:PORT`, and carries out the handshake of TLS. No later read
    /// blocks for longer than `read_wait_max`.
    pub fn connect(contact: &str, tls: Option<&ClientTls>, read_wait_max: Duration) -> io::Result<Self> {
        let mut socket = TcpStream::connect(contact)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(read_wait_max))?;
        let Some(tls) = tls else { return Ok(Self { socket, session: None }) };
        let host = contact.rsplit_once(':').map_or(contact, |(host, _)| host).trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(tls.config().clone(), name);
        let mut session = session.map_err(|error| io::Error::other(explain(&error)))?;
        session.set_buffer_limit(Some(UNSENT_MAX));
        session.complete_io(&mut socket).map_err(explained)?;
        Ok(Self { socket, session: Some(Box::new(session)) })
    }

    /// Sends as much as the socket accepts at once, and returns how much.
    ///
    /// # Errors
    /// `WouldBlock` if it accepts nothing.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = &mut self.session else { return Unblocked(&self.socket).write(bytes) };
        let accepted = session.writer().write(bytes)?;
        self.flush()?;
        if accepted == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(accepted) }
    }

    /// Sends encrypted bytes as far as the socket accepts them at once.
    pub fn flush(&mut self) -> io::Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        while session.wants_write() {
            match session.write_tls(&mut Unblocked(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns whether encrypted bytes wait for the socket.
    pub fn has_unsent(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Reads from the socket once, and appends all that can be decrypted by then: nothing, if a
    /// record is incomplete. Blocks until there is something to read. `scratch` is overwritten.
    ///
    /// # Errors
    /// `UnexpectedEof` at the end of the connection, `WouldBlock` after the timeout.
    pub fn receive(&mut self, scratch: &mut [u8], input: &mut BytesMut) -> io::Result<()> {
        let closed = || io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection");
        let Some(session) = &mut self.session else {
            let length = self.socket.read(scratch)?;
            input.extend_from_slice(&scratch[..length]);
            return if length == 0 { Err(closed()) } else { Ok(()) };
        };
        if session.read_tls(&mut self.socket)? == 0 {
            return Err(closed());
        }
        session.process_new_packets().map_err(|error| io::Error::other(explain(&error)))?;
        loop {
            match session.reader().read(scratch) {
                Ok(0) => return Err(closed()),
                Ok(length) => input.extend_from_slice(&scratch[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Writes to a socket without waiting for the peer.
struct Unblocked<'a>(&'a TcpStream);

impl Write for Unblocked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Describes the failure of a handshake.
fn explained(error: io::Error) -> io::Error {
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(cause) => io::Error::other(explain(cause)),
        None => error,
    }
}
