//! Searches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Found, Graph, LOWEST_LINKS, NodeId};
use crate::reciprocal_length;

/// A node with its distance: ordered by distance, then by node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Near(u64);

impl Near {
    pub fn new(distance: f32, node: NodeId) -> Self {
        // The bits of floats are in their order, apart from the sign.
        let bits = distance.to_bits();
        let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        Self(u64::from(ordered) << 32 | u64::from(node))
    }

    pub fn node(self) -> NodeId {
        self.0 as NodeId
    }

    pub fn distance(self) -> f32 {
        let ordered = (self.0 >> 32) as u32;
        f32::from_bits(if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered })
    }
}

/// The memory of a search.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// For each node, the last round that visited it.
    visited: Vec<u32>,
    round: u32,
    /// Nodes whose links have not been followed, the nearest one first.
    open: BinaryHeap<Reverse<Near>>,
    /// The nearest nodes, the farthest one first.
    pub nearest: BinaryHeap<Near>,
}

impl Scratch {
    fn begin(&mut self, nodes: usize) {
        self.open.clear();
        self.nearest.clear();
        self.visited.resize(nodes.max(self.visited.len()), 0);
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.visited.fill(0);
            self.round = 1;
        }
    }

    /// Returns whether this round visits the node for the first time.
    fn visit(&mut self, node: NodeId) -> bool {
        let last = &mut self.visited[node as usize];
        let is_new = *last != self.round;
        *last = self.round;
        is_new
    }
}

/// The vector that nodes are compared with.
#[derive(Clone, Copy)]
pub(super) struct Query<'q> {
    pub vector: &'q [f32],
    pub reciprocal: f32,
}

/// The nodes that a search collects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Collect {
    All,
    /// Those that are not dead.
    Alive,
}

impl Graph {
    /// Returns living nodes that are near `vector`, the nearest one first: at most `breadth`. The
    /// greater `breadth` is, the more of the nearest nodes are found, and the longer it takes.
    pub fn search(&self, vector: &[f32], breadth: usize) -> Vec<Found> {
        let query = Query { vector, reciprocal: reciprocal_length(vector) };
        let Some((entry, top)) = *self.entry.lock() else { return Vec::new() };
        let mut scratch = self.scratch();
        let start = self.descend(query, entry, top, 0);
        self.search_level(query, &[start], breadth.max(1), 0, Collect::Alive, &mut scratch);
        let mut nearest = std::mem::take(&mut scratch.nearest).into_vec();
        nearest.sort_unstable();
        let found = |near: &Near| Found {
            node: near.node(),
            distance: near.distance(),
            state: self.state(near.node()),
        };
        let found = nearest.iter().map(found).filter(|found| !found.state.is_dead()).collect();
        self.release(scratch);
        found
    }

    /// Follows links to the nearest node on each level from `top` down to above `bottom`, and
    /// returns the last one.
    pub(super) fn descend(&self, query: Query<'_>, entry: NodeId, top: usize, bottom: usize) -> Near {
        let mut best = Near::new(self.distance(query.vector, query.reciprocal, entry), entry);
        for level in (bottom + 1..=top).rev() {
            while let Some(links) = self.storage.upper(best.node(), level).map(|links| *links.lock()) {
                let near =
                    |node: &NodeId| Near::new(self.distance(query.vector, query.reciprocal, *node), *node);
                match links.as_slice().iter().map(near).min() {
                    Some(nearer) if nearer.distance() < best.distance() => best = nearer,
                    _ => break,
                }
            }
        }
        best
    }

    /// Finds the `breadth` nearest nodes on one level, from `starts` on, and leaves them in
    /// `scratch.nearest`.
    pub(super) fn search_level(
        &self,
        query: Query<'_>,
        starts: &[Near],
        breadth: usize,
        level: usize,
        collect: Collect,
        scratch: &mut Scratch,
    ) {
        scratch.begin(self.len());
        for start in starts {
            if scratch.visit(start.node()) {
                scratch.open.push(Reverse(*start));
                if collect == Collect::All || self.is_alive(start.node()) {
                    scratch.nearest.push(*start);
                }
            }
        }
        let mut links = [0; LOWEST_LINKS];
        while let Some(Reverse(next)) = scratch.open.pop() {
            if scratch.nearest.len() >= breadth && scratch.nearest.peek().is_some_and(|last| next > *last) {
                break;
            }
            let count = self.copy_links(next.node(), level, &mut links);
            let mut new = 0;
            for at in 0..count {
                let node = links[at];
                if scratch.visit(node) {
                    // Read from memory while the distances of the nodes before are computed.
                    self.storage.prefetch(node);
                    links[new] = node;
                    new += 1;
                }
            }
            for &node in &links[..new] {
                let near = Near::new(self.distance(query.vector, query.reciprocal, node), node);
                let is_full = scratch.nearest.len() >= breadth;
                if is_full && scratch.nearest.peek().is_some_and(|last| near > *last) {
                    continue;
                }
                scratch.open.push(Reverse(near));
                if collect == Collect::All || self.is_alive(node) {
                    scratch.nearest.push(near);
                    if is_full {
                        scratch.nearest.pop();
                    }
                }
            }
        }
    }

    /// Copies the links of a node. Returns their number.
    fn copy_links(&self, node: NodeId, level: usize, out: &mut [NodeId; LOWEST_LINKS]) -> usize {
        let mut copy = |links: &[NodeId]| {
            out[..links.len()].copy_from_slice(links);
            links.len()
        };
        if level == 0 {
            return copy(self.storage.lowest(node).lock().as_slice());
        }
        self.storage.upper(node, level).map_or(0, |links| copy(links.lock().as_slice()))
    }

    pub(super) fn scratch(&self) -> Scratch {
        self.scratches.lock().pop().unwrap_or_default()
    }

    pub(super) fn release(&self, scratch: Scratch) {
        // More than this many searches at once are rare.
        const KEPT_MAX: usize = 16;
        let mut scratches = self.scratches.lock();
        if scratches.len() < KEPT_MAX {
            scratches.push(scratch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_nodes_are_in_the_order_of_their_distances() {
        let distances = [f32::NEG_INFINITY, -2.5, -1e-30, 0.0, 1e-30, 7.0, f32::INFINITY];
        for pair in distances.windows(2) {
            assert!(Near::new(pair[0], 9) < Near::new(pair[1], 1), "{pair:?}");
            assert_eq!(Near::new(pair[0], 9).distance(), pair[0]);
            assert_eq!(Near::new(pair[0], 9).node(), 9);
        }
        assert!(Near::new(1.0, 1) < Near::new(1.0, 2));
    }
}
