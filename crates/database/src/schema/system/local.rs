//! `system.local`: what this node says of itself.

use std::net::{IpAddr, Ipv4Addr};

use cassette_engine::Mutation;
use uuid::Uuid;

use super::SYSTEM;
use super::encode::{Value, mutation, row_update};
use crate::schema::catalog::Catalog;

/// The version of Cassandra whose behaviour this database has.
pub const RELEASE_VERSION: &str = "5.0.8";
/// The version of CQL.
pub(crate) const CQL_VERSION: &str = "3.4.7";
/// The newest protocol version that is no beta.
pub(crate) const NATIVE_PROTOCOL_VERSION: &str = "5";
/// The partitioner's class.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// The port between nodes. Nothing listens there; drivers and tools show it.
pub(crate) const STORAGE_PORT: i32 = 7000;

/// What this node is called and where it is.
#[derive(Debug, Clone)]
pub struct Node {
    /// `cluster_name`.
    pub cluster_name: String,
    /// The only data center.
    pub data_center: String,
    /// The only rack.
    pub rack: String,
    /// Where clients connect: `rpc_address`, and every other address.
    pub address: IpAddr,
    /// Where clients connect: `rpc_port`.
    pub port: u16,
    /// The node's identity; made at the first start and kept.
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

/// The row of `system.local` but for its `schema_version`.
pub(crate) fn node_row(catalog: &Catalog, node: &Node, timestamp: i64) -> Option<Mutation> {
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
        ("tokens", Value::Set(vec![TOKEN.into()])),
    ];
    Some(mutation(table, "local", vec![row_update(table, &[], &values, timestamp)]))
}

/// The one token of a node that owns the whole ring: any would do.
pub const TOKEN: &str = "-9223372036854775808";

/// The new `schema_version` of `system.local`.
pub(crate) fn schema_version(catalog: &Catalog, timestamp: i64) -> Option<Mutation> {
    let table = catalog.table(SYSTEM, "local")?;
    let values = [("schema_version", catalog.version().into())];
    Some(mutation(table, "local", vec![row_update(table, &[], &values, timestamp)]))
}
