//! Resources that connections share: connections, threads, memory of requests and responses.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use cassette_rows::owner::Owner;
use parking_lot::Mutex;

use crate::{
    ServerConfig,
    budget::{Budget, Reserved},
    threads::{ThreadClient, Threads},
};

/// The limits of a server.
#[derive(Debug)]
pub(crate) struct Limits {
    pub threads: Arc<Threads>,
    /// Threads that verify identities.
    pub auth_threads: Arc<Threads>,
    requests: Arc<Budget>,
    responses: Arc<Budget>,
    connections_max: usize,
    connections_per_ip_max: usize,
    sockets_max: usize,
    requests_per_ip_max: usize,
    responses_per_ip_max: usize,
    /// The addresses that have connections.
    peers: Mutex<HashMap<IpAddr, Peer>>,
    connections: AtomicUsize,
    /// Those of connections, and second ones.
    sockets: AtomicUsize,
    next_connection: AtomicU64,
}

#[derive(Debug)]
struct Peer {
    connections: usize,
    requests: Arc<Budget>,
    responses: Arc<Budget>,
}

/// The reason for rejecting a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectionRefused {
    #[error("exceeded maximum number of native connections ({0})")]
    TooMany(usize),
    #[error("exceeded maximum number of native connections per ip ({0})")]
    TooManyFromAddress(usize),
    #[error("exceeded maximum number of sockets ({0}), of which a forwarded connection has two")]
    NoSocketLeft(usize),
}

/// A connection's place within the limits, released on drop.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limits: Arc<Limits>,
    address: IpAddr,
    connection: u64,
    requests: Accounts,
    responses: Accounts,
}

/// The place of a connection's second socket, released on drop.
#[derive(Debug)]
pub(crate) struct SocketPermit(Arc<Limits>);

impl Drop for SocketPermit {
    fn drop(&mut self) {
        self.0.sockets.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The two accounts of a charge: for the address, and for all.
#[derive(Debug, Clone)]
pub(crate) struct Accounts {
    address: Arc<Budget>,
    all: Arc<Budget>,
}

impl Limits {
    pub fn new(config: &ServerConfig) -> Arc<Self> {
        Arc::new(Self {
            threads: Threads::new(config.max_threads),
            auth_threads: Threads::new(config.max_auth_threads),
            requests: Budget::new(config.max_request_data_in_flight),
            responses: Budget::new(config.max_response_data_in_flight),
            connections_max: config.max_concurrent_connections.unwrap_or(usize::MAX),
            connections_per_ip_max: config.max_concurrent_connections_per_ip.unwrap_or(usize::MAX),
            sockets_max: config.max_sockets.unwrap_or(usize::MAX),
            requests_per_ip_max: config.max_request_data_in_flight_per_ip,
            responses_per_ip_max: config.max_response_data_in_flight_per_ip,
            peers: Mutex::default(),
            connections: AtomicUsize::new(0),
            sockets: AtomicUsize::new(0),
            next_connection: AtomicU64::new(0),
        })
    }

    /// Counts a new connection from `address`.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Result<ConnectionPermit, ConnectionRefused> {
        let mut peers = self.peers.lock();
        if self.connections.load(Ordering::Relaxed) >= self.connections_max {
            return Err(ConnectionRefused::TooMany(self.connections_max));
        }
        let from_address = peers.get(&address).map_or(0, |peer| peer.connections);
        if from_address >= self.connections_per_ip_max {
            return Err(ConnectionRefused::TooManyFromAddress(self.connections_per_ip_max));
        }
        self.add_socket()?;
        let peer = peers.entry(address).or_insert_with(|| Peer {
            connections: 0,
            requests: Budget::new(self.requests_per_ip_max),
            responses: Budget::new(self.responses_per_ip_max),
        });
        peer.connections += 1;
        self.connections.fetch_add(1, Ordering::Relaxed);
        let accounts = |address: &Arc<Budget>, all: &Arc<Budget>| Accounts {
            address: Arc::clone(address),
            all: Arc::clone(all),
        };
        Ok(ConnectionPermit {
            limits: Arc::clone(self),
            address,
            connection: self.next_connection.fetch_add(1, Ordering::Relaxed),
            requests: accounts(&peer.requests, &self.requests),
            responses: accounts(&peer.responses, &self.responses),
        })
    }

    fn add_socket(&self) -> Result<(), ConnectionRefused> {
        let added = self.sockets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sockets| {
            (sockets < self.sockets_max).then_some(sockets + 1)
        });
        added.map(drop).map_err(|_| ConnectionRefused::NoSocketLeft(self.sockets_max))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limits.sockets.fetch_sub(1, Ordering::Relaxed);
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
    /// Counts the socket to the target of a forwarded connection.
    pub fn second_socket(&self) -> Result<SocketPermit, ConnectionRefused> {
        self.limits.add_socket()?;
        Ok(SocketPermit(Arc::clone(&self.limits)))
    }

    /// The memory of requests.
    pub fn requests(&self) -> &Accounts {
        &self.requests
    }

    /// The memory of responses.
    pub fn responses(&self) -> &Accounts {
        &self.responses
    }

    /// Returns the owner of requests: those of one address have one owner.
    pub fn owner(&self) -> Owner {
        let mut hasher = DefaultHasher::new();
        self.address.hash(&mut hasher);
        // Zero is the owner of the database's internal work.
        Owner(hasher.finish().max(1))
    }

    pub fn thread_client(&self) -> ThreadClient {
        ThreadClient { address: self.address, connection: self.connection }
    }

    /// Returns the text of an Overloaded error, in Cassandra's words.
    pub fn overload_message(&self) -> String {
        format!(
            "Request breached limit on bytes in flight. ({}.) Server is currently in an overloaded state and cannot \
             accept more requests.",
            self.requests.usage()
        )
    }
}

impl Accounts {
    /// Reserves `bytes` if that is possible at once.
    pub fn try_charge(&self, bytes: usize) -> Option<Charge> {
        let address = self.address.try_reserve(bytes)?;
        Some(Charge([address, self.all.try_reserve(bytes)?]))
    }

    /// Reserves `bytes`; waits until that is possible. An address waits for its own bytes first, so
    /// that it stalls no other while it has too many.
    pub async fn charge(&self, bytes: usize) -> Charge {
        let address = self.address.reserve(bytes).await;
        Charge([address, self.all.reserve(bytes).await])
    }

    /// Charges `bytes` that exist already, regardless of the limits.
    pub fn charge_anyway(&self, bytes: usize) -> Charge {
        Charge([self.address.reserve_anyway(bytes), self.all.reserve_anyway(bytes)])
    }

    /// Returns whether a limit is exceeded.
    pub fn is_exceeded(&self) -> bool {
        self.all.is_exceeded() || self.address.is_exceeded()
    }

    /// Waits until no limit is exceeded.
    pub async fn relieved(&self) {
        self.all.relieved().await;
        self.address.relieved().await;
    }

    /// Returns the charged bytes and their limits, for messages.
    pub fn usage(&self) -> String {
        let Self { address, all } = self;
        format!(
            "Endpoint: {}/{} bytes, Global: {}/{} bytes",
            address.used(),
            address.limit(),
            all.used(),
            all.limit()
        )
    }
}

/// Charged bytes, released on drop.
#[derive(Debug)]
pub(crate) struct Charge([Reserved; 2]);

impl Charge {
    pub fn bytes(&self) -> usize {
        self.0[0].bytes()
    }

    /// Releases all except `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.0.iter_mut().for_each(|reserved| reserved.shrink_to(bytes));
    }

    /// Merges with `other`, which belongs to the same accounts.
    pub fn add(&mut self, other: Self) {
        for (reserved, other) in self.0.iter_mut().zip(other.0) {
            reserved.add(other);
        }
    }

    /// Adds `bytes` if they fit now.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let [address, all] = &mut self.0;
        if !address.try_grow(bytes) {
            return false;
        }
        let grown = all.try_grow(bytes);
        if !grown {
            address.shrink_to(address.bytes() - bytes);
        }
        grown
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
    fn a_forwarded_connection_counts_as_two_sockets() {
        let limits = Limits::new(&ServerConfig { max_sockets: Some(3), ..ServerConfig::default() });
        let forwarded = limits.admit(HERE).unwrap();
        let second = forwarded.second_socket().unwrap();
        let direct = limits.admit(HERE).unwrap();
        assert_eq!(direct.second_socket().unwrap_err(), ConnectionRefused::NoSocketLeft(3));
        assert_eq!(limits.admit(HERE).unwrap_err(), ConnectionRefused::NoSocketLeft(3));
        drop(second);
        drop(direct.second_socket().unwrap());
        drop((forwarded, direct));
        assert_eq!(limits.sockets.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_address_cannot_use_up_what_all_share() {
        let limits = limits(None, None);
        let (here, there) = (limits.admit(HERE).unwrap(), limits.admit(THERE).unwrap());
        let (here, there) = (here.requests(), there.requests());
        let mut charge = here.try_charge(60).unwrap();
        assert!(here.try_charge(1).is_none());
        let other = there.try_charge(40).unwrap();
        assert!(there.try_charge(1).is_none(), "100 bytes together");
        assert!(!there.is_exceeded());
        charge.shrink_to(30);
        assert!(here.try_charge(30).is_some() && there.try_charge(20).is_some());
        drop(charge);
        assert!(here.try_charge(60).is_some());
        drop(other);
        let _anyway = here.charge_anyway(61);
        assert!(here.is_exceeded() && !there.is_exceeded());
    }
}
