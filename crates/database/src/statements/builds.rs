//! Building indexes and views over tables that have rows.

mod indexes;
#[cfg(test)]
mod panic_tests;
mod views;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::Builder;

use crate::schema::build_state::BuildGuard;

pub(crate) use indexes::build_index;
pub(crate) use views::build_view;

/// Runs the rest of a build on a thread with this name. A panic ends the build, and is logged.
fn in_background(
    running: BuildGuard,
    name: String,
    build: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    let thread = name.clone();
    let guarded = move || {
        let _mark = running;
        if catch_unwind(AssertUnwindSafe(build)).is_err() {
            tracing::error!(thread, "a build has panicked; the next schema change or start tries again");
        }
    };
    Builder::new().name(name).spawn(guarded).map(drop)
}
