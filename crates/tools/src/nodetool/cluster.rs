//! `status`, `ring` and `describecluster`: a cluster of one node.

use cassette_admin_api::NodeReport;

use super::text::{Table, file_size};
use super::{Failure, Result};

/// Rejects an unknown keyspace.
pub(super) fn check_keyspace(node: &NodeReport, keyspace: Option<&String>) -> Result<()> {
    match keyspace {
        Some(keyspace) if !node.keyspaces.iter().any(|known| known.name == *keyspace) => {
            Err(Failure::Said(format!("\nError: The keyspace {keyspace}, does not exist")))
        }
        _ => Ok(()),
    }
}

fn address(node: &NodeReport, with_port: bool) -> String {
    if with_port { format!("{}:7000", node.address) } else { node.address.clone() }
}

fn token(node: &NodeReport) -> &str {
    node.tokens.first().map_or("?", String::as_str)
}

/// Formats the node, by data center.
pub(super) fn status(node: &NodeReport, with_port: bool) -> String {
    let title = format!("Datacenter: {}", node.data_center);
    let mut table = Table::default();
    table.row(["--", "Address", "Load", "Owns (effective)", "Host ID", "Token", "Rack"]);
    let load = file_size(node.load_bytes);
    let address = address(node, with_port);
    table.row(["UN", &address, &load, "100.0%", &node.host_id, token(node), &node.rack]);
    format!(
        "{title}\n{}\nStatus=Up/Down\n|/ State=Normal/Leaving/Joining/Moving\n{}\n",
        "=".repeat(title.chars().count()),
        table.text("  ")
    )
}

/// The node's token.
pub(super) fn ring(node: &NodeReport, with_port: bool) -> String {
    let address = address(node, with_port);
    let width = node.address.len() + ":7000".len();
    let row = |cells: [&str; 7]| {
        let [address, rack, status, state, load, owns, token] = cells;
        format!("{address:<width$}  {rack:<12}{status:<7}{state:<8}{load:<16}{owns:<20}{token:<44}\n")
    };
    let load = file_size(node.load_bytes);
    let header = row(["Address", "Rack", "Status", "State", "Load", "Owns", "Token"]);
    let line = row([&address, &node.rack, "Up", "Normal", &load, "100.00%", token(node)]);
    format!("\nDatacenter: {}\n==========\n{header}\n{line}\n\n  ", node.data_center)
}

/// The cluster's name, versions and keyspaces.
pub(super) fn describe(node: &NodeReport, with_port: bool) -> String {
    let mut text = "Cluster Information:\n".to_owned();
    text += &format!("\tName: {}\n", node.cluster_name);
    text += "\tSnitch: org.apache.cassandra.locator.SimpleSnitch\n";
    text += "\tDynamicEndPointSnitch: disabled\n";
    text += &format!("\tPartitioner: {}\n", node.partitioner);
    text += &format!("\tSchema versions:\n\t\t{}: [{}]\n\n", node.schema_version, address(node, with_port));
    text += "Stats for all nodes:\n\tLive: 1\n\tJoining: 0\n\tMoving: 0\n\tLeaving: 0\n\tUnreachable: 0\n";
    text += &format!("\nData Centers: \n\t{} #Nodes: 1 #Down: 0\n", node.data_center);
    text += &format!("\nDatabase versions:\n\t{}: [{}]\n\n", node.release_version, address(node, true));
    text += "Keyspaces:\n";
    for keyspace in node.keyspaces.iter().filter(|keyspace| !keyspace.is_virtual) {
        let options: Vec<_> =
            keyspace.replication_options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (name, class) = (&keyspace.name, &keyspace.replication_class);
        text += &format!("\t{name} -> Replication class: {class} {{{}}}\n", options.join(", "));
    }
    text
}
