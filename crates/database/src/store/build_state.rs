//! The progress of builds, and the metrics of queries by indexes: state of this process. Plans and
//! the catalog contain only immutable definitions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cassette_rows::{DecoratedKey, TableId, Token};
use parking_lot::{Mutex, RwLock};

use crate::schema::catalog::Catalog;
use crate::schema::indexes::{Index, IndexKind};
use crate::schema::views::View;
use crate::store::indexes::SearchMetrics;
use crate::store::indexes::vectors::Graphs;

/// The token up to which a view is built, and the number of partitions of its base table up to it.
pub(crate) type BuiltUpTo = (Token, i64);

/// The states of all indexes and views, by the tables with their entries.
#[derive(Debug)]
pub(crate) struct BuildStates {
    indexes: RwLock<HashMap<TableId, Arc<BuildState<DecoratedKey>>>>,
    views: RwLock<HashMap<TableId, Arc<BuildState<BuiltUpTo>>>>,
    /// By base table: a query may use several of its indexes.
    searches: RwLock<HashMap<TableId, Arc<SearchMetrics>>>,
    /// Those of indexes of vectors.
    pub graphs: Arc<Graphs>,
}

impl BuildStates {
    /// Returns no states. Graphs may occupy `graph_memory` bytes.
    pub fn new(graph_memory: u64) -> Self {
        Self {
            indexes: RwLock::default(),
            views: RwLock::default(),
            searches: RwLock::default(),
            graphs: Arc::new(Graphs::new(graph_memory)),
        }
    }

    /// Returns the state of an index; initially unbuilt.
    pub fn index(&self, index: &Index) -> Arc<BuildState<DecoratedKey>> {
        get_or_default(&self.indexes, index.storage.id)
    }

    /// Returns the state of a view; initially unbuilt.
    pub fn view(&self, view: &View) -> Arc<BuildState<BuiltUpTo>> {
        get_or_default(&self.views, view.table.id)
    }

    /// Returns the metrics of queries by the storage-attached indexes of a table, kept as long as
    /// it has one.
    pub fn searches(&self, base: TableId) -> Arc<SearchMetrics> {
        get_or_default(&self.searches, base)
    }

    /// Updates the recent values and rates of all metrics. `now` is monotonic time.
    pub fn tick(&self, now: std::time::Duration) {
        self.searches.read().values().for_each(|searches| searches.tick(now));
    }

    /// Removes the states of indexes and views that the catalog does not contain.
    pub fn retain(&self, catalog: &Catalog) {
        let is_stored = |id: &TableId| {
            catalog.keyspaces().any(|keyspace| keyspace.stored_tables().any(|table| table.id == *id))
        };
        self.indexes.write().retain(|id, _| is_stored(id));
        self.views.write().retain(|id, _| is_stored(id));
        self.graphs.retain(is_stored);
        let is_attached = |index: &Arc<Index>| index.kind == IndexKind::StorageAttached;
        self.searches.write().retain(|id, _| catalog.indexes_of(*id).iter().any(is_attached));
    }
}

fn get_or_default<S: Default>(states: &RwLock<HashMap<TableId, Arc<S>>>, id: TableId) -> Arc<S> {
    if let Some(state) = states.read().get(&id) {
        return state.clone();
    }
    states.write().entry(id).or_default().clone()
}

/// The progress of an index or view. `P` is the position from which a build continues.
#[derive(Debug)]
pub(crate) struct BuildState<P> {
    built: AtomicBool,
    /// Set while a thread is building it.
    building: Arc<AtomicBool>,
    /// The number of partitions of the base table that were read.
    partitions: AtomicU64,
    /// The number of entries that were written.
    entries: AtomicU64,
    /// The position up to which the build is complete.
    done: Mutex<Option<P>>,
    /// How often the build had to start over.
    restarts: AtomicU64,
}

impl<P> Default for BuildState<P> {
    fn default() -> Self {
        Self {
            built: AtomicBool::new(false),
            building: Arc::default(),
            partitions: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            done: Mutex::new(None),
            restarts: AtomicU64::new(0),
        }
    }
}

impl<P: Clone> BuildState<P> {
    /// Whether queries may use it.
    pub fn is_built(&self) -> bool {
        self.built.load(Ordering::Acquire)
    }

    /// Whether a thread is building it.
    pub fn is_building(&self) -> bool {
        self.building.load(Ordering::Acquire) && !self.is_built()
    }

    /// Returns the partitions read and entries written since the build began in this process.
    pub fn progress(&self) -> (u64, u64) {
        (self.partitions.load(Ordering::Relaxed), self.entries.load(Ordering::Relaxed))
    }

    /// Marks it as unbuilt, to be built from the start, because entries were lost.
    pub fn start_over(&self) {
        self.restart();
        self.built.store(false, Ordering::Release);
    }

    /// Lets a running build continue from the start, because entries are about to be removed. Its
    /// present step must not record its progress.
    pub fn restart(&self) {
        self.restarts.fetch_add(1, Ordering::AcqRel);
        *self.done.lock() = None;
    }

    /// Returns a number that changes when the build has to start over.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Acquire)
    }

    /// Marks it as being built until the guard is dropped. Returns `None` if it is built or being
    /// built.
    pub fn begin(&self) -> Option<BuildGuard> {
        let begins = !self.is_built() && !self.building.swap(true, Ordering::AcqRel);
        begins.then(|| BuildGuard(self.building.clone()))
    }

    pub fn set_built(&self) {
        *self.done.lock() = None;
        self.built.store(true, Ordering::Release);
    }

    /// Returns the position up to which the build is complete; `None` before its first step.
    pub fn done(&self) -> Option<P> {
        self.done.lock().clone()
    }

    pub fn set_done(&self, done: Option<P>) {
        *self.done.lock() = done;
    }

    pub fn count_partition(&self) {
        self.partitions.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_entries(&self, entries: usize) {
        self.entries.fetch_add(entries as u64, Ordering::Relaxed);
    }
}

/// Marks an index or view as being built until the guard is dropped, which a panic also does;
/// otherwise it would remain unbuilt until the process ends.
#[derive(Debug)]
pub(crate) struct BuildGuard(Arc<AtomicBool>);

impl Drop for BuildGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
