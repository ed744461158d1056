//! Results of a benchmark, with everything needed to judge and to reproduce them.

pub mod agent;
pub mod disturbance;
pub mod machine;
pub mod process;

use std::collections::BTreeMap;

use base64::Engine as _;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::recording::{FailureCount, Histogram, Latencies, Recorder};
use crate::workload::OperationKind;
pub use agent::AgentReport;
pub use disturbance::{Disturbance, MachineUse};
pub use machine::Machine;
pub use process::ProcessUse;

/// A whole benchmark.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Command of the benchmark.
    pub benchmark: String,
    /// Version of Cassette.
    pub version: String,
    /// Command line without passwords.
    pub command: String,
    /// Start time in UTC.
    pub started_at: String,
    /// Machine it ran on.
    pub machine: Machine,
    /// Engine under test.
    pub engine: EngineInfo,
    /// How the engine was driven.
    pub driving: Driving,
    /// Phases, in order.
    pub phases: Vec<PhaseReport>,
}

/// Description of an engine in a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineInfo {
    /// Name and, if informative, location.
    pub name: String,
    /// Version, as reported or as built.
    pub version: String,
    /// Settings that affect speed and durability.
    pub settings: BTreeMap<String, String>,
}

/// How the engine was driven.
#[derive(Debug, Clone, Serialize)]
pub struct Driving {
    /// Number of concurrent operations: waiting threads, or requests in flight.
    pub in_flight: usize,
    /// Requested operations per second; absent in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Seed of random choices.
    pub seed: u64,
    /// Number of repeats.
    pub repeats: usize,
}

/// A phase: a load, or a run of one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// `load`, or `run` and the workload.
    pub name: String,
    /// Repeat, from 1.
    pub repeat: usize,
    /// Settings of the workload, by YCSB's names.
    pub properties: BTreeMap<String, String>,
    /// Duration.
    pub seconds: f64,
    /// Successful operations; a read-modify-write is one.
    pub operations: u64,
    /// Successful operations per second.
    pub throughput: f64,
    /// Failed operations.
    pub failed: u64,
    /// Failures by class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, FailureReport>,
    /// Why it ended early, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Rows returned by reads and scans.
    pub rows_read: u64,
    /// Bytes of keys and values returned by reads and scans.
    pub bytes_read: u64,
    /// Latencies by kind of operation.
    pub latencies: BTreeMap<String, LatencyReport>,
    /// Resources used by the processes.
    pub processes: Vec<ProcessReport>,
    /// What else happened on this machine; absent if unknown, and with agents: they have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// The agents that executed the operations, instead of this process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentReport>,
}

/// Failures of one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureReport {
    /// Number of failures.
    pub count: u64,
    /// Message of the first one.
    pub first: String,
}

/// Latencies of one kind of operation, without failed ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// From the intended start in an open loop, from the start in a closed one.
    #[serde(flatten)]
    pub response: Percentiles,
    /// In an open loop: from when the request was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Percentiles>,
}

/// A distribution of latencies in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub count: u64,
    pub mean_us: f64,
    pub stdev_us: f64,
    pub min_us: f64,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub p99_9_us: f64,
    pub max_us: f64,
    /// The complete histogram in nanoseconds: base64 of HdrHistogram's compressed V2 encoding.
    pub histogram: String,
}

/// Resources used by one process during a phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// `server`, or `laboratory` for the measuring process, which includes an embedded engine.
    pub role: String,
    /// Process id.
    pub pid: u32,
    /// The agent on its machine; absent for a process of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Processor time in user mode.
    pub user_seconds: f64,
    /// Processor time in the kernel.
    pub system_seconds: f64,
    /// Both, divided by the successful operations; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_operation: Option<f64>,
    /// Maximum resident memory during the phase.
    pub rss_bytes_max: u64,
    /// Number of threads at the end.
    pub threads: u64,
    /// Open files, sockets and the like at the end; absent if unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Bytes written to disk; absent if unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Bytes read from disk; absent if unavailable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
}

impl ProcessReport {
    /// Describes the usage of a process from `before` to `now`, in which so many operations
    /// succeeded.
    pub fn between(role: &str, pid: u32, (before, now): (&ProcessUse, &ProcessUse), operations: u64) -> Self {
        let user_seconds = now.user_seconds - before.user_seconds;
        let system_seconds = now.system_seconds - before.system_seconds;
        let difference = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Self {
            role: role.to_owned(),
            pid,
            host: None,
            user_seconds,
            system_seconds,
            cpu_us_per_operation: (operations > 0)
                .then(|| (user_seconds + system_seconds) * 1e6 / operations as f64),
            rss_bytes_max: now.rss_bytes,
            threads: now.threads,
            open_files: now.open_files,
            written_bytes: difference(now.written_bytes, before.written_bytes),
            read_bytes: difference(now.read_bytes, before.read_bytes),
        }
    }

    /// Returns the processor time in both modes, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

impl Percentiles {
    fn of(histogram: &Histogram) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |quantile| us(histogram.value_at_quantile(quantile));
        let mut encoded = Vec::new();
        V2DeflateSerializer::new()
            .serialize(histogram, &mut encoded)
            .expect("counts of a histogram fit its encoding, and a Vec takes every write");
        Self {
            count: histogram.len(),
            mean_us: histogram.mean() / 1e3,
            stdev_us: histogram.stdev() / 1e3,
            min_us: us(histogram.min()),
            p50_us: at(0.5),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            max_us: us(histogram.max()),
            histogram: base64::engine::general_purpose::STANDARD.encode(encoded),
        }
    }
}

impl From<&Latencies> for LatencyReport {
    fn from(latencies: &Latencies) -> Self {
        Self {
            response: Percentiles::of(&latencies.response),
            service: latencies.service.as_ref().map(Percentiles::of),
        }
    }
}

impl PhaseReport {
    /// Returns the disturbance of the machine that missed most of its processors, and their number.
    /// This machine has so many `processors`.
    pub fn most_disturbed(&self, processors: usize) -> Option<(Disturbance, usize)> {
        let agents =
            self.agents.iter().filter_map(|agent| Some((agent.disturbance?, agent.machine.processors)));
        let here = self.disturbance.map(|here| (here, processors));
        let share = |(disturbance, processors): &(Disturbance, usize)| {
            disturbance.missing(*processors).unwrap_or(0.0) / (*processors).max(1) as f64
        };
        here.into_iter().chain(agents).max_by(|one, other| share(one).total_cmp(&share(other)))
    }

    /// Builds a report from `recorder`; the caller adds settings and processes. `names` are those
    /// of the kinds of operations defined by the workload.
    pub fn of(name: String, repeat: usize, seconds: f64, recorder: &Recorder, names: &[String]) -> Self {
        let failure =
            |counted: &FailureCount| FailureReport { count: counted.count, first: counted.first.clone() };
        let failures = recorder.failures().iter();
        Self {
            name,
            repeat,
            properties: BTreeMap::new(),
            seconds,
            operations: recorder.operations,
            throughput: if seconds > 0.0 { recorder.operations as f64 / seconds } else { 0.0 },
            failed: recorder.failed,
            failures: failures.map(|(class, counted)| (class.clone(), failure(counted))).collect(),
            stopped: None,
            rows_read: recorder.rows,
            bytes_read: recorder.bytes,
            latencies: latency_reports(&recorder.latencies(), names),
            processes: Vec::new(),
            disturbance: None,
            agents: Vec::new(),
        }
    }
}

/// Returns latencies by the names of their kinds.
pub fn latency_reports(
    latencies: &BTreeMap<OperationKind, Latencies>,
    names: &[String],
) -> BTreeMap<String, LatencyReport> {
    latencies.iter().map(|(kind, latencies)| (kind.name_among(names).to_owned(), latencies.into())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use hdrhistogram::serialization::Deserializer;

    use super::*;
    use crate::recording::Timing;

    #[test]
    fn a_report_contains_statistics_and_complete_histograms() {
        let mut recorder = Recorder::new(Arc::default());
        let start = Instant::now();
        for us in 1..=1000 {
            let end = start + Duration::from_micros(us);
            recorder.operation(OperationKind::Read, Timing { intended: None, start, end });
        }
        recorder.failure(crate::workload::Failure::not_found("user1"));
        let report = PhaseReport::of("run c".into(), 1, 2.0, &recorder, &[]);
        assert_eq!((report.operations, report.failed, report.throughput), (1000, 1, 500.0));
        let read = &report.latencies["READ"].response;
        for (value, expected) in [
            (read.mean_us, 500.5),
            (read.p50_us, 500.0),
            (read.p95_us, 950.0),
            (read.p99_us, 990.0),
            (read.p99_9_us, 999.0),
            (read.max_us, 1000.0),
            (read.min_us, 1.0),
        ] {
            assert!((value - expected).abs() / expected < 0.002, "{value} {expected}");
        }
        let encoded = base64::engine::general_purpose::STANDARD.decode(&read.histogram).unwrap();
        let histogram: Histogram = Deserializer::new().deserialize(&mut &encoded[..]).unwrap();
        assert_eq!(histogram, recorder.latencies()[&OperationKind::Read].response);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["latencies"]["READ"]["count"], 1000);
        assert_eq!(json["failures"]["not found"]["count"], 1);
        assert!(json["latencies"]["READ"].get("service").is_none());
    }
}
