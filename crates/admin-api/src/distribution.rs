//! Distributions of recent values.

#![expect(missing_docs, reason = "many names need no explanation")]

use serde::{Deserialize, Serialize};

/// The number of [`BUCKET_LIMITS`].
pub const BUCKETS: usize = 22;

/// The inclusive upper limits of the buckets of which [`DistributionReport::cumulative`] counts the
/// values: every fourth limit of Cassandra's buckets, so that they about double, and all values of
/// one of its buckets lie on one side. As microseconds they reach from 1 µs to 10 s.
pub const BUCKET_LIMITS: [u64; BUCKETS] = [
    1, 5, 10, 20, 42, 86, 179, 372, 770, 1597, 3311, 6866, 14_237, 29_521, 61_214, 126_934, 263_210, 545_791,
    1_131_752, 2_346_799, 4_866_323, 10_090_808,
];

/// A distribution of recent values; all values are upper limits of Cassandra's histogram buckets.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq)]
pub struct DistributionReport {
    /// The number of values since the start, not only recent ones.
    pub count: u64,
    /// The sum of values since the start.
    pub sum: u64,
    /// The number of values since the start up to each of [`BUCKET_LIMITS`]. Not sent: Prometheus
    /// alone uses it, and reads it where it is assembled.
    #[serde(skip)]
    pub cumulative: [u64; BUCKETS],
    pub p50: u64,
    pub p75: u64,
    pub p95: u64,
    pub p98: u64,
    pub p99: u64,
    pub p999: u64,
    pub min: u64,
    pub max: u64,
    /// `None` without recent values.
    pub mean: Option<f64>,
    /// Values per second, averaged over one minute.
    pub one_minute_rate: f64,
    /// Values per second, averaged over five minutes.
    pub five_minute_rate: f64,
    /// Values per second, averaged over fifteen minutes.
    pub fifteen_minute_rate: f64,
}
