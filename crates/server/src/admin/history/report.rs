//! History as the admin endpoint reports it.

use std::collections::BTreeMap;

use cassette_admin_api::{HistoryReport, LatencyHistory, RecentLatency, RefusalKind, Refused, TableRates};

use super::latencies::Latencies;
use super::series::{Point, Series, Shape};
use super::{History, NODE, TABLE, seconds_since_1970};

/// The history that is asked for: by default the node's last 15 minutes.
#[derive(Debug, Default, serde::Deserialize)]
pub struct Asked {
    /// Seconds since 1970.
    from: Option<u64>,
    to: Option<u64>,
    /// The resolution, seconds; by default the finest one that reaches back to `from`.
    step: Option<u64>,
    /// Keyspace and table, separated by a dot.
    table: Option<String>,
}

const SPAN_DEFAULT: u64 = 900;

/// The last seconds that a current rate and a current latency cover.
const RECENT_RATES: u64 = 10;
const RECENT_LATENCIES: u64 = 60;

impl History {
    /// Reports the history of the node, or of a table.
    ///
    /// # Errors
    /// If the table has no history, or there is no such resolution.
    pub(in crate::admin) fn report(&self, asked: &Asked) -> Result<HistoryReport, Refused> {
        let now = seconds_since_1970();
        let to = asked.to.unwrap_or(u64::MAX);
        let from = asked.from.unwrap_or_else(|| to.min(now).saturating_sub(SPAN_DEFAULT));
        let recorded = self.shared.recorded.lock();
        let tables = recorded.tables.iter().map(|(name, series)| TableRates {
            name: name.clone(),
            rates: recent_rates(series, now, &TABLE),
        });
        let tables = tables.collect();
        let (series, shape): (&Series, _) = match &asked.table {
            None => (&recorded.node, &NODE),
            Some(table) => {
                let found = recorded.tables.iter().find(|(name, _)| name == table);
                let (_, series) = found.ok_or_else(|| {
                    let error = format!("{table} has no history: it was not used in the last 24 hours");
                    Refused { error, kind: RefusalKind::NotFound }
                })?;
                (series, &TABLE)
            }
        };
        let ring = match asked.step {
            None => series.since(from, now),
            Some(step) => series.rings.iter().find(|ring| ring.step == step).ok_or_else(|| {
                let known: Vec<_> = series.rings.iter().map(|ring| ring.step.to_string()).collect();
                Refused::wrong_use(format!("step: expected one of {}, found {step}", known.join(", ")))
            })?,
        };
        let points: Vec<Point> =
            ring.points.iter().filter(|point| point.end > from && point.end <= to).cloned().collect();
        let step = ring.step;
        let (recent_rates, recent_latencies) =
            (recent_rates(series, now, shape), recent_latencies(series, now, shape));
        // Percentiles are computed without the lock.
        drop(recorded);
        let report = report(&points, step, shape);
        Ok(HistoryReport { now, recent_rates, recent_latencies, tables, ..report })
    }
}

fn report(points: &[Point], step_seconds: u64, shape: &Shape) -> HistoryReport {
    let named = |names: &[&str], value: &dyn Fn(usize, &Point) -> f64| -> BTreeMap<String, Vec<f64>> {
        let of = |i: usize| points.iter().map(|point| value(i, point)).collect();
        names.iter().enumerate().map(|(i, name)| ((*name).to_owned(), of(i))).collect()
    };
    let latency = |i: usize| {
        let percentile =
            |fraction| points.iter().map(|point| millis(&point.latencies[i], fraction)).collect();
        LatencyHistory {
            rates: points.iter().map(|point| rate(point.latencies[i].count(), point)).collect(),
            p50: percentile(0.5),
            p99: percentile(0.99),
            p999: percentile(0.999),
        }
    };
    HistoryReport {
        step_seconds,
        times: points.iter().map(|point| point.end).collect(),
        rates: named(shape.counts, &|i, point| rate(point.counts[i], point)),
        levels: named(shape.levels, &|i, point| point.levels[i].into()),
        latencies: shape
            .latencies
            .iter()
            .enumerate()
            .map(|(i, name)| ((*name).to_owned(), latency(i)))
            .collect(),
        ..HistoryReport::default()
    }
}

fn recent_rates(series: &Series, now: u64, shape: &Shape) -> BTreeMap<String, f64> {
    // The newest point of 10 seconds may have ended up to 10 seconds ago.
    let step = series.rings.first().map_or(0, |ring| ring.step);
    let sum = series.sum_since(now.saturating_sub(RECENT_RATES + step - 1), shape);
    let counts = shape.counts.iter().zip(&sum.counts).map(|(name, count)| (name, *count));
    let latencies = shape.latencies.iter().zip(&sum.latencies).map(|(name, latency)| (name, latency.count()));
    counts.chain(latencies).map(|(name, count)| ((*name).to_owned(), rate(count, &sum))).collect()
}

fn recent_latencies(series: &Series, now: u64, shape: &Shape) -> BTreeMap<String, RecentLatency> {
    let sum = series.sum_since(now.saturating_sub(RECENT_LATENCIES), shape);
    let recent = |latencies: &Latencies| RecentLatency {
        count: latencies.count(),
        p50: millis(latencies, 0.5),
        p95: millis(latencies, 0.95),
        p99: millis(latencies, 0.99),
        p999: millis(latencies, 0.999),
    };
    let named = shape.latencies.iter().zip(&sum.latencies);
    named.map(|(name, latencies)| ((*name).to_owned(), recent(latencies))).collect()
}

/// Returns events per second.
fn rate(count: u64, point: &Point) -> f64 {
    round(count as f64 * 1e3 / point.millis.max(1) as f64)
}

fn millis(latencies: &Latencies, fraction: f64) -> Option<f64> {
    latencies.percentile(fraction).map(|micros| round(micros / 1e3))
}

/// Returns a value with four digits after the point, so that answers stay short.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
