//! Counters that give out the numbers of keys to insert, and know which of them were acknowledged.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};

/// How many insertions may be under way between the oldest unacknowledged one and the newest.
const WINDOW: usize = 1 << 20;

/// A counter whose numbers become readable only once every smaller one was acknowledged.
///
/// Reads choose among keys up to [`last_acknowledged`](Self::last_acknowledged), so that no read asks for a key whose
/// insertion is still under way. Invariants: `window[n % WINDOW]` is true exactly for numbers acknowledged and above
/// `readable_end`; `readable_end` only moves under the lock and only forwards.
#[derive(Debug)]
pub struct AcknowledgedCounter {
    next: AtomicU64,
    /// One past the last number all of whose predecessors are acknowledged.
    readable_end: AtomicU64,
    window: Box<[AtomicBool]>,
    advancing: Mutex<()>,
}

impl AcknowledgedCounter {
    /// A counter whose first number is `start`; all below it are taken as acknowledged.
    pub fn new(start: u64) -> Self {
        Self {
            next: AtomicU64::new(start),
            readable_end: AtomicU64::new(start),
            window: (0..WINDOW).map(|_| AtomicBool::new(false)).collect(),
            advancing: Mutex::new(()),
        }
    }

    /// The next number; it must be given back to [`acknowledge`](Self::acknowledge), whether its insertion worked or not.
    pub fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// How many numbers from 0 on are readable: one past the last acknowledged.
    pub fn readable_end(&self) -> u64 {
        self.readable_end.load(Ordering::Acquire)
    }

    /// Says that the insertion of `number` is over.
    ///
    /// # Panics
    /// When `number` is a whole window ahead of the oldest one under way: a driver lost an acknowledgement.
    pub fn acknowledge(&self, number: u64) {
        let slot = &self.window[number as usize % WINDOW];
        assert!(
            !slot.swap(true, Ordering::AcqRel),
            "{number} is {WINDOW} ahead of an unacknowledged insertion"
        );
        // Whoever holds the lock is advancing; at worst our number becomes readable with the next acknowledgement.
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
    fn a_number_is_readable_only_after_all_before_it_are_acknowledged() {
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
    fn the_window_is_reused_for_ever() {
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
        // A thread that found the lock taken left its number to the next acknowledgement.
        counter.acknowledge(counter.next());
        assert_eq!(counter.readable_end(), 40_001);
    }
}
