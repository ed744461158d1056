//! A session: one SSTable to one node.

use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cassette_client::ConnectError;
use cassette_rows::StorageError;
use cassette_tls::ClientTls;
use uuid::Uuid;

use crate::streaming::connection::Connection;
use crate::streaming::header::FileHeader;
use crate::streaming::messages::{self, KEEP_ALIVE_MESSAGE, Message};
use crate::streaming::outgoing::{Outgoing, SendError};

/// Pause between two KEEP_ALIVE.
const KEEP_ALIVE_PAUSE: Duration = Duration::from_secs(20);
/// Maximum time until a node has prepared a session.
const PREPARE_MAX: Duration = Duration::from_secs(120);
/// Maximum time until a node has written the last bytes of a file.
const WRITE_MAX: Duration = Duration::from_secs(600);
/// Maximum time until a node has added a file to its table, which includes its indexes and views.
/// KEEP_ALIVE finds out earlier if the node has failed.
const COMPLETE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Maximum time until the reason of a broken connection arrives on the other one.
const REASON_MAX: Duration = Duration::from_secs(5);
const BUFFER: usize = 64 << 10;

/// Why a session ended without success. Nothing of its file remains at the node.
#[derive(Debug)]
pub enum Failure {
    /// The network or the node failed: a later session may succeed.
    Lost(String),
    /// The node has ended the session; its log has the reason.
    Failed,
    /// It never accepts connections of this client.
    Rejected(String),
    /// The SSTable is damaged, or cannot be read.
    Source(StorageError),
    /// The caller has ended it.
    Cancelled,
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Failed(reason) => Self::Lost(reason),
            ConnectError::Rejected(reason) => Self::Rejected(reason),
        }
    }
}

/// What a session needs besides its file.
pub struct SessionSettings<'s> {
    pub node: SocketAddr,
    pub tls: Option<&'s ClientTls>,
    /// The id of the table at the node.
    pub table: Uuid,
    /// Called before each piece with its length. Returns `false` to end the session.
    pub before_piece: &'s dyn Fn(usize) -> bool,
}

/// Sends a file. Returns when the node has added it to its table, durably.
pub fn send(outgoing: &Outgoing<'_>, settings: &SessionSettings<'_>) -> Result<(), Failure> {
    let mut control = Control::open(settings)?;
    control.prepare(settings.table, outgoing)?;
    // Stays open until the end: nodes fail sessions whose connections close.
    let mut file = Connection::open(settings.node, settings.tls)?;
    if let Err(error) = control.transfer(&mut file, outgoing, settings) {
        return Err(match error {
            SendError::Source(error) => Failure::Source(error),
            SendError::Network(error) if error.kind() == io::ErrorKind::Interrupted => Failure::Cancelled,
            SendError::Network(error) => control.reason(&error),
        });
    }
    control.wait_until_received(settings)?;
    match control.next(COMPLETE_MAX, "add the SSTable to its table")? {
        Message::Complete => Ok(()),
        other => Err(unexpected(other)),
    }
}

/// Checks that a connection to the node can be opened. No session is started.
pub fn probe(node: SocketAddr, tls: Option<&ClientTls>) -> Result<(), ConnectError> {
    Connection::open(node, tls).map(|_| ())
}

/// The control connection.
struct Control {
    connection: Connection,
    plan: Uuid,
    last_sent: Instant,
}

fn lost(error: &io::Error) -> Failure {
    Failure::Lost(error.to_string())
}

fn unexpected(message: Message) -> Failure {
    Failure::Lost(format!("unexpected message of the node: {message:?}"))
}

impl Control {
    fn open(settings: &SessionSettings<'_>) -> Result<Self, Failure> {
        let connection = Connection::open(settings.node, settings.tls)?;
        Ok(Self { connection, plan: plan_id(), last_sent: Instant::now() })
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.last_sent = Instant::now();
        self.connection.send(bytes)?;
        self.connection.flush()
    }

    fn keep_alive(&mut self) -> io::Result<()> {
        if self.last_sent.elapsed() < KEEP_ALIVE_PAUSE {
            return Ok(());
        }
        self.send(&KEEP_ALIVE_MESSAGE)
    }

    /// Waits for the next message.
    fn next(&mut self, wait: Duration, what: &str) -> Result<Message, Failure> {
        let deadline = Instant::now() + wait;
        loop {
            self.keep_alive().map_err(|error| lost(&error))?;
            match self.connection.receive(KEEP_ALIVE_PAUSE.min(wait)).map_err(|error| lost(&error))? {
                Some(Message::KeepAlive) => {}
                Some(Message::Failed) => return Err(Failure::Failed),
                Some(message) => return Ok(message),
                None if Instant::now() < deadline => {}
                None => {
                    return Err(Failure::Lost(format!(
                        "the node did not {what} within {} s",
                        wait.as_secs()
                    )));
                }
            }
        }
    }

    fn prepare(&mut self, table: Uuid, outgoing: &Outgoing<'_>) -> Result<(), Failure> {
        let mut bytes = messages::init(self.connection.from, self.plan);
        bytes.extend(messages::prepare(table, outgoing.files(), outgoing.length()));
        self.send(&bytes).map_err(|error| lost(&error))?;
        match self.next(PREPARE_MAX, "prepare the session")? {
            Message::Prepared { files: 0 } => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    fn transfer(
        &mut self,
        file: &mut Connection,
        outgoing: &Outgoing<'_>,
        settings: &SessionSettings<'_>,
    ) -> Result<(), SendError> {
        let from = self.connection.from;
        let header = FileHeader { table: settings.table, from, plan: self.plan, sequence: 0 };
        let mut out = BufWriter::with_capacity(BUFFER, Sender(file));
        outgoing.write_header(&mut out, &header)?;
        outgoing.write_body(&mut |piece| {
            if !(settings.before_piece)(piece.len()) {
                return Err(io::Error::from(io::ErrorKind::Interrupted).into());
            }
            self.keep_alive()?;
            Ok(out.write_all(piece)?)
        })?;
        Ok(out.flush()?)
    }

    fn wait_until_received(&mut self, settings: &SessionSettings<'_>) -> Result<(), Failure> {
        match self.next(WRITE_MAX, "write the file")? {
            Message::Received { table, sequence: 0 } if table == settings.table => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Returns why the file connection failed: a node reports a failed session on this one.
    fn reason(&mut self, error: &io::Error) -> Failure {
        match self.next(REASON_MAX, "report a reason") {
            Err(Failure::Failed) => Failure::Failed,
            _ => lost(error),
        }
    }
}

struct Sender<'c>(&'c mut Connection);

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns a new id in the form of the time-based UUIDs that nodes use for plans.
fn plan_id() -> Uuid {
    let mut bytes = *Uuid::new_v4().as_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x10;
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests;
