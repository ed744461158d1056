//! The background threads of the engine: flushers, compactors, and one that saves caches.
//!
//! A panic in one of them stops the engine: writers must not wait for a flush or a compaction that
//! never ends. Work that no caller waits for is [contained](Core::contain) instead.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hashbrown::HashSet;
use parking_lot::Mutex;

use crate::store::core::{Core, panic_reason};

/// The threads; stopped and joined on drop.
pub(crate) struct Background {
    core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    compactors: Arc<Compactors>,
}

/// The running compaction threads, by number, and their desired number.
struct Compactors {
    wanted: AtomicUsize,
    alive: Mutex<HashSet<usize>>,
}

impl Compactors {
    /// Whether the thread with this number is to end; it is removed if so.
    fn dismisses(&self, number: usize) -> bool {
        let mut alive = self.alive.lock();
        number >= self.wanted.load(Ordering::Acquire) && alive.remove(&number)
    }
}

/// The interval at which flushers check for flushes that are due by time or failed before.
const FLUSH_CHECK: Duration = Duration::from_secs(1);
/// The interval at which compactors check for compactions that are due by time.
const COMPACTION_CHECK: Duration = Duration::from_secs(60);

/// The interval at which the saving of caches is checked, about the resolution of
/// `..._cache_save_period`.
const CACHES_CHECK: Duration = Duration::from_secs(1);

impl Background {
    /// Creates the state without threads.
    pub fn new(core: Arc<Core>) -> Self {
        let wanted = AtomicUsize::new(core.options.concurrent_compactors.max(1));
        let compactors = Arc::new(Compactors { wanted, alive: Mutex::default() });
        Self { core, threads: Mutex::new(Vec::new()), compactors }
    }

    /// Starts the threads that the options require.
    pub fn start(&self) -> std::io::Result<()> {
        if !self.core.options.background_threads {
            return Ok(());
        }
        for number in 0..self.core.options.memtable_flush_writers.max(1) {
            self.spawn(format!("flush-{number}"), |core| {
                while core.flush_wanted.wait(FLUSH_CHECK) {
                    core.flush_what_is_due();
                    core.tick_metrics();
                    let clear = || core.clear_expired_snapshots();
                    if let Some(Err(error)) = core.contain("removing expired snapshots", clear) {
                        tracing::warn!(%error, "expired snapshots were not removed");
                    }
                }
            })?;
        }
        self.spawn("caches".to_owned(), |core| {
            while core.saved_caches.wanted.wait(CACHES_CHECK) {
                core.load_saved_caches();
                core.save_caches_when_due();
            }
        })?;
        self.set_compactors(self.compactors())
    }

    /// Returns the number of compaction threads.
    pub fn compactors(&self) -> usize {
        self.compactors.wanted.load(Ordering::Acquire)
    }

    /// Sets the number of compaction threads, at least one; others end after their current
    /// compaction.
    pub fn set_compactors(&self, count: usize) -> std::io::Result<()> {
        let count = count.max(1);
        let mut alive = self.compactors.alive.lock();
        self.compactors.wanted.store(count, Ordering::Release);
        if !self.core.options.background_threads {
            return Ok(());
        }
        for number in 0..count {
            if !alive.insert(number) {
                continue;
            }
            let compactors = self.compactors.clone();
            let work = move |core: &Arc<Core>| {
                while core.compaction_wanted.wait(COMPACTION_CHECK) {
                    if compactors.dismisses(number) {
                        // Another thread does the work that this one was woken for.
                        core.compaction_wanted.raise();
                        return;
                    }
                    core.compact_what_is_due();
                }
            };
            if let Err(error) = self.spawn(format!("compaction-{number}"), work) {
                alive.remove(&number);
                return Err(error);
            }
        }
        drop(alive);
        self.core.compaction_wanted.raise();
        Ok(())
    }

    /// Starts a thread whose panic stops the engine.
    fn spawn(&self, name: String, work: impl Fn(&Arc<Core>) + Send + 'static) -> std::io::Result<()> {
        let core = self.core.clone();
        let of = name.clone();
        let guarded = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&core))) {
                core.metrics.exceptions.add(1);
                core.stop(format!("thread {of} has panicked: {}", panic_reason(&*panic)));
            }
        };
        self.threads.lock().push(thread::Builder::new().name(name).spawn(guarded)?);
        Ok(())
    }

    /// Stops the threads after their current partition, and waits for them.
    pub fn stop(&self) {
        self.core.flush_wanted.stop();
        self.core.compaction_wanted.stop();
        self.core.saved_caches.wanted.stop();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a background thread of the engine had panicked");
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}
