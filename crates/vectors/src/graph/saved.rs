//! The links of a graph as bytes, so that they do not have to be found again. Vectors are not
//! included: each node is identified by a number of its caller's, such as a hash of its vector.
//!
//! ```text
//! u32 nodes
//! for each node:   u64 identity, u8 level, then for each level from 0: u8 links, u32 node of each
//! ```
//! Integers are little-endian.

use std::collections::HashMap;

use super::{Graph, LINKS, LOWEST_LINKS, NodeId};

/// No node has a higher level.
pub(super) const LEVEL_MAX: usize = 12;

/// Saved links. Whatever the bytes were, links are to saved nodes, and not more than a node can
/// have.
#[derive(Debug, Default)]
pub struct SavedLinks {
    nodes: Vec<SavedNode>,
    /// The number of each identity; the last of several.
    numbers: HashMap<u64, u32>,
    links: Vec<u32>,
}

#[derive(Debug)]
struct SavedNode {
    level: u8,
    /// Where its links begin in `links`: for each level their number, and then the links.
    start: usize,
}

impl SavedLinks {
    /// Reads what [`Graph::save`] has written; `None` if it is not that.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let count = u32::from_le_bytes(take(&mut rest)?) as usize;
        // A node has at least an identity, a level and a number of links.
        if count > rest.len() / 10 {
            return None;
        }
        let mut saved = Self::default();
        for number in 0..count as u32 {
            let identity = u64::from_le_bytes(take(&mut rest)?);
            let [level] = take(&mut rest)?;
            saved.nodes.push(SavedNode { level, start: saved.links.len() });
            saved.numbers.insert(identity, number);
            for level in 0..=usize::from(level) {
                let [links] = take(&mut rest)?;
                let max = if level == 0 { LOWEST_LINKS } else { LINKS };
                if usize::from(links) > max || level > LEVEL_MAX {
                    return None;
                }
                saved.links.push(u32::from(links));
                for _ in 0..links {
                    let to = u32::from_le_bytes(take(&mut rest)?);
                    if to as usize >= count {
                        return None;
                    }
                    saved.links.push(to);
                }
            }
        }
        rest.is_empty().then_some(saved)
    }

    /// Returns the number of saved nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of the saved node with this identity, and its level.
    pub fn find(&self, identity: u64) -> Option<(u32, usize)> {
        let number = *self.numbers.get(&identity)?;
        Some((number, usize::from(self.nodes.get(number as usize)?.level)))
    }

    /// Returns the links of a saved node, level by level.
    fn links(&self, number: u32) -> impl Iterator<Item = &[u32]> {
        let node = &self.nodes[number as usize];
        let mut rest = &self.links[node.start..];
        (0..=node.level).map_while(move |_| {
            let (count, links) = rest.split_first()?;
            let (links, others) = links.split_at_checked(*count as usize)?;
            rest = others;
            Some(links)
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk::<N>()?;
    *rest = others;
    Some(*first)
}

impl Graph {
    /// Returns the links of all nodes as bytes. `identity` returns the identity of a vector.
    pub fn save(&self, identity: impl Fn(&[f32]) -> u64) -> Vec<u8> {
        let nodes = self.len() as u32;
        let mut out = Vec::with_capacity(self.len() * (13 + LOWEST_LINKS * 3) + 4);
        out.extend_from_slice(&nodes.to_le_bytes());
        for node in 0..nodes {
            let level = self.storage.level(node);
            out.extend_from_slice(&identity(self.storage.vector(node)).to_le_bytes());
            out.push(level as u8);
            let mut write = |links: &[NodeId]| {
                // Nodes that were appended since `nodes` was read are left out.
                let links = links.iter().filter(|link| **link < nodes);
                out.push(links.clone().count() as u8);
                links.for_each(|link| out.extend_from_slice(&link.to_le_bytes()));
            };
            write(self.storage.lowest(node).lock().as_slice());
            for level in 1..=level {
                if let Some(links) = self.storage.upper(node, level) {
                    write(links.lock().as_slice());
                }
            }
        }
        out
    }

    /// Appends a node without links on the levels up to `level`.
    ///
    /// # Panics
    /// If it has more nodes than a [`NodeId`] can number.
    pub fn append_with_level(&mut self, vector: &[f32], level: usize) -> NodeId {
        let node = NodeId::try_from(self.len()).expect("fewer nodes than numbers");
        self.storage.push(vector, level.min(LEVEL_MAX));
        self.states.push(0.into());
        node
    }

    /// Links nodes as they were saved. `restored` has the number of each saved node that exists,
    /// with its node here. Nodes that do not exist any more are left out.
    pub fn restore(&self, saved: &SavedLinks, restored: &HashMap<u32, NodeId>) {
        let mut highest: Option<(NodeId, usize)> = None;
        for (number, node) in restored {
            for (level, links) in saved.links(*number).enumerate() {
                let links: Vec<NodeId> = links.iter().filter_map(|to| restored.get(to).copied()).collect();
                match self.storage.upper(*node, level) {
                    _ if level == 0 => self.storage.lowest(*node).lock().replace(&links),
                    Some(slot) => slot.lock().replace(&links),
                    None => {}
                }
            }
            let level = self.storage.level(*node);
            // The first of several, for the same graph after every start.
            if highest.is_none_or(|(other, top)| (level, other) > (top, *node)) {
                highest = Some((*node, level));
            }
        }
        *self.entry.lock() = highest;
    }
}
