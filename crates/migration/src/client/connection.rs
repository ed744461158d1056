//! A connection with a few requests in flight.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cassette_protocol::request::{AuthResponse, Startup};
use cassette_protocol::response::{Error, ErrorDetail};
use cassette_protocol::{Decoder, Direction, Encoder, Request, Response, Version};

use super::{ClusterSettings, Failure};
use crate::socket::{Socket, explained};

/// Maximum time without data from a server that owes responses.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Maximum length of a message from the server.
const MESSAGE_LENGTH_MAX: usize = 256 << 20;
const READ_LENGTH: usize = 256 << 10;

/// A connection after the handshake.
pub struct Connection {
    stream: Socket,
    encoder: Encoder,
    decoder: Decoder,
    input: BytesMut,
    scratch: Box<[u8]>,
    /// Whether the server has asked for a login.
    pub requires_login: bool,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// `Retry` if the network fails, `Refused` if the server rejects the client, or the client the
    /// server's certificate.
    pub fn open(address: &str, settings: &ClusterSettings) -> Result<Self, Failure> {
        let mut connection = Self {
            stream: Socket::connect(address, settings.tls.as_ref(), SILENCE_MAX)?,
            encoder: Encoder::new(Version::V5),
            decoder: Decoder::new(Direction::Response, MESSAGE_LENGTH_MAX),
            input: BytesMut::new(),
            scratch: vec![0; READ_LENGTH].into(),
            requires_login: false,
        };
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let options = vec![
            option(Startup::CQL_VERSION, "3.0.0"),
            option(Startup::DRIVER_NAME, "cassette move"),
            option(Startup::DRIVER_VERSION, env!("CARGO_PKG_VERSION")),
        ];
        let answer = connection.call(&Request::Startup(Startup { options }))?;
        // The response to STARTUP is a plain envelope; later ones are framed.
        connection.encoder.fix_version(Version::V5, None);
        connection.decoder.fix_version(Version::V5, None);
        match answer {
            Response::Ready => Ok(connection),
            Response::Authenticate(_) => {
                connection.log_in(settings)?;
                connection.requires_login = true;
                Ok(connection)
            }
            Response::Error(Error { detail: ErrorDetail::ProtocolError, message }) => {
                Err(Failure::Refused(format!(
                    "expected version 5 of the native protocol, which Cassandra has since 4.0: {message}"
                )))
            }
            other => Err(super::refusal(other)),
        }
    }

    /// SASL PLAIN, RFC 4616: an empty authorization identity, the user, the password.
    fn log_in(&mut self, settings: &ClusterSettings) -> Result<(), Failure> {
        let Some((user, password)) = &settings.credentials else {
            return Err(Failure::Refused("it requires a user and a password file".to_owned()));
        };
        let token = Some(Bytes::from(format!("\0{user}\0{password}")));
        match self.call(&Request::AuthResponse(AuthResponse { token }))? {
            Response::AuthSuccess(_) => Ok(()),
            other => Err(super::refusal(other)),
        }
    }

    /// Sends a request and waits for its response.
    pub fn call(&mut self, request: &Request) -> Result<Response, Failure> {
        let mut answers = self.call_all(std::slice::from_ref(request))?;
        answers.pop().ok_or_else(|| Failure::Retry("no response".to_owned()))
    }

    /// Sends requests together and waits for all responses, which are returned in order. Their
    /// number must be small: responses are not read before all is sent.
    ///
    /// # Errors
    /// `Retry` if the connection fails, which must not be used any more.
    pub fn call_all(&mut self, requests: &[Request]) -> Result<Vec<Response>, Failure> {
        self.exchange(requests).map_err(|error| Failure::Retry(error.to_string()))
    }

    fn exchange(&mut self, requests: &[Request]) -> io::Result<Vec<Response>> {
        for (stream, request) in requests.iter().enumerate() {
            self.encoder.request(i16::try_from(stream).unwrap_or(i16::MAX), request, false);
        }
        self.encoder.seal();
        self.stream.write_all(self.encoder.bytes()).map_err(explained)?;
        self.stream.flush()?;
        self.encoder.clear(READ_LENGTH);
        let mut answers: Vec<Option<Response>> = requests.iter().map(|_| None).collect();
        let mut missing = requests.len();
        while missing > 0 {
            let rejected = |error: &dyn std::fmt::Display| {
                io::Error::new(ErrorKind::InvalidData, format!("invalid response: {error}"))
            };
            match self.decoder.next(&mut self.input).map_err(|e| rejected(&e.error))? {
                None => self.receive()?,
                Some(envelope) => {
                    let stream = envelope.header.stream;
                    let (answer, _) = Response::decode(&envelope).map_err(|e| rejected(&e))?;
                    let slot = usize::try_from(stream).ok().and_then(|stream| answers.get_mut(stream));
                    let slot = slot.ok_or_else(|| rejected(&"no request has its number"))?;
                    missing -= usize::from(slot.replace(answer).is_none());
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn receive(&mut self) -> io::Result<()> {
        match self.stream.read(&mut self.scratch) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
            Ok(length) => {
                self.input.extend_from_slice(&self.scratch[..length]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(io::Error::new(
                ErrorKind::TimedOut,
                format!("no response for {} s", SILENCE_MAX.as_secs()),
            )),
            Err(error) => Err(explained(error)),
        }
    }
}
