//! The progress of builds, and the metrics of queries by indexes: state of this process alone. Plans
//! and the catalog hold definitions, which never change.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cassette_rows::{DecoratedKey, TableId, Token};
use parking_lot::{Mutex, RwLock};

use crate::schema::catalog::Catalog;
use crate::schema::indexes::{Index, IndexKind};
use crate::schema::views::View;
use crate::store::indexes::SearchMetrics;

/// The token up to which a view is built, and how many partitions of its base that are.
pub(crate) type BuiltUpTo = (Token, i64);

/// The states of all indexes and views, by the tables that hold their entries.
#[derive(Debug, Default)]
pub(crate) struct BuildStates {
    indexes: RwLock<HashMap<TableId, Arc<BuildState<DecoratedKey>>>>,
    views: RwLock<HashMap<TableId, Arc<BuildState<BuiltUpTo>>>>,
    /// By the base table: a query may use several indexes of it.
    searches: RwLock<HashMap<TableId, Arc<SearchMetrics>>>,
}

impl BuildStates {
    /// The state of an index; at first unbuilt.
    pub fn index(&self, index: &Index) -> Arc<BuildState<DecoratedKey>> {
        get_or_default(&self.indexes, index.storage.id)
    }

    /// The state of a view; at first unbuilt.
    pub fn view(&self, view: &View) -> Arc<BuildState<BuiltUpTo>> {
        get_or_default(&self.views, view.table.id)
    }

    /// The metrics of queries by the storage-attached indexes of a table, for as long as it has one.
    pub fn searches(&self, base: TableId) -> Arc<SearchMetrics> {
        get_or_default(&self.searches, base)
    }

    /// Updates the recent values and rates of all metrics. `now` is monotonic time.
    pub fn tick(&self, now: std::time::Duration) {
        self.searches.read().values().for_each(|searches| searches.tick(now));
    }

    /// Forgets what is not in the catalog.
    pub fn retain(&self, catalog: &Catalog) {
        let is_stored = |id: &TableId| {
            catalog.keyspaces().any(|keyspace| keyspace.stored_tables().any(|table| table.id == *id))
        };
        self.indexes.write().retain(|id, _| is_stored(id));
        self.views.write().retain(|id, _| is_stored(id));
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

/// How far an index or a view is built. `P` is the position that a build goes on from.
#[derive(Debug)]
pub(crate) struct BuildState<P> {
    built: AtomicBool,
    /// A thread is building it.
    building: Arc<AtomicBool>,
    /// Partitions of the base table that were read.
    partitions: AtomicU64,
    /// Entries that were written.
    entries: AtomicU64,
    /// Up to where the build is done.
    done: Mutex<Option<P>>,
}

impl<P> Default for BuildState<P> {
    fn default() -> Self {
        Self {
            built: AtomicBool::new(false),
            building: Arc::default(),
            partitions: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            done: Mutex::new(None),
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

    /// Partitions read and entries written since the build began in this process.
    pub fn progress(&self) -> (u64, u64) {
        (self.partitions.load(Ordering::Relaxed), self.entries.load(Ordering::Relaxed))
    }

    /// Marks it as unbuilt, to be built again from the start: it has lost entries.
    pub fn start_over(&self) {
        *self.done.lock() = None;
        self.built.store(false, Ordering::Release);
    }

    /// Marks it as being built, until the guard is dropped. Returns `None` if it is built or its build runs.
    pub fn begin(&self) -> Option<BuildGuard> {
        let begins = !self.is_built() && !self.building.swap(true, Ordering::AcqRel);
        begins.then(|| BuildGuard(self.building.clone()))
    }

    pub fn set_built(&self) {
        *self.done.lock() = None;
        self.built.store(true, Ordering::Release);
    }

    /// Up to where the build is done; `None` before its first step.
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

/// Marks an index or a view as being built until it is dropped, also by a panic: a mark that stayed
/// would keep the index or view unbuilt for as long as the process runs.
#[derive(Debug)]
pub(crate) struct BuildGuard(Arc<AtomicBool>);

impl Drop for BuildGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
