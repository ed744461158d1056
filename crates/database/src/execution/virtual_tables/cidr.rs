//! `system_views.cidr_filtering_metrics_…`: metrics of `CassandraCIDRAuthorizer`.

use std::sync::Arc;

use cassette_rows::{PartitionUpdate, TableMetadata};

use super::VirtualTable;
use crate::schema::system::encode::{Value, row_update, text_key};
use crate::store::Store;
use crate::store::authorization::CidrFiltering;

/// One of the two tables.
#[derive(Debug)]
pub(super) enum CidrMetricsTable {
    Counts,
    Latencies,
}

impl CidrMetricsTable {
    pub const ALL: [Self; 2] = [Self::Counts, Self::Latencies];

    /// Returns its CREATE TABLE and its comment.
    pub fn definition(&self) -> (&'static str, &'static str) {
        match self {
            Self::Counts => (
                "CREATE TABLE cidr_filtering_metrics_counts (name text PRIMARY KEY, value bigint)",
                "Count metrics specific to CIDR filtering",
            ),
            Self::Latencies => (
                "CREATE TABLE cidr_filtering_metrics_latencies (name text PRIMARY KEY, max double, p50th double, \
                 p95th double, p999th double, p99th double)",
                "Latency metrics specific to CIDR filtering",
            ),
        }
    }
}

impl VirtualTable for CidrMetricsTable {
    fn partitions(&self, table: &Arc<TableMetadata>, store: &Store) -> Vec<PartitionUpdate> {
        let filtering = CidrFiltering::of(store);
        let row = |name: &str, values: &[(&str, Value)]| {
            let mut partition = PartitionUpdate::new(text_key(name));
            partition.add_row(row_update(table, &[], values, 1), table);
            partition
        };
        match self {
            Self::Counts => filtering
                .counts()
                .into_iter()
                .map(|(name, count)| {
                    row(&name, &[("value", i64::try_from(count).unwrap_or(i64::MAX).into())])
                })
                .collect(),
            Self::Latencies => filtering
                .latencies()
                .map(|(name, latencies)| {
                    let [p50, p95, p99, p999, max] = latencies.map(Value::from);
                    let values =
                        [("p50th", p50), ("p95th", p95), ("p99th", p99), ("p999th", p999), ("max", max)];
                    row(name, &values)
                })
                .to_vec(),
        }
    }
}
