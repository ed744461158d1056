//! A connection with requests in flight.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use cassette_protocol::request::{AuthResponse, Startup};
use cassette_protocol::response::{Error, ErrorDetail};
use cassette_protocol::{Decoder, Direction, Encoder, Prelude, Request, Response, Version};
use cassette_tls::ClientTls;

use crate::socket::{ConnectError, Socket, explained};

/// Maximum length of a message from the server.
const MESSAGE_LENGTH_MAX: usize = 256 << 20;
const READ_LENGTH: usize = 256 << 10;
/// How often a wait looks whether it is interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// How to open a connection.
#[derive(Clone, Debug)]
pub struct ConnectionOptions<'a> {
    /// The name of this client for the server's lists of clients.
    pub client_name: &'a str,
    /// The versions of the protocol to try, in order.
    pub versions: &'a [Version],
    /// User and password.
    pub credentials: Option<&'a (String, String)>,
    /// Encrypts the connection. `None`: without TLS.
    pub tls: Option<&'a ClientTls>,
    /// Maximum time without data from a server that owes responses.
    pub silence_max: Duration,
    /// Ends waits for responses when it is true. `None`: they are not interrupted.
    pub interrupt: Option<&'a Arc<AtomicBool>>,
}

/// Why a connection could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The network or the server failed: it may succeed later.
    Failed(String),
    /// A certificate or a name is invalid.
    Rejected(String),
    /// The server supports none of the versions of the protocol.
    Version(String),
    /// The server requires a login and there are no credentials; the name of its authenticator.
    LoginRequired(String),
    /// The server's error.
    Server(Error),
}

impl From<ConnectError> for OpenError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Failed(reason) => Self::Failed(reason),
            ConnectError::Rejected(reason) => Self::Rejected(reason),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(reason) | Self::Rejected(reason) | Self::Version(reason) => f.write_str(reason),
            Self::LoginRequired(authenticator) => {
                write!(f, "the server requires a login ({authenticator}): expected a user and a password")
            }
            Self::Server(error) => f.write_str(&error.message),
        }
    }
}

impl std::error::Error for OpenError {}

/// A connection after the handshake.
pub struct Connection {
    stream: Socket,
    encoder: Encoder,
    decoder: Decoder,
    input: BytesMut,
    scratch: Box<[u8]>,
    silence_max: Duration,
    interrupt: Option<Arc<AtomicBool>>,
    /// Whether the server has asked for a login.
    pub requires_login: bool,
}

impl Connection {
    /// Connects to `host:port` and logs in.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(address: &str, options: &ConnectionOptions<'_>) -> Result<Self, OpenError> {
        let mut refused = String::from("there is no version of the protocol to try");
        for version in options.versions {
            match Self::open_with(*version, address, options) {
                Err(OpenError::Version(reason)) => refused = reason,
                done => return done,
            }
        }
        Err(OpenError::Version(refused))
    }

    fn open_with(
        version: Version,
        address: &str,
        options: &ConnectionOptions<'_>,
    ) -> Result<Self, OpenError> {
        let wait =
            if options.interrupt.is_some() { LOOK.min(options.silence_max) } else { options.silence_max };
        let stream = Socket::connect(address, options.tls, options.silence_max)?;
        stream.set_read_timeout(wait)?;
        let mut connection = Self {
            stream,
            encoder: Encoder::new(version),
            decoder: Decoder::new(Direction::Response, MESSAGE_LENGTH_MAX),
            input: BytesMut::new(),
            scratch: vec![0; READ_LENGTH].into(),
            silence_max: options.silence_max,
            interrupt: options.interrupt.cloned(),
            requires_login: false,
        };
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let startup = vec![
            option(Startup::CQL_VERSION, "3.0.0"),
            option(Startup::DRIVER_NAME, options.client_name),
            option(Startup::DRIVER_VERSION, env!("CARGO_PKG_VERSION")),
        ];
        let (answer, _) = connection.call(&Request::Startup(Startup { options: startup }), false)?;
        // The response to STARTUP is a plain envelope; later ones are framed.
        connection.encoder.fix_version(version, None);
        connection.decoder.fix_version(version, None);
        match answer {
            Response::Ready => Ok(connection),
            Response::Authenticate(authenticate) => {
                connection.log_in(options, &authenticate.authenticator)?;
                connection.requires_login = true;
                Ok(connection)
            }
            Response::Error(Error { detail: ErrorDetail::ProtocolError, message }) => {
                Err(OpenError::Version(message))
            }
            other => Err(unexpected(other)),
        }
    }

    /// SASL PLAIN, RFC 4616: an empty authorization identity, the user, the password.
    fn log_in(&mut self, options: &ConnectionOptions<'_>, authenticator: &str) -> Result<(), OpenError> {
        let Some((user, password)) = options.credentials else {
            return Err(OpenError::LoginRequired(authenticator.to_owned()));
        };
        let token = Some(Bytes::from(format!("\0{user}\0{password}")));
        match self.call(&Request::AuthResponse(AuthResponse { token }), false)? {
            (Response::AuthSuccess(_), _) => Ok(()),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Returns the version of the protocol.
    pub fn version(&self) -> Version {
        self.encoder.version()
    }

    /// Sends a request and waits for its response. With `trace`, the server records its execution.
    ///
    /// # Errors
    /// If the connection fails, which must not be used any more.
    pub fn call(&mut self, request: &Request, trace: bool) -> io::Result<(Response, Prelude)> {
        self.send(0, request, trace);
        self.flush()?;
        loop {
            let (stream, answer, prelude) = self.receive()?;
            if stream == 0 {
                return Ok((answer, prelude));
            }
        }
    }

    /// Sends requests together and waits for all responses, which are returned in order. Their
    /// number must be small: responses are not read before all is sent.
    ///
    /// # Errors
    /// If the connection fails, which must not be used any more.
    pub fn call_all(&mut self, requests: &[Request]) -> io::Result<Vec<Response>> {
        for (stream, request) in requests.iter().enumerate() {
            self.send(i16::try_from(stream).unwrap_or(i16::MAX), request, false);
        }
        self.flush()?;
        let mut answers: Vec<Option<Response>> = requests.iter().map(|_| None).collect();
        let mut missing = requests.len();
        while missing > 0 {
            let (stream, answer, _) = self.receive()?;
            let slot = usize::try_from(stream).ok().and_then(|stream| answers.get_mut(stream));
            let slot = slot.ok_or_else(|| invalid(&"no request has its number"))?;
            missing -= usize::from(slot.replace(answer).is_none());
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Encodes a request with the number `stream`, which identifies its response and must not be in
    /// use. [`flush`](Self::flush) sends it.
    pub fn send(&mut self, stream: i16, request: &Request, trace: bool) {
        self.encoder.request(stream, request, trace);
    }

    /// Sends the encoded requests.
    ///
    /// # Errors
    /// If the connection fails, which must not be used any more.
    pub fn flush(&mut self) -> io::Result<()> {
        self.encoder.seal();
        self.stream.write_all(self.encoder.bytes()).map_err(explained)?;
        self.stream.flush()?;
        self.encoder.clear(READ_LENGTH);
        Ok(())
    }

    /// Waits for the next response, and returns the number of its request.
    ///
    /// # Errors
    /// If the connection fails, which must not be used any more.
    pub fn receive(&mut self) -> io::Result<(i16, Response, Prelude)> {
        loop {
            if let Some(answer) = self.received()? {
                return Ok(answer);
            }
            self.read()?;
        }
    }

    /// Returns the next response if it has been read from the socket.
    ///
    /// # Errors
    /// If it is invalid; the connection must not be used any more.
    pub fn received(&mut self) -> io::Result<Option<(i16, Response, Prelude)>> {
        match self.decoder.next(&mut self.input).map_err(|rejected| invalid(&rejected.error))? {
            None => Ok(None),
            Some(envelope) => {
                let (answer, prelude) = Response::decode(&envelope).map_err(|error| invalid(&error))?;
                Ok(Some((envelope.header.stream, answer, prelude)))
            }
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let began = Instant::now();
        loop {
            match self.stream.read(&mut self.scratch) {
                Ok(0) => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
                }
                Ok(length) => {
                    self.input.extend_from_slice(&self.scratch[..length]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.interrupt.as_ref().is_some_and(|interrupt| interrupt.load(Ordering::Relaxed)) {
                        return Err(io::Error::new(ErrorKind::Interrupted, "interrupted"));
                    }
                    if self.interrupt.is_none() || began.elapsed() >= self.silence_max {
                        let text = format!("no response for {} s", self.silence_max.as_secs());
                        return Err(io::Error::new(ErrorKind::TimedOut, text));
                    }
                }
                Err(error) => return Err(explained(error)),
            }
        }
    }
}

fn invalid(error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("invalid response: {error}"))
}

fn unexpected(answer: Response) -> OpenError {
    match answer {
        Response::Error(error) => OpenError::Server(error),
        other => OpenError::Failed(format!("unexpected response {}", other.opcode())),
    }
}
