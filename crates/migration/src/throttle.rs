//! The limit on rows or bytes per second.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Delays callers to a rate.
pub struct Throttle {
    /// Seconds per unit; `None` without a limit.
    interval: Option<f64>,
    next: Mutex<Instant>,
}

impl Throttle {
    /// Creates a throttle for units per second.
    pub fn new(rate: Option<f64>) -> Self {
        Self { interval: rate.map(|rate| 1.0 / rate), next: Mutex::new(Instant::now()) }
    }

    /// Blocks until `units` more may be processed.
    pub fn wait(&self, units: usize) {
        let Some(interval) = self.interval else { return };
        let (start, now) = {
            let mut next = self.next.lock();
            let now = Instant::now();
            let start = (*next).max(now);
            *next = start + Duration::from_secs_f64(interval * units as f64);
            (start, now)
        };
        std::thread::sleep(start.saturating_duration_since(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_rate_wait_for_their_turn() {
        let throttle = Throttle::new(Some(1000.0));
        let start = Instant::now();
        (0..5).for_each(|_| throttle.wait(10));
        assert!(start.elapsed() >= Duration::from_millis(40), "{:?}", start.elapsed());
        Throttle::new(None).wait(1 << 40);
    }
}
