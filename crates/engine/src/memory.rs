//! The memory of all memtables together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Counts the heap bytes of all memtables, and holds writers up while there are too many.
pub(crate) struct MemtablePool {
    limit: usize,
    flush_above: usize,
    /// All memtables.
    used: AtomicUsize,
    /// Those of them that are being flushed or wait for it: their bytes will be free without anyone asking.
    flushing: AtomicUsize,
    waiting: Mutex<()>,
    freed: Condvar,
}

impl MemtablePool {
    /// `flush_share`: the share of `limit` beyond which the largest memtable is to be flushed. Whatever it is, one is flushed before
    /// the pool is full: writers wait then for what nobody would free.
    pub fn new(limit: usize, flush_share: f64) -> Self {
        Self {
            limit,
            flush_above: ((limit as f64 * flush_share) as usize).min(limit.saturating_sub(1)),
            used: AtomicUsize::new(0),
            flushing: AtomicUsize::new(0),
            waiting: Mutex::new(()),
            freed: Condvar::new(),
        }
    }

    /// A memtable grew, or shrank.
    pub fn grow(&self, bytes: isize) {
        self.used.fetch_add(bytes as usize, Ordering::Relaxed);
    }

    /// A memtable of so many bytes will be flushed.
    pub fn begin_flush(&self, bytes: usize) {
        self.flushing.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A memtable that was to be flushed is gone.
    pub fn release(&self, bytes: usize) {
        self.flushing.fetch_sub(bytes, Ordering::Relaxed);
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        // Taking the lock orders this after the check of a writer that is about to wait.
        drop(self.waiting.lock());
        self.freed.notify_all();
    }

    /// Whether memtables that take writes hold so much that one should be flushed.
    pub fn wants_flush(&self) -> bool {
        self.used().saturating_sub(self.flushing.load(Ordering::Relaxed)) > self.flush_above
    }

    /// Whether writers have to wait.
    pub fn is_full(&self) -> bool {
        self.used() >= self.limit
    }

    /// Waits until there is room, a release, or the time is over.
    pub fn wait_for_room(&self, time: Duration) {
        let mut waiting = self.waiting.lock();
        if self.is_full() {
            self.freed.wait_for(&mut waiting, time);
        }
    }

    /// Heap bytes of all memtables.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pool_has_something_flushed_whatever_the_threshold() {
        for share in [0.01, 0.99, 1.0, 2.0, f64::INFINITY, f64::NAN, -1.0] {
            let pool = MemtablePool::new(1000, share);
            pool.grow(1000);
            assert!(pool.is_full() && pool.wants_flush(), "{share}");
            // What is being flushed will be free.
            pool.begin_flush(1000);
            assert!(!pool.wants_flush(), "{share}");
            pool.release(1000);
            assert!(!pool.is_full());
        }
    }
}
