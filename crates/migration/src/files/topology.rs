//! The nodes of the target, as `system.local` and `system.peers_v2` show them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use uuid::Uuid;

use crate::cell::{address, list, text};
use crate::endpoint::Session;
use crate::error::{Result, unsuitable};
use crate::page::Page;
use crate::streaming::replicas::Node;

/// Cassandra's default.
const STORAGE_PORT: i32 = 7000;
/// A node writes what it knows of a peer column by column while the peer starts, and a repeated
/// request may go to another node, whose peers include the first one: both end within seconds.
const SETTLING_MAX: Duration = Duration::from_secs(30);
const ATTEMPT_PAUSE: Duration = Duration::from_millis(200);

const LOCAL: &str = "SELECT host_id, data_center, rack, tokens, release_version, broadcast_address, \
                     broadcast_port FROM system.local";
const PEERS: &str = "SELECT host_id, data_center, rack, tokens, release_version, peer, peer_port FROM \
                     system.peers_v2";

/// Returns all nodes that own tokens, with `port` as their storage port if specified. Waits for
/// nodes that are starting.
///
/// # Errors
/// If the cluster does not show its nodes, or they have different versions.
pub fn nodes(target: &mut Session<'_>, port: Option<u16>) -> Result<Vec<Node>> {
    let deadline = Instant::now() + SETTLING_MAX;
    loop {
        let (local, peers) = (target.query(LOCAL)?, target.query(PEERS)?);
        match ring(&local, &peers, port) {
            Ok(nodes) => {
                check(&nodes)?;
                return Ok(nodes);
            }
            Err(unsettled) if Instant::now() > deadline => return unsuitable(unsettled.to_string()),
            Err(_) => std::thread::sleep(ATTEMPT_PAUSE),
        }
    }
}

/// Checks that the target still has the nodes and tokens of `before`. SSTables that were sent
/// according to an older ring may be at nodes that do not replicate them.
///
/// # Errors
/// If they differ, or those of [`nodes`].
pub fn check_unchanged(target: &mut Session<'_>, before: &[Node]) -> Result<()> {
    // The port is not compared.
    let now = nodes(target, None)?;
    match changed(before, &now).as_slice() {
        [] => Ok(()),
        changed => unsuitable(format!(
            "the ring of the target changed during the move ({}), and SSTables may be at nodes that do not \
             replicate them: start the same command again, which sends what other nodes lack",
            changed.join(", ")
        )),
    }
}

/// Returns what happened to the nodes of a ring, in the order of their addresses.
fn changed(before: &[Node], now: &[Node]) -> Vec<String> {
    let sorted = |tokens: &[i64]| {
        let mut tokens = tokens.to_vec();
        tokens.sort_unstable();
        tokens
    };
    let find = |nodes: &[Node], node: &Node| {
        nodes.iter().find(|other| other.host_id == node.host_id).map(|other| sorted(&other.tokens))
    };
    let mut changed: Vec<(SocketAddr, &str)> = Vec::new();
    for node in before {
        match find(now, node) {
            None => changed.push((node.address, "left")),
            Some(tokens) if tokens != sorted(&node.tokens) => changed.push((node.address, "moved")),
            Some(_) => {}
        }
    }
    let joined = now.iter().filter(|node| find(before, node).is_none());
    changed.extend(joined.map(|node| (node.address, "joined")));
    changed.sort_unstable();
    changed.into_iter().map(|(address, what)| format!("{} {what}", address.ip())).collect()
}

/// Why the nodes that one answer shows are not a ring.
#[derive(Debug, PartialEq)]
enum Unsettled {
    /// A node of which not all is known: `None` is the one that was asked, or a peer without an
    /// address.
    Incomplete(Option<IpAddr>),
    /// Two nodes with the same identity.
    Different,
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = "wait until `nodetool status` shows all nodes as UN, and start the same command again";
        match self {
            Self::Incomplete(Some(address)) => write!(
                f,
                "system.peers_v2 of the target does not show the identity, place, version and tokens of \
                 {address}: {advice}; if the node no longer exists, remove it with `nodetool assassinate`"
            ),
            Self::Incomplete(None) => write!(
                f,
                "system.local of the target does not show the identity, place, version and tokens of the \
                 node: {advice}"
            ),
            Self::Different => {
                write!(f, "the target's nodes show different rings: {advice}")
            }
        }
    }
}

/// Returns the nodes with tokens of the answers to [`LOCAL`] and [`PEERS`].
fn ring(local: &Page, peers: &Page, port: Option<u16>) -> std::result::Result<Vec<Node>, Unsettled> {
    let mut nodes: Vec<Node> = Vec::new();
    for (page, is_peer) in [(local, false), (peers, true)] {
        for row in 0..page.rows.len() {
            let found = node(page, row, port);
            // The node that is asked may own none, but tokens of a peer are only written later than
            // the rest.
            let Some(found) = found.filter(|node| !(is_peer && node.tokens.is_empty())) else {
                let place = page.rows[row].get(5).and_then(|cell| address(cell.as_deref()?));
                return Err(Unsettled::Incomplete(place.filter(|_| is_peer)));
            };
            if nodes.iter().any(|node| node.host_id == found.host_id) {
                return Err(Unsettled::Different);
            }
            nodes.push(found);
        }
    }
    nodes.retain(|node| !node.tokens.is_empty());
    Ok(nodes)
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

    const TOKENS: &[u8] = b"\0\0\0\x01\0\0\0\x01\x35";

    /// A row with the columns of [`LOCAL`] and [`PEERS`].
    fn row(host: u8, tokens: Option<&'static [u8]>) -> Vec<Option<Bytes>> {
        let bytes = |bytes: &'static [u8]| Some(Bytes::from_static(bytes));
        let id = Some(Bytes::copy_from_slice(&[host; 16]));
        let address = Some(Bytes::copy_from_slice(&[127, 0, 0, host]));
        vec![id, bytes(b"dc"), bytes(b"r"), tokens.and_then(bytes), bytes(b"5.0.8"), address, None]
    }

    fn page(rows: Vec<Vec<Option<Bytes>>>) -> Page {
        Page { columns: Vec::new(), rows }
    }

    #[test]
    fn a_peer_of_which_the_node_does_not_know_all_yet_is_waited_for() {
        let local = page(vec![row(1, Some(TOKENS))]);
        let complete = ring(&local, &page(vec![row(2, Some(TOKENS))]), None).unwrap();
        assert_eq!(complete.iter().map(|node| node.tokens.clone()).collect::<Vec<_>>(), [[5], [5]]);
        let address = "127.0.0.2".parse().unwrap();
        let incomplete = |peer| ring(&local, &page(vec![peer]), None).unwrap_err();
        assert_eq!(incomplete(row(2, None)), Unsettled::Incomplete(Some(address)));
        for column in [0, 1, 2, 4] {
            let mut peer = row(2, Some(TOKENS));
            peer[column] = None;
            assert_eq!(incomplete(peer), Unsettled::Incomplete(Some(address)), "column {column}");
        }
        assert!(incomplete(row(2, None)).to_string().contains("127.0.0.2"));
    }

    #[test]
    fn answers_of_two_nodes_are_not_one_ring() {
        let local = page(vec![row(1, Some(TOKENS))]);
        let other = page(vec![row(1, Some(TOKENS)), row(3, Some(TOKENS))]);
        assert_eq!(ring(&local, &other, None).unwrap_err(), Unsettled::Different);
    }

    #[test]
    fn a_node_that_owns_no_tokens_is_not_in_the_ring() {
        let nodes = ring(&page(vec![row(1, None)]), &page(vec![row(2, Some(TOKENS))]), None).unwrap();
        assert_eq!(nodes.len(), 1);
        assert_eq!(nodes[0].address, ([127, 0, 0, 2], 7000).into());
    }

    #[test]
    fn nodes_that_joined_left_or_moved_are_named() {
        let node = |number: u8, tokens: &[i64]| Node {
            host_id: Uuid::from_u128(number.into()),
            address: ([127, 0, 0, number], 7000).into(),
            tokens: tokens.to_vec(),
            ..node("5.0.8")
        };
        let before = [node(2, &[10, 20]), node(1, &[30])];
        let with_port = |mut node: Node| {
            node.address.set_port(7001);
            node
        };
        assert!(changed(&before, &[node(1, &[30]), with_port(node(2, &[20, 10]))]).is_empty());
        assert_eq!(changed(&before[1..], &before), ["127.0.0.2 joined"]);
        let now = [node(3, &[5]), node(2, &[10, 21])];
        assert_eq!(changed(&before, &now), ["127.0.0.1 left", "127.0.0.2 moved", "127.0.0.3 joined"]);
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
