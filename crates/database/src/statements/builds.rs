//! Building indexes and views over tables that have rows.

mod indexes;
#[cfg(test)]
mod panic_tests;
mod views;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::Builder;

use crate::schema::build_state::BuildGuard;
use crate::store::Store;

pub(crate) use indexes::build_index;
pub(crate) use views::build_view;

/// Runs the rest of a build on a thread with this name. A panic ends the build, and is logged and
/// counted.
fn in_background(
    store: &Arc<Store>,
    running: BuildGuard,
    name: String,
    build: impl FnOnce(&Weak<Store>) + Send + 'static,
) -> std::io::Result<()> {
    let (thread, store) = (name.clone(), Arc::downgrade(store));
    let guarded = move || {
        let _mark = running;
        if catch_unwind(AssertUnwindSafe(|| build(&store))).is_err() {
            tracing::error!(thread, "a build has panicked; the next schema change or start tries again");
            if let Some(store) = store.upgrade() {
                store.engine().metrics().exceptions.add(1);
            }
        }
    };
    Builder::new().name(name).spawn(guarded).map(drop)
}
