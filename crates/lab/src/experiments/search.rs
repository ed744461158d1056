//! Which rate to try next, in the search of the highest one that is kept.

use serde::{Deserialize, Serialize};

/// The answer is within 3 %: less than two runs of the same rate differ by.
const PRECISION: f64 = 1.03;

/// More rates than this are never tried.
const TRIALS_MAX: usize = 24;

/// A rate that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Operations a second asked for.
    pub rate: f64,
    /// Operations a second that worked.
    pub throughput: f64,
    /// The 99th percentile of all operations, from their intended starts, in microseconds.
    pub p99_us: f64,
    /// Whether the bound was kept, the rate too, and nothing failed.
    pub kept: bool,
}

/// Decides on rates: doubling or halving until one is kept and a higher one is not, then halving the distance between
/// them on the logarithmic scale.
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

    /// The rate to try now; `None` when the answer is known.
    pub fn next(&self) -> Option<f64> {
        let known = matches!((self.kept, self.lost), (Some(kept), Some(lost)) if lost / kept <= PRECISION);
        let hopeless = self.kept.is_none() && self.lost.is_some_and(|lost| lost <= 1.0);
        (!known && !hopeless && self.trials < TRIALS_MAX).then_some(self.next)
    }

    /// Learns how the rate that was to be tried went.
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

    /// The highest rate that was kept.
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
    fn the_highest_rate_that_is_kept_is_found_wherever_the_search_starts() {
        for first in [1.0, 500.0, 12_345.0, 1e6] {
            let rate = found(12_345.0, first).unwrap();
            assert!(rate <= 12_345.0 && rate * 1.03 >= 12_345.0, "{rate} from {first}");
        }
    }

    #[test]
    fn a_search_without_an_answer_ends() {
        assert_eq!(found(0.5, 1000.0), None);
        assert!(found(f64::INFINITY, 1000.0).is_some());
    }
}
