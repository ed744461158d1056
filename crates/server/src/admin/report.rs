//! Assembles reports from the state of the database and its server.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cassette_admin_api::{
    ActiveCompaction, AttachedIndexesReport, BUCKET_LIMITS, CacheReport, ClientReport, CompactionRecord,
    CompactionReport, DistributionReport, GuardrailReport, KeyspaceReport, LevelReport, NodeReport,
    OverlappingReport, PoolReport, Refused, RequestReport, SeenClientReport, SnapshotReport, StatementReport,
    TableReport, TimeoutReport, UnknownTableReport,
};
use cassette_database::{
    Catalog, Database, DatabaseError, GUARDRAILS, Guardrail, Index, IndexKind, KeyspaceKind, Pool,
    Replication, Snapshot, Timeout,
};
use cassette_engine::metrics::{CacheRates, Distribution, Histogram, HistogramSnapshot, TableMetrics};
use cassette_engine::{CacheStats, Engine, EngineStats, Options, OverlapMetrics, TableStats, UnknownTable};
use cassette_rows::{TableId, TableMetadata};

use super::Admin;
use super::{backups, process};

/// Reports the node.
#[expect(clippy::too_many_lines, reason = "one value with all of its fields")]
pub(super) fn node(admin: &Admin) -> NodeReport {
    let Admin { database, server, .. } = admin;
    let (engine, node, catalog) = (database.engine(), database.node(), database.catalog());
    let stats = engine.stats();
    let tables: Vec<_> = stored(engine).map(|(table, stats, _)| (table, stats)).collect();
    let sum = |figure: fn(&TableStats) -> u64| tables.iter().map(|(_, stats)| figure(stats)).sum::<u64>();
    let prepared = database.prepared_statements();
    let requests = database.metrics();
    let memory = process::memory();
    let (audit, full_query) = admin.query_logs.get().map(|logs| logs.counts()).unwrap_or_default();
    let status = admin.backups.get().map(|service| service.status());
    let seconds = |millis: i64| millis as f64 / 1e3;
    let captured = engine.captured();
    NodeReport {
        backups: status.as_ref().map(backups::report),
        backups_completed: status.as_ref().map(|status| status.backups.completed),
        backups_failed: status.as_ref().map(|status| status.backups.failed),
        backup_last_completed_seconds: status
            .as_ref()
            .and_then(|status| status.backups.completed_at_millis)
            .map(seconds),
        commit_log_archive_failures: status.as_ref().map(|status| status.archive.failed),
        commit_log_archived_bytes: status.as_ref().map(|status| status.archived_bytes),
        commit_log_archived_until_seconds: status
            .as_ref()
            .and_then(|status| status.archived_until_micros)
            .map(|micros| micros as f64 / 1e6),
        cluster_name: node.cluster_name.clone(),
        trace_probability: admin.database.trace_probability(),
        host_id: node.host_id.to_string(),
        address: node.address.to_string(),
        port: node.port,
        data_center: node.data_center.clone(),
        rack: node.rack.clone(),
        tokens: vec![cassette_database::TOKEN.to_owned()],
        release_version: cassette_database::RELEASE_VERSION.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        partitioner: cassette_database::PARTITIONER.to_owned(),
        schema_version: catalog.version().to_string(),
        keyspaces: catalog
            .keyspaces()
            .map(|keyspace| KeyspaceReport {
                name: keyspace.name.clone(),
                replication_class: short_class(&keyspace.params.replication.class).to_owned(),
                replication_options: keyspace.params.replication.options.clone(),
                is_virtual: keyspace.kind == KeyspaceKind::Virtual,
            })
            .collect(),
        native_transport_active: !admin.drained.load(Ordering::Relaxed),
        load_bytes: sum(|stats| stats.live_disk_bytes),
        uncompressed_load_bytes: sum(|stats| stats.uncompressed_bytes),
        uptime_seconds: admin.started.elapsed().as_secs(),
        memory_bytes: memory.resident,
        memory_max_bytes: memory.limit,
        sstable_memory_bytes: sum(|stats| {
            stats.bloom_filter_bytes
                + stats.index_summary_bytes
                + stats.compression_metadata_bytes
                + stats.checksum_bytes
        }),
        memtable_bytes: stats.memtable_bytes,
        memtable_max_bytes: stats.memtable_bytes_max,
        exceptions: engine.metrics().exceptions.get() + server.panics(),
        writes_stalled: engine.metrics().writes_stalled.get(),
        writes_stalled_by_compaction: engine.metrics().writes_stalled_by_compaction.get(),
        commit_log_bytes: stats.commit_log.map_or(0, |log| log.total_size),
        unknown_tables: stats.unknown_tables,
        unknown_table_bytes: stats.unknown_table_bytes,
        commit_log_segments: stats.commit_log.map_or(0, |log| log.segments as u64),
        percent_repaired: percent_repaired(&catalog, &tables),
        caches: caches(&stats, engine.options()),
        pools: cassette_database::pools(database).into_iter().chain([server.requests()]).map(pool).collect(),
        dropped: DROPPABLE.iter().map(|verb| ((*verb).to_owned(), 0)).collect(),
        requests: requests
            .by_name()
            .into_iter()
            .map(|(name, metrics)| {
                let latency = histogram(&metrics.latency.snapshot(stats.now));
                let report = RequestReport {
                    latency,
                    timeouts: metrics.timeouts.get(),
                    failures: metrics.failures.get(),
                    invalid: metrics.invalid.get(),
                };
                (name.to_owned(), report)
            })
            .collect(),
        statements: StatementReport {
            prepared_count: prepared.count,
            prepared_evicted: prepared.evicted,
            prepared_executed: requests.prepared_executed.get(),
            regular_executed: requests.regular_executed.get(),
        },
        clients: server.clients().into_iter().map(client).collect(),
        client_history: server.seen_clients().into_iter().map(seen_client).collect(),
        connections_refused: server.connections_refused(),
        logins_failed: server.logins_failed(),
        logins_refused: server.logins_refused(),
        tls_handshakes_failed: server.tls_handshakes_failed(),
        audit_entries_written: audit.written,
        audit_entries_dropped: audit.dropped + audit.failed,
        full_queries_written: full_query.written,
        full_queries_dropped: full_query.dropped + full_query.failed,
        captured_bytes: captured.map(|captured| captured.bytes),
        captured_oldest_seconds: captured.map(|captured| captured.oldest_age.as_secs_f64()),
        captured_disk_bytes: captured.map(|captured| captured.disk_bytes),
        captured_space_bytes: captured.map(|captured| captured.total_space),
        start_time_seconds: process::start_time().unwrap_or(0.0),
        cpu_seconds: process::cpu_seconds(),
        descriptors: process::descriptors(),
        descriptors_max: process::descriptors_max(),
        disk_available_bytes: engine.available_space().ok(),
        commit_log_sync: engine.commit_log_sync_latency().as_ref().map(histogram).unwrap_or_default(),
        flush_duration: histogram(&engine.metrics().flush_duration.snapshot(stats.now)),
        compaction_duration: histogram(&engine.metrics().compaction_duration.snapshot(stats.now)),
    }
}

/// Reports the guardrails, in the order of their definition.
pub(super) fn guardrails(admin: &Admin) -> Vec<GuardrailReport> {
    let values = admin.database.guardrails();
    let report = |guardrail: &Guardrail| GuardrailReport {
        name: guardrail.name.to_owned(),
        value: values.text(guardrail.key),
        in_cassandra: guardrail.in_nodetool,
    };
    GUARDRAILS.iter().map(report).collect()
}

/// Reports the timeouts of requests.
pub(super) fn timeouts(admin: &Admin) -> Vec<TimeoutReport> {
    let timeouts = admin.database.timeouts();
    let millis =
        |timeout| timeouts.get(timeout).map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let report =
        |timeout: Timeout| TimeoutReport { name: timeout.name().to_owned(), milliseconds: millis(timeout) };
    Timeout::ALL.into_iter().map(report).collect()
}

/// Returns the percentage of bytes that Cassandra marked as repaired, of tables with more than one
/// replica, which Cassandra would repair. 100 without any.
fn percent_repaired(catalog: &Catalog, tables: &[(Arc<TableMetadata>, TableStats)]) -> f64 {
    let is_repaired = |table: &TableMetadata| {
        let keyspace = catalog.keyspace(&table.keyspace);
        let is_of_data =
            |kind| matches!(kind, KeyspaceKind::User | KeyspaceKind::Replicated) && table.index_of.is_none();
        keyspace
            .is_some_and(|keyspace| is_of_data(keyspace.kind) && replicas(&keyspace.params.replication) > 1)
            && table.keyspace != "system_distributed"
    };
    let (mut repaired, mut all) = (0, 0);
    for (_, stats) in tables.iter().filter(|(table, _)| is_repaired(table)) {
        repaired += stats.repaired_bytes;
        all += stats.uncompressed_bytes;
    }
    if all == 0 { 100.0 } else { 100.0 * repaired as f64 / all as f64 }
}

/// Returns the number of replicas of a keyspace, in all data centers together; `3/1` are three.
fn replicas(replication: &Replication) -> u64 {
    let factors = replication.options.values();
    let numbers = factors.filter_map(|factor| factor.split('/').next()?.trim().parse::<u64>().ok());
    numbers.sum()
}

/// The kinds of messages between replicas that Cassandra drops when they are late. Here none is
/// ever dropped.
const DROPPABLE: &[&str] =
    &["READ_REQ", "RANGE_REQ", "MUTATION_REQ", "COUNTER_MUTATION_REQ", "BATCH_STORE_REQ", "HINT_REQ"];

fn short_class(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or(class)
}

fn pool(pool: Pool) -> PoolReport {
    PoolReport {
        name: pool.name.to_owned(),
        active: pool.active,
        active_max: pool.active_max,
        pending: pool.pending,
        completed: pool.completed,
        blocked: pool.blocked,
        blocked_all_time: pool.blocked_all_time,
    }
}

fn client(client: cassette_database::Client) -> ClientReport {
    let (tls_protocol, tls_cipher_suite) =
        client.encryption.map(|encryption| (encryption.protocol, encryption.cipher_suite)).unzip();
    ClientReport {
        address: client.address.to_string(),
        username: client.username,
        stage: client.stage.to_owned(),
        protocol_version: client.protocol_version,
        options: client.options,
        requests: client.requests,
        keyspace: client.keyspace,
        tls_protocol,
        tls_cipher_suite,
    }
}

fn seen_client(client: cassette_database::SeenClient) -> SeenClientReport {
    SeenClientReport {
        protocol_version: client.protocol_version,
        address: client.address.to_string(),
        last_seen: client.last_seen_millis,
    }
}

fn caches(stats: &EngineStats, options: &Options) -> BTreeMap<String, CacheReport> {
    let saved = &options.saved_caches;
    let report = |(name, cache, rates): (&str, &CacheStats, &CacheRates)| {
        let name = name.trim_end_matches('s');
        let period = match name {
            "key" => saved.key.period,
            "row" => saved.row.period,
            "counter" => saved.counter.period,
            _ => Duration::ZERO,
        };
        let report = CacheReport {
            entries: cache.entries as u64,
            size_bytes: cache.bytes,
            capacity_bytes: cache.capacity,
            hits: cache.hits,
            requests: cache.requests(),
            // Until the counters were sampled twice, everything is recent.
            recent_hit_rate: rates.hit_rate().or((cache.requests() > 0).then(|| cache.hit_rate())),
            miss_latency_micros: (name == "chunk" && cache.misses > 0).then(|| cache.miss_latency_micros()),
            save_period_seconds: period.as_secs(),
        };
        (name.to_owned(), report)
    };
    stats.caches().map(report).into()
}

/// Reports all stored tables, by keyspace and name.
pub(super) fn tables(admin: &Admin) -> Vec<TableReport> {
    let engine = admin.database.engine();
    let catalog = admin.database.catalog();
    let now = engine.stats().now;
    let in_snapshots = bytes_in_snapshots(engine);
    stored(engine)
        .map(|(table, stats, metrics)| {
            let partitions = engine.partition_stats(table.id).ok().filter(|_| stats.sstables > 0);
            TableReport {
                partition_bytes: partitions.as_ref().map(|partitions| distribution(&partitions.bytes)),
                partition_cells: partitions.as_ref().map(|partitions| distribution(&partitions.cells)),
                snapshot_bytes: in_snapshots.get(&table.id).copied().unwrap_or(0),
                attached_indexes: attached_indexes(&admin.database, catalog.indexes_of(table.id), now),
                ..self::table(&table, stats, &metrics, now)
            }
        })
        .collect()
}

/// Reports the storage-attached indexes of a table.
fn attached_indexes(
    database: &Database,
    indexes: &[Arc<Index>],
    now: Duration,
) -> Option<AttachedIndexesReport> {
    let attached = || indexes.iter().filter(|index| index.kind == IndexKind::StorageAttached);
    let searches = database.search_metrics(attached().next()?);
    let engine = database.engine();
    let report = |values: &Histogram| histogram(&values.snapshot(now));
    // A dropped one has no SSTables.
    let bytes =
        |index: &Arc<Index>| engine.table_stats(index.storage().id).map_or(0, |stats| stats.live_disk_bytes);
    Some(AttachedIndexesReport {
        indexes: attached().count() as u64,
        queryable: attached().filter(|index| database.is_built(index)).count() as u64,
        disk_bytes: attached().map(bytes).sum(),
        queries: report(&searches.latency),
        filtering: report(&searches.filtering_latency),
        sstables_hit: report(&searches.sstables),
        rows_filtered: report(&searches.rows_filtered),
    })
}

/// Returns the bytes that removing a table's snapshots would free, for each table with snapshots.
fn bytes_in_snapshots(engine: &Engine) -> HashMap<TableId, u64> {
    let snapshots = engine.snapshots().unwrap_or_else(|error| {
        tracing::error!(%error, "cannot list snapshots: their sizes are omitted");
        Vec::new()
    });
    let mut bytes = HashMap::new();
    for snapshot in snapshots {
        if let Some(table) = snapshot.table_id {
            *bytes.entry(table).or_default() += snapshot.true_size;
        }
    }
    bytes
}

fn stored(engine: &Engine) -> impl Iterator<Item = (Arc<TableMetadata>, TableStats, Arc<TableMetrics>)> {
    // A table that was dropped meanwhile is skipped.
    engine
        .tables()
        .into_iter()
        .filter_map(|(id, table)| Some((table, engine.table_stats(id).ok()?, engine.table_metrics(id).ok()?)))
}

fn table(table: &TableMetadata, stats: TableStats, metrics: &TableMetrics, now: Duration) -> TableReport {
    let mut compaction = table.params.compaction.options.clone();
    compaction.insert("class".to_owned(), short_class(&table.params.compaction.class).to_owned());
    let is_leveled = compaction["class"] == "LeveledCompactionStrategy";
    let fanout = compaction.get("fanout_size").and_then(|size| size.parse().ok()).unwrap_or(10);
    let filter = metrics.filter_answers();
    let report = |values: &Histogram| histogram(&values.snapshot(now));
    TableReport {
        keyspace: table.keyspace.clone(),
        table: table.name.clone(),
        is_index: table.index_of.is_some(),
        directory: stats.directory.display().to_string(),
        compaction: compaction.into_iter().collect(),
        autocompaction: stats.autocompaction,
        sstables: stats.sstables,
        sstables_quarantined: stats.sstables_quarantined,
        old_sstables: stats.old_sstables,
        levels: if is_leveled { levels(&stats) } else { Vec::new() },
        fanout,
        max_sstable_bytes: stats.max_sstable_bytes,
        max_sstable_millis: stats.max_sstable_millis,
        live_bytes: stats.live_disk_bytes,
        total_bytes: stats.total_disk_bytes,
        uncompressed_bytes: stats.uncompressed_bytes,
        snapshot_bytes: 0,
        repaired_bytes: stats.repaired_bytes,
        pending_repair_bytes: stats.pending_repair_bytes,
        compression_ratio: stats.compression_ratio.unwrap_or(-1.0),
        partitions: stats.estimated_partitions + stats.memtable_partitions,
        memtable_operations: stats.memtable_operations,
        memtable_data_bytes: stats.memtable_data_bytes,
        memtable_bytes: stats.memtable_bytes,
        flushes: stats.flushes,
        bytes_flushed: stats.bytes_flushed,
        pending_flushes: stats.pending_flushes,
        pending_compactions: stats.pending_compactions,
        compactions: stats.compactions,
        bytes_compacted: stats.bytes_compacted,
        read: report(&metrics.read_latency),
        write: report(&metrics.write_latency),
        scan: report(&metrics.range_latency),
        sstables_per_read: report(&metrics.sstables_per_read),
        live_scanned: report(&metrics.live_scanned),
        tombstones_scanned: report(&metrics.tombstones_scanned),
        partition_bytes: None,
        partition_cells: None,
        filter_false_positives: filter.false_positives,
        filter_true_positives: filter.true_positives,
        filter_true_negatives: filter.true_negatives,
        filter_disk_bytes: stats.bloom_filter_disk_bytes,
        filter_bytes: stats.bloom_filter_bytes,
        summary_bytes: stats.index_summary_bytes,
        compression_metadata_bytes: stats.compression_metadata_bytes,
        checksum_bytes: stats.checksum_bytes,
        min_partition_bytes: stats.min_partition_bytes,
        max_partition_bytes: stats.max_partition_bytes,
        mean_partition_bytes: stats.mean_partition_bytes,
        droppable_ratio: stats.droppable_ratio,
        attached_indexes: None,
    }
}

/// Returns as many levels as Cassandra shows, including empty ones.
fn levels(stats: &TableStats) -> Vec<LevelReport> {
    const LEVELS: usize = 9;
    let mut levels = vec![LevelReport::default(); stats.levels.len().max(LEVELS)];
    for (report, level) in levels.iter_mut().zip(&stats.levels) {
        *report = LevelReport { sstables: level.sstables, bytes: level.bytes };
    }
    levels
}

/// Reports compactions.
pub(super) fn compactions(admin: &Admin) -> CompactionReport {
    let engine = admin.database.engine();
    let mut pending: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (table, stats, _) in stored(engine).filter(|(_, stats, _)| stats.pending_compactions > 0) {
        let of_keyspace = pending.entry(table.keyspace.clone()).or_default();
        of_keyspace.insert(table.name.clone(), stats.pending_compactions);
    }
    let totals = engine.compaction_totals();
    let uptime = admin.started.elapsed().as_secs_f64();
    let active = engine.running_compactions().into_iter().map(|running| ActiveCompaction {
        id: running.id.to_string(),
        kind: running.kind.label().to_owned(),
        keyspace: running.keyspace,
        table: running.name,
        completed: running.completed,
        total: running.total,
        unit: running.unit.to_owned(),
        sstables: running.sstables as u64,
        target_directory: running.directory.display().to_string(),
    });
    // Builds have dedicated threads, and are listed here as in Cassandra.
    let builds = admin.database.running_builds().into_iter().map(|build| ActiveCompaction {
        id: build.id.to_string(),
        kind: build.kind.to_owned(),
        keyspace: build.keyspace,
        table: build.table,
        completed: build.completed,
        total: build.total,
        unit: "keys".to_owned(),
        sstables: 0,
        target_directory: String::new(),
    });
    let active = active.chain(builds);
    CompactionReport {
        concurrent_compactors: engine.concurrent_compactors() as u64,
        pending,
        completed: totals.completed,
        bytes_compacted: totals.bytes_compacted,
        aborted: totals.aborted,
        reduced: 0,
        sstables_dropped: 0,
        fifteen_minute_rate: engine.metrics().compactions.rates().fifteen_minutes,
        mean_rate: totals.completed as f64 / uptime.max(1.0),
        throughput_bytes: engine.compaction_throughput(),
        active: active.collect(),
        overlapping: overlapping(&engine.overlap_metrics()),
    }
}

fn overlapping(metrics: &OverlapMetrics) -> OverlappingReport {
    OverlappingReport {
        partitions_checked: metrics.partitions_checked,
        partitions_skipped: metrics.partitions_skipped,
        sources_opened: metrics.sources_opened,
        bytes_read: metrics.bytes_read,
        bytes_dropped: metrics.bytes_dropped,
        rows_dropped: metrics.rows_dropped,
        cells_dropped: metrics.cells_dropped,
        seconds: metrics.time.as_secs_f64(),
        seconds_per_mebibyte: metrics.seconds_per_mib(),
    }
}

/// Reports successful compactions, the latest first.
pub(super) fn compaction_history(admin: &Admin) -> Result<Vec<CompactionRecord>, Refused> {
    let failed = |error: DatabaseError| Refused::failed(error.to_string());
    let done = admin.database.compaction_history().map_err(failed)?;
    let count = |value: i64| u64::try_from(value).unwrap_or(0);
    let record = |done: cassette_database::CompactionRecord| CompactionRecord {
        id: done.id.to_string(),
        keyspace_name: done.keyspace,
        columnfamily_name: done.table,
        compacted_at: done.compacted_at,
        bytes_in: count(done.bytes_in),
        bytes_out: count(done.bytes_out),
        rows_merged: done
            .rows_merged
            .into_iter()
            .map(|(sstables, partitions)| (sstables.unsigned_abs(), count(partitions)))
            .collect(),
        compaction_properties: done.properties,
    };
    Ok(done.into_iter().map(record).collect())
}

/// Reports data of tables that are missing from the schema.
pub(super) fn unknown_tables(admin: &Admin) -> Result<Vec<UnknownTableReport>, Refused> {
    let unknown = admin.database.unknown_tables().map_err(|error| Refused::failed(error.to_string()))?;
    let report = |unknown: UnknownTable| UnknownTableReport {
        id: unknown.id.map(|id| id.0.to_string()),
        keyspace: unknown.keyspace,
        table: unknown.table,
        index: unknown.index,
        directory: unknown.directory.map(|directory| directory.display().to_string()),
        sstables: unknown.sstables,
        bytes: unknown.bytes,
        log_segments: unknown.log_segments,
        log_bytes: unknown.log_bytes,
    };
    Ok(unknown.into_iter().map(report).collect())
}

/// Reports all snapshots.
pub(super) fn snapshots(admin: &Admin) -> Result<Vec<SnapshotReport>, Refused> {
    let failed = |error: DatabaseError| Refused::failed(error.to_string());
    let snapshots = admin.database.snapshots().map_err(failed)?;
    let report = |snapshot: Snapshot| SnapshotReport {
        name: snapshot.name,
        keyspace: snapshot.keyspace,
        table: snapshot.table,
        true_bytes: snapshot.true_size,
        bytes: snapshot.size_on_disk,
        ephemeral: snapshot.ephemeral,
        created_at: snapshot.created_at_millis,
        expires_at: snapshot.expires_at_millis,
    };
    Ok(snapshots.into_iter().map(report).collect())
}

/// Reports a histogram: its recent values, and their total number.
pub(super) fn histogram(snapshot: &HistogramSnapshot) -> DistributionReport {
    DistributionReport {
        count: snapshot.count(),
        sum: snapshot.sum,
        cumulative: BUCKET_LIMITS.map(|limit| snapshot.all.count_until(limit)),
        one_minute_rate: snapshot.rates.one_minute,
        five_minute_rate: snapshot.rates.five_minutes,
        fifteen_minute_rate: snapshot.rates.fifteen_minutes,
        ..distribution(&snapshot.recent)
    }
}

fn distribution(values: &Distribution) -> DistributionReport {
    DistributionReport {
        count: values.count(),
        p50: values.percentile(0.5),
        p75: values.percentile(0.75),
        p95: values.percentile(0.95),
        p98: values.percentile(0.98),
        p99: values.percentile(0.99),
        p999: values.percentile(0.999),
        min: values.min(),
        max: values.max(),
        mean: values.mean(),
        ..DistributionReport::default()
    }
}
