//! Whether requests are executed here, stalled, or forwarded to another cluster.
//!
//! ```text
//! open -> stalled -> forwarding      permanently, also after a restart
//!   ^--------'                       released, or its time is over
//! ```
//!
//! A request holds a [`Pass`] from before it is executed until it has ended, so a point in time can
//! be found before which every executed request has ended: for a stall, and without one
//! ([`Gate::drained`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::forwarding::{Forwarding, Recording};

/// Pause between two checks for requests in execution.
const PAUSE: Duration = Duration::from_micros(500);

/// What happens to requests.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    Open,
    Stalled,
    Forwarding(Arc<Forwarding>),
}

/// Admits requests to execution.
#[derive(Debug)]
pub struct Gate {
    is_closed: AtomicBool,
    /// Its lowest bit selects the counter of new requests.
    epoch: AtomicUsize,
    in_execution: [AtomicUsize; 2],
    phase: watch::Sender<Phase>,
    /// Locked during changes of the phase: the number of the last stall, and its end.
    stall: Mutex<(u64, Option<Instant>)>,
}

/// The permission to execute a request.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Arc<Gate>,
    counter: usize,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.in_execution[self.counter].fetch_sub(1, Ordering::SeqCst);
    }
}

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            is_closed: AtomicBool::new(false),
            epoch: AtomicUsize::new(0),
            in_execution: Default::default(),
            phase: watch::channel(Phase::Open).0,
            stall: Mutex::default(),
        })
    }

    /// Admits a request; `None` while requests are not executed.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Pass> {
        loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            let pass = Pass { gate: Arc::clone(self), counter: epoch & 1 };
            self.in_execution[pass.counter].fetch_add(1, Ordering::SeqCst);
            // Counted first, so that closing the gate, or changing the epoch, waits for it.
            if self.is_closed.load(Ordering::SeqCst) {
                return None;
            }
            if self.epoch.load(Ordering::SeqCst) == epoch {
                return Some(pass);
            }
        }
    }

    /// Returns what happens to requests, and its changes.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Waits until all requests that are in execution now have ended; others continue. Returns
    /// `false` at `deadline`.
    pub(crate) fn drained(&self, deadline: Instant) -> bool {
        let _alone = self.stall.lock();
        let epoch = self.epoch.load(Ordering::SeqCst);
        // Left by an earlier call that reached its deadline.
        if !self.ended(&[(epoch + 1) & 1], deadline) {
            return false;
        }
        self.epoch.store(epoch + 1, Ordering::SeqCst);
        self.ended(&[epoch & 1], deadline)
    }

    fn ended(&self, counters: &[usize], deadline: Instant) -> bool {
        loop {
            if counters.iter().all(|counter| self.in_execution[*counter].load(Ordering::SeqCst) == 0) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Stalls new requests, and waits until those in execution have ended. Resumes after `at_most`.
    ///
    /// # Errors
    /// If requests are stalled or forwarded already, or do not end in time: then requests are
    /// executed again.
    pub(crate) fn stall(self: &Arc<Self>, at_most: Duration) -> Result<(), String> {
        let until = Instant::now() + at_most;
        let number = {
            let mut stall = self.stall.lock();
            match &*self.phase.borrow() {
                Phase::Open => {}
                Phase::Stalled => return Err("requests are stalled already".to_owned()),
                Phase::Forwarding(to) => return Err(forwards(to)),
            }
            let gate = Arc::clone(self);
            let number = stall.0 + 1;
            std::thread::Builder::new()
                .name("stall".to_owned())
                .spawn(move || {
                    std::thread::sleep(at_most);
                    gate.resume(Some(number));
                })
                .map_err(|error| format!("cannot start a thread: {error}"))?;
            *stall = (number, Some(until));
            self.is_closed.store(true, Ordering::SeqCst);
            self.phase.send_replace(Phase::Stalled);
            number
        };
        if self.ended(&[0, 1], until) {
            return Ok(());
        }
        self.resume(Some(number));
        Err(format!("requests in execution did not end within {at_most:?}"))
    }

    /// Executes requests again. No-op if they are not stalled.
    pub(crate) fn release(&self) {
        self.resume(None);
    }

    /// Ends a stall: this one, or any.
    fn resume(&self, number: Option<u64>) {
        let mut stall = self.stall.lock();
        if stall.1.is_none() || number.is_some_and(|number| number != stall.0) {
            return;
        }
        stall.1 = None;
        self.is_closed.store(false, Ordering::SeqCst);
        self.phase.send_replace(Phase::Open);
    }

    /// Forwards stalled and later requests, after `record` has recorded that durably.
    ///
    /// # Errors
    /// If requests are not stalled, or it cannot be recorded: nothing has changed. If it is unknown
    /// whether it was recorded, requests remain stalled until the next start, which decides.
    pub(crate) fn forward(
        &self,
        to: Arc<Forwarding>,
        record: impl FnOnce() -> Result<(), Recording>,
    ) -> Result<(), String> {
        let mut stall = self.stall.lock();
        if let Phase::Forwarding(to) = &*self.phase.borrow() {
            return Err(forwards(to));
        }
        if stall.1.is_none_or(|until| Instant::now() >= until) {
            return Err("requests are not stalled: the time is over".to_owned());
        }
        match record() {
            Ok(()) => {
                stall.1 = None;
                tracing::warn!("forwarding all requests to {}", to.target());
                self.phase.send_replace(Phase::Forwarding(to));
                Ok(())
            }
            Err(Recording::Undone(error)) => Err(format!("cannot record it: {error}")),
            Err(Recording::Unknown(error)) => {
                stall.1 = None;
                tracing::error!(%error, "requests remain stalled: whether this server forwards them is unknown \
                    until its next start");
                Err(format!("unknown whether it was recorded: {error}; restart the server"))
            }
        }
    }
}

fn forwards(to: &Forwarding) -> String {
    format!("the server forwards all requests to {}", to.target())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn target() -> Arc<Forwarding> {
        Forwarding::new("127.0.0.1:9".to_owned(), None)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(5)
    }

    #[test]
    fn a_stall_waits_for_requests_in_execution_and_admits_no_others() {
        let gate = Gate::new();
        let pass = gate.enter().unwrap();
        assert!(gate.stall(Duration::from_millis(5)).is_err(), "a request is in execution");
        assert!(gate.enter().is_some(), "resumed");
        drop(pass);
        gate.stall(LONG).unwrap();
        assert!(gate.enter().is_none());
        assert!(gate.stall(LONG).is_err());
        gate.release();
        assert!(gate.enter().is_some());
    }

    #[test]
    fn a_stall_ends_by_itself() {
        let gate = Gate::new();
        gate.stall(Duration::from_millis(1)).unwrap();
        while gate.enter().is_none() {
            std::thread::yield_now();
        }
        assert!(gate.forward(target(), || Ok(())).is_err(), "its time is over");
        assert!(gate.enter().is_some());
    }

    #[test]
    fn requests_are_forwarded_only_after_that_was_recorded() {
        let gate = Gate::new();
        gate.stall(LONG).unwrap();
        let undone = || Err(Recording::Undone(io::ErrorKind::StorageFull.into()));
        assert!(gate.forward(target(), undone).is_err());
        gate.release();
        assert!(gate.enter().is_some(), "local service continues");
        gate.stall(LONG).unwrap();
        gate.forward(target(), || Ok(())).unwrap();
        gate.release();
        assert!(gate.enter().is_none(), "forwarding is permanent");
        assert!(matches!(&*gate.phase().borrow(), Phase::Forwarding(_)));
    }

    #[test]
    fn unknown_recording_keeps_requests_stalled() {
        let gate = Gate::new();
        gate.stall(LONG).unwrap();
        let unknown = || Err(Recording::Unknown(io::ErrorKind::Other.into()));
        assert!(gate.forward(target(), unknown).is_err());
        gate.release();
        assert!(gate.enter().is_none());
    }

    #[test]
    fn draining_waits_for_earlier_requests_only() {
        let gate = Gate::new();
        let earlier = gate.enter().unwrap();
        assert!(!gate.drained(soon()));
        let later = gate.enter().unwrap();
        assert!(!gate.drained(soon()), "the first one is still in execution");
        drop(earlier);
        assert!(!gate.drained(soon()), "the second one is");
        drop(later);
        let _ = gate.enter().unwrap();
        assert!(gate.drained(soon()));
    }
}
