//! Locks, holds and the sessions they belong to, in the memory of the server that leads. Times come from outside; nothing waits here.
//!
//! Invariants: a lock has a holder or nobody queues for it; a request that takes locks has those before `reached`, and stands in the queue of
//! the one at `reached`; names of a request are sorted and none comes twice, so no circle of requests waits.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// How long a client keeps its locks and holds without a sign of life, unless the server is started with another value.
/// Clients send one every [`HEARTBEAT`](super::messages::HEARTBEAT).
pub(super) const SESSION_AGE_MAX: Duration = Duration::from_secs(5);
/// How long it keeps them when all its connections are closed. Longer than [`HEARTBEAT`](super::messages::HEARTBEAT): a client that lives has
/// connected again by then.
pub(super) const DISCONNECTED_AGE_MAX: Duration = Duration::from_millis(1500);
/// Locks are lost when nobody has asked for so long whether they are held, also of a client that lives: one of its transactions hangs.
pub(super) const LOCK_AGE_MAX: Duration = Duration::from_secs(15 * 60);
/// So are holds. Transactions that read ask much more often.
pub(super) const HOLD_AGE_MAX: Duration = Duration::from_secs(2 * 3600);
/// Rows of a quantum of tickets: clients with starts of residues of their own put conclusions in partitions of their own.
pub(super) const RESIDUES: usize = 16;
/// Names in the requests of one session, at most.
const SESSION_LOCKS_MAX: usize = 200_000;
/// Names in all requests, at most: about 100 MB.
const LOCKS_MAX: usize = 1_000_000;
/// Clients at most.
const SESSIONS_MAX: usize = 50_000;
/// Requests of one session that are noted as ended one by one, at most.
const ENDED_MAX: usize = 20_000;
/// Maps of fewer entries keep their memory.
const SHRINK_MIN: usize = 4096;

/// A request for locks: a session's number, and the request's within it.
pub(super) type Key = (u64, u64);

/// A lock: a hash of its name under keys of this process. Two names of one hash would exclude each other, which costs time
/// and is safe; of 2^128 values that does not happen.
pub(super) type Name = u128;

/// What there is enough of already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    Sessions,
    LocksOfSession,
    Locks,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sessions => write!(f, "{SESSIONS_MAX} clients have sessions, and no more may"),
            Self::LocksOfSession => {
                write!(f, "the client would hold or wait for more than {SESSION_LOCKS_MAX} locks")
            }
            Self::Locks => write!(f, "all clients would hold or wait for more than {LOCKS_MAX} locks"),
        }
    }
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// To hold all locks.
    Take,
    /// To see each free at some moment.
    See,
}

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// All was free.
    Done,
    /// It stands in a queue; it is among [`Registry::completed`] later.
    Queued,
    /// It ended before: this is a late copy.
    Ended,
}

/// Whether a batch has been seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has not.
    First,
    /// It has, and is tried again: what must not be done twice was done.
    Again,
    /// This is a late copy, of which nothing may be done.
    Late,
}

pub(super) struct Registry {
    session_age_max: Duration,
    sessions: HashMap<u64, Session>,
    locks: HashMap<Name, Lock>,
    /// Names in all requests.
    names: usize,
    requests: HashMap<Key, Request>,
    /// Which request got which fencing token.
    fences: HashMap<i64, Key>,
    holds: BTreeMap<i64, Held>,
    residues: [usize; RESIDUES],
    completed: Vec<Key>,
}

struct Session {
    heard: Duration,
    /// Since when all its connections are closed.
    disconnected: Option<Duration>,
    /// Names in its requests.
    names: usize,
    residue: usize,
    requests: BTreeSet<u64>,
    holds: BTreeSet<i64>,
    /// Requests below it have ended.
    oldest_open: u64,
    /// Requests below it have ended unless they are known.
    ended_below: u64,
    /// Requests from both on that have ended.
    ended: BTreeSet<u64>,
    /// The newest batch, which try of it, and what it holds.
    batch: (u64, u32),
    batch_hold: Option<i64>,
}

#[derive(Default)]
struct Lock {
    holder: Option<Key>,
    /// Mostly nobody waits.
    queue: Option<Box<Queue>>,
}

struct Request {
    names: Arc<[Name]>,
    reached: usize,
    wish: Wish,
    since: Duration,
    fence: Option<i64>,
}

struct Held {
    session: u64,
    count: usize,
    since: Duration,
}

/// How much there is, for those who look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub sessions: usize,
    pub locks: usize,
    pub queued: usize,
    pub holds: usize,
}

impl Session {
    /// Notes that a request has ended, in bounded memory: a client that has one request open for long ends very many
    /// meanwhile. The older half is then noted as a bound. Requests below it that are known go on; a request of so old a
    /// number whose first try never came is refused, and its transaction can be run again.
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

/// Who waits for a lock, first come first.
#[derive(Default)]
struct Queue(VecDeque<Key>);

impl Registry {
    /// Without locks. Sessions end `session_age_max` after their last sign of life.
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

    /// Whether a request of session `id` can be accepted that has `names` names.
    pub fn admit(&self, id: u64, names: usize) -> Result<(), Full> {
        let session = self.sessions.get(&id);
        if session.is_none() && self.sessions.len() >= SESSIONS_MAX {
            return Err(Full::Sessions);
        }
        if session.map_or(0, |session| session.names) + names > SESSION_LOCKS_MAX {
            return Err(Full::LocksOfSession);
        }
        if self.names + names > LOCKS_MAX { Err(Full::Locks) } else { Ok(()) }
    }

    /// Whether a request is known, so that a repetition of it takes no memory.
    pub fn has_request(&self, key: Key) -> bool {
        self.requests.contains_key(&key)
    }

    /// Notes that all connections of a session are closed. It ends soon, unless something is heard of it.
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
                // The one that fewest have.
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

    /// A batch of session `id`: its number, and that of the try. What a batch holds that came after `answered` is given back: its answer never
    /// came.
    pub fn batch(&mut self, id: u64, batch: (u64, u32), answered: u64, now: Duration) -> Turn {
        let session = self.session(id, now);
        if batch <= session.batch {
            return Turn::Late;
        }
        let before = std::mem::replace(&mut session.batch, batch);
        if before.0 > answered {
            self.forget_batch(id)
        } else {
            session.batch_hold = None
        }
        if before.0 == batch.0 { Turn::Again } else { Turn::First }
    }

    /// Gives back what the newest batch of a session holds.
    pub fn forget_batch(&mut self, id: u64) {
        let hold = self.sessions.get_mut(&id).and_then(|session| session.batch_hold.take());
        if let Some(timestamp) = hold {
            self.end_hold(timestamp);
        }
    }

    /// The residue of a session's start timestamps.
    pub fn residue(&mut self, id: u64, now: Duration) -> usize {
        self.session(id, now).residue
    }

    /// B2, for `count` transactions.
    pub fn hold(&mut self, id: u64, timestamp: i64, count: usize, now: Duration) {
        let session = self.session(id, now);
        session.holds.insert(timestamp);
        session.batch_hold = Some(timestamp);
        self.holds.insert(timestamp, Held { session: id, count, since: now });
    }

    /// The smallest timestamp that is held.
    pub fn smallest_held(&self) -> Option<i64> {
        self.holds.first_key_value().map(|(timestamp, _)| *timestamp)
    }

    /// Gives a hold back, of one transaction.
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

    /// C9. Who asks lives: what is held counts as taken now.
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

    /// Begins a request, or finds one that is tried again. `names` are sorted, none twice. The client's requests below `oldest_open` have ended.
    pub fn begin(
        &mut self,
        key: Key,
        oldest_open: u64,
        names: Arc<[Name]>,
        wish: Wish,
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
            entry.insert(Request { names, reached: 0, wish, since: now, fence: None });
        }
        self.advance(key)
    }

    /// Goes on with a request as far as locks are free.
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
            match request.wish {
                Wish::Take => lock.holder = Some(key),
                Wish::See if lock.holder.is_none() => drop(self.locks.remove(name)),
                Wish::See => {}
            }
            request.reached += 1;
        }
        if request.wish == Wish::See {
            // Not noted as ended: if the reply is lost, the client repeats the request under the same
            // number, and a repeated wait takes nothing.
            self.forget(key, false);
        }
        Progress::Done
    }

    /// Notes which token a request got that is done.
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

    /// The token that a request got before.
    pub fn fence_of(&self, key: Key) -> Option<i64> {
        self.requests.get(&key)?.fence
    }

    /// Gives back the locks of a token.
    pub fn unlock(&mut self, fence: i64) {
        if let Some(key) = self.fences.get(&fence).copied() {
            self.cancel(key, true);
        }
    }

    /// Ends a request, whether it waits or has its locks. `ended`: it is not to be begun again.
    pub fn cancel(&mut self, key: Key, ended: bool) {
        let Some(request) = self.forget(key, ended) else { return };
        if let Some(name) = request.names.get(request.reached)
            && let Some(queue) = self.locks.get_mut(name).and_then(|lock| lock.queue.as_mut())
        {
            queue.0.retain(|waiting| *waiting != key);
        }
        if request.wish == Wish::Take {
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

    /// Takes a lock from its holder, and gives it to the first in its queue.
    fn free(&mut self, name: Name, holder: Key) {
        let Some(lock) = self.locks.get_mut(&name).filter(|lock| lock.holder == Some(holder)) else { return };
        lock.holder = None;
        while let Some(lock) = self.locks.get_mut(&name).filter(|lock| lock.holder.is_none()) {
            let Some(next) = lock.queue.as_mut().and_then(|queue| queue.0.pop_front()) else {
                self.locks.remove(&name);
                return;
            };
            // One that only wants to see it free lets the next have it. The lock must not be forgotten for the others meanwhile.
            let rest = std::mem::take(&mut lock.queue);
            let progress = self.advance(next);
            let lock = self.locks.entry(name).or_default();
            lock.queue = rest;
            if progress == Progress::Done {
                self.completed.push(next);
            }
        }
    }

    /// The requests that stood in a queue and are done since this was asked last.
    pub fn completed(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.completed)
    }

    /// Ends what is too old. The requests that ended without their locks are returned.
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

    /// Releases memory of what was there at a peak. Not at every removal: maps that grow and shrink in turn keep theirs.
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
