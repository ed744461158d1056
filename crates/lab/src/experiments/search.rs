//! Searches the highest rate that an engine sustains.

use serde::{Deserialize, Serialize};

/// The result is within 3 %: less than the difference between two runs at the same rate.
const PRECISION: f64 = 1.03;

/// Maximum number of trials.
const TRIALS_MAX: usize = 24;

/// A rate that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Requested operations per second.
    pub rate: f64,
    /// Successful operations per second.
    pub throughput: f64,
    /// 99th percentile of all operations, from their intended starts, in microseconds.
    pub p99_us: f64,
    /// Whether the percentile and the rate were met, and nothing failed.
    pub kept: bool,
}

/// Doubles or halves the rate until one succeeds and a higher one fails, then bisects the interval
/// on a logarithmic scale.
#[derive(Debug, Clone)]
pub struct RateSearch {
    next: f64,
    kept: Option<f64>,
    lost: Option<f64>,
    trials: usize,
}

impl RateSearch {
    /// Starts at `first`.
    pub fn starting_at(first: f64) -> Self {
        Self { next: first.max(1.0), kept: None, lost: None, trials: 0 }
    }

    /// Returns the next rate to try; `None` when the result is known.
    pub fn next(&self) -> Option<f64> {
        let known = matches!((self.kept, self.lost), (Some(kept), Some(lost)) if lost / kept <= PRECISION);
        let hopeless = self.kept.is_none() && self.lost.is_some_and(|lost| lost <= 1.0);
        (!known && !hopeless && self.trials < TRIALS_MAX).then_some(self.next)
    }

    /// Records whether the last rate succeeded.
    pub fn learn(&mut self, kept: bool) {
        self.trials += 1;
        if kept {
            self.kept = Some(self.next);
        } else {
            self.lost = Some(self.next);
        }
        self.next = match (self.kept, self.lost) {
            (Some(kept), Some(lost)) => (kept * lost).sqrt(),
            (Some(kept), None) => kept * 2.0,
            (None, Some(lost)) => (lost / 2.0).max(1.0),
            (None, None) => self.next,
        };
    }

    /// Returns the highest rate that succeeded.
    pub fn highest(&self) -> Option<f64> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(limit: f64, first: f64) -> Option<f64> {
        let mut search = RateSearch::starting_at(first);
        while let Some(rate) = search.next() {
            search.learn(rate <= limit);
        }
        search.highest()
    }

    #[test]
    fn a_search_finds_the_highest_rate_from_any_start() {
        for first in [1.0, 500.0, 12_345.0, 1e6] {
            let rate = found(12_345.0, first).unwrap();
            assert!(rate <= 12_345.0 && rate * 1.03 >= 12_345.0, "{rate} from {first}");
        }
    }

    #[test]
    fn a_search_without_a_result_ends() {
        assert_eq!(found(0.5, 1000.0), None);
        assert!(found(f64::INFINITY, 1000.0).is_some());
    }
}
