//! Compactions.

#![expect(missing_docs, reason = "many names need no explanation")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metric::report;

report! {
    /// Completed, running and pending compactions.
    pub struct CompactionReport {
        /// `concurrent_compactors`.
        concurrent_compactors: u64,
        /// Pending compactions by keyspace and table; only numbers above zero.
        pending: BTreeMap<String, BTreeMap<String, u64>>,
        completed: u64 = Counter("cassette_compactions_total", "Completed compactions."),
        bytes_compacted: u64 =
            Counter("cassette_compaction_bytes_total", "Bytes written by compactions."),
        /// Compactions that were stopped or failed.
        aborted: u64,
        /// Compactions reduced for lack of disk space.
        reduced: u64,
        /// SSTables excluded from reduced compactions.
        sstables_dropped: u64,
        /// Compactions per second, averaged over fifteen minutes.
        fifteen_minute_rate: f64,
        /// Compactions per second since the start.
        mean_rate: f64,
        /// The limit of bytes per second that compactions write; 0 for no limit.
        throughput_bytes: u64,
        /// Running compactions.
        active: Vec<ActiveCompaction>,
        /// Effect of overlapping SSTables on compactions (`provide_overlapping_tombstones`).
        overlapping: OverlappingReport,
    }
    also {
        Gauge("cassette_compactions_active", "Running compactions.", |report| report.active.len() as u64),
    }
}

report! {
    /// Effect of the deletions in SSTables outside of compactions, since the start.
    pub struct OverlappingReport {
        partitions_checked: u64 = Counter("cassette_overlapping_partitions_checked_total",
            "Partitions that overlapping SSTables may contain."),
        partitions_skipped: u64 = Counter("cassette_overlapping_partitions_skipped_total",
            "Partitions passed on unchanged because they had too many overlapping SSTables."),
        sources_opened: u64 = Counter("cassette_overlapping_sources_opened_total",
            "Partitions of overlapping SSTables that were opened."),
        bytes_read: u64 = Counter("cassette_overlapping_bytes_read_total",
            "Bytes read from overlapping SSTables, before compression."),
        bytes_dropped: u64 = Counter("cassette_overlapping_bytes_dropped_total",
            "Bytes that compactions dropped because of overlapping SSTables."),
        rows_dropped: u64 = Counter("cassette_overlapping_rows_dropped_total",
            "Complete rows dropped because of overlapping SSTables."),
        cells_dropped: u64 = Counter("cassette_overlapping_cells_dropped_total",
            "Cells dropped because of overlapping SSTables."),
        seconds: f64 = Counter("cassette_overlapping_seconds_total",
            "Processing time of overlapping SSTables, of all threads together."),
        /// Processing time per MiB dropped; `None` if nothing was dropped.
        seconds_per_mebibyte: Option<f64>,
    }
}

/// A running compaction.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct ActiveCompaction {
    pub id: String,
    /// Cassandra's name of the operation, such as `Compaction`.
    pub kind: String,
    pub keyspace: String,
    pub table: String,
    /// The completed part, in `unit`.
    pub completed: u64,
    /// The total amount of work, in `unit`.
    pub total: u64,
    /// `bytes`.
    pub unit: String,
    /// The number of input SSTables.
    pub sstables: u64,
    /// The directory of the output.
    pub target_directory: String,
}
