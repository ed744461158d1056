//! SHOW REPLICAS: the nodes that store a token.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Result, command};
use crate::shell::Shell;

/// A token of a node.
struct RingEntry {
    token: i64,
    address: String,
    data_center: String,
    rack: String,
}

impl Shell {
    pub(super) fn show_replicas(&mut self, token: i64, keyspace: Option<String>) -> Result<()> {
        let keyspace = keyspace.or_else(|| self.session.keyspace.clone());
        let keyspace =
            keyspace.ok_or_else(|| command("no keyspace: expected one after the token, or USE"))?;
        let schema = self.schema()?;
        let found = schema.keyspaces.get(&keyspace);
        let replication =
            found.ok_or_else(|| command(format!("keyspace {keyspace} does not exist")))?.replication.clone();
        let ring = self.ring()?;
        let names: Vec<String> =
            replicas(&ring, token, &replication).iter().map(|address| format!("'{address}'")).collect();
        self.out.say(&format!("[{}]\n", names.join(", ")));
        Ok(())
    }

    /// Reads the ring, in the order of tokens.
    fn ring(&mut self) -> Result<Vec<RingEntry>> {
        let mut ring = Vec::new();
        for (table, address) in [("local", "broadcast_address"), ("peers", "peer")] {
            let statement = format!("SELECT {address}, data_center, rack, tokens FROM system.{table}");
            let rows = self.session.query(&statement)?;
            for row in 0..rows.len() {
                for token in rows.texts(row, "tokens").iter().filter_map(|token| token.parse().ok()) {
                    ring.push(RingEntry {
                        token,
                        address: rows.text(row, address),
                        data_center: rows.text(row, "data_center"),
                        rack: rows.text(row, "rack"),
                    });
                }
            }
        }
        ring.sort_by_key(|entry| entry.token);
        Ok(ring)
    }
}

/// Returns the addresses of a token's replicas.
fn replicas<'a>(ring: &'a [RingEntry], token: i64, replication: &BTreeMap<String, String>) -> Vec<&'a str> {
    let start = ring.partition_point(|entry| entry.token < token);
    let around: Vec<&RingEntry> = ring.iter().skip(start).chain(ring.iter().take(start)).collect();
    let class = replication.get("class").map(String::as_str).unwrap_or_default();
    let factor = |text: &String| text.split('/').next().and_then(|count| count.parse().ok()).unwrap_or(0);
    if class.ends_with("SimpleStrategy") {
        let count = replication.get("replication_factor").map_or(0, factor);
        return distinct(around.iter().map(|entry| entry.address.as_str()), count);
    }
    if !class.ends_with("NetworkTopologyStrategy") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (data_center, count) in replication.iter().filter(|(name, _)| *name != "class") {
        let near: Vec<&&RingEntry> =
            around.iter().filter(|entry| entry.data_center == *data_center).collect();
        found.extend(spread_over_racks(&near, factor(count)));
    }
    found
}

/// Chooses nodes in the order of the ring, one of each rack before a second one of a rack.
fn spread_over_racks<'a>(near: &[&&'a RingEntry], count: usize) -> Vec<&'a str> {
    let racks: BTreeSet<&str> = near.iter().map(|entry| entry.rack.as_str()).collect();
    let (mut chosen, mut skipped, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for entry in near {
        let address = entry.address.as_str();
        if chosen.len() >= count || chosen.contains(&address) || skipped.contains(&address) {
            continue;
        }
        if seen.insert(entry.rack.as_str()) || seen.len() == racks.len() && skipped.is_empty() {
            chosen.push(address);
        } else {
            skipped.push(address);
        }
        if seen.len() == racks.len() {
            let missing = count.saturating_sub(chosen.len()).min(skipped.len());
            chosen.extend(skipped.drain(..missing));
        }
    }
    let missing = count.saturating_sub(chosen.len()).min(skipped.len());
    chosen.extend(skipped.drain(..missing));
    chosen
}

fn distinct<'a>(addresses: impl Iterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    let mut found = Vec::new();
    for address in addresses {
        if found.len() < count && !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Vec<RingEntry> {
        let entry = |token, address: &str, rack: &str| RingEntry {
            token,
            address: address.to_owned(),
            data_center: "dc1".to_owned(),
            rack: rack.to_owned(),
        };
        vec![entry(0, "a", "r1"), entry(10, "b", "r1"), entry(20, "c", "r2"), entry(30, "a", "r1")]
    }

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn replicas_follow_the_ring() {
        let simple =
            map(&[("class", "org.apache.cassandra.locator.SimpleStrategy"), ("replication_factor", "2")]);
        assert_eq!(replicas(&ring(), 5, &simple), ["b", "c"]);
        assert_eq!(replicas(&ring(), 31, &simple), ["a", "b"], "the ring closes");
        assert_eq!(replicas(&ring(), 20, &simple), ["c", "a"], "a node owns its token");
        let topology = map(&[("class", "NetworkTopologyStrategy"), ("dc1", "2")]);
        assert_eq!(replicas(&ring(), -1, &topology), ["a", "c"], "racks differ");
        let all = map(&[("class", "NetworkTopologyStrategy"), ("dc1", "5"), ("dc2", "1")]);
        assert_eq!(replicas(&ring(), -1, &all).len(), 3);
        assert_eq!(replicas(&ring(), 0, &map(&[("class", "LocalStrategy")])), [""; 0]);
    }
}
