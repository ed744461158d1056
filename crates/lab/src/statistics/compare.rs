//! Compares two configurations: whether they differ, and by how much.

use serde::{Deserialize, Serialize};
use statrs::distribution::ContinuousCDF;

use super::bootstrap::{student, student_quantile};
use super::{CONFIDENCE, Interval, mean, variance};

/// Minimum relative noise assumed for a set of repeats. Histograms keep three digits: repeats in
/// the same bucket agree to the last digit, and those of another measurement of the same thing may
/// all be in the next one.
const NOISE_MIN: f64 = 1e-3;

/// Comparison of two sets of repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Ratio of the candidate to the baseline (of geometric means).
    pub ratio: f64,
    /// Confidence interval of the true ratio; `None` if either side has a single repeat.
    pub interval: Option<Interval>,
    /// Probability of so large a difference from noise alone; 1 without an interval.
    pub p: f64,
    /// The same after [`correct_by_holm`] for all comparisons made together.
    pub p_corrected: f64,
    /// Number of comparisons in that correction.
    #[serde(default = "by_itself")]
    pub together: usize,
    /// Pooled standard deviation of one repeat, relative to the value.
    pub noise: f64,
}

fn by_itself() -> usize {
    1
}

/// Verdict of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The candidate's value is higher.
    Higher,
    /// The candidate's value is lower.
    Lower,
    /// No difference was shown; there may be one smaller than the noise.
    NoDifferenceShown,
    /// A single repeat on either side: no verdict.
    TooFewRepeats,
}

impl Comparison {
    /// Returns the verdict after correction.
    pub fn verdict(&self) -> Verdict {
        match self.interval {
            None => Verdict::TooFewRepeats,
            Some(_) if self.p_corrected >= 1.0 - CONFIDENCE => Verdict::NoDifferenceShown,
            Some(_) if self.ratio > 1.0 => Verdict::Higher,
            Some(_) => Verdict::Lower,
        }
    }
}

/// Compares repeats of a candidate with those of a baseline by Welch's t-test on their logarithms;
/// `None` if a value is not above 0 or there is none.
pub fn compare(baseline: &[f64], candidate: &[f64]) -> Option<Comparison> {
    let logarithms = |values: &[f64]| -> Option<Vec<f64>> {
        let usable = !values.is_empty() && values.iter().all(|value| value.is_finite() && *value > 0.0);
        usable.then(|| values.iter().map(|value| value.ln()).collect())
    };
    let (base, other) = (logarithms(baseline)?, logarithms(candidate)?);
    let difference = mean(&other) - mean(&base);
    let (base_count, other_count) = (base.len() as f64, other.len() as f64);
    if base.len() < 2 || other.len() < 2 {
        let (interval, p) = (None, 1.0);
        return Some(Comparison {
            ratio: difference.exp(),
            interval,
            p,
            p_corrected: p,
            together: 1,
            noise: 0.0,
        });
    }
    let least = NOISE_MIN * NOISE_MIN;
    let base_share = variance(&base).max(least) / base_count;
    let other_share = variance(&other).max(least) / other_count;
    let error = (base_share + other_share).sqrt();
    // Degrees of freedom by Welch and Satterthwaite.
    let freedom = (base_share + other_share).powi(2)
        / (base_share.powi(2) / (base_count - 1.0) + other_share.powi(2) / (other_count - 1.0));
    let reach = student_quantile(freedom) * error;
    let p = 2.0 * student(freedom).cdf(-(difference / error).abs());
    let pooled = (variance(&base) * (base_count - 1.0) + variance(&other) * (other_count - 1.0))
        / (base_count + other_count - 2.0);
    Some(Comparison {
        ratio: difference.exp(),
        interval: Some(Interval { low: (difference - reach).exp(), high: (difference + reach).exp() }),
        p,
        p_corrected: p,
        together: 1,
        noise: pooled.sqrt(),
    })
}

/// Compares repeats of a candidate with those of a baseline that were measured next to each other,
/// by a paired t-test on the differences of their logarithms; `None` if a value is not above 0, or
/// if there is no pair or a value without a partner.
///
/// What changes slowly on the machine affects both of a pair, and cancels out.
pub fn compare_pairs(baseline: &[f64], candidate: &[f64]) -> Option<Comparison> {
    let is_usable = |value: &f64| value.is_finite() && *value > 0.0;
    let all_usable = baseline.iter().chain(candidate).all(is_usable);
    if baseline.is_empty() || baseline.len() != candidate.len() || !all_usable {
        return None;
    }
    let differences: Vec<f64> =
        baseline.iter().zip(candidate).map(|(base, other)| (other / base).ln()).collect();
    let (difference, count) = (mean(&differences), differences.len() as f64);
    let single = Comparison {
        ratio: difference.exp(),
        interval: None,
        p: 1.0,
        p_corrected: 1.0,
        together: 1,
        noise: 0.0,
    };
    if differences.len() < 2 {
        return Some(single);
    }
    // A difference has the noise of two repeats.
    let least = 2.0 * NOISE_MIN * NOISE_MIN;
    let variance = variance(&differences).max(least);
    let error = (variance / count).sqrt();
    let reach = student_quantile(count - 1.0) * error;
    let p = 2.0 * student(count - 1.0).cdf(-(difference / error).abs());
    let interval = Interval { low: (difference - reach).exp(), high: (difference + reach).exp() };
    Some(Comparison { interval: Some(interval), p, p_corrected: p, noise: (variance / 2.0).sqrt(), ..single })
}

/// Corrects the p-values of comparisons that are made together with Holm's step-down method: the
/// probability that any of them shows a false difference stays at one in twenty, however many there
/// are.
pub fn correct_by_holm(comparisons: &mut [&mut Comparison]) {
    comparisons.sort_by(|a, b| a.p.total_cmp(&b.p));
    let count = comparisons.len();
    let mut largest: f64 = 0.0;
    for (rank, comparison) in comparisons.iter_mut().enumerate() {
        largest = largest.max((comparison.p * (count - rank) as f64).min(1.0));
        comparison.p_corrected = largest;
        comparison.together = count;
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::super::normal;
    use super::super::power::repeats_needed;
    use super::*;

    /// Returns repeats with true value `truth` and 4 % noise.
    fn repeats(truth: f64, count: usize, rng: &mut SmallRng) -> Vec<f64> {
        (0..count).map(|_| truth * (0.04 * normal(rng)).exp()).collect()
    }

    #[test]
    fn welchs_test_matches_a_known_result() {
        // Computed by hand: logs have means 0.1 and 0.3, variances 0.01 and 0.01, so t = 0.2 /
        // sqrt(0.02 / 3) = 2.4495 with 4 degrees of freedom, p = 0.0705; t(0.975, 4) = 2.7764,
        // half-width 0.2267.
        let exponentials = |logs: [f64; 3]| logs.map(f64::exp);
        let found = compare(&exponentials([0.0, 0.1, 0.2]), &exponentials([0.2, 0.3, 0.4])).unwrap();
        assert!((found.ratio - 0.2f64.exp()).abs() < 1e-9);
        assert!((found.p - 0.0705).abs() < 1e-3, "{}", found.p);
        let interval = found.interval.unwrap();
        assert!((interval.low.ln() - (0.2 - 0.2267)).abs() < 1e-3, "{interval:?}");
        assert!((interval.high.ln() - (0.2 + 0.2267)).abs() < 1e-3, "{interval:?}");
        assert!((found.noise - 0.1).abs() < 1e-9);
    }

    #[test]
    fn the_paired_test_matches_a_known_result() {
        // Computed by hand: differences 0.1, 0.2, 0.3 have mean 0.2 and variance 0.01, so t = 0.2 /
        // sqrt(0.01 / 3) = 3.4641 with 2 degrees of freedom, p = 0.0742; t(0.975, 2) = 4.3027,
        // half-width 0.2484. The values of the baseline cancel out.
        let exponentials = |logs: [f64; 3]| logs.map(f64::exp);
        let found = compare_pairs(&exponentials([0.0, 5.0, 1.0]), &exponentials([0.1, 5.2, 1.3])).unwrap();
        assert!((found.ratio - 0.2f64.exp()).abs() < 1e-9);
        assert!((found.p - 0.0742).abs() < 1e-3, "{}", found.p);
        let interval = found.interval.unwrap();
        assert!((interval.low.ln() - (0.2 - 0.2484)).abs() < 1e-3, "{interval:?}");
        assert!((found.noise - (0.01f64 / 2.0).sqrt()).abs() < 1e-9);
        assert_eq!(compare_pairs(&[1.0], &[2.0]).unwrap().verdict(), Verdict::TooFewRepeats);
        assert_eq!((compare_pairs(&[], &[]), compare_pairs(&[1.0, 2.0], &[1.0])), (None, None));
        assert_eq!(compare_pairs(&[0.0, 1.0], &[1.0, 1.0]), None);
    }

    #[test]
    fn pairs_find_a_difference_that_the_drift_of_the_machine_hides() {
        let mut rng = SmallRng::seed_from_u64(3);
        let drift: Vec<f64> = (0..6).map(|round| 1e4 * 2f64.powi(round)).collect();
        let mut side = |truth: f64| -> Vec<f64> {
            drift.iter().map(|base| base * truth * (0.01 * normal(&mut rng)).exp()).collect()
        };
        let (old, new) = (side(1.0), side(1.1));
        assert_eq!(compare(&old, &new).unwrap().verdict(), Verdict::NoDifferenceShown);
        assert_eq!(compare_pairs(&old, &new).unwrap().verdict(), Verdict::Higher);
    }

    #[test]
    fn holms_correction_matches_a_known_result() {
        let of = |p| Comparison { ratio: 1.1, interval: None, p, p_corrected: p, together: 1, noise: 0.0 };
        let mut found = [0.01, 0.04, 0.03, 0.005].map(of);
        correct_by_holm(&mut found.iter_mut().collect::<Vec<_>>());
        let corrected = found.map(|comparison| (comparison.p_corrected * 1000.0).round() / 1000.0);
        assert_eq!(corrected, [0.03, 0.06, 0.06, 0.02]);
    }

    #[test]
    fn identical_configurations_show_no_difference_in_94_of_100_runs() {
        let mut rng = SmallRng::seed_from_u64(1);
        for count in [3, 5, 10] {
            let none = (0..1000)
                .filter(|_| {
                    let found = compare(&repeats(1e4, count, &mut rng), &repeats(1e4, count, &mut rng));
                    found.unwrap().verdict() == Verdict::NoDifferenceShown
                })
                .count();
            assert!(none >= 940, "{none} of 1000 with {count} repeats");
        }
    }

    #[test]
    fn the_predicted_repeats_show_a_difference_of_a_tenth() {
        let mut rng = SmallRng::seed_from_u64(2);
        for together in [1, 2, 6] {
            let needed = repeats_needed(0.04, 1.1, together).unwrap();
            let mut found = |count: usize| {
                let is_found = |_: &usize| {
                    let mut comparisons: Vec<_> = (0..together)
                        .map(|number| {
                            let truth = if number == 0 { 1.1e4 } else { 1e4 };
                            compare(&repeats(1e4, count, &mut rng), &repeats(truth, count, &mut rng)).unwrap()
                        })
                        .collect();
                    correct_by_holm(&mut comparisons.iter_mut().collect::<Vec<_>>());
                    comparisons[0].verdict() == Verdict::Higher
                };
                (0..1000).filter(is_found).count()
            };
            // The prediction is for 90 %. One repeat fewer must not suffice, or it requests too
            // many.
            let (with, fewer) = (found(needed), found(needed - 1));
            assert!(with >= 880, "{with} of 1000 with {needed} repeats, {together} together");
            assert!(fewer < 900, "{fewer} of 1000 with one repeat fewer than {needed}, {together} together");
        }
    }

    #[test]
    fn single_repeats_and_zero_values_give_no_verdict() {
        assert_eq!(compare(&[1.0], &[2.0, 2.0]).unwrap().verdict(), Verdict::TooFewRepeats);
        assert_eq!(compare(&[], &[1.0]), None);
        assert_eq!(compare(&[0.0, 1.0], &[1.0, 1.0]), None);
        assert_eq!(compare(&[5.0, 5.0], &[5.0, 5.0]).unwrap().verdict(), Verdict::NoDifferenceShown);
    }

    #[test]
    fn percentiles_one_histogram_bucket_apart_show_no_difference() {
        let (bucket, next) = (1.024, 1.025);
        for count in [2, 3, 5] {
            let found = compare(&vec![bucket; count], &vec![next; count]).unwrap();
            assert_eq!(found.verdict(), Verdict::NoDifferenceShown, "{count} repeats: {found:?}");
        }
        let apart = compare(&[1.0; 3], &[1.1; 3]).unwrap();
        assert_eq!(apart.verdict(), Verdict::Higher);
    }
}
