//! The thread that keeps the server's lease and raises its bound of timestamps.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{LockService, State};
use crate::store::{CheckOutcome, PutOutcome, StoreError};
use crate::timelock::TimeLockError;
use crate::timelock::election::{Request, Response};
use crate::timelock::lease::ClockReading;
use crate::timelock::log_rate::LogRate;
use crate::timelock::registry::Registry;
use crate::timelock::timestamps::BoundCell;

/// How often expired locks and sessions are removed.
const EXPIRY_PERIOD: Duration = Duration::from_millis(250);

/// Body of the lease keeper's thread. Returns when the server stops or can never lead again.
///
/// Takes the state's mutex to choose the next request and to handle its response, and releases it
/// during the call of the store, so that clients are served meanwhile.
pub(super) fn keep_lease(service: &LockService, cell: &BoundCell, is_recovering: bool) {
    let keep = || {
        let mut stop_at = None;
        let mut failures = LogRate::default();
        while let Some(request) = next_request(service, &mut stop_at) {
            let response = execute(cell, &request, is_recovering);
            log_availability(&mut failures, &response);
            handle_response(service, response);
        }
    };
    if catch_unwind(AssertUnwindSafe(keep)).is_err() {
        end_after_panic(service);
    }
}

/// Ends the server by name: without a keeper it would refuse all requests for as long as it runs.
/// Its lease expires, and a standby takes over.
fn end_after_panic(service: &LockService) {
    tracing::error!("the lease keeper panicked: this server stops issuing timestamps");
    let error = StoreError::refused("keep the lease", "the lease keeper panicked");
    let mut state = service.state.lock();
    state.election.fail(TimeLockError::Bound(error));
    state.sync_with_election(service);
    drop(state);
    service.renewed.notify_waiters();
}

/// Waits until a request to the store is due. `None` ends the thread: the election has ended, or
/// the store did not respond for five periods after the server was stopped at `stop_at`.
fn next_request(service: &LockService, stop_at: &mut Option<Instant>) -> Option<Request> {
    let mut state = service.state.lock();
    loop {
        let now = ClockReading::of(&*service.clock);
        if service.stopping.load(Ordering::SeqCst) {
            state.election.resign();
            let until = *stop_at.get_or_insert_with(|| Instant::now() + state.election.period() * 5);
            if Instant::now() >= until {
                return None;
            }
        }
        if state.election.ended().is_some() {
            return None;
        }
        state.expire(now);
        if let Some(request) = state.election.next_request(now) {
            return Some(request);
        }
        let pause = (state.election.period() / 8).min(EXPIRY_PERIOD);
        service.wanted.wait_for(&mut state, pause);
    }
}

/// Executes a request on the store.
fn execute(cell: &BoundCell, request: &Request, is_recovering: bool) -> Response {
    match request {
        Request::Read => cell.read().map_or_else(Response::Failed, Response::Found),
        Request::Create { new } => match cell.evidence_of_use() {
            Ok(Some(what)) if !is_recovering => Response::Lost(what),
            Ok(_) => cell.create(new).map_or_else(Response::Failed, |put| match put {
                PutOutcome::Applied => Response::Applied,
                PutOutcome::Exists(found) => {
                    Response::Found(found.into_iter().next().map(|(_, value)| value))
                }
            }),
            Err(error) => Response::Failed(error),
        },
        Request::Replace { expected, new } => {
            cell.replace(expected, new).map_or_else(Response::Failed, |check| match check {
                CheckOutcome::Applied => Response::Applied,
                CheckOutcome::Actual(found) => Response::Found(found),
            })
        }
    }
}

/// Logs when the store stops responding, and when it responds again.
fn log_availability(failures: &mut LogRate, response: &Response) {
    if let Response::Failed(error) = response {
        if let Some(failures) = failures.failed(Instant::now()) {
            tracing::warn!(%error, failures, "timestamp bound: store does not respond; retrying");
        }
    } else if let Some(ended) = failures.succeeded(Instant::now()) {
        let (seconds, failures) = (ended.lasted.as_secs_f64(), ended.failures);
        tracing::info!(seconds, failures, "timestamp bound: store responds again");
    }
}

/// Passes the response to the election, and notifies requests that wait for a renewal.
fn handle_response(service: &LockService, response: Response) {
    let mut state = service.state.lock();
    let was_stopped = state.election.stopped().is_some();
    state.election.handle_response(response, ClockReading::of(&*service.clock));
    if !was_stopped && let Some(error) = state.election.stopped() {
        match error {
            TimeLockError::Stopped => tracing::info!("released its lease; ending"),
            error => tracing::error!(%error, "stopped issuing timestamps"),
        }
    }
    state.sync_with_election(service);
    drop(state);
    service.renewed.notify_waiters();
}

impl State {
    /// Replaces the registry when the term changes: locks and holds are valid only within one term.
    fn sync_with_election(&mut self, service: &LockService) {
        let term = self.election.leadership().map_or(0, |leadership| leadership.term());
        if term == self.term {
            return;
        }
        match (term, self.election.stopped()) {
            (0, Some(TimeLockError::Stopped)) => {}
            (0, _) => {
                tracing::warn!(term = self.term, leader = self.election.leader(), "lost the leadership");
            }
            (term, _) => tracing::info!(term, "became the leader"),
        }
        self.term = term;
        self.registry = Registry::new(service.session_age_max);
        for (_, waiting) in self.waiting.drain() {
            // A waiter that has gone away needs no reply.
            let _ = waiting.done.send(false);
        }
    }

    fn expire(&mut self, now: ClockReading) {
        if now.longest_since(self.expired) < EXPIRY_PERIOD {
            return;
        }
        self.expired = now;
        let ended = self.registry.expire(now.monotonic);
        if let Some((session, _)) = ended.first() {
            let requests = ended.len();
            tracing::info!(session, requests, "locks expired: their clients sent no heartbeat");
        }
        for key in ended {
            if let Some(waiting) = self.waiting.remove(&key) {
                let _ = waiting.done.send(false);
            }
        }
        self.wake();
    }
}
