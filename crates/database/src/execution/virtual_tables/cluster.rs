//! `system.local`, `system.peers` and `system.peers_v2` as a virtual node shows them: itself, and
//! the other members of the cluster.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use cassette_engine::KeyRange;
use cassette_rows::{DecoratedKey, PartitionStream, PartitionUpdate, Selection, TableMetadata};

use super::{contains, stream};
use crate::schema::catalog::Catalog;
use crate::schema::system::SYSTEM;
use crate::schema::system::encode::{Value, row_update_of};
use crate::schema::system::local::{self, Node, RELEASE_VERSION, STORAGE_PORT};
use crate::schema::topology::VirtualNode;
use crate::store::Store;
use crate::store::virtual_nodes::NodeState;

/// A table that describes the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClusterTable {
    Local,
    Peers,
    PeersV2,
}

impl ClusterTable {
    fn of(table: &TableMetadata) -> Option<Self> {
        match table.name.as_str() {
            _ if table.keyspace != SYSTEM => None,
            "local" => Some(Self::Local),
            "peers" => Some(Self::Peers),
            "peers_v2" => Some(Self::PeersV2),
            _ => None,
        }
    }
}

/// Returns the partitions of a table that describes the cluster, as the node `viewer` shows them;
/// `None` for other tables, and without virtual nodes.
fn partitions(table: &Arc<TableMetadata>, store: &Store, viewer: u16) -> Option<Vec<PartitionUpdate>> {
    let nodes = store.virtual_nodes()?;
    let kind = ClusterTable::of(table)?;
    let catalog = store.catalog();
    let own = nodes.node(viewer.into())?;
    if kind == ClusterTable::Local {
        let node = Node {
            data_center: own.place.data_center.clone(),
            rack: own.place.rack.clone(),
            address: own.place.address,
            host_id: own.host_id,
            ..store.node().clone()
        };
        let row = local::row_of(&catalog, &node, &texts(own), 1)?;
        return Some(vec![row.update]);
    }
    let is_peer = |(index, node): &(usize, &VirtualNode)| {
        nodes.state(*index) != NodeState::Removed && node.host_id != own.host_id
    };
    let peers = nodes.nodes().iter().enumerate().filter(is_peer);
    Some(peers.map(|(_, node)| peer(table, kind, &catalog, node, store.node().port)).collect())
}

fn peer(
    table: &Arc<TableMetadata>,
    kind: ClusterTable,
    catalog: &Catalog,
    node: &VirtualNode,
    port: u16,
) -> PartitionUpdate {
    let address = node.place.address;
    let mut values: Vec<(&str, Value)> = vec![
        ("data_center", node.place.data_center.as_str().into()),
        ("host_id", node.host_id.into()),
        ("rack", node.place.rack.as_str().into()),
        ("release_version", RELEASE_VERSION.into()),
        ("schema_version", catalog.version().into()),
        ("tokens", Value::Set(texts(node).into_iter().map(String::into_bytes).collect())),
    ];
    let mut partition = PartitionUpdate::new(inet_key(address));
    let storage_port = STORAGE_PORT.to_be_bytes();
    let clustering: &[&[u8]] = match kind {
        ClusterTable::PeersV2 => {
            values.push(("native_address", address.into()));
            values.push(("native_port", i32::from(port).into()));
            &[&storage_port]
        }
        ClusterTable::Peers | ClusterTable::Local => {
            values.push(("rpc_address", address.into()));
            &[]
        }
    };
    partition.add_row(row_update_of(table, clustering, &values, 1), table);
    partition
}

fn texts(node: &VirtualNode) -> Vec<String> {
    node.tokens.iter().map(i64::to_string).collect()
}

/// Returns the partition key of an address.
pub(super) fn inet_key(address: IpAddr) -> DecoratedKey {
    DecoratedKey::new(match address {
        IpAddr::V4(address) => Bytes::copy_from_slice(&address.octets()),
        IpAddr::V6(address) => Bytes::copy_from_slice(&address.octets()),
    })
}

/// Returns the partition of a table that describes the cluster; `None` for other tables, and
/// without virtual nodes.
pub(crate) fn read_cluster(
    table: &Arc<TableMetadata>,
    store: &Store,
    viewer: u16,
    key: &DecoratedKey,
    selection: &Selection,
) -> Option<Box<dyn PartitionStream>> {
    let mut partitions = partitions(table, store, viewer)?;
    partitions.retain(|partition| partition.key == *key);
    Some(stream(partitions, table, selection))
}

/// [`read_cluster`] for the partitions within `range`, in their order.
pub(crate) fn scan_cluster(
    table: &Arc<TableMetadata>,
    store: &Store,
    viewer: u16,
    range: &KeyRange,
    selection: &Selection,
) -> Option<Box<dyn PartitionStream>> {
    let mut partitions = partitions(table, store, viewer)?;
    partitions.retain(|partition| contains(range, &partition.key));
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    Some(stream(partitions, table, selection))
}
