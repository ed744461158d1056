//! Seeds that must pass, and mistakes that must be detected.

use cassette_simulation::{Mistake, OPERATIONS, Profile, operations, run, run_seed};

/// How many operations a run has in every run of the tests: half a minute for each hundred seeds of
/// the usual number would be too long.
const SHORT: usize = 50;

/// Runs seeds; `SEED` in the environment runs that one alone.
fn seeds(range: std::ops::Range<u64>) {
    let only = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let range = only.map_or(range, |seed: u64| seed..seed + 1);
    for seed in range {
        if let Err(failure) = run_seed(seed, SHORT) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_node_agrees_with_the_model_through_faults_and_crashes() {
    seeds(0..500);
}

#[test]
fn a_node_agrees_with_the_model_through_faults_and_crashes_with_other_seeds() {
    seeds(500..1000);
}

/// The first of some seeds that fails with this profile.
fn first_failure(change: impl Fn(&mut Profile)) -> Option<(u64, String)> {
    (0..40).find_map(|seed| {
        let mut profile = Profile::of(seed);
        change(&mut profile);
        let failure = run(&profile, &operations(seed, &profile, OPERATIONS)).err()?;
        Some((seed, failure.why))
    })
}

#[test]
fn a_disk_that_does_not_sync_is_detected() {
    let found = first_failure(|profile| {
        profile.lying_disk = true;
        profile.crashes = true;
    });
    assert!(found.is_some());
}

#[test]
fn a_wrong_reconciliation_is_detected() {
    for mistake in [Mistake::OlderWins, Mistake::RangesStay] {
        let found = first_failure(|profile| profile.mistake = Some(mistake));
        assert!(found.is_some(), "{mistake:?}");
    }
}

#[test]
fn a_seed_has_the_same_trace_each_time() {
    for seed in 0..10 {
        let profile = Profile::of(seed);
        let run = || run(&profile, &operations(seed, &profile, OPERATIONS)).map_err(|failure| failure.why);
        let (first, second) = (run().unwrap(), run().unwrap());
        let differs = first.iter().zip(&second).position(|(first, second)| first != second);
        assert_eq!(differs.map(|at| (&first[at], &second[at])), None, "seed {seed}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}
