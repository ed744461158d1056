//! One connection: a loop that reads input, executes it, and sends the answers in one piece.
//!
//! 1. Requests are removed from the input and executed one after the other on this task, as long as
//!    they need only memory. Their results go directly into the output buffer.
//! 2. A request that would wait for a disk moves to a dedicated thread, and its result arrives
//!    through `jobs`.
//! 3. When the input is exhausted, or the output has grown long, the output is sent. Until the
//!    client has received it, no more is read, so a slow reader stalls only itself.
//!
//! A connection that waits for input has no buffer for it, and one that has been idle since a long
//! answer none for output: most of thousands of connections are idle.
//!
//! The uncharged memory of a connection is limited: 64 KiB of input (in v5 also a frame), a
//! decompressed message of 64 KiB, and the output. Longer messages reserve all their memory before
//! they are received or decompressed, and release it after the answer; see
//! [`Budget`](crate::budget::Budget).

mod authenticating;
mod execution;
mod faults;
mod forwarding;
mod handshake;
mod reading;
mod sending;
mod waiting;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::{BufMut, BytesMut};
use cassette_database::Encryption;
use cassette_protocol::{
    Compression, Decoded, Decoder, Direction, Encoder, Envelope, FrameFormat, Prelude, ProtocolError,
    Rejected, Request, Response, Version, request::Startup, response::Event,
};
use cassette_tls::Socket;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{broadcast, watch},
};
use tracing::{debug, warn};

use crate::{
    Backend,
    gate::Phase,
    limits::{Charge, ConnectionPermit},
    metrics::Registered,
    shared::Shared,
};
use execution::{Done, Jobs};
use forwarding::Forward;
use handshake::Stage;
use waiting::{Granted, Waiting, Watchdog};

/// The number of bytes read at a time, and the uncharged input of a connection.
const INPUT_LENGTH: usize = 64 * 1024;

/// The input of a v5 connection: there, messages are charged when they leave their frames.
const FRAMED_INPUT_LENGTH: usize = INPUT_LENGTH + FrameFormat::LENGTH_MAX;

/// The uncharged memory of a message.
const UNCHARGED_LENGTH: usize = 64 * 1024;

/// How long a client may pause in a long message: its memory is reserved, and others wait for it.
const MESSAGE_STALL_MAX: Duration = Duration::from_secs(30);

/// The minimum space in the input for a read: less would cause many small reads.
const INPUT_ROOM_MIN: usize = 4 * 1024;

/// Output is sent at this length at the latest, and the buffer's capacity is reduced to it.
const OUTPUT_LENGTH: usize = 256 * 1024;

/// More than this is released by a connection that is idle.
const IDLE_OUTPUT_LENGTH: usize = 16 * 1024;

/// The longest message before authentication: an authentication token is far shorter.
const MESSAGE_LENGTH_MAX_BEFORE_READY: usize = 128 * 1024;

/// How long a client that sent garbage has to read the error.
const LINGER: Duration = Duration::from_secs(1);

/// Cassandra's `consecutive_message_errors_threshold`: after more consecutive rejected messages,
/// the remaining input of a v5 client counts as garbage too.
const CONSECUTIVE_ERRORS_MAX: usize = 1;

pub(crate) struct Connection<B: Backend> {
    shared: Arc<Shared<B>>,
    peer: SocketAddr,
    permit: ConnectionPermit,
    session: Arc<B::Session>,
    registered: Registered,
    stage: Stage,
    /// The compression of STARTUP.
    agreed_compression: Option<Compression>,
    /// The client's STARTUP.
    startup: Option<Startup>,
    /// Whether the client prefers an Overloaded error to waiting.
    throw_on_overload: bool,

    stream: Socket,
    input: BytesMut,
    /// The maximum length of the input.
    input_max: usize,
    /// The charge of the long message that is being received.
    message_charge: Option<Charge>,
    decoder: Decoder,
    encoder: Encoder,
    consecutive_errors: usize,

    jobs: Jobs,
    /// The resource that the next request waits for.
    waiting: Option<Waiting>,
    /// From which request on all are forwarded.
    forward: Option<Forward>,
    watchdog: Watchdog,
    events: Events,
    stopped: watch::Receiver<bool>,
    /// Set when no more is to be read: requests in flight are completed and their answers sent,
    /// then the connection is closed.
    closing: bool,
    /// Whether the client may still be sending when the connection is closed.
    linger: bool,
}

/// The reason why processing the input ended.
#[derive(PartialEq, Eq)]
enum Progress {
    /// No complete message is left.
    UsedUp,
    /// Too much is in flight, or the connection is closing; complete messages may be left.
    HeldUp,
}

/// The events that a connection waits for.
enum Woken {
    Done(Done),
    Granted(Granted),
    /// This many bytes arrived; zero means end of input.
    Read(usize),
    /// An event, or `None` if some were lost.
    Event(Option<Arc<Event>>),
    /// The server forwards requests from now on.
    Forwarding,
    Stopped,
    /// Nothing has happened since a long answer.
    Idle,
    /// A timeout, with its description.
    TimedOut(&'static str),
}

/// The events to which the client has subscribed.
#[derive(Default)]
struct Events {
    receiver: Option<broadcast::Receiver<Arc<Event>>>,
    wanted: Vec<cassette_protocol::request::EventType>,
    /// Whether the server forwards requests.
    phase: Option<watch::Receiver<Phase>>,
}

impl Events {
    /// Waits for the next event, or until the server forwards requests: the events of the target
    /// matter from then on.
    async fn woken(&mut self) -> Woken {
        let mut phase = self.phase.clone();
        let forwarding = async {
            match &mut phase {
                Some(phase) => phase.wait_for(|phase| matches!(phase, Phase::Forwarding(_))).await.map(drop),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = self.next() => Woken::Event(event),
            Ok(()) = forwarding => Woken::Forwarding,
        }
    }

    /// Returns the next event. `None` means that the connection is too slow to receive them all.
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

/// Returns how a connection is encrypted, for reports.
fn encryption(stream: &Socket) -> Option<Encryption> {
    let cassette_tls::Encryption { protocol, cipher_suite } = stream.encryption()?;
    Some(Encryption { protocol, cipher_suite })
}

impl<B: Backend> Connection<B> {
    pub fn new(
        shared: Arc<Shared<B>>,
        stream: Socket,
        (peer, node): (SocketAddr, usize),
        permit: ConnectionPermit,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let length_max = shared.config.max_frame_size.min(MESSAGE_LENGTH_MAX_BEFORE_READY);
        let session = Arc::new(shared.backend.open_session(peer));
        shared.backend.connected_to(&session, node);
        let seen = Arc::clone(&session);
        Self {
            registered: shared.metrics.register(peer, encryption(&stream), move || B::keyspace(&seen)),
            session,
            stage: Stage::Established,
            agreed_compression: None,
            startup: None,
            throw_on_overload: false,
            stream,
            input: BytesMut::new(),
            input_max: INPUT_LENGTH,
            message_charge: None,
            decoder: Decoder::new(Direction::Request, length_max),
            encoder: Encoder::new(Version::CURRENT),
            consecutive_errors: 0,
            jobs: Jobs::new(),
            waiting: None,
            forward: None,
            watchdog: Watchdog::new(&shared.config),
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
            if let Some(forward) = self.forward.take() {
                // Boxed: an idle connection would keep the room of forwarding.
                return Box::pin(self.forward(forward)).await;
            }
            let progress = self.work_off_input().await?;
            if self.forward.is_some() {
                continue;
            }
            while let Some(done) = self.jobs.next_ready() {
                self.answer(done).await?;
            }
            if progress == Progress::HeldUp && self.may_take_on() {
                // Jobs have ended meanwhile. Waiting for more input could block indefinitely,
                // because it has arrived already.
                continue;
            }
            self.send().await?;
            if self.closing && self.jobs.in_flight() == 0 && self.waiting.is_none() {
                self.stream.shutdown().await?;
                if self.linger {
                    self.drain().await;
                }
                return Ok(());
            }
            self.wait().await?;
        }
    }

    /// Waits for input, a finished job, memory or a thread, an event, or the end.
    async fn wait(&mut self) -> io::Result<()> {
        let may_read = self.may_take_on();
        // A partially received message can be completed, because its memory is reserved.
        let must_wait =
            self.input.is_empty() && self.permit.requests().is_exceeded() && !self.throw_on_overload;
        let is_stalling = self.message_charge.is_some() && self.waiting.is_none();
        let room = self.input_max.saturating_sub(self.input.len());
        let is_busy = self.jobs.in_flight() > 0 || self.waiting.is_some();
        let releases_output = self.encoder.capacity() > IDLE_OUTPUT_LENGTH;
        let Self { stream, input, jobs, waiting, watchdog, events, stopped, permit, .. } = self;
        if may_read && (!input.is_empty() || is_stalling) {
            waiting::acknowledge(stream.tcp());
        }
        let read = async {
            if !may_read {
                waiting::closed_by_peer(stream.tcp()).await;
                return Ok(0);
            }
            if must_wait {
                permit.requests().relieved().await;
            }
            reading::read(stream, input, room).await
        };
        let read = async {
            if is_stalling {
                tokio::time::timeout(MESSAGE_STALL_MAX, read).await.ok()
            } else {
                Some(read.await)
            }
        };
        let woken = tokio::select! {
            biased;
            Some(done) = jobs.next() => Woken::Done(done),
            granted = waiting::granted(waiting) => Woken::Granted(granted),
            what = watchdog.barks(), if !is_busy => Woken::TimedOut(what),
            read = read, if may_read || is_busy => match read {
                Some(read) => Woken::Read(read?),
                None => Woken::TimedOut("at receiving a message"),
            },
            woken = events.woken(), if !self.closing => woken,
            // An error means that the server was dropped.
            _ = async { stopped.wait_for(|stopped| *stopped).await.map(drop) }, if !self.closing => {
                Woken::Stopped
            }
            () = waiting::idle(releases_output) => Woken::Idle,
        };
        self.handle(woken).await
    }

    async fn handle(&mut self, woken: Woken) -> io::Result<()> {
        match woken {
            Woken::Done(done) => {
                self.answer(done).await?;
                self.watchdog.pat();
            }
            Woken::Granted(granted) => self.go_on(granted),
            Woken::Read(0) => {
                if !self.input.is_empty() {
                    debug!(
                        "{} ended within a message of which {} bytes had come",
                        self.peer,
                        self.input.len()
                    );
                }
                self.give_up();
            }
            Woken::Read(_) => self.watchdog.pat(),
            Woken::Event(Some(event)) => {
                let event = Response::Event(Event::clone(&event));
                self.encoder.response(Event::STREAM, &event, &Prelude::default());
            }
            Woken::Event(None) => {
                warn!("{} reads its events too slowly; closing", self.peer);
                self.closing = true;
            }
            Woken::Forwarding => {
                debug!("closing the connection of {}, which has registered for events", self.peer);
                self.closing = true;
            }
            Woken::Stopped => self.closing = true,
            Woken::Idle => self.encoder.release_memory(),
            Woken::TimedOut(what) => {
                debug!("{} exceeded the time {what}; closing", self.peer);
                self.give_up();
            }
        }
        Ok(())
    }

    /// Ends the connection of a client that no longer reads answers.
    fn give_up(&mut self) {
        self.closing = true;
        self.waiting = None;
        self.jobs.abandon();
    }

    /// Processes all complete messages of the input, or as many as may be in flight.
    async fn work_off_input(&mut self) -> io::Result<Progress> {
        while self.may_take_on() {
            let memory = self.message_charge.as_ref().map_or(UNCHARGED_LENGTH, Charge::bytes);
            match self.decoder.next_within(&mut self.input, memory) {
                Ok(Decoded::Envelope(envelope)) => self.work_off(envelope),
                Ok(Decoded::Incomplete) => return Ok(Progress::UsedUp),
                Ok(Decoded::NeedsMemory { memory, input }) => self.reserve_for_message(memory, input),
                Err(rejected) => self.reject(rejected),
            }
            if self.encoder.pending_length() >= OUTPUT_LENGTH {
                self.send().await?;
            }
            // With much input waiting, lets other connections on this thread run.
            tokio::task::consume_budget().await;
        }
        Ok(Progress::HeldUp)
    }

    /// Returns whether another request can be started.
    fn may_take_on(&self) -> bool {
        !self.closing
            && self.waiting.is_none()
            && self.forward.is_none()
            && self.jobs.in_flight() < self.shared.config.max_threads_per_connection
    }

    /// Reserves memory for the long message at the start of the input, or rejects it for clients
    /// that prefer that.
    fn reserve_for_message(&mut self, memory: usize, input: usize) {
        // First releases a smaller reservation: the holder of one must never wait for another.
        self.message_charge = None;
        let accounts = self.permit.requests();
        if let Some(charge) = accounts.try_charge(memory) {
            self.receive_message(charge, input);
        } else if self.throw_on_overload {
            self.shared.metrics.overloaded.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let error = ProtocolError::Overloaded(self.permit.overload_message());
            self.decoder.refuse(&self.input, error);
        } else {
            let accounts = accounts.clone();
            self.waiting = Some(Waiting::memory(async move { accounts.charge(memory).await }, input));
        }
    }

    /// Continues to receive a message of at most `input` bytes of input, for which memory has been
    /// reserved.
    fn receive_message(&mut self, charge: Charge, input: usize) {
        self.message_charge = Some(charge);
        if input > self.input.capacity() {
            // Exactly as long as the message: no other message is received into its charged memory.
            let mut whole = BytesMut::with_capacity(input);
            whole.put_slice(&self.input);
            self.input = whole;
        }
        self.input_max = self.input_max.max(input);
    }

    /// Ends the reception of a long message. Releases the memory of its input.
    fn message_received(&mut self) -> Option<Charge> {
        let charge = self.message_charge.take()?;
        self.input_max = self.usual_input_length();
        // Also where nothing is left of it: its memory was reserved for the message.
        self.input = BytesMut::from(&self.input[..]);
        Some(charge)
    }

    fn usual_input_length(&self) -> usize {
        if self.decoder.is_framed() { FRAMED_INPUT_LENGTH } else { INPUT_LENGTH }
    }

    fn work_off(&mut self, envelope: Envelope) {
        let charge = self.message_received();
        let stream = envelope.header.stream;
        let version = envelope.header.version;
        if matches!(self.stage, Stage::Established) {
            self.encoder.use_version(version);
        }
        let decoded = match Request::decode(&envelope) {
            Ok(decoded) => decoded,
            Err(error) => {
                self.reject(Rejected { error, stream, fatal: false });
                return;
            }
        };
        self.consecutive_errors = 0;
        match &decoded.request {
            Request::Query(_) | Request::Prepare(_) | Request::Execute(_) | Request::Batch(_)
                if matches!(self.stage, Stage::Ready) =>
            {
                self.execute(envelope, decoded, charge);
            }
            _ => {
                // Those of a login that this server has begun are its own.
                if !matches!(self.stage, Stage::Authenticating(_))
                    && let Some(to) = self.shared.gate.forwarding()
                {
                    self.forward = Some(Forward { to, first: envelope, charge });
                    return;
                }
                let Some(request) = self.authenticate(stream, version, decoded.request) else { return };
                let response = self.handshake(request, version);
                self.respond(stream, &response);
                self.after_handshake(&response, version);
            }
        }
    }

    /// Waits with a request until requests are executed again, or forwarded.
    fn hold(&mut self, request: Envelope, charge: Option<Charge>) {
        let mut phase = self.shared.gate.phase();
        let decided = async move {
            let decided = phase.wait_for(|phase| !matches!(phase, Phase::Stalled)).await;
            let decided = decided.ok().map(|phase| Phase::clone(&phase));
            match decided {
                Some(phase) => phase,
                // The server was dropped, and ends the connection.
                None => std::future::pending().await,
            }
        };
        self.waiting = Some(Waiting::gate(decided, request, charge));
    }

    /// Continues with a request that was held.
    fn resume(&mut self, phase: Phase, request: Envelope, charge: Option<Charge>) {
        match phase {
            Phase::Forwarding(to) => self.forward = Some(Forward { to, first: request, charge }),
            Phase::Open | Phase::Stalled => {
                self.message_charge = charge;
                self.work_off(request);
            }
        }
    }

    fn respond(&mut self, stream: i16, response: &Response) {
        self.encoder.response(stream, response, &Prelude::default());
    }

    /// Answers a rejected message, and closes the connection if the following input cannot be
    /// decoded.
    fn reject(&mut self, mut rejected: Rejected) {
        self.message_received();
        if !matches!(rejected.error, ProtocolError::Overloaded(_)) {
            self.consecutive_errors += 1;
        }
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

    /// Reads and drops remaining input for a while: closing a socket with unread bytes resets the
    /// connection, and the client might never receive the error.
    async fn drain(&mut self) {
        let drained = async {
            self.input.reserve(INPUT_LENGTH);
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
}
