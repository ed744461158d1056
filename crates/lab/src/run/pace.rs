//! When operations should start.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// A worker's plan of starts.
#[derive(Debug, Clone)]
pub enum Pace {
    /// Closed loop: the next operation starts when the one before is done, so a slow engine is asked less.
    Closed,
    /// Open loop: operations start at a fixed rate whatever the engine does. An operation that starts late because the
    /// ones before it were slow has its latency counted from when it should have started.
    Open {
        /// When the phase starts.
        start: Instant,
        /// From one operation of this worker to its next.
        interval_ns: f64,
        /// From the phase's start to this worker's first operation.
        offset_ns: f64,
        /// How many starts were given out.
        given: u64,
    },
}

impl Pace {
    /// `rate` operations a second over all workers, of which this is number `worker`; they take turns.
    pub fn open(start: Instant, rate: f64, workers: usize, worker: usize) -> Self {
        let turn_ns = 1e9 / rate;
        Self::Open {
            start,
            interval_ns: turn_ns * workers as f64,
            offset_ns: turn_ns * worker as f64,
            given: 0,
        }
    }

    /// The intended start of the next operation; `None` in a closed loop: as soon as may be.
    pub fn next_start(&mut self) -> Option<Instant> {
        let Self::Open { start, interval_ns, offset_ns, given } = self else { return None };
        let after_ns = *given as f64 * *interval_ns + *offset_ns;
        *given += 1;
        Some(*start + Duration::from_nanos(after_ns as u64))
    }
}

/// Lets this thread be woken when it asked to be: Linux otherwise delays timers by up to 50 microseconds, which would be
/// counted as the engine's.
pub fn wake_punctually() {
    // Refusal would only make latencies of an open loop look worse than they are.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Waits until `due`, if that is still to come: asleep, or busily when `spin` says so.
pub fn wait_until(due: Instant, spin: bool) {
    if spin {
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        return;
    }
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        std::thread::sleep(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_take_turns_and_together_keep_the_rate() {
        let start = Instant::now();
        let mut starts = Vec::new();
        for worker in 0..3 {
            let mut pace = Pace::open(start, 1000.0, 3, worker);
            starts.extend((0..4).filter_map(|_| pace.next_start()));
        }
        starts.sort();
        let offsets: Vec<u128> = starts.iter().map(|at| (*at - start).as_millis()).collect();
        assert_eq!(offsets, (0..12).collect::<Vec<u128>>());
    }

    #[test]
    fn a_late_worker_still_gets_the_starts_that_were_meant() {
        let past = Instant::now() - Duration::from_secs(5);
        let mut pace = Pace::open(past, 10.0, 1, 0);
        pace.next_start();
        assert_eq!(pace.next_start(), Some(past + Duration::from_millis(100)));
        assert_eq!(Pace::Closed.next_start(), None);
    }
}
