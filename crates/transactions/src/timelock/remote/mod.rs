//! Timestamps and locks from a timelock server.
//!
//! What threads ask at the same time shares a round trip: one batch is on its way, and the next gathers meanwhile. A thread of the client's own
//! sends them, and says every few seconds that the client lives.
//!
//! What is tried again, and why no timestamp is handed out twice: a batch that had no answer is sent again with a greater number of its try, and
//! the server hands out new timestamps; those of the lost answer are never used. An answer is taken only if it names the batch and the try
//! that was sent, and only if all its timestamps are above those that had been seen before it was sent.

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
use parking_lot::Mutex;

use super::messages::{FastForward, LockReply, LockRequest, REQUEST_BYTES_MAX, REQUEST_LOCKS_MAX, Status};
use super::timestamps::stored_record;
use super::{Hold, LockToken, Started, TimeLock, TimeLockError};
use crate::store::Store;
use crate::timestamp::Timestamp;
use connection::{Repeat, Servers};
use sender::{Asked, Sender, Told};

/// How long a leader that was replaced, and whoever asks it, may take to find that out: more than a fifth of the longest sensible lease.
const CHANGE_MAX: Duration = Duration::from_secs(5);
/// Between two looks meanwhile.
const CHANGE_PAUSE: Duration = Duration::from_millis(100);

/// How a client reaches timelock servers.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// All servers, `host:port`: the one that leads, and those that stand by.
    pub servers: Vec<String>,
    /// For how long servers are asked before a call fails. Longer than a new one takes to lead.
    pub timeout: Duration,
}

impl RemoteOptions {
    /// The defaults.
    pub fn new<S: Into<String>>(servers: impl IntoIterator<Item = S>) -> Self {
        Self { servers: servers.into_iter().map(Into::into).collect(), timeout: Duration::from_secs(30) }
    }
}

/// Timestamps and locks from a timelock server. Any thread may use it; calls block.
///
/// Locks and holds are lost when the server was replaced by another, or has not heard of this client for [`ServerOptions::session_age_max`](super::ServerOptions::session_age_max); transactions then fail at
/// their last check and can be run again.
pub struct RemoteTimeLock {
    sender: Arc<Sender>,
    thread: Option<JoinHandle<()>>,
    /// Requests for locks that have not ended, and the number of the next.
    open: Mutex<(BTreeSet<u64>, u64)>,
    lock_round_trips: AtomicU64,
}

impl RemoteTimeLock {
    /// Finds the server that leads.
    ///
    /// # Errors
    /// NoLeader, if there is none in time.
    pub fn connect(options: RemoteOptions) -> Result<Self, TimeLockError> {
        let sender = Arc::new(Sender::new(Servers::new(&options)));
        let of_thread = sender.clone();
        let thread = std::thread::Builder::new()
            .name("timelock-client".to_owned())
            .spawn(move || of_thread.run())
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

    /// How often a server was asked so far: batches, and requests for locks.
    pub fn round_trips(&self) -> (u64, u64) {
        (self.sender.round_trips(), self.lock_round_trips.load(Ordering::Relaxed))
    }

    fn ask(&self, asked: Asked) -> Result<Told, TimeLockError> {
        self.sender.ask(asked)
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
                (true, Some(fence)) if !only_wait => self.sender.saw(seen, [fence]).map(|()| reply),
                (true, None) if only_wait => Ok(reply),
                _ => Err(servers.nonsense("the answer to another request for locks")),
            },
        );
        if reply.is_err() || only_wait {
            self.end(number);
        }
        if let Err(error) = &reply
            && !matches!(error, TimeLockError::LockTimeout { .. })
        {
            // It may have the locks by now, or get them later.
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
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }
}

impl TimeLock for RemoteTimeLock {
    /// The store knows who leads by a number that only the leader has; while leaders change, both may be behind.
    fn check_store(&self, store: &dyn Store) -> Result<(), TimeLockError> {
        let deadline = Instant::now() + CHANGE_MAX;
        loop {
            // Finds whoever leads now.
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
        match self.ask(Asked::Start)? {
            Told::Started { start, immutable, hold } => Ok(Started {
                start: Timestamp(start),
                immutable: Timestamp(immutable),
                hold: Hold { timestamp: Timestamp(hold), epoch: 0 },
            }),
            _ => Err(self.sender.servers().nonsense("no start timestamp")),
        }
    }

    fn timestamp(&self) -> Result<Timestamp, TimeLockError> {
        match self.ask(Asked::Timestamp)? {
            Told::Timestamp(timestamp) => Ok(Timestamp(timestamp)),
            _ => Err(self.sender.servers().nonsense("no timestamp")),
        }
    }

    fn immutable(&self) -> Result<Timestamp, TimeLockError> {
        match self.ask(Asked::Immutable)? {
            Told::Timestamp(timestamp) => Ok(Timestamp(timestamp)),
            _ => Err(self.sender.servers().nonsense("no immutable timestamp")),
        }
    }

    fn lock(&self, names: Vec<Bytes>, timeout: Duration) -> Result<LockToken, TimeLockError> {
        let (number, reply) = self.request_locks(names, timeout, false)?;
        // The fence names the locks; their names need not be kept.
        let fence = reply.fence.map(Timestamp);
        Ok(LockToken { names: Arc::new([]), owner: number, epoch: 0, fence })
    }

    fn wait_for(&self, names: &[Bytes], timeout: Duration) -> Result<(), TimeLockError> {
        self.request_locks(names.to_vec(), timeout, true).map(drop)
    }

    fn is_held(&self, locks: Option<&LockToken>, hold: Hold) -> Result<bool, TimeLockError> {
        let fence = match locks {
            // Not from here.
            Some(LockToken { fence: None, .. }) => return Ok(false),
            Some(LockToken { fence: Some(fence), .. }) => Some(fence.0),
            None => None,
        };
        match self.ask(Asked::Check { hold: hold.timestamp.0, fence })? {
            Told::Held(held) => Ok(held),
            _ => Err(self.sender.servers().nonsense("no word on what was to be checked")),
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

/// What an operator does with one server.
pub struct Operator(Servers);

impl Operator {
    /// For the server at `address`, `host:port`.
    pub fn new(address: &str) -> Self {
        let timeout = Duration::from_secs(5);
        Self(Servers::new(&RemoteOptions { servers: vec![address.to_owned()], timeout }))
    }

    /// What it says of itself.
    pub fn status(&self) -> Result<Status, TimeLockError> {
        self.0.get("/v1/status")
    }

    /// Has it give its lease back and end; what it was before.
    pub fn stop(&self) -> Result<Status, TimeLockError> {
        self.0.ask("/v1/stop", Repeat::Same, |_| (), Duration::ZERO)
    }

    /// Makes all later timestamps greater than `timestamp`. Never goes back.
    pub fn fast_forward(&self, timestamp: Timestamp) -> Result<Status, TimeLockError> {
        self.0.ask("/v1/fast-forward", Repeat::Same, |_| FastForward { to: timestamp.0 }, Duration::ZERO)
    }
}
