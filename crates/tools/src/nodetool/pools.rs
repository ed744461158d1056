//! `tpstats` and `gcstats`.

use cassette_admin_api::NodeReport;
use serde_json::{Map, Value, json};

use super::text::Table;

/// Formats the thread pools and dropped messages.
pub(super) fn text(node: &NodeReport) -> String {
    let mut pools = Table::default();
    pools.row(["Pool Name", "Active", "Pending", "Completed", "Blocked", "All time blocked"]);
    for pool in &node.pools {
        let numbers = [pool.active, pool.pending, pool.completed, pool.blocked, pool.blocked_all_time];
        pools.row(std::iter::once(pool.name.clone()).chain(numbers.map(|n| n.to_string())));
    }
    let mut dropped = Table::default();
    dropped.row(["Message type", "Dropped    ", "50%     ", "95%     ", "99%     ", "Max"]);
    for (kind, count) in &node.dropped {
        dropped.row([&**kind, &count.to_string(), "0.0", "0.0", "0.0", "0.0"]);
    }
    pools.text(" ") + "\nLatencies waiting in queue (micros) per dropped message types\n" + &dropped.text(" ")
}

/// Returns the keys of Cassandra's `-F json`.
pub(super) fn data(node: &NodeReport) -> Value {
    let pools: Map<_, _> = node
        .pools
        .iter()
        .map(|pool| {
            let statistics = json!({
                "ActiveTasks": pool.active,
                "PendingTasks": pool.pending,
                "CompletedTasks": pool.completed,
                "CurrentlyBlockedTasks": pool.blocked,
                "TotalBlockedTasks": pool.blocked_all_time,
            });
            (pool.name.clone(), statistics)
        })
        .collect();
    let waits: Map<_, _> = node.dropped.keys().map(|kind| (kind.clone(), json!(vec![0.0; 7]))).collect();
    json!({"ThreadPools": pools, "DroppedMessage": node.dropped, "WaitLatencies": waits})
}

/// Formats garbage collections: there is no collector, so everything except the time is zero.
pub(super) fn collections(node: &NodeReport) -> String {
    let labels = [
        "Interval (ms)",
        "Max GC Elapsed (ms)",
        "Total GC Elapsed (ms)",
        "Stdev GC Elapsed (ms)",
        "GC Reclaimed (MB)",
        "Collections",
    ];
    let header = labels.map(|label| format!("{label:>20}")).concat();
    let interval = node.uptime_seconds * 1000;
    let numbers = [interval, 0, 0, 0, 0, 0].map(|n| format!("{n:>20}")).concat();
    format!("{header}{:>25}\n{numbers}{:>25}\n", "Direct Memory Bytes", 0)
}
