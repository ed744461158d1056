//! A zipfian distribution over a growing number of items.

use rand::{Rng, RngExt};

/// YCSB's `ZIPFIAN_CONSTANT`.
pub const ZIPFIAN_CONSTANT: f64 = 0.99;

/// Chooses items `0..n` so that item `i` is about `1 / (i + 1)^theta` as popular as item 0.
///
/// The method is that of "Quickly Generating Billion-Record Synthetic Databases" (Gray et al.,
/// SIGMOD 1994): two exact probabilities for the first two items, and an inverted continuous
/// approximation for the rest. It needs `zeta(n) = sum of 1 / i^theta for i in 1..=n`, which takes
/// time linear in `n` once and only the difference when `n` grows.
#[derive(Debug, Clone)]
pub struct Zipfian {
    theta: f64,
    alpha: f64,
    zeta_2: f64,
    /// `zeta(counted)`.
    zeta_n: f64,
    counted: u64,
    /// The initial number of items: `eta` keeps using it when the items grow, as YCSB's does.
    items: u64,
    eta: f64,
}

impl Zipfian {
    /// Creates a distribution of `items` items. Computes `zeta(items)`, about 40 ns per item.
    pub fn new(items: u64, theta: f64) -> Self {
        Self::with_zeta(items, theta, zeta(0, items, theta, 0.0))
    }

    /// Creates a distribution of `items` items whose `zeta(items)` is known.
    pub fn with_zeta(items: u64, theta: f64, zeta_n: f64) -> Self {
        let zeta_2 = zeta(0, 2, theta, 0.0);
        let mut zipfian =
            Self { theta, alpha: 1.0 / (1.0 - theta), zeta_2, zeta_n, counted: items, items, eta: 0.0 };
        zipfian.eta = zipfian.compute_eta();
        zipfian
    }

    fn compute_eta(&self) -> f64 {
        (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta)) / (1.0 - self.zeta_2 / self.zeta_n)
    }

    /// Returns the next item among the initial ones.
    pub fn next(&mut self, rng: &mut impl Rng) -> u64 {
        self.next_of(self.items, rng)
    }

    /// Returns the next item among the first `items`.
    ///
    /// More items than before extend `zeta`. Fewer items use the larger `zeta`, because a slightly
    /// outdated count does not justify a new sum (YCSB's `allowitemcountdecrease = false`).
    pub fn next_of(&mut self, items: u64, rng: &mut impl Rng) -> u64 {
        if items > self.counted {
            self.zeta_n = zeta(self.counted, items, self.theta, self.zeta_n);
            self.counted = items;
            self.eta = self.compute_eta();
        }
        self.item_at(items, rng.random::<f64>())
    }

    /// Returns the item at the quantile `u` of the distribution, `0 <= u < 1`.
    fn item_at(&self, items: u64, u: f64) -> u64 {
        let uz = u * self.zeta_n;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        (items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64
    }
}

/// Extends `initial`, the sum for the first `from` items, to the first `to`.
pub fn zeta(from: u64, to: u64, theta: f64, initial: f64) -> f64 {
    (from..to).fold(initial, |sum, i| sum + 1.0 / ((i + 1) as f64).powf(theta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    #[test]
    fn zeta_matches_the_java_class() {
        assert!((zeta(0, 1000, 0.99, 0.0) - 7.728953217284729).abs() < 1e-12);
        assert!((zeta(0, 1_000_000, 0.99, 0.0) - 15.391849746037371).abs() < 1e-9);
    }

    #[test]
    fn items_at_quantiles_match_the_java_class() {
        let zipfian = Zipfian::new(1000, ZIPFIAN_CONSTANT);
        for (u, item) in [(0.01, 0), (0.2, 2), (0.3, 4), (0.5, 22), (0.9, 471), (0.999999, 999)] {
            assert_eq!(zipfian.item_at(1000, u), item, "at {u}");
        }
    }

    #[test]
    fn growing_extends_zeta_to_what_it_would_have_been() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut grown = Zipfian::new(1000, ZIPFIAN_CONSTANT);
        grown.next_of(5000, &mut rng);
        assert!((grown.zeta_n - zeta(0, 5000, ZIPFIAN_CONSTANT, 0.0)).abs() < 1e-9);
        let before = grown.zeta_n;
        grown.next_of(4000, &mut rng);
        assert_eq!(grown.zeta_n, before, "fewer items must not start the sum again");
    }

    #[test]
    fn frequencies_follow_the_law() {
        const DRAWS: u32 = 2_000_000;
        let mut rng = SmallRng::seed_from_u64(7);
        let mut zipfian = Zipfian::new(1000, ZIPFIAN_CONSTANT);
        let mut counts = [0u32; 1000];
        for _ in 0..DRAWS {
            counts[zipfian.next(&mut rng) as usize] += 1;
        }
        let zeta_n = zeta(0, 1000, ZIPFIAN_CONSTANT, 0.0);
        let frequency = |count: u32| f64::from(count) / f64::from(DRAWS);
        // The first two are exact; three standard errors of a share of 13 % in two million draws is
        // 0.0007.
        for (item, count) in counts.iter().take(2).enumerate() {
            let exact = 1.0 / ((item + 1) as f64).powf(ZIPFIAN_CONSTANT) / zeta_n;
            assert!((frequency(*count) - exact).abs() < 0.001, "item {item}");
        }
        // The rest is approximated; the share of the hot set matters.
        for head in [10, 100, 500] {
            let share = frequency(counts[..head].iter().sum());
            let law = zeta(0, head as u64, ZIPFIAN_CONSTANT, 0.0) / zeta_n;
            assert!((share - law).abs() < 0.02, "first {head}: {share} against {law}");
        }
    }
}
