//! Finds the end of a run's warm-up.

use super::{mean, variance};

/// Series with fewer points are not examined.
const POINTS_MIN: usize = 10;

/// Returns the number of initial points to exclude from a series, so that the rest has the smallest
/// marginal standard error (White's MSER, over batches of `batch` points, which smooths single
/// outliers).
///
/// `None` if the best truncation lies beyond half of the series: then it never became steady. 0 for
/// series that are too short.
pub fn warm_up(series: &[f64], batch: usize) -> Option<usize> {
    let batch = batch.max(1);
    let batches: Vec<f64> = series.chunks_exact(batch).map(mean).collect();
    if batches.len() < POINTS_MIN {
        return Some(0);
    }
    let error = |cut: usize| {
        let rest = &batches[cut..];
        variance(rest) * (rest.len() as f64 - 1.0) / (rest.len() as f64).powi(2)
    };
    // The last few batches always agree by chance.
    let candidates = 0..batches.len() - POINTS_MIN / 2;
    let best = candidates.min_by(|a, b| error(*a).total_cmp(&error(*b)))?;
    (best <= batches.len() / 2).then_some(best * batch)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::super::normal;
    use super::*;

    #[test]
    fn a_slow_warm_up_is_cut_and_a_steady_run_is_kept() {
        let mut rng = SmallRng::seed_from_u64(3);
        let mut noise = || 20.0 * normal(&mut rng);
        let steady: Vec<f64> = (0..60).map(|_| 1000.0 + noise()).collect();
        assert!(warm_up(&steady, 1).unwrap() <= 6, "{:?}", warm_up(&steady, 1));
        let warming: Vec<f64> =
            (0..60).map(|second| 1000.0 - 800.0 * (-f64::from(second) / 4.0).exp() + noise()).collect();
        let cut = warm_up(&warming, 1).unwrap();
        assert!((8..=20).contains(&cut), "{cut}");
    }

    #[test]
    fn unsteady_runs_are_reported_and_short_ones_kept_whole() {
        let falling: Vec<f64> = (0..60).map(|second| 1000.0 - 15.0 * f64::from(second)).collect();
        assert_eq!(warm_up(&falling, 1), None);
        assert_eq!(warm_up(&[1.0, 100.0, 100.0], 1), Some(0));
        assert_eq!(warm_up(&[], 1), Some(0));
    }
}
