//! The state of virtual nodes: which are up, and how many requests each has coordinated.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::basics::error::{Result, bail_invalid};
use crate::schema::topology::{NodePlace, Ring, VirtualNode, nodes_at};

/// The state of a virtual node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// It serves clients, and counts for consistency levels.
    Up,
    /// It is a member of the cluster that does not serve clients.
    Down,
    /// It is no member of the cluster.
    Removed,
}

impl NodeState {
    /// All states, with their names.
    pub const NAMED: [(&'static str, Self); 3] =
        [("up", Self::Up), ("down", Self::Down), ("removed", Self::Removed)];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Self::NAMED.into_iter().find(|(_, state)| *state == self).map_or("", |(name, _)| name)
    }

    /// Returns the state with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|(own, _)| *own == name).map(|(_, state)| state)
    }
}

/// An event that clients receive when the state of a node changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the protocol's")]
pub enum NodeEvent {
    Up,
    Down,
    NewNode,
    RemovedNode,
}

/// What a server does when the state of a node changes.
pub trait NodeSwitch: Send + Sync {
    /// Listens at the address of a node. Waits until it does.
    ///
    /// # Errors
    /// If it cannot, with the reason.
    fn open(&self, node: usize) -> Result<(), String>;

    /// Stops listening at the address of a node, and closes its connections. Waits until no client
    /// can connect.
    ///
    /// # Errors
    /// If the server stops.
    fn close(&self, node: usize) -> Result<(), String>;

    /// Notifies clients that have registered for events.
    fn announce(&self, address: IpAddr, event: NodeEvent);
}

/// The virtual nodes of a server.
pub struct VirtualNodes {
    nodes: Vec<VirtualNode>,
    view: ArcSwap<View>,
    counts: Vec<Counts>,
    /// Held by changes.
    switch: Mutex<()>,
    server: OnceLock<Arc<dyn NodeSwitch>>,
}

/// The states of all nodes at one moment.
#[derive(Debug)]
pub(crate) struct View {
    pub states: Vec<NodeState>,
    pub ring: Ring,
}

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    as_replica: AtomicU64,
}

/// How many requests a node has coordinated. Those on tables of the system are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// All requests.
    pub requests: u64,
    /// Those on partitions of which the node has a replica.
    pub as_replica: u64,
}

impl VirtualNodes {
    /// Returns nodes at these places, which are up. The first has the host id of the store.
    pub fn new(places: Vec<NodePlace>, host_id: Uuid) -> Self {
        let nodes = nodes_at(places, host_id);
        let states = vec![NodeState::Up; nodes.len()];
        let view = ArcSwap::from_pointee(View { ring: Ring::new(&nodes, |_| true), states });
        let counts = nodes.iter().map(|_| Counts::default()).collect();
        Self { nodes, view, counts, switch: Mutex::new(()), server: OnceLock::new() }
    }

    /// Sets the server that the nodes are virtual nodes of. Effective once.
    pub fn connect(&self, server: Arc<dyn NodeSwitch>) {
        // A second server has no effect.
        let _ = self.server.set(server);
    }

    /// Returns all nodes.
    pub fn nodes(&self) -> &[VirtualNode] {
        &self.nodes
    }

    /// Returns a node; the first one for a number that none has.
    pub fn node(&self, index: usize) -> Option<&VirtualNode> {
        self.nodes.get(index).or(self.nodes.first())
    }

    /// Returns the index of the node with an address.
    pub fn index_of(&self, address: IpAddr) -> Option<usize> {
        self.nodes.iter().position(|node| node.place.address == address)
    }

    /// Returns the states of all nodes at this moment.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Returns the state of a node.
    pub fn state(&self, index: usize) -> NodeState {
        self.view.load().states.get(index).copied().unwrap_or(NodeState::Removed)
    }

    /// Returns how many requests a node has coordinated.
    pub fn counts(&self, index: usize) -> NodeCounts {
        self.counts.get(index).map_or_else(NodeCounts::default, |counts| NodeCounts {
            requests: counts.requests.load(Ordering::Relaxed),
            as_replica: counts.as_replica.load(Ordering::Relaxed),
        })
    }

    /// Counts a request that a node coordinates.
    pub(crate) fn count(&self, index: usize, is_replica: bool) {
        let Some(counts) = self.counts.get(index) else { return };
        counts.requests.fetch_add(1, Ordering::Relaxed);
        if is_replica {
            counts.as_replica.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Changes the state of a node: stops or begins to serve its clients, and notifies those of
    /// others. No-op if it has the state already.
    ///
    /// # Errors
    /// Invalid, if there is no node with this address, a removed one would be down, or the server
    /// cannot listen.
    pub fn set_state(&self, address: IpAddr, state: NodeState) -> Result<()> {
        let _switch = self.switch.lock();
        let Some(index) = self.index_of(address) else {
            let known: Vec<String> = self.nodes.iter().map(|node| node.place.address.to_string()).collect();
            bail_invalid!("there is no node {address}: expected one of {}", known.join(", "));
        };
        let before = self.state(index);
        let server = self.server.get();
        let failed = |what: &str, why: String| {
            crate::basics::error::DatabaseError::Invalid(format!("cannot {what} node {address}: {why}"))
        };
        match (before, state) {
            (NodeState::Removed, NodeState::Down) => {
                bail_invalid!("node {address} is removed: add it by setting its state to up first")
            }
            (NodeState::Down | NodeState::Removed, NodeState::Up) => {
                if let Some(server) = server {
                    server.open(index).map_err(|why| failed("start", why))?;
                }
            }
            (NodeState::Up, NodeState::Down | NodeState::Removed) => {
                if let Some(server) = server {
                    server.close(index).map_err(|why| failed("stop", why))?;
                }
            }
            _ => {}
        }
        let mut states = self.view.load().states.clone();
        if let Some(own) = states.get_mut(index) {
            *own = state;
        }
        let ring = Ring::new(&self.nodes, |node| states.get(node) != Some(&NodeState::Removed));
        self.view.store(Arc::new(View { ring, states }));
        let events: &[NodeEvent] = match (before, state) {
            (NodeState::Down, NodeState::Up) => &[NodeEvent::Up],
            (NodeState::Removed, NodeState::Up) => &[NodeEvent::NewNode, NodeEvent::Up],
            (NodeState::Up, NodeState::Down) => &[NodeEvent::Down],
            (NodeState::Up | NodeState::Down, NodeState::Removed) => &[NodeEvent::RemovedNode],
            _ => &[],
        };
        for event in events {
            if let Some(server) = server {
                server.announce(address, *event);
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for VirtualNodes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("VirtualNodes").field("view", &self.view).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that writes down what it does.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    impl NodeSwitch for Recorder {
        fn open(&self, node: usize) -> Result<(), String> {
            self.0.lock().push(format!("open {node}"));
            Ok(())
        }

        fn close(&self, node: usize) -> Result<(), String> {
            self.0.lock().push(format!("close {node}"));
            Ok(())
        }

        fn announce(&self, address: IpAddr, event: NodeEvent) {
            self.0.lock().push(format!("{event:?} {address}"));
        }
    }

    #[test]
    fn a_change_of_state_switches_the_listener_and_notifies_clients() {
        let place = |last: u8| NodePlace {
            address: [127, 0, 0, last].into(),
            data_center: "dc1".to_owned(),
            rack: "r1".to_owned(),
        };
        let nodes = VirtualNodes::new(vec![place(1), place(2)], Uuid::from_u128(1 << 80));
        let recorder = Arc::new(Recorder::default());
        nodes.connect(Arc::clone(&recorder) as Arc<dyn NodeSwitch>);
        let address = IpAddr::from([127, 0, 0, 2]);
        for state in [NodeState::Down, NodeState::Down, NodeState::Up, NodeState::Removed, NodeState::Up] {
            nodes.set_state(address, state).unwrap();
            assert_eq!(nodes.state(1), state);
        }
        let done = [
            "close 1",
            "Down 127.0.0.2",
            "open 1",
            "Up 127.0.0.2",
            "close 1",
            "RemovedNode 127.0.0.2",
            "open 1",
            "NewNode 127.0.0.2",
            "Up 127.0.0.2",
        ];
        assert_eq!(*recorder.0.lock(), done);
        nodes.set_state(address, NodeState::Removed).unwrap();
        assert!(nodes.set_state(address, NodeState::Down).is_err(), "it is no member");
        let unknown = nodes.set_state([127, 0, 0, 3].into(), NodeState::Up).unwrap_err().to_string();
        assert_eq!(unknown, "there is no node 127.0.0.3: expected one of 127.0.0.1, 127.0.0.2");
    }
}
