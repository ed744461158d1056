//! Metrics: what the engine has done and how long it took.
//!
//! Recording costs a few nanoseconds and no lock: threads count into their own shards
//! ([`sharded`]). Reading metrics adds the shards up. Histograms keep two things: all values since
//! the start, and the recent ones, in which a value counts half after a minute, as in Cassandra
//! ([`histogram`]).

mod buckets;
mod cache;
mod counter;
mod histogram;
mod rate;
pub mod sampler;
mod sharded;
mod table;

use std::time::Duration;

use parking_lot::Mutex;

pub use buckets::BUCKET_OFFSETS;
pub(crate) use cache::CacheMeter;
pub use cache::CacheRates;
pub use counter::{BusyCounter, Counter, Entered, Gauge};
pub use histogram::{Distribution, Histogram, HistogramSnapshot};
pub use rate::{Meter, Rates};
pub(crate) use table::ReadTally;
pub use table::{FilterAnswers, TableMetrics};

/// How often recent rates are updated, at most.
const TICK: Duration = Duration::from_secs(5);

/// Metrics of the engine that belong to no single table, since it was opened.
#[derive(Debug)]
pub struct EngineMetrics {
    /// Memtables flushed.
    pub flushes: Counter,
    /// Bytes written by flushes.
    pub bytes_flushed: Counter,
    /// Flushes that are running.
    pub active_flushes: Gauge,
    /// Duration of flushes that succeeded.
    pub flush_duration: Histogram,
    /// Compactions done.
    pub compactions: Meter,
    /// Bytes written by compactions.
    pub bytes_compacted: Counter,
    /// Compactions that are running.
    pub active_compactions: Gauge,
    /// Duration of compactions that succeeded and wrote SSTables.
    pub compaction_duration: Histogram,
    /// Flushes, compactions and reads that failed, and panics of background work: Cassandra's
    /// `Exceptions`.
    pub exceptions: Counter,
    /// Writers that had to wait for room in memtables, or because compaction was behind.
    pub writes_held_up: Counter,
    /// Those of them that waited because compaction was behind.
    pub writes_held_up_by_compaction: Counter,
    /// Of the chunk, key, row and counter cache.
    pub(crate) caches: [CacheMeter; 4],
    ticked: Mutex<Option<Duration>>,
}

impl Default for EngineMetrics {
    fn default() -> Self {
        Self {
            flushes: Counter::default(),
            bytes_flushed: Counter::default(),
            active_flushes: Gauge::default(),
            flush_duration: Histogram::of_latencies(),
            compactions: Meter::default(),
            bytes_compacted: Counter::default(),
            active_compactions: Gauge::default(),
            compaction_duration: Histogram::of_latencies(),
            exceptions: Counter::default(),
            writes_held_up: Counter::default(),
            writes_held_up_by_compaction: Counter::default(),
            caches: Default::default(),
            ticked: Mutex::default(),
        }
    }
}

impl EngineMetrics {
    /// Returns whether the recent rates are to be updated, which the caller then does. `now` is
    /// monotonic time.
    pub(crate) fn is_tick_due(&self, now: Duration) -> bool {
        let Some(mut ticked) = self.ticked.try_lock() else { return false };
        let due = ticked.is_none_or(|ticked| now.saturating_sub(ticked) >= TICK);
        if due {
            *ticked = Some(now);
        }
        due
    }
}
