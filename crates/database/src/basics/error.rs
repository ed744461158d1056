//! Errors of statements, and their codes in the native protocol.

use std::net::IpAddr;
use std::sync::Arc;

use cassette_cql::SyntaxError;
use cassette_cql::ast::BatchKind;
use cassette_cql::values::ValueError;
use cassette_cql::values::text::encode_hex;
use cassette_engine::EngineError;
use cassette_rows::{Interrupted, StorageError};

use crate::basics::request::Consistency;

/// The error of a failed statement. Messages that drivers or tools depend on are Cassandra's.
///
/// [`kind`](Self::kind) classifies the error by how to respond to it, and
/// [`source`](std::error::Error::source) returns its cause.
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
        /// The attempted operation, followed by the message of the cause.
        message: String,
        /// The engine's error.
        #[source]
        cause: Cause,
    },
    /// The request violates the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The statement writes, and the database is open for reading only.
    #[error("the database is open for reading only")]
    ReadOnly,
    /// Too many requests are in progress; the request may succeed later.
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
    /// A read failed in the storage engine: a file is corrupt or unreadable.
    #[error("{message}")]
    ReadFailure {
        /// The requested consistency level.
        consistency: Consistency,
        /// The file and its damage.
        message: String,
        /// The engine's error, if it caused the failure.
        #[source]
        cause: Option<Cause>,
    },
    /// The keyspace has fewer replicas than the consistency level needs, and
    /// `enforce_replica_counts` is set. Nothing was read or written.
    #[error("{message}")]
    Unavailable {
        /// The consistency level that cannot be achieved.
        consistency: Consistency,
        /// The number of replicas that it needs.
        required: i32,
        /// The number of replicas that exist.
        alive: i32,
        /// Cassandra's text.
        message: String,
    },
    /// A read took longer than its timeout.
    #[error("{message}")]
    ReadTimeout {
        /// The requested consistency level.
        consistency: Consistency,
        /// Cassandra's text.
        message: String,
    },
    /// A write took longer than its timeout. It was applied as a whole or not at all; a counter
    /// batch is atomic only per partition.
    #[error("{message}")]
    WriteTimeout {
        /// The requested consistency level; for a conditional write, the level of its serial phase.
        consistency: Consistency,
        /// The kind of write.
        write_type: WriteType,
        /// Cassandra's text.
        message: String,
    },
    /// The request was interrupted for a reason other than its timeout. Nothing was changed.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A guardrail ended a read.
    #[error("Operation failed - {message}: {} from /{address}:7000", reason.name())]
    ReadAborted {
        /// The consistency level of the read.
        consistency: Consistency,
        /// The kind of guardrail.
        reason: AbortReason,
        /// The violation, in Cassandra's words.
        message: String,
        /// Whether rows were read, and were too large to be sent.
        data_present: bool,
        /// The address of this node.
        address: IpAddr,
    },
    /// The request would have to wait for a disk, which its thread must not do
    /// ([`without_waiting`](crate::without_waiting)). Nothing was changed.
    #[error("the request would have to wait for a disk")]
    WouldBlock,
    /// A function failed for its arguments.
    #[error("{message}")]
    FunctionFailure {
        /// The function's keyspace.
        keyspace: String,
        /// The function's name.
        function: String,
        /// The types of its arguments.
        argument_types: Vec<String>,
        /// The reason.
        message: String,
    },
    /// A write failed in the storage engine. Nothing of it was applied.
    #[error("{message}")]
    WriteFailure {
        /// The requested consistency level.
        consistency: Consistency,
        /// The kind of write.
        write_type: WriteType,
        /// The attempted operation and the reason of its failure.
        message: String,
        /// The engine's error, if it caused the failure.
        #[source]
        cause: Option<Cause>,
    },
    /// The text is not valid CQL.
    #[error("{message}")]
    Syntax {
        /// The reason, in Cassandra's words.
        message: String,
        /// The line of the offending token, counted from 1.
        line: Option<u32>,
        /// The column of the token in that line, counted from 0.
        column: Option<u32>,
    },
    /// The client lacks the permission.
    #[error("{0}")]
    Unauthorized(String),
    /// The statement is understood and cannot be executed.
    #[error("{0}")]
    Invalid(String),
    /// The storage engine rejected the arguments of a request: a table that has been dropped, a
    /// snapshot that exists, an import of other data.
    #[error("{0}")]
    Refused(#[source] Cause),
    /// The statement contains an invalid option.
    #[error("{0}")]
    Config(String),
    /// The keyspace or table to create already exists.
    #[error("{}", already_exists(keyspace, table))]
    AlreadyExists {
        /// The name of the keyspace.
        keyspace: String,
        /// The name of the table; empty if a keyspace was to be created.
        table: String,
    },
    /// No prepared statement has this id.
    #[error(
        "Prepared query with ID {} not found (either the query was not prepared on this host (maybe the \
         host has been restarted?) or you have prepared too many queries and it has been evicted from the \
         internal cache)",
        encode_hex(id)
    )]
    Unprepared {
        /// The requested id.
        id: Vec<u8>,
    },
}

/// The storage engine's error that caused a [`DatabaseError`]. Two causes are equal if their
/// messages are.
#[derive(Debug, Clone)]
pub struct Cause(Arc<EngineError>);

impl Cause {
    /// Returns the engine's error.
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

/// The guardrail that ended a read: Cassandra's `RequestFailureReason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AbortReason {
    /// The read scanned too many tombstones.
    TooManyTombstones,
    /// The read returned too many bytes.
    ReadSize,
    /// The read searched too many SSTables of indexes.
    TooManyIndexes,
}

impl AbortReason {
    /// Returns the name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooManyTombstones => "READ_TOO_MANY_TOMBSTONES",
            Self::ReadSize => "READ_SIZE",
            Self::TooManyIndexes => "READ_TOO_MANY_INDEXES",
        }
    }

    /// Returns the code in the native protocol, from version 5 on.
    pub fn code(self) -> u16 {
        match self {
            Self::TooManyTombstones => 1,
            Self::ReadSize => 4,
            Self::TooManyIndexes => 7,
        }
    }
}

/// The kind of a failed write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteType {
    /// A single statement.
    Simple,
    /// A logged batch.
    Batch,
    /// An unlogged batch.
    UnloggedBatch,
    /// A conditional statement.
    Cas,
    /// Counter increments.
    Counter,
}

impl WriteType {
    /// Returns the write type of a batch: that of its conditional statements or counters, if it has
    /// any.
    pub(crate) fn of_batch(kind: BatchKind, is_conditional: bool, has_counters: bool) -> Self {
        match kind {
            _ if is_conditional => Self::Cas,
            _ if has_counters => Self::Counter,
            BatchKind::Unlogged => Self::UnloggedBatch,
            BatchKind::Logged | BatchKind::Counter => Self::Batch,
        }
    }

    /// Returns the name in the native protocol.
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
    /// Returns the error code in the native protocol.
    pub fn code(&self) -> i32 {
        match self {
            Self::Server(_)
            | Self::Failed { .. }
            | Self::SchemaCorrupt { .. }
            | Self::Storage { .. }
            | Self::WouldBlock => 0x0000,
            Self::Protocol(_) => 0x000A,
            Self::Unavailable { .. } => 0x1000,
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

    /// Returns a [`DatabaseError::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// Prefixes the message of an invalid value with the value's name.
    pub(crate) fn in_value(self, name: &str) -> Self {
        match self {
            Self::Invalid(text) => Self::Invalid(format!("{name}: {text}")),
            other => other,
        }
    }

    /// Returns the error of a failed read.
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

    /// Returns the error of a write that the engine rejected before applying any of it.
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

    /// Returns a [`DatabaseError::Storage`] with the engine's message.
    pub(crate) fn storage(error: impl Into<EngineError>) -> Self {
        let error = error.into();
        Self::Storage { message: error.to_string(), cause: error.into() }
    }

    /// Returns a [`DatabaseError::Storage`] with the attempted operation before the engine's
    /// message: `cannot open t: …`. An interruption becomes [`DatabaseError::Interrupted`].
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

    /// Returns a [`DatabaseError::Syntax`] without a position.
    pub(crate) fn syntax(message: String) -> Self {
        Self::Syntax { message, line: None, column: None }
    }

    /// Returns the error of a statement whose read failed in the engine.
    pub(crate) fn of_read(consistency: Consistency, error: EngineError) -> Self {
        match error {
            EngineError::UnknownTable(_) => Self::Refused(error.into()),
            EngineError::Storage(error) => Self::read_failure(consistency, error),
            error => Self::ReadFailure { consistency, message: error.to_string(), cause: Some(error.into()) },
        }
    }

    /// Returns the error of an unsupported feature:
    /// `Materialized views are not supported by Cassette yet`, where `what` includes the verb.
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
            ValueError::Invalid(message) | ValueError::InvalidPart(message) => Self::Invalid(message),
            ValueError::Interrupted(reason) => Self::Interrupted(reason),
            ValueError::FunctionFailure { keyspace, function, argument_types, message } => {
                Self::FunctionFailure { keyspace, function, argument_types, message }
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
