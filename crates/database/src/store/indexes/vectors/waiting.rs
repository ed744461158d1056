//! Vectors that wait to be connected.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cassette_vectors::NodeId;

use super::{BATCH, is_same};

/// The waiting vectors, and where all vectors are.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    batches: VecDeque<Batch>,
    /// The number of the next batch.
    next: u64,
    /// By the hash of a vector: where one with this hash is.
    pub known: HashMap<u64, Known>,
}

/// Where a vector is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known {
    Node(NodeId),
    Waiting,
}

#[derive(Debug)]
struct Batch {
    number: u64,
    vectors: Vec<Arc<[f32]>>,
    /// Whether a thread is connecting it.
    is_taken: bool,
}

impl Waiting {
    /// Returns all vectors, including those that are being connected.
    pub fn vectors(&self) -> impl Iterator<Item = &Arc<[f32]>> {
        self.batches.iter().flat_map(|batch| &batch.vectors)
    }

    pub fn count(&self) -> usize {
        self.batches.iter().map(|batch| batch.vectors.len()).sum()
    }

    /// Whether the vector waits in a batch that no thread is connecting. Otherwise its node may
    /// have been found dead already.
    pub fn contains(&self, vector: &[f32]) -> bool {
        let free = self.batches.iter().filter(|batch| !batch.is_taken);
        free.flat_map(|batch| &batch.vectors).any(|other| is_same(other, vector))
    }

    pub fn push(&mut self, vector: Arc<[f32]>) {
        match self.batches.back_mut() {
            Some(last) if !last.is_taken && last.vectors.len() < BATCH => last.vectors.push(vector),
            _ => {
                self.batches.push_back(Batch { number: self.next, vectors: vec![vector], is_taken: false });
                self.next += 1;
            }
        }
    }

    pub fn has_batch(&self) -> bool {
        self.batches.iter().any(Batch::is_ready)
    }

    /// Returns the vectors of the first whole batch, which stay until it is removed.
    pub fn take_batch(&mut self) -> Option<(u64, Vec<Arc<[f32]>>)> {
        let batch = self.batches.iter_mut().find(|batch| batch.is_ready())?;
        batch.is_taken = true;
        Some((batch.number, batch.vectors.clone()))
    }

    pub fn remove_batch(&mut self, number: u64) {
        self.batches.retain(|batch| batch.number != number);
    }
}

impl Batch {
    fn is_ready(&self) -> bool {
        !self.is_taken && self.vectors.len() >= BATCH
    }
}
