//! Requests of clients: batches, locks and fast-forward.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{LockService, State, Waiter};
use crate::timelock::TimeLockError;
use crate::timelock::election::{Leadership, NeedMore, exhausted};
use crate::timelock::lease::ClockReading;
use crate::timelock::messages::{
    BATCH_FRESH_MAX, BATCH_STARTS_MAX, Batch, BatchReply, LockReply, LockRequest, REQUEST_LOCKS_MAX, Refusal,
    RefusalKind, Starts,
};
use crate::timelock::registry::{CapacityError, Key, LockMode, Name, Progress, RESIDUES, Registry, Slot};
use crate::timestamp::Timestamp;

/// Maximum number of timestamps consumed by one batch.
const BATCH_TIMESTAMPS_MAX: i64 = 10_000;
/// How long a request waits for the renewal of the bound or the lease.
const RENEWAL_WAIT_MAX: Duration = Duration::from_secs(2);

/// Why a request cannot be served now.
enum Retry {
    /// Possible after the lease keeper renews the lease or raises the bound.
    AfterRenewal,
    Never(Refusal),
}

impl From<Refusal> for Retry {
    fn from(refusal: Refusal) -> Self {
        Self::Never(refusal)
    }
}

impl State {
    /// Returns the leadership, or a refusal that names the current leader.
    fn leading(&mut self) -> Result<(&mut Leadership, &mut Registry), Refusal> {
        if let Some(error) = self.election.stopped() {
            return Err(Refusal::of(error));
        }
        let leader = self.election.leader().map(str::to_owned);
        match self.election.leadership() {
            Some(leadership) => Ok((leadership, &mut self.registry)),
            None => {
                let message = match &leader {
                    Some(leader) => format!("standby: {leader} leads"),
                    None => "standby: no server leads yet".to_owned(),
                };
                Err(Refusal { leader, ..Refusal::new(RefusalKind::NotLeading, message) })
            }
        }
    }

    /// Notifies requests whose locks became free.
    pub(super) fn wake(&mut self) {
        for key in self.registry.completed() {
            if let Some(waiting) = self.waiting.remove(&key) {
                let _ = waiting.done.send(true);
            }
        }
    }
}

impl LockService {
    /// Runs `work`, and runs it again after each renewal while it lacks a lease or timestamps.
    async fn with_renewal<T>(&self, mut work: impl FnMut() -> Result<T, Retry>) -> Result<T, Refusal> {
        let deadline = tokio::time::Instant::now() + RENEWAL_WAIT_MAX;
        loop {
            let renewed = self.renewed.notified();
            match work() {
                Ok(done) => return Ok(done),
                Err(Retry::Never(refusal)) => return Err(refusal),
                Err(Retry::AfterRenewal) => {}
            }
            self.wanted.notify_all();
            if tokio::time::timeout_at(deadline, renewed).await.is_err() {
                let message = "the timestamp bound was not raised: the store does not respond";
                return Err(Refusal::new(RefusalKind::NotNow, message));
            }
        }
    }

    /// Maps a lack of timestamps to a retry after a renewal or to a refusal.
    fn need(leadership: &Leadership, need: NeedMore) -> Retry {
        match need {
            NeedMore::Bound => Retry::AfterRenewal,
            NeedMore::OutOfRange(asked) => {
                Retry::Never(Refusal::of(&TimeLockError::OutOfRange { asked: Timestamp(asked) }))
            }
            NeedMore::Exhausted => Retry::Never(Refusal::of(&exhausted(leadership))),
        }
    }

    pub async fn batch(&self, batch: &Batch) -> Result<BatchReply, Refusal> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if batch.starts > BATCH_STARTS_MAX || batch.timestamps > BATCH_FRESH_MAX {
            return Err(Refusal::new(RefusalKind::Usage, "too many timestamps in one batch"));
        }
        self.with_renewal(|| self.try_batch(batch)).await
    }

    /// Serves a batch: L4 and L5, and B1 to B4 for the transactions that begin with it.
    ///
    /// The order matters: the timestamps are reserved before any step that must not be repeated,
    /// because a failed reservation runs the whole batch again.
    fn try_batch(&self, batch: &Batch) -> Result<BatchReply, Retry> {
        const STEP: i64 = RESIDUES as i64;
        let mut state = self.state.lock();
        let now = ClockReading::of(&*self.clock).monotonic;
        let (leadership, registry) = state.leading()?;
        // Before any step that must not be repeated.
        let (starts, fresh) = (i64::from(batch.starts), i64::from(batch.timestamps));
        let needed = 1 + STEP * starts + fresh + 1;
        debug_assert!(needed <= BATCH_TIMESTAMPS_MAX, "bounded by the caller");
        leadership.reserve(needed).map_err(|need| Self::need(leadership, need))?;
        registry.admit(batch.session, 0).map_err(full)?;
        match registry.batch(batch.session, (batch.batch, batch.attempt), batch.answered, now) {
            Slot::First => batch.release.iter().for_each(|timestamp| registry.release(*timestamp)),
            // Holds are counted, so a repeated batch must not release them again.
            Slot::Repeat => {}
            Slot::Stale => return Err(Refusal::new(RefusalKind::Ended, "stale duplicate of a batch").into()),
        }
        batch.unlock.iter().for_each(|fence| registry.unlock(*fence));
        batch.cancel.iter().for_each(|number| registry.cancel((batch.session, *number), true));
        let held = batch.checks.iter().map(|(hold, fence)| registry.is_held(*hold, *fence, now)).collect();
        let mut take = |count: i64| leadership.take(count).map_err(|need| Self::need(leadership, need));
        let timestamps = if fresh > 0 { Some(take(fresh)?.0) } else { None };
        let starts = match starts {
            0 => None,
            _ => {
                // B1.
                let (hold, _) = take(1)?;
                // B2.
                registry.hold(batch.session, hold, batch.starts as usize, now);
                // B3.
                let immutable = registry.smallest_held().unwrap_or(hold);
                // B4.
                let residue = registry.residue(batch.session, now) as i64;
                let (first, _) = take(STEP * starts)?;
                Some(Starts {
                    hold,
                    immutable,
                    first: first + (residue - first).rem_euclid(STEP),
                    step: STEP,
                })
            }
        };
        let immutable = if batch.immutable {
            let (fresh, _) = take(1)?;
            Some(registry.smallest_held().map_or(fresh, |smallest| smallest.min(fresh)))
        } else {
            None
        };
        state.wake();
        let reply =
            BatchReply { batch: batch.batch, attempt: batch.attempt, starts, timestamps, immutable, held };
        // L5.
        let (leadership, registry) = state.leading()?;
        match leadership.confirm(ClockReading::of(&*self.clock)) {
            Ok(()) => Ok(reply),
            Err(error) => {
                registry.forget_batch(batch.session);
                Err(Refusal::of(&error).into())
            }
        }
    }

    /// Acquires locks, waiting until they are free. `names` is sorted without duplicates.
    pub async fn lock(&self, request: &LockRequest, names: Vec<Name>) -> Result<LockReply, Refusal> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if names.len() > REQUEST_LOCKS_MAX {
            let message = format!(
                "too many locks in one request: expected at most {REQUEST_LOCKS_MAX}, found {}",
                names.len()
            );
            return Err(Refusal::new(RefusalKind::Usage, message));
        }
        let key = (request.session, request.number);
        let mode = if request.only_wait { LockMode::Observe } else { LockMode::Acquire };
        let queued = {
            let mut state = self.state.lock();
            let now = ClockReading::of(&*self.clock).monotonic;
            let registry = state.leading()?.1;
            if !registry.has_request(key) {
                registry.admit(key.0, names.len()).map_err(full)?;
            }
            let progress = registry.begin(key, request.oldest_open, names.into(), mode, now);
            match progress {
                Progress::Done => None,
                Progress::Ended => {
                    return Err(Refusal::new(RefusalKind::Ended, "stale duplicate of a lock request"));
                }
                Progress::Queued => {
                    let attempt = state.next_waiting;
                    state.next_waiting += 1;
                    let (done, is_done) = oneshot::channel();
                    // Replaces the waiter of an earlier attempt, which is no longer awaited.
                    state.waiting.insert(key, Waiter { attempt, done });
                    Some((is_done, QueuedRequest { service: self, key, attempt, has_left: false }))
                }
            }
        };
        let Some((is_done, mut queued_request)) = queued else {
            return self.with_renewal(|| self.issue_fence(key, mode)).await;
        };
        let timeout = Duration::from_millis(request.timeout_ms);
        match tokio::time::timeout(timeout, is_done).await {
            Ok(Ok(true)) => {}
            Ok(_) => {
                return Err(Refusal::new(RefusalKind::NotNow, "the request was removed from the queue"));
            }
            Err(_) => return Err(Refusal::of(&TimeLockError::LockTimeout { waited: timeout })),
        }
        let reply = self.with_renewal(|| self.issue_fence(key, mode)).await;
        queued_request.has_left = reply.is_ok();
        reply
    }

    /// Issues the fencing token of acquired locks, or returns the one issued before.
    fn issue_fence(&self, key: Key, mode: LockMode) -> Result<LockReply, Retry> {
        let mut state = self.state.lock();
        let (leadership, registry) = state.leading()?;
        let fence = match (mode, registry.fence_of(key)) {
            (LockMode::Observe, _) => None,
            (LockMode::Acquire, Some(fence)) => Some(fence),
            (LockMode::Acquire, None) => {
                let (fence, _) = leadership.take(1).map_err(|need| Self::need(leadership, need))?;
                if !registry.fence(key, fence) {
                    return Err(Refusal::new(
                        RefusalKind::NotNow,
                        "the locks expired before their token was issued",
                    )
                    .into());
                }
                Some(fence)
            }
        };
        match leadership.confirm(ClockReading::of(&*self.clock)) {
            Ok(()) => Ok(LockReply { number: key.1, fence }),
            Err(error) => Err(Refusal::of(&error).into()),
        }
    }

    pub async fn fast_forward(&self, to: i64) -> Result<(), Refusal> {
        self.with_renewal(|| {
            let mut state = self.state.lock();
            let (leadership, _) = state.leading()?;
            leadership.fast_forward(to).map_err(|need| Self::need(leadership, need))?;
            leadership.confirm(ClockReading::of(&*self.clock)).map_err(|error| Refusal::of(&error).into())
        })
        .await
    }
}

/// Refuses a request that may succeed later, when there is capacity.
fn full(full: CapacityError) -> Refusal {
    Refusal::new(RefusalKind::NotNow, format!("no capacity for the request: {full}"))
}

/// A place in a queue. Dropping it leaves the queue, after a timeout or when the client has
/// disconnected. If the locks were acquired meanwhile, they are released.
struct QueuedRequest<'a> {
    service: &'a LockService,
    key: Key,
    attempt: u64,
    has_left: bool,
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let mut state = self.service.state.lock();
        match state.waiting.get(&self.key) {
            // A later attempt of the request waits now.
            Some(waiting) if waiting.attempt != self.attempt => return,
            _ => drop(state.waiting.remove(&self.key)),
        }
        if state.registry.fence_of(self.key).is_none() {
            state.registry.cancel(self.key, false);
            state.wake();
        }
    }
}
