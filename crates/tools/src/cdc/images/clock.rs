//! The clock of a copy: the time of the changes, not of the machine.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use cassette_vfs::Clock;

/// A clock at the time when the segment of the latest change was begun. Tombstones and expired
/// cells are purged by it, so that images do not depend on when changes are read.
pub(super) struct StreamClock {
    micros: AtomicI64,
    started: Instant,
}

impl StreamClock {
    /// Returns a clock at the time of a segment.
    pub fn at(segment: u64) -> Self {
        Self { micros: AtomicI64::new(micros_of(segment)), started: Instant::now() }
    }

    /// Advances the clock to the time of a segment.
    pub fn advance_to(&self, segment: u64) {
        self.micros.fetch_max(micros_of(segment), Ordering::AcqRel);
    }
}

/// Returns the time when a segment was begun, microseconds since 1970: its id is this time in
/// milliseconds, unless an earlier segment had it.
pub(super) fn micros_of(segment: u64) -> i64 {
    i64::try_from(segment).unwrap_or(i64::MAX).saturating_mul(1000)
}

impl Clock for StreamClock {
    fn now_micros(&self) -> i64 {
        self.micros.load(Ordering::Acquire)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}
