//! Appenders that wait for a sync, each to be woken on its own: one that is woken too early only
//! competes for the append lock, and sleeps again.

use std::sync::Arc;

use parking_lot::Condvar;

use super::Position;
use super::shared::Locked;

thread_local! {
    /// What wakes this thread.
    static WAKE: Arc<Condvar> = Arc::default();
}

/// The appenders that wait, in the order of their calls.
#[derive(Default)]
pub(super) struct SyncWaiters {
    waiting: Vec<Waiter>,
    /// How often an appender was woken.
    #[cfg(test)]
    pub(super) woken: u64,
}

struct Waiter {
    /// The end of its record.
    position: Position,
    wake: Arc<Condvar>,
}

impl SyncWaiters {
    /// Wakes the appenders whose records end at `synced` or before.
    pub(super) fn wake_upto(&mut self, synced: Position) {
        self.wake_if(|position| position <= synced);
    }

    /// Wakes the appender that has waited the longest, if any waits.
    pub(super) fn wake_one(&mut self) {
        let mut is_first = true;
        self.wake_if(|_| std::mem::take(&mut is_first));
    }

    /// Wakes all appenders.
    pub(super) fn wake_all(&mut self) {
        self.wake_if(|_| true);
    }

    fn wake_if(&mut self, mut wakes: impl FnMut(Position) -> bool) {
        self.waiting.retain(|waiter| {
            let wakes = wakes(waiter.position);
            if wakes {
                waiter.wake.notify_one();
                #[cfg(test)]
                {
                    self.woken += 1;
                }
            }
            !wakes
        });
    }
}

/// Waits until the appender of the record that ends at `position` is woken.
pub(super) fn wait<'a>(mut state: Locked<'a>, position: Position) -> Locked<'a> {
    let wake = WAKE.with(Arc::clone);
    state.sync_waiters.waiting.push(Waiter { position, wake: wake.clone() });
    wake.wait(&mut state);
    state
}
