//! Records the operations of a worker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::live::LiveCounts;
use crate::workload::{Failure, OperationKind};

/// A histogram of nanoseconds up to an hour, to three digits: 260 KiB, of which only used buckets
/// are touched.
pub type Histogram = hdrhistogram::Histogram<u64>;

const MOST_NS: u64 = 3_600_000_000_000;

/// Creates an empty [`Histogram`].
pub fn new_histogram() -> Histogram {
    Histogram::new_with_bounds(1, MOST_NS, 3).expect("the bounds are in order, 3 digits are allowed")
}

/// Intended start, start and end of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Intended start; `None` in a closed loop.
    pub intended: Option<Instant>,
    /// When the request was sent.
    pub start: Instant,
    /// When the response arrived.
    pub end: Instant,
}

/// Latencies of one kind of operation.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// From the intended start to the response.
    pub response: Histogram,
    /// From the actual start to the response: the engine's share. Only in an open loop; in a closed
    /// loop the two are equal.
    pub service: Option<Histogram>,
}

/// Failures of one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCount {
    /// Number of failures.
    pub count: u64,
    /// Message of the first one.
    pub first: String,
}

/// Records of one slice of time.
#[derive(Debug, Clone, Default)]
pub(super) struct Slice {
    pub latencies: BTreeMap<OperationKind, Latencies>,
    pub operations: u64,
}

/// Records of one worker. Failures are counted separately and never enter latencies.
///
/// Time is divided into slices, so that a warm-up can be excluded afterwards: the first second, the
/// next one, then two, four, eight seconds and so on. See [`slice_start`].
#[derive(Debug)]
pub struct Recorder {
    pub(super) slices: Vec<Slice>,
    /// Start of the phase, and end of the current slice; `None` for a single slice.
    clock: Option<(Instant, Instant)>,
    pub(super) failures: BTreeMap<String, FailureCount>,
    failures_in_a_row: u64,
    live: Arc<LiveCounts>,
    /// Successful operations; a read-modify-write is one.
    pub operations: u64,
    /// Failed operations.
    pub failed: u64,
    /// Rows returned by reads and scans.
    pub rows: u64,
    /// Bytes of keys and values returned by reads and scans.
    pub bytes: u64,
}

impl Recorder {
    /// Creates an empty record that also counts in `live`.
    pub fn new(live: Arc<LiveCounts>) -> Self {
        Self {
            slices: vec![Slice::default()],
            clock: None,
            failures: BTreeMap::new(),
            failures_in_a_row: 0,
            live,
            operations: 0,
            failed: 0,
            rows: 0,
            bytes: 0,
        }
    }

    /// Sets the start of the phase: later records are divided into slices.
    pub fn start(&mut self, start: Instant) {
        self.clock = Some((start, start + slice_start(1)));
    }

    /// Returns the slice for an operation that ended at `end`. After a slice has ended, late parts
    /// of operations count in the next one.
    fn slice(&mut self, end: Instant) -> &mut Slice {
        while let Some((start, slice_end)) = &mut self.clock
            && end >= *slice_end
        {
            self.slices.push(Slice::default());
            *slice_end = *start + slice_start(self.slices.len());
        }
        self.slices.last_mut().expect("there is always a slice")
    }

    /// Records a successful operation.
    pub fn operation(&mut self, kind: OperationKind, timing: Timing) {
        let response = self.part(kind, timing);
        self.live.count(response);
        self.operations += 1;
        self.slice(timing.end).operations += 1;
        self.failures_in_a_row = 0;
    }

    /// Records a part of an operation (the read or the update of a read-modify-write) under `kind`.
    /// Returns its latency in nanoseconds.
    pub fn part(&mut self, kind: OperationKind, timing: Timing) -> u64 {
        let latencies = self.slice(timing.end).latencies.entry(kind).or_insert_with(|| Latencies {
            response: new_histogram(),
            service: timing.intended.map(|_| new_histogram()),
        });
        let service = nanos(timing.end - timing.start);
        let response = match timing.intended {
            Some(intended) => nanos(timing.end.saturating_duration_since(intended)),
            None => service,
        };
        latencies.response.saturating_record(response);
        if let Some(histogram) = &mut latencies.service {
            histogram.saturating_record(service);
        }
        response
    }

    /// Counts a failed operation. Returns the number of consecutive failures.
    pub fn failure(&mut self, failure: Failure) -> u64 {
        self.live.count_failure();
        self.failed += 1;
        self.failures_in_a_row += 1;
        self.failures
            .entry(failure.class.into_owned())
            .and_modify(|counted| counted.count += 1)
            .or_insert(FailureCount { count: 1, first: failure.message });
        self.failures_in_a_row
    }

    /// Adds another worker's records.
    pub fn merge(&mut self, other: &Self) {
        if self.slices.len() < other.slices.len() {
            self.slices.resize_with(other.slices.len(), Slice::default);
        }
        for (ours, theirs) in self.slices.iter_mut().zip(&other.slices) {
            ours.operations += theirs.operations;
            merge(&mut ours.latencies, &theirs.latencies);
        }
        for (class, theirs) in &other.failures {
            self.failures
                .entry(class.clone())
                .and_modify(|ours| ours.count += theirs.count)
                .or_insert_with(|| theirs.clone());
        }
        self.operations += other.operations;
        self.failed += other.failed;
        self.rows += other.rows;
        self.bytes += other.bytes;
    }

    /// Returns the latencies by kind, of the whole time.
    pub fn latencies(&self) -> BTreeMap<OperationKind, Latencies> {
        self.latencies_from(0)
    }

    /// Returns the latencies by kind, from slice `first` on.
    pub fn latencies_from(&self, first: usize) -> BTreeMap<OperationKind, Latencies> {
        let mut all = BTreeMap::new();
        self.slices.iter().skip(first).for_each(|slice| merge(&mut all, &slice.latencies));
        all
    }

    /// Returns the number of successful operations from slice `first` on.
    pub fn operations_from(&self, first: usize) -> u64 {
        self.slices.iter().skip(first).map(|slice| slice.operations).sum()
    }

    /// Returns the failures by class.
    pub fn failures(&self) -> &BTreeMap<String, FailureCount> {
        &self.failures
    }
}

/// Returns the start of slice `slice`, relative to the phase: 0, 1, 2, 4, 8, ... seconds.
pub fn slice_start(slice: usize) -> Duration {
    match slice {
        0 => Duration::ZERO,
        // Slices beyond years are never reached.
        _ => Duration::from_secs(1 << (slice - 1).min(32)),
    }
}

/// Returns the first slice that starts at least `seconds` after the phase.
pub fn slice_after(seconds: f64) -> usize {
    (0..33).find(|slice| slice_start(*slice).as_secs_f64() >= seconds).unwrap_or(33)
}

fn merge(ours: &mut BTreeMap<OperationKind, Latencies>, theirs: &BTreeMap<OperationKind, Latencies>) {
    for (kind, theirs) in theirs {
        let Some(ours) = ours.get_mut(kind) else {
            ours.insert(*kind, theirs.clone());
            continue;
        };
        add(&mut ours.response, &theirs.response);
        match (&mut ours.service, &theirs.service) {
            (Some(ours), Some(theirs)) => add(ours, theirs),
            (ours @ None, Some(theirs)) => *ours = Some(theirs.clone()),
            (_, None) => {}
        }
    }
}

fn add(ours: &mut Histogram, theirs: &Histogram) {
    ours.add(theirs).expect("all histograms have the same bounds");
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(intended_us: Option<u64>, start_us: u64, end_us: u64) -> Timing {
        let zero = Instant::now();
        let at = |us| zero + Duration::from_micros(us);
        Timing { intended: intended_us.map(at), start: at(start_us), end: at(end_us) }
    }

    fn close(value: u64, expected: u64) -> bool {
        value.abs_diff(expected) <= expected / 500
    }

    #[test]
    fn latency_counts_from_the_intended_start_and_service_from_the_real_one() {
        let mut recorder = Recorder::new(Arc::default());
        recorder.operation(OperationKind::Read, timing(Some(0), 900, 1000));
        let latencies = &recorder.latencies()[&OperationKind::Read];
        assert!(close(latencies.response.max(), 1_000_000));
        assert!(close(latencies.service.as_ref().unwrap().max(), 100_000));
    }

    #[test]
    fn failures_are_counted_by_class_and_excluded_from_latencies() {
        let mut recorder = Recorder::new(Arc::default());
        recorder.operation(OperationKind::Read, timing(None, 0, 10));
        assert_eq!(recorder.failure(Failure::new("timeout", "first")), 1);
        assert_eq!(recorder.failure(Failure::new("timeout", "second")), 2);
        assert_eq!(recorder.failure(Failure::not_found("user1")), 3);
        recorder.operation(OperationKind::Read, timing(None, 0, 10));
        assert_eq!(recorder.failure(Failure::new("timeout", "third")), 1, "a success ends the row");
        assert_eq!((recorder.operations, recorder.failed), (2, 4));
        assert_eq!(recorder.latencies()[&OperationKind::Read].response.len(), 2);
        assert_eq!(recorder.failures()["timeout"], FailureCount { count: 3, first: "first".into() });
        assert_eq!(recorder.failures()["not found"].count, 1);
    }

    #[test]
    fn a_warm_up_can_be_excluded_afterwards() {
        let start = Instant::now();
        let mut recorder = Recorder::new(Arc::default());
        recorder.start(start);
        for (at_s, latency_ms) in [(0, 900), (1, 500), (2, 10), (3, 10), (9, 10)] {
            let begun = start + Duration::from_secs(at_s);
            let end = begun + Duration::from_millis(latency_ms);
            recorder.operation(OperationKind::Read, Timing { intended: None, start: begun, end });
        }
        let slowest = |first| recorder.latencies_from(first)[&OperationKind::Read].response.max();
        assert!(
            close(slowest(0), 900_000_000) && close(slowest(1), 500_000_000) && close(slowest(2), 10_000_000)
        );
        assert_eq!([0, 1, 2, 3].map(|first| recorder.operations_from(first)), [5, 4, 3, 1]);
        assert_eq!([0.0, 0.1, 1.0, 1.5, 5.0].map(slice_after), [0, 1, 1, 2, 4]);
        assert_eq!(recorder.latencies()[&OperationKind::Read].response.len(), 5);
    }

    #[test]
    fn merged_records_equal_a_single_one() {
        let mut one = Recorder::new(Arc::default());
        let mut two = Recorder::new(Arc::default());
        one.operation(OperationKind::Read, timing(None, 0, 10));
        two.operation(OperationKind::Read, timing(None, 0, 30));
        two.operation(OperationKind::Scan, timing(None, 0, 500));
        two.failure(Failure::not_found("user1"));
        two.rows = 7;
        one.merge(&two);
        assert_eq!((one.operations, one.failed, one.rows), (3, 1, 7));
        let reads = &one.latencies()[&OperationKind::Read].response;
        assert_eq!(reads.len(), 2);
        assert!(close(reads.max(), 30_000) && close(reads.min(), 10_000));
        assert_eq!(one.latencies()[&OperationKind::Scan].response.len(), 1);
    }
}
