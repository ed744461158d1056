//! Why a transaction failed, and what is known of it then.

use crate::encoding::DecodeError;
use crate::service::ServiceError;
use crate::store::{Cell, NameError, StoreError};
use crate::timelock::TimeLockError;
use crate::timestamp::{Conclusion, Timestamp};

/// Why a transaction, or a step of it, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another transaction wrote what this one writes, since it began.
    #[error(
        "write-write conflict in table {table} at {cell:02x?}: written by the transaction that began at {other}. This one has not committed: run it again"
    )]
    WriteWriteConflict {
        /// The table.
        table: String,
        /// The cell.
        cell: Cell,
        /// The other's start timestamp.
        other: Timestamp,
    },
    /// Another transaction wrote what this one read, since it began, in a serializable table.
    #[error(
        "read-write conflict in table {table}: {what} was changed since it was read. The transaction has not committed: run it again"
    )]
    ReadWriteConflict {
        /// The table.
        table: String,
        /// What was read.
        what: String,
    },
    /// Others held a lock for too long, or the timestamps failed.
    #[error(transparent)]
    TimeLock(#[from] TimeLockError),
    /// The locks were lost before the commit.
    #[error(
        "the locks or the hold of the transaction that began at {start} were lost. It has not committed: run it again"
    )]
    LocksLost {
        /// Its start.
        start: Timestamp,
    },
    /// Somebody met its writes, thought it dead, and recorded that it aborted.
    #[error(
        "the transaction that began at {start} was rolled back by another one. It has not committed: run it again"
    )]
    RolledBack {
        /// Its start.
        start: Timestamp,
    },
    /// What its snapshot holds may have been swept.
    #[error(
        "the snapshot at {start} is too old: a cell of table {table} has been swept since. The transaction has not committed: run it again"
    )]
    SnapshotTooOld {
        /// Its start.
        start: Timestamp,
        /// The table.
        table: String,
    },
    /// It has been open for longer than transactions may be.
    #[error(
        "the transaction that began at {start} has been open for {} s, longer than the {} s allowed. It has not committed: do less in one transaction, or raise Options::age_max",
        age_seconds,
        max_seconds
    )]
    OpenTooLong {
        /// Its start.
        start: Timestamp,
        /// Its age.
        age_seconds: u64,
        /// How old it may get.
        max_seconds: u64,
    },
    /// A cell changed its writer too often while it was read.
    #[error(
        "a cell of table {table} had more than {versions} versions of transactions that were open when {start} began and committed later. Nothing of this one has \
         committed: begin it anew, and find out why so many write the cell at once"
    )]
    TooManyVersions {
        /// The table.
        table: String,
        /// The reader's start.
        start: Timestamp,
        /// How many were passed over.
        versions: usize,
    },
    /// A read-only transaction was to write.
    #[error(
        "the transaction that began at {start} is read-only, and nothing was written: write in one of Transactions::run or Transactions::start"
    )]
    ReadOnly {
        /// Its start.
        start: Timestamp,
    },
    /// An empty value was to be written; it would be a deletion.
    #[error("an empty value cannot be written to table {table}: delete the cell instead")]
    EmptyValue {
        /// The table.
        table: String,
    },
    /// A row or a column cannot have this name in any store.
    #[error("table {table}: {error}")]
    Name {
        /// The table.
        table: String,
        /// What is wrong with it.
        error: NameError,
    },
    /// A version is longer than the store can write.
    #[error(
        "table {table}: {bytes} bytes are to be written at {cell}, expected at most {max}, as the commit log of the store and the frames of its \
         nodes can hold. Nothing was written: divide the value over several cells, or raise commitlog_segment_size, max_mutation_size and \
         native_transport_max_frame_size"
    )]
    TooLong {
        /// The table.
        table: String,
        /// The cell, its names shortened.
        cell: String,
        /// Bytes of its names and value.
        bytes: usize,
        /// How many one write may have.
        max: usize,
    },
    /// A name or a value is none of the type that it is read as.
    #[error("table {table}: {error}; it was written as another type than it is read as")]
    OtherType {
        /// The table.
        table: String,
        /// What is there.
        error: DecodeError,
    },
    /// The table is not for applications.
    #[error(
        "table {0} is reserved, and nothing was done: names that begin with an underscore are the transactions' own, give it another"
    )]
    ReservedTable(String),
    /// A table has one conflict handler for ever, whoever opens it.
    #[error(
        "table {table} has the conflict handler {stored}, and {asked} was asked for; nothing was done. Open it with the one it has, or make another table"
    )]
    OtherHandler {
        /// The table.
        table: String,
        /// The handler asked for.
        asked: &'static str,
        /// The handler it has.
        stored: String,
    },
    /// A table is swept in one way for ever.
    #[error(
        "table {table} is swept {stored}, and {asked} was asked for: a table keeps its strategy; make another table"
    )]
    OtherSweep {
        /// The table.
        table: String,
        /// The strategy asked for.
        asked: &'static str,
        /// The strategy it has.
        stored: String,
    },
    /// The queue of what is to be swept has something that is none of its entries.
    #[error("sweep queue: {0}")]
    SweepQueue(DecodeError),
    /// What should name the last restore names none.
    #[error("the mark of the last restore: {0}")]
    RestoreMark(DecodeError),
    /// The thread that sweeps was not to be had.
    #[error("start the thread that sweeps: {0}")]
    Background(std::io::Error),
    /// The store failed at something that does not decide the commit.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Conclusions could not be read or put, not that of this transaction.
    #[error(transparent)]
    Service(ServiceError),
    /// The put of the commit failed.
    #[error(
        "it is not known whether the transaction that began at {start} has committed at {commit}: {cause}. Read what it wrote, and do not run it again blindly"
    )]
    OutcomeUnknown {
        /// Its start.
        start: Timestamp,
        /// The commit timestamp that was put.
        commit: Timestamp,
        /// Why.
        cause: ServiceError,
    },
    /// Two transactions had one start timestamp.
    #[error(
        "the transaction that began at {start} was to commit at {commit}, and has {found:?} already: timestamps went backwards. Stop all writers, and fast-forward the timestamps"
    )]
    TwoCommits {
        /// Its start.
        start: Timestamp,
        /// The commit timestamp that was put.
        commit: Timestamp,
        /// What is there.
        found: Conclusion,
    },
    /// What the application's own code failed with.
    #[error(transparent)]
    Caller(Box<dyn std::error::Error + Send + Sync>),
}

/// What is known of a transaction that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is not committed and never will be.
    NotCommitted,
    /// It may be committed now, or later, or never.
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
    /// Wraps an error of the application's, for use in [`run`](crate::Transactions::run).
    pub fn caller(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Caller(error.into())
    }

    /// What is known of the transaction.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::OutcomeUnknown { .. } | Self::TwoCommits { .. } => Outcome::Unknown,
            _ => Outcome::NotCommitted,
        }
    }

    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::TwoCommits { .. } => {
                "stop all writers, and fast-forward the timestamps above every one in the store"
            }
            Self::OutcomeUnknown { .. } => {
                "read what it wrote before doing anything again: it may have committed"
            }
            _ if self.is_unavailable() => {
                "run the transaction again, from its beginning, when the store and the timestamps answer: nothing of it was done"
            }
            _ if self.is_retriable() => {
                "run the transaction again, from its beginning: nothing of it was done"
            }
            Self::EmptyValue { .. } => "delete the cell; where presence alone matters, write a byte",
            Self::ReservedTable(_) => "give the table a name that does not begin with an underscore",
            Self::OtherHandler { .. } => {
                "open the table with the conflict handler that it was made with, in every program that uses it; for another handler make another table"
            }
            Self::Name { .. } => "give rows names of 1 to 65,535 bytes and columns names of up to 65,527",
            Self::TooLong { .. } => "divide the value over several cells, or raise the limits of the store",
            Self::OtherSweep { .. } => "open the table with the strategy that it was made with",
            Self::Service(ServiceError::NewerLayout { .. }) => {
                "use the program that the store was migrated with"
            }
            Self::Service(ServiceError::UnsafeLayout { .. }) => "use layout 3",
            Self::Service(ServiceError::LayoutMismatch { .. }) => {
                "leave the layout out, or run `cassette transactions migrate`"
            }
            Self::Service(ServiceError::NotGivenOut { .. } | ServiceError::WentBackwards { .. }) => {
                "stop all writers, and fast-forward the timestamps above every one in the store"
            }
            Self::ReadOnly { .. } => "write in a transaction of Transactions::run or Transactions::start",
            Self::OtherType { .. } => "read the column with the type that it was written with",
            Self::OpenTooLong { .. } => {
                "begin anew, and do less in one transaction, or raise Options::age_max"
            }
            Self::TooManyVersions { .. } => {
                "begin it anew: a newer snapshot sees what has committed meanwhile; let fewer transactions write the cell at once"
            }
            Self::TimeLock(_) => {
                "see to the timestamps and locks, then run the transaction again: it is not committed"
            }
            _ => "see to the cause, then run the transaction again: it is not committed",
        }
    }

    /// Whether the same transaction, run again from its beginning, may succeed, and is not done twice: it is
    /// known that it has not committed, and the cause is a conflict, or [may pass](Self::is_unavailable).
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

    /// Whether the store or the timestamps did not answer, or not in time, and the transaction is known not
    /// to have committed: it was before its commit point. [`Transactions::run`](crate::Transactions::run)
    /// runs it again for [`Options::outage_max`](crate::Options::outage_max).
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
            | Self::EmptyValue { .. }
            | Self::OtherType { .. }
            | Self::ReservedTable(_)
            | Self::OtherHandler { .. }
            | Self::Name { .. }
            | Self::TooLong { .. }
            | Self::OtherSweep { .. }
            | Self::SweepQueue(_)
            | Self::Background(_)
            | Self::RestoreMark(_)
            | Self::OutcomeUnknown { .. }
            | Self::TwoCommits { .. }
            | Self::Caller(_) => false,
        }
    }
}
