//! Connections to the target on which this server is the client: until the handshake is complete.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use cassette_protocol::request::Startup;
use cassette_protocol::response::Error;
use cassette_protocol::{Compression, Decoder, Direction, Encoder, Envelope, Request, Response, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Upstream;

/// Maximum time for each response.
const RESPONSE_MAX: Duration = Duration::from_secs(10);
/// The number of bytes read at a time.
const READ_LENGTH: usize = 4 << 10;
/// The capacity of the output that is kept.
const OUTPUT_LENGTH: usize = 64 << 10;

/// A connection to the target.
pub(crate) struct TargetConnection {
    pub stream: Box<dyn Upstream>,
    pub encoder: Encoder,
    decoder: Decoder,
    /// What has arrived, and is not decoded.
    pub input: BytesMut,
}

impl TargetConnection {
    /// Speaks `version`, in messages of at most `length_max` bytes.
    pub fn new(stream: Box<dyn Upstream>, version: Version, length_max: usize) -> Self {
        Self {
            stream,
            encoder: Encoder::new(version),
            decoder: Decoder::new(Direction::Response, length_max),
            input: BytesMut::new(),
        }
    }

    /// Sends STARTUP. The response can be an error, or the request to log in.
    pub async fn start_up(
        &mut self,
        startup: Startup,
        compression: Option<Compression>,
    ) -> io::Result<Response> {
        let version = self.encoder.version();
        if version < Version::V5 {
            // Cassandra compresses the response to STARTUP, too.
            self.decoder.fix_version(version, compression);
        }
        let response = self.ask(Request::Startup(startup)).await?;
        self.encoder.fix_version(version, compression);
        self.decoder.fix_version(version, compression);
        Ok(response)
    }

    /// Sends a request whose response must not be an error.
    pub async fn call(&mut self, request: Request) -> io::Result<Response> {
        accepted(self.ask(request).await?)
    }

    /// Sends a request and waits for its response.
    pub async fn ask(&mut self, request: Request) -> io::Result<Response> {
        let exchange = async {
            self.encoder.request(0, &request, false);
            self.encoder.seal();
            self.stream.write_all(self.encoder.bytes()).await?;
            self.stream.flush().await?;
            self.encoder.clear(OUTPUT_LENGTH);
            loop {
                if let Some(envelope) = self.next()? {
                    let (response, _) = Response::decode(&envelope).map_err(|error| invalid(&error))?;
                    return Ok(response);
                }
                self.input.reserve(READ_LENGTH);
                if self.stream.read_buf(&mut self.input).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        };
        let exchanged = tokio::time::timeout(RESPONSE_MAX, exchange).await;
        exchanged.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Returns the next message that has arrived.
    pub fn next(&mut self) -> io::Result<Option<Envelope>> {
        self.decoder.next(&mut self.input).map_err(|rejected| invalid(&rejected.error))
    }
}

/// Fails if the response is an error.
pub(crate) fn accepted(response: Response) -> io::Result<Response> {
    match response {
        Response::Error(Error { message, .. }) => Err(io::Error::other(message)),
        response => Ok(response),
    }
}

/// Returns the error of bytes that are not those of the protocol.
pub(crate) fn invalid(error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}
