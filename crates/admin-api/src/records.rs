//! Lists that no metric describes: past compactions, snapshots, unknown data, settings, samples.

#![expect(missing_docs, reason = "many names need no explanation")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A completed compaction.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct CompactionRecord {
    pub id: String,
    pub keyspace_name: String,
    pub columnfamily_name: String,
    /// In milliseconds since 1970.
    pub compacted_at: i64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// The number of partitions by the number of SSTables that contained them.
    pub rows_merged: BTreeMap<u32, u64>,
    /// `compaction_type` and others.
    pub compaction_properties: BTreeMap<String, String>,
}

/// A snapshot of a table.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct SnapshotReport {
    pub name: String,
    pub keyspace: String,
    pub table: String,
    /// Bytes that only the snapshot occupies.
    pub true_bytes: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Whether a repair of Cassandra created it for its own use.
    pub ephemeral: bool,
    /// In milliseconds since 1970.
    pub created_at: i64,
    /// In milliseconds since 1970.
    pub expires_at: Option<i64>,
}

/// Data of a table that is missing from the schema.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct UnknownTableReport {
    /// The table's id; `null` for an index.
    pub id: Option<String>,
    /// The keyspace; empty if only commit log records exist.
    pub keyspace: String,
    /// The table; empty if only commit log records exist.
    pub table: String,
    /// The index, if the data is that of one.
    pub index: Option<String>,
    /// The directory of its files; `null` if only commit log records exist.
    pub directory: Option<String>,
    /// SSTables in the directory.
    pub sstables: u64,
    /// Bytes of the files in it.
    pub bytes: u64,
    /// Commit log segments kept for the table.
    pub log_segments: u64,
    /// Bytes of these segments.
    pub log_bytes: u64,
}

/// A guardrail and its current value.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct GuardrailReport {
    /// The key in cassandra.yaml.
    pub name: String,
    /// The value in the format of cassandra.yaml; `None` for null.
    pub value: Option<String>,
    /// Whether Cassandra's nodetool lists it.
    pub in_cassandra: bool,
}

/// The timeout of a kind of requests.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct TimeoutReport {
    /// The kind, as `nodetool gettimeout` names it.
    pub name: String,
    /// `None` without a timeout.
    pub milliseconds: Option<u64>,
}

/// The most active partitions during an interval.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct TopPartitions {
    /// The partitions found by each sampler, by Cassandra's name, in descending order.
    pub samplers: BTreeMap<String, Vec<Sampled>>,
}

/// A partition or query found by a sampler.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Sampled {
    /// `keyspace.table`.
    pub table: String,
    /// The text of the partition key.
    pub partition: String,
    /// The estimated count or amount.
    pub count: u64,
    /// The maximum overestimation of `count`.
    pub error: u64,
}
