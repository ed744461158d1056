//! Time behind a trait.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns the time. Used as `Arc<dyn Clock>`.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since the Unix epoch, the unit of write timestamps. Can step back when the
    /// machine's clock is set.
    fn now_micros(&self) -> i64;

    /// Seconds since the Unix epoch: the unit of expiration and deletion times.
    fn now_seconds(&self) -> i64 {
        self.now_micros().div_euclid(1_000_000)
    }

    /// Time since some fixed instant; never steps back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_micros(&self) -> i64 {
        let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()),
            Err(before) => i64::try_from(before.duration().as_micros()).map(|micros| -micros),
        };
        micros.unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that moves only when a test moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_micros: AtomicI64,
    monotonic_micros: AtomicI64,
}

impl ManualClock {
    /// A clock at `micros` since the Unix epoch, with monotonic time zero.
    pub fn at_micros(micros: i64) -> Self {
        Self { wall_micros: AtomicI64::new(micros), monotonic_micros: AtomicI64::new(0) }
    }

    /// Sets the wall clock, forwards or back. Monotonic time does not move.
    pub fn set_micros(&self, micros: i64) {
        self.wall_micros.store(micros, Ordering::SeqCst);
    }

    /// Advances both clocks by `time`.
    pub fn advance(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        self.wall_micros.fetch_add(micros, Ordering::SeqCst);
        self.monotonic_micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_micros(&self) -> i64 {
        self.wall_micros.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.monotonic_micros.load(Ordering::SeqCst).unsigned_abs())
    }
}

/// A clock whose wall time moves only when it is moved, for results that are the same in each run.
/// Its monotonic time is the machine's, so timeouts and intervals last as long as always.
#[derive(Debug)]
pub struct SteppedClock {
    wall_micros: AtomicI64,
    machine: SystemClock,
}

impl SteppedClock {
    /// A clock at `micros` since the Unix epoch.
    pub fn at_micros(micros: i64) -> Self {
        Self { wall_micros: AtomicI64::new(micros), machine: SystemClock::new() }
    }

    /// Sets the wall clock, forwards or back.
    pub fn set_micros(&self, micros: i64) {
        self.wall_micros.store(micros, Ordering::SeqCst);
    }

    /// Advances the wall clock by `micros`.
    pub fn advance_micros(&self, micros: i64) {
        self.wall_micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for SteppedClock {
    fn now_micros(&self) -> i64 {
        self.wall_micros.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        self.machine.monotonic()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_a_manual_clock_back_does_not_move_its_monotonic_time() {
        let clock = ManualClock::at_micros(5_000_000);
        clock.advance(Duration::from_secs(2));
        clock.set_micros(1_999_999);
        assert_eq!(clock.now_micros(), 1_999_999);
        assert_eq!(clock.now_seconds(), 1);
        assert_eq!(clock.monotonic(), Duration::from_secs(2));
    }

    #[test]
    fn only_the_monotonic_time_of_a_stepped_clock_moves_by_itself() {
        let clock = SteppedClock::at_micros(5_000_000);
        let before = clock.monotonic();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(clock.now_micros(), 5_000_000);
        assert!(clock.monotonic() > before);
        clock.advance_micros(1000);
        assert_eq!(clock.now_micros(), 5_001_000);
        clock.set_micros(7);
        assert_eq!(clock.now_micros(), 7);
    }

    #[test]
    fn seconds_before_the_epoch_round_down() {
        let clock = ManualClock::at_micros(-1);
        assert_eq!(clock.now_seconds(), -1);
    }

    #[test]
    fn the_system_clock_agrees_with_itself() {
        let clock = SystemClock::new();
        let before = clock.now_seconds();
        let micros = clock.now_micros();
        assert!(before <= micros / 1_000_000);
        assert!(clock.monotonic() <= clock.monotonic());
    }
}
