//! The bytes that files may have together.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes in use and their limit.
pub(super) struct Space {
    limit: u64,
    used: AtomicU64,
}

impl Space {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0) }
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn available(&self) -> u64 {
        if self.limit == u64::MAX { u64::MAX } else { self.limit.saturating_sub(self.used()) }
    }

    /// Takes bytes, or returns the limit that they would exceed.
    pub(super) fn take(&self, bytes: u64) -> Result<(), u64> {
        let taken = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).map(drop).map_err(|_| self.limit)
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
