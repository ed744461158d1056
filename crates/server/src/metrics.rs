//! The server's metrics: connections and their requests.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use cassette_database::{Client, Encryption, Pool, RunningRequest, SeenClient, ServerMetrics};
use parking_lot::Mutex;
use tracing::error;

use crate::{client_history::ClientHistory, running::Running, threads::Threads};

/// The metrics of one server.
#[derive(Debug)]
pub(crate) struct Metrics {
    clients: Mutex<HashMap<u64, Arc<Connected>>>,
    next_client: AtomicU64,
    history: ClientHistory,
    /// Requests of connections that have ended.
    requests_before: AtomicU64,
    threads: Arc<Threads>,
    /// Connections that wait for a thread.
    waiting: AtomicU64,
    /// The number of waits since the start.
    waited: AtomicU64,
    pub overloaded: AtomicU64,
    pub connections_refused: AtomicU64,
    pub logins_failed: AtomicU64,
    pub logins_refused: AtomicU64,
    pub tls_handshakes_failed: AtomicU64,
    panics: AtomicU64,
    pub running: Arc<Running>,
}

/// The metrics of a connection. Written by its task only.
pub(crate) struct Connected {
    address: SocketAddr,
    stage: AtomicU8,
    protocol_version: AtomicU8,
    options: Mutex<BTreeMap<String, String>>,
    username: Mutex<Option<String>>,
    requests: AtomicU64,
    keyspace: Box<dyn Fn() -> Option<String> + Send + Sync>,
    encryption: Option<Encryption>,
}

/// A connection's entry, removed on drop.
#[derive(Debug)]
pub(crate) struct Registered {
    metrics: Arc<Metrics>,
    id: u64,
    connected: Arc<Connected>,
}

/// The state of a connection's handshake.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum StageSeen {
    Established = 0,
    Authenticating = 1,
    Ready = 2,
}

impl Metrics {
    pub fn new(threads: Arc<Threads>) -> Arc<Self> {
        Arc::new(Self {
            clients: Mutex::default(),
            next_client: AtomicU64::new(0),
            history: ClientHistory::default(),
            requests_before: AtomicU64::new(0),
            threads,
            waiting: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            overloaded: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
            logins_failed: AtomicU64::new(0),
            logins_refused: AtomicU64::new(0),
            tls_handshakes_failed: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            running: Arc::default(),
        })
    }

    /// Adds a connection. `keyspace` returns its present keyspace.
    pub fn register(
        self: &Arc<Self>,
        address: SocketAddr,
        encryption: Option<Encryption>,
        keyspace: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Registered {
        let connected = Arc::new(Connected {
            address,
            stage: AtomicU8::new(StageSeen::Established as u8),
            protocol_version: AtomicU8::new(0),
            options: Mutex::default(),
            username: Mutex::default(),
            requests: AtomicU64::new(0),
            keyspace: Box::new(keyspace),
            encryption,
        });
        let id = self.next_client.fetch_add(1, Ordering::Relaxed);
        self.clients.lock().insert(id, Arc::clone(&connected));
        Registered { metrics: Arc::clone(self), id, connected }
    }

    /// Logs and counts a panic of `what`, and returns its message.
    pub fn panicked<'p>(&self, what: impl std::fmt::Display, panic: &'p (dyn Any + Send)) -> &'p str {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let reason = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown reason");
        self.panics.fetch_add(1, Ordering::Relaxed);
        error!("{what} panicked: {reason}");
        reason
    }

    /// Counts a waiting request until the guard is dropped.
    pub fn wait_for_thread(&self) -> impl Drop + use<'_> {
        struct Waiting<'a>(&'a Metrics);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.waiting.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.waited.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }
}

impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connected").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Registered {
    /// Records the version and options of STARTUP.
    pub fn started(&self, protocol_version: u8, options: BTreeMap<String, String>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        self.metrics.history.note(self.connected.address.ip(), protocol_version, now);
        self.connected.protocol_version.store(protocol_version, Ordering::Relaxed);
        *self.connected.options.lock() = options;
    }

    pub fn logged_in(&self, username: &str) {
        *self.connected.username.lock() = Some(username.to_owned());
    }

    pub fn stage(&self, stage: StageSeen) {
        self.connected.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// Counts a request.
    #[inline]
    pub fn count_request(&self) {
        self.connected.requests.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let requests = self.connected.requests.load(Ordering::Relaxed);
        let mut clients = self.metrics.clients.lock();
        clients.remove(&self.id);
        self.metrics.requests_before.fetch_add(requests, Ordering::Relaxed);
    }
}

impl ServerMetrics for Metrics {
    fn clients(&self) -> Vec<Client> {
        let connected: Vec<_> = self.clients.lock().values().cloned().collect();
        let mut clients: Vec<_> = connected.iter().map(|connected| connected.client()).collect();
        clients.sort_by_key(|client| client.address);
        clients
    }

    fn seen_clients(&self) -> Vec<SeenClient> {
        self.history.list()
    }

    fn forget_seen_clients(&self) {
        self.history.clear();
    }

    fn running_requests(&self) -> Vec<RunningRequest> {
        self.running.list()
    }

    fn cancel_request(&self, id: u64) -> Option<String> {
        self.running.cancel(id)
    }

    fn requests(&self) -> Pool {
        let clients = self.clients.lock();
        let connected: u64 = clients.values().map(|client| client.requests.load(Ordering::Relaxed)).sum();
        let completed = connected + self.requests_before.load(Ordering::Relaxed);
        drop(clients);
        let waiting = self.waiting.load(Ordering::Relaxed);
        Pool {
            name: "Native-Transport-Requests",
            active: self.threads.running() as u64,
            active_max: self.threads.max() as u64,
            pending: waiting,
            completed,
            blocked: waiting,
            blocked_all_time: self.waited.load(Ordering::Relaxed),
        }
    }

    fn overloaded(&self) -> u64 {
        self.overloaded.load(Ordering::Relaxed)
    }

    fn connections_refused(&self) -> u64 {
        self.connections_refused.load(Ordering::Relaxed)
    }

    fn logins_failed(&self) -> u64 {
        self.logins_failed.load(Ordering::Relaxed)
    }

    fn logins_refused(&self) -> u64 {
        self.logins_refused.load(Ordering::Relaxed)
    }

    fn tls_handshakes_failed(&self) -> u64 {
        self.tls_handshakes_failed.load(Ordering::Relaxed)
    }

    fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

impl Connected {
    fn client(&self) -> Client {
        Client {
            address: self.address,
            username: self.username.lock().clone(),
            stage: match self.stage.load(Ordering::Relaxed) {
                0 => "established",
                1 => "authenticating",
                _ => "ready",
            },
            protocol_version: self.protocol_version.load(Ordering::Relaxed),
            options: self.options.lock().clone(),
            requests: self.requests.load(Ordering::Relaxed),
            keyspace: (self.keyspace)(),
            encryption: self.encryption.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::ThreadClient;

    #[test]
    fn requests_of_clients_that_have_left_still_count() {
        let threads = Threads::new(4);
        let client = ThreadClient { address: "127.0.0.1".parse().unwrap(), connection: 0 };
        let _running = threads.try_acquire(client);
        let metrics = Metrics::new(threads);
        let here = metrics.register("127.0.0.1:1000".parse().unwrap(), None, || Some("ks".to_owned()));
        let gone = metrics.register("127.0.0.1:999".parse().unwrap(), None, || None);
        here.stage(StageSeen::Ready);
        here.started(5, BTreeMap::from([("DRIVER_NAME".to_owned(), "d".to_owned())]));
        for registered in [&here, &gone, &gone] {
            registered.count_request();
        }
        assert_eq!(metrics.clients().len(), 2);
        drop(gone);
        drop(metrics.register("127.0.0.1:998".parse().unwrap(), None, || None));
        let clients = metrics.clients();
        assert_eq!((clients.len(), clients[0].requests, clients[0].stage), (1, 1, "ready"));
        assert_eq!(clients[0].keyspace.as_deref(), Some("ks"));
        let seen: Vec<_> =
            metrics.seen_clients().iter().map(|seen| (seen.protocol_version, seen.address)).collect();
        assert_eq!(
            seen,
            [(5, "127.0.0.1".parse().unwrap())],
            "those that never said which version they speak are not"
        );
        let waiting = metrics.wait_for_thread();
        let pool = metrics.requests();
        assert_eq!((pool.active, pool.pending, pool.completed, pool.blocked_all_time), (1, 1, 3, 1));
        drop(waiting);
        assert_eq!((metrics.requests().pending, metrics.requests().blocked_all_time), (0, 1));
    }
}
