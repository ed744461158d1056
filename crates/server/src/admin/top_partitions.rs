//! Samples tables for their most active partitions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cassette_admin_api::{Refused, Sampled, TopPartitions};
use cassette_cql::values::text::to_text;
use cassette_engine::metrics::{TableMetrics, sampler};
use cassette_rows::{TableMetadata, key};
use serde::Deserialize;

use super::Admin;

/// The parameters of a request.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    keyspace: Option<String>,
    table: Option<String>,
    millis: u64,
    capacity: usize,
    top: usize,
}

/// The maximum duration of sampling.
const MILLIS_MAX: u64 = 10 * 60 * 1000;

/// Running samples, which end when this is dropped.
struct Begun(Vec<(Arc<TableMetadata>, Arc<TableMetrics>)>);

/// Returns the most active partitions during the requested time. Sampling ends early if the future
/// is dropped.
pub(super) async fn sample(admin: &Admin, asked: &Asked) -> Result<TopPartitions, Refused> {
    if asked.millis > MILLIS_MAX || asked.capacity > 1024 {
        return Err(Refused::wrong_use("at most ten minutes and 1024 partitions are sampled"));
    }
    let engine = admin.database.engine();
    let is_meant = |table: &TableMetadata| {
        asked.keyspace.as_ref().is_none_or(|keyspace| *keyspace == table.keyspace)
            && asked.table.as_ref().is_none_or(|name| *name == table.name)
    };
    let tables: Vec<(Arc<TableMetadata>, Arc<TableMetrics>)> = engine
        .tables()
        .into_iter()
        .filter(|(_, table)| is_meant(table))
        .filter_map(|(id, table)| Some((table, engine.table_metrics(id).ok()?)))
        .collect();
    if tables.is_empty() {
        return Err(Refused::wrong_use("unknown table"));
    }
    let tables_count = tables.len();
    let begin = |(_, metrics): &(_, Arc<TableMetrics>)| metrics.sampler.begin(asked.capacity);
    let mut begun = Begun(tables.into_iter().filter(begin).collect());
    if begun.0.len() < tables_count {
        return Err(Refused::invalid("a sampling is already in progress: wait until it ends"));
    }
    tokio::time::sleep(Duration::from_millis(asked.millis)).await;
    let mut samplers: BTreeMap<String, Vec<Sampled>> =
        sampler::Sampled::ALL.iter().map(|what| (what.name().to_owned(), Vec::new())).collect();
    for (table, metrics) in std::mem::take(&mut begun.0) {
        for (what, samples) in metrics.sampler.end(asked.top) {
            let found = samplers.entry(what.name().to_owned()).or_default();
            found.extend(samples.into_iter().map(|sample| Sampled {
                table: table.qualified_name(),
                partition: key_text(&table, &sample.key),
                count: sample.count,
                error: sample.error,
            }));
        }
    }
    for found in samplers.values_mut() {
        found.sort_by_key(|sample| std::cmp::Reverse(sample.count));
        found.truncate(asked.top);
    }
    Ok(TopPartitions { samplers })
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.iter().for_each(|(_, metrics)| drop(metrics.sampler.end(0)));
    }
}

/// Formats a partition key as text, with colons between its components.
fn key_text(table: &TableMetadata, bytes: &[u8]) -> String {
    let components = key::components(bytes, table.partition_key.len()).unwrap_or_default();
    let texts =
        components.iter().zip(&table.partition_key).map(|(value, column)| to_text(&column.data_type, value));
    texts.collect::<Vec<_>>().join(":")
}
