//! Reports in the text format 0.0.4 of Prometheus.
//!
//! ```text
//! # HELP name description
//! # TYPE name counter | gauge | summary
//! name{label="value",…} number
//! ```

use std::fmt::Write;

use cassette_admin_api::{
    AttachedIndexesReport, CompactionReport, DistributionReport, NodeReport, OverlappingReport, TableReport,
};

/// The content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Formats all metrics.
pub(super) fn text(node: &NodeReport, tables: &[TableReport], compactions: &CompactionReport) -> String {
    let mut out = Text::default();
    out.gauge("cassette_uptime_seconds", "Seconds since the start.", &[], node.uptime_seconds as f64);
    out.gauge(
        "cassette_memory_bytes",
        "Resident memory of the process in bytes.",
        &[],
        node.memory_bytes as f64,
    );
    out.gauge("cassette_memtable_bytes", "Heap bytes of memtables.", &[], node.memtable_bytes as f64);
    out.gauge(
        "cassette_memtable_max_bytes",
        "Limit of the heap bytes of memtables.",
        &[],
        node.memtable_max_bytes as f64,
    );
    out.gauge(
        "cassette_commit_log_bytes",
        "Bytes of the commit log on disk.",
        &[],
        node.commit_log_bytes as f64,
    );
    out.gauge(
        "cassette_unknown_table_directories",
        "Tables with data that are missing from the schema.",
        &[],
        node.unknown_tables as f64,
    );
    out.gauge(
        "cassette_unknown_table_bytes",
        "Bytes of the files of such tables, and of the commit log segments kept for them.",
        &[],
        node.unknown_table_bytes as f64,
    );
    out.gauge("cassette_load_bytes", "Bytes of all SSTables.", &[], node.load_bytes as f64);
    out.counter(
        "cassette_exceptions_total",
        "Flushes, compactions and reads that failed.",
        &[],
        node.exceptions,
    );
    out.counter(
        "cassette_writes_stalled_total",
        "Writes that waited for memtable space or for compaction.",
        &[],
        node.writes_stalled,
    );
    out.counter(
        "cassette_writes_stalled_by_compaction_total",
        "Writes that waited for compaction.",
        &[],
        node.writes_stalled_by_compaction,
    );
    out.gauge("cassette_connected_clients", "Connections.", &[], node.clients.len() as f64);
    out.counter(
        "cassette_connections_refused_total",
        "Connections closed because of a limit.",
        &[],
        node.connections_refused,
    );
    out.gauge(
        "cassette_prepared_statements",
        "Prepared statements in the cache.",
        &[],
        node.statements.prepared_count as f64,
    );
    out.counter(
        "cassette_prepared_statements_evicted_total",
        "Prepared statements evicted for new ones.",
        &[],
        node.statements.prepared_evicted,
    );
    out.counter(
        "cassette_statements_executed_total",
        "Statements executed.",
        &[("kind", "prepared")],
        node.statements.prepared_executed,
    );
    out.counter(
        "cassette_statements_executed_total",
        "Statements executed.",
        &[("kind", "regular")],
        node.statements.regular_executed,
    );
    for (name, request) in &node.requests {
        out.summary(
            "cassette_client_request_latency_seconds",
            "Requests by kind.",
            &[("request", name)],
            &request.latency,
            1e-6,
        );
    }
    for (name, request) in &node.requests {
        out.counter(
            "cassette_client_request_timeouts_total",
            "Requests that exceeded their timeout.",
            &[("request", name)],
            request.timeouts,
        );
    }
    for (name, request) in &node.requests {
        out.counter(
            "cassette_client_request_failures_total",
            "Requests that failed without the client's fault.",
            &[("request", name)],
            request.failures,
        );
    }
    for (name, request) in &node.requests {
        out.counter(
            "cassette_client_request_invalid_total",
            "Rejected requests.",
            &[("request", name)],
            request.invalid,
        );
    }
    type Cache = fn(&cassette_admin_api::CacheReport) -> u64;
    let caches: [(&str, &str, bool, Cache); 6] = [
        ("cassette_cache_entries", "Entries of a cache.", false, |cache| cache.entries),
        ("cassette_cache_size_bytes", "Bytes in a cache.", false, |cache| cache.size_bytes),
        ("cassette_cache_capacity_bytes", "Capacity of a cache in bytes.", false, |cache| {
            cache.capacity_bytes
        }),
        ("cassette_cache_hits_total", "Hits of a cache.", true, |cache| cache.hits),
        ("cassette_cache_misses_total", "Misses of a cache.", true, |cache| {
            cache.requests.saturating_sub(cache.hits)
        }),
        ("cassette_cache_requests_total", "Hits and misses of a cache.", true, |cache| cache.requests),
    ];
    for (name, help, is_counter, value) in caches {
        for (cache, report) in &node.caches {
            out.value(name, help, is_counter, &[("cache", cache)], value(report) as f64);
        }
    }
    // Omitted without a value.
    type CacheMean = fn(&cassette_admin_api::CacheReport) -> Option<f64>;
    let means: [(&str, &str, CacheMean); 2] = [
        ("cassette_cache_recent_hit_ratio", "Fraction of hits among recent requests to a cache.", |cache| {
            cache.recent_hit_rate
        }),
        ("cassette_cache_miss_latency_seconds", "Mean time to load a missing entry of a cache.", |cache| {
            cache.miss_latency_micros.map(|micros| micros * 1e-6)
        }),
    ];
    for (name, help, value) in means {
        for (cache, report) in &node.caches {
            if let Some(value) = value(report).filter(|value| value.is_finite()) {
                out.gauge(name, help, &[("cache", cache)], value);
            }
        }
    }
    type Pool = fn(&cassette_admin_api::PoolReport) -> u64;
    let pools: [(&str, &str, bool, Pool); 4] = [
        ("cassette_thread_pool_active", "Running tasks.", false, |pool| pool.active),
        ("cassette_thread_pool_pending", "Waiting tasks.", false, |pool| pool.pending),
        ("cassette_thread_pool_completed_total", "Completed tasks.", true, |pool| pool.completed),
        ("cassette_thread_pool_blocked_total", "Tasks blocked because the pool was full.", true, |pool| {
            pool.blocked_all_time
        }),
    ];
    for (name, help, is_counter, value) in pools {
        for report in &node.pools {
            out.value(name, help, is_counter, &[("pool", &report.name)], value(report) as f64);
        }
    }
    out.counter("cassette_compactions_total", "Completed compactions.", &[], compactions.completed);
    out.counter(
        "cassette_compaction_bytes_total",
        "Bytes written by compactions.",
        &[],
        compactions.bytes_compacted,
    );
    out.gauge("cassette_compactions_active", "Running compactions.", &[], compactions.active.len() as f64);
    of_overlapping_sstables(&mut out, &compactions.overlapping);
    of_tables(&mut out, tables);
    out.text
}

/// Effect and cost of `provide_overlapping_tombstones`.
fn of_overlapping_sstables(out: &mut Text, report: &OverlappingReport) {
    let counters = [
        (
            "partitions_checked",
            "Partitions that overlapping SSTables may contain.",
            report.partitions_checked,
        ),
        ("partitions_skipped", "Partitions with too many overlapping SSTables.", report.partitions_skipped),
        ("sources_opened", "Partitions of overlapping SSTables that were opened.", report.sources_opened),
        ("bytes_read", "Bytes read from overlapping SSTables.", report.bytes_read),
        (
            "bytes_dropped",
            "Bytes that compactions dropped because of overlapping SSTables.",
            report.bytes_dropped,
        ),
        ("rows_dropped", "Rows dropped because of overlapping SSTables.", report.rows_dropped),
        ("cells_dropped", "Cells dropped because of overlapping SSTables.", report.cells_dropped),
    ];
    for (name, help, value) in counters {
        out.counter(&format!("cassette_overlapping_{name}_total"), help, &[], value);
    }
    let help = "Time spent on overlapping SSTables.";
    out.value("cassette_overlapping_seconds_total", help, true, &[], report.seconds);
}

fn of_tables(out: &mut Text, tables: &[TableReport]) {
    type Summary = fn(&TableReport) -> &DistributionReport;
    let summaries: [(&str, &str, f64, Summary); 6] = [
        ("cassette_table_read_latency_seconds", "Reads of one partition.", 1e-6, |table| &table.read),
        ("cassette_table_write_latency_seconds", "Changes of one partition.", 1e-6, |table| &table.write),
        ("cassette_table_scan_latency_seconds", "Scans over partitions.", 1e-6, |table| &table.scan),
        (
            "cassette_table_sstables_per_read",
            "SSTables that contained the partition of a read.",
            1.0,
            |table| &table.sstables_per_read,
        ),
        ("cassette_table_live_scanned", "Live rows that a read scanned.", 1.0, |table| &table.live_scanned),
        ("cassette_table_tombstones_scanned", "Tombstones that a read scanned.", 1.0, |table| {
            &table.tombstones_scanned
        }),
    ];
    for (name, help, unit, value) in summaries {
        for table in tables {
            out.summary(name, help, &labels(table), value(table), unit);
        }
    }
    of_attached_indexes(out, tables);
    type Value = fn(&TableReport) -> f64;
    let values: [(&str, &str, bool, Value); 19] = [
        ("cassette_table_sstables", "SSTables in use.", false, |table| table.sstables as f64),
        ("cassette_table_sstables_quarantined", "Corrupt SSTables that reads omit.", false, |table| {
            table.sstables_quarantined as f64
        }),
        ("cassette_table_live_bytes", "Bytes of SSTables.", false, |table| table.live_bytes as f64),
        ("cassette_table_uncompressed_bytes", "Bytes of their rows before compression.", false, |table| {
            table.uncompressed_bytes as f64
        }),
        ("cassette_table_partitions", "Estimated partitions.", false, |table| table.partitions as f64),
        ("cassette_table_memtable_bytes", "Heap bytes of memtables.", false, |table| {
            table.memtable_bytes as f64
        }),
        ("cassette_table_flushes_total", "Memtables flushed.", true, |table| table.flushes as f64),
        ("cassette_table_flushed_bytes_total", "Bytes written by flushes.", true, |table| {
            table.bytes_flushed as f64
        }),
        ("cassette_table_pending_flushes", "Memtables waiting for a flush.", false, |table| {
            table.pending_flushes as f64
        }),
        ("cassette_table_compactions_total", "Completed compactions.", true, |table| {
            table.compactions as f64
        }),
        ("cassette_table_compacted_bytes_total", "Bytes written by compactions.", true, |table| {
            table.bytes_compacted as f64
        }),
        ("cassette_table_pending_compactions", "Pending compactions.", false, |table| {
            table.pending_compactions as f64
        }),
        (
            "cassette_table_filter_false_positives_total",
            "Filter checks that passed for an absent key.",
            true,
            |table| table.filter_false_positives as f64,
        ),
        (
            "cassette_table_filter_true_positives_total",
            "Filter checks that passed for a present key.",
            true,
            |table| table.filter_true_positives as f64,
        ),
        ("cassette_table_filter_true_negatives_total", "Filter checks that excluded a key.", true, |table| {
            table.filter_true_negatives as f64
        }),
        ("cassette_table_filter_bytes", "Bytes of filters in memory.", false, |table| {
            table.filter_bytes as f64
        }),
        (
            "cassette_table_max_partition_bytes",
            "Estimated bytes of the largest partition in an SSTable.",
            false,
            |table| table.max_partition_bytes as f64,
        ),
        ("cassette_table_snapshot_bytes", "Bytes that only snapshots occupy.", false, |table| {
            table.snapshot_bytes as f64
        }),
        (
            "cassette_table_droppable_ratio",
            "Fraction of cells that a compaction could drop.",
            false,
            |table| table.droppable_ratio,
        ),
    ];
    for table in tables {
        for (level, report) in table.levels.iter().enumerate() {
            let level = level.to_string();
            let labels = [("keyspace", &*table.keyspace), ("table", &*table.table), ("level", &*level)];
            out.gauge(
                "cassette_table_level_sstables",
                "SSTables on a level of leveled compaction.",
                &labels,
                report.sstables as f64,
            );
        }
    }
    for (name, help, is_counter, value) in values {
        for table in tables {
            out.value(name, help, is_counter, &labels(table), value(table));
        }
    }
}

/// Metrics of tables that have storage-attached indexes.
fn of_attached_indexes(out: &mut Text, tables: &[TableReport]) {
    type Summary = fn(&AttachedIndexesReport) -> &DistributionReport;
    let summaries: [(&str, &str, f64, Summary); 4] = [
        ("cassette_table_sai_query_latency_seconds", "Queries by SAI indexes.", 1e-6, |sai| &sai.queries),
        (
            "cassette_table_sai_filtering_latency_seconds",
            "Reads of rows of one partition that SAI indexes found.",
            1e-6,
            |sai| &sai.filtering,
        ),
        (
            "cassette_table_sai_sstables_per_query",
            "SSTables of SAI indexes in which a query found entries.",
            1.0,
            |sai| &sai.sstables_hit,
        ),
        ("cassette_table_sai_rows_filtered", "Rows that a query by SAI indexes checked.", 1.0, |sai| {
            &sai.rows_filtered
        }),
    ];
    for (name, help, unit, value) in summaries {
        for table in tables {
            if let Some(indexes) = &table.attached_indexes {
                out.summary(name, help, &labels(table), value(indexes), unit);
            }
        }
    }
}

fn labels(table: &TableReport) -> [(&str, &str); 2] {
    [("keyspace", &table.keyspace), ("table", &table.table)]
}

/// The text; the lines of one name must be adjacent.
#[derive(Default)]
struct Text {
    text: String,
    /// The name that was described last.
    described: String,
}

impl Text {
    fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        self.value(name, help, false, labels, value);
    }

    fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        self.value(name, help, true, labels, value as f64);
    }

    fn value(&mut self, name: &str, help: &str, is_counter: bool, labels: &[(&str, &str)], value: f64) {
        self.describe(name, help, if is_counter { "counter" } else { "gauge" });
        self.line(name, labels, None, value);
    }

    /// Quantiles of recent values, and number and sum of all values, in `unit`s.
    fn summary(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        values: &DistributionReport,
        unit: f64,
    ) {
        self.describe(name, help, "summary");
        let quantiles =
            [("0.5", values.p50), ("0.95", values.p95), ("0.99", values.p99), ("0.999", values.p999)];
        for (quantile, value) in quantiles {
            self.line(name, labels, Some(quantile), value as f64 * unit);
        }
        self.line(&format!("{name}_sum"), labels, None, values.sum as f64 * unit);
        self.line(&format!("{name}_count"), labels, None, values.count as f64);
    }

    fn describe(&mut self, name: &str, help: &str, kind: &str) {
        if self.described != name {
            name.clone_into(&mut self.described);
            let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        }
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], quantile: Option<&str>, value: f64) {
        self.text.push_str(name);
        let labels = labels.iter().copied().chain(quantile.map(|quantile| ("quantile", quantile)));
        for (i, (label, value)) in labels.clone().enumerate() {
            self.text.push(if i == 0 { '{' } else { ',' });
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{label}=\"{escaped}\"");
        }
        if labels.count() > 0 {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_described_once_and_labels_escaped() {
        let mut text = Text::default();
        text.counter("a_total", "An a.", &[("table", "x\"y\\z\n")], 3);
        text.counter("a_total", "An a.", &[], 4);
        let values = DistributionReport { count: 2, sum: 3_000_000, p50: 1_000_000, ..Default::default() };
        text.summary("b_seconds", "A b.", &[("of", "c")], &values, 1e-6);
        assert_eq!(
            text.text,
            "# HELP a_total An a.\n# TYPE a_total counter\na_total{table=\"x\\\"y\\\\z\\n\"} 3\na_total 4\n\
             # HELP b_seconds A b.\n# TYPE b_seconds summary\n\
             b_seconds{of=\"c\",quantile=\"0.5\"} 1\nb_seconds{of=\"c\",quantile=\"0.95\"} 0\n\
             b_seconds{of=\"c\",quantile=\"0.99\"} 0\nb_seconds{of=\"c\",quantile=\"0.999\"} 0\n\
             b_seconds_sum{of=\"c\"} 3\nb_seconds_count{of=\"c\"} 2\n"
        );
    }
}
