//! Transaction services: which start timestamps have a conclusion, and what it is.

mod batching;
mod by_version;
mod caching;
mod coordination;
mod layouts;

use std::collections::HashMap;
use std::sync::Arc;

use crate::encoding::DecodeError;
use crate::store::StoreError;
use crate::timelock::TimeLockError;
use crate::timestamp::{Conclusion, Timestamp};

pub use batching::Batching;
pub use by_version::ByVersion;
pub use caching::Caching;
pub use coordination::{Agreed, Coordination, Migrated};
pub use layouts::{Layout, StoredConclusions};

/// What putting a conclusion did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// It stands. Maybe since an earlier try: nobody else knows a start together with its commit timestamp.
    Recorded,
    /// Another one stands, and will.
    Exists(Conclusion),
}

/// Why a service did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// The store failed. A conclusion that was to be put may be there or not.
    #[error("conclusions: {0}")]
    Store(#[from] StoreError),
    /// A stored value is none.
    #[error("conclusion of {start}: {error}")]
    Decode {
        /// The start.
        start: Timestamp,
        /// What is wrong.
        error: DecodeError,
    },
    /// Starts below 1 have committed before time began.
    #[error("start timestamp {0} is below 1, nothing can be put for it")]
    BeforeTime(Timestamp),
    /// The coordination row is none.
    #[error("coordination row: {0}")]
    Coordination(DecodeError),
    /// A start has, or was to get, a layout that this program does not know.
    #[error(
        "conclusions of layout {version} are not known here, where 1 to 3 are: use the newer program that the store was migrated with"
    )]
    NewerLayout {
        /// The layout's version.
        version: u32,
    },
    /// The store's transactions have another layout than the one that was asked for.
    #[error(
        "new transactions of the store have layout {stored}, and {asked} was asked for: leave the layout out, or migrate the store (`cassette transactions migrate`)"
    )]
    LayoutMismatch {
        /// The version asked for.
        asked: u32,
        /// The version that new transactions of the store have.
        stored: u32,
    },
    /// A layout was asked for with parameters that a store's coordination row cannot say.
    #[error("tickets of other parameters than the standard ones are for tables without a coordination row")]
    OddTickets,
    /// The layout may show a commit to one reader and not to the next, on a store like this.
    #[error(
        "layout {version} is not for this store: what is left of conditional writes that failed may be seen by one reader and not by the next, so a \
         commit could come and go. Layout 3 is what survives that. Nothing was changed; where it does not matter, ask for it in spite of that \
         (--force, Options::any_layout)"
    )]
    UnsafeLayout {
        /// The version.
        version: u32,
    },
    /// A start was met that nobody was given.
    #[error(
        "start timestamp {start} was met, and the timestamps are at {fresh} only: they went backwards, or the bound of the timestamps was lost. Stop all writers, and fast-forward the timestamps"
    )]
    NotGivenOut {
        /// The start.
        start: Timestamp,
        /// A fresh timestamp.
        fresh: Timestamp,
    },
    /// A fresh timestamp is not above one that was given out before.
    #[error(
        "timestamp {fresh} was given out after {seen}: the timestamps went backwards. Stop all writers, and fast-forward the timestamps"
    )]
    WentBackwards {
        /// The fresh timestamp.
        fresh: Timestamp,
        /// One from before.
        seen: Timestamp,
    },
    /// Others changed the coordination row each time that this client wanted to.
    #[error(
        "the coordination row was changed by others {attempts} times meanwhile: run it again when they are done"
    )]
    Contended {
        /// How often it was tried.
        attempts: usize,
    },
    /// A fresh timestamp was not to be had. Nothing was put.
    #[error(transparent)]
    TimeLock(#[from] TimeLockError),
    /// Nothing was put: where to was not to be found out.
    #[error("the conclusion of {start} was not put: {cause}")]
    NotPut {
        /// The start.
        start: Timestamp,
        /// Why.
        cause: Box<ServiceError>,
    },
    /// The store did something that it never may.
    #[error("conclusion of {start}: {what}; the store or its clocks are broken, stop writing to it")]
    Broken {
        /// The start.
        start: Timestamp,
        /// What was seen.
        what: String,
    },
}

impl ServiceError {
    /// Whether the cause may pass by itself: a store or timestamps that did not answer in time.
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
            | Self::NotGivenOut { .. }
            | Self::WentBackwards { .. }
            | Self::Broken { .. } => false,
        }
    }
}

/// A result with a [`ServiceError`].
pub type ServiceResult<T> = Result<T, ServiceError>;

/// Conclusions by start timestamp. A start gets at most one, and it never changes; that it has none was true at some moment
/// during the call. Starts below 1 are committed at 0.
pub trait TransactionService: Send + Sync {
    /// The conclusions of those starts that have one.
    fn get_many(&self, starts: &[Timestamp]) -> ServiceResult<HashMap<Timestamp, Conclusion>>;

    /// Gives each start a conclusion unless it has one; each by itself, results in order. After an error, that start may have the
    /// conclusion or get it later.
    fn put_many_unless_exists(&self, conclusions: &[(Timestamp, Conclusion)])
    -> Vec<ServiceResult<Recorded>>;

    /// The conclusion of one start, if it has one.
    fn get(&self, start: Timestamp) -> ServiceResult<Option<Conclusion>> {
        Ok(self.get_many(&[start])?.remove(&start))
    }

    /// Gives a start a conclusion unless it has one.
    fn put_unless_exists(&self, start: Timestamp, conclusion: Conclusion) -> ServiceResult<Recorded> {
        self.put_many_unless_exists(&[(start, conclusion)])
            .pop()
            .unwrap_or_else(|| Err(ServiceError::Broken { start, what: "a put had no result".to_owned() }))
    }
}

impl<T: TransactionService + ?Sized> TransactionService for Arc<T> {
    fn get_many(&self, starts: &[Timestamp]) -> ServiceResult<HashMap<Timestamp, Conclusion>> {
        (**self).get_many(starts)
    }

    fn put_many_unless_exists(
        &self,
        conclusions: &[(Timestamp, Conclusion)],
    ) -> Vec<ServiceResult<Recorded>> {
        (**self).put_many_unless_exists(conclusions)
    }

    fn get(&self, start: Timestamp) -> ServiceResult<Option<Conclusion>> {
        (**self).get(start)
    }

    fn put_unless_exists(&self, start: Timestamp, conclusion: Conclusion) -> ServiceResult<Recorded> {
        (**self).put_unless_exists(start, conclusion)
    }
}
