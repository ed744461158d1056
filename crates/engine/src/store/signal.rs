//! Wakes the background threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Wakes threads that wait for work. Raising it repeatedly before one wakes costs almost nothing.
#[derive(Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    stopped: AtomicBool,
    waiting: Mutex<()>,
    changed: Condvar,
}

impl Signal {
    /// Signals that there is work.
    pub fn raise(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            drop(self.waiting.lock());
            self.changed.notify_one();
        }
    }

    /// Returns whether it was raised since the last wait or take.
    pub fn take(&self) -> bool {
        self.raised.swap(false, Ordering::AcqRel)
    }

    /// Signals that the threads must end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        drop(self.waiting.lock());
        self.changed.notify_all();
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Waits until the signal is raised, for at most `time`; returns false if the thread must end.
    pub fn wait(&self, time: Duration) -> bool {
        let mut waiting = self.waiting.lock();
        if !self.raised.load(Ordering::Acquire) && !self.is_stopped() {
            self.changed.wait_for(&mut waiting, time);
        }
        self.raised.store(false, Ordering::Release);
        !self.is_stopped()
    }
}
