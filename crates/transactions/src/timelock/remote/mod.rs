//! Client of the timelock servers.
//!
//! Concurrent requests of threads share a round trip: one batch is in flight while the next one
//! gathers. A thread of the client sends the batches, and heartbeats when there is nothing to send.
//!
//! Retries never return a timestamp twice: a batch without a reply is sent again with a greater
//! attempt number, and the server issues new timestamps. Those of the lost reply are never
//! used. A reply is accepted only if it names the batch and the attempt that was sent, and if all
//! its timestamps are above those seen before it was sent.

mod connection;
mod sender;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cassette_tls::ClientTls;
use cassette_tls::secret::Token;
use parking_lot::Mutex;

use super::messages::{FastForward, LockReply, LockRequest, REQUEST_BYTES_MAX, REQUEST_LOCKS_MAX, Status};
use super::timestamps::stored_record;
use super::{Hold, LockToken, Started, TimeLock, TimeLockError};
use crate::store::Store;
use crate::timestamp::Timestamp;
use connection::{Repeat, Servers};
use sender::{Answer, Query, Sender};

/// How long a replaced leader and its clients may take to find out: more than a fifth of the
/// longest sensible lease.
const CHANGE_MAX: Duration = Duration::from_secs(5);
/// Interval between two reads meanwhile.
const CHANGE_PAUSE: Duration = Duration::from_millis(100);

/// Options of a timelock client.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// All servers as `host:port`: the leader and the standbys.
    pub servers: Vec<String>,
    /// How long servers are tried before a call fails. Longer than a new leader takes to be
    /// elected.
    pub timeout: Duration,
    /// The token that the servers require.
    pub token: Option<Token>,
    /// Encrypts connections. `None`: the servers use no TLS.
    pub tls: Option<ClientTls>,
}

impl RemoteOptions {
    /// Returns the default options for `servers`.
    pub fn new<S: Into<String>>(servers: impl IntoIterator<Item = S>) -> Self {
        let servers = servers.into_iter().map(Into::into).collect();
        Self { servers, timeout: Duration::from_secs(30), token: None, tls: None }
    }
}

/// Timestamps and locks of a timelock server. Any thread may use it; calls block.
///
/// Locks and holds are lost when another server becomes the leader, or when the server received no
/// heartbeat of this client for
/// [`ServerOptions::session_age_max`](super::ServerOptions::session_age_max). Transactions then
/// fail at their last check and can be run again.
pub struct RemoteTimeLock {
    sender: Arc<Sender>,
    thread: Option<JoinHandle<()>>,
    /// Open lock requests, and the number of the next one.
    open: Mutex<(BTreeSet<u64>, u64)>,
    lock_round_trips: AtomicU64,
}

impl RemoteTimeLock {
    /// Connects to the leader.
    ///
    /// # Errors
    /// `NoLeader` if there is none in time.
    pub fn connect(options: RemoteOptions) -> Result<Self, TimeLockError> {
        let sender = Arc::new(Sender::new(Servers::new(&options)));
        let of_thread = sender.clone();
        let thread = std::thread::Builder::new()
            .name("timelock-client".to_owned())
            .spawn(move || of_thread.contain(Sender::run))
            .map_err(|error| TimeLockError::NoLeader { waited: Duration::ZERO, last: error.to_string() })?;
        let remote = Self {
            sender,
            thread: Some(thread),
            open: Mutex::default(),
            lock_round_trips: AtomicU64::new(0),
        };
        remote.timestamp()?;
        Ok(remote)
    }

    /// Returns the number of requests sent so far: batches, and lock requests.
    pub fn round_trips(&self) -> (u64, u64) {
        (self.sender.round_trips(), self.lock_round_trips.load(Ordering::Relaxed))
    }

    fn ask(&self, queries: Query) -> Result<Answer, TimeLockError> {
        self.sender.ask(queries)
    }

    fn request_locks(
        &self,
        mut names: Vec<Bytes>,
        timeout: Duration,
        only_wait: bool,
    ) -> Result<(u64, LockReply), TimeLockError> {
        names.sort_unstable();
        names.dedup();
        let bytes = names.iter().map(|name| name.len() + 1).sum::<usize>();
        if names.len() > REQUEST_LOCKS_MAX || bytes > REQUEST_BYTES_MAX {
            return Err(TimeLockError::TooManyLocks { count: names.len(), bytes });
        }
        let (number, oldest_open) = {
            let mut open = self.open.lock();
            open.1 += 1;
            let number = open.1;
            open.0.insert(number);
            (number, open.0.first().copied().unwrap_or(number))
        };
        let request = LockRequest {
            session: self.sender.session(),
            number,
            oldest_open,
            names: names.iter().map(|name| STANDARD.encode(name)).collect(),
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            only_wait,
        };
        self.lock_round_trips.fetch_add(1, Ordering::Relaxed);
        let seen = self.sender.seen();
        let servers = self.sender.servers();
        let reply = servers.ask("/v1/lock", Repeat::Same, |_| request.clone(), timeout).and_then(
            |reply: LockReply| match (reply.number == number, reply.fence) {
                (true, Some(fence)) if !only_wait => {
                    self.sender.check_increasing(seen, [fence]).map(|()| reply)
                }
                (true, None) if only_wait => Ok(reply),
                _ => Err(servers.invalid_response("the response answers another lock request")),
            },
        );
        if reply.is_err() || only_wait {
            self.end(number);
        }
        if let Err(error) = &reply
            && !matches!(error, TimeLockError::LockTimeout { .. })
        {
            // The request may hold the locks by now, or acquire them later.
            self.sender.cancel(number);
        }
        reply.map(|reply| (number, reply))
    }

    fn end(&self, number: u64) {
        self.open.lock().0.remove(&number);
    }
}

impl Drop for RemoteTimeLock {
    fn drop(&mut self) {
        self.sender.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
    }
}

impl TimeLock for RemoteTimeLock {
    /// The store identifies the leader by a number that only the leader has. During a change of
    /// leaders, both may be out of date.
    fn check_store(&self, store: &dyn Store) -> Result<(), TimeLockError> {
        let deadline = Instant::now() + CHANGE_MAX;
        loop {
            // Finds the current leader.
            self.timestamp()?;
            let status: Result<Status, _> = self.sender.servers().get("/v1/status");
            let stored = stored_record(store)?;
            let holder = |status: &Status| status.leading.as_ref().map(|leading| leading.holder);
            if let (Ok(status), Ok(record)) = (&status, &stored)
                && holder(status) == Some(record.holder)
            {
                return Ok(());
            }
            if Instant::now() < deadline && stored.is_ok() {
                std::thread::sleep(CHANGE_PAUSE);
                continue;
            }
            let found = stored.map_or_else(|why| why, |record| format!("{} leads", record.address));
            return Err(TimeLockError::OtherStore { server: status?.address, found });
        }
    }

    fn start(&self) -> Result<Started, TimeLockError> {
        match self.ask(Query::Start)? {
            Answer::Started { start, immutable, hold } => Ok(Started {
                start: Timestamp(start),
                immutable: Timestamp(immutable),
                hold: Hold { timestamp: Timestamp(hold), epoch: 0 },
            }),
            _ => Err(self.sender.servers().invalid_response("no start timestamp")),
        }
    }

    fn timestamp(&self) -> Result<Timestamp, TimeLockError> {
        match self.ask(Query::Timestamp)? {
            Answer::Timestamp(timestamp) => Ok(Timestamp(timestamp)),
            _ => Err(self.sender.servers().invalid_response("no timestamp")),
        }
    }

    fn immutable(&self) -> Result<Timestamp, TimeLockError> {
        match self.ask(Query::Immutable)? {
            Answer::Timestamp(timestamp) => Ok(Timestamp(timestamp)),
            _ => Err(self.sender.servers().invalid_response("no immutable timestamp")),
        }
    }

    fn lock(&self, names: Vec<Bytes>, timeout: Duration) -> Result<LockToken, TimeLockError> {
        let (number, reply) = self.request_locks(names, timeout, false)?;
        // The fence identifies the locks; their names need not be kept.
        let fence = reply.fence.map(Timestamp);
        Ok(LockToken { names: Arc::new([]), owner: number, epoch: 0, fence })
    }

    fn wait_for(&self, names: &[Bytes], timeout: Duration) -> Result<(), TimeLockError> {
        self.request_locks(names.to_vec(), timeout, true).map(drop)
    }

    fn is_held(&self, locks: Option<&LockToken>, hold: Hold) -> Result<bool, TimeLockError> {
        let fence = match locks {
            // Issued by another kind of timelock.
            Some(LockToken { fence: None, .. }) => return Ok(false),
            Some(LockToken { fence: Some(fence), .. }) => Some(fence.0),
            None => None,
        };
        match self.ask(Query::Check { hold: hold.timestamp.0, fence })? {
            Answer::Held(held) => Ok(held),
            _ => Err(self.sender.servers().invalid_response("no result of the check")),
        }
    }

    fn unlock(&self, locks: LockToken) {
        self.end(locks.owner);
        if let Some(fence) = locks.fence {
            self.sender.unlock(fence.0);
        }
    }

    fn release(&self, hold: Hold) {
        self.sender.release(hold.timestamp.0);
    }

    fn fast_forward(&self, timestamp: Timestamp) -> Result<(), TimeLockError> {
        let question = FastForward { to: timestamp.0 };
        let done: Result<Status, _> =
            self.sender.servers().ask("/v1/fast-forward", Repeat::Same, |_| question, Duration::ZERO);
        done.map(drop)
    }
}

/// Administration of a single server.
pub struct Operator(Servers);

impl Operator {
    /// Addresses the server at `address`, `host:port`.
    pub fn new(address: &str) -> Self {
        Self::with(&RemoteOptions { timeout: Duration::from_secs(5), ..RemoteOptions::new([address]) })
    }

    /// Addresses the first server of `options`.
    pub fn with(options: &RemoteOptions) -> Self {
        Self(Servers::new(options))
    }

    /// Returns the server's status.
    pub fn status(&self) -> Result<Status, TimeLockError> {
        self.0.get("/v1/status")
    }

    /// Makes the server release its lease and end. Returns its previous status.
    pub fn stop(&self) -> Result<Status, TimeLockError> {
        self.0.ask("/v1/stop", Repeat::Same, |_| (), Duration::ZERO)
    }

    /// Makes all later timestamps greater than `timestamp`. Timestamps never go back.
    pub fn fast_forward(&self, timestamp: Timestamp) -> Result<Status, TimeLockError> {
        self.0.ask("/v1/fast-forward", Repeat::Same, |_| FastForward { to: timestamp.0 }, Duration::ZERO)
    }
}
