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
use crate::store::indexes::vectors::VectorGraph;

/// The number of vectors of a step: some tenths of a second at most.
const VECTORS_PER_STEP: usize = if cfg!(test) { 50 } else { 1000 };

/// The load of a graph.
pub(super) struct GraphLoad {
    index: Arc<Index>,
    graph: Arc<VectorGraph>,
    /// Whether the first step has begun.
    has_begun: AtomicBool,
}

impl GraphLoad {
    pub fn new(index: Arc<Index>, graph: Arc<VectorGraph>) -> Self {
        Self { index, graph, has_begun: AtomicBool::new(false) }
    }
}

impl Build for GraphLoad {
    fn title(&self) -> String {
        format!("graph {}", self.index.name)
    }

    fn step(&self, store: &Arc<Store>) -> Result<Step> {
        let current = store.build_states().loaded_graph(self.index.storage.id);
        if !current.is_some_and(|graph| Arc::ptr_eq(&graph, &self.graph)) || self.graph.is_too_large() {
            return Ok(Step::Dropped);
        }
        if !self.has_begun.swap(true, Ordering::AcqRel) {
            self.graph.start_loading(store.read_graph(self.index.storage.id, &self.graph));
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
