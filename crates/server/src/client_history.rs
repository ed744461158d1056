//! Addresses of present and former clients, by protocol version.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use cassette_database::SeenClient;
use parking_lot::Mutex;

/// The maximum number of addresses per protocol version, as in Cassandra: the most recent ones.
const ADDRESSES_MAX: usize = 100;

/// The addresses seen for each version, with the latest time: milliseconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct ClientHistory {
    seen: Mutex<BTreeMap<u8, HashMap<IpAddr, i64>>>,
}

impl ClientHistory {
    /// Records a client's first message.
    pub fn note(&self, address: IpAddr, protocol_version: u8, now_millis: i64) {
        let mut seen = self.seen.lock();
        let of_version = seen.entry(protocol_version).or_default();
        of_version.insert(address, now_millis);
        if of_version.len() > ADDRESSES_MAX
            && let Some(oldest) = of_version.iter().min_by_key(|(_, at)| **at).map(|(address, _)| *address)
        {
            of_version.remove(&oldest);
        }
    }

    /// Returns all entries, by version and address.
    pub fn list(&self) -> Vec<SeenClient> {
        let seen = self.seen.lock();
        let mut clients: Vec<SeenClient> = seen
            .iter()
            .flat_map(|(version, of_version)| {
                of_version.iter().map(|(address, at)| SeenClient {
                    protocol_version: *version,
                    address: *address,
                    last_seen_millis: *at,
                })
            })
            .collect();
        clients.sort_by_key(|client| (client.protocol_version, client.address));
        clients
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.seen.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        IpAddr::from([10, 0, high, low])
    }

    #[test]
    fn an_address_is_remembered_once_for_each_version_with_when_it_was_seen_last() {
        let history = ClientHistory::default();
        for (version, at) in [(5, 10), (4, 20), (5, 30)] {
            history.note(address(1), version, at);
        }
        let seen =
            |version, at| SeenClient { protocol_version: version, address: address(1), last_seen_millis: at };
        assert_eq!(history.list(), [seen(4, 20), seen(5, 30)]);
        history.clear();
        assert_eq!(history.list(), []);
    }

    #[test]
    fn of_many_addresses_those_seen_last_are_remembered() {
        let history = ClientHistory::default();
        for n in 0..1000u16 {
            history.note(address(n), 5, n.into());
        }
        let listed: Vec<i64> = history.list().iter().map(|seen| seen.last_seen_millis).collect();
        assert_eq!(listed, (900..1000).collect::<Vec<i64>>());
    }
}
