//! Counters and gauges.

use std::sync::atomic::{AtomicU64, Ordering};

use super::sharded::Sharded;

/// A counter that many threads increment frequently.
#[derive(Debug)]
pub struct BusyCounter(Sharded);

impl Default for BusyCounter {
    fn default() -> Self {
        Self(Sharded::new(1))
    }
}

impl BusyCounter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.own()[0].fetch_add(n, Ordering::Relaxed);
    }

    /// Returns the count.
    pub fn get(&self) -> u64 {
        self.0.sums()[0]
    }
}

/// A counter that is incremented too rarely for contention.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Returns the count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A current number.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Increments the number until the result is dropped.
    pub fn enter(&self) -> Entered<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Entered(self)
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// An increment of a [`Gauge`].
#[derive(Debug)]
#[must_use = "the gauge goes down when it is dropped"]
pub struct Entered<'a>(&'a Gauge);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
