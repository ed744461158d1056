//! The interface to the layer below, which executes requests.

use std::net::SocketAddr;

use cassette_database::Injected;
use cassette_protocol::{
    Prelude, Request, Version,
    response::{Error, SchemaChange},
};
use uuid::Uuid;

use crate::Body;

/// Executes requests. Shared by all connections.
pub trait Backend: Send + Sync + 'static {
    /// The state of a connection between its requests, such as the keyspace of USE. Requests of one
    /// connection can run concurrently.
    type Session: Send + Sync + 'static;

    /// Keeps a listener subscribed until it is dropped.
    type Subscription: Send + Sync + 'static;

    /// Creates the session of a new connection.
    fn open_session(&self, peer: SocketAddr) -> Self::Session;

    /// Records which virtual node the client of a session has connected to, by its index. Called at
    /// most once, before everything else.
    fn connected_to(&self, _session: &Self::Session, _node: usize) {}

    /// Records the role that the client of a session has logged in as. Called at most once, before
    /// its first request.
    fn logged_in(&self, _session: &Self::Session, _role: &str) {}

    /// Records that the client of a session failed to log in, with the reason that it receives.
    fn login_failed(&self, _session: &Self::Session, _reason: &str) {}

    /// Returns the id of a new trace.
    fn new_trace(&self) -> Uuid;

    /// Returns whether to trace a request by the configured probability.
    fn traces_by_chance(&self) -> bool {
        false
    }

    /// Returns the keyspace that a session uses, for lists of connections.
    fn keyspace(_session: &Self::Session) -> Option<String> {
        None
    }

    /// Returns a description of a request in one line, for lists of running requests.
    fn describe(&self, request: &Request) -> String {
        request.opcode().to_string()
    }

    /// Whether the requests of a connection are executed one after the other, in the order in which
    /// they arrive.
    fn executes_in_order(&self) -> bool {
        false
    }

    /// Called every few seconds, to update metrics.
    fn tick(&self) {}

    /// Executes a QUERY, PREPARE, EXECUTE or BATCH and appends the body of its RESULT, from
    /// `<kind>` on, to `body`.
    ///
    /// With [`Effort::MemoryOnly`] it runs on a thread that serves other connections too. It must
    /// not wait for a disk then, but return [`Answer::WouldBlock`] as soon as it would have to,
    /// without having had an effect; the request is repeated with [`Effort::MayBlock`]. The content
    /// appended to `body` by then is dropped, as on errors.
    ///
    /// With `trace`, the steps are recorded under that id; the effort is [`Effort::MayBlock`] then.
    fn execute(
        &self,
        session: &Self::Session,
        request: &Request,
        version: Version,
        effort: Effort,
        trace: Option<Uuid>,
        body: Body<'_>,
    ) -> Result<Answer, Error>;

    /// Returns what tests have a request meet besides or instead of its execution, and counts it.
    /// Called once for each request, before it is executed.
    fn injected_fault(&self, _session: &Self::Session, _request: &Request) -> Option<Injected> {
        None
    }

    /// Calls `listener` after every change of the schema. The listener does not block.
    fn subscribe(&self, listener: Box<dyn Fn(&SchemaChange) + Send + Sync>) -> Self::Subscription;
}

/// The permitted effort of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// It must not wait for a disk.
    MemoryOnly,
    /// It can wait: it has a dedicated thread.
    MayBlock,
}

/// The outcome of a request that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The result is in the body; the prelude contains the warnings.
    Result(Prelude),
    /// It would have to wait for a disk. Never returned for [`Effort::MayBlock`].
    WouldBlock,
}
