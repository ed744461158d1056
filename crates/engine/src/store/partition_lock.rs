//! Locks on partitions, for atomic sequences of read, decision and write.

use std::collections::BTreeSet;

use cassette_rows::interrupt::{self, Interrupted};
use cassette_rows::{DecoratedKey, TableId};
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};

/// The number of locks, a power of two, so large that two partitions in use rarely share one.
const STRIPES: usize = 512;

/// A fixed number of locks that partitions share.
pub(crate) struct PartitionLocks {
    stripes: Box<[CachePadded<Mutex<()>>]>,
}

/// Holds the lock of a partition until it is dropped. Plain writes do not acquire it.
#[must_use = "the partition is unlocked when this is dropped"]
pub struct PartitionLock<'a> {
    _guard: MutexGuard<'a, ()>,
}

impl PartitionLocks {
    pub fn new() -> Self {
        Self { stripes: std::iter::repeat_with(CachePadded::default).take(STRIPES).collect() }
    }

    /// Waits for the partition's lock. A thread that holds one must not lock another: both may be
    /// the same.
    ///
    /// # Errors
    /// If the request of this thread is interrupted first.
    pub fn lock(&self, table: TableId, key: &DecoratedKey) -> Result<PartitionLock<'_>, Interrupted> {
        self.lock_stripe(Self::stripe(table, key))
    }

    /// Returns the partition's lock, unless it, or that of another partition which shares it, is
    /// held.
    pub fn try_lock(&self, table: TableId, key: &DecoratedKey) -> Option<PartitionLock<'_>> {
        Some(PartitionLock { _guard: self.stripes[Self::stripe(table, key)].try_lock()? })
    }

    /// Waits for the locks of many partitions, in an order that all threads share.
    ///
    /// # Errors
    /// If the request of this thread is interrupted first.
    pub fn lock_all<'k>(
        &self,
        partitions: impl Iterator<Item = (TableId, &'k DecoratedKey)>,
    ) -> Result<Vec<PartitionLock<'_>>, Interrupted> {
        let stripes: BTreeSet<usize> = partitions.map(|(table, key)| Self::stripe(table, key)).collect();
        stripes.into_iter().map(|stripe| self.lock_stripe(stripe)).collect()
    }

    fn lock_stripe(&self, stripe: usize) -> Result<PartitionLock<'_>, Interrupted> {
        let mutex = &self.stripes[stripe];
        let mut guard = mutex.try_lock();
        loop {
            if let Some(guard) = guard {
                return Ok(PartitionLock { _guard: guard });
            }
            guard = mutex.try_lock_for(interrupt::check_before_wait()?);
        }
    }

    /// Returns the locks of many partitions, unless one of them is held.
    pub fn try_lock_all<'k>(
        &self,
        partitions: impl Iterator<Item = (TableId, &'k DecoratedKey)>,
    ) -> Option<Vec<PartitionLock<'_>>> {
        let stripes: BTreeSet<usize> = partitions.map(|(table, key)| Self::stripe(table, key)).collect();
        let lock = |stripe: usize| Some(PartitionLock { _guard: self.stripes[stripe].try_lock()? });
        stripes.into_iter().map(lock).collect()
    }

    fn stripe(table: TableId, key: &DecoratedKey) -> usize {
        let (high, low) = table.0.as_u64_pair();
        // Fibonacci hashing spreads tokens that differ in few bits.
        let hash = (key.token().0 as u64 ^ high ^ low).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (64 - STRIPES.ilog2())) as usize
    }
}
