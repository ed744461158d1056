//! Removes versions of aborted transactions in the background, for stores where a removal waits for
//! all replicas: readers do not wait for a node that hangs.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::store::Cell;
use crate::timestamp::Timestamp;

/// Maximum number of queued removals. Further ones are dropped: the next reader that finds the
/// versions removes them.
const WAITING_MAX: usize = 64;

/// Aborted versions of a table.
struct Aborted {
    table: String,
    versions: Vec<(Cell, Timestamp)>,
}

/// A thread that executes removals one at a time. Nothing waits for it; when dropped, it ends after
/// the current removal.
pub(super) struct Reaper {
    waiting: SyncSender<Aborted>,
    stopped: Arc<AtomicBool>,
}

impl Reaper {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(remove: impl Fn(&str, &[(&Cell, Timestamp)]) + Send + 'static) -> io::Result<Self> {
        let (waiting, wanted) = sync_channel::<Aborted>(WAITING_MAX);
        let stopped = Arc::new(AtomicBool::new(false));
        let is_stopped = stopped.clone();
        let run = move || {
            while let Ok(Aborted { table, versions }) = wanted.recv() {
                if is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                let versions: Vec<_> = versions.iter().map(|(cell, at)| (cell, *at)).collect();
                if catch_unwind(AssertUnwindSafe(|| remove(&table, &versions))).is_err() {
                    tracing::error!(
                        table,
                        "removing aborted versions panicked: the next reader removes them"
                    );
                }
            }
        };
        std::thread::Builder::new().name("transactions-reap".to_owned()).spawn(run)?;
        Ok(Self { waiting, stopped })
    }

    /// Queues the removal of versions. It may never happen: they are invisible in any case.
    pub fn remove(&self, table: &str, versions: &[(&Cell, Timestamp)]) {
        let versions = versions.iter().map(|(cell, at)| ((*cell).clone(), *at)).collect();
        if self.waiting.try_send(Aborted { table: table.to_owned(), versions }).is_err() {
            tracing::debug!(table, "aborted versions were not removed: too many removals are pending");
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn removals_continue_after_a_panic() {
        let (begun, is_begun) = channel();
        let reaper = Reaper::start(move |table, _| {
            begun.send(table.to_owned()).unwrap();
            assert_ne!(table, "panics", "injected");
        })
        .unwrap();
        let cell = Cell::new("row", "column");
        for table in ["panics", "after"] {
            reaper.remove(table, &[(&cell, Timestamp(1))]);
            assert_eq!(is_begun.recv().unwrap(), table);
        }
    }

    #[test]
    fn removals_do_not_block_readers_and_excess_ones_are_dropped() {
        let (begun, is_begun) = channel();
        let (go_on, may_go_on) = channel::<()>();
        let reaper = Reaper::start(move |table, versions| {
            begun.send((table.to_owned(), versions.len())).unwrap();
            // Like a node that hangs.
            let _ = may_go_on.recv();
        })
        .unwrap();
        let cell = Cell::new("row", "column");
        reaper.remove("first", &[(&cell, Timestamp(1)), (&cell, Timestamp(2))]);
        assert_eq!(is_begun.recv().unwrap(), ("first".to_owned(), 2));
        for _ in 0..10 * WAITING_MAX {
            reaper.remove("waiting", &[(&cell, Timestamp(3))]);
        }
        for _ in 0..WAITING_MAX {
            go_on.send(()).unwrap();
            assert_eq!(is_begun.recv().unwrap(), ("waiting".to_owned(), 1));
        }
        drop(reaper);
        drop(go_on);
        assert!(is_begun.recv().is_err(), "it has ended, and dropped the excess removals");
    }
}
