//! Loads of graphs: the vectors of the entries of an index.
//!
//! Writes are recorded from before the first step, so that the entries can be scanned piece by
//! piece while they change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cassette_engine::KeyRange;
use cassette_rows::{DecoratedKey, PartitionStream, Selection, StorageError, Unfiltered};

use super::{Build, Step};
use crate::basics::error::{DatabaseError, Result};
use crate::schema::indexes::Index;
use crate::schema::system::encode;
use crate::store::Store;
use crate::store::indexes::vectors::{Graphs, VectorGraph};

/// The number of vectors of a step: some tenths of a second at most.
const VECTORS_PER_STEP: usize = if cfg!(test) { 50 } else { 1000 };

/// The load of a graph, or of the successor of one.
pub(super) struct GraphLoad {
    index: Arc<Index>,
    graph: Arc<VectorGraph>,
    /// Set for a successor, whose renewal ends when this is dropped, also after an error.
    renewal: Option<Arc<Graphs>>,
    /// Whether the first step has begun.
    has_begun: AtomicBool,
}

impl GraphLoad {
    pub fn new(index: Arc<Index>, graph: Arc<VectorGraph>) -> Self {
        Self { index, graph, renewal: None, has_begun: AtomicBool::new(false) }
    }

    /// Returns the load of a successor.
    pub fn of_successor(index: Arc<Index>, successor: Arc<VectorGraph>, graphs: Arc<Graphs>) -> Self {
        let has_begun = AtomicBool::new(false);
        Self { index, graph: successor, renewal: Some(graphs), has_begun }
    }
}

impl Build for GraphLoad {
    fn title(&self) -> String {
        format!("graph {}", self.index.name)
    }

    fn step(&self, store: &Arc<Store>) -> Result<Step> {
        let (id, graphs) = (self.index.storage.id, &store.build_states().graphs);
        if !graphs.has(id, &self.graph) || self.graph.is_too_large() {
            return Ok(Step::Dropped);
        }
        if !self.has_begun.swap(true, Ordering::AcqRel) {
            // The saved links of a graph that is renewed are mostly those of dead vectors.
            let links = if self.renewal.is_some() { None } else { store.read_graph(id, &self.graph) };
            self.graph.start_loading(links);
        }
        let attempted = format!("cannot load the vectors of index {}: reading", self.index.name);
        let failed = |error: StorageError| DatabaseError::storage_after(&attempted, error);
        let range = self.graph.load.done().map_or(KeyRange::ALL, |done| KeyRange::ALL.after(done));
        let mut stream = store
            .engine()
            .scan(self.index.storage.id, &range, &Selection::all())
            .map_err(|error| DatabaseError::storage_after(&attempted, error))?;
        let now = encode::seconds(store.clock().now_micros());
        let mut done = None;
        for _ in 0..VECTORS_PER_STEP {
            let Some((key, is_alive)) = next_vector(&mut *stream, now).map_err(failed)? else {
                self.graph.finish_loading();
                return Ok(Step::Done);
            };
            if is_alive {
                // The first byte of a key is a prefix.
                self.graph.load_vector(key.key().get(1..).unwrap_or_default());
            }
            done = Some(key);
            self.connect(store);
        }
        self.graph.charge_nodes();
        self.graph.load.set_done(done);
        Ok(Step::More)
    }
}

impl Drop for GraphLoad {
    fn drop(&mut self) {
        if let Some(graphs) = &self.renewal {
            graphs.end_renewal(self.index.storage.id, &self.graph);
        }
    }
}

impl GraphLoad {
    /// Connects vectors, together with a thread in the background.
    fn connect(&self, store: &Store) {
        if store.has_background_threads() {
            self.graph.connect_in_background();
        }
        if !store.has_background_threads() || self.graph.is_behind() {
            self.graph.connect_batch();
        }
    }
}

/// Returns the key of the next vector, and whether it has an entry that is alive at `now`.
fn next_vector(
    stream: &mut dyn PartitionStream,
    now: u32,
) -> std::result::Result<Option<(DecoratedKey, bool)>, StorageError> {
    let Some(header) = stream.next_partition()? else { return Ok(None) };
    let mut is_alive = false;
    while !is_alive && let Some(next) = stream.next_unfiltered()? {
        is_alive = matches!(next, Unfiltered::Row(row) if row.liveness().is_live(now));
    }
    Ok(Some((header.key, is_alive)))
}
