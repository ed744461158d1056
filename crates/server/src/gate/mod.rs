//! Whether requests are executed here, stalled, or forwarded to another cluster.
//!
//! ```text
//! open -> stalled -> forwarding      permanently, also after a restart
//!   ^--------'                       released, or the stall has lasted its maximum time
//! ```
//!
//! A request holds a [`Pass`] from before it is executed until it has ended, so a point in time can
//! be found before which every executed request has ended: for a stall, and without one
//! ([`Gate::drained`]).

mod passes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use self::passes::{Entry, Passes};
use crate::forwarding::{Forwarding, Recording};

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
    passes: Passes,
    phase: watch::Sender<Phase>,
    /// Locked during changes of the phase: the number of the last stall, and its end.
    stall: Mutex<(u64, Option<Instant>)>,
}

/// The permission to execute a request, by the thread that entered. Borrows the gate: counting
/// references to it would write to a cache line that all threads share.
#[derive(Debug)]
pub(crate) struct Pass<'g> {
    gate: &'g Arc<Gate>,
    entry: Entry,
}

/// The permission to execute a request, by any thread.
#[derive(Debug)]
pub(crate) struct OwnedPass {
    gate: Arc<Gate>,
    entry: Entry,
}

impl Pass<'_> {
    pub fn into_owned(self) -> OwnedPass {
        let owned = OwnedPass { gate: Arc::clone(self.gate), entry: self.entry };
        // The other one leaves.
        std::mem::forget(self);
        owned
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.gate.passes.leave(self.entry);
    }
}

impl Drop for OwnedPass {
    fn drop(&mut self) {
        self.gate.passes.leave(self.entry);
    }
}

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            passes: Passes::new(),
            phase: watch::channel(Phase::Open).0,
            stall: Mutex::default(),
        })
    }

    /// Admits a request; `None` while requests are not executed.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Pass<'_>> {
        Some(Pass { entry: self.passes.enter()?, gate: self })
    }

    /// Returns what happens to requests, and its changes.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Returns where requests are forwarded to, if they are.
    pub(crate) fn forwarding(&self) -> Option<Arc<Forwarding>> {
        match &*self.phase.borrow() {
            Phase::Forwarding(to) => Some(Arc::clone(to)),
            Phase::Open | Phase::Stalled => None,
        }
    }

    /// Waits until the requests that are in execution now have ended; others continue. Returns
    /// `false` at `deadline`.
    pub(crate) fn drained(&self, deadline: Instant) -> bool {
        self.passes.drained(deadline)
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
            // The phase first: a request that is refused waits for its end.
            self.phase.send_replace(Phase::Stalled);
            self.passes.close();
            number
        };
        if self.passes.ended(until) {
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
        self.passes.open();
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
            return Err("requests are not stalled: the stall has lasted its maximum time".to_owned());
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
        Forwarding::new("127.0.0.1:9", None).unwrap()
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
        assert!(gate.forward(target(), || Ok(())).is_err(), "the stall has ended");
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
}
