//! The mean of repeats with a confidence interval.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::{CONFIDENCE, Interval, mean, quantile, variance};

/// Fewer repeats have too few distinct resamples (n = 5: 126) for meaningful percentiles.
const BOOTSTRAP_REPEATS_MIN: usize = 6;

/// With so many resamples, the ends of a 95 % interval vary by less than 1 % of its width.
const RESAMPLES: usize = 10_000;

/// A mean over repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Number of repeats.
    pub repeats: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation; 0 for one repeat.
    pub deviation: f64,
    /// Confidence interval of the true mean; `None` for a single repeat, whose noise is unknown.
    pub interval: Option<Interval>,
}

/// Returns the mean of `values` with its interval; `None` without values.
///
/// From six repeats on the interval is a bootstrap's: percentiles of the means of resamples, at
/// levels widened as a t-distribution is wider than a normal one, without which intervals from few
/// repeats are too narrow. Below, it is Student's. The same values always give the same interval.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let count = values.len();
    if count == 0 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mean = mean(values);
    if count == 1 {
        return Some(Estimate { repeats: 1, mean, deviation: 0.0, interval: None });
    }
    let deviation = variance(values).sqrt();
    let t = student_quantile(count as f64 - 1.0);
    let interval = if count < BOOTSTRAP_REPEATS_MIN || deviation == 0.0 {
        let reach = t * deviation / (count as f64).sqrt();
        // The interval of non-negative values does not extend below 0, however few repeats there
        // are.
        let least = if values.iter().all(|value| *value >= 0.0) { 0.0 } else { f64::NEG_INFINITY };
        Interval { low: (mean - reach).max(least), high: mean + reach }
    } else {
        let widened = t * (count as f64 / (count as f64 - 1.0)).sqrt();
        let share = Normal::standard().cdf(-widened);
        let means = resampled_means(values);
        Interval { low: quantile(&means, share), high: quantile(&means, 1.0 - share) }
    };
    Some(Estimate { repeats: count, mean, deviation, interval: Some(interval) })
}

/// Returns the sorted means of resamples of `values`.
fn resampled_means(values: &[f64]) -> Vec<f64> {
    let mut rng = SmallRng::seed_from_u64(values.len() as u64);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sum: f64 = (0..values.len()).map(|_| values[rng.random_range(0..values.len())]).sum();
            sum / values.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    means
}

/// Returns the half-width of a t-distribution's interval of [`CONFIDENCE`], in standard errors.
pub(super) fn student_quantile(freedom: f64) -> f64 {
    student(freedom).inverse_cdf(1.0 - (1.0 - CONFIDENCE) / 2.0)
}

pub(super) fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom.max(f64::MIN_POSITIVE)).expect("the degrees of freedom are above 0")
}

#[cfg(test)]
mod tests {
    use super::super::normal;
    use super::*;

    #[test]
    fn few_repeats_use_students_interval() {
        // t(0.975, 2) = 4.3027; the deviation is 1, so the half-width is 4.3027 / sqrt(3) = 2.4841.
        let estimate = estimate(&[9.0, 10.0, 11.0]).unwrap();
        let interval = estimate.interval.unwrap();
        assert!((interval.low - (10.0 - 2.4841)).abs() < 1e-3, "{interval:?}");
        assert!((interval.high - (10.0 + 2.4841)).abs() < 1e-3, "{interval:?}");
    }

    #[test]
    fn one_repeat_has_no_interval_and_no_repeat_no_mean() {
        assert_eq!(estimate(&[5.0]).unwrap().interval, None);
        assert_eq!(estimate(&[]), None);
        assert_eq!(estimate(&[1.0, 9.0]).unwrap().interval.unwrap().low, 0.0, "what is never negative");
        assert_eq!(estimate(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn about_nineteen_of_twenty_intervals_contain_the_true_mean() {
        let mut rng = SmallRng::seed_from_u64(7);
        let covered = (0..400)
            .filter(|_| {
                let values: Vec<f64> = (0..8).map(|_| 100.0 + 5.0 * normal(&mut rng)).collect();
                let interval = estimate(&values).unwrap().interval.unwrap();
                interval.low <= 100.0 && 100.0 <= interval.high
            })
            .count();
        assert!((368..=396).contains(&covered), "{covered} of 400");
    }
}
