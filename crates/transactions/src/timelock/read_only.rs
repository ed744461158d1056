//! Read-only access to the timestamps of a store: issues none, locks nothing.

use std::time::Duration;

use bytes::Bytes;

use super::{Hold, LockToken, Started, TimeLock, TimeLockError, stored_bound};
use crate::store::{Store, StoreError};
use crate::timestamp::Timestamp;

/// The stored bound of a store's timestamps. Does not disturb the process that issues them.
/// Operations that need a timestamp or a lock fail.
pub struct ReadOnlyTimeLock {
    bound: Timestamp,
}

impl ReadOnlyTimeLock {
    /// Reads the stored bound.
    pub fn open(store: &dyn Store) -> Result<Self, StoreError> {
        Ok(Self { bound: stored_bound(store)?.unwrap_or(Timestamp::ATOMIC) })
    }
}

impl TimeLock for ReadOnlyTimeLock {
    /// Always succeeds: no timestamps are issued.
    fn check_store(&self, _: &dyn Store) -> Result<(), TimeLockError> {
        Ok(())
    }

    fn start(&self) -> Result<Started, TimeLockError> {
        Err(TimeLockError::ReadOnly)
    }

    fn timestamp(&self) -> Result<Timestamp, TimeLockError> {
        Err(TimeLockError::ReadOnly)
    }

    /// The immutable timestamp if no transaction were open.
    fn immutable(&self) -> Result<Timestamp, TimeLockError> {
        Ok(Timestamp(self.bound.0.saturating_add(1)))
    }

    fn lock(&self, _: Vec<Bytes>, _: Duration) -> Result<LockToken, TimeLockError> {
        Err(TimeLockError::ReadOnly)
    }

    fn wait_for(&self, _: &[Bytes], _: Duration) -> Result<(), TimeLockError> {
        Err(TimeLockError::ReadOnly)
    }

    fn is_held(&self, _: Option<&LockToken>, _: Hold) -> Result<bool, TimeLockError> {
        Ok(false)
    }

    fn unlock(&self, _: LockToken) {}

    fn release(&self, _: Hold) {}

    fn fast_forward(&self, _: Timestamp) -> Result<(), TimeLockError> {
        Err(TimeLockError::ReadOnly)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use crate::timelock::Timestamps;

    #[test]
    fn read_only_access_takes_no_timestamps_and_disturbs_no_client() {
        let store = std::sync::Arc::new(MemoryStore::new());
        let timestamps = Timestamps::open(store.clone()).unwrap();
        let (last, _) = timestamps.take(1).unwrap();
        let read_only = ReadOnlyTimeLock::open(&store).unwrap();
        assert!(read_only.immutable().unwrap() > last);
        assert_eq!(read_only.start(), Err(TimeLockError::ReadOnly));
        assert_eq!(read_only.fast_forward(Timestamp(1)), Err(TimeLockError::ReadOnly));
        timestamps.take(10_000_000).unwrap();
    }
}
