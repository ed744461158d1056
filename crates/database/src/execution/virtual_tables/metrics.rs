//! `system_views`: metrics as tables, with Cassandra's names and columns.
//!
//! This node is both coordinator and replica, so metrics that Cassandra records separately for both
//! are identical, under both names.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cassette_engine::metrics::{Histogram, TableMetrics};
use cassette_engine::{EngineStats, TableStats};
use cassette_rows::{DecoratedKey, PartitionUpdate, TableMetadata, key};

use super::{VirtualTable, pools};
use crate::basics::server_metrics::Pool;
use crate::schema::system::encode::{Value, row_update_of};
use crate::store::Store;

/// The contents of one of the tables.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MetricsTable {
    Caches,
    Clients,
    Queries,
    ThreadPools,
    SSTableTasks,
    Snapshots,
    SystemProperties,
    CqlMetrics,
    BatchMetrics,
    /// Latencies of each table, milliseconds.
    Latency(fn(&TableMetrics) -> &Histogram),
    /// Distributions of counts of each table.
    Counts(fn(&TableMetrics) -> &Histogram),
    /// Sizes of each table, MiB, rounded up.
    Mebibytes(fn(&TableStats) -> u64),
    MaxSSTableDuration,
}

/// A table's CREATE TABLE, its comment and its contents.
type Definition = (&'static str, &'static str, MetricsTable);

const LATENCY: &str = "(keyspace_name text, table_name text, count bigint, max_ms double, p50th_ms double, \
     p99th_ms double, per_second double, PRIMARY KEY ((keyspace_name, table_name)))";
const COUNTS: &str = "(keyspace_name text, table_name text, count bigint, max double, p50th double, \
     p99th double, PRIMARY KEY ((keyspace_name, table_name)))";
const MEBIBYTES: &str =
    "(keyspace_name text, table_name text, mebibytes bigint, PRIMARY KEY ((keyspace_name, table_name)))";

/// The tables by name.
const TABLES: [(&str, Definition); 21] = [
    (
        "caches",
        (
            "(name text PRIMARY KEY, capacity_bytes bigint, entry_count int, hit_count bigint, hit_ratio double, \
                 recent_hit_rate_per_second bigint, recent_request_rate_per_second bigint, request_count bigint, \
                 size_bytes bigint)",
            "system caches",
            MetricsTable::Caches,
        ),
    ),
    (
        "clients",
        (
            "(address inet, port int, client_options frozen<map<text, text>>, connection_stage text, \
                 driver_name text, driver_version text, hostname text, keyspace_name text, protocol_version int, \
                 request_count bigint, ssl_cipher_suite text, ssl_enabled boolean, ssl_protocol text, username text, \
                 PRIMARY KEY (address, port))",
            "currently connected clients",
            MetricsTable::Clients,
        ),
    ),
    (
        "queries",
        (
            "(thread_id text PRIMARY KEY, queued_micros bigint, running_micros bigint, task text)",
            "Lists currently running queries",
            MetricsTable::Queries,
        ),
    ),
    (
        "thread_pools",
        (
            "(name text PRIMARY KEY, active_tasks int, active_tasks_limit int, blocked_tasks bigint, \
                 blocked_tasks_all_time bigint, completed_tasks bigint, pending_tasks int)",
            "",
            MetricsTable::ThreadPools,
        ),
    ),
    (
        "sstable_tasks",
        (
            "(keyspace_name text, table_name text, task_id timeuuid, completion_ratio double, kind text, \
                 progress bigint, sstables int, target_directory text, total bigint, unit text, \
                 PRIMARY KEY (keyspace_name, table_name, task_id))",
            "current sstable tasks",
            MetricsTable::SSTableTasks,
        ),
    ),
    (
        "snapshots",
        (
            "(name text, keyspace_name text, table_name text, created_at timestamp, ephemeral boolean, \
                 expires_at timestamp, size_on_disk bigint, true_size bigint, \
                 PRIMARY KEY (name, keyspace_name, table_name))",
            "available snapshots",
            MetricsTable::Snapshots,
        ),
    ),
    (
        "system_properties",
        (
            "(name text PRIMARY KEY, value text)",
            "Cassandra relevant system properties",
            MetricsTable::SystemProperties,
        ),
    ),
    (
        "cql_metrics",
        (
            "(name text PRIMARY KEY, value double)",
            "Metrics specific to CQL prepared statement caching",
            MetricsTable::CqlMetrics,
        ),
    ),
    (
        "batch_metrics",
        (
            "(name text PRIMARY KEY, max bigint, p50th double, p999th double, p99th double)",
            "Metrics specific to batch statements",
            MetricsTable::BatchMetrics,
        ),
    ),
    ("local_read_latency", (LATENCY, "", MetricsTable::Latency(|table| &table.read_latency))),
    ("local_scan_latency", (LATENCY, "", MetricsTable::Latency(|table| &table.range_latency))),
    ("local_write_latency", (LATENCY, "", MetricsTable::Latency(|table| &table.write_latency))),
    ("coordinator_read_latency", (LATENCY, "", MetricsTable::Latency(|table| &table.read_latency))),
    ("coordinator_scan_latency", (LATENCY, "", MetricsTable::Latency(|table| &table.range_latency))),
    ("coordinator_write_latency", (LATENCY, "", MetricsTable::Latency(|table| &table.write_latency))),
    ("tombstones_per_read", (COUNTS, "", MetricsTable::Counts(|table| &table.tombstones_scanned))),
    ("rows_per_read", (COUNTS, "", MetricsTable::Counts(|table| &table.live_scanned))),
    ("disk_usage", (MEBIBYTES, "", MetricsTable::Mebibytes(|table| table.live_disk_bytes))),
    ("max_partition_size", (MEBIBYTES, "", MetricsTable::Mebibytes(|table| table.max_partition_bytes))),
    ("max_sstable_size", (MEBIBYTES, "", MetricsTable::Mebibytes(|table| table.max_sstable_bytes))),
    (
        "max_sstable_duration",
        (
            "(keyspace_name text, table_name text, max_sstable_duration bigint, \
                 PRIMARY KEY ((keyspace_name, table_name)))",
            "",
            MetricsTable::MaxSSTableDuration,
        ),
    ),
];

/// Returns the tables: CREATE TABLE, comment, source.
pub(crate) fn definitions() -> Vec<(String, &'static str, MetricsTable)> {
    let definition =
        |(name, (columns, comment, source))| (format!("CREATE TABLE {name} {columns}"), comment, source);
    TABLES.into_iter().map(definition).collect()
}

/// Partitions that are being built.
struct Rows<'a> {
    table: &'a Arc<TableMetadata>,
    partitions: Vec<PartitionUpdate>,
}

impl Rows<'_> {
    fn add(&mut self, key: &[&[u8]], clustering: &[&[u8]], values: &[(&str, Value)]) {
        // A single component is the key itself; of several, none may be too long for a composite.
        let key = match key {
            [only] => Some(Bytes::copy_from_slice(only)),
            several => key::compose(several.iter().copied()),
        };
        let Some(key) = key.map(DecoratedKey::new) else { return };
        // Any write timestamp is valid, because rows of virtual tables are not merged.
        let row = row_update_of(self.table, clustering, values, 1);
        let at = self.partitions.iter().position(|partition| partition.key == key).unwrap_or_else(|| {
            self.partitions.push(PartitionUpdate::new(key));
            self.partitions.len() - 1
        });
        self.partitions[at].add_row(row, self.table);
    }

    fn named(&mut self, name: &str, values: &[(&str, Value)]) {
        self.add(&[name.as_bytes()], &[], values);
    }
}

impl VirtualTable for MetricsTable {
    fn partitions(&self, table: &Arc<TableMetadata>, store: &Store) -> Vec<PartitionUpdate> {
        let mut rows = Rows { table, partitions: Vec::new() };
        let engine = store.engine();
        let stats = engine.stats();
        match self {
            Self::Caches => caches(&stats, &mut rows),
            Self::Clients => clients(store, &mut rows),
            Self::Queries => queries(store, &mut rows),
            Self::ThreadPools => {
                let server = store.server().map(|server| server.requests());
                pools(engine).iter().chain(&server).for_each(|pool| thread_pool(pool, &mut rows));
            }
            Self::SSTableTasks => sstable_tasks(store, &mut rows),
            Self::Snapshots => snapshots(store, &mut rows),
            Self::SystemProperties => {
                for (name, value) in std::env::vars().filter(|(name, _)| name.starts_with("CASSETTE_")) {
                    rows.named(&name, &[("value", (&*value).into())]);
                }
            }
            Self::CqlMetrics => cql_metrics(store, &mut rows),
            Self::BatchMetrics => batch_metrics(store, stats.now, &mut rows),
            Self::Latency(_) | Self::Counts(_) | Self::Mebibytes(_) | Self::MaxSSTableDuration => {
                for (id, of) in engine.tables() {
                    // A table that was dropped concurrently is skipped.
                    let (Ok(metrics), Ok(stats_of_table)) =
                        (engine.table_metrics(id), engine.table_stats(id))
                    else {
                        continue;
                    };
                    let values = self.of_table(&metrics, &stats_of_table, stats.now);
                    rows.add(&[of.keyspace.as_bytes(), of.name.as_bytes()], &[], &values);
                }
            }
        }
        rows.partitions
    }
}

impl MetricsTable {
    fn of_table(
        &self,
        metrics: &TableMetrics,
        stats: &TableStats,
        now: Duration,
    ) -> Vec<(&'static str, Value)> {
        match self {
            Self::Latency(histogram) => {
                let snapshot = histogram(metrics).snapshot(now);
                let millis = |micros: u64| Value::from(micros as f64 / 1000.0);
                vec![
                    ("count", long(snapshot.count())),
                    ("max_ms", millis(snapshot.recent.max())),
                    ("p50th_ms", millis(snapshot.recent.percentile(0.5))),
                    ("p99th_ms", millis(snapshot.recent.percentile(0.99))),
                    ("per_second", ((snapshot.rates.five_minutes * 1000.0).round() / 1000.0).into()),
                ]
            }
            Self::Counts(histogram) => {
                let snapshot = histogram(metrics).snapshot(now);
                vec![
                    ("count", long(snapshot.count())),
                    ("max", (snapshot.recent.max() as f64).into()),
                    ("p50th", (snapshot.recent.percentile(0.5) as f64).into()),
                    ("p99th", (snapshot.recent.percentile(0.99) as f64).into()),
                ]
            }
            Self::Mebibytes(size) => vec![("mebibytes", long(size(stats).div_ceil(1 << 20)))],
            _ => vec![("max_sstable_duration", long(stats.max_sstable_millis))],
        }
    }
}

fn long(n: u64) -> Value {
    i64::try_from(n).unwrap_or(i64::MAX).into()
}

fn int(n: u64) -> Value {
    i32::try_from(n).unwrap_or(i32::MAX).into()
}

fn caches(stats: &EngineStats, rows: &mut Rows<'_>) {
    for (name, cache, rates) in stats.caches() {
        let requests = cache.hits + cache.misses;
        rows.named(
            name,
            &[
                ("capacity_bytes", long(cache.capacity)),
                ("entry_count", int(cache.entries as u64)),
                ("hit_count", long(cache.hits)),
                ("hit_ratio", (cache.hits as f64 / requests as f64).into()),
                ("recent_hit_rate_per_second", (rates.hits.fifteen_minutes as i64).into()),
                ("recent_request_rate_per_second", (rates.requests.fifteen_minutes as i64).into()),
                ("request_count", long(requests)),
                ("size_bytes", long(cache.bytes)),
            ],
        );
    }
}

fn clients(store: &Store, rows: &mut Rows<'_>) {
    let Some(server) = store.server() else { return };
    for client in server.clients() {
        let Value::Bytes(address) = Value::from(client.address.ip()) else { continue };
        let port = i32::from(client.address.port()).to_be_bytes();
        let mut values = vec![
            ("client_options", Value::from(&client.options)),
            ("connection_stage", client.stage.into()),
            ("hostname", (&*client.address.ip().to_string()).into()),
            ("protocol_version", i32::from(client.protocol_version).into()),
            ("request_count", long(client.requests)),
            ("ssl_enabled", client.encryption.is_some().into()),
            ("username", client.username.as_deref().unwrap_or("anonymous").into()),
        ];
        let named = [
            ("driver_name", client.options.get("DRIVER_NAME")),
            ("driver_version", client.options.get("DRIVER_VERSION")),
            ("keyspace_name", client.keyspace.as_ref()),
            ("ssl_cipher_suite", client.encryption.as_ref().map(|encryption| &encryption.cipher_suite)),
            ("ssl_protocol", client.encryption.as_ref().map(|encryption| &encryption.protocol)),
        ];
        for (column, value) in named {
            values.extend(value.map(|value| (column, Value::from(&**value))));
        }
        rows.add(&[&address], &[&port], &values);
    }
}

fn queries(store: &Store, rows: &mut Rows<'_>) {
    let Some(server) = store.server() else { return };
    for request in server.running_requests() {
        let micros = |time: Duration| Value::from(i64::try_from(time.as_micros()).unwrap_or(i64::MAX));
        rows.named(
            &request.thread,
            &[
                ("queued_micros", micros(request.queued)),
                ("running_micros", micros(request.running)),
                ("task", (&*request.description).into()),
            ],
        );
    }
}

fn thread_pool(pool: &Pool, rows: &mut Rows<'_>) {
    rows.named(
        pool.name,
        &[
            ("active_tasks", int(pool.active)),
            ("active_tasks_limit", int(pool.active_max)),
            ("blocked_tasks", long(pool.blocked)),
            ("blocked_tasks_all_time", long(pool.blocked_all_time)),
            ("completed_tasks", long(pool.completed)),
            ("pending_tasks", int(pool.pending)),
        ],
    );
}

fn sstable_tasks(store: &Store, rows: &mut Rows<'_>) {
    for task in store.engine().running_compactions() {
        let ratio = if task.total == 0 { 1.0 } else { task.completed as f64 / task.total as f64 };
        rows.add(
            &[task.keyspace.as_bytes()],
            &[task.name.as_bytes(), task.id.as_bytes()],
            &[
                ("completion_ratio", ratio.into()),
                ("kind", (&*task.kind.label().to_lowercase()).into()),
                ("progress", long(task.completed)),
                ("sstables", int(task.sstables as u64)),
                ("target_directory", (&*task.directory.display().to_string()).into()),
                ("total", long(task.total)),
                ("unit", task.unit.into()),
            ],
        );
    }
}

fn snapshots(store: &Store, rows: &mut Rows<'_>) {
    // A virtual table cannot fail, so the error is logged; `nodetool listsnapshots` returns it.
    let snapshots = store.engine().snapshots().unwrap_or_else(|error| {
        tracing::error!(%error, "cannot list snapshots");
        Vec::new()
    });
    for snapshot in snapshots {
        let mut values = vec![
            ("created_at", snapshot.created_at_millis.into()),
            ("ephemeral", snapshot.ephemeral.into()),
            ("size_on_disk", long(snapshot.size_on_disk)),
            ("true_size", long(snapshot.true_size)),
        ];
        values.extend(snapshot.expires_at_millis.map(|at| ("expires_at", Value::from(at))));
        let clustering = [snapshot.keyspace.as_bytes(), snapshot.table.as_bytes()];
        rows.add(&[snapshot.name.as_bytes()], &clustering, &values);
    }
}

fn cql_metrics(store: &Store, rows: &mut Rows<'_>) {
    let (prepared, metrics) = (store.prepared_statements(), store.metrics());
    let (by_id, as_text) = (metrics.prepared_executed.get(), metrics.regular_executed.get());
    let ratio = if by_id + as_text == 0 { 0.0 } else { by_id as f64 / (by_id + as_text) as f64 };
    for (name, value) in [
        ("prepared_statements_count", prepared.count as f64),
        ("prepared_statements_evicted", prepared.evicted as f64),
        ("prepared_statements_executed", by_id as f64),
        ("prepared_statements_ratio", ratio),
        ("regular_statements_executed", as_text as f64),
    ] {
        rows.named(name, &[("value", value.into())]);
    }
}

fn batch_metrics(store: &Store, now: Duration, rows: &mut Rows<'_>) {
    let metrics = store.metrics();
    for (name, histogram) in [
        ("partitions_per_logged_batch", &metrics.partitions_per_logged_batch),
        ("partitions_per_unlogged_batch", &metrics.partitions_per_unlogged_batch),
        ("partitions_per_counter_batch", &metrics.partitions_per_counter_batch),
    ] {
        let recent = histogram.snapshot(now).recent;
        let percentile = |fraction| Value::from(recent.percentile(fraction) as f64);
        rows.named(
            name,
            &[
                ("max", long(recent.max())),
                ("p50th", percentile(0.5)),
                ("p99th", percentile(0.99)),
                ("p999th", percentile(0.999)),
            ],
        );
    }
}

#[cfg(test)]
mod tests {
    use cassette_vfs::FakeFileSystem;

    use super::*;
    use crate::api::database::{Database, Options};
    use crate::api::embedded::Value as Read;

    #[test]
    fn tables_show_what_has_happened() {
        let options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
        let database = Database::open(options).unwrap();
        let session = database.session();
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
            "INSERT INTO ks.t (k, v) VALUES (1, 1)",
            "BEGIN UNLOGGED BATCH INSERT INTO ks.t (k, v) VALUES (2, 1); INSERT INTO ks.t (k, v) VALUES (3, \
             1); APPLY BATCH",
            "SELECT * FROM ks.t WHERE k = 1",
            "SELECT * FROM ks.t",
        ] {
            session.execute(statement, ()).unwrap();
        }
        let value = |cql: &str, column: &str| {
            let rows = session.execute(cql, ()).unwrap();
            rows.first().unwrap_or_else(|| panic!("{cql}: no row")).get::<Read>(column).unwrap()
        };
        let of_table = |view: &str, column: &str| {
            let cql =
                format!("SELECT * FROM system_views.{view} WHERE keyspace_name = 'ks' AND table_name = 't'");
            value(&cql, column)
        };
        assert_eq!(of_table("local_read_latency", "count"), Read::BigInt(1));
        assert_eq!(of_table("coordinator_write_latency", "count"), Read::BigInt(3));
        assert_eq!(of_table("local_scan_latency", "count"), Read::BigInt(1));
        assert_eq!(of_table("rows_per_read", "max"), Read::Double(3.0));
        assert_eq!(of_table("disk_usage", "mebibytes"), Read::BigInt(0));
        assert_eq!(of_table("max_sstable_duration", "max_sstable_duration"), Read::BigInt(0));
        let named = |view: &str, name: &str, column: &str| {
            value(&format!("SELECT * FROM system_views.{view} WHERE name = '{name}'"), column)
        };
        assert_eq!(named("batch_metrics", "partitions_per_unlogged_batch", "max"), Read::BigInt(2));
        assert_eq!(named("thread_pools", "MutationStage", "active_tasks"), Read::Int(0));
        assert_eq!(named("caches", "chunks", "entry_count"), Read::Int(0));
        assert!(
            matches!(named("cql_metrics", "regular_statements_executed", "value"), Read::Double(n) if n >= 4.0)
        );
        for view in ["clients", "sstable_tasks", "snapshots", "system_properties", "max_partition_size"] {
            session.execute(&format!("SELECT * FROM system_views.{view}"), ()).unwrap();
        }
    }
}
