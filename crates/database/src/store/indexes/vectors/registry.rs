//! The graphs of all indexes, and those that replace graphs with many dead vectors.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cassette_rows::TableId;
use parking_lot::RwLock;

use super::VectorGraph;
use crate::schema::indexes::Index;

/// The memory that the graphs of a database occupy, and may occupy, bytes.
#[derive(Debug)]
pub(crate) struct GraphMemory {
    used: AtomicU64,
    max: u64,
}

impl GraphMemory {
    /// Replaces a charge by another. Returns the memory that is occupied, if it is too much.
    pub(super) fn charge(&self, before: u64, bytes: u64) -> Option<u64> {
        let all = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes - before;
        self.used.fetch_sub(before, Ordering::Relaxed);
        (all > self.max).then_some(all)
    }

    /// Whether this many more bytes may be occupied.
    fn has_room(&self, bytes: u64) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.max
    }
}

/// The graphs of indexes that are or were searched, by the tables with their entries.
#[derive(Debug)]
pub(crate) struct Graphs {
    graphs: RwLock<HashMap<TableId, Graph>>,
    memory: Arc<GraphMemory>,
}

#[derive(Debug, Clone)]
struct Graph {
    /// The one that is searched.
    current: Arc<VectorGraph>,
    /// The one that replaces it when it is loaded. Writes are recorded in both.
    successor: Option<Arc<VectorGraph>>,
}

impl Graphs {
    /// Returns no graphs, which may occupy `memory_max` bytes.
    pub fn new(memory_max: u64) -> Self {
        let memory = Arc::new(GraphMemory { used: AtomicU64::new(0), max: memory_max });
        Self { graphs: RwLock::default(), memory }
    }

    /// Returns the graph of an index, which may have to be loaded; `None` if it has no vectors.
    pub fn of(&self, index: &Index) -> Option<Arc<VectorGraph>> {
        let id = index.storage.id;
        if let Some(graph) = self.loaded(id) {
            return Some(graph);
        }
        let current = Arc::new(VectorGraph::new(index, self.memory.clone())?);
        let graph = Graph { current, successor: None };
        Some(self.graphs.write().entry(id).or_insert(graph).current.clone())
    }

    /// Returns the graph of the index with these entries, if it was searched before.
    pub fn loaded(&self, entries: TableId) -> Option<Arc<VectorGraph>> {
        self.graphs.read().get(&entries).map(|graph| graph.current.clone())
    }

    /// Returns the graphs that writes of these entries are recorded in.
    pub fn recording(&self, entries: TableId) -> impl Iterator<Item = Arc<VectorGraph>> + use<> {
        let graph = self.graphs.read().get(&entries).cloned();
        graph.into_iter().flat_map(|graph| [Some(graph.current), graph.successor]).flatten()
    }

    /// Returns all graphs that are searched, with the tables of their entries.
    pub fn all(&self) -> Vec<(TableId, Arc<VectorGraph>)> {
        self.graphs.read().iter().map(|(id, graph)| (*id, graph.current.clone())).collect()
    }

    /// Whether this is the graph of these entries, or its successor.
    pub fn has(&self, entries: TableId, graph: &Arc<VectorGraph>) -> bool {
        self.recording(entries).any(|other| Arc::ptr_eq(&other, graph))
    }

    /// Returns a successor, to be loaded, for the graph of an index with many dead vectors; `None`
    /// if it has few, or one already, or if both together could need too much memory, after which
    /// the graph that is searched might be given up.
    pub fn begin_renewal(&self, index: &Index) -> Option<Arc<VectorGraph>> {
        let mut graphs = self.graphs.write();
        let graph = graphs.get_mut(&index.storage.id)?;
        let has_room = self.memory.has_room(graph.current.memory());
        if graph.successor.is_some() || !has_room || !graph.current.is_stale() {
            return None;
        }
        graph.successor = VectorGraph::new(index, self.memory.clone()).map(Arc::new);
        graph.successor.clone()
    }

    /// Ends the renewal of a graph: its successor is searched from now on if it is complete. If it
    /// needed too much memory, the graph is renewed when as many vectors were removed again.
    pub fn end_renewal(&self, entries: TableId, successor: &Arc<VectorGraph>) {
        let mut graphs = self.graphs.write();
        if let Some(graph) = graphs.get_mut(&entries)
            && graph.successor.take_if(|other| Arc::ptr_eq(other, successor)).is_some()
        {
            if successor.is_complete() {
                graph.current = successor.clone();
            } else {
                graph.current.reset_removals();
            }
        }
    }

    /// Removes the graphs of an index whose entries were written or removed without being recorded.
    /// The next search loads it again.
    pub fn reset(&self, index: &Index) {
        self.graphs.write().remove(&index.storage.id);
    }

    /// Removes the graphs whose entries `is_stored` does not confirm.
    pub fn retain(&self, is_stored: impl Fn(&TableId) -> bool) {
        self.graphs.write().retain(|id, _| is_stored(id));
    }
}
