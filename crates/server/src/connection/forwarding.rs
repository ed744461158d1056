//! The rest of a connection whose requests are forwarded from now on.
//!
//! The connection to the target gets the same version, compression, keyspace and events. Responses
//! are passed on byte by byte. Requests are passed on message by message, because the connection
//! has received some already. Stream ids stay the same, as one connection becomes one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use cassette_protocol::request::{EventType, Query, Register, Startup};
use cassette_protocol::response::{Error, ErrorDetail};
use cassette_protocol::{
    Compression, Decoded, Decoder, Direction, Encoder, Envelope, Prelude, QueryParameters, Request, Response,
    Version,
};
use cassette_rows::types::quote_identifier;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tracing::{debug, warn};

use super::{Connection, INPUT_LENGTH, INPUT_ROOM_MIN, UNCHARGED_LENGTH};
use crate::Backend;
use crate::forwarding::{Forwarding, Upstream, copy, join};
use crate::limits::{Charge, ConnectionPermit};

/// Maximum time for each response of the target's handshake.
const RESPONSE_MAX: Duration = Duration::from_secs(10);
/// How long the target may not receive.
const STALL_MAX: Duration = Duration::from_secs(30);

impl<B: Backend> Connection<B> {
    /// Forwards `first` and all later requests.
    pub(super) async fn forward(mut self, to: Arc<Forwarding>, first: Envelope) -> io::Result<()> {
        // Requests before it have been executed here.
        while let Some(done) = self.jobs.next().await {
            self.answer(done).await?;
        }
        self.send().await?;
        if self.shared.config.authenticator.is_some() {
            // The target must verify the login itself.
            let reason = format!("the server forwards to {}: connect again to log in there", to.target());
            let error = Response::Error(Error::new(ErrorDetail::IsBootstrapping, reason));
            self.encoder.response(first.header.stream, &error, &Prelude::default());
            self.send().await?;
            return self.stream.shutdown().await;
        }
        let mut upstream = match self.settings().connect(&to).await {
            Ok(upstream) => upstream,
            Err(error) => {
                warn!("cannot forward the connection of {} to {}: {error}", self.peer, to.target());
                return Err(error);
            }
        };
        while let Some(envelope) = upstream.next()? {
            self.encoder.envelope(&envelope);
        }
        self.send().await?;
        upstream.encoder.envelope(&first);
        drop(first);
        debug!("the connection of {} is forwarded to {}", self.peer, to.target());
        let Self { stream, input, decoder, permit, mut stopped, registered, .. } = self;
        let (mut client_in, mut client_out) = tokio::io::split(stream);
        let TargetConnection { stream, encoder, input: received, .. } = upstream;
        let (mut upstream_in, upstream_out) = tokio::io::split(stream);
        let requests = Requests { decoder, input, encoder, permit: &permit };
        let responses = async {
            client_out.write_all(&received).await?;
            copy(&mut upstream_in, &mut client_out).await
        };
        let ended = join(requests.pass_on(&mut client_in, upstream_out), responses, &mut stopped).await;
        // The connection is listed until here.
        drop(registered);
        ended
    }

    fn settings(&self) -> ClientSettings {
        let without = || Startup { options: vec![(Startup::CQL_VERSION.to_owned(), "3.0.0".to_owned())] };
        ClientSettings {
            version: self.encoder.version(),
            compression: self.agreed_compression,
            startup: self.startup.clone().unwrap_or_else(without),
            keyspace: B::keyspace(&self.session),
            event_types: self.events.wanted.clone(),
            length_max: self.shared.config.max_frame_size,
        }
    }
}

/// How the client has connected to this server.
struct ClientSettings {
    version: Version,
    compression: Option<Compression>,
    startup: Startup,
    keyspace: Option<String>,
    event_types: Vec<EventType>,
    length_max: usize,
}

impl ClientSettings {
    /// Connects to the target in the same way.
    async fn connect(self, to: &Forwarding) -> io::Result<TargetConnection> {
        let Self { version, compression, startup, keyspace, event_types, length_max } = self;
        let mut upstream = TargetConnection {
            stream: to.connect().await?,
            encoder: Encoder::new(version),
            decoder: Decoder::new(Direction::Response, length_max),
            input: BytesMut::new(),
        };
        if version < Version::V5 {
            // Cassandra compresses the response to STARTUP, too.
            upstream.decoder.fix_version(version, compression);
        }
        upstream.call(Request::Startup(startup)).await?;
        upstream.encoder.fix_version(version, compression);
        upstream.decoder.fix_version(version, compression);
        if let Some(keyspace) = keyspace {
            let query = format!("USE {}", quote_identifier(&keyspace));
            let parameters = QueryParameters::default();
            upstream.call(Request::Query(Query { query: query.into(), parameters })).await?;
        }
        if !event_types.is_empty() {
            upstream.call(Request::Register(Register { event_types })).await?;
        }
        Ok(upstream)
    }
}

/// A connection to the target during the handshake.
struct TargetConnection {
    stream: Box<dyn Upstream>,
    encoder: Encoder,
    decoder: Decoder,
    input: BytesMut,
}

impl TargetConnection {
    /// Sends a request and waits for its response, which must not be an error.
    async fn call(&mut self, request: Request) -> io::Result<()> {
        let exchange = async {
            self.encoder.request(0, &request, false);
            self.encoder.seal();
            self.stream.write_all(self.encoder.bytes()).await?;
            self.stream.flush().await?;
            self.encoder.clear(INPUT_LENGTH);
            loop {
                if let Some(envelope) = self.next()? {
                    return Response::decode(&envelope).map_err(|error| invalid(&error));
                }
                self.input.reserve(INPUT_ROOM_MIN);
                if self.stream.read_buf(&mut self.input).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        };
        let (response, _) = tokio::time::timeout(RESPONSE_MAX, exchange)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        match response {
            Response::Error(Error { message, .. }) => Err(io::Error::other(message)),
            Response::Authenticate(_) => {
                Err(io::Error::other("it requires a login, which this server does not"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the next message that has arrived.
    fn next(&mut self) -> io::Result<Option<Envelope>> {
        self.decoder.next(&mut self.input).map_err(|rejected| invalid(&rejected.error))
    }
}

fn invalid(error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

/// The requests of a forwarded connection.
struct Requests<'p> {
    decoder: Decoder,
    input: BytesMut,
    encoder: Encoder,
    permit: &'p ConnectionPermit,
}

impl Requests<'_> {
    /// Passes requests on until the client ends. Long ones are charged to the memory of requests.
    async fn pass_on(
        mut self,
        client: &mut (impl AsyncRead + Unpin),
        mut upstream: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let mut charge: Option<Charge> = None;
        let mut input_max = INPUT_LENGTH;
        loop {
            let memory = charge.as_ref().map_or(UNCHARGED_LENGTH, Charge::bytes);
            match self.decoder.next_within(&mut self.input, memory) {
                Ok(Decoded::Envelope(envelope)) => {
                    self.encoder.envelope(&envelope);
                    drop(envelope);
                    if charge.is_some() {
                        self.send(&mut upstream).await?;
                        (charge, input_max) = (None, INPUT_LENGTH);
                    }
                    if self.encoder.pending_length() < INPUT_LENGTH {
                        continue;
                    }
                }
                Ok(Decoded::Incomplete) => {}
                Ok(Decoded::NeedsMemory { memory, input }) => {
                    // First releases a smaller reservation, for which others may wait.
                    charge = None;
                    charge.replace(self.permit.requests().clone().charge(memory).await);
                    input_max = input_max.max(input);
                    if input > self.input.capacity() {
                        let mut whole = BytesMut::with_capacity(input);
                        whole.put_slice(&self.input);
                        self.input = whole;
                    }
                    continue;
                }
                Err(rejected) => return Err(invalid(&rejected.error)),
            }
            self.send(&mut upstream).await?;
            let room = input_max.saturating_sub(self.input.len()).max(INPUT_ROOM_MIN);
            self.input.reserve(room.min(INPUT_LENGTH));
            if client.read_buf(&mut (&mut self.input).limit(room)).await? == 0 {
                return upstream.shutdown().await;
            }
        }
    }

    async fn send(&mut self, upstream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        self.encoder.seal();
        let sent = async {
            upstream.write_all(self.encoder.bytes()).await?;
            upstream.flush().await
        };
        tokio::time::timeout(STALL_MAX, sent)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        self.encoder.clear(INPUT_LENGTH);
        Ok(())
    }
}
