//! What connections share and must not use up: connections, threads, memory for requests.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use crate::ServerConfig;

/// The limits of a server.
#[derive(Debug)]
pub(crate) struct Limits {
    /// One permit for every request that may run on a thread of its own.
    pub threads: Arc<Semaphore>,
    request_data: Arc<Budget>,
    connections_max: usize,
    connections_per_ip_max: usize,
    request_data_per_ip_max: usize,
    /// The addresses that have connections.
    peers: Mutex<HashMap<IpAddr, Peer>>,
    connections: AtomicUsize,
}

#[derive(Debug)]
struct Peer {
    connections: usize,
    request_data: Arc<Budget>,
}

/// Why a connection was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectionRefused {
    #[error("exceeded maximum number of native connections ({0})")]
    TooMany(usize),
    #[error("exceeded maximum number of native connections per ip ({0})")]
    TooManyFromAddress(usize),
}

/// A connection's place among those allowed; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limits: Arc<Limits>,
    address: IpAddr,
    /// The budget of all connections from this address.
    peer: Arc<Budget>,
}

impl Limits {
    pub fn new(config: &ServerConfig) -> Arc<Self> {
        Arc::new(Self {
            threads: Arc::new(Semaphore::new(config.max_threads.max(1))),
            request_data: Arc::new(Budget::new(config.max_request_data_in_flight)),
            connections_max: config.max_concurrent_connections.unwrap_or(usize::MAX),
            connections_per_ip_max: config.max_concurrent_connections_per_ip.unwrap_or(usize::MAX),
            request_data_per_ip_max: config.max_request_data_in_flight_per_ip,
            peers: Mutex::default(),
            connections: AtomicUsize::new(0),
        })
    }

    /// Counts a connection from `address` in.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Result<ConnectionPermit, ConnectionRefused> {
        let mut peers = self.peers.lock();
        if self.connections.load(Ordering::Relaxed) >= self.connections_max {
            return Err(ConnectionRefused::TooMany(self.connections_max));
        }
        let from_address = peers.get(&address).map_or(0, |peer| peer.connections);
        if from_address >= self.connections_per_ip_max {
            return Err(ConnectionRefused::TooManyFromAddress(self.connections_per_ip_max));
        }
        let peer = peers.entry(address).or_insert_with(|| Peer {
            connections: 0,
            request_data: Arc::new(Budget::new(self.request_data_per_ip_max)),
        });
        peer.connections += 1;
        self.connections.fetch_add(1, Ordering::Relaxed);
        Ok(ConnectionPermit { limits: Arc::clone(self), address, peer: Arc::clone(&peer.request_data) })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut peers = self.limits.peers.lock();
        if let Some(peer) = peers.get_mut(&self.address) {
            peer.connections -= 1;
            if peer.connections == 0 {
                peers.remove(&self.address);
            }
        }
        self.limits.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionPermit {
    /// Says that `bytes` of requests are held until the charge is dropped.
    pub fn charge(&self, bytes: usize) -> Charge {
        let budgets = [Arc::clone(&self.limits.request_data), Arc::clone(&self.peer)];
        for budget in &budgets {
            budget.add(bytes);
        }
        Charge { bytes, budgets }
    }

    /// Whether more bytes of requests are held than should be.
    pub fn is_overloaded(&self) -> bool {
        self.limits.request_data.is_exceeded() || self.peer.is_exceeded()
    }

    /// Waits until that is no longer so.
    pub async fn relieved(&self) {
        self.limits.request_data.relieved().await;
        self.peer.relieved().await;
    }

    /// What an Overloaded error tells of it, in Cassandra's words.
    pub fn overload_message(&self) -> String {
        format!(
            "Request breached limit on bytes in flight. (Endpoint: {}/{} bytes, Global: {}/{} bytes.) Server is currently in an overloaded state and cannot accept more requests.",
            self.peer.used.load(Ordering::Relaxed),
            self.peer.limit,
            self.limits.request_data.used.load(Ordering::Relaxed),
            self.limits.request_data.limit,
        )
    }
}

/// Counts bytes against a limit that holds up newcomers, but never those who are half through: refusing them could
/// leave everybody half through for ever.
#[derive(Debug)]
struct Budget {
    limit: usize,
    used: AtomicUsize,
    relieved: Notify,
}

impl Budget {
    fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0), relieved: Notify::new() }
    }

    fn is_exceeded(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit
    }

    fn add(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        if before > self.limit && before - bytes <= self.limit {
            self.relieved.notify_waiters();
        }
    }

    async fn relieved(&self) {
        loop {
            let notified = self.relieved.notified();
            if !self.is_exceeded() {
                return;
            }
            notified.await;
        }
    }
}

/// Bytes of requests that are held.
#[derive(Debug)]
pub(crate) struct Charge {
    bytes: usize,
    budgets: [Arc<Budget>; 2],
}

impl Charge {
    /// Changes how many bytes are held.
    pub fn resize(&mut self, bytes: usize) {
        for budget in &self.budgets {
            if bytes > self.bytes {
                budget.add(bytes - self.bytes);
            } else if bytes < self.bytes {
                budget.subtract(self.bytes - bytes);
            }
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(connections: Option<usize>, per_ip: Option<usize>) -> Arc<Limits> {
        Limits::new(&ServerConfig {
            max_concurrent_connections: connections,
            max_concurrent_connections_per_ip: per_ip,
            max_request_data_in_flight: 100,
            max_request_data_in_flight_per_ip: 60,
            ..ServerConfig::default()
        })
    }

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn a_connection_that_ends_makes_room_for_another() {
        let limits = limits(Some(2), Some(1));
        let here = limits.admit(HERE).unwrap();
        assert_eq!(limits.admit(HERE).unwrap_err(), ConnectionRefused::TooManyFromAddress(1));
        let _there = limits.admit(THERE).unwrap();
        assert_eq!(limits.admit(THERE).unwrap_err(), ConnectionRefused::TooMany(2));
        drop(here);
        limits.admit(HERE).unwrap();
        assert_eq!(limits.peers.lock().len(), 1);
    }

    #[test]
    fn one_address_cannot_use_up_what_all_share() {
        let limits = limits(None, None);
        let (here, there) = (limits.admit(HERE).unwrap(), limits.admit(THERE).unwrap());
        let mut charge = here.charge(61);
        assert!(here.is_overloaded() && !there.is_overloaded());
        charge.resize(60);
        assert!(!here.is_overloaded());
        let _other = there.charge(41);
        assert!(here.is_overloaded() && there.is_overloaded(), "101 bytes together");
        drop(charge);
        assert!(!here.is_overloaded() && !there.is_overloaded());
    }
}
