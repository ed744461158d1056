//! Limits what all compactions together write.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::background::Signal;

/// Spreads bytes over time.
pub(crate) struct Throttle {
    /// Bytes a second; 0 for no limit.
    rate: u64,
    /// When the bytes taken so far will have been paid for.
    paid: Mutex<Option<Instant>>,
}

/// Nobody sleeps longer than this without looking whether all is to stop.
const NAP: Duration = Duration::from_millis(100);

impl Throttle {
    pub fn new(rate: u64) -> Self {
        Self { rate, paid: Mutex::new(None) }
    }

    /// Takes bytes, and waits until those taken before are paid for; at once when `stop` is stopped.
    pub fn take(&self, bytes: u64, stop: &Signal) {
        if self.rate == 0 {
            return;
        }
        let until = {
            let mut paid = self.paid.lock();
            let now = Instant::now();
            let from = paid.map_or(now, |paid| paid.max(now));
            *paid = Some(from + Duration::from_secs_f64(bytes as f64 / self.rate as f64));
            from
        };
        while !stop.is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}
