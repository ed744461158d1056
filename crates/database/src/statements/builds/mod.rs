//! Builds of indexes and views on tables with rows, and loads of graphs: step by step, first
//! briefly in the thread that created them, and then in the background.

mod graphs;
mod indexes;
#[cfg(test)]
mod panic_tests;
mod views;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use crate::basics::error::Result;
use crate::schema::indexes::Index;
use crate::schema::views::View;
use crate::store::Store;
use crate::store::build_state::BuildGuard;
use graphs::GraphLoad;
use indexes::IndexBuild;
use views::ViewBuild;

/// How long a CREATE statement builds before the build continues in the background.
const IN_STATEMENT: Duration = Duration::from_millis(50);

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Everything is built.
    Done,
    /// Some partitions remain.
    More,
    /// The index or view does not exist any more.
    Dropped,
}

/// The build of an index or a view.
trait Build: Send + 'static {
    /// Returns `index` or `view`, and the name.
    fn title(&self) -> String;

    /// Builds the entries of some partitions, and durably records the progress.
    fn step(&self, store: &Arc<Store>) -> Result<Step>;

    /// Starts what has to follow when everything is built.
    fn then(&self, _store: &Arc<Store>) {}
}

/// Builds an index, unless it is built or being built. Errors are logged; the next start tries
/// again.
pub(crate) fn build_index(store: &Arc<Store>, index: &Arc<Index>) {
    if let Some(running) = store.build_states().index(index).begin() {
        // Builds do not record vectors in a graph.
        store.build_states().graphs.reset(index);
        build(store, running, IndexBuild(index.clone()));
    }
}

/// Loads the graph of an index of vectors, unless it is loaded or being loaded.
pub(crate) fn load_graph(store: &Arc<Store>, index: &Arc<Index>) {
    let graphs = &store.build_states().graphs;
    let Some(graph) = graphs.of(index).filter(|graph| !graph.is_too_large()) else { return };
    if store.is_built(index)
        && let Some(running) = graph.load.begin()
    {
        run_load(store, running, GraphLoad::new(index.clone(), graph));
    }
}

/// Loads successors of the graphs with many dead vectors.
pub(crate) fn renew_graphs(store: &Arc<Store>) {
    let (catalog, graphs) = (store.catalog(), &store.build_states().graphs);
    for index in catalog.keyspaces().flat_map(|keyspace| keyspace.indexes.values()) {
        if let Some(graph) = graphs.begin_renewal(index)
            && let Some(running) = graph.load.begin()
        {
            run_load(store, running, GraphLoad::of_successor(index.clone(), graph, graphs.clone()));
        }
    }
}

/// Searches do without the graph until it is loaded.
fn run_load(store: &Arc<Store>, running: BuildGuard, load: GraphLoad) {
    if store.has_background_threads() {
        build_in_background(store, running, load);
    } else {
        build(store, running, load);
    }
}

/// Builds a view, unless it is built or being built. Errors are logged; the next start tries again.
pub(crate) fn build_view(store: &Arc<Store>, view: &Arc<View>) {
    if let Some(running) = store.build_states().view(view).begin() {
        build(store, running, ViewBuild(view.clone()));
    }
}

fn build(store: &Arc<Store>, running: BuildGuard, build: impl Build) {
    let began = store.clock().monotonic();
    loop {
        match build.step(store) {
            Ok(Step::More) if store.builds_are_stopped() => return,
            Ok(Step::More) => {}
            Ok(Step::Done) => return build.then(store),
            Ok(Step::Dropped) => return,
            Err(error) => return log_failure(&build, &error),
        }
        let elapsed = store.clock().monotonic().saturating_sub(began);
        if store.has_background_threads() && elapsed >= IN_STATEMENT {
            return build_in_background(store, running, build);
        }
    }
}

/// Runs the rest of a build on a thread. A panic ends the build, and is logged and counted.
fn build_in_background(store: &Arc<Store>, running: BuildGuard, build: impl Build) {
    let (title, store) = (build.title(), Arc::downgrade(store));
    let thread = title.clone();
    let run = move || {
        let _running = running;
        let steps = AssertUnwindSafe(|| {
            // The store is released between steps, so that it can be closed.
            while let Some(store) = store.upgrade()
                && !store.builds_are_stopped()
            {
                match build.step(&store) {
                    Ok(Step::More) => {}
                    Ok(Step::Done) => return build.then(&store),
                    Ok(Step::Dropped) => return,
                    Err(error) => return log_failure(&build, &error),
                }
            }
        });
        if catch_unwind(steps).is_err() {
            tracing::error!(thread, "a build has panicked; the next schema change or start tries again");
            if let Some(store) = store.upgrade() {
                store.engine().metrics().exceptions.add(1);
            }
        }
    };
    if let Err(error) = Builder::new().name(title.clone()).spawn(run) {
        tracing::error!(%error, "cannot start a thread: {title} stays unbuilt until the next start");
    }
}

fn log_failure(build: &impl Build, error: &crate::basics::error::DatabaseError) {
    tracing::error!(%error, "{} stays unbuilt until the next start", build.title());
}
