//! Errors of transactions, and what is known about a failed transaction.

use cassette_database::DatabaseError;

use crate::encoding::DecodeError;
use crate::service::ServiceError;
use crate::store::{Cell, NameError, StoreError};
use crate::timelock::TimeLockError;
use crate::timestamp::{Timestamp, TransactionStatus};

/// Why a transaction, or a step of it, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A concurrent transaction wrote a cell that this one writes.
    #[error(
        "write-write conflict in table {table} at {cell:02x?}: written by the transaction that began \
         at {other}. This one has not committed: run it again"
    )]
    WriteWriteConflict {
        /// Table of the conflict.
        table: String,
        /// Cell of the conflict.
        cell: Cell,
        /// Start timestamp of the other transaction.
        other: Timestamp,
    },
    /// A concurrent transaction wrote what this one read in a serializable table.
    #[error(
        "read-write conflict in table {table}: {what} changed after it was read. The transaction \
         has not committed: run it again"
    )]
    ReadWriteConflict {
        /// Table of the conflict.
        table: String,
        /// What was read.
        what: String,
    },
    /// A lock was not acquired in time, or the timestamps failed.
    #[error(transparent)]
    TimeLock(#[from] TimeLockError),
    /// The locks were lost before the commit.
    #[error(
        "the transaction that began at {start} lost its locks or its hold. It has not committed: \
         run it again"
    )]
    LocksLost {
        /// Start timestamp.
        start: Timestamp,
    },
    /// Another client found its writes, considered it dead, and rolled it back.
    #[error(
        "the transaction that began at {start} was rolled back by another one. It has not committed: \
         run it again"
    )]
    RolledBack {
        /// Start timestamp.
        start: Timestamp,
    },
    /// Versions of its snapshot may have been swept.
    #[error(
        "the snapshot at {start} is too old: a cell of table {table} has been swept since. The \
         transaction has not committed: run it again"
    )]
    SnapshotTooOld {
        /// Start timestamp.
        start: Timestamp,
        /// Table of the cell.
        table: String,
    },
    /// The transaction exceeded the maximum age.
    #[error(
        "transaction too old: the one that began at {start} has been open for {} s, expected at \
         most {} s. It has not committed: do less in one transaction, or raise Options::age_max",
        age_seconds,
        max_seconds
    )]
    OpenTooLong {
        /// Start timestamp.
        start: Timestamp,
        /// Age.
        age_seconds: u64,
        /// Maximum age.
        max_seconds: u64,
    },
    /// Too many transactions wrote a cell while it was read.
    #[error(
        "too many concurrent writes: a cell of table {table} had more than {versions} versions of \
         transactions that were open when {start} began and committed later. Nothing was \
         committed: begin the transaction again, and reduce concurrent writes of the cell"
    )]
    TooManyVersions {
        /// Table of the cell.
        table: String,
        /// Start timestamp of the reader.
        start: Timestamp,
        /// Number of skipped versions.
        versions: usize,
    },
    /// A write in a read-only transaction.
    #[error(
        "read-only transaction: the one that began at {start} wrote nothing. Write in \
         Transactions::run or Transactions::start"
    )]
    ReadOnly {
        /// Start timestamp.
        start: Timestamp,
    },
    /// A read for update, an update, or an index, in a table without conflict checks.
    #[error(
        "no conflict checks: table {table} has ConflictHandler::Ignore, so nothing protects a cell \
         that is read for update, nor the entries of an index. Create the table with another handler"
    )]
    NoConflictChecks {
        /// Table of the read.
        table: String,
    },
    /// A snapshot at a timestamp that cannot be read.
    #[error(
        "no snapshot at {asked}: expected a timestamp from {oldest}, the oldest that the \
         transaction preserves, to {newest}, the last one issued. Keep a read-only transaction open \
         from before the first timestamp to read at"
    )]
    NoSnapshot {
        /// Requested timestamp.
        asked: Timestamp,
        /// The oldest timestamp at which the transaction can read.
        oldest: Timestamp,
        /// The last timestamp that was issued.
        newest: Timestamp,
    },
    /// A savepoint that has ended, or that belongs to another transaction.
    #[error(
        "unknown savepoint: the transaction that began at {start} has none like it. It was made in \
         another transaction, was released, or was made after a point that was rolled back to"
    )]
    NoSavepoint {
        /// Start timestamp.
        start: Timestamp,
    },
    /// A sum is outside the range of its type.
    #[error(
        "number overflow in table {table} at {cell}: the sum is outside the range of its type. Nothing \
         was written: use a type with a greater range, or smaller numbers"
    )]
    Overflow {
        /// Table of the cell.
        table: String,
        /// Cell with shortened names.
        cell: String,
    },
    /// A write of an empty value, which would be a deletion.
    #[error("empty value: table {table} cannot store one, delete the cell instead")]
    EmptyValue {
        /// Table of the write.
        table: String,
    },
    /// A row or column name that no store can represent.
    #[error("table {table}: {error}")]
    Name {
        /// Table of the write.
        table: String,
        /// What is wrong with the name.
        error: NameError,
    },
    /// A version exceeds the size that the store can write.
    #[error(
        "version too long in table {table} at {cell}: expected at most {max} bytes, as the commit \
         log of the store and the frames of its nodes allow, found {bytes}. Nothing was written: \
         split the value over several cells, or raise commitlog_segment_size, max_mutation_size \
         and native_transport_max_frame_size"
    )]
    TooLong {
        /// Table of the write.
        table: String,
        /// Cell with shortened names.
        cell: String,
        /// Bytes of its names and value.
        bytes: usize,
        /// Maximum bytes of one write.
        max: usize,
    },
    /// A name or a value does not have the expected type.
    #[error("table {table}: {error}; it was written with a different type than it is read with")]
    OtherType {
        /// Table of the cell.
        table: String,
        /// What was found.
        error: DecodeError,
    },
    /// The table is reserved.
    #[error(
        "reserved table name {0}: names that begin with an underscore are reserved, choose \
         another. Nothing was changed"
    )]
    ReservedTable(String),
    /// A table keeps its conflict handler permanently.
    #[error(
        "conflict handler of table {table}: expected {asked}, found {stored}. Nothing was done: \
         open it with its stored handler, or create another table"
    )]
    OtherHandler {
        /// Name of the table.
        table: String,
        /// Requested handler.
        asked: &'static str,
        /// Stored handler.
        stored: String,
    },
    /// A table keeps its sweep strategy permanently.
    #[error(
        "sweep strategy of table {table}: expected {asked}, found {stored}. A table keeps its \
         strategy: open it with the stored one, or create another table"
    )]
    OtherSweep {
        /// Name of the table.
        table: String,
        /// Requested strategy.
        asked: &'static str,
        /// Stored strategy.
        stored: String,
    },
    /// A write of an indexed cell in a process that has not declared the index.
    #[error(
        "index not declared: table {table} has index {index}, and this process has no function for \
         its keys. Nothing was written: declare the index before writing, or delete it with \
         Transactions::drop_index"
    )]
    IndexNotDeclared {
        /// Indexed table.
        table: String,
        /// Name of the index.
        index: String,
    },
    /// A read of an index that was not complete when the transaction began.
    #[error(
        "index {index} of table {table} is not complete in this snapshot: build it with \
         Index::build, and read it in a transaction that begins afterwards"
    )]
    IndexIncomplete {
        /// Indexed table.
        table: String,
        /// Name of the index.
        index: String,
    },
    /// An index is declared with properties that differ from the stored ones.
    #[error(
        "index {index} of table {table}: {difference}. Nothing was done: declare it as it is \
         stored, or delete it with Transactions::drop_index and build it again"
    )]
    OtherIndex {
        /// Indexed table.
        table: String,
        /// Name of the index.
        index: String,
        /// Requested and stored properties.
        difference: String,
    },
    /// An index that does not exist, or was deleted before the transaction began.
    #[error("no index {index} of table {table}: it was deleted, or belongs to another store")]
    NoIndex {
        /// Indexed table.
        table: String,
        /// Name of the index.
        index: String,
    },
    /// A unique key that belongs to another cell.
    #[error(
        "unique key of index {index} of table {table} exists: key \"{key}\" of \"{owner}\" belongs \
         to \"{other}\". Nothing was written: use another key, or delete the other one first"
    )]
    UniqueViolation {
        /// Indexed table.
        table: String,
        /// Name of the index.
        index: String,
        /// The encoded key, with escapes.
        key: String,
        /// The cell whose write was rejected: its row, and its column in an index of all columns.
        owner: String,
        /// The cell that has it.
        other: String,
    },
    /// A transaction that began before an index was declared or deleted is still open.
    #[error(
        "index {index} of table {table} waits for transactions that were open when it was declared \
         or deleted: one preserves timestamp {oldest}. End them, then repeat the call"
    )]
    IndexBusy {
        /// Indexed table.
        table: String,
        /// Name of the index.
        index: String,
        /// The oldest preserved timestamp.
        oldest: Timestamp,
    },
    /// The definitions of indexes, or the progress of a build, are malformed.
    #[error("indexes: {0}")]
    Indexes(DecodeError),
    /// A CQL statement in a transaction of a store that is not embedded.
    #[error(
        "CQL statements in a transaction: expected a store in an embedded database, found another one. \
         Write to CQL tables after the commit, with statements that may be repeated"
    )]
    NoCqlTables,
    /// A CQL statement that cannot be part of a transaction.
    #[error(
        "{what} cannot be part of a transaction: expected INSERT, UPDATE, DELETE or a batch of them, \
         without conditions, counters and USING TIMESTAMP, on ordinary durable tables"
    )]
    CqlRefused {
        /// What it is.
        what: String,
    },
    /// A CQL statement is invalid, or would fail.
    #[error(transparent)]
    Cql(DatabaseError),
    /// The CQL statements of a transaction write too much.
    #[error(
        "CQL writes too large: expected at most {max} bytes of keys and values in a transaction, found \
         {bytes}. The last statement was not added: use several transactions, or raise \
         commitlog_segment_size"
    )]
    CqlTooLarge {
        /// Bytes with the last statement.
        bytes: usize,
        /// Maximum bytes.
        max: usize,
    },
    /// The CQL statements of a transaction were refused when it committed: they exceed a limit with
    /// their index entries and view rows, or the schema, a permission or a guardrail has changed.
    #[error(
        "CQL writes refused at the commit: {}. None of them was written, and the transaction that \
         began at {start} has not committed",
        cause.cause
    )]
    CqlNotApplied {
        /// Start timestamp.
        start: Timestamp,
        /// Cause.
        cause: StoreError,
    },
    /// The sweep queue contains a malformed entry.
    #[error("sweep queue: {0}")]
    SweepQueue(DecodeError),
    /// The record of the last restore is malformed.
    #[error("record of the last restore: {0}")]
    RestoreMark(DecodeError),
    /// The sweeper's thread could not be started.
    #[error("start the sweeper's thread: {0}")]
    Background(std::io::Error),
    /// The store failed in a step that does not decide the commit.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Commit records of other transactions could not be read or put.
    #[error(transparent)]
    Service(ServiceError),
    /// Putting the commit record failed.
    #[error(
        "unknown outcome: the transaction that began at {start} may have committed at {commit}: \
         {cause}. Read what it wrote before running it again"
    )]
    OutcomeUnknown {
        /// Start timestamp.
        start: Timestamp,
        /// Commit timestamp of the record.
        commit: Timestamp,
        /// Cause.
        cause: ServiceError,
    },
    /// Two transactions had the same start timestamp.
    #[error(
        "duplicate start timestamp: expected no commit record of {start} before its commit at \
         {commit}, found {found:?}. Timestamps went backwards: stop all writers, and fast-forward \
         the timestamps"
    )]
    TwoCommits {
        /// Start timestamp.
        start: Timestamp,
        /// Commit timestamp of the record.
        commit: Timestamp,
        /// Status found.
        found: TransactionStatus,
    },
    /// An error of the application.
    #[error(transparent)]
    Caller(Box<dyn std::error::Error + Send + Sync>),
}

/// What is known about a failed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Not committed, and never will be.
    NotCommitted,
    /// May be committed now, later, or never.
    Unknown,
}

/// A result with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<ServiceError> for Error {
    fn from(error: ServiceError) -> Self {
        Self::Service(match error {
            ServiceError::NotPut { cause, .. } => *cause,
            error => error,
        })
    }
}

impl Error {
    /// Wraps an error of the application, for use in [`run`](crate::Transactions::run).
    pub fn caller(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Caller(error.into())
    }

    /// Returns what is known about the transaction.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::OutcomeUnknown { .. } | Self::TwoCommits { .. } => Outcome::Unknown,
            _ => Outcome::NotCommitted,
        }
    }

    /// Returns what to do about the error.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::TwoCommits { .. } => {
                "stop all writers, and fast-forward the timestamps above every one in the store"
            }
            Self::OutcomeUnknown { .. } => {
                "read what it wrote before running it again: it may have committed"
            }
            _ if self.is_unavailable() => {
                "run the transaction again from its beginning when the store and the timestamps \
                 respond: it had no effect"
            }
            _ if self.is_retriable() => "run the transaction again from its beginning: it had no effect",
            Self::EmptyValue { .. } => "delete the cell, or write one byte if only its existence matters",
            Self::ReservedTable(_) => "choose a table name that does not begin with an underscore",
            Self::OtherHandler { .. } => {
                "open the table with its stored conflict handler in every program; for another \
                 handler create another table"
            }
            Self::Name { .. } => {
                "use row names of 1 to 65,535 bytes and column names of at most 65,527 bytes"
            }
            Self::TooLong { .. } => "split the value over several cells, or raise the limits of the store",
            Self::OtherSweep { .. } => "open the table with its stored strategy",
            Self::Service(ServiceError::NewerLayout { .. }) => {
                "use the program that the store was migrated with"
            }
            Self::Service(ServiceError::UnsafeLayout { .. }) => "use layout 3",
            Self::Service(ServiceError::LayoutMismatch { .. }) => {
                "omit the layout, or run `cassette transactions migrate`"
            }
            Self::Service(ServiceError::NotIssued { .. } | ServiceError::WentBackwards { .. }) => {
                "stop all writers, and fast-forward the timestamps above every one in the store"
            }
            Self::NoConflictChecks { .. } => "create the table with a handler that detects conflicts",
            Self::IndexNotDeclared { .. } => "declare the index before writing, or delete it",
            Self::IndexIncomplete { .. } => "build the index, then begin a new transaction",
            Self::OtherIndex { .. } => "declare the index as it is stored, or delete it and build it again",
            Self::NoIndex { .. } => "declare the index, and build it",
            Self::UniqueViolation { .. } => "use another key, or delete the one that exists first",
            Self::IndexBusy { .. } => "end the transactions that are open, then repeat the call",
            Self::Indexes(_) => "use the program that wrote the definitions of the indexes",
            Self::NoCqlTables => "write to CQL tables after the commit, with statements that may be repeated",
            Self::CqlRefused { .. } => "execute the statement outside of the transaction",
            Self::Cql(_) => "correct the statement or its values",
            Self::CqlTooLarge { .. } => "use several transactions, or raise commitlog_segment_size",
            Self::CqlNotApplied { .. } => {
                "correct the statements, or distribute them over several transactions"
            }
            Self::NoSnapshot { .. } => {
                "keep a read-only transaction open from before the first timestamp to read at"
            }
            Self::NoSavepoint { .. } => "use a savepoint of this transaction that has not ended",
            Self::Overflow { .. } => "use a type with a greater range, or smaller numbers",
            Self::ReadOnly { .. } => "write in Transactions::run or Transactions::start",
            Self::OtherType { .. } => "read the column with the type that it was written with",
            Self::OpenTooLong { .. } => {
                "begin again and do less in one transaction, or raise Options::age_max"
            }
            Self::TooManyVersions { .. } => {
                "begin the transaction again: a newer snapshot sees what has committed meanwhile; \
                 reduce concurrent writes of the cell"
            }
            Self::TimeLock(_) => {
                "restore the service of timestamps and locks, then run the transaction again: it \
                 has not committed"
            }
            _ => "remove the cause, then run the transaction again: it has not committed",
        }
    }

    /// Returns whether the same transaction may succeed if it is run again from its beginning
    /// without taking effect twice: it has certainly not committed, and the cause is a conflict or
    /// [may pass](Self::is_unavailable).
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::WriteWriteConflict { .. }
            | Self::ReadWriteConflict { .. }
            | Self::LocksLost { .. }
            | Self::RolledBack { .. }
            | Self::SnapshotTooOld { .. }
            | Self::TimeLock(TimeLockError::LockTimeout { .. } | TimeLockError::RequestEnded { .. }) => true,
            _ => self.is_unavailable(),
        }
    }

    /// Returns whether the store or the timestamps did not respond in time, and the transaction
    /// failed before its commit point and so has not committed.
    /// [`Transactions::run`](crate::Transactions::run) runs it again for
    /// [`Retries::outage_max`](crate::Retries::outage_max).
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient,
            Self::TimeLock(error) => error.is_transient(),
            Self::Service(error) => error.is_transient(),
            Self::WriteWriteConflict { .. }
            | Self::ReadWriteConflict { .. }
            | Self::LocksLost { .. }
            | Self::RolledBack { .. }
            | Self::SnapshotTooOld { .. }
            | Self::OpenTooLong { .. }
            | Self::TooManyVersions { .. }
            | Self::ReadOnly { .. }
            | Self::NoConflictChecks { .. }
            | Self::NoSavepoint { .. }
            | Self::NoSnapshot { .. }
            | Self::Overflow { .. }
            | Self::EmptyValue { .. }
            | Self::OtherType { .. }
            | Self::ReservedTable(_)
            | Self::OtherHandler { .. }
            | Self::Name { .. }
            | Self::TooLong { .. }
            | Self::OtherSweep { .. }
            | Self::NoCqlTables
            | Self::CqlRefused { .. }
            | Self::Cql(_)
            | Self::CqlTooLarge { .. }
            | Self::CqlNotApplied { .. }
            | Self::IndexNotDeclared { .. }
            | Self::IndexIncomplete { .. }
            | Self::OtherIndex { .. }
            | Self::NoIndex { .. }
            | Self::UniqueViolation { .. }
            | Self::IndexBusy { .. }
            | Self::Indexes(_)
            | Self::SweepQueue(_)
            | Self::Background(_)
            | Self::RestoreMark(_)
            | Self::OutcomeUnknown { .. }
            | Self::TwoCommits { .. }
            | Self::Caller(_) => false,
        }
    }
}
