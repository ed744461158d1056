//! Graphs of the vectors in indexes, which find the most similar ones.
//!
//! The entries of an index are the truth, and a graph is derived from them, in memory: it contains
//! at least every vector that has a live entry. A query takes vectors from the graph, reads their
//! entries, and checks these against their rows as every search by index does. So a graph that
//! contains too much costs time, and never shows a row that does not have the vector.
//!
//! It never contains too little:
//! - A write is recorded after its entries are applied and before it is acknowledged.
//! - A load first lets writes be recorded, and then scans the entries.
//! - A vector is marked as dead only if it had no entry, and was not recorded again since before
//!   its entries were read.
//! - A recorded vector waits in a batch, which queries compare one by one, until it is connected.

mod registry;
mod saved;
mod waiting;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cassette_rows::{DataType, DecoratedKey};
use cassette_vectors::{Graph, NodeId, NodeState, SavedLinks, Similarity, floats, reciprocal_length};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::schema::indexes::Index;
use crate::store::build_state::BuildState;
pub(crate) use registry::{GraphMemory, Graphs};
use waiting::{Known, Waiting};

/// The number of vectors that are connected together.
const BATCH: usize = if cfg!(test) { 8 } else { 64 };

/// The number of waiting vectors from which writers connect some themselves.
const WAITING_MAX: usize = 16 * BATCH;

/// A graph is not renewed before this number of entries was removed.
const REMOVALS_MIN: usize = if cfg!(test) { 20 } else { 4096 };

/// The graph of an index's vectors.
#[derive(Debug)]
pub(crate) struct VectorGraph {
    similarity: Similarity,
    dimension: usize,
    graph: RwLock<Graph>,
    /// Locked before `graph`, if both are.
    waiting: RwLock<Waiting>,
    /// Whether writes are recorded.
    records: AtomicBool,
    /// The progress of the load; built once it contains all vectors.
    pub load: BuildState<DecoratedKey>,
    /// Set while a thread connects vectors in the background.
    is_connecting: AtomicBool,
    is_too_large: AtomicBool,
    /// The saved links, until all vectors are loaded. Nothing is connected meanwhile. Locked before
    /// everything else.
    restoring: Mutex<Option<Restoring>>,
    is_restoring: AtomicBool,
    /// The number of nodes whose links were saved last.
    saved: AtomicUsize,
    /// The number of entries that were removed since it was loaded.
    removals: AtomicUsize,
    memory: Arc<GraphMemory>,
    /// The part of `memory` that is this graph's.
    charged: Mutex<u64>,
}

/// The load of vectors whose links were saved.
#[derive(Debug)]
struct Restoring {
    links: SavedLinks,
    /// By their numbers among the saved nodes.
    nodes: HashMap<u32, NodeId>,
}

/// A vector that a search has found.
#[derive(Debug)]
pub(crate) struct SimilarVector {
    /// The distance from the searched vector.
    pub distance: f32,
    vector: Found,
}

#[derive(Debug)]
enum Found {
    Node(NodeId, NodeState),
    Waiting(Arc<[f32]>),
}

impl VectorGraph {
    /// Returns an empty graph that has to be loaded; `None` if the index has no vectors.
    pub fn new(index: &Index, memory: Arc<GraphMemory>) -> Option<Self> {
        let similarity = index.similarity?;
        let DataType::Vector { dimension, .. } = index.column.data_type else { return None };
        let dimension = dimension as usize;
        // The same for all starts of one index, so that graphs are deterministic.
        let seed = index.storage.id.0.as_u64_pair().0;
        Some(Self {
            similarity,
            dimension,
            graph: RwLock::new(Graph::new(similarity, dimension, seed)),
            waiting: RwLock::default(),
            records: AtomicBool::new(false),
            load: BuildState::default(),
            is_connecting: AtomicBool::new(false),
            is_too_large: AtomicBool::new(false),
            restoring: Mutex::new(None),
            is_restoring: AtomicBool::new(false),
            saved: AtomicUsize::new(0),
            removals: AtomicUsize::new(0),
            memory,
            charged: Mutex::new(0),
        })
    }

    /// Whether searches find all vectors.
    pub fn is_complete(&self) -> bool {
        self.load.is_built() && !self.is_too_large()
    }

    /// Whether it would occupy too much memory, and is not used.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large.load(Ordering::Acquire)
    }

    /// Lets writes be recorded from now on, which must precede the scan of a load. `links` are
    /// those that were saved.
    pub fn start_loading(&self, links: Option<SavedLinks>) {
        let restoring = links.map(|links| Restoring { links, nodes: HashMap::new() });
        self.is_restoring.store(restoring.is_some(), Ordering::SeqCst);
        *self.restoring.lock() = restoring;
        self.records.store(true, Ordering::SeqCst);
    }

    /// Adds a vector that has an entry, with its saved links if it has any.
    pub fn load_vector(&self, bytes: &[u8]) {
        if let Some(Restoring { links, nodes }) = &mut *self.restoring.lock()
            && let Some(vector) = floats(bytes, self.dimension)
            && let Some((number, level)) = links.find(hash(&vector))
            && let std::collections::hash_map::Entry::Vacant(known) =
                self.waiting.write().known.entry(hash(&vector))
        {
            let node = self.graph.write().append_with_level(&vector, level);
            known.insert(Known::Node(node));
            nodes.insert(number, node);
            return;
        }
        self.record(bytes);
    }

    /// Links the vectors that were loaded, and connects the others.
    pub fn finish_loading(&self) {
        if let Some(Restoring { links, nodes }) = self.restoring.lock().take() {
            let graph = self.graph.read();
            // Without too many of the saved nodes, the others may not be reachable.
            if nodes.len() >= links.len() - links.len() / 10 {
                graph.restore(&links, &nodes);
                self.saved.store(nodes.len(), Ordering::Relaxed);
            } else {
                (0..graph.len() as NodeId).for_each(|node| graph.connect(node));
            }
        }
        self.charge_nodes();
        self.is_restoring.store(false, Ordering::SeqCst);
        while self.connect_batch() {}
        self.load.set_built();
    }

    /// Records a vector that has an entry, if writes are recorded.
    pub fn record(&self, bytes: &[u8]) {
        if !self.records.load(Ordering::SeqCst) || self.is_too_large() {
            return;
        }
        let Some(vector) = floats(bytes, self.dimension) else { return };
        // Entries of vectors that cannot be compared are older than the index.
        if self.similarity.validate(&vector).is_err() {
            return;
        }
        let hash = hash(&vector);
        let mut waiting = self.waiting.write();
        match waiting.known.get(&hash) {
            Some(Known::Node(node)) => {
                let Some(graph) = self.usable() else { return };
                if is_same(graph.vector(*node), &vector) {
                    return graph.revive(*node);
                }
            }
            Some(Known::Waiting) if waiting.contains(&vector) => return,
            Some(Known::Waiting) => {}
            None => {
                waiting.known.insert(hash, Known::Waiting);
            }
        }
        waiting.push(vector.into());
    }

    /// Counts an entry that was removed. Its vector stays, because other rows may have it.
    pub fn count_removal(&self) {
        self.removals.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts removals from 0 again.
    pub fn reset_removals(&self) {
        self.removals.store(0, Ordering::Relaxed);
    }

    /// Returns the memory that it occupies, bytes.
    pub fn memory(&self) -> u64 {
        *self.charged.lock()
    }

    /// Whether so many vectors may be dead that the graph should be loaded again: half of them.
    pub fn is_stale(&self) -> bool {
        let graph = self.graph.read();
        let removed = self.removals.load(Ordering::Relaxed).max(graph.dead());
        removed >= REMOVALS_MIN.max(graph.len() / 2) && self.is_complete()
    }

    /// Returns the numbers of vectors that searches return, and of those that they skip.
    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize) {
        let waiting = self.waiting.read().count();
        let graph = self.graph.read();
        (graph.len() - graph.dead() + waiting, graph.dead())
    }

    /// Whether so many vectors wait that a writer has to connect some.
    pub fn is_behind(&self) -> bool {
        !self.is_restoring.load(Ordering::SeqCst) && self.waiting.read().count() > WAITING_MAX
    }

    /// Whether a whole batch waits.
    pub fn has_batch(&self) -> bool {
        !self.is_restoring.load(Ordering::SeqCst) && self.waiting.read().has_batch()
    }

    /// Connects a batch of waiting vectors. Returns whether there was one.
    pub fn connect_batch(&self) -> bool {
        if self.is_restoring.load(Ordering::SeqCst) {
            return false;
        }
        let Some((number, batch)) = self.waiting.write().take_batch() else { return false };
        let first = self.graph.write().append(batch.iter().map(|vector| &vector[..]));
        for node in (first..).take(batch.len()) {
            // Locked for one node at a time: other threads that append wait for it, and searches
            // for them.
            match self.usable() {
                Some(graph) => graph.connect(node),
                None => return false,
            }
        }
        self.charge_nodes();
        let mut waiting = self.waiting.write();
        for (node, vector) in (first..).zip(&batch) {
            waiting.known.insert(hash(vector), Known::Node(node));
        }
        waiting.remove_batch(number);
        true
    }

    /// Connects all waiting batches in another thread, unless one does already.
    pub fn connect_in_background(self: &Arc<Self>) {
        if !self.has_batch() || self.is_connecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let graph = self.clone();
        let connect = move || {
            let connecting = Connecting(graph);
            while connecting.0.connect_batch() {}
        };
        let name = "vectors".to_owned();
        if let Err(error) = std::thread::Builder::new().name(name).spawn(connect) {
            // Writers connect them once many wait.
            tracing::warn!(%error, "cannot start a thread that connects vectors");
            self.is_connecting.store(false, Ordering::Release);
        }
    }

    /// Returns the graph, unless it was given up.
    fn usable(&self) -> Option<RwLockReadGuard<'_, Graph>> {
        let graph = self.graph.read();
        (!self.is_too_large()).then_some(graph)
    }

    /// Returns about `breadth` vectors that are near `vector`, the nearest one first, and whether
    /// there may be more; `None` if the graph was given up.
    pub fn search(&self, vector: &[f32], breadth: usize) -> Option<(Vec<SimilarVector>, bool)> {
        let reciprocal = reciprocal_length(vector);
        // Before the graph, so that a vector that is connected meanwhile is found twice, not never.
        let waiting: Vec<SimilarVector> = {
            let waiting = self.waiting.read();
            let similar = |other: &Arc<[f32]>| SimilarVector {
                distance: self
                    .similarity
                    .distance_of((vector, reciprocal), (other, reciprocal_length(other))),
                vector: Found::Waiting(other.clone()),
            };
            waiting.vectors().map(similar).collect()
        };
        let found = self.usable()?.search(vector, breadth);
        let are_more = found.len() >= breadth;
        let nodes = found.into_iter().map(|found| SimilarVector {
            distance: found.distance,
            vector: Found::Node(found.node, found.state),
        });
        let mut all: Vec<SimilarVector> = nodes.chain(waiting).collect();
        all.sort_by(|a, b| a.distance.total_cmp(&b.distance));
        if are_more {
            all.truncate(breadth);
        }
        Some((all, are_more))
    }

    /// Returns the bytes of a vector that was found; `None` if the graph was given up.
    pub fn bytes(&self, found: &SimilarVector) -> Option<Vec<u8>> {
        let bytes = |vector: &[f32]| vector.iter().flat_map(|element| element.to_be_bytes()).collect();
        Some(match &found.vector {
            Found::Node(node, _) => bytes(self.usable()?.vector(*node)),
            Found::Waiting(vector) => bytes(vector),
        })
    }

    /// Lets later searches skip a vector that had no entry after it was found, unless it was
    /// recorded again meanwhile.
    pub fn forget(&self, found: &SimilarVector) {
        if let Found::Node(node, state) = found.vector
            && let Some(graph) = self.usable()
        {
            graph.kill(node, state);
        }
    }

    /// Charges the memory of the nodes, and gives the graph up if all graphs have too much.
    pub fn charge_nodes(&self) {
        // An entry of the hash map has about this size.
        const KNOWN: usize = 32;
        let bytes = {
            let graph = self.graph.read();
            (graph.memory() + graph.len() * KNOWN) as u64
        };
        let mut charged = self.charged.lock();
        let before = std::mem::replace(&mut *charged, bytes);
        if let Some(all) = self.memory.charge(before, bytes)
            && !self.is_too_large.swap(true, Ordering::AcqRel)
        {
            tracing::warn!(
                bytes = all,
                "the graphs of vector indexes need more memory than vector_graph_memory: searches of one compare \
                 all rows"
            );
            *self.waiting.write() = Waiting::default();
            *self.graph.write() = Graph::new(self.similarity, self.dimension, 0);
            self.memory.charge(std::mem::take(&mut *charged), 0);
        }
    }
}

impl Drop for VectorGraph {
    fn drop(&mut self) {
        self.memory.charge(*self.charged.get_mut(), 0);
    }
}

/// Ends the state of a thread that connects vectors, which a panic does, too.
struct Connecting(Arc<VectorGraph>);

impl Drop for Connecting {
    fn drop(&mut self) {
        self.0.is_connecting.store(false, Ordering::Release);
    }
}

/// Returns a hash of a vector's bits. Vectors with one hash are distinguished by their elements.
fn hash(vector: &[f32]) -> u64 {
    let mix = |hash: u64, element: &f32| {
        (hash ^ u64::from(element.to_bits())).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    };
    vector.iter().fold(0x51_7C_C1_B7, mix)
}

/// Whether two vectors have the same bits: 0 and -0 differ, as entries do.
fn is_same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
