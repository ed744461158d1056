//! What the CIDR authorizer has counted and measured, by Cassandra's names.

use cassette_engine::metrics::{Histogram, HistogramSnapshot};

use crate::store::Store;

/// The metrics of `CassandraCIDRAuthorizer`; empty without it.
#[derive(Debug, Clone, Default)]
pub struct CidrFiltering {
    /// The groups, and `Undefined` for addresses in none, in order: accesses accepted and rejected.
    pub accesses: Vec<(String, u64, u64)>,
    /// How often the groups were read.
    pub reloads: u64,
    /// Latencies of checks in nanoseconds.
    pub checks: Option<HistogramSnapshot>,
    /// Latencies of lookups of groups in nanoseconds.
    pub lookups: Option<HistogramSnapshot>,
    /// Latencies of reloads in nanoseconds.
    pub reload_times: Option<HistogramSnapshot>,
}

impl CidrFiltering {
    pub(crate) fn of(store: &Store) -> Self {
        let Some(cidr) = store.authorization().cidr() else { return Self::default() };
        let now = store.clock().monotonic();
        let snapshot = |histogram: &Histogram| Some(histogram.snapshot(now));
        Self {
            accesses: cidr.counts(),
            reloads: cidr.metrics.reloads.get(),
            checks: snapshot(&cidr.metrics.checks),
            lookups: snapshot(&cidr.metrics.lookups),
            reload_times: snapshot(&cidr.metrics.reload_times),
        }
    }

    /// Returns the counts by Cassandra's names: of groups those that are not zero.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let mut counts = vec![("CIDR groups cache reload count".to_owned(), self.reloads)];
        for (group, accepted, rejected) in &self.accesses {
            for (what, count) in [("accepted", *accepted), ("rejected", *rejected)] {
                if count > 0 {
                    counts.push((format!("Number of CIDR accesses {what} from CIDR group - {group}"), count));
                }
            }
        }
        counts
    }

    /// Returns the recent latencies in nanoseconds by Cassandra's names: the median, the 95th, 99th
    /// and 99.9th percentile, and the maximum.
    pub fn latencies(&self) -> [(&'static str, [f64; 5]); 3] {
        let recent = |snapshot: &Option<HistogramSnapshot>| {
            let Some(HistogramSnapshot { recent, .. }) = snapshot else { return [0.0; 5] };
            let percentiles = [0.5, 0.95, 0.99, 0.999].map(|fraction| recent.percentile(fraction));
            let [p50, p95, p99, p999] = percentiles;
            [p50, p95, p99, p999, recent.max()].map(|nanoseconds| nanoseconds as f64)
        };
        [
            ("CIDR checks latency (ns)", recent(&self.checks)),
            ("Lookup IP in CIDR groups cache latency (ns)", recent(&self.lookups)),
            ("CIDR groups cache reload latency (ns)", recent(&self.reload_times)),
        ]
    }
}
