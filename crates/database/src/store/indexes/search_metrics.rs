//! Metrics of queries by storage-attached indexes.

use std::cell::Cell;
use std::time::Duration;

use cassette_engine::metrics::Histogram;

/// Metrics of a table's queries by its storage-attached indexes, which are used together. With
/// Cassandra's names.
#[derive(Debug)]
pub struct SearchMetrics {
    /// `QueryLatency`: queries, until their page is complete; microseconds.
    pub latency: Histogram,
    /// `PostFilteringReadLatency`: reads of the found rows of one partition, and filtering;
    /// microseconds.
    pub filtering_latency: Histogram,
    /// `SSTableIndexesHit`: SSTables of indexes in which a query found entries.
    pub sstables: Histogram,
    /// `RowsFiltered`: live rows that a query filtered.
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
    /// Updates moving averages. `now` is monotonic time.
    pub(crate) fn tick(&self, now: Duration) {
        for histogram in [&self.latency, &self.filtering_latency, &self.sstables, &self.rows_filtered] {
            histogram.tick(now);
        }
    }

    /// Records a query that took `time`.
    pub(crate) fn record(&self, tally: &SearchTally, time: Duration) {
        self.latency.record_latency(time);
        self.sstables.record(tally.sstables.get());
        self.rows_filtered.record(tally.rows.get());
    }
}

/// The counts of one query.
#[derive(Debug, Default)]
pub(crate) struct SearchTally {
    /// SSTables of indexes that had entries.
    pub sstables: Cell<u64>,
    /// Live rows that were filtered.
    pub rows: Cell<u64>,
    /// Tombstones that these reads encountered.
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
