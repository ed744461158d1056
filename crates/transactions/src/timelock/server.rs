//! The server of timestamps and locks: what it answers while it leads, and the thread that keeps its lease.
//!
//! One mutex guards all that is in memory; it is never held over a call of the store. Only the keeper's thread calls the store.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cassette_http::Limits;
use cassette_vfs::{Clock, SystemClock};
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, Semaphore, oneshot};

use super::election::{Answer, Ask, Election, Leadership, Short, exhausted};
use super::lease::Reading;
use super::log_rate::LogRate;
use super::messages::{
    BATCH_FRESH_MAX, BATCH_STARTS_MAX, Batch, BatchReply, LeaderStatus, LockReply, LockRequest,
    REQUEST_LOCKS_MAX, Refusal, RefusalKind, Starts, Status,
};
use super::registry::{Full, Key, Name, Progress, RESIDUES, Registry, SESSION_AGE_MAX, Turn, Wish};
use super::timestamps::BoundCell;
use super::{FAST_FORWARD_MAX, TimeLockError, known_timestamp};
use crate::store::{CheckOutcome, PutOutcome, Store, StoreError};
use crate::timestamp::Timestamp;

/// Timestamps that one batch may take.
const BATCH_TIMESTAMPS_MAX: i64 = 10_000;
/// Open connections, at most, where nothing is configured: fits the usual limit of 1024 files.
const CONNECTIONS_MAX: usize = 512;
/// How often locks and sessions that are too old are looked for.
const EXPIRY_PERIOD: Duration = Duration::from_millis(250);
/// KiB of long bodies that are in memory at a time, read and not yet understood, at most.
const BODIES_MAX: usize = 64 << 10;
/// How long a request waits for a bound or a lease that is being renewed.
const RENEWAL_WAIT_MAX: Duration = Duration::from_secs(2);

/// How a timelock server is to run.
#[derive(Clone)]
pub struct ServerOptions {
    /// Where clients reach it.
    pub address: String,
    /// Names that clients may reach it by, besides addresses, `localhost` and the name in `address`.
    pub hosts: Vec<String>,
    /// What clients may occupy.
    pub limits: Limits,
    /// For how long it leads without a word from the store. Others lead a quarter of that later than they could: a server that dies is
    /// replaced after at most one and a half of it.
    pub lease: Duration,
    /// Where the bound of the timestamps was lost: what is above all that were ever given out.
    pub recovered: Option<Timestamp>,
    /// How long a client keeps its locks and holds without a sign of life; clients send one every second. A transaction of
    /// a client that lives all the same fails at its last check and can be run again. A client whose connections are all
    /// closed keeps them for 1.5 s at most.
    pub session_age_max: Duration,
    /// The machine's clocks.
    pub clock: Arc<dyn Clock>,
}

impl ServerOptions {
    /// The defaults.
    pub fn new(address: impl Into<String>) -> Self {
        let clock = Arc::new(SystemClock::new());
        Self {
            address: address.into(),
            hosts: Vec::new(),
            limits: Limits::new(CONNECTIONS_MAX),
            lease: Duration::from_secs(5),
            recovered: None,
            session_age_max: SESSION_AGE_MAX,
            clock,
        }
    }
}

/// A server of timestamps and locks: it leads, or stands by for another that does. Ends when it is dropped, with its lease given back if the store
/// answers.
pub struct TimeLockServer {
    pub(super) desk: Arc<Desk>,
    keeper: Option<JoinHandle<()>>,
}

/// What requests and the keeper share.
pub(super) struct Desk {
    state: Mutex<State>,
    /// The keeper has something to do.
    wanted: Condvar,
    /// The keeper has done something.
    kept: Notify,
    stopping: AtomicBool,
    requests: AtomicU64,
    clock: Arc<dyn Clock>,
    address: String,
    /// Names of this server; see [`ServerOptions::hosts`].
    pub hosts: Vec<String>,
    pub limits: Limits,
    started: Instant,
    session_age_max: Duration,
    /// Makes names of locks of their texts.
    hashers: [RandomState; 2],
    /// KiB of long bodies that may be in memory, read and not yet understood.
    pub bodies: Arc<Semaphore>,
}

struct State {
    election: Election,
    /// Of the term that this server leads in.
    registry: Registry,
    term: u64,
    waiting: HashMap<Key, Waiting>,
    next_waiting: u64,
    expired: Reading,
    /// How many open connections each session has sent requests over. Of all terms.
    connections: HashMap<u64, usize>,
}

/// A request that stands in a queue, and which of its tries it is that waits.
struct Waiting {
    attempt: u64,
    done: oneshot::Sender<bool>,
}

impl TimeLockServer {
    /// Starts a server over a store; soon it leads, or stands by.
    ///
    /// # Errors
    /// RecoveredBelow; or if the table of the bound cannot be made.
    pub fn start(store: Arc<dyn Store>, options: ServerOptions) -> Result<Self, TimeLockError> {
        let ServerOptions { address, mut hosts, limits, lease, recovered, session_age_max, clock } = options;
        hosts.push(address.clone());
        if let Some(asked) = recovered {
            check_recovered(&store, asked)?;
        }
        let cell = BoundCell::open(store)?;
        let recovered = recovered.map(|timestamp| timestamp.0);
        let is_recovering = recovered.is_some();
        let election = Election::new(rand::random(), address.clone(), lease, recovered);
        let state = State {
            election,
            registry: Registry::new(session_age_max),
            term: 0,
            waiting: HashMap::new(),
            next_waiting: 0,
            expired: Reading::of(&*clock),
            connections: HashMap::new(),
        };
        let desk = Arc::new(Desk {
            state: Mutex::new(state),
            wanted: Condvar::new(),
            kept: Notify::new(),
            stopping: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            clock,
            address,
            hosts,
            limits,
            started: Instant::now(),
            session_age_max,
            hashers: [RandomState::new(), RandomState::new()],
            bodies: Arc::new(Semaphore::new(BODIES_MAX)),
        });
        let of_keeper = desk.clone();
        let keeper = std::thread::Builder::new()
            .name("timelock-keeper".to_owned())
            .spawn(move || keep(&of_keeper, &cell, is_recovering))
            .map_err(|error| TimeLockError::Bound(StoreError::refused("start a thread", error)))?;
        Ok(Self { desk, keeper: Some(keeper) })
    }

    /// What it does at this moment.
    pub fn status(&self) -> Status {
        self.desk.status()
    }

    /// Waits until it leads.
    ///
    /// # Errors
    /// Why it never will; NoLeader, if it takes longer than `timeout`.
    pub async fn led(&self, timeout: Duration) -> Result<(), TimeLockError> {
        let deadline = tokio::time::Instant::now() + timeout;
        loop {
            let kept = self.desk.kept.notified();
            {
                let mut state = self.desk.state.lock();
                if let Some(error) = state.election.stopped() {
                    return Err(error.clone());
                }
                let now = Reading::of(&*self.desk.clock);
                if state.election.leadership().is_some_and(|leadership| leadership.confirm(now).is_ok()) {
                    return Ok(());
                }
            }
            if tokio::time::timeout_at(deadline, kept).await.is_err() {
                let last = match self.desk.state.lock().election.leader() {
                    Some(leader) => format!("{leader} leads"),
                    None => "the store does not answer".to_owned(),
                };
                return Err(TimeLockError::NoLeader { waited: timeout, last });
            }
        }
    }

    /// Makes all later timestamps greater than `timestamp`. Never goes back.
    ///
    /// # Errors
    /// If this server does not lead, or there would be none left.
    pub async fn fast_forward(&self, timestamp: Timestamp) -> Result<(), TimeLockError> {
        let refused =
            |refusal: Refusal| TimeLockError::Refused { server: self.desk.address.clone(), refusal };
        self.desk.fast_forward(timestamp.0).await.map_err(refused)
    }

    /// Gives the lease back and ends. Waits for the store for as long as a lease is.
    pub fn stop(&mut self) {
        self.desk.stop();
        if let Some(keeper) = self.keeper.take() {
            // A panic of the keeper has been reported.
            let _ = keeper.join();
        }
    }
}

impl Drop for TimeLockServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Refuses what cannot be above all timestamps.
fn check_recovered(store: &Arc<dyn Store>, asked: Timestamp) -> Result<(), TimeLockError> {
    let cannot_know = |error| StoreError::refused("find out how far timestamps were", error);
    match known_timestamp(store).map_err(cannot_know)? {
        _ if asked.0 > FAST_FORWARD_MAX => Err(TimeLockError::OutOfRange { asked }),
        Some(known) if asked <= known => Err(TimeLockError::RecoveredBelow { asked, known }),
        _ => Ok(()),
    }
}

/// Keeps the lease, until the server stops or its part has ended.
fn keep(desk: &Desk, cell: &BoundCell, is_recovering: bool) {
    let mut stop_at = None;
    let mut unanswered = LogRate::default();
    loop {
        let ask = {
            let mut state = desk.state.lock();
            loop {
                let now = Reading::of(&*desk.clock);
                if desk.stopping.load(Ordering::SeqCst) {
                    state.election.resign();
                    let until = *stop_at.get_or_insert_with(|| Instant::now() + state.election.period() * 5);
                    if Instant::now() >= until {
                        return;
                    }
                }
                if state.election.ended().is_some() {
                    return;
                }
                state.expire(now);
                if let Some(ask) = state.election.ask(now) {
                    break ask;
                }
                let pause = (state.election.period() / 8).min(EXPIRY_PERIOD);
                desk.wanted.wait_for(&mut state, pause);
            }
        };
        let answer = match &ask {
            Ask::Read => cell.read().map_or_else(Answer::Failed, Answer::Found),
            Ask::Create { new } => match cell.evidence_of_use() {
                Ok(Some(what)) if !is_recovering => Answer::Lost(what),
                Ok(_) => cell.create(new).map_or_else(Answer::Failed, |put| match put {
                    PutOutcome::Applied => Answer::Applied,
                    PutOutcome::Exists(found) => {
                        Answer::Found(found.into_iter().next().map(|(_, value)| value))
                    }
                }),
                Err(error) => Answer::Failed(error),
            },
            Ask::Replace { expected, new } => {
                cell.replace(expected, new).map_or_else(Answer::Failed, |check| match check {
                    CheckOutcome::Applied => Answer::Applied,
                    CheckOutcome::Actual(found) => Answer::Found(found),
                })
            }
        };
        match &answer {
            Answer::Failed(error) => {
                if let Some(failures) = unanswered.failed(Instant::now()) {
                    tracing::warn!(%error, failures, "the store of the timestamps' bound does not answer; it is asked again");
                }
            }
            _ => {
                if let Some(ended) = unanswered.succeeded(Instant::now()) {
                    let (seconds, failures) = (ended.lasted.as_secs_f64(), ended.failures);
                    tracing::info!(seconds, failures, "the store of the timestamps' bound answers again");
                }
            }
        }
        let mut state = desk.state.lock();
        let was_stopped = state.election.stopped().is_some();
        state.election.answer(answer, Reading::of(&*desk.clock));
        if !was_stopped && let Some(error) = state.election.stopped() {
            match error {
                TimeLockError::Stopped => tracing::info!("has given its lease back, and ends"),
                error => tracing::error!(%error, "gives out no timestamps any more"),
            }
        }
        state.follow(desk);
        drop(state);
        desk.kept.notify_waiters();
    }
}

impl State {
    /// After the election went on: locks and holds are those of one term.
    fn follow(&mut self, desk: &Desk) {
        let term = self.election.leadership().map_or(0, |leadership| leadership.term());
        if term == self.term {
            return;
        }
        match (term, self.election.stopped()) {
            (0, Some(TimeLockError::Stopped)) => {}
            (0, _) => {
                tracing::warn!(term = self.term, leader = self.election.leader(), "does not lead any more");
            }
            (term, _) => tracing::info!(term, "leads"),
        }
        self.term = term;
        self.registry = Registry::new(desk.session_age_max);
        for (_, waiting) in self.waiting.drain() {
            // Who waited and went away is not told.
            let _ = waiting.done.send(false);
        }
    }

    /// The leadership, if this server has it.
    fn leading(&mut self) -> Result<(&mut Leadership, &mut Registry), Refusal> {
        if let Some(error) = self.election.stopped() {
            return Err(Refusal::of(error));
        }
        let leader = self.election.leader().map(str::to_owned);
        match self.election.leadership() {
            Some(leadership) => Ok((leadership, &mut self.registry)),
            None => {
                let message = match &leader {
                    Some(leader) => format!("stands by: {leader} leads"),
                    None => "stands by: nobody leads yet".to_owned(),
                };
                Err(Refusal { leader, ..Refusal::new(RefusalKind::NotLeading, message) })
            }
        }
    }

    /// Tells those whose turn came.
    fn wake(&mut self) {
        for key in self.registry.completed() {
            if let Some(waiting) = self.waiting.remove(&key) {
                let _ = waiting.done.send(true);
            }
        }
    }

    fn expire(&mut self, now: Reading) {
        if now.longest_since(self.expired) < EXPIRY_PERIOD {
            return;
        }
        self.expired = now;
        let ended = self.registry.expire(now.monotonic);
        if let Some((session, _)) = ended.first() {
            let requests = ended.len();
            tracing::info!(session, requests, "locks were lost: their clients gave no sign of life");
        }
        for key in ended {
            if let Some(waiting) = self.waiting.remove(&key) {
                let _ = waiting.done.send(false);
            }
        }
        self.wake();
    }
}

/// Why something cannot be done at once.
enum Later {
    /// When the keeper has renewed lease or bound.
    Kept,
    Never(Refusal),
}

impl From<Refusal> for Later {
    fn from(refusal: Refusal) -> Self {
        Self::Never(refusal)
    }
}

impl Desk {
    fn stop(&self) {
        // With the mutex, so that the keeper does not go to wait in between.
        let state = self.state.lock();
        self.stopping.store(true, Ordering::SeqCst);
        drop(state);
        self.wanted.notify_all();
    }

    /// Whether the server stops or has ended.
    pub fn is_over(&self) -> bool {
        self.stopping.load(Ordering::SeqCst) || self.state.lock().election.ended().is_some()
    }

    /// Why it gives out nothing any more.
    pub fn stopped(&self) -> Option<TimeLockError> {
        self.state.lock().election.stopped().cloned()
    }

    /// The name by which the registry knows a lock.
    pub fn name(&self, text: &[u8]) -> Name {
        let [high, low] = self.hashers.each_ref().map(|hasher| Name::from(hasher.hash_one(text)));
        high << 64 | low
    }

    /// Notes that a connection carries requests of a session.
    pub fn connected(&self, session: u64) {
        *self.state.lock().connections.entry(session).or_default() += 1;
    }

    /// Notes that a connection was closed that had carried requests of `sessions`. Sessions that have no other end soon.
    pub fn disconnected(&self, sessions: &BTreeSet<u64>) {
        let now = Reading::of(&*self.clock).monotonic;
        let mut state = self.state.lock();
        for session in sessions {
            let Some(connections) = state.connections.get_mut(session) else { continue };
            *connections -= 1;
            if *connections == 0 {
                state.connections.remove(session);
                state.registry.disconnected(*session, now);
            }
        }
    }

    /// Begins to stop, as a client asked.
    pub fn ask_to_stop(&self) {
        self.stop();
        self.kept.notify_waiters();
    }

    /// Done when the server is to end.
    pub async fn over(&self) {
        loop {
            let kept = self.kept.notified();
            if self.is_over() {
                return;
            }
            kept.await;
        }
    }

    pub fn status(&self) -> Status {
        let mut state = self.state.lock();
        let now = Reading::of(&*self.clock);
        let counts = state.registry.counts();
        let smallest_held = state.registry.smallest_held();
        let ended = state.election.stopped().map(ToString::to_string);
        let leader = state.election.leader().map(str::to_owned);
        let (leading, lapsed) = match state.election.leadership() {
            None => (None, false),
            Some(leadership) => {
                let leading = LeaderStatus {
                    holder: leadership.holder(),
                    term: leadership.term(),
                    last: leadership.last(),
                    bound: leadership.bound(),
                    smallest_held,
                    sessions: counts.sessions,
                    locks: counts.locks,
                    queued: counts.queued,
                    holds: counts.holds,
                };
                (Some(leading), leadership.confirm(now).is_err())
            }
        };
        let word = match (&leading, lapsed) {
            (None, _) => "standby",
            (Some(_), false) => "leading",
            (Some(_), true) => "lease lapsed, to be renewed",
        };
        Status {
            state: ended.unwrap_or_else(|| word.to_owned()),
            address: self.address.clone(),
            leader,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: self.started.elapsed().as_secs(),
            leading,
            requests: self.requests.load(Ordering::Relaxed),
        }
    }

    /// Does something, again after the keeper renewed what was short.
    async fn when_kept<T>(&self, mut work: impl FnMut() -> Result<T, Later>) -> Result<T, Refusal> {
        let deadline = tokio::time::Instant::now() + RENEWAL_WAIT_MAX;
        loop {
            let kept = self.kept.notified();
            match work() {
                Ok(done) => return Ok(done),
                Err(Later::Never(refusal)) => return Err(refusal),
                Err(Later::Kept) => {}
            }
            self.wanted.notify_all();
            if tokio::time::timeout_at(deadline, kept).await.is_err() {
                let message = "the bound of timestamps is not raised: the store does not answer";
                return Err(Refusal::new(RefusalKind::NotNow, message));
            }
        }
    }

    fn short(leadership: &Leadership, short: Short) -> Later {
        match short {
            Short::Bound => Later::Kept,
            Short::OutOfRange(asked) => {
                Later::Never(Refusal::of(&TimeLockError::OutOfRange { asked: Timestamp(asked) }))
            }
            Short::Exhausted => Later::Never(Refusal::of(&exhausted(leadership))),
        }
    }

    pub async fn batch(&self, batch: &Batch) -> Result<BatchReply, Refusal> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if batch.starts > BATCH_STARTS_MAX || batch.timestamps > BATCH_FRESH_MAX {
            return Err(Refusal::new(RefusalKind::Usage, "more timestamps than one batch may take"));
        }
        self.when_kept(|| self.try_batch(batch)).await
    }

    /// L4 and L5 for a batch; B1 to B4 for the transactions that begin with it.
    fn try_batch(&self, batch: &Batch) -> Result<BatchReply, Later> {
        const STEP: i64 = RESIDUES as i64;
        let mut state = self.state.lock();
        let now = Reading::of(&*self.clock).monotonic;
        let (leadership, registry) = state.leading()?;
        // Before anything is done that would be done twice.
        let (starts, fresh) = (i64::from(batch.starts), i64::from(batch.timestamps));
        let needed = 1 + STEP * starts + fresh + 1;
        debug_assert!(needed <= BATCH_TIMESTAMPS_MAX, "bounded by the caller");
        leadership.reserve(needed).map_err(|short| Self::short(leadership, short))?;
        registry.admit(batch.session, 0).map_err(full)?;
        match registry.batch(batch.session, (batch.batch, batch.attempt), batch.answered, now) {
            Turn::First => batch.release.iter().for_each(|timestamp| registry.release(*timestamp)),
            // Holds are counted: what was given back is not given back again.
            Turn::Again => {}
            Turn::Late => return Err(Refusal::new(RefusalKind::Ended, "a late copy of a batch").into()),
        }
        batch.unlock.iter().for_each(|fence| registry.unlock(*fence));
        batch.cancel.iter().for_each(|number| registry.cancel((batch.session, *number), true));
        let held = batch.checks.iter().map(|(hold, fence)| registry.is_held(*hold, *fence, now)).collect();
        let mut take = |count: i64| leadership.take(count).map_err(|short| Self::short(leadership, short));
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
        match leadership.confirm(Reading::of(&*self.clock)) {
            Ok(()) => Ok(reply),
            Err(error) => {
                registry.forget_batch(batch.session);
                Err(Refusal::of(&error).into())
            }
        }
    }

    /// Answers when the locks are free. `names` are sorted, none twice.
    pub async fn lock(&self, request: &LockRequest, names: Vec<Name>) -> Result<LockReply, Refusal> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if names.len() > REQUEST_LOCKS_MAX {
            let message = format!("{} locks in one request, and {REQUEST_LOCKS_MAX} may be", names.len());
            return Err(Refusal::new(RefusalKind::Usage, message));
        }
        let key = (request.session, request.number);
        let wish = if request.only_wait { Wish::See } else { Wish::Take };
        let queued = {
            let mut state = self.state.lock();
            let now = Reading::of(&*self.clock).monotonic;
            let registry = state.leading()?.1;
            if !registry.has_request(key) {
                registry.admit(key.0, names.len()).map_err(full)?;
            }
            let progress = registry.begin(key, request.oldest_open, names.into(), wish, now);
            match progress {
                Progress::Done => None,
                Progress::Ended => return Err(Refusal::new(RefusalKind::Ended, "a late copy of a request")),
                Progress::Queued => {
                    let attempt = state.next_waiting;
                    state.next_waiting += 1;
                    let (done, is_done) = oneshot::channel();
                    // An earlier try of it does not wait any more.
                    state.waiting.insert(key, Waiting { attempt, done });
                    Some((is_done, InQueue { desk: self, key, attempt, is_left: false }))
                }
            }
        };
        let Some((is_done, mut in_queue)) = queued else {
            return self.when_kept(|| self.try_fence(key, wish)).await;
        };
        let timeout = Duration::from_millis(request.timeout_ms);
        match tokio::time::timeout(timeout, is_done).await {
            Ok(Ok(true)) => {}
            Ok(_) => return Err(Refusal::new(RefusalKind::NotNow, "the place in the queue was lost")),
            Err(_) => return Err(Refusal::of(&TimeLockError::LockTimeout { waited: timeout })),
        }
        let reply = self.when_kept(|| self.try_fence(key, wish)).await;
        in_queue.is_left = reply.is_ok();
        reply
    }

    /// The token of locks that are had.
    fn try_fence(&self, key: Key, wish: Wish) -> Result<LockReply, Later> {
        let mut state = self.state.lock();
        let (leadership, registry) = state.leading()?;
        let fence = match (wish, registry.fence_of(key)) {
            (Wish::See, _) => None,
            (Wish::Take, Some(fence)) => Some(fence),
            (Wish::Take, None) => {
                let (fence, _) = leadership.take(1).map_err(|short| Self::short(leadership, short))?;
                if !registry.fence(key, fence) {
                    return Err(Refusal::new(RefusalKind::NotNow, "the locks were lost at once").into());
                }
                Some(fence)
            }
        };
        match leadership.confirm(Reading::of(&*self.clock)) {
            Ok(()) => Ok(LockReply { number: key.1, fence }),
            Err(error) => Err(Refusal::of(&error).into()),
        }
    }

    pub async fn fast_forward(&self, to: i64) -> Result<(), Refusal> {
        self.when_kept(|| {
            let mut state = self.state.lock();
            let (leadership, _) = state.leading()?;
            leadership.fast_forward(to).map_err(|short| Self::short(leadership, short))?;
            leadership.confirm(Reading::of(&*self.clock)).map_err(|error| Refusal::of(&error).into())
        })
        .await
    }
}

/// What a client may ask for again when there is room.
fn full(full: Full) -> Refusal {
    Refusal::new(RefusalKind::NotNow, format!("no room for the request: {full}"))
}

/// A place in a queue, left when nobody waits there any more: at a timeout, or when the client has gone. Left too late, the locks that were had
/// meanwhile are given back.
struct InQueue<'a> {
    desk: &'a Desk,
    key: Key,
    attempt: u64,
    is_left: bool,
}

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        let mut state = self.desk.state.lock();
        match state.waiting.get(&self.key) {
            // A later try of the request waits now.
            Some(waiting) if waiting.attempt != self.attempt => return,
            _ => drop(state.waiting.remove(&self.key)),
        }
        if state.registry.fence_of(self.key).is_none() {
            state.registry.cancel(self.key, false);
            state.wake();
        }
    }
}
