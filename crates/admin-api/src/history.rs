//! The history of metrics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Metrics of intervals in the past. All lists have an element for each of `times`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct HistoryReport {
    /// The time of the report, seconds since 1970.
    pub now: u64,
    /// The length of the intervals.
    pub step_seconds: u64,
    /// The ends of the intervals, seconds since 1970. Those when the server did not run are
    /// missing.
    pub times: Vec<u64>,
    /// Events by kind, per second of the interval.
    pub rates: BTreeMap<String, Vec<f64>>,
    /// Means of sizes and numbers.
    pub levels: BTreeMap<String, Vec<f64>>,
    /// Requests by kind.
    pub latencies: BTreeMap<String, LatencyHistory>,
    /// The rates of the last 10 seconds, of `rates` and `latencies` together.
    pub recent_rates: BTreeMap<String, f64>,
    /// The latencies of the last minute.
    pub recent_latencies: BTreeMap<String, RecentLatency>,
    /// The tables that have a history.
    pub tables: Vec<TableRates>,
}

/// The requests of the last minute. The latencies are in milliseconds; `None` without any request.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq)]
#[expect(missing_docs, reason = "percentiles")]
pub struct RecentLatency {
    /// The number of requests.
    pub count: u64,
    pub p50: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
}

/// The requests of a table per second, in the last 10 seconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct TableRates {
    /// Keyspace and table, separated by a dot.
    pub name: String,
    /// By kind: `read`, `scan`, `write`.
    pub rates: BTreeMap<String, f64>,
}

/// Rates and latencies of requests. The latencies, in milliseconds, are those of the requests that
/// ended in the interval; `None` without any.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
#[expect(missing_docs, reason = "percentiles")]
pub struct LatencyHistory {
    /// Requests per second.
    pub rates: Vec<f64>,
    pub p50: Vec<Option<f64>>,
    pub p99: Vec<Option<f64>>,
    pub p999: Vec<Option<f64>>,
}
