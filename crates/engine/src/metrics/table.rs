//! The metrics of one table.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::counter::Counter;
use super::histogram::Histogram;
use super::sampler::Sampler;
use super::sharded::Sharded;

/// Metrics of one table since it was opened, with Cassandra's names.
#[derive(Debug)]
pub struct TableMetrics {
    /// `ReadLatency`: reads of one partition, to their last row; microseconds.
    pub read_latency: Histogram,
    /// `RangeLatency`: scans over partitions, to their last row; microseconds.
    pub range_latency: Histogram,
    /// `WriteLatency`: changes of one partition, in log and memtable; microseconds.
    pub write_latency: Histogram,
    /// `SSTablesPerReadHistogram`: SSTables that contained the partition of a read.
    pub sstables_per_read: Histogram,
    /// `SSTablesPerRangeReadHistogram`: SSTables that a scan merged.
    pub sstables_per_range_read: Histogram,
    /// `TombstoneScannedHistogram`: deletion markers and deleted cells that a read scanned.
    pub tombstones_scanned: Histogram,
    /// `LiveScannedHistogram`: live rows that a read scanned.
    pub live_scanned: Histogram,
    /// `MemtableSwitchCount`: flushed memtables.
    pub flushes: Counter,
    /// `BytesFlushed`: bytes written by flushes.
    pub bytes_flushed: Counter,
    /// Completed compactions.
    pub compactions: Counter,
    /// `CompactionBytesWritten`
    pub bytes_compacted: Counter,
    /// The most active partitions, while sampling is enabled.
    pub sampler: Sampler,
    filter: Sharded,
}

/// The results of bloom filters, and whether they were correct.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilterAnswers {
    /// Positive, but the partition was absent.
    pub false_positives: u64,
    /// Positive, and the partition was present.
    pub true_positives: u64,
    /// Negative.
    pub true_negatives: u64,
}

impl FilterAnswers {
    /// Returns the fraction of wrong results; 0 if there were none.
    pub fn false_ratio(&self) -> f64 {
        match self.false_positives + self.true_positives + self.true_negatives {
            0 => 0.0,
            all => self.false_positives as f64 / all as f64,
        }
    }
}

/// The counts of one read of a partition, without atomics until it is complete.
#[derive(Debug, Default)]
pub(crate) struct ReadTally {
    /// SSTables that contained the partition.
    pub sstables: u64,
    /// The results of their bloom filters.
    pub filter: FilterAnswers,
}

impl Default for TableMetrics {
    fn default() -> Self {
        Self {
            read_latency: Histogram::of_latencies(),
            range_latency: Histogram::of_latencies(),
            write_latency: Histogram::of_latencies(),
            sstables_per_read: Histogram::of_counts(),
            sstables_per_range_read: Histogram::of_counts(),
            tombstones_scanned: Histogram::of_positive_counts(),
            live_scanned: Histogram::of_positive_counts(),
            flushes: Counter::default(),
            bytes_flushed: Counter::default(),
            compactions: Counter::default(),
            bytes_compacted: Counter::default(),
            sampler: Sampler::default(),
            filter: Sharded::new(3),
        }
    }
}

impl TableMetrics {
    /// Records a read of a partition that has found its sources.
    #[inline]
    pub(crate) fn record_read(&self, tally: &ReadTally) {
        self.sstables_per_read.record(tally.sstables);
        if self.sampler.is_on() {
            self.sampler.note_sstables(tally.sstables);
        }
        let filter = &tally.filter;
        let answers = [filter.false_positives, filter.true_positives, filter.true_negatives];
        if answers != [0; 3] {
            for (counter, n) in self.filter.own().iter().zip(answers) {
                counter.fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    /// Returns `BloomFilterFalsePositives` and related counts.
    pub fn filter_answers(&self) -> FilterAnswers {
        let sums = self.filter.sums();
        FilterAnswers { false_positives: sums[0], true_positives: sums[1], true_negatives: sums[2] }
    }

    /// Records a read of one partition.
    #[inline]
    pub fn record_partition_read(&self, key: &[u8], time: Duration, live_rows: u64, tombstones: u64) {
        self.sample_partition_read(key, time, live_rows, tombstones);
        self.read_latency.record_latency(time);
        self.live_scanned.record(live_rows);
        self.tombstones_scanned.record(tombstones);
    }

    /// Samples, if sampling is enabled, a read of one partition that is part of another recorded
    /// read.
    #[inline]
    pub fn sample_partition_read(&self, key: &[u8], time: Duration, live_rows: u64, tombstones: u64) {
        if self.sampler.is_on() {
            self.sampler.sample_read(key, time.as_micros() as u64, live_rows, tombstones);
        }
    }

    /// Records a search by indexes: as a read of one partition if it was within one, otherwise as a
    /// scan.
    pub fn record_search(&self, within_partition: bool, time: Duration, live_rows: u64, tombstones: u64) {
        let latency = if within_partition { &self.read_latency } else { &self.range_latency };
        latency.record_latency(time);
        self.live_scanned.record(live_rows);
        self.tombstones_scanned.record(tombstones);
    }

    /// Records a scan.
    pub fn record_scan(&self, time: Duration, live_rows: u64, tombstones: u64) {
        self.range_latency.record_latency(time);
        self.live_scanned.record(live_rows);
        self.tombstones_scanned.record(tombstones);
    }

    /// Updates the recent rates. `now` is monotonic time.
    pub fn tick(&self, now: Duration) {
        for histogram in [
            &self.read_latency,
            &self.range_latency,
            &self.write_latency,
            &self.sstables_per_read,
            &self.sstables_per_range_read,
            &self.tombstones_scanned,
            &self.live_scanned,
        ] {
            histogram.tick(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_answers_add_up_over_reads() {
        let metrics = TableMetrics::default();
        let filter = FilterAnswers { false_positives: 1, true_positives: 2, true_negatives: 5 };
        for _ in 0..2 {
            metrics.record_read(&ReadTally { sstables: 2, filter });
        }
        metrics.record_read(&ReadTally::default());
        let answers = metrics.filter_answers();
        assert_eq!(answers, FilterAnswers { false_positives: 2, true_positives: 4, true_negatives: 10 });
        assert_eq!(answers.false_ratio(), 0.125);
        assert_eq!(metrics.sstables_per_read.count(), 3);
    }
}
