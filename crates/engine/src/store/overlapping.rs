//! Metrics of the SSTables that compactions check for overlapping tombstones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The use of overlapping SSTables by compactions, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OverlapMetrics {
    /// Partitions that some source may contain.
    pub partitions_checked: u64,
    /// Partitions that were copied unchanged because they had more sources than allowed.
    pub partitions_skipped: u64,
    /// Partitions of sources that were opened.
    pub sources_opened: u64,
    /// Bytes of rows read from sources, before compression.
    pub bytes_read: u64,
    /// Bytes of values and clusterings that compactions dropped.
    pub bytes_dropped: u64,
    /// Rows dropped completely.
    pub rows_dropped: u64,
    /// Cells dropped.
    pub cells_dropped: u64,
    /// Time spent, in all threads together.
    pub time: Duration,
}

impl OverlapMetrics {
    /// Returns the seconds spent for each MiB that was dropped; `None` before anything was.
    pub fn seconds_per_mib(&self) -> Option<f64> {
        let mib = self.bytes_dropped as f64 / f64::from(1 << 20);
        (mib > 0.0).then(|| self.time.as_secs_f64() / mib)
    }
}

/// The counters of [`OverlapMetrics`].
#[derive(Debug, Default)]
pub(crate) struct OverlapCounters {
    partitions_checked: AtomicU64,
    partitions_skipped: AtomicU64,
    sources_opened: AtomicU64,
    bytes_read: AtomicU64,
    bytes_dropped: AtomicU64,
    rows_dropped: AtomicU64,
    cells_dropped: AtomicU64,
    nanos: AtomicU64,
}

impl OverlapCounters {
    pub fn metrics(&self) -> OverlapMetrics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OverlapMetrics {
            partitions_checked: get(&self.partitions_checked),
            partitions_skipped: get(&self.partitions_skipped),
            sources_opened: get(&self.sources_opened),
            bytes_read: get(&self.bytes_read),
            bytes_dropped: get(&self.bytes_dropped),
            rows_dropped: get(&self.rows_dropped),
            cells_dropped: get(&self.cells_dropped),
            time: Duration::from_nanos(get(&self.nanos)),
        }
    }

    /// Adds the cost of checks that dropped nothing.
    pub fn add_cost(&self, asked: &OverlapMetrics) {
        self.add(&OverlapMetrics { bytes_dropped: 0, rows_dropped: 0, cells_dropped: 0, ..*asked });
    }

    pub fn add(&self, more: &OverlapMetrics) {
        let add = |counter: &AtomicU64, n: u64| counter.fetch_add(n, Ordering::Relaxed);
        add(&self.partitions_checked, more.partitions_checked);
        add(&self.partitions_skipped, more.partitions_skipped);
        add(&self.sources_opened, more.sources_opened);
        add(&self.bytes_read, more.bytes_read);
        add(&self.bytes_dropped, more.bytes_dropped);
        add(&self.rows_dropped, more.rows_dropped);
        add(&self.cells_dropped, more.cells_dropped);
        add(&self.nanos, u64::try_from(more.time.as_nanos()).unwrap_or(u64::MAX));
    }
}
