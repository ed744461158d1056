//! Counters that can be sampled while workers count.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Steps within one doubling: displayed percentiles are at most 1/8 too high.
const STEPS: usize = 8;
/// Number of doublings, up to 2^40 ns or 18 minutes; slower operations count there.
const DOUBLINGS: usize = 38;
const BUCKETS: usize = STEPS * DOUBLINGS;

/// Coarse latencies of all operations of one worker, for the progress bar.
///
/// Only its worker writes, so a count is a load and a store without a locked instruction. Wrapping
/// is harmless, because only differences of two samples are used.
#[derive(Debug)]
pub struct LiveCounts {
    buckets: [AtomicU32; BUCKETS],
    failures: AtomicU64,
}

impl Default for LiveCounts {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU32::new(0)), failures: AtomicU64::new(0) }
    }
}

impl LiveCounts {
    /// Counts an operation that took `latency_ns`. Only for the worker that owns it.
    pub fn count(&self, latency_ns: u64) {
        let bucket = &self.buckets[bucket_of(latency_ns)];
        bucket.store(bucket.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Adds what workers of another process counted since their previous message. Only for the
    /// thread that receives the messages.
    ///
    /// # Errors
    /// If it has no such bucket.
    pub fn add(&self, progress: &LiveProgress) -> Result<(), &'static str> {
        for (bucket, count) in &progress.buckets {
            let bucket = self.buckets.get(usize::from(*bucket)).ok_or("a latency that is counted nowhere")?;
            bucket.store(bucket.load(Ordering::Relaxed).wrapping_add(*count), Ordering::Relaxed);
        }
        // A smaller number than before would be no count.
        self.failures.fetch_max(progress.failures, Ordering::Relaxed);
        Ok(())
    }

    /// Counts a failed operation. Only for the worker that owns it.
    pub fn count_failure(&self) {
        self.failures.store(self.failures.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// What the workers of a process counted, for the process that shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveProgress {
    /// Successful operations since the previous message: bucket and count.
    buckets: Vec<(u16, u32)>,
    /// Failed operations since the beginning.
    failures: u64,
}

/// Derives the messages of [`LiveProgress`] from the counters of workers.
#[derive(Debug)]
pub struct LiveSender {
    sent: Vec<u32>,
}

impl Default for LiveSender {
    fn default() -> Self {
        Self { sent: vec![0; BUCKETS] }
    }
}

impl LiveSender {
    /// Returns what `workers` counted since the previous call. They must be the same in every call.
    pub fn next<'a>(&mut self, workers: impl IntoIterator<Item = &'a LiveCounts>) -> LiveProgress {
        let (totals, failures) = totals(workers);
        let changes = totals.iter().zip(&self.sent).map(|(now, sent)| now.wrapping_sub(*sent));
        let buckets = (0..).zip(changes).filter(|(_, count)| *count > 0).collect();
        self.sent = totals;
        LiveProgress { buckets, failures }
    }
}

/// Returns the sums of all workers' buckets and failures.
fn totals<'a>(workers: impl IntoIterator<Item = &'a LiveCounts>) -> (Vec<u32>, u64) {
    let (mut totals, mut failures) = (vec![0u32; BUCKETS], 0);
    for worker in workers {
        for (total, bucket) in totals.iter_mut().zip(&worker.buckets) {
            *total = total.wrapping_add(bucket.load(Ordering::Relaxed));
        }
        failures = worker.failures.load(Ordering::Relaxed).saturating_add(failures);
    }
    (totals, failures)
}

fn bucket_of(latency_ns: u64) -> usize {
    if latency_ns < STEPS as u64 {
        return latency_ns as usize;
    }
    let exponent = latency_ns.ilog2() as usize;
    let step = (latency_ns >> (exponent - 3)) as usize & (STEPS - 1);
    ((exponent - 2) * STEPS + step).min(BUCKETS - 1)
}

/// Returns the smallest latency above the range of `bucket`.
fn end_of(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64 + 1;
    }
    let exponent = bucket / STEPS + 2;
    ((STEPS + bucket % STEPS + 1) as u64) << (exponent - 3)
}

/// Changes between two samples of several workers' counters.
#[derive(Debug)]
pub struct LiveView {
    seen: Vec<u32>,
    seen_at: Instant,
    /// Time between the last two samples.
    pub recent_seconds: f64,
    /// Successful operations since the beginning.
    pub operations: u64,
    /// Failed operations since the beginning.
    pub failures: u64,
    /// Successful operations since the previous sample.
    pub recent_operations: u64,
    /// 99th percentile of the latencies since the previous sample; `None` without any.
    pub recent_p99_ns: Option<u64>,
    /// Median of the same; `None` without any.
    pub recent_p50_ns: Option<u64>,
}

impl Default for LiveView {
    fn default() -> Self {
        Self {
            seen: vec![0; BUCKETS],
            seen_at: Instant::now(),
            recent_seconds: 0.0,
            operations: 0,
            failures: 0,
            recent_operations: 0,
            recent_p99_ns: None,
            recent_p50_ns: None,
        }
    }
}

impl LiveView {
    /// Takes a sample. `workers` must be the same in every sample.
    pub fn sample<'a>(&mut self, workers: impl IntoIterator<Item = &'a LiveCounts>) {
        let (totals, failures) = totals(workers);
        self.failures = failures;
        let now = Instant::now();
        self.recent_seconds = (now - self.seen_at).as_secs_f64();
        self.seen_at = now;
        let recent: Vec<u64> =
            totals.iter().zip(&self.seen).map(|(now, before)| u64::from(now.wrapping_sub(*before))).collect();
        self.recent_operations = recent.iter().sum();
        self.operations += self.recent_operations;
        self.seen = totals;

        self.recent_p99_ns = slowest(&recent, self.recent_operations.div_ceil(100));
        self.recent_p50_ns = slowest(&recent, self.recent_operations.div_ceil(2));
    }
}

/// Returns the lower bound, rounded up to a bucket, of the `left` slowest operations; `None`
/// without any.
fn slowest(counts: &[u64], mut left: u64) -> Option<u64> {
    for (bucket, count) in counts.iter().enumerate().rev() {
        if *count >= left && left > 0 {
            return Some(end_of(bucket));
        }
        left = left.saturating_sub(*count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_counted_in_the_bucket_that_contains_them() {
        for latency in (0..5000).chain((13..40).map(|shift| (1u64 << shift) - 1)).chain([1 << 20, 3 << 30]) {
            let bucket = bucket_of(latency);
            assert!(latency < end_of(bucket), "{latency}");
            assert!(bucket == 0 || latency >= end_of(bucket - 1), "{latency}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn counts_of_another_process_arrive_once_and_unknown_buckets_are_refused() {
        let (worker, other, copy) = (LiveCounts::default(), LiveCounts::default(), LiveCounts::default());
        let mut sender = LiveSender::default();
        worker.count(1000);
        other.count(1000);
        other.count_failure();
        copy.add(&sender.next([&worker, &other])).unwrap();
        worker.count(5000);
        copy.add(&sender.next([&worker, &other])).unwrap();
        assert!(sender.next([&worker, &other]).buckets.is_empty());
        assert_eq!(totals([&copy]), totals([&worker, &other]));
        assert!(copy.add(&LiveProgress { buckets: vec![(BUCKETS as u16, 1)], failures: 0 }).is_err());
        // Other processes may send any numbers.
        for failures in [u64::MAX, 0] {
            other.add(&LiveProgress { buckets: vec![(3, u32::MAX)], failures }).unwrap();
        }
        assert_eq!(totals([&other, &worker, &other]).1, u64::MAX);
        LiveView::default().sample([&other, &worker]);
    }

    #[test]
    fn each_sample_reports_changes() {
        let (one, two) = (LiveCounts::default(), LiveCounts::default());
        let mut view = LiveView::default();
        (0..99).for_each(|_| one.count(1000));
        two.count(1_000_000);
        view.sample([&one, &two]);
        assert_eq!((view.operations, view.recent_operations), (100, 100));
        assert_eq!(view.recent_p99_ns, Some(end_of(bucket_of(1_000_000))));
        (0..200).for_each(|_| two.count(1000));
        two.count_failure();
        view.sample([&one, &two]);
        assert_eq!((view.operations, view.recent_operations, view.failures), (300, 200, 1));
        assert_eq!(view.recent_p99_ns, Some(end_of(bucket_of(1000))));
        view.sample([&one, &two]);
        assert_eq!((view.recent_operations, view.recent_p99_ns), (0, None));
    }
}
