//! What queries by storage-attached indexes came to.

use std::cell::Cell;
use std::time::Duration;

use cassette_engine::metrics::Histogram;

/// Figures of a table's queries by its storage-attached indexes, which answer together. Under each name, Cassandra's.
#[derive(Debug)]
pub struct SearchMetrics {
    /// `QueryLatency`: queries, to the end of their page; microseconds.
    pub latency: Histogram,
    /// `PostFilteringReadLatency`: reads of rows of one partition that were found, and looks at whether they answer; microseconds.
    pub filtering_latency: Histogram,
    /// `SSTableIndexesHit`: SSTables of indexes in which a query came upon entries.
    pub sstables: Histogram,
    /// `RowsFiltered`: live rows that a query looked at.
    pub rows_filtered: Histogram,
}

impl Default for SearchMetrics {
    fn default() -> Self {
        Self {
            latency: Histogram::of_latencies(),
            filtering_latency: Histogram::of_latencies(),
            sstables: Histogram::of_counts(),
            rows_filtered: Histogram::of_counts(),
        }
    }
}

impl SearchMetrics {
    /// Brings recent figures up to date. `now` is monotonic time.
    pub(crate) fn tick(&self, now: Duration) {
        for histogram in [&self.latency, &self.filtering_latency, &self.sstables, &self.rows_filtered] {
            histogram.tick(now);
        }
    }

    /// Counts a query that took `time`.
    pub(crate) fn record(&self, tally: &SearchTally, time: Duration) {
        self.latency.record_latency(time);
        self.sstables.record(tally.sstables.get());
        self.rows_filtered.record(tally.rows.get());
    }
}

/// What one query came upon so far.
#[derive(Debug, Default)]
pub(crate) struct SearchTally {
    /// SSTables of indexes that had entries.
    pub sstables: Cell<u64>,
    /// Live rows that were looked at.
    pub rows: Cell<u64>,
    /// Tombstones that reads of them came across.
    pub tombstones: Cell<u64>,
}

impl SearchTally {
    pub fn add_sstables(&self, sstables: u64) {
        self.sstables.update(|sum| sum + sstables);
    }

    pub fn add_rows(&self, rows: u64, tombstones: u64) {
        self.rows.update(|sum| sum + rows);
        self.tombstones.update(|sum| sum + tombstones);
    }
}
