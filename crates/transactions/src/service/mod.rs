//! Transaction services, which store the commit records: the final status by start timestamp.

mod batching;
mod by_version;
mod caching;
mod coordination;
mod layouts;

use std::collections::HashMap;
use std::sync::Arc;

use cassette_database::DeferredWrite;

use crate::encoding::DecodeError;
pub use crate::encoding::layout::Layout;
use crate::store::StoreError;
use crate::timelock::TimeLockError;
use crate::timestamp::{Timestamp, TransactionStatus};

pub use batching::Batching;
pub use by_version::ByVersion;
pub use caching::Caching;
pub use coordination::{Agreed, Coordination, Migrated};
pub use layouts::CommitRecords;

/// Result of putting a commit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// The record stands, perhaps since an earlier attempt: only its writer knows a start timestamp
    /// together with its commit timestamp.
    Recorded,
    /// Another record stands permanently.
    Exists(TransactionStatus),
}

/// Errors of transaction services.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// The store failed. A record that was being put may have been stored.
    #[error("commit records: {0}")]
    Store(#[from] StoreError),
    /// A stored value is malformed.
    #[error("commit record of {start}: {error}")]
    Decode {
        /// Start timestamp.
        start: Timestamp,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// Start timestamps below 1 count as committed since before the first transaction.
    #[error("invalid start timestamp {0}: expected at least 1")]
    BeforeTime(Timestamp),
    /// The coordination row is malformed.
    #[error("coordination row: {0}")]
    Coordination(DecodeError),
    /// The start timestamp has a layout that this program does not know.
    #[error(
        "unknown layout of commit records: expected 1 to 3, found {version}. Use the newer program \
         that migrated the store"
    )]
    NewerLayout {
        /// Version of the layout.
        version: u32,
    },
    /// The store's new transactions have another layout than the requested one.
    #[error(
        "layout mismatch: expected {asked}, found {stored} for new transactions of the store. Omit \
         the layout, or migrate the store (`cassette transactions migrate`)"
    )]
    LayoutMismatch {
        /// Requested version.
        asked: u32,
        /// Version of the store's new transactions.
        stored: u32,
    },
    /// The layout has parameters that the coordination row cannot express.
    #[error("tickets with non-standard parameters require a table without a coordination row")]
    OddTickets,
    /// On this store, the layout may show a commit to one reader and not to the next.
    #[error(
        "unsafe layout {version} for this store: remains of a failed conditional write may be \
         visible to one reader and not to the next, so that a commit appears and disappears. \
         Layout 3 tolerates that. Nothing was changed; to use it nevertheless, specify --force or \
         Options::any_layout"
    )]
    UnsafeLayout {
        /// Version of the layout.
        version: u32,
    },
    /// The start timestamp was never issued.
    #[error(
        "start timestamp out of range: expected below {fresh}, found {start}. Timestamps went \
         backwards, or their bound was lost: stop all writers, and fast-forward the timestamps"
    )]
    NotIssued {
        /// Start timestamp.
        start: Timestamp,
        /// A fresh timestamp.
        fresh: Timestamp,
    },
    /// A fresh timestamp is not above one that was issued before.
    #[error(
        "timestamps went backwards: expected above {seen}, found {fresh}. Stop all writers, and \
         fast-forward the timestamps"
    )]
    WentBackwards {
        /// The fresh timestamp.
        fresh: Timestamp,
        /// The earlier timestamp.
        seen: Timestamp,
    },
    /// Other clients changed the coordination row at every attempt.
    #[error("the coordination row was changed by other clients {attempts} times: try again later")]
    Contended {
        /// Number of attempts.
        attempts: usize,
    },
    /// No fresh timestamp was available. Nothing was put.
    #[error(transparent)]
    TimeLock(#[from] TimeLockError),
    /// Nothing was put, because the layout of the record could not be determined.
    #[error("commit record of {start} not put: {cause}")]
    NotPut {
        /// Start timestamp.
        start: Timestamp,
        /// Cause.
        cause: Box<ServiceError>,
    },
    /// The store violated its contract.
    #[error("commit record of {start}: {what}. The store or its clocks are broken: stop writing to it")]
    Broken {
        /// Start timestamp.
        start: Timestamp,
        /// What was observed.
        what: String,
    },
}

impl ServiceError {
    /// Returns whether the cause may pass without intervention: a store or timestamps that did not
    /// respond in time.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient,
            Self::TimeLock(error) => error.is_transient(),
            Self::NotPut { cause, .. } => cause.is_transient(),
            Self::Contended { .. } => true,
            Self::Decode { .. }
            | Self::BeforeTime(_)
            | Self::Coordination(_)
            | Self::NewerLayout { .. }
            | Self::LayoutMismatch { .. }
            | Self::OddTickets
            | Self::UnsafeLayout { .. }
            | Self::NotIssued { .. }
            | Self::WentBackwards { .. }
            | Self::Broken { .. } => false,
        }
    }
}

/// A result with a [`ServiceError`].
pub type ServiceResult<T> = Result<T, ServiceError>;

/// Commit records by start timestamp. A start timestamp gets at most one, which never changes. A
/// reported absence was true at some moment during the call. Start timestamps below 1 are committed
/// at 0.
pub trait TransactionService: Send + Sync {
    /// Returns the statuses of those start timestamps that have one.
    fn get_many(&self, starts: &[Timestamp]) -> ServiceResult<HashMap<Timestamp, TransactionStatus>>;

    /// Assigns each start timestamp a status unless it has one, independently of the others.
    /// Results are in order. After an error, the status may be stored now or later.
    fn put_many_unless_exists(
        &self,
        statuses: &[(Timestamp, TransactionStatus)],
    ) -> Vec<ServiceResult<Recorded>>;

    /// Returns the status of one start timestamp, if it has one.
    fn get(&self, start: Timestamp) -> ServiceResult<Option<TransactionStatus>> {
        Ok(self.get_many(&[start])?.remove(&start))
    }

    /// Assigns a start timestamp a status unless it has one.
    fn put_unless_exists(&self, start: Timestamp, status: TransactionStatus) -> ServiceResult<Recorded> {
        self.put_many_unless_exists(&[(start, status)])
            .pop()
            .unwrap_or_else(|| Err(ServiceError::Broken { start, what: "a put had no result".to_owned() }))
    }

    /// Assigns a start timestamp a status unless it has one, together with writes to CQL tables of
    /// the store: all of it or nothing.
    ///
    /// # Errors
    /// `NotPut` if nothing was written, as with a service that has no CQL tables.
    fn put_with(
        &self,
        start: Timestamp,
        status: TransactionStatus,
        writes: &[DeferredWrite],
    ) -> ServiceResult<Recorded> {
        let _ = (status, writes);
        let cause = StoreError::refused("put CQL writes", "the commit records have no CQL tables");
        Err(ServiceError::NotPut { start, cause: Box::new(cause.into()) })
    }
}

impl<T: TransactionService + ?Sized> TransactionService for Arc<T> {
    fn get_many(&self, starts: &[Timestamp]) -> ServiceResult<HashMap<Timestamp, TransactionStatus>> {
        (**self).get_many(starts)
    }

    fn put_many_unless_exists(
        &self,
        statuses: &[(Timestamp, TransactionStatus)],
    ) -> Vec<ServiceResult<Recorded>> {
        (**self).put_many_unless_exists(statuses)
    }

    fn get(&self, start: Timestamp) -> ServiceResult<Option<TransactionStatus>> {
        (**self).get(start)
    }

    fn put_unless_exists(&self, start: Timestamp, status: TransactionStatus) -> ServiceResult<Recorded> {
        (**self).put_unless_exists(start, status)
    }
    fn put_with(
        &self,
        start: Timestamp,
        status: TransactionStatus,
        writes: &[DeferredWrite],
    ) -> ServiceResult<Recorded> {
        (**self).put_with(start, status, writes)
    }
}
