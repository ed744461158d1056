//! Statistics of repeated runs.
//!
//! One repeat gives one value (a throughput, a percentile), so the unit of all arithmetic here is
//! the repeat: the millions of operations within one share its noise. Values are compared on the
//! logarithmic scale, where "17 % faster" and "17 % slower" are the same distance, and where the
//! spread of runs is close to normal.
//!
//! Sources: Hesterberg, "What Teachers Should Know About the Bootstrap", 2015 (expanded percentile
//! interval); Welch 1947; Holm 1979; White, "An effective truncation heuristic for bias reduction
//! in simulation output", 1997 (MSER).

pub mod bootstrap;
pub mod compare;
pub mod power;
pub mod warm_up;

use rand::RngExt;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

pub use bootstrap::{Estimate, estimate};
pub use compare::{Comparison, Verdict, compare, compare_pairs, correct_by_holm};
pub use power::repeats_needed;

/// The interval that contains the true value with [`CONFIDENCE`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Confidence of intervals, and the complement of the rate of false differences: one in twenty.
pub const CONFIDENCE: f64 = 0.95;

/// Returns the arithmetic mean; NaN without values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the variance of the population of which `values` is a sample; NaN for fewer than two
/// values.
pub fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

/// Returns the value below which a share of `sorted` lies, interpolating between neighbours
/// (Hyndman and Fan's type 7).
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

/// Returns a standard normal number, by Box and Muller.
fn normal(rng: &mut SmallRng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_quantiles_match_textbook_values() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&values), 5.0);
        assert!((variance(&values) - 32.0 / 7.0).abs() < 1e-12);
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), 2.5);
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.25), 1.75);
        assert_eq!(quantile(&[7.0], 0.9), 7.0);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
