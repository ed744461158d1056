//! What a move needs of the source's server beyond CQL.

use std::time::Duration;

use cassette_database::Position;

use crate::error::unsuitable;

/// A point in the commit log of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPoint {
    /// Later writes have later positions. Everything up to here is readable, and durable.
    pub position: Position,
    /// The end of the last captured change, or of the segment that it is in: readers of captured
    /// changes that have not got here lack some.
    pub captured: Position,
    /// The number of the chain of captured segments: another one if changes have not been captured
    /// for a time. Their directory has it, too.
    pub chain: String,
    /// Whether the source refuses writes when the space for captured changes is used up, and does
    /// not remove changes that may not have been read.
    pub blocks_writes: bool,
    /// Changes when the schema is changed or a table is truncated, neither of which captured
    /// changes contain.
    pub state: String,
    /// The greatest write timestamp that the server has issued, in microseconds.
    pub last_timestamp: i64,
}

/// Controls the server of the source. Errors are texts for the user.
pub trait SourceControl: Send + Sync {
    /// Waits for the requests that are being executed, and syncs the commit log. Others continue.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    fn point(&self) -> Result<LogPoint, String>;

    /// Checks that the server can forward to `target`, `host:port`. Changes nothing.
    ///
    /// # Errors
    /// If the server cannot be reached, or cannot forward.
    fn check_target(&self, target: &str) -> Result<(), String>;

    /// Checks that, and stalls the requests of all clients until [`forward`](Self::forward) or
    /// [`release`](Self::release), but for `at_most`; then the server resumes by itself. Waits for
    /// the requests that are being executed, and returns the end of the log: no later write exists
    /// while requests are stalled.
    ///
    /// # Errors
    /// The server has resumed, or does so after `at_most`.
    fn stall(&self, target: &str, at_most: Duration) -> Result<Stall, StallError>;

    /// Ends a stall: resumes local service. No-op if it has ended.
    ///
    /// # Errors
    /// If the server cannot be reached. It resumes when the stall ends by itself.
    fn release(&self, stall: u64) -> Result<(), String>;

    /// Ends a stall: forwards stalled requests, and all later ones, to its target, permanently. A
    /// repeated call has the result of the first one.
    ///
    /// # Errors
    /// `Undecided` if the server may or may not have switched.
    fn forward(&self, stall: u64) -> Result<(), ForwardError>;
}

/// A stall of all requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// Its number, which no other stall has.
    pub number: u64,
    /// The end of the log.
    pub point: LogPoint,
}

/// Why a server does not stall its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StallError {
    /// It refuses, and would do so again.
    Refused(String),
    /// Another attempt may succeed.
    Failed(String),
}

/// Why a server does not forward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForwardError {
    /// It serves requests itself.
    Refused(String),
    /// It did not answer, or does not know itself.
    Undecided(String),
}

/// Returns a point in the source's log, before which all changes can be read.
pub(crate) fn point(control: &dyn SourceControl) -> crate::error::Result<LogPoint> {
    control.point().or_else(|reason| unsuitable(format!("the source: {reason}")))
}
