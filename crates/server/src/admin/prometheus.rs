//! Reports in the text format 0.0.4 of Prometheus. The reports describe their metrics
//! ([`cassette_admin_api::Metric`]); this module arranges them.
//!
//! ```text
//! # HELP name description
//! # TYPE name counter | gauge | histogram
//! name{label="value",…} number
//! ```

use std::fmt::Write;

use cassette_admin_api::{
    AttachedIndexesReport, BUCKET_LIMITS, CacheReport, CidrAccessReport, CidrFilteringReport,
    CompactionReport, DistributionReport, LevelReport, Metric, MetricValue, NodeReport, OverlappingReport,
    PoolReport, RequestReport, StatementReport, TableReport,
};

/// The content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A label and its value.
type Label<'a> = (&'a str, &'a str);

/// Formats all metrics. Histograms of tables without a value are omitted.
pub(super) fn text(
    node: &NodeReport,
    tables: &[TableReport],
    compactions: &CompactionReport,
    filtering: &CidrFilteringReport,
) -> String {
    let mut out = Text::default();
    out.build_info(node);
    out.metrics(NodeReport::METRICS, &[(vec![], node)]);
    out.metrics(StatementReport::METRICS, &[(vec![], &node.statements)]);
    let requests: Vec<_> =
        node.requests.iter().map(|(name, report)| (vec![("request", &**name)], report)).collect();
    out.metrics(RequestReport::METRICS, &requests);
    let caches: Vec<_> =
        node.caches.iter().map(|(name, report)| (vec![("cache", &**name)], report)).collect();
    out.metrics(CacheReport::METRICS, &caches);
    let pools: Vec<_> = node.pools.iter().map(|pool| (vec![("pool", &*pool.name)], pool)).collect();
    out.metrics(PoolReport::METRICS, &pools);
    out.metrics(CidrFilteringReport::METRICS, &[(vec![], filtering)]);
    let accesses: Vec<_> =
        filtering.accesses.iter().map(|report| (vec![("cidr_group", &*report.group)], report)).collect();
    out.metrics(CidrAccessReport::METRICS, &accesses);
    out.metrics(CompactionReport::METRICS, &[(vec![], compactions)]);
    out.metrics(OverlappingReport::METRICS, &[(vec![], &compactions.overlapping)]);
    of_tables(&mut out, tables);
    out.text
}

fn of_tables(out: &mut Text, tables: &[TableReport]) {
    let reports: Vec<_> = tables.iter().map(|table| (labels(table), table)).collect();
    out.metrics(TableReport::METRICS, &reports);
    let attached: Vec<_> =
        tables.iter().filter_map(|table| Some((labels(table), table.attached_indexes.as_ref()?))).collect();
    out.metrics(AttachedIndexesReport::METRICS, &attached);

    let numbers: Vec<_> = (0..tables.iter().map(|table| table.levels.len()).max().unwrap_or(0))
        .map(|level| level.to_string())
        .collect();
    let levels: Vec<_> = tables
        .iter()
        .flat_map(|table| {
            table.levels.iter().zip(&numbers).map(move |(level, number)| (table, level, number))
        })
        .map(|(table, level, number)| ([labels(table), vec![("level", &**number)]].concat(), level))
        .collect();
    out.metrics(LevelReport::METRICS, &levels);
}

fn labels(table: &TableReport) -> Vec<Label<'_>> {
    vec![("keyspace", &*table.keyspace), ("table", &*table.table)]
}

/// The text.
#[derive(Default)]
struct Text {
    text: String,
    /// The name that was described last. The lines of one name are adjacent.
    described: &'static str,
}

impl Text {
    /// The version of the build: a gauge that is always 1, by the convention of Prometheus.
    fn build_info(&mut self, node: &NodeReport) {
        let name = "cassette_build_info";
        self.describe(name, "The version of Cassette, and that of Cassandra that it emulates.", "gauge");
        let labels = [("version", &*node.version), ("cassandra_version", &*node.release_version)];
        self.line(name, "", &labels, 1.0);
    }

    /// Formats the metrics of reports, each with its own labels.
    fn metrics<R>(&mut self, metrics: &[Metric<R>], reports: &[(Vec<Label<'_>>, &R)]) {
        for metric in metrics {
            for (labels, report) in reports {
                let mut labels = labels.clone();
                labels.extend(metric.label);
                match (metric.value)(report) {
                    MetricValue::None => {}
                    MetricValue::Number(value) => {
                        self.describe(metric.name, metric.help, metric.kind.name());
                        self.line(metric.name, "", &labels, value);
                    }
                    MetricValue::Distribution(values, divisor) => {
                        self.describe(metric.name, metric.help, metric.kind.name());
                        self.histogram(metric.name, &mut labels, values, divisor);
                    }
                }
            }
        }
    }

    /// All values since the start; limits are divided by `divisor`.
    fn histogram(
        &mut self,
        name: &str,
        labels: &mut Vec<Label<'_>>,
        values: &DistributionReport,
        divisor: f64,
    ) {
        for (limit, count) in BUCKET_LIMITS.iter().zip(values.cumulative) {
            let limit = (*limit as f64 / divisor).to_string();
            let labels: Vec<_> = labels.iter().copied().chain([("le", &*limit)]).collect();
            self.line(name, "_bucket", &labels, count as f64);
        }
        labels.push(("le", "+Inf"));
        self.line(name, "_bucket", labels, values.count as f64);
        labels.pop();
        self.line(name, "_sum", labels, values.sum as f64 / divisor);
        self.line(name, "_count", labels, values.count as f64);
    }

    fn describe(&mut self, name: &'static str, help: &str, kind: &str) {
        if self.described != name {
            self.described = name;
            let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        }
    }

    fn line(&mut self, name: &str, suffix: &str, labels: &[Label<'_>], value: f64) {
        self.text.push_str(name);
        self.text.push_str(suffix);
        for (i, (label, value)) in labels.iter().enumerate() {
            self.text.push(if i == 0 { '{' } else { ',' });
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{label}=\"{escaped}\"");
        }
        if !labels.is_empty() {
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
        let pool = |name: &str, active| PoolReport { name: name.to_owned(), active, ..PoolReport::default() };
        let pools = [pool("x\"y\\z\n", 3), pool("b", 4)];
        let mut text = Text::default();
        let reports: Vec<_> = pools.iter().map(|pool| (vec![("pool", &*pool.name)], pool)).collect();
        text.metrics(&PoolReport::METRICS[..1], &reports);
        assert_eq!(
            text.text,
            "# HELP cassette_thread_pool_active Running tasks.\n# TYPE cassette_thread_pool_active gauge\n\
             cassette_thread_pool_active{pool=\"x\\\"y\\\\z\\n\"} 3\ncassette_thread_pool_active{pool=\"b\"} 4\n"
        );
    }

    #[test]
    fn histograms_have_cumulative_buckets_in_the_unit_of_their_name() {
        let mut latency = DistributionReport { count: 3, sum: 11_000_000, ..Default::default() };
        // One of 5 µs, one of 1 s, and one beyond all limits.
        for (limit, count) in BUCKET_LIMITS.iter().zip(&mut latency.cumulative) {
            *count = u64::from(*limit >= 5) + u64::from(*limit >= 1_000_000);
        }
        let report = RequestReport { latency, ..RequestReport::default() };
        let mut text = Text::default();
        text.metrics(&RequestReport::METRICS[..1], &[(vec![("request", "Read")], &report)]);
        let line = |suffix: &str, labels: &str, value: &str| {
            let line = format!(
                "\ncassette_client_request_latency_seconds{suffix}{{request=\"Read\"{labels}}} {value}\n"
            );
            assert!(text.text.contains(&line), "{line} in {}", text.text);
        };
        line("_bucket", ",le=\"0.000001\"", "0");
        line("_bucket", ",le=\"0.000005\"", "1");
        line("_bucket", ",le=\"0.545791\"", "1");
        line("_bucket", ",le=\"1.131752\"", "2");
        line("_bucket", ",le=\"10.090808\"", "2");
        line("_bucket", ",le=\"+Inf\"", "3");
        line("_sum", "", "11");
        line("_count", "", "3");
        assert!(text.text.contains("# TYPE cassette_client_request_latency_seconds histogram\n"));
    }

    /// Lists metrics as rows of a Markdown table.
    fn rows<R>(out: &mut String, labels: &str, metrics: &[Metric<R>]) {
        for Metric { name, help, kind, label, .. } in metrics {
            let labels = label.map_or(labels, |(label, _)| label);
            let row = format!("| `{name}` | {} | {labels} | {help} |\n", kind.name());
            if !out.ends_with(&row) {
                out.push_str(&row);
            }
        }
    }

    #[test]
    fn the_documentation_lists_every_metric() {
        let mut table = String::new();
        rows(&mut table, "", NodeReport::METRICS);
        rows(&mut table, "", StatementReport::METRICS);
        rows(&mut table, "request", RequestReport::METRICS);
        rows(&mut table, "cache", CacheReport::METRICS);
        rows(&mut table, "pool", PoolReport::METRICS);
        rows(&mut table, "", CidrFilteringReport::METRICS);
        rows(&mut table, "cidr_group", CidrAccessReport::METRICS);
        rows(&mut table, "", CompactionReport::METRICS);
        rows(&mut table, "", OverlappingReport::METRICS);
        rows(&mut table, "keyspace, table", TableReport::METRICS);
        rows(&mut table, "keyspace, table", AttachedIndexesReport::METRICS);
        rows(&mut table, "keyspace, table, level", LevelReport::METRICS);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (head, listed) = page.split_once("| --- | --- | --- | --- |\n").unwrap();
        if std::env::var_os("CASSETTE_UPDATE_DOCS").is_some() {
            std::fs::write(path, format!("{head}| --- | --- | --- | --- |\n{table}")).unwrap();
        } else {
            assert!(listed == table, "run this test with CASSETTE_UPDATE_DOCS=1 and commit docs/metrics.md");
        }
    }
}
