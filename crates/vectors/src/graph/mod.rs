//! A hierarchical navigable small world graph: each vector is linked to some of its nearest ones,
//! and few vectors to far ones on higher levels. A search follows links to ever nearer vectors.
//!
//! ```text
//! storage   the vectors and links of nodes, in blocks that never move
//! search    the nearest nodes of one level
//! insert    the links of a new node
//! saved     links as bytes
//! ```
//!
//! Nodes are appended in batches, which requires exclusive access for as long as it takes to copy
//! their vectors. Each is then connected while others are connected and searches run: the links of
//! a node have a lock of their own, which is held to copy or to replace them.
//!
//! Nodes are never removed. Dead ones are passed through by searches, and not returned.

mod insert;
mod saved;
mod search;
mod storage;
#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Similarity;
pub use saved::SavedLinks;
use search::Scratch;
use storage::Storage;

/// The links of a node on its upper levels, and of a new node on the lowest.
pub const LINKS: usize = 16;

/// The links of a node on the lowest level.
const LOWEST_LINKS: usize = 2 * LINKS;

/// The number of nodes among which the links of a new node are chosen.
const BREADTH: usize = 100;

/// The identity of a node: nodes are numbered from 0.
pub type NodeId = u32;

/// A node that a search has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// The node.
    pub node: NodeId,
    /// The distance from the query, by [`Similarity::distance`].
    pub distance: f32,
    /// The state of the node before it was returned, for [`Graph::kill`].
    pub state: NodeState,
}

/// Whether a node is alive, and how often it was revived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeState(u32);

/// A graph of vectors of one dimension.
#[derive(Debug)]
pub struct Graph {
    similarity: Similarity,
    storage: Storage,
    /// For each node, a bit that it is dead, and above that the number of revivals.
    states: Vec<AtomicU32>,
    /// The number of dead nodes.
    dead: AtomicU32,
    /// The node where searches begin, with its level.
    entry: Mutex<Option<(NodeId, usize)>>,
    /// Held while a node is connected that becomes the entry.
    raising: Mutex<()>,
    /// Memory of finished searches, which later ones reuse.
    scratches: Mutex<Vec<Scratch>>,
    seed: u64,
}

impl Graph {
    /// Returns a graph without nodes. `seed` determines the levels of nodes.
    pub fn new(similarity: Similarity, dimension: usize, seed: u64) -> Self {
        Self {
            similarity,
            storage: Storage::new(dimension),
            states: Vec::new(),
            dead: AtomicU32::new(0),
            entry: Mutex::new(None),
            raising: Mutex::new(()),
            scratches: Mutex::new(Vec::new()),
            seed,
        }
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether it has no nodes.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Returns the number of dead nodes.
    pub fn dead(&self) -> usize {
        self.dead.load(Ordering::Relaxed) as usize
    }

    /// Returns about how many bytes of memory the nodes occupy.
    pub fn memory(&self) -> usize {
        self.storage.memory() + self.states.len() * size_of::<AtomicU32>()
    }

    /// Returns the vector of a node.
    pub fn vector(&self, node: NodeId) -> &[f32] {
        self.storage.vector(node)
    }

    /// Returns whether a node is alive.
    pub fn is_alive(&self, node: NodeId) -> bool {
        !self.state(node).is_dead()
    }

    /// Returns the state of a node.
    pub fn state(&self, node: NodeId) -> NodeState {
        NodeState(self.states[node as usize].load(Ordering::Acquire))
    }

    /// Marks a node as dead unless it was revived since it had this state.
    pub fn kill(&self, node: NodeId, state: NodeState) {
        let dead = NodeState(state.0 | 1);
        let state_now = &self.states[node as usize];
        let exchanged = state_now.compare_exchange(state.0, dead.0, Ordering::AcqRel, Ordering::Acquire);
        if exchanged.is_ok() && !state.is_dead() {
            self.dead.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Marks a node as alive. A [`kill`](Self::kill) with an earlier state has no effect.
    pub fn revive(&self, node: NodeId) {
        let revived = |state: u32| Some((state | 1).wrapping_add(1));
        let before = self.states[node as usize].fetch_update(Ordering::AcqRel, Ordering::Acquire, revived);
        if before.is_ok_and(|state| NodeState(state).is_dead()) {
            self.dead.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the distance of a node from a vector whose reciprocal length is `reciprocal`.
    #[inline]
    fn distance(&self, vector: &[f32], reciprocal: f32, node: NodeId) -> f32 {
        let node = (self.storage.vector(node), self.storage.reciprocal(node));
        self.similarity.distance_of((vector, reciprocal), node)
    }

    #[inline]
    fn distance_of_nodes(&self, a: NodeId, b: NodeId) -> f32 {
        self.distance(self.storage.vector(a), self.storage.reciprocal(a), b)
    }
}

impl NodeState {
    fn is_dead(self) -> bool {
        self.0 & 1 == 1
    }
}
