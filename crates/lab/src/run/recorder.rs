//! What a worker remembers of its operations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::live::LiveCounts;
use crate::engine::Failure;
use crate::ycsb::OperationKind;

/// A histogram of nanoseconds up to an hour, to three digits: 260 KiB, of which only what is counted in is touched.
pub type Histogram = hdrhistogram::Histogram<u64>;

const MOST_NS: u64 = 3_600_000_000_000;

/// An empty [`Histogram`].
pub fn new_histogram() -> Histogram {
    Histogram::new_with_bounds(1, MOST_NS, 3).expect("the bounds are in order, 3 digits are allowed")
}

/// When an operation should have started, did start, and was done.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// The intended start; `None` in a closed loop.
    pub intended: Option<Instant>,
    /// When the engine was asked.
    pub start: Instant,
    /// When its answer was there.
    pub end: Instant,
}

/// The latencies of one kind of operation.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// From the intended start to the answer.
    pub response: Histogram,
    /// From the actual start to the answer: what the engine took once it was asked. Only in an open loop; in a closed
    /// loop the two are the same.
    pub service: Option<Histogram>,
}

/// The failures of one class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureCount {
    /// How many there were.
    pub count: u64,
    /// What the first one said.
    pub first: String,
}

/// One worker's record. Failures are counted apart and never enter a latency.
#[derive(Debug)]
pub struct Recorder {
    latencies: BTreeMap<OperationKind, Latencies>,
    failures: BTreeMap<String, FailureCount>,
    failures_in_a_row: u64,
    live: Arc<LiveCounts>,
    /// Operations that worked; a read-modify-write is one.
    pub operations: u64,
    /// Operations that did not.
    pub failed: u64,
    /// Rows that reads and scans gave.
    pub rows: u64,
    /// Bytes of keys and values that reads and scans gave.
    pub bytes: u64,
}

impl Recorder {
    /// An empty record that also counts in `live`.
    pub fn new(live: Arc<LiveCounts>) -> Self {
        Self {
            latencies: BTreeMap::new(),
            failures: BTreeMap::new(),
            failures_in_a_row: 0,
            live,
            operations: 0,
            failed: 0,
            rows: 0,
            bytes: 0,
        }
    }

    /// Records a whole operation that worked.
    pub fn operation(&mut self, kind: OperationKind, timing: Timing) {
        let response = self.part(kind, timing);
        self.live.count(response);
        self.operations += 1;
        self.failures_in_a_row = 0;
    }

    /// Records a part of an operation (the read and the update of a read-modify-write) under `kind`; gives its latency in
    /// nanoseconds.
    pub fn part(&mut self, kind: OperationKind, timing: Timing) -> u64 {
        let latencies = self.latencies.entry(kind).or_insert_with(|| Latencies {
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

    /// Counts an operation that failed; gives how many failed in a row.
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

    /// Adds another worker's record to this one.
    pub fn merge(&mut self, other: &Self) {
        for (kind, theirs) in &other.latencies {
            let Some(ours) = self.latencies.get_mut(kind) else {
                self.latencies.insert(*kind, theirs.clone());
                continue;
            };
            add(&mut ours.response, &theirs.response);
            match (&mut ours.service, &theirs.service) {
                (Some(ours), Some(theirs)) => add(ours, theirs),
                (ours @ None, Some(theirs)) => *ours = Some(theirs.clone()),
                (_, None) => {}
            }
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

    /// The latencies by kind.
    pub fn latencies(&self) -> &BTreeMap<OperationKind, Latencies> {
        &self.latencies
    }

    /// The failures by class.
    pub fn failures(&self) -> &BTreeMap<String, FailureCount> {
        &self.failures
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
    fn failures_are_counted_by_class_and_enter_no_latency() {
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
    fn merged_records_are_as_one() {
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
