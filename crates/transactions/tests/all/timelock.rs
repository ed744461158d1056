//! Transactions with timestamps and locks of a timelock server, over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cassette_transactions::store::{
    Cell, CheckOutcome, ColumnRange, FailingStore, Fault, MemoryStore, Put, PutOutcome, PutRow, Store,
    StoreResult, TableKind, Version,
};
use cassette_transactions::timelock::{
    Hold, LocalTimeLock, LockToken, Operator, RemoteOptions, RemoteTimeLock, ServerOptions, Started,
    TimeLock, TimeLockError, TimeLockServer, Timestamps, known_timestamp,
};
use cassette_transactions::{ConflictHandler, Error, Outcome, Timestamp, Transactions};
use cassette_vfs::ManualClock;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::transactions::options;

pub const LONG: Duration = Duration::from_secs(60);

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A server and its address. Releases its lease when it is stopped.
pub struct Served {
    pub address: String,
    stop: tokio::sync::oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Served {
    /// Starts a server at an address with a lease.
    pub fn at(
        runtime: &Runtime,
        store: Arc<dyn Store>,
        address: SocketAddr,
        change: impl FnOnce(&mut ServerOptions),
    ) -> Self {
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut options = ServerOptions::new(&*address);
        options.lease = Duration::from_secs(1);
        change(&mut options);
        let server = TimeLockServer::start(store, options).unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let ended = runtime.spawn(server.serve(listener, async {
            let _ = stopped.await;
        }));
        Self { address, stop, ended }
    }

    pub fn start(runtime: &Runtime, store: Arc<dyn Store>) -> Self {
        Self::at(runtime, store, ([127, 0, 0, 1], 0).into(), |_| {})
    }

    /// Waits for its end.
    pub async fn ended(self) -> std::io::Result<()> {
        // Until then it is not stopped.
        let ended = self.ended.await.unwrap();
        drop(self.stop);
        ended
    }

    pub fn stop(self, runtime: &Runtime) {
        drop(self.stop);
        runtime.block_on(self.ended).unwrap().unwrap();
    }
}

pub fn connect(servers: &[&Served]) -> RemoteTimeLock {
    let servers: Vec<String> = servers.iter().map(|served| served.address.clone()).collect();
    RemoteTimeLock::connect(RemoteOptions::new(servers)).unwrap()
}

pub fn names(names: &[&'static str]) -> Vec<Bytes> {
    names.iter().map(|name| Bytes::from_static(name.as_bytes())).collect()
}

#[test]
fn concurrent_transactions_through_a_server_lose_no_update() {
    let (runtime, store) = (runtime(), Arc::new(MemoryStore::new()));
    let served = Served::start(&runtime, store.clone());
    {
        let transactions = Transactions::open(store, Arc::new(connect(&[&served])), options()).unwrap();
        let table = transactions.table("counts", ConflictHandler::WriteWriteByCell).unwrap();
        let increment = || {
            transactions.run(|tx| {
                let count = tx.get(&table, "row", "count")?.map_or(0, |count| count[0]);
                tx.put(&table, "row", "count", [count + 1])
            })
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10).for_each(|_| increment().unwrap()));
            }
        });
        let count = transactions.read(|tx| tx.get(&table, "row", "count")).unwrap();
        assert_eq!(count.as_deref(), Some(&[40][..]));
    }
    served.stop(&runtime);
}

#[test]
fn timestamps_of_another_store_are_rejected() {
    let runtime = runtime();
    let stores: [Arc<MemoryStore>; 3] = std::array::from_fn(|_| Arc::new(MemoryStore::new()));
    let served: Vec<Served> =
        stores[..2].iter().map(|store| Served::start(&runtime, store.clone())).collect();
    let open = |store: usize, server: usize| {
        let timelock = Arc::new(connect(&[&served[server]]));
        Transactions::open(stores[store].clone(), timelock, options()).map(drop)
    };
    open(0, 0).unwrap();
    open(1, 1).unwrap();
    let says = |store, server| open(store, server).unwrap_err().to_string();
    let of_other = says(0, 1);
    assert!(of_other.contains(&format!("{} leads", served[0].address)), "{of_other}");
    assert!(says(2, 0).contains("none were issued yet"));
    let own = LocalTimeLock::open(stores[2].clone()).unwrap();
    own.timestamp().unwrap();
    assert!(says(2, 0).contains("not a server"));
    served.into_iter().for_each(|served| served.stop(&runtime));
}

#[test]
fn the_immutable_timestamp_stays_below_transactions_of_all_clients() {
    let (runtime, store) = (runtime(), Arc::new(MemoryStore::new()));
    let served = Served::start(&runtime, store);
    let (one, other) = (connect(&[&served]), connect(&[&served]));
    let (a, b) = (one.start().unwrap(), other.start().unwrap());
    assert!(a.immutable < a.start && b.immutable < b.start);
    assert!(a.start.0 % 16 != b.start.0 % 16, "clients have residues of their own");
    assert_eq!(other.immutable().unwrap(), a.immutable);
    assert!(one.is_held(None, a.hold).unwrap());
    one.release(a.hold);
    assert!(!one.is_held(None, a.hold).unwrap(), "releases precede later requests");
    assert!(one.immutable().unwrap() > a.start);
    drop((one, other));
    served.stop(&runtime);
}

#[test]
fn locks_exclude_clients_from_each_other_and_fences_increase() {
    let (runtime, store) = (runtime(), Arc::new(MemoryStore::new()));
    let served = Served::start(&runtime, store);
    let (one, other) = (connect(&[&served]), connect(&[&served]));
    let hold = one.start().unwrap().hold;
    let first = one.lock(names(&["b", "a", "b"]), LONG).unwrap();
    let short = Duration::from_millis(20);
    assert_eq!(other.lock(names(&["a"]), short).unwrap_err(), TimeLockError::LockTimeout { waited: short });
    assert!(other.wait_for(&names(&["x", "b"]), short).is_err());
    std::thread::scope(|scope| {
        let second = scope.spawn(|| other.lock(names(&["a"]), LONG).unwrap());
        assert!(one.is_held(Some(&first), hold).unwrap());
        one.unlock(first.clone());
        let second = second.join().unwrap();
        assert!(second.fence() > first.fence());
        assert!(!one.is_held(Some(&first), hold).unwrap());
        other.unlock(second);
    });
    other.wait_for(&names(&["a", "b"]), LONG).unwrap();
    drop((one, other));
    served.stop(&runtime);
}

#[test]
fn a_client_without_heartbeat_loses_locks_and_holds() {
    let (runtime, store) = (runtime(), Arc::new(MemoryStore::new()));
    let clock = Arc::new(ManualClock::at_micros(1_000_000_000));
    let of_server = clock.clone();
    let served = Served::at(&runtime, store, ([127, 0, 0, 1], 0).into(), |options| options.clock = of_server);
    let (one, other) = (connect(&[&served]), connect(&[&served]));
    let hold = one.start().unwrap().hold;
    let locks = one.lock(names(&["a"]), LONG).unwrap();
    assert!(one.is_held(Some(&locks), hold).unwrap());
    // For the server, more time passes than a session lasts without a heartbeat.
    clock.advance(Duration::from_secs(21));
    let others = other.lock(names(&["a"]), LONG).unwrap();
    assert!(!one.is_held(Some(&locks), hold).unwrap());
    assert!(!one.is_held(None, hold).unwrap());
    one.unlock(locks);
    assert!(other.lock(names(&["a"]), Duration::from_millis(20)).is_err(), "a late unlock releases no lock");
    other.unlock(others);
    drop((one, other));
    served.stop(&runtime);
}

#[test]
fn a_standby_continues_above_all_timestamps_and_old_locks_are_lost() {
    let (runtime, below) = (runtime(), Arc::new(MemoryStore::new()));
    let failing = Arc::new(FailingStore::new(below.clone()));
    let first = Served::start(&runtime, failing.clone());
    let timelock = Arc::new(RemoteTimeLock::connect(RemoteOptions::new([&*first.address])).unwrap());
    drop(timelock);
    let second = Served::start(&runtime, below.clone());
    {
        let timelock = Arc::new(connect(&[&first, &second]));
        let transactions = Transactions::open(below, timelock.clone(), options()).unwrap();
        let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
        let mut caught = transactions.start().unwrap();
        caught.put(&table, "row", "a", "caught").unwrap();
        // The store stops responding to the first server: its lease ends, and the second one
        // acquires it.
        failing.die_at(1, Fault::Lost);
        let mut terms = Vec::new();
        let mut last = timelock.timestamp().unwrap();
        while terms.last() != Some(&2) {
            let next = timelock.timestamp().unwrap();
            assert!(next > last, "{next} after {last}");
            last = next;
            let status = Operator::new(&second.address).status().unwrap();
            terms.extend(status.leading.map(|leading| leading.term));
        }
        let error = caught.commit().unwrap_err();
        assert!(matches!(error, Error::LocksLost { .. }), "{error}");
        assert!(error.is_retriable() && error.outcome() == Outcome::NotCommitted);
        transactions.run(|tx| tx.put(&table, "row", "a", "again")).unwrap();
        let old = Operator::new(&first.address).status().unwrap();
        assert!(old.leading.is_none() || old.state.contains("lapsed"), "{old:?}");
    }
    second.stop(&runtime);
}

#[test]
fn a_stopping_server_returns_its_lease_and_clients_fail_over() {
    let (runtime, store) = (runtime(), Arc::new(MemoryStore::new()));
    let first = Served::start(&runtime, store.clone());
    let client = connect(&[&first]);
    drop(client);
    let second = Served::start(&runtime, store);
    let client = connect(&[&second, &first]);
    let before = client.timestamp().unwrap();
    let said = Operator::new(&first.address).stop().unwrap();
    assert_eq!((&*said.state, said.leading.map(|leading| leading.term)), ("leading", Some(1)));
    runtime.block_on(first.ended).unwrap().unwrap();
    assert!(client.timestamp().unwrap() > before);
    let status = Operator::new(&second.address).status().unwrap();
    assert_eq!((status.leader, status.leading.unwrap().term), (Some(second.address.clone()), 2));
    drop(client);
    second.stop(&runtime);
}

#[test]
fn fast_forward_survives_a_restart() {
    let (runtime, store) = (runtime(), Arc::new(MemoryStore::new()));
    let served = Served::start(&runtime, store.clone());
    let client = connect(&[&served]);
    client.fast_forward(Timestamp(50_000_000)).unwrap();
    assert!(client.timestamp().unwrap() > Timestamp(50_000_000));
    client.fast_forward(Timestamp(5)).unwrap();
    let last = client.timestamp().unwrap();
    assert!(last > Timestamp(50_000_000), "it never goes back");
    let error = client.fast_forward(Timestamp::MAX).unwrap_err();
    assert!(error.to_string().contains("fast-forward out of range"), "{error}");
    drop(client);
    served.stop(&runtime);
    let served = Served::start(&runtime, store);
    assert!(connect(&[&served]).timestamp().unwrap() > last);
    served.stop(&runtime);
}

#[test]
fn a_client_stops_permanently_when_timestamps_go_backwards() {
    let runtime = runtime();
    let served = Served::start(&runtime, Arc::new(MemoryStore::new()));
    let client = connect(&[&served]);
    client.fast_forward(Timestamp(80_000_000)).unwrap();
    client.timestamp().unwrap();
    let address: SocketAddr = served.address.parse().unwrap();
    served.stop(&runtime);
    // As after restoring a backup of the store without fast-forward.
    let restored = Served::at(&runtime, Arc::new(MemoryStore::new()), address, |_| {});
    let error = client.start().unwrap_err();
    assert!(matches!(error, TimeLockError::WentBackwards { .. }), "{error}");
    client.fast_forward(Timestamp(90_000_000)).unwrap();
    assert_eq!(client.timestamp().unwrap_err(), error, "it rejects later timestamps, too");
    assert_eq!(Error::from(error).outcome(), Outcome::NotCommitted);
    drop(client);
    restored.stop(&runtime);
}

/// Removes the bound, like an operator who empties the wrong table.
fn lose_bound(store: &dyn Store) {
    let cell = Cell::new("ts", "ts");
    store.delete("_timestamp", &[(&cell, Timestamp::ATOMIC)], i64::MAX).unwrap();
}

#[test]
fn without_a_bound_no_timestamps_are_issued_until_recovery() {
    let (runtime, store) = (runtime(), Arc::new(MemoryStore::new()));
    let transactions = super::transactions::over(store.clone(), options());
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    transactions.run(|tx| tx.put(&table, "row", "a", "1")).unwrap();
    lose_bound(&*store);
    let error = Timestamps::open(store.clone()).map(drop).unwrap_err();
    assert!(matches!(error, TimeLockError::BoundLost { .. }), "{error}");
    let served = Served::start(&runtime, store.clone());
    let ended = runtime.block_on(served.ended).unwrap().unwrap_err();
    assert!(ended.to_string().contains("_transactions2 is not empty"), "{ended}");
    // Timestamps that cannot be above all others are rejected, with the minimum.
    let recover = |to: Timestamp| {
        let options = ServerOptions { recovered: Some(to), ..ServerOptions::new("nowhere") };
        TimeLockServer::start(store.clone(), options).map(drop).unwrap_err()
    };
    let known = known_timestamp(&(store.clone() as Arc<dyn Store>)).unwrap().unwrap();
    let error = recover(known);
    assert!(matches!(error, TimeLockError::RecoveredBelow { .. }), "{error}");
    assert!(error.to_string().contains(&format!("use at least {}", known.0 + 1)), "{error}");
    assert!(matches!(recover(Timestamp::MAX), TimeLockError::OutOfRange { .. }));
    let served = Served::at(&runtime, store, ([127, 0, 0, 1], 0).into(), |options| {
        options.recovered = Some(Timestamp(7_000_000));
    });
    assert!(connect(&[&served]).timestamp().unwrap() > Timestamp(7_000_000));
    served.stop(&runtime);
}

#[test]
fn a_leader_ends_when_its_bound_is_lost() {
    let (runtime, store) = (runtime(), Arc::new(MemoryStore::new()));
    let served = Served::start(&runtime, store.clone());
    drop(connect(&[&served]));
    lose_bound(&*store);
    let ended = runtime.block_on(served.ended).unwrap().unwrap_err();
    assert!(ended.to_string().contains("expected a stored bound, found none"), "{ended}");
}

#[test]
fn a_server_whose_lease_keeper_panics_ends_by_name_and_another_takes_over() {
    let (runtime, store) = (runtime(), Arc::new(FailingStore::new(MemoryStore::new())));
    let served = Served::start(&runtime, store.clone());
    let last = connect(&[&served]).timestamp().unwrap();
    // Only the keeper uses the store.
    store.panic_at(1);
    let ended = runtime.block_on(served.ended).unwrap().unwrap_err();
    assert!(ended.to_string().contains("the lease keeper panicked"), "{ended}");
    let next = Served::start(&runtime, store);
    assert!(connect(&[&next]).timestamp().unwrap() > last);
    next.stop(&runtime);
}

#[test]
fn a_process_refuses_local_timestamps_when_a_server_issues_them() {
    let (runtime, store) = (runtime(), Arc::new(MemoryStore::new()));
    let local = LocalTimeLock::open(store.clone()).unwrap();
    let before = local.timestamp().unwrap();
    let served = Served::start(&runtime, store.clone());
    let client = connect(&[&served]);
    assert!(client.timestamp().unwrap() > before);
    let error = LocalTimeLock::open(store).map(drop).unwrap_err();
    assert_eq!(error, TimeLockError::ServedElsewhere { address: served.address.clone() });
    // The earlier one stops when it needs the bound.
    let error = local.timestamps().take(2_000_000).unwrap_err();
    assert!(matches!(error, TimeLockError::ServedElsewhere { .. }), "{error}");
    drop(client);
    served.stop(&runtime);
}

#[test]
fn timestamps_increase_despite_lost_responses_of_bound_writes() {
    let (runtime, failing) = (runtime(), Arc::new(FailingStore::new(MemoryStore::new())));
    let served = Served::start(&runtime, failing.clone());
    let client = connect(&[&served]);
    let mut last = client.timestamp().unwrap();
    for round in 0..20 {
        let fault = [Fault::Unanswered, Fault::Lost][round % 2];
        failing.fail_at(1, fault);
        client.fast_forward(Timestamp(last.0 + 1_500_000)).unwrap();
        let next = client.timestamp().unwrap();
        assert!(next.0 > last.0 + 1_500_000);
        last = next;
    }
    drop(client);
    served.stop(&runtime);
}

#[test]
fn malformed_requests_and_web_pages_are_rejected() {
    let (runtime, store) = (runtime(), Arc::new(MemoryStore::new()));
    let served = Served::start(&runtime, store);
    let post = |headers: &[(&str, &str)], path: &str, body: &str| {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let mut request = ureq::Agent::from(config).post(format!("http://{}{path}", served.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send(body).unwrap().status().as_u16()
    };
    let json = ("Content-Type", "application/json");
    let page = ("Origin", "http://example.org");
    for (headers, path, body) in [
        (&[json][..], "/v1/batch", "{"),
        (&[json], "/v1/batch", "{}"),
        (&[json], "/v1/nothing", "{}"),
        (&[json, page], "/v1/stop", "null"),
        (&[], "/v1/fast-forward", "{\"to\":1}"),
        (
            &[json],
            "/v1/lock",
            "{\"session\":1,\"number\":1,\"oldest_open\":0,\"names\":[\"*\"],\"timeout_ms\":1,\"only_wait\":false}",
        ),
    ] {
        let status = post(headers, path, body);
        assert!((400..500).contains(&status), "{path} {body}: {status}");
    }
    assert!(connect(&[&served]).timestamp().is_ok());
    served.stop(&runtime);
}

/// Counts calls, each of which is at most one round trip: the statements of one call are sent
/// together.
pub struct Counting<S> {
    pub below: S,
    pub calls: AtomicU64,
    pub pages: Pages,
}

/// Pages of columns that were read.
#[derive(Default)]
pub struct Pages {
    /// Number of columns in all of them.
    pub columns: AtomicU64,
    /// Length of the values in the largest one.
    pub bytes_max: AtomicU64,
}

impl<S> Counting<S> {
    fn count(&self) -> &S {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &self.below
    }
}

impl<S: Store> Store for Counting<S> {
    fn create_table(&self, table: &str, kind: TableKind) -> StoreResult<()> {
        self.below.create_table(table, kind)
    }

    fn open_table(&self, table: &str) -> StoreResult<bool> {
        self.below.open_table(table)
    }

    fn tables(&self) -> StoreResult<Vec<String>> {
        self.below.tables()
    }

    fn get(&self, table: &str, cells: &[(&Cell, Timestamp)]) -> StoreResult<Vec<Option<Version>>> {
        self.count().get(table, cells)
    }

    fn columns(
        &self,
        table: &str,
        ranges: &[ColumnRange],
        below: Timestamp,
    ) -> StoreResult<Vec<Vec<(Bytes, Version)>>> {
        let pages = self.count().columns(table, ranges, below)?;
        let values = pages.iter().flatten().map(|(_, version)| version.value.len() as u64);
        self.pages.columns.fetch_add(values.clone().count() as u64, Ordering::Relaxed);
        self.pages.bytes_max.fetch_max(values.sum(), Ordering::Relaxed);
        Ok(pages)
    }

    fn rows(&self, table: &str, after: Option<&[u8]>, limit: usize) -> StoreResult<Vec<Bytes>> {
        self.count().rows(table, after, limit)
    }

    fn put(&self, puts: &[Put<'_>]) -> StoreResult<()> {
        self.count().put(puts)
    }

    fn put_unless_exists(&self, table: &str, rows: &[PutRow]) -> Vec<StoreResult<PutOutcome>> {
        self.count().put_unless_exists(table, rows)
    }

    fn check_and_set(
        &self,
        table: &str,
        cell: &Cell,
        expected: &Bytes,
        new: &Bytes,
    ) -> StoreResult<CheckOutcome> {
        self.count().check_and_set(table, cell, expected, new)
    }

    fn get_serial(&self, table: &str, row: &Bytes, columns: &[Bytes]) -> StoreResult<Vec<Option<Bytes>>> {
        self.count().get_serial(table, row, columns)
    }

    fn delete(&self, table: &str, versions: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()> {
        self.count().delete(table, versions, write_time)
    }

    fn delete_older(&self, table: &str, cells: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()> {
        self.count().delete_older(table, cells, write_time)
    }

    fn delete_rows(&self, table: &str, rows: &[Bytes], write_time: i64) -> StoreResult<()> {
        self.count().delete_rows(table, rows, write_time)
    }

    fn puts_in_order(&self) -> bool {
        false
    }

    fn is_linearizable_after_failures(&self) -> bool {
        false
    }
}

impl TimeLock for Counting<RemoteTimeLock> {
    fn check_store(&self, store: &dyn Store) -> Result<(), TimeLockError> {
        self.below.check_store(store)
    }

    fn start(&self) -> Result<Started, TimeLockError> {
        self.count().start()
    }

    fn timestamp(&self) -> Result<Timestamp, TimeLockError> {
        self.count().timestamp()
    }

    fn immutable(&self) -> Result<Timestamp, TimeLockError> {
        self.count().immutable()
    }

    fn lock(&self, names: Vec<Bytes>, timeout: Duration) -> Result<LockToken, TimeLockError> {
        self.count().lock(names, timeout)
    }

    fn wait_for(&self, names: &[Bytes], timeout: Duration) -> Result<(), TimeLockError> {
        self.count().wait_for(names, timeout)
    }

    fn is_held(&self, locks: Option<&LockToken>, hold: Hold) -> Result<bool, TimeLockError> {
        self.count().is_held(locks, hold)
    }

    fn fast_forward(&self, timestamp: Timestamp) -> Result<(), TimeLockError> {
        self.count().fast_forward(timestamp)
    }

    // Nothing waits for these.

    fn unlock(&self, locks: LockToken) {
        self.below.unlock(locks);
    }

    fn release(&self, hold: Hold) {
        self.below.release(hold);
    }
}

#[test]
fn a_transaction_of_four_writes_needs_four_sequential_round_trips_each() {
    let (runtime, below) = (runtime(), Arc::new(MemoryStore::new()));
    let served = Served::start(&runtime, below.clone());
    {
        let timelock = Arc::new(Counting {
            below: connect(&[&served]),
            calls: AtomicU64::new(0),
            pages: Pages::default(),
        });
        let store = Arc::new(Counting { below, calls: AtomicU64::new(0), pages: Pages::default() });
        let transactions = Transactions::open(store.clone(), timelock.clone(), options()).unwrap();
        let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
        for run in 0..3 {
            let before = (timelock.calls.load(Ordering::Relaxed), store.calls.load(Ordering::Relaxed));
            let mut tx = transactions.start().unwrap();
            for row in ["a", "b", "c", "d"] {
                tx.put(&table, row, "column", "value").unwrap();
            }
            tx.commit().unwrap();
            let after = (timelock.calls.load(Ordering::Relaxed), store.calls.load(Ordering::Relaxed));
            assert_eq!(after.0 - before.0, 4, "run {run}");
            // Newest versions and sweep queue concurrently; versions; commit record; its second
            // stage.
            assert!(run == 0 || after.1 - before.1 <= 5, "run {run}: {}", after.1 - before.1);
        }
    }
    served.stop(&runtime);
}
