//! The timelock server: requests that the leader serves, and the thread that keeps its lease.
//!
//! One mutex guards all state in memory. It is never held during a call of the store, which only
//! the lease keeper's thread makes.

mod keeper;
mod requests;

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cassette_http::Limits;
use cassette_tls::Tls;
use cassette_tls::secret::Tokens;
use cassette_vfs::{Clock, SystemClock};
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, Semaphore, oneshot};

use super::election::Election;
use super::lease::ClockReading;
use super::log_rate::LogRate;
use super::messages::{LeaderStatus, Refusal, Status};
use super::registry::{Key, Name, Registry, SESSION_AGE_MAX};
use super::timestamps::BoundCell;
use super::{FAST_FORWARD_MAX, TimeLockError, known_timestamp};
use crate::store::{Store, StoreError};
use crate::timestamp::Timestamp;
use keeper::keep_lease;

/// Default maximum number of open connections: fits the usual limit of 1024 files.
const CONNECTIONS_MAX: usize = 512;
/// Maximum memory of long request bodies that are read and not yet parsed, KiB.
const BODIES_MAX: usize = 64 << 10;

/// Options of a timelock server.
#[derive(Clone)]
pub struct ServerOptions {
    /// Address where clients reach the server.
    pub address: String,
    /// Host names of the server in addition to IP addresses, `localhost` and the name in `address`.
    pub hosts: Vec<String>,
    /// Limits on connections and requests.
    pub limits: Limits,
    /// How long the server leads without a response of the store. Other servers wait a quarter
    /// longer, so that a dead leader is replaced after at most 1.5 leases.
    pub lease: Duration,
    /// After the loss of the bound: a timestamp above all that were ever issued.
    pub recovered: Option<Timestamp>,
    /// How long a client keeps its locks and holds without a heartbeat. Clients send one every
    /// second. If the client is alive after all, its transactions fail at the last check and can be
    /// run again. A client whose connections are all closed keeps them for at most 1.5 s.
    pub session_age_max: Duration,
    /// Clocks of the machine.
    pub clock: Arc<dyn Clock>,
    /// Tokens of which clients must present one. `None`: every client is served.
    pub tokens: Option<Arc<Tokens>>,
    /// Encrypts connections.
    pub tls: Option<Tls>,
}

impl ServerOptions {
    /// Returns the default options.
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
            tokens: None,
            tls: None,
        }
    }
}

/// A timelock server, which leads or stands by for the leader. Dropping it stops it and gives the
/// lease back if the store responds.
pub struct TimeLockServer {
    pub(super) service: Arc<LockService>,
    lease_keeper: Option<JoinHandle<()>>,
}

/// State shared by request handlers and the lease keeper.
pub(super) struct LockService {
    state: Mutex<State>,
    /// Wakes the lease keeper.
    wanted: Condvar,
    /// Notified after each step of the lease keeper.
    renewed: Notify,
    stopping: AtomicBool,
    requests: AtomicU64,
    clock: Arc<dyn Clock>,
    address: String,
    /// Host names of this server; see [`ServerOptions::hosts`].
    pub hosts: Vec<String>,
    pub limits: Limits,
    /// See [`ServerOptions::tokens`].
    pub tokens: Option<Arc<Tokens>>,
    pub tls: Option<Tls>,
    /// Logs requests without a valid token.
    pub unauthorized: Mutex<LogRate>,
    started: Instant,
    session_age_max: Duration,
    /// Hash lock names.
    hashers: [RandomState; 2],
    /// KiB available for long request bodies that are read and not yet parsed.
    pub bodies: Arc<Semaphore>,
}

struct State {
    election: Election,
    /// Locks, holds and sessions of the term in which this server leads.
    registry: Registry,
    term: u64,
    waiting: HashMap<Key, Waiter>,
    next_waiting: u64,
    expired: ClockReading,
    /// Number of open connections over which each session has sent requests, across terms.
    connections: HashMap<u64, usize>,
}

/// A queued lock request, and the attempt that waits for it.
struct Waiter {
    attempt: u64,
    done: oneshot::Sender<bool>,
}

impl TimeLockServer {
    /// Starts a server on a store. It soon leads or stands by.
    ///
    /// # Errors
    /// `RecoveredBelow`, or the error of creating the table of the bound.
    pub fn start(store: Arc<dyn Store>, options: ServerOptions) -> Result<Self, TimeLockError> {
        let ServerOptions {
            address,
            mut hosts,
            limits,
            lease,
            recovered,
            session_age_max,
            clock,
            tokens,
            tls,
        } = options;
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
            expired: ClockReading::of(&*clock),
            connections: HashMap::new(),
        };
        let service = Arc::new(LockService {
            state: Mutex::new(state),
            wanted: Condvar::new(),
            renewed: Notify::new(),
            stopping: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            clock,
            address,
            hosts,
            limits,
            tokens,
            tls,
            unauthorized: Mutex::default(),
            started: Instant::now(),
            session_age_max,
            hashers: [RandomState::new(), RandomState::new()],
            bodies: Arc::new(Semaphore::new(BODIES_MAX)),
        });
        let for_keeper = service.clone();
        let lease_keeper = std::thread::Builder::new()
            .name("timelock-keeper".to_owned())
            .spawn(move || keep_lease(&for_keeper, &cell, is_recovering))
            .map_err(|error| TimeLockError::Bound(StoreError::refused("start the lease keeper", error)))?;
        Ok(Self { service, lease_keeper: Some(lease_keeper) })
    }

    /// Returns the current status.
    pub fn status(&self) -> Status {
        self.service.status()
    }

    /// Waits until this server leads.
    ///
    /// # Errors
    /// The reason why it never will, or `NoLeader` after `timeout`.
    pub async fn wait_until_leading(&self, timeout: Duration) -> Result<(), TimeLockError> {
        let deadline = tokio::time::Instant::now() + timeout;
        loop {
            let renewed = self.service.renewed.notified();
            {
                let mut state = self.service.state.lock();
                if let Some(error) = state.election.stopped() {
                    return Err(error.clone());
                }
                let now = ClockReading::of(&*self.service.clock);
                if state.election.leadership().is_some_and(|leadership| leadership.confirm(now).is_ok()) {
                    return Ok(());
                }
            }
            if tokio::time::timeout_at(deadline, renewed).await.is_err() {
                let last = match self.service.state.lock().election.leader() {
                    Some(leader) => format!("{leader} leads"),
                    None => "the store does not respond".to_owned(),
                };
                return Err(TimeLockError::NoLeader { waited: timeout, last });
            }
        }
    }

    /// Makes all later timestamps greater than `timestamp`. Timestamps never go back.
    ///
    /// # Errors
    /// If this server does not lead, or too few timestamps would be left.
    pub async fn fast_forward(&self, timestamp: Timestamp) -> Result<(), TimeLockError> {
        let refused =
            |refusal: Refusal| TimeLockError::Refused { server: self.service.address.clone(), refusal };
        self.service.fast_forward(timestamp.0).await.map_err(refused)
    }

    /// Releases the lease and stops. Waits for the store for at most the length of the lease.
    pub fn stop(&mut self) {
        self.service.stop();
        if let Some(lease_keeper) = self.lease_keeper.take() {
            // A panic of the keeper has been reported already.
            let _ = lease_keeper.join();
        }
    }
}

impl Drop for TimeLockServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Rejects a recovery timestamp that cannot be above all timestamps that were issued.
fn check_recovered(store: &Arc<dyn Store>, asked: Timestamp) -> Result<(), TimeLockError> {
    let cannot_know = |error| StoreError::refused("find the greatest known timestamp", error);
    match known_timestamp(store).map_err(cannot_know)? {
        _ if asked.0 > FAST_FORWARD_MAX => Err(TimeLockError::OutOfRange { asked }),
        Some(known) if asked <= known => Err(TimeLockError::RecoveredBelow { asked, known }),
        _ => Ok(()),
    }
}

impl LockService {
    fn stop(&self) {
        // Holding the mutex prevents a lost wakeup: the keeper checks the flag under it before it
        // waits.
        let state = self.state.lock();
        self.stopping.store(true, Ordering::SeqCst);
        drop(state);
        self.wanted.notify_all();
    }

    /// Returns whether the server is stopping or has ended.
    pub fn is_finished(&self) -> bool {
        self.stopping.load(Ordering::SeqCst) || self.state.lock().election.ended().is_some()
    }

    /// Returns why the server issues no more timestamps.
    pub fn stopped(&self) -> Option<TimeLockError> {
        self.state.lock().election.stopped().cloned()
    }

    /// Returns the registry's name of a lock.
    pub fn name(&self, text: &[u8]) -> Name {
        let [high, low] = self.hashers.each_ref().map(|hasher| Name::from(hasher.hash_one(text)));
        high << 64 | low
    }

    /// Records that a connection carries requests of a session.
    pub fn connected(&self, session: u64) {
        *self.state.lock().connections.entry(session).or_default() += 1;
    }

    /// Records that a connection closed which carried requests of `sessions`. Sessions without
    /// another connection expire soon.
    pub fn disconnected(&self, sessions: &BTreeSet<u64>) {
        let now = ClockReading::of(&*self.clock).monotonic;
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

    /// Starts to stop on behalf of a client.
    pub fn request_stop(&self) {
        self.stop();
        self.renewed.notify_waiters();
    }

    /// Completes when the server is to end.
    pub async fn finished(&self) {
        loop {
            let renewed = self.renewed.notified();
            if self.is_finished() {
                return;
            }
            renewed.await;
        }
    }

    pub fn status(&self) -> Status {
        let mut state = self.state.lock();
        let now = ClockReading::of(&*self.clock);
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
            (Some(_), true) => "lease lapsed, renewal pending",
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
}
