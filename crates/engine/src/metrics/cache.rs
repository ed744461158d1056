//! Recent hit rates of caches.

use std::time::Duration;

use cassette_sstable::chunk_cache::CacheStats;

use super::rate::{Rates, RecentRate};

/// The state of one cache's rates between ticks.
#[derive(Debug, Default)]
pub(crate) struct CacheMeter {
    hits: RecentRate,
    requests: RecentRate,
}

impl CacheMeter {
    /// Updates the rates. `now` is monotonic time.
    pub fn tick(&self, now: Duration, stats: &CacheStats) {
        self.hits.tick(now, stats.hits);
        self.requests.tick(now, stats.requests());
    }

    /// Returns the rates as of the last tick.
    pub fn rates(&self) -> CacheRates {
        CacheRates {
            hits: self.hits.rates().unwrap_or_default(),
            requests: self.requests.rates().unwrap_or_default(),
        }
    }
}

/// Look-ups a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CacheRates {
    /// Look-ups that found an entry.
    pub hits: Rates,
    /// All look-ups.
    pub requests: Rates,
}

impl CacheRates {
    /// Returns the fraction of hits within the last fifteen minutes; `None` if there were no
    /// look-ups.
    pub fn hit_rate(&self) -> Option<f64> {
        let (hits, requests) = (self.hits.fifteen_minutes, self.requests.fifteen_minutes);
        (requests > 0.0).then(|| (hits / requests).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recent_hit_rate_follows_what_happens_now() {
        let meter = CacheMeter::default();
        let stats =
            |hits, misses| CacheStats { hits, misses, miss_nanos: 0, entries: 0, bytes: 0, capacity: 0 };
        assert_eq!(meter.rates().hit_rate(), None);
        meter.tick(Duration::from_secs(0), &stats(0, 1_000_000));
        meter.tick(Duration::from_secs(5), &stats(75, 1_000_025));
        let rates = meter.rates();
        assert_eq!((rates.hits.one_minute, rates.requests.one_minute), (15.0, 20.0));
        assert_eq!(rates.hit_rate(), Some(0.75), "what was before the first tick is not recent");
        for hour in 1..50 {
            meter.tick(Duration::from_secs(3600 * hour), &stats(75, 1_000_025 + 100_000 * hour));
        }
        assert!(meter.rates().hit_rate().is_some_and(|rate| rate < 1e-6));
    }
}
