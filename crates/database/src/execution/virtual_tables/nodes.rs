//! `system_testing.cassette_nodes`: the virtual nodes, with their states, which can be changed, and
//! how many requests each has coordinated.

use std::net::IpAddr;
use std::sync::Arc;

use cassette_engine::{Mutation, may_wait};
use cassette_rows::{PartitionUpdate, TableMetadata};

use super::VirtualTable;
use super::cluster::inet_key;
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::schema::system::encode::{StoredRow, Value, row_update};
use crate::schema::testing::NODES_TABLE;
use crate::schema::topology::VirtualNode;
use crate::store::Store;
use crate::store::virtual_nodes::NodeState;

/// `system_testing.cassette_nodes`
#[derive(Debug)]
pub(super) struct NodeStates;

impl NodeStates {
    /// Returns its CREATE TABLE and its comment.
    pub fn definition() -> (String, &'static str) {
        let cql = format!(
            "CREATE TABLE {NODES_TABLE} (address inet PRIMARY KEY, port int, host_id uuid, data_center text, \
             rack text, state text, requests bigint, requests_as_replica bigint)"
        );
        (cql, "virtual nodes and their states")
    }
}

impl VirtualTable for NodeStates {
    fn partitions(&self, table: &Arc<TableMetadata>, store: &Store) -> Vec<PartitionUpdate> {
        let Some(nodes) = store.virtual_nodes() else { return Vec::new() };
        let count = |count: u64| Value::from(i64::try_from(count).unwrap_or(i64::MAX));
        let partition = |(index, node): (usize, &VirtualNode)| {
            let counts = nodes.counts(index);
            let values = [
                ("port", i32::from(store.node().port).into()),
                ("host_id", node.host_id.into()),
                ("data_center", node.place.data_center.as_str().into()),
                ("rack", node.place.rack.as_str().into()),
                ("state", nodes.state(index).name().into()),
                ("requests", count(counts.requests)),
                ("requests_as_replica", count(counts.as_replica)),
            ];
            let mut partition = PartitionUpdate::new(inet_key(node.place.address));
            partition.add_row(row_update(table, &[], &values, 1), table);
            partition
        };
        nodes.nodes().iter().enumerate().map(partition).collect()
    }
}

/// Changes the states of nodes.
///
/// # Errors
/// Invalid, for changes of other columns, deletions, and states that a node cannot have;
/// WouldBlock, if this thread must not wait.
pub(super) fn apply(mutations: &[Mutation], store: &Store) -> Result<()> {
    let Some(nodes) = store.virtual_nodes() else {
        bail_invalid!("there are no virtual nodes: start the server with --nodes")
    };
    for Mutation { table, update } in mutations {
        let key = update.key.key();
        let address = match (<[u8; 4]>::try_from(key), <[u8; 16]>::try_from(key)) {
            (Ok(address), _) => IpAddr::from(address),
            (_, Ok(address)) => IpAddr::from(address),
            _ => bail_invalid!("address: expected 4 or 16 bytes, found {}", key.len()),
        };
        let is_deletion =
            !update.deletion.is_live() || update.rows.iter().any(|row| !row.deletion().is_live());
        if is_deletion {
            bail_invalid!("nodes cannot be deleted: set the state to removed");
        }
        for row in &update.rows {
            let state = StoredRow { table, row, now: 0 }.text("state");
            let columns = row.cells().len();
            let Some(state) = state.filter(|_| columns == 1) else {
                bail_invalid!("only the state of a node can be changed: to up, down or removed");
            };
            let Some(state) = NodeState::named(state) else {
                bail_invalid!("state: expected up, down or removed, found {state}");
            };
            if !may_wait() {
                return Err(DatabaseError::WouldBlock);
            }
            nodes.set_state(address, state)?;
        }
    }
    Ok(())
}
