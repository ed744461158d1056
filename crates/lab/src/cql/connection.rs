//! A connection to a server. Its owner decides which messages it carries.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use cassette_protocol::request::{AuthResponse, Prepare, Query, Startup};
use cassette_protocol::response::{Error, Prepared};
use cassette_protocol::{
    Decoder, Direction, Encoder, Envelope, QueryParameters, Request, Response, ResultMessage,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::CqlSettings;
use super::stream::Stream;
use crate::LabError;

/// Text of a result cell, or null.
pub(super) type Text = Option<String>;

/// Maximum time without data from a server that owes responses.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Maximum length of a message from the server.
const MESSAGE_LENGTH_MAX: usize = 256 << 20;
/// Maximum length of one read.
const READ_LENGTH: usize = 256 << 10;

/// A connection after STARTUP.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    contact: String,
    encoder: Encoder,
    /// Number of the encoder's bytes that were sent.
    sent: usize,
    decoder: Decoder,
    input: BytesMut,
    scratch: Box<[u8]>,
}

impl Connection {
    /// Connects to `contact` and negotiates `settings`.
    pub fn open(contact: &str, settings: &CqlSettings) -> Result<Self, LabError> {
        let attempt = |error| LabError::io(format!("connecting to {contact}"), error);
        let stream = Stream::connect(contact, settings.tls.as_ref(), SILENCE_MAX).map_err(attempt)?;
        let mut connection = Self {
            stream,
            contact: contact.into(),
            encoder: Encoder::new(settings.version),
            sent: 0,
            decoder: Decoder::new(Direction::Response, MESSAGE_LENGTH_MAX),
            input: BytesMut::new(),
            scratch: vec![0; READ_LENGTH].into(),
        };
        connection.start(settings)?;
        Ok(connection)
    }

    fn start(&mut self, settings: &CqlSettings) -> Result<(), LabError> {
        let option = |name: &str, value: &str| (name.to_string(), value.to_string());
        let options = vec![
            option(Startup::CQL_VERSION, "3.0.0"),
            option(Startup::DRIVER_NAME, "cassette lab"),
            option(Startup::DRIVER_VERSION, env!("CARGO_PKG_VERSION")),
        ];
        let answer = self.request("STARTUP", &Request::Startup(Startup { options }))?;
        // The response to STARTUP is a plain envelope; later ones are framed, if the version uses
        // frames.
        self.encoder.fix_version(settings.version, None);
        self.decoder.fix_version(settings.version, None);
        match answer {
            Response::Ready => Ok(()),
            Response::Authenticate(authenticate) => self.authenticate(settings, &authenticate.authenticator),
            other => Err(self.unexpected("STARTUP", &other)),
        }
    }

    /// SASL PLAIN, RFC 4616: an empty authorization identity, the user, the password.
    fn authenticate(&mut self, settings: &CqlSettings, authenticator: &str) -> Result<(), LabError> {
        let Some((user, password)) = &settings.credentials else {
            return Err(self.refused("STARTUP", format!("{authenticator} requires a user and a password")));
        };
        let token = Bytes::from(format!("\0{user}\0{password}"));
        let request = Request::AuthResponse(AuthResponse { token: Some(token) });
        match self.request("authentication", &request)? {
            Response::AuthSuccess(_) => Ok(()),
            other => Err(self.unexpected("authentication", &other)),
        }
    }

    /// Executes `query` and returns its rows as text, cells of other types as far as they are
    /// UTF-8.
    pub fn query(&mut self, query: &str) -> Result<Vec<Vec<Text>>, LabError> {
        let parameters = QueryParameters::default();
        let request = Request::Query(Query { query: query.into(), parameters });
        let text = |cell: Option<&[u8]>| cell.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        match self.request(query, &request)? {
            Response::Result(ResultMessage::Rows(rows)) => {
                let rows = rows.decode(None).map_err(|error| self.refused(query, error))?;
                Ok(rows.iter().map(|row| row.map(text).collect()).collect())
            }
            Response::Result(_) => Ok(Vec::new()),
            other => Err(self.unexpected(query, &other)),
        }
    }

    /// Prepares `query`.
    pub fn prepare(&mut self, query: &str) -> Result<Prepared, LabError> {
        let request = Request::Prepare(Prepare { query: query.into(), keyspace: None });
        match self.request(query, &request)? {
            Response::Result(ResultMessage::Prepared(prepared)) => Ok(prepared),
            other => Err(self.unexpected(query, &other)),
        }
    }

    /// Sends a request and waits for its response, with nothing else in flight. An error of the
    /// server is an error.
    fn request(&mut self, attempt: &str, request: &Request) -> Result<Response, LabError> {
        match self.call(attempt, request)? {
            Response::Error(Error { message, detail }) => {
                Err(self.refused(attempt, format!("{message} ({})", error_class(&detail))))
            }
            response => Ok(response),
        }
    }

    /// Sends a request and waits for its response, with nothing else in flight.
    pub fn call(&mut self, attempt: &str, request: &Request) -> Result<Response, LabError> {
        self.encoder.request(0, request, false);
        let answer = self.answer().map_err(|error| self.refused(attempt, error))?;
        let (response, _) = Response::decode(&answer).map_err(|error| self.refused(attempt, error))?;
        Ok(response)
    }

    fn answer(&mut self) -> io::Result<Envelope> {
        loop {
            if let Some(envelope) = self.next_envelope()? {
                return Ok(envelope);
            }
            self.exchange(None)?;
        }
    }

    /// Returns the error for a response of another kind.
    pub fn unexpected(&self, attempt: &str, response: &Response) -> LabError {
        self.refused(attempt, format!("unexpected response {}", response.opcode()))
    }

    fn refused(&self, attempt: &str, reason: impl std::fmt::Display) -> LabError {
        LabError::engine(&self.contact, attempt, reason)
    }

    /// Returns the address of the server.
    pub fn contact(&self) -> &str {
        &self.contact
    }

    /// Returns the encoder of requests; [`exchange`](Self::exchange) sends them.
    pub fn encoder(&mut self) -> &mut Encoder {
        &mut self.encoder
    }

    /// Sends encoded requests and receives responses. Blocks until data was sent or received, or
    /// until `until`.
    ///
    /// Sending never blocks while the server waits for the client to receive its responses.
    pub fn exchange(&mut self, until: Option<Instant>) -> io::Result<()> {
        self.send()?;
        let unsent = self.encoder.pending_length() > 0 || self.stream.has_unsent();
        if unsent || until.is_some() {
            let left = until.map_or(SILENCE_MAX, |until| until.saturating_duration_since(Instant::now()));
            let mut wanted = PollFlags::IN;
            wanted.set(PollFlags::OUT, unsent);
            let mut polled = [PollFd::from_borrowed_fd(self.stream.as_fd(), wanted)];
            // Any time beyond the schedule is good enough, and this one always fits.
            let timeout = Timespec::try_from(left.min(SILENCE_MAX)).unwrap_or_default();
            if poll(&mut polled, Some(&timeout))? == 0 && until.is_none() {
                return Err(silent());
            }
            let ready = polled[0].revents();
            if ready.contains(PollFlags::OUT) {
                self.send()?;
            }
            if !ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                return Ok(());
            }
        }
        match self.stream.receive(&mut self.scratch, &mut self.input) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(silent()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends as much of the encoded data as the socket accepts at once.
    fn send(&mut self) -> io::Result<()> {
        self.encoder.seal();
        while self.sent < self.encoder.bytes().len() {
            match self.stream.send(&self.encoder.bytes()[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.encoder.clear(usize::MAX);
        self.sent = 0;
        self.stream.flush()
    }

    /// Removes the next received message.
    pub fn next_envelope(&mut self) -> io::Result<Option<Envelope>> {
        let rejected = |rejected: cassette_protocol::Rejected| {
            io::Error::new(io::ErrorKind::InvalidData, rejected.error.to_string())
        };
        self.decoder.next(&mut self.input).map_err(rejected)
    }
}

fn silent() -> io::Error {
    let text = format!("no response for {} s", SILENCE_MAX.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// Returns the class by which failures are counted: the specification's name of the error.
pub(super) fn error_class(detail: &cassette_protocol::response::ErrorDetail) -> String {
    let shown = format!("{detail:?}");
    shown.split([' ', '{']).next().unwrap_or_default().to_string()
}
