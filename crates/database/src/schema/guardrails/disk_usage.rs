//! `data_disk_usage_percentage_*` and `data_disk_usage_max_disk_size`: warnings for writes, and
//! then their rejection, when data occupies too much of the disk.
//!
//! Cassandra's nodes exchange their disk usage. This node is the only replica, so writes measure
//! the disk, at most every 30 seconds. Conditional writes are exempt, as in Cassandra.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cassette_engine::BytesInUse;
use parking_lot::Mutex;

use super::guard::{self, Level};
use super::{Guard, Guardrails, Key};
use crate::basics::error::Result;

/// How long a measurement is valid.
const INTERVAL: Duration = Duration::from_secs(30);

/// The time between two warnings to clients.
const SILENCE: Duration = Duration::from_secs(30 * 60);

const NOT_KNOWN: i64 = -1;

/// The disk usage at the last measurement.
#[derive(Debug)]
pub(crate) struct DiskUsage {
    /// Percent, rounded up.
    percent: AtomicI64,
    /// The times of the last measurement and of the last warning; monotonic.
    times: Mutex<Times>,
}

#[derive(Debug, Default)]
struct Times {
    looked: Option<Duration>,
    warned: Option<Duration>,
}

impl Default for DiskUsage {
    fn default() -> Self {
        Self { percent: AtomicI64::new(NOT_KNOWN), times: Mutex::default() }
    }
}

impl DiskUsage {
    /// Applies the guardrail to a write at `now`, monotonic time. `measure` returns the bytes of
    /// data and the free bytes of the disk, or `None` if these are unknown.
    ///
    /// # Errors
    /// Invalid, if the disk usage exceeds the failure threshold.
    pub fn guard_write(
        &self,
        guard: Guard<'_>,
        now: Duration,
        measure: impl FnOnce() -> Option<(BytesInUse, u64)>,
    ) -> Result<()> {
        const NAME: &str = "replica_disk_usage";
        let limits =
            [Key::DataDiskUsagePercentageFail, Key::DataDiskUsagePercentageWarn].map(|key| guard.limit(key));
        if limits == [None, None] {
            return Ok(());
        }
        self.look(guard.guardrails(), now, measure);
        let percent = self.percent.load(Ordering::Relaxed);
        let [is_full, is_stuffed] = limits.map(|limit| limit.is_some_and(|limit| percent > limit));
        if is_full {
            return guard.violated(
                NAME,
                Level::Fail,
                "Write request failed because disk usage exceeds failure threshold",
                "",
            );
        }
        if is_stuffed && self.warns(now) {
            return guard.violated(NAME, Level::Warn, "Replica disk usage exceeds warning threshold", "");
        }
        Ok(())
    }

    /// Returns whether a warning is due, and records that it is given.
    fn warns(&self, now: Duration) -> bool {
        let mut times = self.times.lock();
        let silent = times.warned.is_some_and(|warned| now.saturating_sub(warned) < SILENCE);
        if !silent {
            times.warned = Some(now);
        }
        !silent
    }

    fn look(
        &self,
        guardrails: &Guardrails,
        now: Duration,
        measure: impl FnOnce() -> Option<(BytesInUse, u64)>,
    ) {
        // Concurrent writers use the last measurement.
        let Some(mut times) = self.times.try_lock() else { return };
        if times.looked.is_some_and(|looked| now.saturating_sub(looked) < INTERVAL) {
            return;
        }
        let Some((bytes, free)) = measure() else { return };
        times.looked = Some(now);
        drop(times);
        let max = guardrails.threshold(Key::DataDiskUsageMaxDiskSize).and_then(|max| u64::try_from(max).ok());
        let percent = percent_of(bytes, free, max);
        self.percent.store(percent, Ordering::Relaxed);
        guardrails.note_disk_usage(percent);
    }
}

/// Returns the percentage, rounded up, of data in the available space: data and free space, or
/// `max` if that is less.
fn percent_of(bytes: BytesInUse, free: u64, max: Option<u64>) -> i64 {
    let total = bytes.disk.saturating_add(free).min(max.unwrap_or(u64::MAX)).max(1);
    let used = u128::from(bytes.disk) + u128::from(bytes.memtables);
    i64::try_from((used * 100).div_ceil(u128::from(total))).unwrap_or(i64::MAX)
}

impl Guardrails {
    /// Logs the disk usage if it exceeds a threshold.
    fn note_disk_usage(&self, percent: i64) {
        const NAME: &str = "local_data_disk_usage";
        let exceeded = |key| self.threshold(key).filter(|threshold| percent > *threshold);
        let (level, message) = if let Some(threshold) = exceeded(Key::DataDiskUsagePercentageFail) {
            let message = format!(
                "Local data disk usage {percent}%(Full) exceeds failure threshold of {threshold}%, will stop accepting \
                 writes"
            );
            (Level::Fail, message)
        } else if let Some(threshold) = exceeded(Key::DataDiskUsagePercentageWarn) {
            let message = format!(
                "Local data disk usage {percent}%(Stuffed) exceeds warning threshold of {threshold}%"
            );
            (Level::Warn, message)
        } else {
            return;
        };
        self.log.note_some(NAME, level, &guard::violation(NAME, &message, ""), 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentage_is_of_what_data_could_take_and_counts_memtables() {
        let bytes = BytesInUse { disk: 50, memtables: 0 };
        assert_eq!(percent_of(bytes, 50, None), 50);
        assert_eq!(percent_of(bytes, 51, None), 50);
        assert_eq!(percent_of(bytes, 49, None), 51);
        assert_eq!(percent_of(BytesInUse { memtables: 25, ..bytes }, 50, None), 75);
        assert_eq!(percent_of(bytes, 1000, Some(100)), 50);
        assert_eq!(percent_of(bytes, 10, Some(100)), 84);
        assert_eq!(percent_of(BytesInUse::default(), 0, None), 0);
    }

    #[test]
    fn a_write_looks_at_the_disk_every_thirty_seconds_at_most() {
        let guardrails = Guardrails::default();
        guardrails.set(&[(Key::DataDiskUsagePercentageFail, "90")]).unwrap();
        let warnings = std::cell::RefCell::default();
        let usage = DiskUsage::default();
        let full = Some((BytesInUse { disk: 91, memtables: 0 }, 9));
        let empty = Some((BytesInUse { disk: 9, memtables: 0 }, 91));
        let write = |seconds, disk| {
            usage.guard_write(Guard::new(&guardrails, &warnings), Duration::from_secs(seconds), || disk)
        };
        assert!(write(0, full).is_err());
        assert!(write(29, empty).is_err());
        assert!(write(30, empty).is_ok());
        assert!(write(60, None).is_ok());
        assert!(write(61, full).is_err());
    }
}
