//! What a statement can fail with, and the code it answers with.

use std::net::IpAddr;
use std::sync::Arc;

use cassette_cql::SyntaxError;
use cassette_cql::ast::BatchKind;
use cassette_cql::values::ValueError;
use cassette_engine::EngineError;
use cassette_rows::{Interrupted, StorageError};

use crate::basics::request::Consistency;

/// Why a statement failed. Texts are Cassandra's where people or drivers know them.
///
/// [`kind`](Self::kind) tells what to do about it, and [`source`](std::error::Error::source) what caused it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// An internal error without a cause: a violated invariant, or a state that an operator has to
    /// end.
    #[error("{0}")]
    Server(String),
    /// An operation of several steps failed in one of them.
    #[error("{message}")]
    Failed {
        /// The operation and the step, followed by the message of the cause.
        message: String,
        /// The error of the step.
        #[source]
        cause: Arc<Self>,
    },
    /// A stored schema definition cannot be parsed, or refers to something that does not exist.
    #[error("{message}")]
    SchemaCorrupt {
        /// The definition, followed by the message of the cause.
        message: String,
        /// The error of parsing or resolving the definition, if that is what failed.
        #[source]
        cause: Option<Arc<Self>>,
    },
    /// The storage engine failed outside of reads and writes of statements: when opening or
    /// closing, or in maintenance.
    #[error("{message}")]
    Storage {
        /// What was attempted, and why it failed.
        message: String,
        /// The engine's error.
        #[source]
        cause: Cause,
    },
    /// The request is none that its protocol allows.
    #[error("{0}")]
    Protocol(String),
    /// The statement writes, and the database is open for reading only.
    #[error("the database is open for reading only")]
    ReadOnly,
    /// Too much is in flight; later it may succeed.
    #[error("{0}")]
    Overloaded(String),
    /// A TRUNCATE failed or timed out.
    #[error("{message}")]
    Truncate {
        /// Cassandra's text, with the table and the message of the cause.
        message: String,
        /// The engine's error; `None` after a timeout.
        #[source]
        cause: Option<Cause>,
    },
    /// A read failed below: a corrupt or unreadable file.
    #[error("{message}")]
    ReadFailure {
        /// The level asked for.
        consistency: Consistency,
        /// Which file, and what is wrong with it.
        message: String,
        /// The engine's error, if it is one.
        #[source]
        cause: Option<Cause>,
    },
    /// A read took longer than its timeout.
    #[error("{message}")]
    ReadTimeout {
        /// The requested level.
        consistency: Consistency,
        /// Cassandra's text.
        message: String,
    },
    /// A write took longer than its timeout. It has been applied whole or not at all; of a batch of counters each
    /// partition has.
    #[error("{message}")]
    WriteTimeout {
        /// The requested level; of a conditional write that of its serial phase.
        consistency: Consistency,
        /// What kind of write it was.
        write_type: WriteType,
        /// Cassandra's text.
        message: String,
    },
    /// The request was interrupted for another reason than its timeout, and nothing was changed.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A guardrail ended a read.
    #[error("Operation failed - {message}: {} from /{address}:7000", reason.name())]
    ReadAborted {
        /// The level of the read.
        consistency: Consistency,
        /// Which kind of guardrail it was.
        reason: AbortReason,
        /// What it came across, in Cassandra's words.
        message: String,
        /// Whether rows had been read, and were too many to be sent.
        data_present: bool,
        /// The address of this node.
        address: IpAddr,
    },
    /// The thread may not wait for a disk ([`without_waiting`](crate::without_waiting)), and would have to. Nothing was done.
    #[error("the request would have to wait for a disk")]
    WouldBlock,
    /// A function failed at what it was given.
    #[error("{message}")]
    FunctionFailure {
        /// The function's keyspace.
        keyspace: String,
        /// The function.
        function: String,
        /// The types of its arguments.
        argument_types: Vec<String>,
        /// What went wrong.
        message: String,
    },
    /// A write failed below: nothing of it was applied.
    #[error("{message}")]
    WriteFailure {
        /// The level asked for.
        consistency: Consistency,
        /// What kind of write it was.
        write_type: WriteType,
        /// What was attempted, and why it failed.
        message: String,
        /// The engine's error, if it is one.
        #[source]
        cause: Option<Cause>,
    },
    /// The text is no CQL.
    #[error("{message}")]
    Syntax {
        /// What is wrong, in Cassandra's words.
        message: String,
        /// The line of the offending token, counted from 1.
        line: Option<u32>,
        /// Its column in that line, counted from 0.
        column: Option<u32>,
    },
    /// The client may not do this.
    #[error("{0}")]
    Unauthorized(String),
    /// The statement is understood and cannot be executed.
    #[error("{0}")]
    Invalid(String),
    /// The storage engine rejected the arguments of a request: a table that has been dropped, a
    /// snapshot that exists, an import of other data.
    #[error("{0}")]
    Refused(#[source] Cause),
    /// The statement asks for a configuration that cannot be.
    #[error("{0}")]
    Config(String),
    /// A keyspace or table to create is there already.
    #[error("{}", already_exists(keyspace, table))]
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table; empty when it is the keyspace that exists.
        table: String,
    },
    /// No statement with this id is prepared.
    #[error(
        "Prepared query with ID {} not found (either the query was not prepared on this host (maybe the host has been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)",
        hex(id)
    )]
    Unprepared {
        /// The id asked for.
        id: Vec<u8>,
    },
}

/// The storage engine's error below a [`DatabaseError`]. Two are equal if their texts are.
#[derive(Debug, Clone)]
pub struct Cause(Arc<EngineError>);

impl Cause {
    /// The engine's error.
    pub fn engine_error(&self) -> &EngineError {
        &self.0
    }
}

impl From<EngineError> for Cause {
    fn from(error: EngineError) -> Self {
        Self(Arc::new(error))
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Cause {}

/// A result with a [`DatabaseError`].
pub type Result<T, E = DatabaseError> = std::result::Result<T, E>;

/// Why a guardrail ended a read: Cassandra's `RequestFailureReason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AbortReason {
    /// It scanned more tombstones than it may.
    TooManyTombstones,
    /// It read more bytes than it may.
    ReadSize,
    /// It searched more SSTables of indexes than it may.
    TooManyIndexes,
}

impl AbortReason {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooManyTombstones => "READ_TOO_MANY_TOMBSTONES",
            Self::ReadSize => "READ_SIZE",
            Self::TooManyIndexes => "READ_TOO_MANY_INDEXES",
        }
    }

    /// The code on the wire, from protocol version 5 on.
    pub fn code(self) -> u16 {
        match self {
            Self::TooManyTombstones => 1,
            Self::ReadSize => 4,
            Self::TooManyIndexes => 7,
        }
    }
}

/// What kind of write failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteType {
    /// One statement.
    Simple,
    /// A logged batch.
    Batch,
    /// An unlogged batch.
    UnloggedBatch,
    /// A conditional statement.
    Cas,
    /// Increments of counters.
    Counter,
}

impl WriteType {
    /// The type of a batch, which is that of its conditional statements or counters if it has any.
    pub(crate) fn of_batch(kind: BatchKind, is_conditional: bool, has_counters: bool) -> Self {
        match kind {
            _ if is_conditional => Self::Cas,
            _ if has_counters => Self::Counter,
            BatchKind::Unlogged => Self::UnloggedBatch,
            BatchKind::Logged | BatchKind::Counter => Self::Batch,
        }
    }

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Batch => "BATCH",
            Self::UnloggedBatch => "UNLOGGED_BATCH",
            Self::Cas => "CAS",
            Self::Counter => "COUNTER",
        }
    }
}

impl DatabaseError {
    /// The native protocol's error code.
    pub fn code(&self) -> i32 {
        match self {
            Self::Server(_)
            | Self::Failed { .. }
            | Self::SchemaCorrupt { .. }
            | Self::Storage { .. }
            | Self::WouldBlock => 0x0000,
            Self::Protocol(_) => 0x000A,
            Self::Overloaded(_) | Self::Interrupted(_) => 0x1001,
            Self::Truncate { .. } => 0x1003,
            Self::WriteTimeout { .. } => 0x1100,
            Self::ReadTimeout { .. } => 0x1200,
            Self::ReadFailure { .. } | Self::ReadAborted { .. } => 0x1300,
            Self::FunctionFailure { .. } => 0x1400,
            Self::WriteFailure { .. } => 0x1500,
            Self::Syntax { .. } => 0x2000,
            Self::Unauthorized(_) => 0x2100,
            Self::Invalid(_) | Self::Refused(_) | Self::ReadOnly => 0x2200,
            Self::Config(_) => 0x2300,
            Self::AlreadyExists { .. } => 0x2400,
            Self::Unprepared { .. } => 0x2500,
        }
    }

    /// A [`DatabaseError::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// The error with the name of the value that is wrong in front.
    pub(crate) fn in_value(self, name: &str) -> Self {
        match self {
            Self::Invalid(text) => Self::Invalid(format!("{name}: {text}")),
            other => other,
        }
    }

    /// What a failed read answers with.
    pub fn read_failure(consistency: Consistency, error: StorageError) -> Self {
        match error {
            StorageError::WouldBlock { .. } => Self::WouldBlock,
            StorageError::Interrupted(reason) => Self::Interrupted(reason),
            error => {
                let message = error.to_string();
                Self::ReadFailure { consistency, message, cause: Some(EngineError::from(error).into()) }
            }
        }
    }

    /// The error of a write that the engine refused or did not begin.
    pub(crate) fn write_failure(
        consistency: Consistency,
        write_type: WriteType,
        error: impl Into<EngineError>,
    ) -> Self {
        let error = match error.into() {
            EngineError::Interrupted(reason) => return Self::Interrupted(reason),
            error => error,
        };
        let message = error.to_string();
        Self::WriteFailure { consistency, write_type, message, cause: Some(error.into()) }
    }

    /// A [`DatabaseError::Storage`] with the text of the engine.
    pub(crate) fn storage(error: impl Into<EngineError>) -> Self {
        let error = error.into();
        Self::Storage { message: error.to_string(), cause: error.into() }
    }

    /// A [`DatabaseError::Storage`] that says what was attempted: `cannot open t: …`; that the
    /// request was interrupted, if that is the error.
    pub(crate) fn storage_in(attempted: impl std::fmt::Display, error: impl Into<EngineError>) -> Self {
        match error.into() {
            EngineError::Interrupted(reason) => Self::Interrupted(reason),
            error => Self::storage_after(attempted, error),
        }
    }

    /// Returns [`storage_in`](Self::storage_in) for an operation that may have changed something:
    /// an interruption is a [`DatabaseError::Storage`], too.
    pub(crate) fn storage_after(attempted: impl std::fmt::Display, error: impl Into<EngineError>) -> Self {
        let error = error.into();
        Self::Storage { message: format!("{attempted}: {error}"), cause: error.into() }
    }

    /// Returns a [`DatabaseError::Failed`] with the operation before the error's message.
    pub(crate) fn failed_in(attempted: impl std::fmt::Display, error: Self) -> Self {
        Self::Failed { message: format!("{attempted}: {error}"), cause: Arc::new(error) }
    }

    /// Returns a [`DatabaseError::SchemaCorrupt`] for a definition that cannot be resolved.
    pub(crate) fn schema_corrupt_in(definition: impl std::fmt::Display, error: impl Into<Self>) -> Self {
        let error = error.into();
        Self::SchemaCorrupt { message: format!("{definition}: {error}"), cause: Some(Arc::new(error)) }
    }

    /// Returns the error of an operation on named tables, snapshots or files: `Refused` if the
    /// engine rejected these, else [`DatabaseError::Storage`].
    pub(crate) fn of_operation(error: EngineError) -> Self {
        match error {
            EngineError::UnknownTable(_)
            | EngineError::InvalidSnapshot { .. }
            | EngineError::SnapshotExists { .. }
            | EngineError::ImportRefused { .. } => Self::Refused(error.into()),
            error => Self::storage(error),
        }
    }

    /// A [`DatabaseError::Syntax`] without a place.
    pub(crate) fn syntax(message: String) -> Self {
        Self::Syntax { message, line: None, column: None }
    }

    /// What a statement answers with when the engine cannot read for it.
    pub(crate) fn of_read(consistency: Consistency, error: EngineError) -> Self {
        match error {
            EngineError::UnknownTable(_) => Self::Refused(error.into()),
            EngineError::Storage(error) => Self::read_failure(consistency, error),
            error => Self::ReadFailure { consistency, message: error.to_string(), cause: Some(error.into()) },
        }
    }

    /// That a feature is not there yet: `Materialized views are not supported yet`.
    pub(crate) fn not_supported(what: impl std::fmt::Display) -> Self {
        Self::Invalid(format!("{what} not supported by Cassette yet"))
    }
}

impl From<SyntaxError> for DatabaseError {
    fn from(error: SyntaxError) -> Self {
        match error.interrupted {
            Some(reason) => Self::Interrupted(reason),
            None => Self::Syntax { message: error.message, line: error.line, column: error.column },
        }
    }
}

impl From<ValueError> for DatabaseError {
    fn from(error: ValueError) -> Self {
        match error {
            ValueError::Invalid(message) => Self::Invalid(message),
            ValueError::Interrupted(reason) => Self::Interrupted(reason),
            ValueError::FunctionFailure { function, argument_types, message } => {
                Self::FunctionFailure { keyspace: "system".to_owned(), function, argument_types, message }
            }
        }
    }
}

/// `return Err(DatabaseError::Invalid(format!(…)))`.
macro_rules! bail_invalid {
    ($($arguments:tt)*) => {
        return Err($crate::basics::error::DatabaseError::Invalid(format!($($arguments)*)))
    };
}

/// `return Err(DatabaseError::Config(format!(…)))`.
macro_rules! bail_config {
    ($($arguments:tt)*) => {
        return Err($crate::basics::error::DatabaseError::Config(format!($($arguments)*)))
    };
}

pub(crate) use {bail_config, bail_invalid};

fn already_exists(keyspace: &str, table: &str) -> String {
    if table.is_empty() {
        format!("Cannot add existing keyspace \"{keyspace}\"")
    } else {
        format!("Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\"")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
