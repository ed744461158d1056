//! The virtual nodes of a server for tests: where tokens belong, and which nodes hold the replicas
//! of a partition. One store has all data; nodes differ in what clients see of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cassette_rows::Token;
use uuid::Uuid;

use crate::schema::catalog::Replication;
use crate::schema::options::replication::factors_by_name;

/// The number of tokens of a node, Cassandra's default.
const TOKENS: usize = 16;

/// A place for a virtual node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlace {
    /// The address for clients.
    pub address: IpAddr,
    /// The data center.
    pub data_center: String,
    /// The rack.
    pub rack: String,
}

/// A virtual node.
#[derive(Debug, Clone)]
pub struct VirtualNode {
    /// Its place.
    pub place: NodePlace,
    /// Its host id.
    pub host_id: Uuid,
    /// Its tokens, ascending.
    pub tokens: Vec<i64>,
}

/// Returns nodes at these places. The first has the host id of the store. Tokens are spread evenly,
/// and the owners of adjacent ones differ.
pub(crate) fn nodes_at(places: Vec<NodePlace>, host_id: Uuid) -> Vec<VirtualNode> {
    let count = places.len();
    let distance = u64::MAX / (count * TOKENS).max(1) as u64;
    let node = |(index, place): (usize, NodePlace)| {
        let token = |turn: usize| {
            let position = (turn * count + index) as u64 * distance;
            // From the lowest token on.
            (position as i64) ^ i64::MIN
        };
        VirtualNode {
            place,
            host_id: Uuid::from_u128(host_id.as_u128() ^ index as u128),
            tokens: (0..TOKENS).map(token).collect(),
        }
    };
    places.into_iter().enumerate().map(node).collect()
}

/// The ring of the nodes that are members of the cluster.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Tokens and their nodes, ascending.
    tokens: Vec<(i64, usize)>,
    /// The data center and the rack of each member, by node.
    places: BTreeMap<usize, (String, String)>,
}

impl Ring {
    /// Returns the ring of the nodes for which `is_member` holds.
    pub fn new(nodes: &[VirtualNode], is_member: impl Fn(usize) -> bool) -> Self {
        let members: Vec<(usize, &VirtualNode)> =
            nodes.iter().enumerate().filter(|(index, _)| is_member(*index)).collect();
        let mut tokens: Vec<(i64, usize)> = members
            .iter()
            .flat_map(|(index, node)| node.tokens.iter().map(move |token| (*token, *index)))
            .collect();
        tokens.sort_unstable();
        let place = |(index, node): &(usize, &VirtualNode)| {
            (*index, (node.place.data_center.clone(), node.place.rack.clone()))
        };
        Self { tokens, places: members.iter().map(place).collect() }
    }

    /// Returns a token of each range, for requests that read all of them.
    pub fn ranges(&self) -> impl Iterator<Item = Token> {
        self.tokens.iter().map(|(token, _)| Token(*token))
    }

    /// Returns the replicas of a token, the primary one first, as Cassandra's strategies choose
    /// them.
    pub fn replicas(&self, token: Token, replication: &Replication) -> Vec<usize> {
        let walk = self.walk(token);
        if !replication.is_by_data_center() {
            let factor = factors_by_name(replication).map(|(_, factor)| factor).next().unwrap_or(1);
            return walk.take(usize::try_from(factor).unwrap_or(0)).collect();
        }
        let mut centers: BTreeMap<&str, Center<'_>> = factors_by_name(replication)
            .filter_map(|(name, factor)| Some((name, self.center(name, usize::try_from(factor).ok()?))))
            .collect();
        walk.filter(|node| {
            let Some((center, rack)) = self.places.get(node) else { return false };
            centers.get_mut(center.as_str()).is_some_and(|center| center.accepts(rack))
        })
        .collect()
    }

    /// Returns the nodes in the order of the ring, each once, from the owner of a token on.
    fn walk(&self, token: Token) -> impl Iterator<Item = usize> {
        let first = self.tokens.partition_point(|(own, _)| *own < token.0);
        let mut seen = Vec::with_capacity(self.places.len());
        for (_, node) in self.tokens[first..].iter().chain(&self.tokens[..first]) {
            if !seen.contains(node) {
                seen.push(*node);
            }
        }
        seen.into_iter()
    }

    fn center(&self, name: &str, factor: usize) -> Center<'_> {
        let own = || self.places.values().filter(|(center, _)| center == name);
        let mut racks: Vec<&str> = own().map(|(_, rack)| rack.as_str()).collect();
        racks.sort_unstable();
        racks.dedup();
        let left = factor.min(own().count());
        Center { left, repeats: left.saturating_sub(racks.len()), racks: Vec::new() }
    }
}

/// The replicas of a data center while they are chosen.
#[derive(Debug)]
struct Center<'a> {
    /// How many are still to be chosen.
    left: usize,
    /// How many of them can be in a rack that has one already.
    repeats: usize,
    racks: Vec<&'a str>,
}

impl<'a> Center<'a> {
    /// Chooses a node of a rack, or skips it.
    fn accepts(&mut self, rack: &'a str) -> bool {
        if self.left == 0 {
            return false;
        }
        if !self.racks.contains(&rack) {
            self.racks.push(rack);
        } else if self.repeats == 0 {
            return false;
        } else {
            self.repeats -= 1;
        }
        self.left -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(places: &[(&str, &str)]) -> Vec<VirtualNode> {
        let place = |(index, (data_center, rack)): (usize, &(&str, &str))| NodePlace {
            address: [127, 0, 0, 1 + index as u8].into(),
            data_center: (*data_center).to_owned(),
            rack: (*rack).to_owned(),
        };
        nodes_at(places.iter().enumerate().map(place).collect(), Uuid::from_u128(1 << 80))
    }

    fn by_data_center(factors: &[(&str, u32)]) -> Replication {
        let options = factors.iter().map(|(name, factor)| ((*name).to_owned(), factor.to_string()));
        let class = "org.apache.cassandra.locator.NetworkTopologyStrategy".to_owned();
        Replication { class, options: options.collect() }
    }

    #[test]
    fn nodes_have_distinct_host_ids_and_share_the_ring_evenly() {
        let nodes = nodes(&[("dc1", "r1"); 3]);
        let ring = Ring::new(&nodes, |_| true);
        assert_eq!(ring.tokens.len(), 3 * TOKENS);
        assert!(ring.tokens.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1));
        assert_eq!(ring.tokens[0].0, i64::MIN);
        let ids: std::collections::HashSet<Uuid> = nodes.iter().map(|node| node.host_id).collect();
        assert_eq!(ids.len(), 3);
    }

    #[test]
    fn a_token_belongs_to_the_first_node_at_or_after_it() {
        let nodes = nodes(&[("dc1", "r1"); 3]);
        let ring = Ring::new(&nodes, |_| true);
        let one = Replication::simple(1);
        for (token, node) in &ring.tokens {
            assert_eq!(ring.replicas(Token(*token), &one), [*node]);
            assert_eq!(ring.replicas(Token(token.wrapping_add(1)), &one), [(node + 1) % 3]);
        }
        assert_eq!(ring.replicas(Token::MAX, &Replication::simple(2)), [0, 1]);
        assert_eq!(ring.replicas(Token::MAX, &Replication::simple(5)), [0, 1, 2], "all there are");
    }

    #[test]
    fn data_centers_have_their_own_replicas_in_distinct_racks_first() {
        let nodes = nodes(&[
            ("dc1", "r1"),
            ("dc1", "r1"),
            ("dc1", "r2"),
            ("dc2", "r1"),
            ("dc2", "r1"),
            ("dc2", "r1"),
        ]);
        let ring = Ring::new(&nodes, |_| true);
        let replication = by_data_center(&[("dc1", 2), ("dc2", 1)]);
        for token in ring.ranges() {
            let replicas = ring.replicas(token, &replication);
            let first: Vec<usize> = replicas.iter().copied().filter(|node| *node < 3).collect();
            assert_eq!((first.len(), replicas.len()), (2, 3), "{replicas:?}");
            assert!(first.contains(&2), "the only node of its rack: {replicas:?}");
        }
    }

    #[test]
    fn removed_nodes_own_nothing() {
        let nodes = nodes(&[("dc1", "r1"); 3]);
        let ring = Ring::new(&nodes, |node| node != 1);
        assert!(ring.ranges().all(|token| ring.replicas(token, &Replication::simple(3)).len() == 2));
    }
}
