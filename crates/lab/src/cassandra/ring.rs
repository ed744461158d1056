//! Waits until the nodes of a cluster know each other.
//!
//! A node listens as soon as it has joined the ring. Until the others know of it through gossip,
//! they show a ring without it, and coordinate requests without it.

use std::time::{Duration, Instant};

use super::ClusterSettings;
use crate::LabError;
use crate::cql::{self, CqlSettings};

/// Maximum time until a node knows one that listens. Gossip takes a second or two.
const KNOWN_MAX: Duration = Duration::from_secs(60);
const ATTEMPT_PAUSE: Duration = Duration::from_millis(100);

const PEERS: &str = "SELECT peer, tokens FROM system.peers_v2";

/// Waits until each node shows the tokens of all others. Does not wait for a node that refuses
/// clients without a login.
///
/// # Errors
/// If a node does not show the others within a minute.
pub(super) fn await_peers(settings: &ClusterSettings) -> Result<(), LabError> {
    let deadline = Instant::now() + KNOWN_MAX;
    for (index, contact) in settings.contacts().into_iter().enumerate() {
        let client = CqlSettings::new(vec![contact.clone()]);
        while let Ok(peers) = cql::query(&contact, &client, PEERS) {
            let known = peers.iter().filter(|row| row.get(1).is_some_and(Option::is_some)).count();
            if known + 1 >= settings.nodes {
                break;
            }
            if Instant::now() > deadline {
                let name = format!("cassandra {}", settings.version);
                let why = format!(
                    "node {} shows the tokens of {known} of {} other nodes after {} s; see its system.log in {}",
                    index + 1,
                    settings.nodes - 1,
                    KNOWN_MAX.as_secs(),
                    settings.node_directory(index + 1).display()
                );
                return Err(LabError::engine(&name, "start", why));
            }
            std::thread::sleep(ATTEMPT_PAUSE);
        }
    }
    Ok(())
}
