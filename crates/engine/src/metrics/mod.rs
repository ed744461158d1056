//! Metrics: counts and latencies of the engine's operations.
//!
//! Recording costs a few nanoseconds and no lock: threads increment separate shards ([`sharded`]).
//! Reading metrics sums the shards. Histograms keep two distributions: of all values since the
//! start, and of recent ones, in which the weight of a value is halved every minute, as in
//! Cassandra ([`histogram`]).

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

/// The minimum interval of updates of recent rates.
const TICK: Duration = Duration::from_secs(5);

/// Metrics of the engine that belong to no single table, since it was opened.
#[derive(Debug)]
pub struct EngineMetrics {
    /// Flushed memtables.
    pub flushes: Counter,
    /// Bytes written by flushes.
    pub bytes_flushed: Counter,
    /// Running flushes.
    pub active_flushes: Gauge,
    /// Duration of successful flushes.
    pub flush_duration: Histogram,
    /// Completed compactions.
    pub compactions: Meter,
    /// Bytes written by compactions.
    pub bytes_compacted: Counter,
    /// Running compactions.
    pub active_compactions: Gauge,
    /// Duration of successful compactions that wrote SSTables.
    pub compaction_duration: Histogram,
    /// Flushes, compactions and reads that failed, and panics of background work: Cassandra's
    /// `Exceptions`.
    pub exceptions: Counter,
    /// Writes that waited for space in memtables, or because of compaction debt.
    pub writes_stalled: Counter,
    /// Those that waited because of compaction debt.
    pub writes_stalled_by_compaction: Counter,
    /// Rates of the chunk, key, row and counter caches.
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
            writes_stalled: Counter::default(),
            writes_stalled_by_compaction: Counter::default(),
            caches: Default::default(),
            ticked: Mutex::default(),
        }
    }
}

impl EngineMetrics {
    /// Returns whether the recent rates are to be updated, which the caller must do then. `now` is
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
