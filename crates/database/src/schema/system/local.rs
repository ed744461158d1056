//! `system.local`: the description of this node.

use std::net::{IpAddr, Ipv4Addr};

use cassette_engine::Mutation;
use cassette_engine::commitlog::Position;
use cassette_rows::{Cell, Clustering, NO_DELETION_TIME, NO_TTL, RowBuilder, TableId};
use uuid::Uuid;

use super::SYSTEM;
use super::encode::{Value, mutation, row_update};
use crate::schema::catalog::Catalog;

/// The Cassandra version that this database implements.
pub const RELEASE_VERSION: &str = "5.0.8";
/// The CQL version.
pub(crate) const CQL_VERSION: &str = "3.4.7";
/// The newest protocol version that is not beta.
pub(crate) const NATIVE_PROTOCOL_VERSION: &str = "5";
/// The partitioner's class.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// The port between nodes, which drivers and tools show. Nothing listens on it.
pub(crate) const STORAGE_PORT: i32 = 7000;

/// The identity and address of this node.
#[derive(Debug, Clone)]
pub struct Node {
    /// `cluster_name`.
    pub cluster_name: String,
    /// The only data center.
    pub data_center: String,
    /// The only rack.
    pub rack: String,
    /// The address for clients: `rpc_address` and all other addresses.
    pub address: IpAddr,
    /// The port for clients: `rpc_port`.
    pub port: u16,
    /// The host id, created at the first start and kept.
    pub host_id: Uuid,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            cluster_name: "Test Cluster".into(),
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: 9042,
            host_id: Uuid::nil(),
        }
    }
}

/// Returns the row of `system.local`.
pub(crate) fn node_row(catalog: &Catalog, node: &Node, timestamp: i64) -> Option<Mutation> {
    row_of(catalog, node, &[TOKEN.to_owned()], timestamp)
}

/// [`node_row`] of a node with these tokens.
pub(crate) fn row_of(catalog: &Catalog, node: &Node, tokens: &[String], timestamp: i64) -> Option<Mutation> {
    let table = catalog.table(SYSTEM, "local")?;
    let values = [
        ("bootstrapped", "COMPLETED".into()),
        ("broadcast_address", node.address.into()),
        ("broadcast_port", STORAGE_PORT.into()),
        ("cluster_name", node.cluster_name.as_str().into()),
        ("cql_version", CQL_VERSION.into()),
        ("data_center", node.data_center.as_str().into()),
        ("gossip_generation", i32::try_from(timestamp / 1_000_000).unwrap_or(0).into()),
        ("host_id", node.host_id.into()),
        ("listen_address", node.address.into()),
        ("listen_port", STORAGE_PORT.into()),
        ("native_protocol_version", NATIVE_PROTOCOL_VERSION.into()),
        ("partitioner", PARTITIONER.into()),
        ("rack", node.rack.as_str().into()),
        ("release_version", RELEASE_VERSION.into()),
        ("rpc_address", node.address.into()),
        ("rpc_port", i32::from(node.port).into()),
        ("schema_version", catalog.version().into()),
        ("tokens", Value::Set(tokens.iter().map(|token| token.as_bytes().to_vec()).collect())),
    ];
    Some(mutation(table, "local", vec![row_update(table, &[], &values, timestamp)]))
}

/// The token of this node, which owns the whole ring; any value would do.
pub const TOKEN: &str = "-9223372036854775808";

/// Returns the update of `schema_version` in `system.local`.
pub(crate) fn schema_version(catalog: &Catalog, timestamp: i64) -> Option<Mutation> {
    let table = catalog.table(SYSTEM, "local")?;
    let values = [("schema_version", catalog.version().into())];
    Some(mutation(table, "local", vec![row_update(table, &[], &values, timestamp)]))
}

/// Returns the update of `truncated_at` in `system.local`: that a table was truncated at `position`
/// of the commit log, at `timestamp` (microseconds).
///
/// ```text
/// i64 segment, i32 offset, i64 milliseconds since 1970      for the key: the table's id
/// ```
pub(crate) fn truncated_at(
    catalog: &Catalog,
    truncated: TableId,
    position: Position,
    timestamp: i64,
) -> Option<Mutation> {
    let table = catalog.table(SYSTEM, "local")?;
    let column = table.column("truncated_at")?.id;
    let mut value = Vec::with_capacity(20);
    value.extend_from_slice(&position.segment.to_be_bytes());
    value.extend_from_slice(&position.offset.to_be_bytes());
    value.extend_from_slice(&timestamp.div_euclid(1000).to_be_bytes());
    let mut row = RowBuilder::new(Clustering::empty());
    row.cell(Cell {
        column,
        path: Some(truncated.0.as_bytes()),
        value: &value,
        timestamp,
        ttl: NO_TTL,
        local_deletion_time: NO_DELETION_TIME,
    });
    Some(mutation(table, "local", vec![row.finish()]))
}
