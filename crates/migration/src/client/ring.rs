//! Which node owns a token.

use cassette_client::Connection;
use cassette_protocol::{QueryParameters, Request, request::Query};

use super::{ClusterSettings, Failure, call, page};
use crate::cell::{address, list, text};
use crate::error::{MoveError, Result};
use crate::page::Page;

/// The nodes of the contact point's data center, and their tokens in order.
pub struct Ring {
    /// `host:port`: first the contact points.
    pub nodes: Vec<String>,
    tokens: Vec<(i64, usize)>,
}

impl Ring {
    /// Reads the ring from the node at `contact`.
    pub fn read(connection: &mut Connection, contact: &str, settings: &ClusterSettings) -> Result<Self> {
        let mut query = |text: &str| {
            let request =
                Request::Query(Query { query: text.into(), parameters: QueryParameters::default() });
            let answer = call(connection, &request).and_then(page);
            answer.map_err(|failure| match failure {
                Failure::Refused(reason) => {
                    MoveError::Refused { address: contact.to_owned(), statement: text.to_owned(), reason }
                }
                Failure::Retry(reason) => MoveError::Unreachable { address: contact.to_owned(), reason },
                Failure::Unprepared => MoveError::Unsuitable("a text cannot be unprepared".to_owned()),
            })
        };
        let local = query("SELECT data_center, tokens, partitioner FROM system.local")?;
        let partitioner = local.text(0, 2).unwrap_or_default();
        if !partitioner.ends_with("Murmur3Partitioner") {
            return Err(MoveError::Unsuitable(format!(
                "{contact} has {partitioner}, expected Murmur3Partitioner: other partitioners are not \
                 supported"
            )));
        }
        let peers = query("SELECT data_center, tokens, rpc_address FROM system.peers")?;
        let mut nodes = settings.contacts.clone();
        let local_node = nodes.iter().position(|node| node == contact).unwrap_or(0);
        let mut tokens = tokens(&local, 0, local_node);
        let port = contact.rsplit_once(':').map_or("9042", |(_, port)| port);
        for row in 0..peers.rows.len() {
            let address = peers.rows[row].get(2).and_then(|cell| address(cell.as_deref()?));
            let is_near = peers.text(row, 0) == local.text(0, 0);
            if let (Some(address), true) = (address, is_near) {
                let node = match address {
                    std::net::IpAddr::V4(address) => format!("{address}:{port}"),
                    std::net::IpAddr::V6(address) => format!("[{address}]:{port}"),
                };
                let index = nodes.iter().position(|known| *known == node).unwrap_or(nodes.len());
                if index == nodes.len() {
                    nodes.push(node);
                }
                tokens.extend(self::tokens(&peers, row, index));
            }
        }
        tokens.sort_unstable();
        Ok(Self { nodes, tokens })
    }

    /// Returns the node for the `attempt`-th attempt of a request on a token: the owner first, then
    /// the nodes that follow it on the ring.
    pub fn node(&self, token: i64, attempt: usize) -> usize {
        let start = self.tokens.partition_point(|(other, _)| *other < token);
        let mut order: Vec<usize> = Vec::with_capacity(self.nodes.len());
        let around = self.tokens[start..].iter().chain(&self.tokens[..start]).map(|(_, node)| *node);
        for node in around.chain(0..self.nodes.len()) {
            if order.len() > attempt % self.nodes.len() {
                break;
            }
            if !order.contains(&node) {
                order.push(node);
            }
        }
        order.last().copied().unwrap_or(0)
    }
}

fn tokens(page: &Page, row: usize, node: usize) -> Vec<(i64, usize)> {
    let cell = page.rows.get(row).and_then(|row| row.get(1)).cloned().flatten().unwrap_or_default();
    let texts = list(&cell).unwrap_or_default();
    texts.iter().flatten().filter_map(|token| Some((text(token)?.parse().ok()?, node))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_visit_the_owner_and_then_each_other_node_once() {
        let nodes = ["a", "b", "c"].map(str::to_owned).to_vec();
        let ring = Ring { nodes, tokens: vec![(-10, 1), (0, 2), (5, 1), (10, 2)] };
        let order = |token| (0..4).map(|attempt| ring.node(token, attempt)).collect::<Vec<_>>();
        assert_eq!(order(-11), [1, 2, 0, 1], "node 0 owns no token");
        assert_eq!(order(-9), [2, 1, 0, 2]);
        assert_eq!(order(5), [1, 2, 0, 1], "a token belongs to the node that has it");
        assert_eq!(order(11), [1, 2, 0, 1], "the ring closes");
        let one = Ring { nodes: vec!["a".to_owned()], tokens: Vec::new() };
        assert_eq!((one.node(7, 0), one.node(7, 5)), (0, 0));
    }
}
