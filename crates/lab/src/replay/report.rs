//! The report of a replay.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use cassette_query_log::LoggedQuery;
use serde::Serialize;

use super::worker::{Measured, WorkerReport};
use super::{ReplayTarget, Skipped};
use crate::cql::Outcome;

/// The maximum number of differences in a report.
pub(super) const DIFFERENCES_MAX: usize = 20;

/// The maximum length of an outcome in a difference, characters.
const SHOWN_MAX: usize = 400;

/// What a replay measured.
#[derive(Debug, Clone, Serialize)]
pub struct ReplayReport {
    /// Queries that were replayed.
    pub queries: u64,
    /// Queries that were not.
    pub skipped: Skipped,
    /// The duration of the replay.
    pub seconds: f64,
    /// At the recorded pace, the longest time by which a query started too late.
    pub late_max_millis: f64,
    /// Each target.
    pub targets: Vec<TargetReport>,
    /// The number of queries with different results; `None` for one target.
    pub differing: Option<u64>,
    /// The first of them.
    pub differences: Vec<Difference>,
}

/// What a replay measured of one target. Latencies are those of successful queries.
#[expect(missing_docs, reason = "percentiles need no explanation")]
#[derive(Debug, Clone, Serialize)]
pub struct TargetReport {
    /// The address or directory.
    pub target: String,
    pub succeeded: u64,
    pub failed: u64,
    /// The number of failures by message.
    pub failures: BTreeMap<String, u64>,
    pub mean_micros: f64,
    pub p50_micros: f64,
    pub p95_micros: f64,
    pub p99_micros: f64,
    pub p999_micros: f64,
    pub max_micros: f64,
}

/// A query whose results differ.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// The recorded query.
    pub query: serde_json::Value,
    /// The result of the first target.
    pub first: String,
    /// The result of the second.
    pub second: String,
}

impl Difference {
    pub(super) fn new(query: &LoggedQuery, first: &Outcome, second: &Outcome) -> Self {
        Self { query: query.json(), first: shown(first), second: shown(second) }
    }
}

fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "no result".to_owned(),
        Outcome::Failed(message) => format!("error: {message}").chars().take(SHOWN_MAX).collect(),
        Outcome::Rows(rows) => {
            let mut text = format!("{} rows", rows.len());
            for row in rows {
                let cell = |cell: &Option<Vec<u8>>| match cell {
                    None => "null".to_owned(),
                    Some(bytes) => bytes.iter().fold("0x".to_owned(), |hex, byte| format!("{hex}{byte:02x}")),
                };
                let cells: Vec<String> = row.iter().map(cell).collect();
                // Writing to a string does not fail.
                let _ = write!(text, "; {}", cells.join(", "));
                if text.len() > SHOWN_MAX {
                    return text.chars().take(SHOWN_MAX).chain("…".chars()).collect();
                }
            }
            text
        }
    }
}

impl ReplayReport {
    pub(super) fn new(
        targets: &[ReplayTarget],
        measured: WorkerReport,
        skipped: Skipped,
        elapsed: Duration,
    ) -> Self {
        Self {
            queries: measured.queries,
            skipped,
            seconds: elapsed.as_secs_f64(),
            late_max_millis: measured.late_max.as_secs_f64() * 1e3,
            targets: targets
                .iter()
                .zip(&measured.targets)
                .map(|(target, measured)| TargetReport::new(target, measured))
                .collect(),
            differing: (targets.len() > 1).then_some(measured.differing),
            differences: measured.differences,
        }
    }

    /// Returns whether all queries succeeded with the same results.
    pub fn is_clean(&self) -> bool {
        self.targets.iter().all(|target| target.failed == 0) && self.differing.unwrap_or(0) == 0
    }

    /// Returns the report as text.
    pub fn text(&self) -> String {
        let rate = self.queries as f64 / self.seconds.max(1e-9);
        let mut text = format!(
            "{} queries in {:.1} s ({rate:.0} a second), {:.1} ms late at most\n",
            self.queries, self.seconds, self.late_max_millis
        );
        let Skipped { next_pages, with_passwords, system } = self.skipped;
        if next_pages + with_passwords + system > 0 {
            text += &format!(
                "skipped: {next_pages} further pages, {with_passwords} with passwords, {system} on system tables\n"
            );
        }
        text += &format!(
            "\n{:<40}{:>10}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}\n",
            "target (microseconds)", "succeeded", "failed", "mean", "50 %", "95 %", "99 %", "most"
        );
        for target in &self.targets {
            text += &format!(
                "{:<40}{:>10}{:>8}{:>10.0}{:>10.0}{:>10.0}{:>10.0}{:>10.0}\n",
                target.target,
                target.succeeded,
                target.failed,
                target.mean_micros,
                target.p50_micros,
                target.p95_micros,
                target.p99_micros,
                target.max_micros
            );
        }
        for target in &self.targets {
            for (message, count) in &target.failures {
                text += &format!("{}: {count} failed: {message}\n", target.target);
            }
        }
        if let Some(differing) = self.differing {
            text += &format!("\n{differing} queries with different results\n");
            for Difference { query, first, second } in &self.differences {
                text += &format!("{query}\n  first:  {first}\n  second: {second}\n");
            }
        }
        text
    }
}

impl TargetReport {
    fn new(target: &ReplayTarget, measured: &Measured) -> Self {
        let latencies = &measured.latencies;
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let percentile = |quantile: f64| micros(latencies.value_at_quantile(quantile));
        let is_empty = latencies.is_empty();
        Self {
            target: match target {
                ReplayTarget::Server(contact) => contact.clone(),
                ReplayTarget::Embedded(directory) => format!("embedded:{}", directory.display()),
            },
            succeeded: latencies.len(),
            failed: measured.failed,
            failures: measured.failures.clone(),
            mean_micros: if is_empty { 0.0 } else { latencies.mean() / 1e3 },
            p50_micros: percentile(0.5),
            p95_micros: percentile(0.95),
            p99_micros: percentile(0.99),
            p999_micros: percentile(0.999),
            max_micros: if is_empty { 0.0 } else { micros(latencies.max()) },
        }
    }
}
