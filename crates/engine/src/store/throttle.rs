//! Limits the bytes that all compactions together read from disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Distributes bytes over time.
pub(crate) struct Throttle {
    /// Bytes a second; 0 for no limit.
    rate: AtomicU64,
    /// When the bytes taken so far will have been paid for.
    paid: Mutex<Option<Instant>>,
}

/// No thread sleeps longer than this without checking whether to stop, and the current limit.
const NAP: Duration = Duration::from_millis(100);

impl Throttle {
    pub fn new(rate: u64) -> Self {
        Self { rate: AtomicU64::new(rate), paid: Mutex::new(None) }
    }

    /// Returns the bytes a second; 0 for no limit.
    pub fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Sets the limit, also for running compactions.
    pub fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
        // Bytes taken under the previous limit do not count under the new one.
        *self.paid.lock() = None;
    }

    /// Takes bytes, and waits until the previously taken ones are paid for, or until `stops`.
    pub fn take(&self, bytes: u64, stops: impl Fn() -> bool) {
        let rate = self.rate();
        let Some(until) = self.until(bytes, rate, Instant::now()) else { return };
        while !stops() && self.rate() == rate {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    /// Returns until when a caller that takes bytes now has to wait; `None` if it need not.
    fn until(&self, bytes: u64, rate: u64, now: Instant) -> Option<Instant> {
        if rate == 0 || bytes == 0 {
            return None;
        }
        let mut paid = self.paid.lock();
        let from = paid.map_or(now, |paid| paid.max(now));
        *paid = Some(from + Duration::from_secs_f64(bytes as f64 / rate as f64));
        Some(from)
    }
}

/// Returns the bytes a second that low-priority compactions may read, of the throughput of all; 0
/// for no limit.
pub(crate) fn low_priority_rate(compaction_throughput: u64) -> u64 {
    compaction_throughput.div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_priority_compactions_read_a_quarter_of_the_throughput() {
        assert_eq!(
            (low_priority_rate(0), low_priority_rate(1), low_priority_rate(64 << 20)),
            (0, 1, 16 << 20)
        );
    }

    #[test]
    fn no_more_is_taken_than_the_rate_allows_however_many_take_it() {
        let (throttle, start) = (Throttle::new(1000), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        let waits = |bytes, now| throttle.until(bytes, throttle.rate(), at(now));
        // 2500 bytes by two callers in turns: each waits until the other's bytes are paid for.
        assert_eq!(waits(500, 0), Some(at(0)));
        assert_eq!(waits(1000, 0), Some(at(500)));
        assert_eq!(waits(1000, 500), Some(at(1500)));
        assert_eq!(waits(1, 1500), Some(at(2500)));
        // Idle time is not accumulated.
        assert_eq!(waits(1000, 10_000), Some(at(10_000)));
        assert_eq!(waits(1000, 10_000), Some(at(11_000)));
        assert_eq!((waits(0, 10_000), throttle.rate()), (None, 1000));
        // A new limit starts over, and 0 is no limit.
        throttle.set_rate(10);
        assert_eq!(waits(10, 10_000), Some(at(10_000)));
        assert_eq!(waits(10, 10_000), Some(at(11_000)));
        throttle.set_rate(0);
        assert_eq!(waits(1000, 10_000), None);
    }
}
