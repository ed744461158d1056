//! `compactionstats` and `compactionhistory`.

use std::collections::BTreeMap;
use std::fmt::Display;

use cassette_admin_api::{CompactionRecord, CompactionReport};
use serde_json::{Value, json};

use super::text::{Table, bytes, double, local_time};

/// Formats running, pending and completed compactions.
pub(super) fn stats(report: &CompactionReport, human_readable: bool, as_virtual_table: bool) -> String {
    let mut table = Table::default();
    let pending: u64 = report.pending.values().flat_map(BTreeMap::values).sum();
    table.row(["concurrent compactors", &report.concurrent_compactors.to_string()]);
    table.row(["pending tasks", &pending.to_string()]);
    for (keyspace, tables) in &report.pending {
        for (name, pending) in tables {
            table.row([keyspace, name, &pending.to_string()]);
        }
    }
    table.row(["compactions completed", &report.completed.to_string()]);
    table.row(["data compacted", &bytes(report.bytes_compacted, human_readable)]);
    table.row(["compactions aborted", &report.aborted.to_string()]);
    table.row(["compactions reduced", &report.reduced.to_string()]);
    table.row(["sstables dropped from compaction", &report.sstables_dropped.to_string()]);
    table.row(["15 minute rate", &format!("{:.2}/minute", report.fifteen_minute_rate * 60.0)]);
    table.row(["mean rate", &format!("{:.2}/hour", report.mean_rate * 3600.0)]);
    let throughput = match report.throughput_bytes {
        0 => "throttling disabled (0)".to_owned(),
        bytes => double(bytes as f64 / f64::from(1 << 20)),
    };
    table.row(["compaction throughput (MiB/s)", &throughput]);
    if !report.active.is_empty() {
        add_active(&mut table, report, human_readable, as_virtual_table);
    }
    table.text(" ")
}

/// Adds the running compactions, and an estimate of the time that they still take.
fn add_active(table: &mut Table, report: &CompactionReport, human_readable: bool, as_virtual_table: bool) {
    if as_virtual_table {
        table.row([
            "keyspace",
            "table",
            "task id",
            "completion ratio",
            "kind",
            "progress",
            "sstables",
            "total",
            "unit",
            "target directory",
        ]);
    } else {
        table.row(["id", "compaction type", "keyspace", "table", "completed", "total", "unit", "progress"]);
    }
    let mut left = 0;
    for task in &report.active {
        if task.unit == "bytes" {
            left += task.total.saturating_sub(task.completed);
        }
        let sized = |size| bytes(size, human_readable && task.unit == "bytes");
        let progress = match task.total {
            0 => "n/a".to_owned(),
            total => format!("{:.2}%", task.completed as f64 / total as f64 * 100.0),
        };
        let (completed, total) = (sized(task.completed), sized(task.total));
        if as_virtual_table {
            table.row([
                &*task.keyspace,
                &task.table,
                &task.id,
                &progress,
                &task.kind,
                &completed,
                &task.sstables.to_string(),
                &total,
                &task.unit,
                &task.target_directory,
            ]);
        } else {
            table.row([
                &*task.id,
                &task.kind,
                &task.keyspace,
                &task.table,
                &completed,
                &total,
                &task.unit,
                &progress,
            ]);
        }
    }
    let remaining = match left.checked_div(report.throughput_bytes) {
        Some(seconds) => format!("{}h{:02}m{:02}s", seconds / 3600, seconds / 60 % 60, seconds % 60),
        None => "n/a".to_owned(),
    };
    table.row(["active compaction remaining time", &remaining]);
}

/// Formats completed compactions, the latest first.
pub(super) fn history(records: &[CompactionRecord]) -> String {
    let text = "Compaction History: \n".to_owned();
    if records.is_empty() {
        return text + "There is no compaction history";
    }
    let mut table = Table::default();
    table.row([
        "id",
        "keyspace_name",
        "columnfamily_name",
        "compacted_at",
        "bytes_in",
        "bytes_out",
        "rows_merged",
        "compaction_properties",
    ]);
    for record in records {
        table.row([
            &*record.id,
            &record.keyspace_name,
            &record.columnfamily_name,
            &local_time(record.compacted_at),
            &record.bytes_in.to_string(),
            &record.bytes_out.to_string(),
            &map(&record.rows_merged),
            &map(&record.compaction_properties),
        ]);
    }
    text + &table.text(" ")
}

/// In the keys of Cassandra's `-F json`.
pub(super) fn history_data(records: &[CompactionRecord]) -> Value {
    if records.is_empty() {
        return json!({});
    }
    let record = |record: &CompactionRecord| {
        json!({
            "id": record.id,
            "keyspace_name": record.keyspace_name,
            "columnfamily_name": record.columnfamily_name,
            "compacted_at": local_time(record.compacted_at),
            "bytes_in": record.bytes_in,
            "bytes_out": record.bytes_out,
            "rows_merged": map(&record.rows_merged),
            "compaction_properties": map(&record.compaction_properties),
        })
    };
    json!({"CompactionHistory": records.iter().map(record).collect::<Vec<_>>()})
}

/// `{1:2, 3:1}`
fn map<K: Display, V: Display>(map: &BTreeMap<K, V>) -> String {
    let entries: Vec<_> = map.iter().map(|(key, value)| format!("{key}:{value}")).collect();
    format!("{{{}}}", entries.join(", "))
}
