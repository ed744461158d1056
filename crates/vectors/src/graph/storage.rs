//! The vectors and links of nodes, in blocks that never move.

use parking_lot::Mutex;

use super::{LINKS, LOWEST_LINKS, NodeId};
use crate::{kernels, reciprocal_length};

/// The number of nodes in a block.
const BLOCK: usize = 1024;

/// The links of a node on one level; at most `N`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Links<const N: usize> {
    count: u32,
    nodes: [NodeId; N],
}

impl<const N: usize> Links<N> {
    const NONE: Self = Self { count: 0, nodes: [0; N] };

    pub fn as_slice(&self) -> &[NodeId] {
        &self.nodes[..self.count as usize]
    }

    /// Replaces the links; those beyond `N` are omitted.
    pub fn replace(&mut self, nodes: &[NodeId]) {
        let count = nodes.len().min(N);
        self.nodes[..count].copy_from_slice(&nodes[..count]);
        self.count = count as u32;
    }

    /// Adds a link. Returns whether there was room.
    pub fn push(&mut self, node: NodeId) -> bool {
        let has_room = (self.count as usize) < N;
        if has_room {
            self.nodes[self.count as usize] = node;
            self.count += 1;
        }
        has_room
    }
}

#[derive(Debug)]
pub(super) struct Storage {
    dimension: usize,
    len: usize,
    /// `BLOCK` vectors each.
    vectors: Vec<Box<[f32]>>,
    /// The reciprocal length of each vector.
    reciprocals: Vec<f32>,
    /// `BLOCK` nodes each: their links on the lowest level.
    lowest: Vec<Box<[Mutex<Links<LOWEST_LINKS>>]>>,
    /// The links of each node on the levels from 1; most nodes have none.
    upper: Vec<Box<[Mutex<Links<LINKS>>]>>,
    upper_levels: usize,
}

impl Storage {
    pub fn new(dimension: usize) -> Self {
        Self {
            dimension,
            len: 0,
            vectors: Vec::new(),
            reciprocals: Vec::new(),
            lowest: Vec::new(),
            upper: Vec::new(),
            upper_levels: 0,
        }
    }

    /// Adds a node without links, which exists on the levels up to `level`. Elements of the vector
    /// beyond the dimension are ignored.
    pub fn push(&mut self, vector: &[f32], level: usize) {
        let offset = self.len % BLOCK;
        if offset == 0 {
            self.vectors.push(vec![0.0; BLOCK * self.dimension].into_boxed_slice());
            self.lowest.push((0..BLOCK).map(|_| Mutex::new(Links::NONE)).collect());
        }
        if let Some(block) = self.vectors.last_mut() {
            let slot = &mut block[offset * self.dimension..][..self.dimension];
            slot.iter_mut().zip(vector).for_each(|(slot, element)| *slot = *element);
            self.reciprocals.push(reciprocal_length(slot));
        }
        self.upper.push((0..level).map(|_| Mutex::new(Links::NONE)).collect());
        self.upper_levels += level;
        self.len += 1;
    }

    #[inline]
    pub fn vector(&self, node: NodeId) -> &[f32] {
        let (block, offset) = (node as usize / BLOCK, node as usize % BLOCK);
        &self.vectors[block][offset * self.dimension..][..self.dimension]
    }

    /// Lets the processor read a node's vector into its cache.
    #[inline]
    pub fn prefetch(&self, node: NodeId) {
        kernels::prefetch(self.vector(node));
        kernels::prefetch(std::slice::from_ref(&self.reciprocals[node as usize]));
    }

    #[inline]
    pub fn reciprocal(&self, node: NodeId) -> f32 {
        self.reciprocals[node as usize]
    }

    #[inline]
    pub fn lowest(&self, node: NodeId) -> &Mutex<Links<LOWEST_LINKS>> {
        &self.lowest[node as usize / BLOCK][node as usize % BLOCK]
    }

    /// Returns the links of a node on a level from 1; `None` if the node does not exist on it.
    pub fn upper(&self, node: NodeId, level: usize) -> Option<&Mutex<Links<LINKS>>> {
        self.upper[node as usize].get(level.checked_sub(1)?)
    }

    /// Returns the highest level of a node.
    pub fn level(&self, node: NodeId) -> usize {
        self.upper[node as usize].len()
    }

    pub fn memory(&self) -> usize {
        let of_block = BLOCK * (self.dimension * size_of::<f32>() + size_of::<Mutex<Links<LOWEST_LINKS>>>());
        let of_node = size_of::<f32>() + size_of::<Box<[Mutex<Links<LINKS>>]>>();
        self.vectors.len() * of_block
            + self.len * of_node
            + self.upper_levels * size_of::<Mutex<Links<LINKS>>>()
    }
}
