//! Builds of indexes and views on tables with rows: step by step, first briefly in the thread that
//! created them, and then in the background.

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
}

/// Builds an index, unless it is built or being built. Errors are logged; the next start tries
/// again.
pub(crate) fn build_index(store: &Arc<Store>, index: &Arc<Index>) {
    if let Some(running) = store.build_states().index(index).begin() {
        build(store, running, IndexBuild(index.clone()));
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
            Ok(Step::Done | Step::Dropped) => return,
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
                    Ok(Step::Done | Step::Dropped) => return,
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
