//! Histograms: the distributions of values, since the start and recently.
//!
//! In the recent distribution a new value has weight 1, which halves every minute. Cassandra adds
//! values with weights that grow with time and divides by the current weight; here the weights of
//! the past are reduced every few seconds and the new values added, so that recording is one
//! addition.

use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;

use super::buckets::{self, BUCKET_OFFSETS};
use super::rate::Rates;
use super::sharded::Sharded;

/// The time after which the weight of a value is halved, seconds.
const HALF_LIFE: f64 = 60.0;

/// Buckets for latencies, in microseconds: up to six hours.
const LATENCY_BUCKETS: usize = 127;

/// Counts values in growing buckets, and sums them.
#[derive(Debug)]
pub struct Histogram {
    /// The number of buckets, the first ones of [`BUCKET_OFFSETS`].
    offsets: usize,
    /// Whether 0 has a separate bucket, before all others; otherwise it counts as 1.
    has_zero: bool,
    /// The buckets, the one after the last bound, and the sum of all values.
    counts: Sharded,
    recent: Mutex<Recent>,
}

/// The state as of the last tick.
#[derive(Debug, Default)]
struct Recent {
    /// Monotonic time of the last tick.
    at: Option<Duration>,
    /// The counts at that time.
    counted: Box<[u64]>,
    /// The remaining weights.
    weights: Box<[f64]>,
    rates: Rates,
    has_rates: bool,
}

impl Histogram {
    /// Returns a histogram of latencies in microseconds; see
    /// [`record_latency`](Self::record_latency).
    pub fn of_latencies() -> Self {
        Self::make(LATENCY_BUCKETS, false)
    }

    /// Returns a histogram of counts, including zero.
    pub fn of_counts() -> Self {
        Self::make(BUCKET_OFFSETS.len(), true)
    }

    /// Returns a histogram of positive counts: zero counts as one.
    pub fn of_positive_counts() -> Self {
        Self::make(BUCKET_OFFSETS.len(), false)
    }

    fn make(offsets: usize, has_zero: bool) -> Self {
        let counts = Sharded::new(offsets + usize::from(has_zero) + 2);
        Self { offsets, has_zero, counts, recent: Mutex::default() }
    }

    /// Counts a value.
    #[inline]
    pub fn record(&self, value: u64) {
        let mut bucket = buckets::bucket(value).min(self.offsets);
        if self.has_zero {
            bucket = if value == 0 { 0 } else { bucket + 1 };
        }
        let counts = self.counts.own();
        counts[bucket].fetch_add(1, Ordering::Relaxed);
        counts[counts.len() - 1].fetch_add(value, Ordering::Relaxed);
    }

    /// Counts a latency.
    #[inline]
    pub fn record_latency(&self, time: Duration) {
        // Below 600,000 years.
        self.record(time.as_micros() as u64);
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        let counts = self.counts.sums();
        counts[..counts.len() - 1].iter().sum()
    }

    /// Returns the number of values in each bucket since the start; `None` if nothing was ever
    /// recorded. Does not update the recent distribution.
    pub fn totals(&self) -> Option<Box<[u64]>> {
        if self.counts.is_unused() {
            return None;
        }
        let mut counts = self.counts.sums().into_vec();
        counts.pop();
        Some(counts.into())
    }

    /// Updates the recent distribution and the rates. `now` is monotonic time.
    pub fn tick(&self, now: Duration) {
        if !self.counts.is_unused() {
            self.recent.lock().tick(now, &self.counts.sums());
        }
    }

    /// Returns the distributions and rates at `now` (monotonic time).
    pub fn snapshot(&self, now: Duration) -> HistogramSnapshot {
        let mut counts = self.counts.sums().into_vec();
        let mut recent = self.recent.lock();
        if recent.at.is_none_or(|at| now.saturating_sub(at) >= super::TICK) && !self.counts.is_unused() {
            recent.tick(now, &counts);
        }
        let weights = recent.weights(now, &counts).map(|weight| weight.round() as u64).collect();
        let rates = recent.rates;
        drop(recent);
        let sum = counts.pop().unwrap_or_default();
        let offsets = || BUCKET_OFFSETS[..self.offsets].iter().copied();
        let offsets: Box<[u64]> =
            if self.has_zero { [0].into_iter().chain(offsets()).collect() } else { offsets().collect() };
        HistogramSnapshot {
            sum,
            rates,
            recent: Distribution { offsets: offsets.clone(), counts: weights },
            all: Distribution { offsets, counts: counts.into() },
        }
    }
}

impl Recent {
    fn tick(&mut self, now: Duration, counts: &[u64]) {
        let events = |counts: &[u64]| counts.split_last().map_or(0, |(_sum, buckets)| buckets.iter().sum());
        if let Some(at) = self.at {
            let new = events(counts) - events(&self.counted).min(events(counts));
            self.rates = self.rates.after(new, now.saturating_sub(at), !self.has_rates);
            self.has_rates = true;
        }
        self.weights = self.weights(now, counts).collect();
        self.counted = counts.into();
        self.at = Some(now);
    }

    /// Returns the current weight of each bucket.
    fn weights<'a>(&'a self, now: Duration, counts: &'a [u64]) -> impl Iterator<Item = f64> + 'a {
        let age = self.at.map_or(Duration::ZERO, |at| now.saturating_sub(at));
        let fade = (-age.as_secs_f64() / HALF_LIFE).exp2();
        let buckets = counts.split_last().map_or(&[][..], |(_sum, buckets)| buckets);
        buckets.iter().enumerate().map(move |(i, count)| {
            let counted = self.counted.get(i).copied().unwrap_or_default();
            let weight = self.weights.get(i).copied().unwrap_or_default();
            weight * fade + count.saturating_sub(counted) as f64
        })
    }
}

/// A histogram at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSnapshot {
    /// The sum of all values since the start.
    pub sum: u64,
    /// Values counted a second.
    pub rates: Rates,
    /// The recent distribution: the weight of values is halved every minute.
    pub recent: Distribution,
    /// The distribution since the start.
    pub all: Distribution,
}

impl HistogramSnapshot {
    /// Returns the number of values since the start.
    pub fn count(&self) -> u64 {
        self.all.count()
    }
}

/// The number of values in each bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Upper bounds of the buckets.
    pub offsets: Box<[u64]>,
    /// The counts of the buckets, and of the values beyond the last bound.
    pub counts: Box<[u64]>,
}

impl Distribution {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the number of values up to `limit`, which is one of the bounds or greater than all.
    pub fn count_until(&self, limit: u64) -> u64 {
        let buckets = self.offsets.partition_point(|offset| *offset <= limit);
        self.counts[..buckets].iter().sum()
    }

    /// Returns the upper bound of the bucket that contains the quantile `fraction` (0 to 1); 0 if
    /// there are no values, or it is beyond the last bound.
    pub fn percentile(&self, fraction: f64) -> u64 {
        let wanted = (self.count() as f64 * fraction).ceil() as u64;
        let mut seen = 0;
        for (offset, count) in self.offsets.iter().zip(&self.counts) {
            seen += count;
            if wanted > 0 && seen >= wanted {
                return *offset;
            }
        }
        0
    }

    /// Returns the mean, with each value rounded up to its bucket's bound; `None` if there are no
    /// values.
    pub fn mean(&self) -> Option<f64> {
        let (mut values, mut sum) = (0u64, 0.0);
        for (offset, count) in self.offsets.iter().zip(&self.counts) {
            values += count;
            sum += *offset as f64 * *count as f64;
        }
        (values > 0).then(|| sum / values as f64)
    }

    /// Returns a lower bound of the minimum; 0 if there are no values.
    pub fn min(&self) -> u64 {
        match self.counts.iter().position(|count| *count > 0) {
            None | Some(0) => 0,
            Some(bucket) => self.offsets[bucket - 1] + 1,
        }
    }

    /// Returns an upper bound of the maximum; 0 if there are no values, `i64::MAX` if it is beyond
    /// the last bound.
    pub fn max(&self) -> u64 {
        match self.counts.iter().rposition(|count| *count > 0) {
            None => 0,
            Some(bucket) => self.offsets.get(bucket).copied().unwrap_or(i64::MAX as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn values_count_where_cassandra_counts_them() {
        let histogram = Histogram::of_counts();
        for value in [0, 0, 1, 9, 10, 11] {
            histogram.record(value);
        }
        let snapshot = histogram.snapshot(Duration::ZERO);
        assert_eq!((snapshot.count(), snapshot.sum), (6, 31));
        let all = &snapshot.all;
        assert_eq!((all.percentile(0.5), all.percentile(0.99), all.min(), all.max()), (1, 12, 0, 12));
        assert_eq!([0, 1, 8, 10, 12, u64::MAX].map(|limit| all.count_until(limit)), [2, 3, 3, 5, 6, 6]);
        assert_eq!(snapshot.recent, *all);
        let positive = Histogram::of_positive_counts();
        positive.record(0);
        assert_eq!(positive.snapshot(Duration::ZERO).all.max(), 1);
    }

    #[test]
    fn what_was_counted_a_minute_ago_weighs_half_and_is_forgotten_in_time() {
        let histogram = Histogram::of_latencies();
        for _ in 0..4 {
            histogram.record_latency(Duration::from_millis(1));
        }
        histogram.tick(Duration::ZERO);
        let weights = |at| histogram.snapshot(at).recent.count();
        assert_eq!(weights(Duration::ZERO), 4);
        assert_eq!(weights(MINUTE), 2);
        assert_eq!(weights(2 * MINUTE), 1);
        assert_eq!(weights(4 * MINUTE), 0);
        assert_eq!(histogram.count(), 4);
        assert_eq!(histogram.snapshot(4 * MINUTE).recent.mean(), None);
    }

    #[test]
    fn rates_need_no_more_than_ticks() {
        let histogram = Histogram::of_latencies();
        histogram.record(1);
        histogram.tick(Duration::ZERO);
        for _ in 0..50 {
            histogram.record(1);
        }
        assert_eq!(histogram.snapshot(Duration::from_secs(5)).rates.one_minute, 10.0);
    }

    #[test]
    fn latencies_beyond_the_last_bucket_count_as_overflow() {
        let histogram = Histogram::of_latencies();
        histogram.record(u64::MAX / 2);
        let all = histogram.snapshot(Duration::ZERO).all;
        assert_eq!((all.count(), all.max(), all.percentile(0.5)), (1, i64::MAX as u64, 0));
    }
}
