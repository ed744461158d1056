//! Counters and gauges.

use std::sync::atomic::{AtomicU64, Ordering};

use super::sharded::Sharded;

/// Counts up what many threads do all the time.
#[derive(Debug)]
pub struct BusyCounter(Sharded);

impl Default for BusyCounter {
    fn default() -> Self {
        Self(Sharded::new(1))
    }
}

impl BusyCounter {
    /// Counts `n` more.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.own()[0].fetch_add(n, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn get(&self) -> u64 {
        self.0.sums()[0]
    }
}

/// Counts up what happens too seldom for threads to get in each other's way.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts `n` more.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many there are of something now.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// One more, until what this returns is dropped.
    pub fn enter(&self) -> Entered<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Entered(self)
    }

    /// How many there are.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One of what a [`Gauge`] counts.
#[derive(Debug)]
#[must_use = "the gauge goes down when it is dropped"]
pub struct Entered<'a>(&'a Gauge);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
