//! Insertion of nodes.

use super::saved::LEVEL_MAX;
use super::search::{Collect, Near, Query, Scratch};
use super::{BREADTH, Graph, LINKS, LOWEST_LINKS, NodeId};

impl Graph {
    /// Appends nodes without links, which searches do not find yet. Returns the first one.
    ///
    /// # Panics
    /// If it has more nodes than a [`NodeId`] can number.
    pub fn append<'v>(&mut self, vectors: impl IntoIterator<Item = &'v [f32]>) -> NodeId {
        let first = NodeId::try_from(self.len()).expect("fewer nodes than numbers");
        for vector in vectors {
            let level = self.level_of(self.len() as u64);
            self.storage.push(vector, level);
            self.states.push(0.into());
        }
        first
    }

    /// Links an appended node with its nearest ones, so that searches find it.
    pub fn connect(&self, node: NodeId) {
        let level = self.storage.level(node);
        let mut entry = *self.entry.lock();
        let mut _raising = None;
        if entry.is_none_or(|(_, top)| level > top) {
            // Two nodes that both become the entry would not find each other on the new levels.
            _raising = Some(self.raising.lock());
            entry = *self.entry.lock();
        }
        if let Some((entry, top)) = entry {
            let mut scratch = self.scratch();
            self.connect_from(node, level, entry, top, &mut scratch);
            self.release(scratch);
        }
        let mut entry = self.entry.lock();
        if entry.is_none_or(|(_, top)| level > top) {
            *entry = Some((node, level));
        }
    }

    fn connect_from(&self, node: NodeId, level: usize, entry: NodeId, top: usize, scratch: &mut Scratch) {
        let vector = self.storage.vector(node);
        let query = Query { vector, reciprocal: self.storage.reciprocal(node) };
        let mut starts = vec![self.descend(query, entry, top, level.min(top))];
        for level in (0..=level.min(top)).rev() {
            self.search_level(query, &starts, BREADTH, level, Collect::All, scratch);
            let mut near = std::mem::take(&mut scratch.nearest).into_vec();
            near.retain(|near| near.node() != node);
            near.sort_unstable();
            let links = self.choose(&near, LINKS);
            if level == 0 {
                self.storage.lowest(node).lock().replace(&links);
            } else if let Some(slot) = self.storage.upper(node, level) {
                slot.lock().replace(&links);
            }
            for &neighbour in &links {
                self.link_back(neighbour, node, level);
            }
            if !near.is_empty() {
                starts = near;
            }
        }
    }

    /// Adds a link from `from` to the new node `to`. If `from` has too many, its links are chosen
    /// again.
    fn link_back(&self, from: NodeId, to: NodeId, level: usize) {
        let choose = |links: &[NodeId], max| {
            let near = |node: NodeId| Near::new(self.distance_of_nodes(from, node), node);
            let mut all: Vec<Near> = links.iter().copied().chain([to]).map(near).collect();
            all.sort_unstable();
            self.choose(&all, max)
        };
        if level == 0 {
            let mut links = self.storage.lowest(from).lock();
            if !links.push(to) {
                let chosen = choose(links.as_slice(), LOWEST_LINKS);
                links.replace(&chosen);
            }
        } else if let Some(slot) = self.storage.upper(from, level) {
            let mut links = slot.lock();
            if !links.push(to) {
                let chosen = choose(links.as_slice(), LINKS);
                links.replace(&chosen);
            }
        }
    }

    /// Chooses at most `max` of the sorted nodes to link to: the nearest ones, but of nodes that
    /// are nearer to each other than to the node, only one. So links lead in all directions, and
    /// out of clusters.
    fn choose(&self, near: &[Near], max: usize) -> Vec<NodeId> {
        let mut chosen: Vec<NodeId> = Vec::with_capacity(max);
        for candidate in near {
            if chosen.len() == max {
                break;
            }
            let node = candidate.node();
            let is_covered = |other: &NodeId| self.distance_of_nodes(*other, node) < candidate.distance();
            if !chosen.iter().any(is_covered) {
                chosen.push(node);
            }
        }
        // Free places are filled with the nearest others.
        for candidate in near {
            if chosen.len() == max.min(LINKS) {
                break;
            }
            if !chosen.contains(&candidate.node()) {
                chosen.push(candidate.node());
            }
        }
        chosen
    }

    /// Returns the level of the node with this number: each level has 1 / `LINKS` of the nodes of
    /// the level below.
    fn level_of(&self, number: u64) -> usize {
        // SplitMix64: pseudo-random, and the same for every run with the seed.
        let mut bits = (self.seed ^ number).wrapping_add(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        let levels_per_bit = LINKS.ilog2();
        ((bits.leading_zeros() / levels_per_bit) as usize).min(LEVEL_MAX)
    }
}
