//! Which node replicates which tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use uuid::Uuid;

use crate::token_range::{TokenRange, normalized};

/// A node of a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub host_id: Uuid,
    /// Of its storage port.
    pub address: SocketAddr,
    pub data_center: String,
    pub rack: String,
    pub tokens: Vec<i64>,
    pub release: String,
}

/// How a keyspace is replicated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replication {
    /// On this number of nodes that follow a token.
    Simple(usize),
    /// On this number of nodes of each data center, in different racks as far as possible.
    Network(BTreeMap<String, usize>),
    /// On all nodes.
    Everywhere,
}

impl Replication {
    /// Parses the options in `system_schema.keyspaces`.
    ///
    /// # Errors
    /// A text for users.
    pub fn parse(options: &[(String, String)]) -> Result<Self, String> {
        let class = options.iter().find(|(name, _)| name == "class").map_or("", |(_, class)| class);
        let factor = |value: &str| {
            value.parse::<usize>().map_err(|_| {
                format!(
                    "expected a number of replicas, found {value:?}; transient replication is not supported"
                )
            })
        };
        let others = || options.iter().filter(|(name, _)| name != "class");
        match class.rsplit('.').next().unwrap_or_default() {
            "SimpleStrategy" => {
                let found = others().find(|(name, _)| name == "replication_factor");
                Ok(Self::Simple(factor(found.map_or("", |(_, value)| value))?))
            }
            "NetworkTopologyStrategy" => others()
                .map(|(name, value)| Ok((name.clone(), factor(value)?)))
                .collect::<Result<_, _>>()
                .map(Self::Network),
            "EverywhereStrategy" => Ok(Self::Everywhere),
            other => Err(format!(
                "expected SimpleStrategy, NetworkTopologyStrategy or EverywhereStrategy, found {other:?}"
            )),
        }
    }

    /// Returns the normalized ranges of the tokens of each node.
    pub fn ranges(&self, nodes: &[Node]) -> Vec<Vec<TokenRange>> {
        let mut ring: Vec<(i64, usize)> = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            ring.extend(node.tokens.iter().map(|token| (*token, index)));
        }
        ring.sort_unstable();
        let mut ranges = vec![Vec::new(); nodes.len()];
        for (at, (end, _)) in ring.iter().enumerate() {
            let previous = if at == 0 { ring.len() - 1 } else { at - 1 };
            let start = ring[previous].0;
            let around = ring[at..].iter().chain(&ring[..at]).map(|(_, node)| *node);
            for node in self.replicas(around, nodes) {
                if at == 0 {
                    ranges[node].push(TokenRange(i64::MIN, *end));
                    ranges[node].push(TokenRange(start, i64::MAX));
                } else {
                    ranges[node].push(TokenRange(start, *end));
                }
            }
        }
        ranges.into_iter().map(normalized).collect()
    }

    /// Returns the replicas of a token, of which `around` are the owners of the tokens from it on.
    fn replicas(&self, around: impl Iterator<Item = usize>, nodes: &[Node]) -> Vec<usize> {
        match self {
            Self::Simple(factor) => {
                let mut found = Vec::new();
                for node in around {
                    if found.len() == *factor {
                        break;
                    }
                    if !found.contains(&node) {
                        found.push(node);
                    }
                }
                found
            }
            Self::Network(factors) => in_data_centers(factors, around, nodes),
            Self::Everywhere => (0..nodes.len()).collect(),
        }
    }
}

/// As `NetworkTopologyStrategy.calculateNaturalReplicas`: of each data center the first nodes of
/// different racks; nodes of a rack that has a replica already, as far as there are more replicas
/// than racks.
fn in_data_centers(
    factors: &BTreeMap<String, usize>,
    around: impl Iterator<Item = usize>,
    nodes: &[Node],
) -> Vec<usize> {
    struct Left {
        replicas: usize,
        rack_repeats: usize,
    }
    let mut left: BTreeMap<&str, Left> = BTreeMap::new();
    for (data_center, factor) in factors {
        let members = nodes.iter().filter(|node| node.data_center == *data_center && !node.tokens.is_empty());
        let racks: BTreeSet<&str> = members.clone().map(|node| node.rack.as_str()).collect();
        let replicas = (*factor).min(members.count());
        left.insert(data_center, Left { replicas, rack_repeats: factor.saturating_sub(racks.len()) });
    }
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for index in around {
        let node = &nodes[index];
        let Some(left) = left.get_mut(node.data_center.as_str()) else { continue };
        if left.replicas == 0 || found.contains(&index) {
            continue;
        }
        if !seen.insert((&node.data_center, &node.rack)) {
            if left.rack_repeats == 0 {
                continue;
            }
            left.rack_repeats -= 1;
        }
        left.replicas -= 1;
        found.push(index);
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(number: u8, data_center: &str, rack: &str, tokens: &[i64]) -> Node {
        Node {
            host_id: Uuid::from_u128(number.into()),
            address: ([127, 0, 0, number], 7000).into(),
            data_center: data_center.into(),
            rack: rack.into(),
            tokens: tokens.to_vec(),
            release: "5.0.8".into(),
        }
    }

    fn network(factors: &[(&str, usize)]) -> Replication {
        Replication::Network(factors.iter().map(|(name, factor)| ((*name).to_owned(), *factor)).collect())
    }

    #[test]
    fn a_simple_strategy_takes_the_nodes_that_follow() {
        let nodes = [node(1, "a", "r", &[0]), node(2, "a", "r", &[10]), node(3, "a", "r", &[20])];
        let all = vec![vec![TokenRange(i64::MIN, i64::MAX)]; 3];
        assert_eq!(Replication::Simple(3).ranges(&nodes), all);
        assert_eq!(Replication::Simple(9).ranges(&nodes), all);
        assert_eq!(Replication::Everywhere.ranges(&nodes), all);
        assert_eq!(
            Replication::Simple(1).ranges(&nodes),
            [
                vec![TokenRange(i64::MIN, 0), TokenRange(20, i64::MAX)],
                vec![TokenRange(0, 10)],
                vec![TokenRange(10, 20)],
            ]
        );
        let two = Replication::Simple(2).ranges(&nodes);
        assert_eq!(two[1], [TokenRange(i64::MIN, 10), TokenRange(20, i64::MAX)]);
        assert_eq!(two[2], [TokenRange(0, 20)]);
    }

    #[test]
    fn racks_get_one_replica_each_before_any_gets_two() {
        let nodes = [
            node(1, "a", "r1", &[0]),
            node(2, "a", "r1", &[10]),
            node(3, "a", "r2", &[20]),
            node(4, "b", "r1", &[5]),
        ];
        let two = network(&[("a", 2), ("b", 1)]).ranges(&nodes);
        let whole = vec![TokenRange(i64::MIN, i64::MAX)];
        assert_eq!(two[3], whole, "the only node of its data center");
        assert_eq!(two[2], whole, "the only node of its rack");
        assert_eq!(two[0], [TokenRange(i64::MIN, 0), TokenRange(10, i64::MAX)]);
        assert_eq!(two[1], [TokenRange(0, 10)]);
        let three = network(&[("a", 3)]).ranges(&nodes);
        assert_eq!(three[..3], [whole.clone(), whole.clone(), whole]);
        assert_eq!(three[3], []);
        assert_eq!(network(&[("nowhere", 3)]).ranges(&nodes), vec![vec![]; 4]);
    }

    #[test]
    fn options_of_other_strategies_are_rejected() {
        let options = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let simple =
            options(&[("class", "org.apache.cassandra.locator.SimpleStrategy"), ("replication_factor", "2")]);
        assert_eq!(Replication::parse(&simple), Ok(Replication::Simple(2)));
        let both = options(&[("class", "NetworkTopologyStrategy"), ("dc1", "3"), ("dc2", "1")]);
        assert_eq!(Replication::parse(&both), Ok(network(&[("dc1", 3), ("dc2", 1)])));
        let transient = options(&[("class", "NetworkTopologyStrategy"), ("dc1", "3/1")]);
        assert!(Replication::parse(&transient).unwrap_err().contains("transient"));
        assert!(Replication::parse(&options(&[("class", "LocalStrategy")])).is_err());
        assert!(Replication::parse(&options(&[("class", "SimpleStrategy")])).is_err());
    }

    proptest! {
        #[test]
        fn every_token_is_on_as_many_nodes_as_replicas(
            placements in prop::collection::vec((0..3usize, 0..3usize), 1..9),
            tokens in prop::collection::hash_set(-1000i64..1000, 20..40),
            factors in prop::collection::vec(0..4usize, 3),
            probes in prop::collection::vec(-1100i64..1100, 20),
        ) {
            let names = ["x", "y", "z"];
            let tokens: Vec<i64> = tokens.into_iter().collect();
            let count = placements.len();
            let nodes: Vec<Node> = placements.iter().enumerate().map(|(index, (data_center, rack))| {
                let own: Vec<i64> = tokens.iter().copied().skip(index).step_by(count).collect();
                node(index as u8, names[*data_center], names[*rack], &own)
            }).collect();
            let replication = network(&[("x", factors[0]), ("y", factors[1]), ("z", factors[2])]);
            let ranges = replication.ranges(&nodes);
            for token in probes {
                for (name, factor) in names.iter().zip(&factors) {
                    let members: Vec<usize> =
                        (0..count).filter(|index| nodes[*index].data_center == *name).collect();
                    let holders: Vec<usize> = members.iter().copied().filter(|index| {
                        ranges[*index].iter().any(|range| range.contains(token))
                    }).collect();
                    prop_assert_eq!(holders.len(), (*factor).min(members.len()));
                    let racks = |of: &[usize]| {
                        of.iter().map(|index| nodes[*index].rack.clone()).collect::<BTreeSet<_>>().len()
                    };
                    prop_assert_eq!(racks(&holders), (*factor).min(racks(&members)));
                }
            }
        }
    }
}
