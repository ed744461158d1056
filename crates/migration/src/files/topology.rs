//! The nodes of the target, as `system.local` and `system.peers_v2` show them.

use std::net::SocketAddr;

use bytes::Bytes;
use uuid::Uuid;

use crate::cell::{address, list, text};
use crate::endpoint::Session;
use crate::error::{Result, unsuitable};
use crate::page::Page;
use crate::streaming::replicas::Node;

/// Cassandra's default.
const STORAGE_PORT: i32 = 7000;
/// A repeated request may go to another node, whose peers include the first one.
const ATTEMPTS: usize = 3;

const LOCAL: &str = "SELECT host_id, data_center, rack, tokens, release_version, broadcast_address, \
                     broadcast_port FROM system.local";
const PEERS: &str = "SELECT host_id, data_center, rack, tokens, release_version, peer, peer_port FROM \
                     system.peers_v2";

/// Returns all nodes that own tokens, with `port` as their storage port if specified.
///
/// # Errors
/// If the cluster does not show its nodes, or they have different versions.
pub fn nodes(target: &mut Session<'_>, port: Option<u16>) -> Result<Vec<Node>> {
    for _ in 0..ATTEMPTS {
        let (local, peers) = (target.query(LOCAL)?, target.query(PEERS)?);
        let rows = |page: &'_ Page| (0..page.rows.len()).collect::<Vec<_>>();
        let mut nodes = Vec::new();
        for (page, row) in rows(&local)
            .into_iter()
            .map(|row| (&local, row))
            .chain(rows(&peers).into_iter().map(|row| (&peers, row)))
        {
            match node(page, row, port) {
                Some(node) => nodes.push(node),
                None => return unsuitable("the target does not show the addresses and tokens of its nodes"),
            }
        }
        nodes.retain(|node| !node.tokens.is_empty());
        let is_again = |index: usize| nodes[..index].iter().any(|node| node.host_id == nodes[index].host_id);
        if !(0..nodes.len()).any(is_again) {
            check(&nodes)?;
            return Ok(nodes);
        }
    }
    unsuitable(
        "the target's nodes show different rings: wait until `nodetool describecluster` shows one version",
    )
}

fn check(nodes: &[Node]) -> Result<()> {
    if nodes.is_empty() {
        return unsuitable("no node of the target owns tokens");
    }
    let mut majors: Vec<Option<u32>> = nodes.iter().map(major).collect();
    majors.sort_unstable();
    majors.dedup();
    match majors.as_slice() {
        [Some(4..)] => Ok(()),
        [_] => unsuitable(format!(
            "expected Cassandra 4.0 or later at the target, found {}: use --by rows",
            nodes[0].release
        )),
        _ => {
            let mut releases: Vec<_> = nodes.iter().map(|node| node.release.clone()).collect();
            releases.sort();
            releases.dedup();
            unsuitable(format!(
                "nodes of the target have versions {}, which cannot receive the same files: complete the \
                 upgrade first, or use --by rows",
                releases.join(", ")
            ))
        }
    }
}

/// Returns the major version of a node.
pub fn major(node: &Node) -> Option<u32> {
    node.release.split('.').next()?.parse().ok()
}

/// Columns are at the places of [`LOCAL`] and [`PEERS`].
fn node(page: &Page, row: usize, port: Option<u16>) -> Option<Node> {
    let cell = |column: usize| page.rows.get(row)?.get(column)?.clone();
    let number = |bytes: Bytes| bytes.as_ref().try_into().ok().map(i32::from_be_bytes);
    let stored_port = cell(6).and_then(number).unwrap_or(STORAGE_PORT);
    let tokens = list(&cell(3).unwrap_or_default())?;
    Some(Node {
        host_id: Uuid::from_slice(&cell(0)?).ok()?,
        data_center: page.text(row, 1)?,
        rack: page.text(row, 2)?,
        tokens: tokens.iter().flatten().map(|token| text(token)?.parse().ok()).collect::<Option<_>>()?,
        release: page.text(row, 4)?,
        address: SocketAddr::new(address(&cell(5)?)?, port.or(u16::try_from(stored_port).ok())?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(release: &str) -> Node {
        Node {
            host_id: Uuid::from_u128(1),
            address: ([127, 0, 0, 1], 7000).into(),
            data_center: "dc".into(),
            rack: "r".into(),
            tokens: vec![1],
            release: release.into(),
        }
    }

    #[test]
    fn clusters_of_one_version_from_4_0_on_are_accepted() {
        assert!(check(&[node("5.0.8"), node("5.0.2")]).is_ok());
        assert!(check(&[node("4.1.3-SNAPSHOT")]).is_ok());
        let mixed = check(&[node("5.0.8"), node("4.1.0")]).unwrap_err().to_string();
        assert!(mixed.contains("4.1.0, 5.0.8"), "{mixed}");
        assert!(check(&[node("3.11.4")]).unwrap_err().to_string().contains("found 3.11.4"));
        assert!(check(&[]).is_err());
    }
}
