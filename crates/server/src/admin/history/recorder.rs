//! Samples of the node and its tables: what changed since the previous one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use cassette_database::{Database, ServerMetrics};
use cassette_engine::metrics::{Histogram, TableMetrics};
use cassette_rows::TableId;

use super::latencies::Latencies;
use super::series::Point;
use super::{NODE, TABLE};
use crate::admin::process;

/// The maximum number of used tables whose counters are kept between samples.
const TABLES_MAX: usize = 10_000;

/// The state at the previous sample.
pub(super) struct Recorder {
    database: Database,
    server: Arc<dyn ServerMetrics>,
    at: Instant,
    counts: Vec<u64>,
    latencies: Vec<Box<[u64]>>,
    /// What is expensive to determine, with the tables.
    files: Files,
    tables_at: Instant,
    tables: HashMap<TableId, [Box<[u64]>; 3]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Files {
    disk_bytes: u64,
    disk_available_bytes: u64,
    sstables: u64,
    pending_compactions: u64,
}

impl Recorder {
    /// Starts at the present state.
    pub fn new(database: Database, server: Arc<dyn ServerMetrics>) -> Self {
        let at = Instant::now();
        let mut recorder = Self {
            database,
            server,
            at,
            counts: Vec::new(),
            latencies: Vec::new(),
            files: Files::default(),
            tables_at: at,
            tables: HashMap::new(),
        };
        recorder.counts = recorder.count();
        recorder.latencies = recorder.latencies();
        recorder.tables(0);
        recorder
    }

    /// Returns the counters since the start, in the order of [`NODE`].
    fn count(&self) -> Vec<u64> {
        let (engine, requests) = (self.database.engine(), self.database.metrics());
        let (metrics, stats) = (engine.metrics(), engine.stats());
        let by_name = requests.by_name();
        let failures = by_name.iter().map(|(_, kind)| kind.failures.get() + kind.timeouts.get()).sum();
        let totals = engine.compaction_totals();
        let counts = [
            ("failures", failures),
            ("writes_stalled", metrics.writes_stalled.get()),
            ("exceptions", metrics.exceptions.get() + self.server.panics()),
            ("cpu_micros", (process::cpu_seconds() * 1e6) as u64),
            ("flushes", metrics.flushes.get()),
            ("bytes_flushed", metrics.bytes_flushed.get()),
            ("compactions", totals.completed),
            ("bytes_compacted", totals.bytes_compacted),
            ("chunk_cache_hits", stats.chunk_cache.hits),
            ("chunk_cache_misses", stats.chunk_cache.misses),
        ];
        in_order(NODE.counts, &counts)
    }

    /// Returns the buckets since the start, in the order of [`NODE`].
    fn latencies(&self) -> Vec<Box<[u64]>> {
        let metrics = self.database.metrics();
        let by_name = metrics.by_name();
        let of = |name: &&str| match *name {
            "commit_log_sync" => {
                let sync = self.database.engine().commit_log_sync_latency();
                sync.map(|sync| sync.all.counts).unwrap_or_default()
            }
            name => {
                let kind = by_name.iter().find(|(known, _)| *known == name);
                kind.and_then(|(_, kind)| kind.latency.totals()).unwrap_or_default()
            }
        };
        NODE.latencies.iter().map(of).collect()
    }

    fn levels(&self) -> Vec<f32> {
        let stats = self.database.engine().stats();
        let pool = self.server.requests();
        let levels = [
            ("clients", self.server.clients().len() as f32),
            ("memory_bytes", process::memory().resident as f32),
            ("memtable_bytes", stats.memtable_bytes as f32),
            ("commit_log_bytes", stats.commit_log.map_or(0, |log| log.total_size) as f32),
            ("disk_bytes", self.files.disk_bytes as f32),
            ("disk_available_bytes", self.files.disk_available_bytes as f32),
            ("sstables", self.files.sstables as f32),
            ("pending_compactions", self.files.pending_compactions as f32),
            ("active_compactions", self.database.engine().running_compactions().len() as f32),
            ("waiting_requests", pool.pending as f32),
        ];
        in_order(NODE.levels, &levels)
    }

    /// Returns what the node did since the previous call, in an interval that ends `now`.
    pub fn node(&mut self, now: u64) -> Point {
        let (counts, latencies) = (self.count(), self.latencies());
        let point = Point {
            end: now,
            millis: elapsed_millis(&mut self.at),
            counts: counts
                .iter()
                .zip(&self.counts)
                .map(|(now, before)| now.saturating_sub(*before))
                .collect(),
            levels: self.levels().into(),
            latencies: latencies
                .iter()
                .zip(&self.latencies)
                .map(|(now, b)| Latencies::between(b, now))
                .collect(),
        };
        (self.counts, self.latencies) = (counts, latencies);
        point
    }

    /// Returns what the tables that were used since the previous call did.
    pub fn tables(&mut self, now: u64) -> Vec<(String, Point)> {
        let engine = self.database.engine().clone();
        let millis = elapsed_millis(&mut self.tables_at);
        let mut files =
            Files { disk_available_bytes: engine.available_space().unwrap_or(0), ..Files::default() };
        let (mut points, mut counted) = (Vec::new(), HashMap::new());
        for (id, table) in engine.tables() {
            // A table that was dropped meanwhile is skipped.
            let (Ok(stats), Ok(metrics)) = (engine.table_stats(id), engine.table_metrics(id)) else {
                continue;
            };
            files.disk_bytes += stats.live_disk_bytes;
            files.sstables += stats.sstables;
            files.pending_compactions += stats.pending_compactions;
            let is_user = !is_system(&table.keyspace);
            if !is_user || counted.len() >= TABLES_MAX {
                continue;
            }
            let Some(buckets) = buckets(&metrics) else { continue };
            let before = self.tables.get(&id);
            let latencies = (0..buckets.len())
                .map(|i| Latencies::between(before.map_or(&[][..], |before| &before[i][..]), &buckets[i]));
            let levels = [
                ("disk_bytes", stats.live_disk_bytes as f32),
                ("sstables", stats.sstables as f32),
                ("pending_compactions", stats.pending_compactions as f32),
            ];
            let point = Point {
                end: now,
                millis,
                counts: [].into(),
                levels: in_order(TABLE.levels, &levels).into(),
                latencies: latencies.collect(),
            };
            counted.insert(id, buckets);
            if !point.is_idle() {
                points.push((format!("{}.{}", table.keyspace, table.name), point));
            }
        }
        (self.files, self.tables) = (files, counted);
        points
    }
}

/// Returns whether a keyspace is Cassandra's own.
fn is_system(keyspace: &str) -> bool {
    keyspace == "system" || keyspace.starts_with("system_")
}

/// Returns the buckets of a table in the order of [`TABLE`]; `None` if it was never used.
fn buckets(metrics: &TableMetrics) -> Option<[Box<[u64]>; 3]> {
    let totals = |histogram: &Histogram| histogram.totals();
    let all = [totals(&metrics.read_latency), totals(&metrics.range_latency), totals(&metrics.write_latency)];
    all.iter().any(Option::is_some).then(|| all.map(Option::unwrap_or_default))
}

/// Returns values by the order of their names.
fn in_order<T: Copy + Default>(names: &[&str], values: &[(&str, T)]) -> Vec<T> {
    let of = |name: &&str| values.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    names.iter().map(|name| of(name).unwrap_or_default()).collect()
}

/// Returns the milliseconds since `at`, and sets it to now.
fn elapsed_millis(at: &mut Instant) -> u64 {
    let now = Instant::now();
    let elapsed = now.saturating_duration_since(std::mem::replace(at, now));
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_order_of_their_names() {
        assert_eq!(in_order(&["a", "b", "c"], &[("c", 3), ("a", 1)]), [1, 0, 3]);
    }
}
