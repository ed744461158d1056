//! Generators of keys and operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::{Rng, RngExt};

use super::counter::AcknowledgedCounter;
use super::hash::fnv_hash_64;
use super::zipfian::{ZIPFIAN_CONSTANT, Zipfian};

/// Chooses the numbers of keys to read or change. Each worker has one; shared state is behind
/// `Arc`s.
#[derive(Debug, Clone)]
pub enum KeyChooser {
    /// Every key of `start..start + count` with the same probability.
    Uniform {
        /// First key.
        start: u64,
        /// Number of keys.
        count: u64,
    },
    /// The keys in order, cyclically, over all workers together.
    Sequential {
        /// First key.
        start: u64,
        /// Number of keys.
        count: u64,
        /// Number of keys chosen so far.
        given: Arc<AtomicU64>,
    },
    /// Some keys are popular, and the popular ones are scattered over the key space.
    ScrambledZipfian(ScrambledZipfian),
    /// The newest keys are the popular ones.
    SkewedLatest(SkewedLatest),
    /// A share of the operations uses a share of the keys.
    Hotspot(Hotspot),
    /// The newest keys are the popular ones, declining exponentially.
    Exponential {
        /// Rate: one over the mean distance from the newest key.
        gamma: f64,
        /// The newest key.
        newest: Arc<AcknowledgedCounter>,
    },
}

impl KeyChooser {
    /// Returns the number of the next key. It may not be inserted yet: the caller then tries again.
    pub fn next(&mut self, rng: &mut impl Rng) -> u64 {
        match self {
            Self::Uniform { start, count } => rng.random_range(*start..*start + *count),
            Self::Sequential { start, count, given } => {
                *start + given.fetch_add(1, Ordering::Relaxed) % *count
            }
            Self::ScrambledZipfian(chooser) => chooser.next(rng),
            Self::SkewedLatest(chooser) => chooser.next(rng),
            Self::Hotspot(chooser) => chooser.next(rng),
            Self::Exponential { gamma, newest } => loop {
                let distance = -rng.random::<f64>().ln() / *gamma;
                let last = newest.readable_end().saturating_sub(1);
                if distance <= last as f64 {
                    break last - distance as u64;
                }
            },
        }
    }
}

/// YCSB's `ScrambledZipfianGenerator`: a zipfian over ten billion items, hashed onto the existing
/// keys.
///
/// The item count is fixed because its zeta is known, whatever the number of keys. As a
/// consequence, the hottest key gets 1/26.5 = 3.8 % of the requests however few keys there are.
#[derive(Debug, Clone)]
pub struct ScrambledZipfian {
    start: u64,
    count: u64,
    zipfian: Zipfian,
}

impl ScrambledZipfian {
    /// YCSB's `ITEM_COUNT`; its zipfian covers `0..=ITEM_COUNT`.
    pub const ITEM_COUNT: u64 = 10_000_000_000;
    /// YCSB's `ZETAN`: zeta(ITEM_COUNT) for theta 0.99.
    pub const ZETAN: f64 = 26.46902820178302;

    /// Chooses among `start..start + count`.
    pub fn new(start: u64, count: u64) -> Self {
        let zipfian = Zipfian::with_zeta(Self::ITEM_COUNT + 1, ZIPFIAN_CONSTANT, Self::ZETAN);
        Self { start, count, zipfian }
    }

    fn next(&mut self, rng: &mut impl Rng) -> u64 {
        self.start + fnv_hash_64(self.zipfian.next(rng)).unsigned_abs() % self.count
    }
}

/// YCSB's `SkewedLatestGenerator`: the zipfian counts backwards from the newest acknowledged key.
#[derive(Debug, Clone)]
pub struct SkewedLatest {
    newest: Arc<AcknowledgedCounter>,
    zipfian: Zipfian,
}

impl SkewedLatest {
    /// Chooses among the keys of `newest`; computes zeta of their number.
    pub fn new(newest: Arc<AcknowledgedCounter>) -> Self {
        let last = newest.readable_end().saturating_sub(1);
        Self { newest, zipfian: Zipfian::new(last.max(1), ZIPFIAN_CONSTANT) }
    }

    fn next(&mut self, rng: &mut impl Rng) -> u64 {
        let last = self.newest.readable_end().saturating_sub(1);
        last - self.zipfian.next_of(last, rng).min(last)
    }
}

/// YCSB's `HotspotIntegerGenerator`: the first part of the keys is hot, uniformly, and the rest is
/// cold.
#[derive(Debug, Clone)]
pub struct Hotspot {
    start: u64,
    hot: u64,
    cold: u64,
    hot_operations: f64,
}

impl Hotspot {
    /// `hot_data` of the keys `start..start + count` get `hot_operations` of the operations; both
    /// from 0 to 1.
    pub fn new(start: u64, count: u64, hot_data: f64, hot_operations: f64) -> Self {
        let hot = (count as f64 * hot_data) as u64;
        Self { start, hot, cold: count - hot.min(count), hot_operations }
    }

    fn next(&mut self, rng: &mut impl Rng) -> u64 {
        let hot = rng.random::<f64>() < self.hot_operations;
        if (hot && self.hot > 0) || self.cold == 0 {
            self.start + rng.random_range(0..self.hot)
        } else {
            self.start + self.hot + rng.random_range(0..self.cold)
        }
    }
}

/// YCSB's `DiscreteGenerator`: chooses one of a few values by weight.
#[derive(Debug, Clone)]
pub struct Discrete<T> {
    /// Cumulative weights up to and including each value, normalized.
    cumulated: Vec<(f64, T)>,
}

impl<T: Copy> Discrete<T> {
    /// Creates a generator of the values with a positive weight; `None` if there is none.
    pub fn new(weighted: impl IntoIterator<Item = (f64, T)>) -> Option<Self> {
        let weighted: Vec<(f64, T)> = weighted.into_iter().filter(|(weight, _)| *weight > 0.0).collect();
        let total: f64 = weighted.iter().map(|(weight, _)| weight).sum();
        let mut sum = 0.0;
        let cumulated: Vec<_> = weighted
            .into_iter()
            .map(|(weight, value)| {
                sum += weight;
                (sum / total, value)
            })
            .collect();
        (!cumulated.is_empty()).then_some(Self { cumulated })
    }

    /// Returns the next value.
    pub fn next(&self, rng: &mut impl Rng) -> T {
        let at = rng.random::<f64>();
        let found = self.cumulated.iter().find(|(end, _)| at < *end);
        // Rounding may leave the last end slightly below one.
        found.or(self.cumulated.last()).expect("never empty").1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::zipfian::zeta;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    fn counts(chooser: &mut KeyChooser, keys: usize, draws: usize) -> Vec<f64> {
        let mut rng = SmallRng::seed_from_u64(11);
        let mut counts = vec![0.0; keys];
        for _ in 0..draws {
            counts[chooser.next(&mut rng) as usize] += 1.0 / draws as f64;
        }
        counts
    }

    #[test]
    fn the_precomputed_zeta_is_zeta_of_the_item_count() {
        // Euler and Maclaurin from 10^6 on: the integral of x^-theta and half of the difference at
        // both ends.
        let (from, to, theta) = (1e6f64, ScrambledZipfian::ITEM_COUNT as f64, ZIPFIAN_CONSTANT);
        let integral = (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
        let ends = (to.powf(-theta) - from.powf(-theta)) / 2.0;
        let computed = zeta(0, 1_000_000, theta, 0.0) + integral + ends;
        assert!((computed - ScrambledZipfian::ZETAN).abs() < 1e-6, "{computed}");
    }

    #[test]
    fn scrambled_zipfian_maps_the_hottest_items_by_hash() {
        let frequencies =
            counts(&mut KeyChooser::ScrambledZipfian(ScrambledZipfian::new(0, 1000)), 1000, 1_000_000);
        // Item 0 has a share of 1/zeta; of the remaining share, 1/1000 falls on its key by chance.
        let item_share =
            |item: u64| 1.0 / ((item + 1) as f64).powf(ZIPFIAN_CONSTANT) / ScrambledZipfian::ZETAN;
        for item in 0..2u64 {
            let key = fnv_hash_64(item) as usize % 1000;
            let expected = item_share(item);
            assert!(
                (frequencies[key] - expected).abs() < 0.004,
                "item {item}: {} {expected}",
                frequencies[key]
            );
        }
        assert!(frequencies.iter().all(|frequency| *frequency > 0.0), "every key is chosen now and then");
    }

    #[test]
    fn skewed_latest_prefers_the_newest_and_follows_it() {
        let newest = Arc::new(AcknowledgedCounter::new(1000));
        let mut chooser = KeyChooser::SkewedLatest(SkewedLatest::new(Arc::clone(&newest)));
        let zeta_n = zeta(0, 999, ZIPFIAN_CONSTANT, 0.0);
        let before = counts(&mut chooser, 1000, 200_000);
        assert!((before[999] - 1.0 / zeta_n).abs() < 0.003, "{}", before[999]);
        assert!((before[998] - 0.5f64.powf(ZIPFIAN_CONSTANT) / zeta_n).abs() < 0.003);
        for _ in 0..500 {
            newest.acknowledge(newest.next());
        }
        let after = counts(&mut chooser, 1500, 200_000);
        let zeta_n = zeta(0, 1499, ZIPFIAN_CONSTANT, 0.0);
        assert!((after[1499] - 1.0 / zeta_n).abs() < 0.003, "{}", after[1499]);
    }

    #[test]
    fn uniform_and_hotspot_keep_their_shares() {
        let uniform = counts(&mut KeyChooser::Uniform { start: 0, count: 100 }, 100, 500_000);
        assert!(uniform.iter().all(|frequency| (frequency - 0.01).abs() < 0.001));
        let hotspot = counts(&mut KeyChooser::Hotspot(Hotspot::new(0, 100, 0.2, 0.8)), 100, 500_000);
        assert!((hotspot[..20].iter().sum::<f64>() - 0.8).abs() < 0.003);
        assert!(hotspot[..20].iter().all(|frequency| (frequency - 0.04).abs() < 0.002));
        assert!(hotspot[20..].iter().all(|frequency| (frequency - 0.0025).abs() < 0.0005));
    }

    #[test]
    fn exponential_puts_its_percentile_within_its_range() {
        // percentile 95 within the newest 100 of 1000 keys: gamma = -ln(1 - 0.95) / 100.
        let newest = Arc::new(AcknowledgedCounter::new(1000));
        let gamma = -(1.0f64 - 0.95).ln() / 100.0;
        let frequencies = counts(&mut KeyChooser::Exponential { gamma, newest }, 1000, 200_000);
        assert!((frequencies[900..].iter().sum::<f64>() - 0.95).abs() < 0.003);
    }

    #[test]
    fn sequential_goes_round() {
        let given = Arc::new(AtomicU64::new(0));
        let mut chooser = KeyChooser::Sequential { start: 5, count: 3, given };
        let mut rng = SmallRng::seed_from_u64(1);
        let keys: Vec<u64> = (0..5).map(|_| chooser.next(&mut rng)).collect();
        assert_eq!(keys, [5, 6, 7, 5, 6]);
    }

    #[test]
    fn discrete_keeps_proportions_and_leaves_out_what_weighs_nothing() {
        let mut rng = SmallRng::seed_from_u64(3);
        let discrete = Discrete::new([(0.95, 'r'), (0.0, 'u'), (0.05, 'i')]).unwrap();
        let draws: Vec<char> = (0..200_000).map(|_| discrete.next(&mut rng)).collect();
        let share = |of| draws.iter().filter(|drawn| **drawn == of).count() as f64 / 200_000.0;
        assert!((share('r') - 0.95).abs() < 0.002);
        assert_eq!(share('u'), 0.0);
        assert!(Discrete::new([(0.0, ())]).is_none());
    }
}
