//! The schedule of operations.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// A worker's schedule.
#[derive(Debug, Clone)]
pub enum Pace {
    /// Closed loop: an operation starts when the previous one completes, so a slow engine gets
    /// fewer requests.
    Closed,
    /// Open loop: operations start at a fixed rate regardless of the engine's speed. The latency of
    /// an operation that starts late because earlier ones were slow counts from its intended start.
    Open {
        /// Start of the phase.
        start: Instant,
        /// Interval between operations of this worker.
        interval_ns: f64,
        /// Offset of this worker's first operation from the start of the phase.
        offset_ns: f64,
        /// Number of scheduled starts.
        given: u64,
    },
    /// Open loop at a rate that changes linearly from the start of the phase.
    Ramp {
        /// Start of the phase.
        start: Instant,
        /// Starts per second at the start of the phase, over all workers.
        from: f64,
        /// Change of the rate per second.
        slope: f64,
        /// Number of starts of all workers before this worker's next one.
        number: f64,
        /// Number of workers.
        workers: f64,
    },
}

impl Pace {
    /// Schedules `rate` operations per second over all workers, of which this is number `worker`;
    /// they take turns.
    pub fn open(start: Instant, rate: f64, workers: usize, worker: usize) -> Self {
        let turn_ns = 1e9 / rate;
        Self::Open {
            start,
            interval_ns: turn_ns * workers as f64,
            offset_ns: turn_ns * worker as f64,
            given: 0,
        }
    }

    /// Schedules a rate over all workers that changes linearly from `from` to `to` within `time`
    /// and then stays.
    pub fn ramp(start: Instant, from: f64, to: f64, time: Duration, workers: usize, worker: usize) -> Self {
        let slope = (to - from) / time.as_secs_f64();
        if slope == 0.0 || !slope.is_finite() {
            return Self::open(start, from, workers, worker);
        }
        Self::Ramp { start, from, slope, number: worker as f64, workers: workers as f64 }
    }

    /// Returns the intended start of the next operation; `None` in a closed loop: as soon as
    /// possible.
    pub fn next_start(&mut self) -> Option<Instant> {
        if let Self::Ramp { start, from, slope, number, workers } = self {
            // The integral of the rate is the number of starts: from t + slope t^2 / 2 = number,
            // solved for t. A falling rate that has reached zero yields no more starts within any
            // phase.
            let under = *from * *from + 2.0 * *slope * *number;
            let after = if under < 0.0 { f64::MAX } else { (under.sqrt() - *from) / *slope };
            *number += *workers;
            let far = Duration::from_secs(365 * 24 * 3600);
            return Some(*start + Duration::try_from_secs_f64(after).unwrap_or(far).min(far));
        }
        let Self::Open { start, interval_ns, offset_ns, given } = self else { return None };
        let after_ns = *given as f64 * *interval_ns + *offset_ns;
        *given += 1;
        Some(*start + Duration::from_nanos(after_ns as u64))
    }
}

/// Requests punctual wakeups of this thread: by default Linux delays timers by up to 50
/// microseconds, which would count as the engine's latency.
pub fn wake_punctually() {
    // A refusal would only make latencies of an open loop look worse than they are.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Waits until `due`: asleep, or busily if `spin` is set.
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
    fn a_ramp_starts_the_integral_of_its_rate() {
        let start = Instant::now();
        let time = Duration::from_secs(10);
        let count = |from: f64, to: f64| {
            let of = |worker| {
                let mut pace = Pace::ramp(start, from, to, time, 2, worker);
                std::iter::from_fn(move || pace.next_start()).take_while(|at| *at < start + time).count()
            };
            of(0) + of(1)
        };
        assert_eq!([count(0.0, 100.0), count(100.0, 0.0), count(50.0, 50.0)], [500, 500, 500]);
        let mut pace = Pace::ramp(start, 10.0, 20.0, time, 1, 0);
        assert_eq!(pace.next_start(), Some(start));
    }

    #[test]
    fn a_late_worker_keeps_its_intended_starts() {
        let past = Instant::now() - Duration::from_secs(5);
        let mut pace = Pace::open(past, 10.0, 1, 0);
        pace.next_start();
        assert_eq!(pace.next_start(), Some(past + Duration::from_millis(100)));
        assert_eq!(Pace::Closed.next_start(), None);
    }
}
