//! The series of a phase, second by second.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Counters;
use crate::recording::{LiveCounts, LiveView};
use crate::results::process::ProcessUse;

/// Interval between points.
const POINT_EVERY: Duration = Duration::from_secs(1);

/// A point of a series: changes since the previous one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Seconds from the start of the phase.
    pub at: f64,
    /// Seconds since the previous point: about one.
    pub seconds: f64,
    /// Successful operations.
    pub operations: u64,
    /// Failed operations.
    pub failed: u64,
    /// Median latency, at most 1/8 too high; absent without operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<f64>,
    /// 99th percentile, at most 1/8 too high.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// Processors used by the servers, 1.0 being one of them; 0 without a known server.
    pub server_cpu: f64,
    /// Processors used by the measuring process, including an embedded engine.
    pub client_cpu: f64,
    /// Resident bytes of the servers, or of the measuring process without any.
    pub rss_bytes: u64,
    /// Bytes that the servers (or the measuring process, without any) read from disk.
    pub read_bytes: u64,
    /// Bytes that they wrote to disk.
    pub written_bytes: u64,
    /// Counters of the engine at this point.
    #[serde(default, skip_serializing_if = "Counters::is_empty")]
    pub counters: Counters,
}

impl Second {
    /// Returns the successful operations per second.
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.operations as f64 / self.seconds } else { 0.0 }
    }
}

/// Collects points during a phase.
#[derive(Debug)]
pub(super) struct Series {
    wanted: bool,
    start: Instant,
    next: Instant,
    view: LiveView,
    failed: u64,
    used: Option<[ProcessUse; 2]>,
    points: Vec<Second>,
}

impl Series {
    pub fn new(wanted: bool) -> Self {
        let start = Instant::now();
        let (view, next) = (LiveView::default(), start + POINT_EVERY);
        Self { wanted, start, next, view, failed: 0, used: None, points: Vec::new() }
    }

    pub fn is_due(&self) -> bool {
        self.wanted && Instant::now() >= self.next
    }

    /// Takes a point; `used` is the usage of servers and measuring process so far.
    pub fn sample<'a>(
        &mut self,
        workers: impl IntoIterator<Item = &'a LiveCounts>,
        used: &[ProcessUse; 2],
        counters: Counters,
    ) {
        self.view.sample(workers);
        let view = &self.view;
        let [server, client] = used;
        let [server_before, client_before] = self.used.as_ref().unwrap_or(used);
        let cpu = |now: &ProcessUse, before: &ProcessUse| {
            let seconds = now.cpu_seconds() - before.cpu_seconds();
            if view.recent_seconds > 0.0 { seconds.max(0.0) / view.recent_seconds } else { 0.0 }
        };
        // An embedded engine's memory and files belong to the measuring process.
        let (with_files, with_files_before) =
            if server.rss_bytes > 0 { (server, server_before) } else { (client, client_before) };
        let bytes = |now: Option<u64>, before: Option<u64>| {
            now.unwrap_or(0).saturating_sub(before.or(now).unwrap_or(0))
        };
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
        self.points.push(Second {
            at: self.start.elapsed().as_secs_f64(),
            seconds: view.recent_seconds,
            operations: view.recent_operations,
            failed: view.failures - self.failed,
            p50_us: us(view.recent_p50_ns),
            p99_us: us(view.recent_p99_ns),
            server_cpu: cpu(server, server_before),
            client_cpu: cpu(client, client_before),
            rss_bytes: with_files.rss_bytes,
            read_bytes: bytes(with_files.read_bytes, with_files_before.read_bytes),
            written_bytes: bytes(with_files.written_bytes, with_files_before.written_bytes),
            counters,
        });
        self.failed = view.failures;
        self.used = Some(*used);
        self.next += POINT_EVERY;
        if self.next < Instant::now() {
            self.next = Instant::now() + POINT_EVERY;
        }
    }

    pub fn finish(self) -> Vec<Second> {
        self.points
    }
}
