//! The records of a process as another process receives them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::recorder::{FailureCount, Histogram, Latencies, Recorder, Slice, new_histogram};
use crate::format::printable;
use crate::workload::OperationKind;

/// The maximum number of slices: those of more years than a phase lasts.
const SLICES_MAX: usize = 64;
/// The maximum number of histograms.
const HISTOGRAMS_MAX: usize = 4 << 10;
/// The maximum number of classes of failures, and the maximum length of their texts.
const CLASSES_MAX: usize = 1000;
const TEXT_LENGTH_MAX: usize = 1000;
/// The maximum number of operations, rows and bytes: sums over processes do not overflow.
const COUNT_MAX: u64 = 1 << 53;

/// A [`Recorder`] as plain data. The counts of each bucket are exact, so that merged records equal
/// those of a single process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordParts {
    slices: Vec<SliceParts>,
    failures: BTreeMap<String, FailureCount>,
    operations: u64,
    failed: u64,
    rows: u64,
    bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SliceParts {
    operations: u64,
    latencies: Vec<LatencyParts>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LatencyParts {
    kind: OperationKind,
    response: Buckets,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service: Option<Buckets>,
}

/// The used buckets of a histogram: a latency in the bucket, in nanoseconds, and its count.
type Buckets = Vec<(u64, u64)>;

impl From<&Recorder> for RecordParts {
    fn from(recorder: &Recorder) -> Self {
        let slice = |slice: &Slice| {
            let parts = |(kind, latencies): (&OperationKind, &Latencies)| LatencyParts {
                kind: *kind,
                response: buckets(&latencies.response),
                service: latencies.service.as_ref().map(buckets),
            };
            SliceParts {
                operations: slice.operations,
                latencies: slice.latencies.iter().map(parts).collect(),
            }
        };
        Self {
            slices: recorder.slices.iter().map(slice).collect(),
            failures: recorder.failures.clone(),
            operations: recorder.operations,
            failed: recorder.failed,
            rows: recorder.rows,
            bytes: recorder.bytes,
        }
    }
}

impl RecordParts {
    /// Returns the number of successful operations.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Returns the number of failed operations.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Returns the records.
    ///
    /// # Errors
    /// If no process can have recorded them: another process sent them.
    pub fn recorder(&self) -> Result<Recorder, String> {
        let histograms: usize = self.slices.iter().map(|slice| slice.latencies.len()).sum();
        if self.slices.is_empty() || self.slices.len() > SLICES_MAX || histograms > HISTOGRAMS_MAX {
            return Err(format!("records of {} slices with {histograms} histograms", self.slices.len()));
        }
        if [self.operations, self.failed, self.rows, self.bytes].into_iter().any(|count| count > COUNT_MAX) {
            return Err("more operations, rows or bytes than a phase can have".to_owned());
        }
        let sums = |sum: Option<u64>, counts: u64| sum.and_then(|sum| sum.checked_add(counts));
        let operations = self.slices.iter().map(|slice| slice.operations).fold(Some(0), sums);
        if operations != Some(self.operations) {
            return Err(format!("{} operations, but other ones in the slices", self.operations));
        }
        let failed = self.failures.values().map(|failure| failure.count).fold(Some(0), sums);
        if failed != Some(self.failed) || self.failures.len() > CLASSES_MAX {
            return Err(format!("{} failures, but other ones by class", self.failed));
        }
        let mut recorder = Recorder::new(Arc::default());
        recorder.slices = self.slices.iter().map(SliceParts::slice).collect::<Result<_, _>>()?;
        for (class, failure) in &self.failures {
            let FailureCount { count, first } = failure;
            let sum = recorder.failures.entry(printable(class, TEXT_LENGTH_MAX));
            let new = || FailureCount { count: 0, first: printable(first, TEXT_LENGTH_MAX) };
            sum.or_insert_with(new).count += count;
        }
        recorder.operations = self.operations;
        recorder.failed = self.failed;
        (recorder.rows, recorder.bytes) = (self.rows, self.bytes);
        Ok(recorder)
    }
}

impl SliceParts {
    fn slice(&self) -> Result<Slice, String> {
        let mut latencies = BTreeMap::new();
        for parts in &self.latencies {
            let service = parts.service.as_ref().map(|buckets| histogram(buckets)).transpose()?;
            let one = Latencies { response: histogram(&parts.response)?, service };
            if latencies.insert(parts.kind, one).is_some() {
                return Err(format!("two histograms of {:?} in one slice", parts.kind));
            }
        }
        Ok(Slice { latencies, operations: self.operations })
    }
}

fn buckets(histogram: &Histogram) -> Buckets {
    let recorded = histogram.iter_recorded();
    recorded.map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value())).collect()
}

fn histogram(buckets: &[(u64, u64)]) -> Result<Histogram, String> {
    let mut histogram = new_histogram();
    let mut total = 0u64;
    for (value, count) in buckets {
        total = total.saturating_add(*count);
        if total > COUNT_MAX {
            return Err("more latencies than a phase can have".to_owned());
        }
        let recorded = histogram.record_n(*value, *count);
        recorded.map_err(|_| format!("a latency of {value} ns, which is beyond an hour"))?;
    }
    Ok(histogram)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::recording::Timing;
    use crate::workload::Failure;

    /// Records `latencies_us` over several slices, in an open loop if `intended`.
    fn recorded(latencies_us: &[u64], intended: bool) -> Recorder {
        let start = Instant::now();
        let mut recorder = Recorder::new(Arc::default());
        recorder.start(start);
        for (index, us) in latencies_us.iter().enumerate() {
            let begun = start + Duration::from_millis(100 * index as u64);
            let end = begun + Duration::from_micros(*us);
            let timing = Timing { intended: intended.then_some(begun), start: begun, end };
            let kind = if index % 3 == 0 { OperationKind::Scan } else { OperationKind::Named(7) };
            recorder.operation(kind, timing);
        }
        recorder.failure(Failure::new("timeout", "fir\x1bst"));
        (recorder.rows, recorder.bytes) = (5, 6);
        recorder
    }

    #[test]
    fn merged_records_of_processes_equal_those_of_one_process() {
        let (one, two) = (recorded(&[10, 977, 123_456, 3], false), recorded(&[55_555; 70], false));
        let sent = |recorder: &Recorder| {
            let text = serde_json::to_string(&RecordParts::from(recorder)).unwrap();
            serde_json::from_str::<RecordParts>(&text).unwrap().recorder().unwrap()
        };
        let (mut here, mut merged) = (Recorder::new(Arc::default()), Recorder::new(Arc::default()));
        for recorder in [&one, &two] {
            here.merge(recorder);
            merged.merge(&sent(recorder));
        }
        assert_eq!(merged.failures["timeout"], FailureCount { count: 2, first: "first".into() });
        here.failures = merged.failures.clone();
        assert_eq!(RecordParts::from(&here), RecordParts::from(&merged));
        for first in 0..4 {
            let (here, merged) = (here.latencies_from(first), merged.latencies_from(first));
            assert_eq!(here.len(), merged.len());
            for (kind, latencies) in &here {
                assert_eq!(latencies.response, merged[kind].response);
            }
        }
        assert_eq!((merged.operations, merged.failed, merged.rows, merged.bytes), (74, 2, 10, 12));
        assert!(sent(&recorded(&[1, 2], true)).latencies()[&OperationKind::Scan].service.is_some());
    }

    #[test]
    fn impossible_records_are_refused() {
        let right = serde_json::to_value(RecordParts::from(&recorded(&[10, 20], false))).unwrap();
        let with = |pointer: &str, value: serde_json::Value| {
            let mut wrong = right.clone();
            *wrong.pointer_mut(pointer).unwrap() = value;
            let parts: Result<RecordParts, _> = serde_json::from_value(wrong);
            parts.map_err(|error| error.to_string()).and_then(|parts| parts.recorder().map(drop))
        };
        assert_eq!(with("/rows", 9.into()), Ok(()));
        let latencies = right["slices"][0]["latencies"].as_array().unwrap();
        let doubled = [&latencies[..], &latencies[..]].concat();
        for (pointer, value, words) in [
            ("/slices", serde_json::json!([]), "0 slices"),
            ("/operations", 3.into(), "other ones in the slices"),
            ("/failed", 3.into(), "by class"),
            ("/slices/0/latencies", doubled.into(), "two histograms"),
            ("/slices/0/latencies/0/response/0/0", u64::MAX.into(), "beyond an hour"),
            ("/slices/0/latencies/0/response", serde_json::json!([[1, u64::MAX], [2, 1]]), "more latencies"),
            ("/rows", u64::MAX.into(), "more operations, rows or bytes"),
            ("/slices/0/latencies/0/kind", "Drop".into(), "unknown variant"),
            ("/bytes", (-1).into(), "invalid value"),
        ] {
            let error = with(pointer, value).unwrap_err();
            assert!(error.contains(words), "{pointer}: {error}");
        }
    }
}
