//! The number of repeats needed to show a difference.

use statrs::distribution::ContinuousCDF;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::bootstrap::student;
use super::compare::compare;
use super::{CONFIDENCE, normal};

/// Probability with which an existing difference is to be shown: nine in ten. With the textbooks'
/// 0.8, every fifth experiment would show nothing after all its repeats.
pub const POWER: f64 = 0.9;

/// Maximum number of repeats considered.
const REPEATS_MAX: usize = 10_000;

/// Up to this number, the formula, which assumes known noise, predicts too much, and the comparison
/// itself is simulated.
const TRIED_MAX: usize = 12;

/// Simulated comparisons per number of repeats: the share that shows the difference is then known
/// to 1 %.
const TRIALS: usize = 2000;

/// Returns the number of repeats of each of two configurations that show a difference of `ratio`
/// with [`POWER`], if one repeat has the relative standard deviation `noise` and `together`
/// comparisons are corrected as one family; `None` if even ten thousand do not suffice.
///
/// The smallest n with |ln ratio| / (noise sqrt(2 / n)) >= t(1 - 0.025 / together, 2n - 2) + t(0.9,
/// 2n - 2): the first step of Holm's correction, which every comparison passes. For few repeats,
/// the smallest from there on with which simulated comparisons show it.
pub fn repeats_needed(noise: f64, ratio: f64, together: usize) -> Option<usize> {
    let difference = ratio.ln().abs();
    if !(difference > 0.0 && difference.is_finite() && noise.is_finite()) {
        return None;
    }
    let level = (1.0 - CONFIDENCE) / together.max(1) as f64;
    let enough = |repeats: usize| {
        let of_means = student(2.0 * repeats as f64 - 2.0);
        let reach = of_means.inverse_cdf(1.0 - level / 2.0) + of_means.inverse_cdf(POWER);
        difference >= reach * noise * (2.0 / repeats as f64).sqrt()
    };
    if !enough(REPEATS_MAX) {
        return None;
    }
    // More repeats are never worse, so the smallest sufficient number can be bisected.
    let (mut too_few, mut plenty) = (1, REPEATS_MAX);
    while plenty - too_few > 1 {
        let middle = too_few.midpoint(plenty);
        if enough(middle) { plenty = middle } else { too_few = middle }
    }
    while plenty <= TRIED_MAX && share_found(noise, difference, plenty, level) < POWER {
        plenty += 1;
    }
    Some(plenty)
}

/// Returns the share of simulated comparisons of `repeats` repeats per side that show the
/// difference at a level of significance.
fn share_found(noise: f64, difference: f64, repeats: usize, level: f64) -> f64 {
    let mut rng = SmallRng::seed_from_u64(repeats as u64);
    let mut side = |centre: f64| -> Vec<f64> {
        (0..repeats).map(|_| (centre + noise * normal(&mut rng)).exp()).collect()
    };
    let found = (0..TRIALS)
        .filter(|_| {
            let (baseline, candidate) = (side(0.0), side(difference));
            compare(&baseline, &candidate).is_some_and(|found| found.p < level && found.ratio > 1.0)
        })
        .count();
    found as f64 / TRIALS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_needed_grow_with_noise_and_shrink_with_the_difference() {
        // From tables of the two-sample t-test: an effect of one deviation needs 23 per side for 90
        // %.
        assert_eq!(repeats_needed(1.0, std::f64::consts::E, 1), Some(23));
        assert_eq!(repeats_needed(0.0001, 1.1, 1), Some(2));
        assert!(repeats_needed(0.05, 1.05, 1) > repeats_needed(0.05, 1.1, 1));
        assert!(repeats_needed(0.05, 1.05, 4) > repeats_needed(0.05, 1.05, 1));
        assert_eq!(repeats_needed(0.04, 1.1, 1), repeats_needed(0.04, 1.0 / 1.1, 1));
        assert_eq!((repeats_needed(0.1, 1.0, 1), repeats_needed(5.0, 1.001, 1)), (None, None));
    }
}
