//! The two background threads: one syncs, the other reserves the next segment ahead of time and
//! removes segments that are no longer needed. They are separate because a sync can take long, and
//! appends would stall if the next segment had to wait for it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::shared::Shared;

/// The threads of one log.
#[derive(Default)]
pub(super) struct Background {
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts the threads that the options require.
    pub(super) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let mut background = Self::default();
        if !shared.options.threads {
            return Ok(background);
        }
        // A panic ends the log: writers must not wait for a sync or a segment that never completes.
        let start = |name: &'static str, run: fn(&Shared)| {
            let shared = shared.clone();
            let guarded = move || {
                if catch_unwind(AssertUnwindSafe(|| run(&shared))).is_err() {
                    tracing::error!(
                        thread = name,
                        "a commit log thread has panicked; the log accepts no more writes"
                    );
                    let error = io::Error::other(format!("thread {name} has panicked"));
                    shared.state.lock().fail(error);
                    shared.work.notify_all();
                    shared.advanced.notify_all();
                }
            };
            Builder::new().name(name.into()).spawn(guarded)
        };
        background.threads.push(start("commitlog-alloc", reserve_and_remove_segments)?);
        if shared.sync_interval().is_some() {
            background.threads.push(start("commitlog-sync", sync_when_due)?);
        }
        Ok(background)
    }

    /// Stops the threads and waits for them to end.
    pub(super) fn stop(&mut self, shared: &Shared) {
        shared.state.lock().stopping = true;
        shared.work.notify_all();
        shared.advanced.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a commit log thread panicked");
            }
        }
    }
}

fn reserve_and_remove_segments(shared: &Shared) {
    let mut state = shared.state.lock();
    while !state.stopping {
        if !state.spare_wanted || state.creating || state.spare.is_some() {
            if std::mem::take(&mut state.removal_wanted) {
                MutexGuard::unlocked(&mut state, || shared.remove_clean_segments());
            } else {
                shared.work.wait(&mut state);
            }
            continue;
        }
        let (locked, created) = shared.create_spare(state, shared.options.segment_size, true);
        state = locked;
        if let Err(error) = created {
            // The writer that needs the segment tries again, and reports the error.
            tracing::warn!(%error, "the next commit log segment could not be reserved ahead of time");
        }
    }
}

/// Syncs start one interval apart, or directly after the last one if that took longer, or on
/// request.
fn sync_when_due(shared: &Shared) {
    // At most a year, so that the instant can be computed.
    let interval = shared.sync_interval().unwrap_or(Duration::MAX).min(Duration::from_secs(365 * 24 * 3600));
    let mut due = Instant::now() + interval;
    let mut state = shared.state.lock();
    while !state.stopping && state.failure.is_none() {
        if Instant::now() < due && !state.sync_wanted {
            shared.work.wait_until(&mut state, due);
            continue;
        }
        due = Instant::now() + interval;
        state.sync_wanted = false;
        let end = state.end();
        state = match shared.sync_upto(state, end) {
            Ok(state) => state,
            Err(_) => return,
        };
    }
}
