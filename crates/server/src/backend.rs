//! What the server needs of the floor below: somebody who executes requests.

use std::net::SocketAddr;

use cassette_protocol::{
    Prelude, Request, Version,
    response::{Error, SchemaChange},
};
use uuid::Uuid;

use crate::Body;

/// Executes requests. Shared by all connections.
pub trait Backend: Send + Sync + 'static {
    /// What a connection keeps between its requests, such as the keyspace that USE chose. Requests of one connection
    /// may run side by side.
    type Session: Send + Sync + 'static;

    /// Keeps a listener listening; dropping it ends that.
    type Subscription: Send + Sync + 'static;

    /// The session of a new connection.
    fn open_session(&self, peer: SocketAddr) -> Self::Session;

    /// The id of a new trace, for a request that is to be traced.
    fn new_trace(&self) -> Uuid;

    /// Whether a request that did not ask for it is to be traced, for whoever operates the server.
    fn traces_by_chance(&self) -> bool {
        false
    }

    /// The keyspace that a session uses, for those who look at who is connected.
    fn keyspace(_session: &Self::Session) -> Option<String> {
        None
    }

    /// What a request is, in a line, for those who look at what is running.
    fn describe(&self, request: &Request) -> String {
        request.opcode().to_string()
    }

    /// Called every few seconds, to bring figures up to date.
    fn tick(&self) {}

    /// Executes a QUERY, PREPARE, EXECUTE or BATCH and appends the body of its RESULT, from `<kind>` on, to `body`.
    ///
    /// With [`Effort::MemoryOnly`] it runs on a thread that serves other connections too. It must not wait for a disk
    /// then, but answer [`Answer::WouldBlock`] as soon as it finds that it would have to, without having had an effect;
    /// the request comes again with [`Effort::MayBlock`]. What it had appended to `body` by then is thrown away, as it is
    /// on errors.
    ///
    /// With `trace`, what is done is kept under that id; the effort is [`Effort::MayBlock`] then.
    fn execute(
        &self,
        session: &Self::Session,
        request: &Request,
        version: Version,
        effort: Effort,
        trace: Option<Uuid>,
        body: Body<'_>,
    ) -> Result<Answer, Error>;

    /// Calls `listener` after every change of the schema. The listener does not block.
    fn subscribe(&self, listener: Box<dyn Fn(&SchemaChange) + Send + Sync>) -> Self::Subscription;
}

/// How far a request may go at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// It must not wait for a disk.
    MemoryOnly,
    /// It may take its time: it has a thread of its own.
    MayBlock,
}

/// What became of a request that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The result is in the body; the prelude has the warnings.
    Result(Prelude),
    /// It would have to wait for a disk. Never an answer to [`Effort::MayBlock`].
    WouldBlock,
}
