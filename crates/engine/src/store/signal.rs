//! Wakes the background threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Wakes threads that wait for something to do. Raising it again before one wakes costs next to
/// nothing.
#[derive(Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    stopped: AtomicBool,
    waiting: Mutex<()>,
    changed: Condvar,
}

impl Signal {
    /// Something is to be done.
    pub fn raise(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            drop(self.waiting.lock());
            self.changed.notify_one();
        }
    }

    /// Whether it was raised since it was last waited for or taken.
    pub fn take(&self) -> bool {
        self.raised.swap(false, Ordering::AcqRel)
    }

    /// Nothing will be done any more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        drop(self.waiting.lock());
        self.changed.notify_all();
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Waits until the signal is raised, for `time` at most; false when all is to stop.
    pub fn wait(&self, time: Duration) -> bool {
        let mut waiting = self.waiting.lock();
        if !self.raised.load(Ordering::Acquire) && !self.is_stopped() {
            self.changed.wait_for(&mut waiting, time);
        }
        self.raised.store(false, Ordering::Release);
        !self.is_stopped()
    }
}
