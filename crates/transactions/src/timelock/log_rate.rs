//! Limits the rate of log lines about a lasting condition.

use std::time::{Duration, Instant};

/// Interval between two lines about the same condition.
const PERIOD: Duration = Duration::from_secs(10);

/// State of one condition.
#[derive(Debug, Default)]
pub(super) struct LogRate {
    began: Option<Instant>,
    logged: Option<Instant>,
    failures: u64,
}

/// Summary of a condition that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub lasted: Duration,
    pub failures: u64,
}

impl LogRate {
    /// Counts a failure. Returns the number of failures so far if a line is due: at the first
    /// failure, and then once per [`PERIOD`].
    pub fn failed(&mut self, now: Instant) -> Option<u64> {
        self.began.get_or_insert(now);
        self.failures += 1;
        let is_due = self.logged.is_none_or(|logged| now.saturating_duration_since(logged) >= PERIOD);
        if is_due {
            self.logged = Some(now);
        }
        is_due.then_some(self.failures)
    }

    /// Ends the condition. Returns its summary if a failure was logged.
    pub fn succeeded(&mut self, now: Instant) -> Option<Ended> {
        let Self { began, failures, .. } = std::mem::take(self);
        began.map(|began| Ended { lasted: now.saturating_duration_since(began), failures })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_logged_at_begin_once_per_period_and_at_end() {
        let began = Instant::now();
        let mut rate = LogRate::default();
        assert_eq!(rate.succeeded(began), None);
        let logged: Vec<u64> =
            (0..1000u32).filter_map(|n| rate.failed(began + Duration::from_millis(100) * n)).collect();
        assert_eq!(logged, [1, 101, 201, 301, 401, 501, 601, 701, 801, 901]);
        let ended = Ended { lasted: Duration::from_secs(100), failures: 1000 };
        assert_eq!(rate.succeeded(began + Duration::from_secs(100)), Some(ended));
        assert_eq!(rate.succeeded(began + Duration::from_secs(101)), None);
        assert_eq!(rate.failed(began + Duration::from_secs(102)), Some(1), "a new condition");
    }
}
