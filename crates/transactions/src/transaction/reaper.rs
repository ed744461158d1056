//! Removes versions of aborted transactions in the background, where a removal asks all replicas: a reader that met them does not wait for a
//! node that hangs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::store::Cell;
use crate::timestamp::Timestamp;

/// Removals that wait, at most. What is beyond stays: whoever meets it next removes it.
const WAITING_MAX: usize = 64;

/// Versions of a table.
struct Aborted {
    table: String,
    versions: Vec<(Cell, Timestamp)>,
}

/// A thread that removes, one removal at a time. Nobody waits for it, not even when it is dropped: then it ends after the one that it is at.
pub(super) struct Reaper {
    waiting: SyncSender<Aborted>,
    stopped: Arc<AtomicBool>,
}

impl Reaper {
    /// Starts the thread.
    ///
    /// # Errors
    /// If it cannot be started.
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
                remove(&table, &versions);
            }
        };
        std::thread::Builder::new().name("transactions-reap".to_owned()).spawn(run)?;
        Ok(Self { waiting, stopped })
    }

    /// Removes versions soon, or never: they are not seen in any case.
    pub fn remove(&self, table: &str, versions: &[(&Cell, Timestamp)]) {
        let versions = versions.iter().map(|(cell, at)| ((*cell).clone(), *at)).collect();
        if self.waiting.try_send(Aborted { table: table.to_owned(), versions }).is_err() {
            tracing::debug!(table, "aborted versions stay: too many are being removed");
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
    fn nobody_waits_for_removals_and_those_that_cannot_wait_are_left() {
        let (begun, is_begun) = channel();
        let (go_on, may_go_on) = channel::<()>();
        let reaper = Reaper::start(move |table, versions| {
            begun.send((table.to_owned(), versions.len())).unwrap();
            // As at a node that hangs.
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
        assert!(is_begun.recv().is_err(), "it has ended, and what was beyond was left");
    }
}
