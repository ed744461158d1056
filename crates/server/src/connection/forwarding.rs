//! The rest of a connection whose requests are forwarded from now on.
//!
//! The connection to the target gets the same version, compression and keyspace. Responses are
//! passed on byte by byte. Requests are passed on message by message, because the connection has
//! received some already. Stream ids stay the same, as one connection becomes one.
//!
//! A connection that has registered for events ends instead: its client must read the list of nodes
//! again. So does one whose client has logged in: the target must verify the login itself.

use std::io;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use cassette_protocol::request::{Query, Startup};
use cassette_protocol::response::{Error, ErrorDetail, Response};
use cassette_protocol::{
    Compression, Decoded, Decoder, Encoder, Envelope, Prelude, QueryParameters, Request, Version,
};
use cassette_rows::types::quote_identifier;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tracing::{debug, warn};

use super::handshake::Stage;
use super::{Connection, INPUT_LENGTH, INPUT_ROOM_MIN, MESSAGE_STALL_MAX, UNCHARGED_LENGTH};
use crate::Backend;
use crate::forwarding::passing::{join, responses, send};
use crate::forwarding::target::{TargetConnection, accepted, invalid};
use crate::forwarding::watchdog::Watchdog;
use crate::forwarding::{Forwarding, keep_alive, serve_with};
use crate::limits::{Charge, ConnectionPermit};

/// The request from which on a connection is forwarded.
pub(super) struct Forward {
    pub to: Arc<Forwarding>,
    pub first: Envelope,
    /// Of the memory of the request.
    pub charge: Option<Charge>,
}

impl<B: Backend> Connection<B> {
    /// Forwards a request and all later ones.
    pub(super) async fn forward(mut self, forward: Forward) -> io::Result<()> {
        // Requests before it have been executed here.
        while let Some(done) = self.jobs.next().await {
            self.answer(done).await?;
        }
        self.send().await?;
        let Forward { to, first, charge } = forward;
        if matches!(self.stage, Stage::Established) {
            drop(charge);
            return self.forward_from_start(&to, first).await;
        }
        if self.shared.config.authenticator.is_some() || !self.events.wanted.is_empty() {
            let reason = format!("the server forwards to {}: connect again", to.target());
            let error = Response::Error(Error::new(ErrorDetail::IsBootstrapping, reason));
            self.encoder.response(first.header.stream, &error, &Prelude::default());
            self.send().await?;
            return self.stream.shutdown().await;
        }
        keep_alive(self.stream.tcp());
        let cannot = |error: &dyn std::fmt::Display| {
            warn!("cannot forward the connection of {} to {}: {error}", self.peer, to.target());
        };
        let _socket =
            self.permit.second_socket().inspect_err(|refused| cannot(refused)).map_err(io::Error::other)?;
        let mut upstream = self.settings().connect(&to).await.inspect_err(|error| cannot(error))?;
        while let Some(envelope) = upstream.next()? {
            self.encoder.envelope(&envelope);
        }
        self.send().await?;
        upstream.encoder.envelope(&first);
        drop(first);
        debug!("the connection of {} is forwarded to {}", self.peer, to.target());
        let Self { stream, input, decoder, permit, mut stopped, registered, shared, .. } = self;
        let (mut client_in, mut client_out) = tokio::io::split(stream);
        let TargetConnection { stream, encoder, input: received, .. } = upstream;
        let (mut upstream_in, mut upstream_out) = tokio::io::split(stream);
        let watchdog = Watchdog::let_in(&shared.config);
        let mut requests = Requests { decoder, input, encoder, permit: &permit, watchdog: &watchdog };
        let requests = async {
            requests.send(&mut upstream_out).await?;
            drop(charge);
            requests.pass_on(&mut client_in, upstream_out).await
        };
        let responses = async {
            client_out.write_all(&received).await?;
            responses(&mut upstream_in, &mut client_out, &watchdog).await
        };
        let ended = join(requests, responses, &watchdog, &mut stopped).await;
        // The connection is listed until here.
        drop(registered);
        ended
    }

    /// Forwards a connection that has not begun its handshake.
    async fn forward_from_start(self, to: &Forwarding, first: Envelope) -> io::Result<()> {
        let mut encoder = Encoder::new(first.header.version);
        encoder.envelope(&first);
        let received = [encoder.bytes(), &self.input[..]].concat();
        drop(first);
        let Self { stream, shared, permit, stopped, peer, .. } = self;
        let served = serve_with(stream, received, to, &shared.config, &permit, stopped).await;
        served
            .inspect_err(|error| warn!("cannot forward the connection of {peer} to {}: {error}", to.target()))
    }

    fn settings(&self) -> ClientSettings {
        let without = || Startup { options: vec![(Startup::CQL_VERSION.to_owned(), "3.0.0".to_owned())] };
        ClientSettings {
            version: self.encoder.version(),
            compression: self.agreed_compression,
            startup: self.startup.clone().unwrap_or_else(without),
            keyspace: B::keyspace(&self.session),
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
    length_max: usize,
}

impl ClientSettings {
    /// Connects to the target in the same way.
    async fn connect(self, to: &Forwarding) -> io::Result<TargetConnection> {
        let Self { version, compression, startup, keyspace, length_max } = self;
        let mut upstream = TargetConnection::new(to.connect().await?, version, length_max);
        if let Response::Authenticate(_) = accepted(upstream.start_up(startup, compression).await?)? {
            return Err(io::Error::other("it requires a login, which this server does not"));
        }
        if let Some(keyspace) = keyspace {
            let query = format!("USE {}", quote_identifier(&keyspace));
            let parameters = QueryParameters::default();
            upstream.call(Request::Query(Query { query: query.into(), parameters })).await?;
        }
        Ok(upstream)
    }
}

/// The requests of a forwarded connection.
struct Requests<'p> {
    decoder: Decoder,
    input: BytesMut,
    encoder: Encoder,
    permit: &'p ConnectionPermit,
    watchdog: &'p Watchdog,
}

impl Requests<'_> {
    /// Passes requests on until the client ends. Long ones are charged to the memory of requests,
    /// from before they are received until the target has received them.
    async fn pass_on(
        &mut self,
        client: &mut (impl AsyncRead + Unpin),
        mut upstream: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let mut charge: Option<Charge> = None;
        let mut input_max = INPUT_LENGTH;
        loop {
            let memory = charge.as_ref().map_or(UNCHARGED_LENGTH, Charge::bytes);
            match self.decoder.next_within(&mut self.input, memory) {
                Ok(Decoded::Envelope(envelope)) => {
                    if let Some(charge) = charge.take() {
                        self.pass_long(&mut upstream, envelope, charge).await?;
                        input_max = INPUT_LENGTH;
                        continue;
                    }
                    self.encoder.envelope(&envelope);
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
                        self.input = copied(&self.input, input);
                    }
                    continue;
                }
                Err(rejected) => return Err(invalid(&rejected.error)),
            }
            self.send(&mut upstream).await?;
            let room = input_max.saturating_sub(self.input.len()).max(INPUT_ROOM_MIN);
            self.input.reserve(room.min(INPUT_LENGTH));
            let mut limited = (&mut self.input).limit(room);
            let read = client.read_buf(&mut limited);
            let length = if charge.is_some() {
                // Others wait for the reserved memory.
                let read = tokio::time::timeout(MESSAGE_STALL_MAX, read).await;
                read.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?
            } else {
                read.await?
            };
            self.watchdog.requests(&[]);
            if length == 0 {
                return upstream.shutdown().await;
            }
        }
    }

    /// Sends a charged request, and releases its memory.
    async fn pass_long(
        &mut self,
        upstream: &mut (impl AsyncWrite + Unpin),
        envelope: Envelope,
        charge: Charge,
    ) -> io::Result<()> {
        // The encoded copy exists beside the envelope for a moment only.
        let copy = self.permit.requests().charge_anyway(envelope.body.len());
        self.encoder.envelope(&envelope);
        drop(envelope);
        // The following input is moved out of the memory of this request.
        self.input = copied(&self.input, INPUT_LENGTH.max(self.input.len()));
        drop(charge);
        self.send(upstream).await?;
        drop(copy);
        Ok(())
    }

    async fn send(&mut self, upstream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        self.encoder.seal();
        send(upstream, self.encoder.bytes()).await?;
        self.encoder.clear(INPUT_LENGTH);
        Ok(())
    }
}

/// Returns a copy of the input with this capacity.
fn copied(input: &[u8], capacity: usize) -> BytesMut {
    let mut copied = BytesMut::with_capacity(capacity);
    copied.put_slice(input);
    copied
}

#[cfg(test)]
mod tests {
    use cassette_protocol::Direction;

    use super::*;
    use crate::ServerConfig;
    use crate::limits::Limits;

    const LENGTH: usize = 8 << 20;

    fn query(length: usize) -> Request {
        Request::Query(Query { query: "x".repeat(length).into(), parameters: QueryParameters::default() })
    }

    #[tokio::test]
    async fn memory_of_long_requests_is_charged_until_they_are_passed_on_and_then_released() {
        for version in [Version::V3, Version::V4, Version::V5] {
            let config = ServerConfig::default();
            let permit = Limits::new(&config).admit([127, 0, 0, 1].into()).unwrap();
            let watchdog = Watchdog::let_in(&config);
            let side = |direction| {
                let (mut encoder, mut decoder) = (Encoder::new(version), Decoder::new(direction, 2 * LENGTH));
                encoder.fix_version(version, None);
                decoder.fix_version(version, None);
                (encoder, decoder)
            };
            let (encoder, decoder) = side(Direction::Request);
            let input = BytesMut::new();
            let mut requests = Requests { decoder, input, encoder, permit: &permit, watchdog: &watchdog };
            let (mut client, mut decoding) = side(Direction::Request);
            for length in [10, LENGTH, 20] {
                client.request(0, &query(length), false);
            }
            client.seal();
            let (upstream, mut target) = tokio::io::duplex(1000);
            let mut received = BytesMut::new();
            let mut bytes = client.bytes();
            {
                let passing = requests.pass_on(&mut bytes, upstream);
                let receiving = async {
                    // The long request is on its way, and has not arrived.
                    while received.len() < 10_000 {
                        target.read_buf(&mut received).await.unwrap();
                    }
                    let usage = permit.requests().usage();
                    while target.read_buf(&mut received).await.unwrap() > 0 {}
                    usage
                };
                let (passed, usage) = tokio::join!(passing, receiving);
                passed.unwrap();
                let used: usize =
                    usage.split(' ').nth(1).unwrap().split('/').next().unwrap().parse().unwrap();
                assert!(used >= LENGTH, "{version}: {usage}");
            }
            assert!(permit.requests().usage().starts_with("Endpoint: 0/"), "{}", permit.requests().usage());
            assert!(
                requests.input.capacity() <= 2 * INPUT_LENGTH,
                "{version}: {}",
                requests.input.capacity()
            );
            for length in [10, LENGTH, 20] {
                let envelope = decoding.next(&mut received).unwrap().expect("a request");
                assert_eq!(Request::decode(&envelope).unwrap().request, query(length));
            }
        }
    }
}
