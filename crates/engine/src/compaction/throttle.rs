//! Limits what all compactions together read from disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Spreads bytes over time.
pub(crate) struct Throttle {
    /// Bytes a second; 0 for no limit.
    rate: AtomicU64,
    /// When the bytes taken so far will have been paid for.
    paid: Mutex<Option<Instant>>,
}

/// Nobody sleeps longer than this without looking whether all is to stop, and what the limit is by now.
const NAP: Duration = Duration::from_millis(100);

impl Throttle {
    pub fn new(rate: u64) -> Self {
        Self { rate: AtomicU64::new(rate), paid: Mutex::new(None) }
    }

    /// Bytes a second; 0 for no limit.
    pub fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Sets the limit, for compactions that are running too.
    pub fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
        // What was taken under the old limit is not paid for under the new one.
        *self.paid.lock() = None;
    }

    /// Takes bytes, and waits until those taken before are paid for, or until `stops`.
    pub fn take(&self, bytes: u64, stops: impl Fn() -> bool) {
        let rate = self.rate();
        if rate == 0 || bytes == 0 {
            return;
        }
        let until = {
            let mut paid = self.paid.lock();
            let now = Instant::now();
            let from = paid.map_or(now, |paid| paid.max(now));
            *paid = Some(from + Duration::from_secs_f64(bytes as f64 / rate as f64));
            from
        };
        while !stops() && self.rate() == rate {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}
