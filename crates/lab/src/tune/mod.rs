//! Searches settings that suit a workload by successive halving (Jamieson and Talwalkar, 2016).
//!
//! Many settings are tried briefly, the better half of them for twice as long, and so on until one
//! is left. That one is compared with the engine's defaults by repeats, as in any experiment, so
//! that lucky choices are not reported as better.

mod space;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

pub use space::{Dimension, space_of};

/// A value for each dimension of a space, by index.
pub type Choice = Vec<usize>;

/// Returns `count` choices, the first one the defaults; the values of each dimension occur about
/// equally often (a Latin hypercube).
pub fn sample(space: &[Dimension], count: usize, seed: u64) -> Vec<Choice> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let columns: Vec<Vec<usize>> = space
        .iter()
        .map(|dimension| {
            let mut column: Vec<usize> = (0..count).map(|row| row % dimension.values.len()).collect();
            column.shuffle(&mut rng);
            column
        })
        .collect();
    let defaults: Choice = space.iter().map(|dimension| dimension.default).collect();
    let mut choices = vec![defaults];
    for row in 0..count {
        let choice: Choice = columns.iter().map(|column| column[row]).collect();
        if choices.len() < count && !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    choices
}

/// Returns the better half of `scored` (higher is better), best first; at least one.
pub fn better_half<T>(mut scored: Vec<(T, f64)>) -> Vec<(T, f64)> {
    scored.sort_by(|a, b| b.1.total_cmp(&a.1));
    scored.truncate((scored.len() / 2).max(1));
    scored
}

/// Returns the share of the variance of the scores that each dimension explains by itself: between
/// its values (eta squared), from 0 to 1. Few trials per value overestimate it, so it is corrected
/// for chance (epsilon squared) and never below 0.
pub fn importance(space: &[Dimension], tried: &[(Choice, f64)]) -> Vec<f64> {
    let count = tried.len() as f64;
    let mean = tried.iter().map(|(_, score)| score).sum::<f64>() / count;
    let total: f64 = tried.iter().map(|(_, score)| (score - mean).powi(2)).sum();
    let of = |index: usize| {
        let mut groups = vec![(0.0, 0.0); space[index].values.len()];
        for (choice, score) in tried {
            let group = &mut groups[choice[index]];
            *group = (group.0 + 1.0, group.1 + score);
        }
        let used: Vec<&(f64, f64)> = groups.iter().filter(|(count, _)| *count > 0.0).collect();
        let between: f64 = used.iter().map(|(count, sum)| count * (sum / count - mean).powi(2)).sum();
        let (groups, rest) = (used.len() as f64, count - used.len() as f64);
        if total <= 0.0 || rest <= 0.0 {
            return 0.0;
        }
        let within = (total - between) / rest;
        ((between - (groups - 1.0) * within) / total).max(0.0)
    };
    (0..space.len()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Vec<Dimension> {
        let dimension = |name: &str, count: usize| Dimension {
            name: name.to_owned(),
            values: (0..count).map(|value| value.to_string()).collect(),
            default: 0,
        };
        vec![dimension("matters", 4), dimension("does not", 4), dimension("a little", 2)]
    }

    /// Score of a choice: dominated by the first dimension, independent of the second.
    fn worth(choice: &Choice) -> f64 {
        10.0 * choice[0] as f64 + choice[2] as f64
    }

    #[test]
    fn samples_start_with_defaults_and_cover_every_value() {
        let choices = sample(&space(), 16, 1);
        assert_eq!(choices[0], [0, 0, 0]);
        assert!(choices.len() >= 12);
        for value in 0..4 {
            assert!(choices.iter().any(|choice| choice[0] == value));
        }
        assert_eq!(choices, sample(&space(), 16, 1));
    }

    #[test]
    fn halving_ends_with_the_best_candidate() {
        let mut left: Vec<(Choice, f64)> =
            sample(&space(), 16, 1).into_iter().map(|choice| (choice.clone(), worth(&choice))).collect();
        let best = left.iter().map(|(_, score)| *score).fold(0.0, f64::max);
        while left.len() > 1 {
            left = better_half(left);
        }
        assert_eq!(left[0].1, best);
    }

    #[test]
    fn importance_distinguishes_relevant_settings() {
        let tried: Vec<(Choice, f64)> =
            sample(&space(), 32, 1).into_iter().map(|choice| (choice.clone(), worth(&choice))).collect();
        let shares = importance(&space(), &tried);
        assert!(shares[0] > 0.9 && shares[1] < 0.2 && shares[2] < 0.2, "{shares:?}");
    }
}
