//! The timestamps of a store that is only looked at: none is given out, nothing is locked.

use std::time::Duration;

use bytes::Bytes;

use super::{Hold, LockToken, Started, TimeLock, TimeLockError, stored_bound};
use crate::store::{Store, StoreError};
use crate::timestamp::Timestamp;

/// Where the timestamps of a store are, without taking any: beside the process that gives them out, it disturbs nobody. Whatever needs a timestamp
/// or a lock fails.
pub struct Frozen {
    bound: Timestamp,
}

impl Frozen {
    /// Reads the stored bound.
    pub fn open(store: &dyn Store) -> Result<Self, StoreError> {
        Ok(Self { bound: stored_bound(store)?.unwrap_or(Timestamp::ATOMIC) })
    }
}

impl TimeLock for Frozen {
    /// It gives none out.
    fn check_store(&self, _: &dyn Store) -> Result<(), TimeLockError> {
        Ok(())
    }

    fn start(&self) -> Result<Started, TimeLockError> {
        Err(TimeLockError::OnlyLookedAt)
    }

    fn timestamp(&self) -> Result<Timestamp, TimeLockError> {
        Err(TimeLockError::OnlyLookedAt)
    }

    /// What it would be if no transaction were open.
    fn immutable(&self) -> Result<Timestamp, TimeLockError> {
        Ok(Timestamp(self.bound.0.saturating_add(1)))
    }

    fn lock(&self, _: Vec<Bytes>, _: Duration) -> Result<LockToken, TimeLockError> {
        Err(TimeLockError::OnlyLookedAt)
    }

    fn wait_for(&self, _: &[Bytes], _: Duration) -> Result<(), TimeLockError> {
        Err(TimeLockError::OnlyLookedAt)
    }

    fn is_held(&self, _: Option<&LockToken>, _: Hold) -> Result<bool, TimeLockError> {
        Ok(false)
    }

    fn unlock(&self, _: LockToken) {}

    fn release(&self, _: Hold) {}

    fn fast_forward(&self, _: Timestamp) -> Result<(), TimeLockError> {
        Err(TimeLockError::OnlyLookedAt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use crate::timelock::Timestamps;

    #[test]
    fn who_only_looks_takes_nothing_and_stops_nobody() {
        let store = std::sync::Arc::new(MemoryStore::new());
        let timestamps = Timestamps::open(store.clone()).unwrap();
        let (last, _) = timestamps.take(1).unwrap();
        let frozen = Frozen::open(&store).unwrap();
        assert!(frozen.immutable().unwrap() > last);
        assert_eq!(frozen.start(), Err(TimeLockError::OnlyLookedAt));
        assert_eq!(frozen.fast_forward(Timestamp(1)), Err(TimeLockError::OnlyLookedAt));
        timestamps.take(10_000_000).unwrap();
    }
}
