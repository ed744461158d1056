//! A connection that carries one JSON message a line.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::message::reason;

/// Maximum time until the peer acknowledges data, and the time without data after which its
/// existence is checked: a machine that disappears closes no connection.
const PEER_LOST_AFTER: Duration = Duration::from_secs(30);
/// Interval between checks of a silent peer.
const CHECK_EVERY: Duration = Duration::from_secs(10);
/// Length of one read.
const READ_LENGTH: usize = 64 << 10;

/// A connection to a peer.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    /// Received bytes that were not yet returned as messages.
    input: Vec<u8>,
    /// Length of the start of `input` that has no end of a line.
    scanned: usize,
    line_length_max: usize,
    received_at: Instant,
}

impl Link {
    /// Takes over a connection whose peer sends lines of at most `line_length_max` bytes.
    pub fn new(stream: TcpStream, line_length_max: usize) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PEER_LOST_AFTER))?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, PEER_LOST_AFTER)?;
        sockopt::set_tcp_keepintvl(&stream, CHECK_EVERY)?;
        sockopt::set_tcp_keepcnt(&stream, 3)?;
        sockopt::set_tcp_user_timeout(&stream, PEER_LOST_AFTER.as_millis() as u32)?;
        let received_at = Instant::now();
        Ok(Self { stream, input: Vec::new(), scanned: 0, line_length_max, received_at })
    }

    /// Changes the maximum length of the peer's lines.
    pub fn set_line_length_max(&mut self, line_length_max: usize) {
        self.line_length_max = line_length_max;
    }

    /// Returns when the peer's last bytes were received, also those of an incomplete message.
    pub fn received_at(&self) -> Instant {
        self.received_at
    }

    /// Sends a message.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stream.write_all(&line).map_err(lost)
    }

    /// Receives the next message; `None` if there is none until `until`.
    ///
    /// # Errors
    /// If the connection is closed or broken, or a line is too long or no such message. No further
    /// message can be received then.
    pub fn receive<T: DeserializeOwned>(&mut self, until: Instant) -> io::Result<Option<T>> {
        let mut scratch = [0; READ_LENGTH];
        loop {
            let end = self.input[self.scanned..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end.map(|end| self.scanned + end) {
                let message = serde_json::from_slice(&self.input[..end]);
                self.input.drain(..=end);
                self.scanned = 0;
                return message
                    .map(Some)
                    .map_err(|error| invalid(reason(&format!("invalid message: {error}"))));
            }
            self.scanned = self.input.len();
            if self.input.len() > self.line_length_max {
                return Err(invalid(format!("a message longer than {} bytes", self.line_length_max)));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // Shorter timeouts than a millisecond would be none.
            self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            // No byte is read beyond the maximum.
            let room = (self.line_length_max + 1 - self.input.len()).min(READ_LENGTH);
            match self.stream.read(&mut scratch[..room]) {
                Ok(0) => return Err(lost(ErrorKind::UnexpectedEof.into())),
                Ok(length) => {
                    self.received_at = Instant::now();
                    self.input.extend_from_slice(&scratch[..length]);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    // The end of a connection to a lost peer is a timeout, too.
                    if error.raw_os_error() == Some(rustix::io::Errno::TIMEDOUT.raw_os_error()) {
                        return Err(lost(error));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
    }

    /// Waits up to `time` for the peer to close the connection, and ignores what it still sends.
    /// Without that, unread data would make the system discard the last message to the peer.
    pub fn linger(&mut self, time: Duration) {
        let until = Instant::now() + time;
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        let mut scratch = [0; READ_LENGTH];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero()
                || self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1)))).is_err()
            {
                return;
            }
            if !matches!(self.stream.read(&mut scratch), Ok(1..)) {
                return;
            }
        }
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message)
}

/// Describes the end of a connection.
fn lost(error: io::Error) -> io::Error {
    let message = match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "the connection was closed".to_owned()
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("the peer has not answered for {} s", PEER_LOST_AFTER.as_secs())
        }
        _ => return error,
    };
    io::Error::new(error.kind(), message)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair(line_length_max: usize) -> (Link, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Link::new(listener.accept().unwrap().0, line_length_max).unwrap(), peer)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn messages_arrive_one_by_one_however_they_are_split() {
        let (mut link, mut peer) = pair(100);
        peer.write_all(b"1\n2\n\"hal").unwrap();
        assert_eq!(link.receive::<u32>(soon()).unwrap(), Some(1));
        assert_eq!(link.receive::<u32>(soon()).unwrap(), Some(2));
        assert_eq!(link.receive::<String>(Instant::now() + Duration::from_millis(5)).unwrap(), None);
        peer.write_all(b"ves\"\n").unwrap();
        assert_eq!(link.receive::<String>(soon()).unwrap().as_deref(), Some("halves"));
        link.send(&vec!["x\ny"]).unwrap();
        let mut line = [0; 9];
        peer.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"[\"x\\ny\"]\n");
    }

    #[test]
    fn long_and_malformed_lines_and_closed_connections_are_errors() {
        let (mut link, mut peer) = pair(10);
        peer.write_all(&[b'1'; 1000]).unwrap();
        let error = link.receive::<u32>(soon()).unwrap_err();
        assert!(error.to_string().contains("longer than 10 bytes"), "{error}");
        assert!(link.input.len() <= 11, "what is too long is not read");
        let (mut link, mut peer) = pair(10);
        peer.write_all(b"{\xff}\n").unwrap();
        assert!(link.receive::<u32>(soon()).unwrap_err().to_string().contains("invalid message"));
        let (mut link, peer) = pair(10);
        drop(peer);
        assert!(link.receive::<u32>(soon()).unwrap_err().to_string().contains("was closed"));
    }
}
