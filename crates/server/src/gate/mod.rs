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

use cassette_admin_api::Refused;
use parking_lot::Mutex;
use tokio::sync::watch;
use uuid::Uuid;

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
    /// Locked during changes of the phase.
    stall: Mutex<Stall>,
}

/// The last stall.
#[derive(Debug)]
struct Stall {
    /// No other stall has this number, also of another start of the server.
    number: u64,
    state: StallState,
}

#[derive(Debug)]
enum StallState {
    /// Requests are executed again.
    Ended,
    /// Requests are stalled.
    Active { until: Instant, to: Arc<Forwarding> },
    /// Requests are stalled until the next start of the server, which decides.
    Undecided(String),
    /// Requests are forwarded.
    Forwarded,
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
            stall: Mutex::new(Stall { number: first_number(), state: StallState::Ended }),
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
    /// Returns the number of the stall, whose end can be that requests are forwarded.
    ///
    /// # Errors
    /// If requests are stalled or forwarded already, or do not end in time: then requests are
    /// executed again.
    pub(crate) fn stall(self: &Arc<Self>, to: Arc<Forwarding>, at_most: Duration) -> Result<u64, Refused> {
        let until = Instant::now() + at_most;
        let number = {
            let mut stall = self.stall.lock();
            match &stall.state {
                StallState::Ended => {}
                StallState::Active { .. } => return Err(Refused::failed("requests are stalled already")),
                StallState::Undecided(error) => return Err(Refused::unknown(error)),
                StallState::Forwarded => return Err(self.forwards()),
            }
            let gate = Arc::clone(self);
            let number = stall.number + 1;
            std::thread::Builder::new()
                .name("stall".to_owned())
                .spawn(move || {
                    std::thread::sleep(at_most);
                    gate.release(number);
                })
                .map_err(|error| Refused::failed(format!("cannot start a thread: {error}")))?;
            *stall = Stall { number, state: StallState::Active { until, to } };
            // The phase first: a request that is refused waits for its end.
            self.phase.send_replace(Phase::Stalled);
            self.passes.close();
            number
        };
        if self.passes.ended(until) {
            return Ok(number);
        }
        self.release(number);
        Err(Refused::failed(format!("requests in execution did not end within {at_most:?}")))
    }

    /// Ends a stall: executes requests again. No-op if it has ended.
    pub(crate) fn release(&self, number: u64) {
        let mut stall = self.stall.lock();
        if stall.number == number && matches!(stall.state, StallState::Active { .. }) {
            self.resume(&mut stall);
        }
    }

    fn resume(&self, stall: &mut Stall) {
        stall.state = StallState::Ended;
        self.passes.open();
        self.phase.send_replace(Phase::Open);
    }

    /// Ends a stall: forwards stalled and later requests, after `record` has recorded that durably.
    /// A repeated call has the result of the first one.
    ///
    /// # Errors
    /// If the stall has ended, or it cannot be recorded: requests are executed again. If it is
    /// unknown whether it was recorded, requests remain stalled until the next start, which
    /// decides.
    pub(crate) fn forward(
        &self,
        number: u64,
        record: impl FnOnce(&Forwarding) -> Result<(), Recording>,
    ) -> Result<(), Refused> {
        let mut stall = self.stall.lock();
        if stall.number != number {
            return Err(Refused::invalid("the stall has ended, and was followed by another one"));
        }
        let (until, to) = match &stall.state {
            StallState::Active { until, to } => (*until, Arc::clone(to)),
            StallState::Ended => return Err(Refused::invalid("the stall has ended")),
            StallState::Undecided(error) => return Err(Refused::unknown(error)),
            StallState::Forwarded => return Ok(()),
        };
        if Instant::now() >= until {
            self.resume(&mut stall);
            return Err(Refused::invalid("the stall has ended"));
        }
        // Before the record is written: if that panics, requests must not be executed.
        stall.state = StallState::Undecided("recording it was interrupted; restart the server".to_owned());
        match record(&to) {
            Ok(()) => {
                stall.state = StallState::Forwarded;
                tracing::warn!("forwarding all requests to {}", to.target());
                self.phase.send_replace(Phase::Forwarding(to));
                Ok(())
            }
            Err(Recording::Undone(error)) => {
                self.resume(&mut stall);
                Err(Refused::invalid(format!("cannot record it: {error}")))
            }
            Err(Recording::Unknown(error)) => {
                tracing::error!(%error, "requests remain stalled: whether this server forwards them is unknown \
                    until its next start");
                let error =
                    format!("unknown whether it was recorded: {error}; restart the server, which decides");
                stall.state = StallState::Undecided(error.clone());
                Err(Refused::unknown(error))
            }
        }
    }

    fn forwards(&self) -> Refused {
        let target = self.forwarding().map(|to| format!(" to {}", to.target())).unwrap_or_default();
        Refused::invalid(format!("the server forwards all requests{target}"))
    }
}

/// Returns a random number, of at most 48 bits.
fn first_number() -> u64 {
    Uuid::new_v4().as_u64_pair().1 & ((1 << 48) - 1)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use cassette_admin_api::RefusalKind;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn target() -> Arc<Forwarding> {
        Forwarding::new("127.0.0.1:9", None).unwrap()
    }

    fn kind<T: std::fmt::Debug>(result: Result<T, Refused>) -> RefusalKind {
        result.unwrap_err().kind
    }

    #[test]
    fn a_stall_waits_for_requests_in_execution_and_admits_no_others() {
        let gate = Gate::new();
        let pass = gate.enter().unwrap();
        let timed_out = gate.stall(target(), Duration::from_millis(5));
        assert_eq!(kind(timed_out), RefusalKind::Failed, "a request is in execution");
        assert!(gate.enter().is_some(), "resumed");
        drop(pass);
        let stall = gate.stall(target(), LONG).unwrap();
        assert!(gate.enter().is_none());
        assert_eq!(kind(gate.stall(target(), LONG)), RefusalKind::Failed);
        gate.release(stall);
        assert!(gate.enter().is_some());
    }

    #[test]
    fn a_stall_ends_by_itself() {
        let gate = Gate::new();
        let stall = gate.stall(target(), Duration::from_millis(1)).unwrap();
        while gate.enter().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(kind(gate.forward(stall, |_| Ok(()))), RefusalKind::Invalid);
        assert!(gate.enter().is_some());
    }

    #[test]
    fn a_stall_is_ended_only_by_its_number() {
        let gate = Gate::new();
        let first = gate.stall(target(), LONG).unwrap();
        gate.release(first);
        let second = gate.stall(target(), LONG).unwrap();
        gate.release(first);
        let forwarded = gate.forward(first, |_| panic!("the first mover must not decide about it"));
        assert_eq!(kind(forwarded), RefusalKind::Invalid);
        assert!(gate.enter().is_none(), "the second one continues");
        gate.forward(second, |_| Ok(())).unwrap();
        assert_ne!(Gate::new().stall.lock().number, Gate::new().stall.lock().number, "of other starts");
    }

    #[test]
    fn requests_are_forwarded_only_after_that_was_recorded() {
        let gate = Gate::new();
        let stall = gate.stall(target(), LONG).unwrap();
        let undone = |_: &Forwarding| Err(Recording::Undone(io::ErrorKind::StorageFull.into()));
        assert_eq!(kind(gate.forward(stall, undone)), RefusalKind::Invalid);
        assert!(gate.enter().is_some(), "local service continues");
        assert!(gate.forward(stall, |_| Ok(())).is_err(), "a late repetition");
        let stall = gate.stall(target(), LONG).unwrap();
        gate.forward(stall, |_| Ok(())).unwrap();
        gate.release(stall);
        assert!(gate.enter().is_none(), "forwarding is permanent");
        assert!(matches!(&*gate.phase().borrow(), Phase::Forwarding(_)));
        gate.forward(stall, |_| panic!("recorded already")).unwrap();
        assert_eq!(kind(gate.stall(target(), LONG)), RefusalKind::Invalid);
    }

    #[test]
    fn an_unknown_record_keeps_requests_stalled_and_is_reported_as_unknown() {
        let gate = Gate::new();
        let stall = gate.stall(target(), Duration::from_secs(1)).unwrap();
        let unknown = |_: &Forwarding| Err(Recording::Unknown(io::ErrorKind::Other.into()));
        assert_eq!(kind(gate.forward(stall, unknown)), RefusalKind::Unknown);
        gate.release(stall);
        assert!(gate.enter().is_none());
        assert_eq!(kind(gate.forward(stall, |_| panic!("only a start decides"))), RefusalKind::Unknown);
        assert_eq!(kind(gate.stall(target(), LONG)), RefusalKind::Unknown);
    }

    #[test]
    fn a_panic_while_recording_keeps_requests_stalled() {
        let gate = Gate::new();
        let stall = gate.stall(target(), LONG).unwrap();
        let recording = AssertUnwindSafe(|| gate.forward(stall, |_| panic!("injected")));
        assert!(catch_unwind(recording).is_err());
        gate.release(stall);
        assert!(gate.enter().is_none());
        assert_eq!(kind(gate.forward(stall, |_| Ok(()))), RefusalKind::Unknown);
    }
}
