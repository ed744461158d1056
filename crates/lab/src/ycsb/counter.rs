//! Counters that assign the numbers of keys to insert, and track their acknowledgement.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};

/// Maximum distance between the oldest unacknowledged insertion and the newest one.
const WINDOW: usize = 1 << 20;

/// A counter whose numbers become readable only after all smaller ones were acknowledged.
///
/// Reads choose among keys up to [`last_acknowledged`](Self::last_acknowledged), so that no read
/// requests a key whose insertion is in progress. Invariants: `window[n % WINDOW]` is true
/// exactly for numbers acknowledged and above `readable_end`; `readable_end` only moves under the
/// lock and only forwards.
#[derive(Debug)]
pub struct AcknowledgedCounter {
    next: AtomicU64,
    /// One past the last number all of whose predecessors are acknowledged.
    readable_end: AtomicU64,
    window: Box<[AtomicBool]>,
    advancing: Mutex<()>,
}

impl AcknowledgedCounter {
    /// Creates a counter whose first number is `start`; all below it count as acknowledged.
    pub fn new(start: u64) -> Self {
        Self {
            next: AtomicU64::new(start),
            readable_end: AtomicU64::new(start),
            window: (0..WINDOW).map(|_| AtomicBool::new(false)).collect(),
            advancing: Mutex::new(()),
        }
    }

    /// Returns the next number. It must be passed to [`acknowledge`](Self::acknowledge) whether its
    /// insertion succeeds or not.
    pub fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number that the next call of [`next`](Self::next) returns.
    pub fn upcoming(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Returns the number of readable numbers from 0 on: one past the last acknowledged.
    pub fn readable_end(&self) -> u64 {
        self.readable_end.load(Ordering::Acquire)
    }

    /// Records that the insertion of `number` is complete.
    ///
    /// # Panics
    /// Panics if `number` is a whole window ahead of the oldest one in progress: a driver lost an
    /// acknowledgement.
    pub fn acknowledge(&self, number: u64) {
        let slot = &self.window[number as usize % WINDOW];
        assert!(
            !slot.swap(true, Ordering::AcqRel),
            "{number} is {WINDOW} ahead of an unacknowledged insertion"
        );
        // The holder of the lock is advancing; at worst this number becomes readable with the next
        // acknowledgement.
        let _guard = match self.advancing.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        let mut end = self.readable_end.load(Ordering::Relaxed);
        while self.window[end as usize % WINDOW].swap(false, Ordering::AcqRel) {
            end += 1;
        }
        self.readable_end.store(end, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable_after_all_smaller_ones_are_acknowledged() {
        let counter = AcknowledgedCounter::new(100);
        assert_eq!(counter.readable_end(), 100);
        assert_eq!([counter.next(), counter.next(), counter.next()], [100, 101, 102]);
        counter.acknowledge(102);
        assert_eq!(counter.readable_end(), 100);
        counter.acknowledge(100);
        assert_eq!(counter.readable_end(), 101);
        counter.acknowledge(101);
        assert_eq!(counter.readable_end(), 103);
    }

    #[test]
    fn the_window_is_reused_indefinitely() {
        let counter = AcknowledgedCounter::new(0);
        for _ in 0..WINDOW + 10 {
            counter.acknowledge(counter.next());
        }
        assert_eq!(counter.readable_end(), WINDOW as u64 + 10);
    }

    #[test]
    fn threads_together_acknowledge_everything() {
        let counter = AcknowledgedCounter::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| counter.acknowledge(counter.next())));
            }
        });
        // A thread that did not acquire the lock leaves its number to the next acknowledgement.
        counter.acknowledge(counter.next());
        assert_eq!(counter.readable_end(), 40_001);
    }
}
