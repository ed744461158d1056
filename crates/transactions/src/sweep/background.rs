//! The sweeper's background thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Sweeper;

/// Sweeps until stopped or dropped. Both wait for the current step.
pub(crate) struct Background {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Background {
    /// Sweeps step by step, pausing when nothing is left.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(sweeper: Arc<Sweeper>, pause: Duration) -> std::io::Result<Self> {
        let stop: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let stopped = stop.clone();
        let run = move || {
            let (flag, woken) = &*stopped;
            while !*flag.lock() {
                let step = AssertUnwindSafe(|| sweeper.step_unless(|| *flag.lock()));
                match catch_unwind(step) {
                    Ok(Ok(swept)) if !swept.is_done => continue,
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "sweeping failed; retrying"),
                    Err(_) => tracing::error!("sweeping panicked; retrying"),
                }
                let mut flag = flag.lock();
                if !*flag {
                    woken.wait_for(&mut flag, pause);
                }
            }
        };
        let thread = std::thread::Builder::new().name("transactions-sweep".to_owned()).spawn(run)?;
        Ok(Self { stop, thread: Mutex::new(Some(thread)) })
    }

    /// Stops sweeping. When it returns, nothing is swept any more.
    pub fn stop(&self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        // Concurrent callers wait for the one that joins.
        let mut thread = self.thread.lock();
        if let Some(thread) = thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the sweeper's thread panicked");
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}
