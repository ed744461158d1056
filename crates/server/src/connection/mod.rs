//! One connection: reads what has come, works it off, sends the answers in one piece, and so on.
//!
//! 1. Requests are cut off the input and executed one after the other on this task, as long as they need only memory.
//!    Their results go straight into the output buffer.
//! 2. A request that would wait for a disk goes to a thread of its own and comes back through `jobs`.
//! 3. When the input is used up, or the output has grown long, the output is sent. As long as the client does not take
//!    it, nothing more is read, so a slow reader holds up only itself.

mod execution;
mod handshake;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;
use cassette_protocol::{
    Compression, Decoder, Direction, Encoder, Envelope, Prelude, Rejected, Request, Response, Version,
    response::Event,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{broadcast, watch},
};
use tracing::{debug, warn};

use crate::{
    Backend,
    figures::Registered,
    limits::{Charge, ConnectionPermit},
    server::Shared,
};
use execution::{Done, Jobs};
use handshake::Stage;

/// How much is read at a time, and how much input a connection holds without being charged for it.
const INPUT_LENGTH: usize = 64 * 1024;

/// Room that the input must have left before the next read: less would make for many small ones.
const INPUT_ROOM_MIN: usize = 4 * 1024;

/// Output is sent at the latest when it is this long, and the buffer is not kept longer than this.
const OUTPUT_LENGTH: usize = 256 * 1024;

/// The longest message before the client is let in: an authentication token is far shorter.
const MESSAGE_LENGTH_MAX_BEFORE_READY: usize = 128 * 1024;

/// How long a client that sent garbage has to read what is said about it.
const LINGER: Duration = Duration::from_secs(1);

/// Cassandra's `consecutive_message_errors_threshold`: with more messages refused in a row, the rest of what a v5
/// client sends is taken for garbage too.
const CONSECUTIVE_ERRORS_MAX: usize = 1;

pub(crate) struct Connection<B: Backend> {
    shared: Arc<Shared<B>>,
    peer: SocketAddr,
    permit: ConnectionPermit,
    session: Arc<B::Session>,
    registered: Registered,
    stage: Stage,
    /// The compression that STARTUP asked for.
    agreed_compression: Option<Compression>,
    /// Whether the client prefers an Overloaded error to waiting.
    throw_on_overload: bool,

    stream: TcpStream,
    input: BytesMut,
    /// For input beyond [`INPUT_LENGTH`]: a long message that is still coming in.
    input_charge: Charge,
    decoder: Decoder,
    encoder: Encoder,
    consecutive_errors: usize,

    jobs: Jobs,
    events: Events,
    stopped: watch::Receiver<bool>,
    /// Set when no more is to be read: what is in flight is finished and sent, then the connection is closed.
    closing: bool,
    /// Whether the client may still be sending when the connection is closed.
    linger: bool,
}

/// How far working off the input has come.
#[derive(PartialEq, Eq)]
enum Progress {
    /// No whole message is left.
    UsedUp,
    /// Too much is in flight, or the connection is closing; there may be whole messages left.
    HeldUp,
}

/// What a connection waits for.
enum Woken {
    Done(Done),
    /// This many bytes; none at the end of the client's.
    Read(usize),
    /// An event, or that some were lost.
    Event(Option<Arc<Event>>),
    Stopped,
}

/// The events that the client has registered for.
#[derive(Default)]
struct Events {
    receiver: Option<broadcast::Receiver<Arc<Event>>>,
    wanted: Vec<cassette_protocol::request::EventType>,
}

impl Events {
    /// The next event. `None` means that the connection has fallen too far behind to get them all.
    async fn next(&mut self) -> Option<Arc<Event>> {
        let Some(receiver) = &mut self.receiver else { return std::future::pending().await };
        loop {
            match receiver.recv().await {
                Ok(event) if self.wanted.contains(&event.event_type()) => return Some(event),
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return None,
                Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
            }
        }
    }
}

impl<B: Backend> Connection<B> {
    pub fn new(
        shared: Arc<Shared<B>>,
        stream: TcpStream,
        peer: SocketAddr,
        permit: ConnectionPermit,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let length_max = shared.config.max_frame_size.min(MESSAGE_LENGTH_MAX_BEFORE_READY);
        let session = Arc::new(shared.backend.open_session(peer));
        let seen = Arc::clone(&session);
        Self {
            registered: shared.figures.register(peer, move || B::keyspace(&seen)),
            session,
            stage: Stage::Established,
            agreed_compression: None,
            throw_on_overload: false,
            stream,
            input: BytesMut::with_capacity(INPUT_LENGTH),
            input_charge: permit.charge(0),
            decoder: Decoder::new(Direction::Request, length_max),
            encoder: Encoder::new(Version::CURRENT),
            consecutive_errors: 0,
            jobs: Jobs::new(),
            events: Events::default(),
            stopped,
            closing: false,
            linger: false,
            shared,
            peer,
            permit,
        }
    }

    /// Serves the connection until one side ends it.
    pub async fn run(mut self) -> io::Result<()> {
        loop {
            let progress = self.work_off_input().await?;
            while let Some(done) = self.jobs.next_ready() {
                self.answer(done);
            }
            if progress == Progress::HeldUp && self.may_take_on() {
                // Jobs have ended meanwhile. Waiting for more input now could be for ever: it has come already.
                continue;
            }
            self.send().await?;
            if self.closing && self.jobs.in_flight() == 0 {
                self.stream.shutdown().await?;
                if self.linger {
                    self.drain().await;
                }
                return Ok(());
            }
            self.wait().await?;
        }
    }

    /// Waits for something to do: input, a finished job, an event, or the end.
    async fn wait(&mut self) -> io::Result<()> {
        let may_read = self.may_take_on();
        // Those who are half through a message may finish it; see `Budget`.
        let must_wait = self.input.is_empty() && self.permit.is_overloaded() && !self.throw_on_overload;
        let Self { stream, input, jobs, events, stopped, permit, .. } = self;
        let read = async {
            if must_wait {
                permit.relieved().await;
            }
            if input.capacity() - input.len() < INPUT_ROOM_MIN {
                input.reserve(INPUT_LENGTH);
            }
            stream.read_buf(input).await
        };
        let woken = tokio::select! {
            biased;
            Some(done) = jobs.next() => Woken::Done(done),
            read = read, if may_read => Woken::Read(read?),
            event = events.next(), if !self.closing => Woken::Event(event),
            // An error says that the server is gone altogether.
            _ = async { stopped.wait_for(|stopped| *stopped).await.map(drop) }, if !self.closing => Woken::Stopped,
        };
        match woken {
            Woken::Done(done) => self.answer(done),
            Woken::Read(0) => {
                if !self.input.is_empty() {
                    debug!(
                        "{} ended within a message of which {} bytes had come",
                        self.peer,
                        self.input.len()
                    );
                }
                self.closing = true;
            }
            Woken::Read(_) => {}
            Woken::Event(Some(event)) => {
                let event = Response::Event(Event::clone(&event));
                self.encoder.response(Event::STREAM, &event, &Prelude::default());
            }
            Woken::Event(None) => {
                warn!("{} reads its events too slowly; closing", self.peer);
                self.closing = true;
            }
            Woken::Stopped => self.closing = true,
        }
        Ok(())
    }

    /// Works off all whole messages of the input, or as many as may be in flight.
    async fn work_off_input(&mut self) -> io::Result<Progress> {
        let mut progress = Progress::HeldUp;
        while self.may_take_on() {
            match self.decoder.next(&mut self.input) {
                Ok(Some(envelope)) => self.work_off(envelope).await?,
                Ok(None) => {
                    progress = Progress::UsedUp;
                    break;
                }
                Err(rejected) => self.reject(rejected),
            }
            if self.encoder.pending_length() >= OUTPUT_LENGTH {
                self.send().await?;
            }
            // Much input may be waiting; other connections on this thread get their turn.
            tokio::task::consume_budget().await;
        }
        let held = self.input.len();
        self.input_charge.resize(if held > INPUT_LENGTH { held } else { 0 });
        Ok(progress)
    }

    /// Whether another request may be started.
    fn may_take_on(&self) -> bool {
        !self.closing && self.jobs.in_flight() < self.shared.config.max_threads_per_connection
    }

    async fn work_off(&mut self, envelope: Envelope) -> io::Result<()> {
        let stream = envelope.header.stream;
        if matches!(self.stage, Stage::Established) {
            self.encoder.use_version(envelope.header.version);
        }
        let decoded = match Request::decode(&envelope) {
            Ok(decoded) => decoded,
            Err(error) => {
                self.reject(Rejected { error, stream, fatal: false });
                return Ok(());
            }
        };
        self.consecutive_errors = 0;
        match &decoded.request {
            Request::Query(_) | Request::Prepare(_) | Request::Execute(_) | Request::Batch(_)
                if matches!(self.stage, Stage::Ready) =>
            {
                self.execute(stream, decoded, envelope.body.len()).await
            }
            _ => {
                let response = self.handshake(decoded.request, envelope.header.version);
                self.respond(stream, &response);
                self.after_handshake(&response, envelope.header.version);
                Ok(())
            }
        }
    }

    fn respond(&mut self, stream: i16, response: &Response) {
        self.encoder.response(stream, response, &Prelude::default());
    }

    /// Answers a refused message, and gives the connection up when what follows cannot be understood.
    fn reject(&mut self, mut rejected: Rejected) {
        self.consecutive_errors += 1;
        if self.encoder.version() >= Version::V5 && self.consecutive_errors > CONSECUTIVE_ERRORS_MAX {
            rejected.fatal = true;
        }
        debug!("{}: {}", self.peer, rejected.error);
        self.encoder.reject(&rejected);
        if rejected.fatal {
            self.closing = true;
            self.linger = true;
        }
    }

    /// Reads and forgets what the client is still sending, for a while: a socket closed over unread bytes resets the
    /// connection, and the client might never see the error that explains it.
    async fn drain(&mut self) {
        let drained = async {
            while self.stream.read_buf(&mut self.input).await.is_ok_and(|length| length > 0) {
                self.input.clear();
            }
        };
        let stopped = self.stopped.wait_for(|stopped| *stopped);
        tokio::select! {
            _ = tokio::time::timeout(LINGER, drained) => {}
            _ = stopped => {}
        }
    }

    /// Sends the output and waits until the client's side has taken it.
    async fn send(&mut self) -> io::Result<()> {
        self.encoder.seal();
        if !self.encoder.bytes().is_empty() {
            self.stream.write_all(self.encoder.bytes()).await?;
            self.encoder.clear(OUTPUT_LENGTH);
        }
        Ok(())
    }
}
