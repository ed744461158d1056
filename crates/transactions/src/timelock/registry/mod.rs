//! Locks, holds and their sessions, in the memory of the leader. The caller passes the time, and
//! nothing blocks.
//!
//! Invariants: a lock has a holder or an empty queue. A request that acquires locks holds those
//! before `reached` and is in the queue of the one at `reached`. The names of a request are sorted
//! without duplicates, so requests cannot deadlock.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Default time for which a client keeps its locks and holds without a heartbeat. Clients send one
/// every [`HEARTBEAT`](super::messages::HEARTBEAT).
pub(super) const SESSION_AGE_MAX: Duration = Duration::from_secs(5);
/// How long a client keeps them when all its connections are closed. Longer than
/// [`HEARTBEAT`](super::messages::HEARTBEAT), so that a live client has reconnected by then.
pub(super) const DISCONNECTED_AGE_MAX: Duration = Duration::from_millis(1500);
/// Locks expire when their holder does not check them for this long, even if its client is alive:
/// the transaction hangs.
pub(super) const LOCK_AGE_MAX: Duration = Duration::from_secs(15 * 60);
/// Holds expire likewise. Transactions that read check them much more often.
pub(super) const HOLD_AGE_MAX: Duration = Duration::from_secs(2 * 3600);
/// Rows per quantum of tickets. Clients with different residues write commit records to different
/// partitions.
pub(super) const RESIDUES: usize = 16;
/// Maximum number of names in the requests of one session.
const SESSION_LOCKS_MAX: usize = 200_000;
/// Maximum number of names in all requests: about 100 MB.
const LOCKS_MAX: usize = 1_000_000;
/// Maximum number of sessions.
const SESSIONS_MAX: usize = 50_000;
/// Maximum number of ended requests that a session tracks individually.
const ENDED_MAX: usize = 20_000;
/// Maps below this capacity are not shrunk.
const SHRINK_MIN: usize = 4096;

/// Identifies a lock request: the session, and the request's number within it.
pub(super) type Key = (u64, u64);

/// Identifies a lock: a hash of its name with keys of this process. Colliding names would exclude
/// each other, which is safe, only slower; with 128 bits it does not happen.
pub(super) type Name = u128;

/// The limit that a request exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CapacityError {
    Sessions,
    LocksOfSession,
    Locks,
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sessions => write!(f, "the maximum of {SESSIONS_MAX} sessions is reached"),
            Self::LocksOfSession => {
                write!(f, "the client would exceed {SESSION_LOCKS_MAX} held or queued locks")
            }
            Self::Locks => write!(f, "all clients together would exceed {LOCKS_MAX} held or queued locks"),
        }
    }
}

/// What a request does with its locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockMode {
    /// Acquires all of them.
    Acquire,
    /// Waits until each was free at some moment.
    Observe,
}

/// State of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// All locks were free.
    Done,
    /// The request is queued. [`Registry::completed`] returns it later.
    Queued,
    /// The request ended before: this is a stale duplicate.
    Ended,
}

/// Position of a batch in its session's sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// Not seen before.
    First,
    /// A retry: steps that must not be repeated are done already.
    Repeat,
    /// A stale duplicate, which must have no effect.
    Stale,
}

pub(super) struct Registry {
    session_age_max: Duration,
    sessions: HashMap<u64, Session>,
    locks: HashMap<Name, Lock>,
    /// Number of names in all requests.
    names: usize,
    requests: HashMap<Key, Request>,
    /// Requests by fencing token.
    fences: HashMap<i64, Key>,
    holds: BTreeMap<i64, Held>,
    residues: [usize; RESIDUES],
    completed: Vec<Key>,
}

struct Session {
    heard: Duration,
    /// When its last connection closed.
    disconnected: Option<Duration>,
    /// Number of names in its requests.
    names: usize,
    residue: usize,
    requests: BTreeSet<u64>,
    holds: BTreeSet<i64>,
    /// Requests below this number have ended.
    oldest_open: u64,
    /// Requests below this number have ended unless they are in `requests`.
    ended_below: u64,
    /// Ended requests from both bounds on.
    ended: BTreeSet<u64>,
    /// Newest batch and its attempt, and the hold it acquired.
    batch: (u64, u32),
    batch_hold: Option<i64>,
}

#[derive(Default)]
struct Lock {
    holder: Option<Key>,
    /// Boxed because most locks have no queue.
    queue: Option<Box<Queue>>,
}

struct Request {
    names: Arc<[Name]>,
    reached: usize,
    mode: LockMode,
    since: Duration,
    fence: Option<i64>,
}

struct Held {
    session: u64,
    count: usize,
    since: Duration,
}

/// Sizes, for the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub sessions: usize,
    pub locks: usize,
    pub queued: usize,
    pub holds: usize,
}

impl Session {
    /// Records that a request has ended, in bounded memory: a client with one long-running request
    /// may end many others meanwhile. Beyond the limit, the older half is replaced by a bound.
    /// Known requests below the bound continue. A request below it whose first attempt never
    /// arrived is rejected, and its transaction can be run again.
    fn note_ended(&mut self, number: u64) {
        self.ended.insert(number);
        if self.ended.len() > ENDED_MAX
            && let Some(middle) = self.ended.iter().nth(ENDED_MAX / 2).copied()
        {
            self.ended = self.ended.split_off(&middle);
            self.ended_below = self.ended_below.max(middle);
        }
    }
}

/// Requests that wait for a lock, in arrival order.
#[derive(Default)]
struct Queue(VecDeque<Key>);

impl Registry {
    /// Creates an empty registry. Sessions expire `session_age_max` after their last heartbeat.
    pub fn new(session_age_max: Duration) -> Self {
        Self {
            session_age_max,
            sessions: HashMap::new(),
            locks: HashMap::new(),
            names: 0,
            requests: HashMap::new(),
            fences: HashMap::new(),
            holds: BTreeMap::new(),
            residues: [0; RESIDUES],
            completed: Vec::new(),
        }
    }

    /// Checks that a request of session `id` with `names` names fits the limits.
    pub fn admit(&self, id: u64, names: usize) -> Result<(), CapacityError> {
        let session = self.sessions.get(&id);
        if session.is_none() && self.sessions.len() >= SESSIONS_MAX {
            return Err(CapacityError::Sessions);
        }
        if session.map_or(0, |session| session.names) + names > SESSION_LOCKS_MAX {
            return Err(CapacityError::LocksOfSession);
        }
        if self.names + names > LOCKS_MAX { Err(CapacityError::Locks) } else { Ok(()) }
    }

    /// Returns whether a request is known, so that a retry needs no more memory.
    pub fn has_request(&self, key: Key) -> bool {
        self.requests.contains_key(&key)
    }

    /// Records that the last connection of a session closed. The session expires soon unless the
    /// client reconnects.
    pub fn disconnected(&mut self, id: u64, now: Duration) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.disconnected = Some(now);
        }
    }

    fn session(&mut self, id: u64, now: Duration) -> &mut Session {
        match self.sessions.entry(id) {
            Entry::Occupied(entry) => {
                let session = entry.into_mut();
                session.heard = now;
                session.disconnected = None;
                session
            }
            Entry::Vacant(entry) => {
                // The residue with the fewest sessions.
                let residue =
                    self.residues.iter().enumerate().min_by_key(|(_, used)| **used).map_or(0, |(r, _)| r);
                self.residues[residue] += 1;
                entry.insert(Session {
                    heard: now,
                    disconnected: None,
                    names: 0,
                    residue,
                    requests: BTreeSet::new(),
                    holds: BTreeSet::new(),
                    oldest_open: 0,
                    ended_below: 0,
                    ended: BTreeSet::new(),
                    batch: (0, 0),
                    batch_hold: None,
                })
            }
        }
    }

    /// Records a batch of session `id`: its number and its attempt. Releases the hold of the
    /// previous batch if that is newer than `answered`, because its reply was lost.
    pub fn batch(&mut self, id: u64, batch: (u64, u32), answered: u64, now: Duration) -> Slot {
        let session = self.session(id, now);
        if batch <= session.batch {
            return Slot::Stale;
        }
        let before = std::mem::replace(&mut session.batch, batch);
        if before.0 > answered {
            self.forget_batch(id)
        } else {
            session.batch_hold = None
        }
        if before.0 == batch.0 { Slot::Repeat } else { Slot::First }
    }

    /// Releases the hold of the session's newest batch.
    pub fn forget_batch(&mut self, id: u64) {
        let hold = self.sessions.get_mut(&id).and_then(|session| session.batch_hold.take());
        if let Some(timestamp) = hold {
            self.end_hold(timestamp);
        }
    }

    /// Returns the residue of a session's start timestamps.
    pub fn residue(&mut self, id: u64, now: Duration) -> usize {
        self.session(id, now).residue
    }

    /// Holds `timestamp` for `count` transactions: step B2.
    pub fn hold(&mut self, id: u64, timestamp: i64, count: usize, now: Duration) {
        let session = self.session(id, now);
        session.holds.insert(timestamp);
        session.batch_hold = Some(timestamp);
        self.holds.insert(timestamp, Held { session: id, count, since: now });
    }

    /// Returns the smallest held timestamp.
    pub fn smallest_held(&self) -> Option<i64> {
        self.holds.first_key_value().map(|(timestamp, _)| *timestamp)
    }

    /// Releases the hold of one transaction.
    pub fn release(&mut self, timestamp: i64) {
        if let Some(held) = self.holds.get_mut(&timestamp) {
            held.count = held.count.saturating_sub(1);
            if held.count == 0 {
                self.end_hold(timestamp);
            }
        }
    }

    fn end_hold(&mut self, timestamp: i64) {
        if let Some(held) = self.holds.remove(&timestamp)
            && let Some(session) = self.sessions.get_mut(&held.session)
        {
            session.holds.remove(&timestamp);
        }
    }

    /// Returns whether a hold and a token are held: step C9. The check renews both.
    pub fn is_held(&mut self, hold: i64, fence: Option<i64>, now: Duration) -> bool {
        let held = self.holds.get_mut(&hold);
        let key = fence.map(|fence| self.fences.get(&fence));
        let request = key.map(|key| key.and_then(|key| self.requests.get_mut(key)));
        match (held, request) {
            (Some(held), None) => held.since = held.since.max(now),
            (Some(held), Some(Some(request))) => {
                held.since = held.since.max(now);
                request.since = request.since.max(now);
            }
            _ => return false,
        }
        true
    }

    /// Begins a request, or resumes one that is retried. `names` is sorted without duplicates. The
    /// client's requests below `oldest_open` have ended.
    pub fn begin(
        &mut self,
        key: Key,
        oldest_open: u64,
        names: Arc<[Name]>,
        mode: LockMode,
        now: Duration,
    ) -> Progress {
        let is_known = self.requests.contains_key(&key);
        let session = self.session(key.0, now);
        if oldest_open > session.oldest_open {
            session.oldest_open = oldest_open;
            session.ended = session.ended.split_off(&oldest_open);
        }
        let is_old = key.1 < session.oldest_open || (key.1 < session.ended_below && !is_known);
        if is_old || session.ended.contains(&key.1) {
            return Progress::Ended;
        }
        session.requests.insert(key.1);
        if let Entry::Vacant(entry) = self.requests.entry(key) {
            self.names += names.len();
            if let Some(session) = self.sessions.get_mut(&key.0) {
                session.names += names.len();
            }
            entry.insert(Request { names, reached: 0, mode, since: now, fence: None });
        }
        self.advance(key)
    }

    /// Advances a request as far as its locks are free.
    fn advance(&mut self, key: Key) -> Progress {
        let Some(request) = self.requests.get_mut(&key) else { return Progress::Ended };
        while let Some(name) = request.names.get(request.reached) {
            let lock = self.locks.entry(*name).or_default();
            if lock.holder.is_some_and(|holder| holder != key) {
                let queue = lock.queue.get_or_insert_default();
                if !queue.0.contains(&key) {
                    queue.0.push_back(key);
                }
                return Progress::Queued;
            }
            match request.mode {
                LockMode::Acquire => lock.holder = Some(key),
                LockMode::Observe if lock.holder.is_none() => drop(self.locks.remove(name)),
                LockMode::Observe => {}
            }
            request.reached += 1;
        }
        if request.mode == LockMode::Observe {
            // Not recorded as ended: if the reply is lost, the client repeats the request under the
            // same number, and a repeated wait acquires nothing.
            self.forget(key, false);
        }
        Progress::Done
    }

    /// Records the fencing token of a completed request. Returns `false` if the request has ended.
    pub fn fence(&mut self, key: Key, fence: i64) -> bool {
        match self.requests.get_mut(&key) {
            Some(request) => {
                request.fence = Some(fence);
                self.fences.insert(fence, key);
                true
            }
            None => false,
        }
    }

    /// Returns the fencing token issued to a request.
    pub fn fence_of(&self, key: Key) -> Option<i64> {
        self.requests.get(&key)?.fence
    }

    /// Releases the locks of a token.
    pub fn unlock(&mut self, fence: i64) {
        if let Some(key) = self.fences.get(&fence).copied() {
            self.cancel(key, true);
        }
    }

    /// Ends a request, whether it is queued or holds its locks. With `ended` set, it cannot be
    /// begun again.
    pub fn cancel(&mut self, key: Key, ended: bool) {
        let Some(request) = self.forget(key, ended) else { return };
        if let Some(name) = request.names.get(request.reached)
            && let Some(queue) = self.locks.get_mut(name).and_then(|lock| lock.queue.as_mut())
        {
            queue.0.retain(|waiting| *waiting != key);
        }
        if request.mode == LockMode::Acquire {
            for name in &request.names[..request.reached] {
                self.free(*name, key);
            }
        }
    }

    fn forget(&mut self, key: Key, ended: bool) -> Option<Request> {
        let request = self.requests.remove(&key)?;
        if let Some(fence) = request.fence {
            self.fences.remove(&fence);
        }
        self.names -= request.names.len();
        if let Some(session) = self.sessions.get_mut(&key.0) {
            session.names -= request.names.len();
            session.requests.remove(&key.1);
            if ended {
                session.note_ended(key.1);
            }
        }
        Some(request)
    }

    /// Releases a lock and passes it to the first request in its queue.
    fn free(&mut self, name: Name, holder: Key) {
        let Some(lock) = self.locks.get_mut(&name).filter(|lock| lock.holder == Some(holder)) else { return };
        lock.holder = None;
        while let Some(lock) = self.locks.get_mut(&name).filter(|lock| lock.holder.is_none()) {
            let Some(next) = lock.queue.as_mut().and_then(|queue| queue.0.pop_front()) else {
                self.locks.remove(&name);
                return;
            };
            // A request that only observes passes the lock to the next one. Meanwhile the lock must
            // stay in the map for the others.
            let rest = std::mem::take(&mut lock.queue);
            let progress = self.advance(next);
            let lock = self.locks.entry(name).or_default();
            lock.queue = rest;
            if progress == Progress::Done {
                self.completed.push(next);
            }
        }
    }

    /// Drains the queued requests that completed since the last call.
    pub fn completed(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.completed)
    }

    /// Expires sessions, locks and holds that are too old. Returns the requests that ended without
    /// their locks.
    pub fn expire(&mut self, now: Duration) -> Vec<Key> {
        let too_old = |since: Duration, max: Duration| now.saturating_sub(since) > max;
        let gone: Vec<u64> = self
            .sessions
            .iter()
            .filter(|(_, session)| {
                let is_closed = |since| too_old(since, DISCONNECTED_AGE_MAX);
                too_old(session.heard, self.session_age_max) || session.disconnected.is_some_and(is_closed)
            })
            .map(|(id, _)| *id)
            .collect();
        let mut ended = Vec::new();
        for id in gone {
            let Some(session) = self.sessions.get(&id) else { continue };
            self.residues[session.residue] -= 1;
            let (requests, holds) = (session.requests.clone(), session.holds.clone());
            holds.into_iter().for_each(|timestamp| self.end_hold(timestamp));
            for number in requests {
                self.cancel((id, number), true);
                ended.push((id, number));
            }
            self.sessions.remove(&id);
        }
        let old: Vec<Key> = self
            .requests
            .iter()
            .filter(|(_, request)| too_old(request.since, LOCK_AGE_MAX))
            .map(|(key, _)| *key)
            .collect();
        for key in old {
            self.cancel(key, true);
            ended.push(key);
        }
        let old: Vec<i64> = self
            .holds
            .iter()
            .filter(|(_, held)| too_old(held.since, HOLD_AGE_MAX))
            .map(|(timestamp, _)| *timestamp)
            .collect();
        old.into_iter().for_each(|timestamp| self.end_hold(timestamp));
        self.shrink();
        ended
    }

    /// Releases the memory of a peak. Not after every removal: maps that grow and shrink in turn
    /// keep their capacity.
    fn shrink(&mut self) {
        fn shrink<K: Eq + std::hash::Hash, V>(map: &mut HashMap<K, V>) {
            if map.capacity() > SHRINK_MIN && map.capacity() / 4 > map.len() {
                map.shrink_to(map.len() * 2);
            }
        }
        shrink(&mut self.sessions);
        shrink(&mut self.locks);
        shrink(&mut self.requests);
        shrink(&mut self.fences);
    }

    pub fn counts(&self) -> Counts {
        Counts {
            sessions: self.sessions.len(),
            locks: self.locks.len(),
            queued: self.locks.values().filter_map(|lock| Some(lock.queue.as_ref()?.0.len())).sum(),
            holds: self.holds.values().map(|held| held.count).sum(),
        }
    }
}
