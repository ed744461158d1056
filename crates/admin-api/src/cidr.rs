//! CIDR groups, and the restriction of roles to them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::DistributionReport;
use crate::metric::report;

/// A stored CIDR group.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct CidrGroupReport {
    /// Its name.
    pub name: String,
    /// Its CIDRs, as Cassandra shows them.
    pub cidrs: Vec<String>,
}

report! {
    /// The checks of addresses by `CassandraCIDRAuthorizer`.
    pub struct CidrFilteringReport {
        /// Counts by Cassandra's names.
        counts: BTreeMap<String, u64>,
        /// Recent latencies in nanoseconds by Cassandra's names: the median, the 95th, 99th and
        /// 99.9th percentile, and the maximum.
        latencies: Vec<(String, [f64; 5])>,
        /// Accesses by group.
        accesses: Vec<CidrAccessReport>,
        reloads: u64 = Counter("cassette_cidr_group_reloads_total", "Reloads of the CIDR groups."),
        check_latency: DistributionReport = Histogram("cassette_cidr_check_seconds",
            "Time to check the address of a client.", 1e9),
        lookup_latency: DistributionReport = Histogram("cassette_cidr_lookup_seconds",
            "Time to look up the CIDR groups of an address.", 1e9),
        reload_latency: DistributionReport = Histogram("cassette_cidr_group_reload_seconds",
            "Time to reload the CIDR groups.", 1e9),
    }
}

report! {
    /// The accesses from a CIDR group.
    pub struct CidrAccessReport {
        /// The group; `Undefined` for addresses in none.
        group: String,
        accepted: u64 = Counter("cassette_cidr_accesses_accepted_total",
            "Accesses of roles that were checked and accepted."),
        rejected: u64 = Counter("cassette_cidr_accesses_rejected_total",
            "Accesses of roles that were rejected because of the client's address."),
    }
}
