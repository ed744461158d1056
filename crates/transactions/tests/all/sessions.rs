//! Locks of clients that are killed, and of clients that only lose a connection.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cassette_transactions::store::MemoryStore;
use cassette_transactions::timelock::{Operator, TimeLock, TimeLockError};
use cassette_transactions::{Error, Outcome};
use cassette_vfs::ManualClock;
use tokio::runtime::Runtime;

use super::lost_replies::message;
use super::timelock::{LONG, Served, connect, names, runtime};

/// A server with a stopped clock, on which sessions would last for an hour without a heartbeat.
fn served(runtime: &Runtime) -> (Served, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at_micros(1_000_000_000));
    let of_server = clock.clone();
    let served = Served::at(runtime, Arc::new(MemoryStore::new()), ([127, 0, 0, 1], 0).into(), |options| {
        options.clock = of_server;
        options.session_age_max = Duration::from_secs(3600);
    });
    drop(connect(&[&served]));
    (served, clock)
}

/// Sends a request over a connection, which stays open, and returns the body of the response.
fn post(stream: &mut TcpStream, path: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
    let answer = message(&mut BufReader::new(&*stream)).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    body.to_owned()
}

/// Acquires lock `a` for session 7 and returns its fencing token.
fn lock(stream: &mut TcpStream) -> String {
    let request =
        r#"{"session":7,"number":1,"oldest_open":1,"names":["YQ=="],"timeout_ms":1,"only_wait":false}"#;
    let answer = post(stream, "/v1/lock", request);
    answer.trim_end_matches('}').rsplit_once(':').unwrap().1.to_owned()
}

/// Sends a batch of session 7 that begins `starts` transactions and has these checks.
fn batch(stream: &mut TcpStream, batch: u32, answered: u32, starts: u32, checks: &str) -> String {
    let request = format!(
        r#"{{"session":7,"batch":{batch},"attempt":0,"answered":{answered},"starts":{starts},
           "timestamps":0,"immutable":false,"checks":[{checks}],"unlock":[],"release":[],"cancel":[]}}"#
    );
    post(stream, "/v1/batch", &request)
}

/// Sends another heartbeat of session 7, which begins a transaction.
fn begin(stream: &mut TcpStream, number: u32) -> String {
    batch(stream, number, 0, 1, "")
}

/// Returns the hold in the response to [`begin`].
fn hold(begun: &str) -> String {
    begun.split_once("\"hold\":").unwrap().1.split(',').next().unwrap().to_owned()
}

/// Advances the server's clock step by step until a condition holds.
fn while_time_passes<T: Send>(clock: &ManualClock, act: impl FnOnce() -> T + Send) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                // Less than a lease, so that the server keeps leading.
                clock.advance(Duration::from_millis(100));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let done = act();
        is_done.store(true, Ordering::SeqCst);
        done
    })
}

#[test]
fn locks_of_a_killed_client_are_released_when_its_connections_close() {
    let runtime = runtime();
    let (served, clock) = served(&runtime);
    let other = connect(&[&served]);
    let [mut one, mut two] = [0; 2].map(|_| TcpStream::connect(&served.address).unwrap());
    begin(&mut one, 1);
    lock(&mut two);
    drop((one, two));
    let locks = while_time_passes(&clock, || other.lock(names(&["a"]), LONG)).unwrap();
    other.unlock(locks);
    drop(other);
    served.stop(&runtime);
}

#[test]
fn a_client_that_loses_one_connection_keeps_its_locks() {
    let runtime = runtime();
    let (served, clock) = served(&runtime);
    let other = connect(&[&served]);
    let [mut one, mut two] = [0; 2].map(|_| TcpStream::connect(&served.address).unwrap());
    begin(&mut one, 1);
    let fence = lock(&mut two);
    drop(two);
    let short = Duration::from_millis(500);
    let refused = while_time_passes(&clock, || other.lock(names(&["a"]), short)).map(drop);
    assert_eq!(refused, Err(TimeLockError::LockTimeout { waited: short }));
    // It reconnects with its next heartbeat.
    drop(one);
    let mut again = TcpStream::connect(&served.address).unwrap();
    let hold = hold(&begin(&mut again, 2));
    let refused = while_time_passes(&clock, || other.lock(names(&["a"]), short)).map(drop);
    assert_eq!(refused, Err(TimeLockError::LockTimeout { waited: short }));
    let checked = batch(&mut again, 3, 2, 0, &format!("[{hold},{fence}]"));
    assert!(checked.contains("\"held\":[true]"));
    drop((again, other));
    served.stop(&runtime);
}

#[test]
fn a_client_detects_locks_lost_with_its_connections() {
    let runtime = runtime();
    let (served, clock) = served(&runtime);
    let mut one = TcpStream::connect(&served.address).unwrap();
    let hold = hold(&begin(&mut one, 1));
    let fence = lock(&mut one);
    drop(one);
    let other = connect(&[&served]);
    while_time_passes(&clock, || other.lock(names(&["a"]), LONG)).unwrap();
    // As after a pause of its network.
    let mut again = TcpStream::connect(&served.address).unwrap();
    let checked = batch(&mut again, 2, 1, 0, &format!("[{hold},{fence}]"));
    assert!(checked.contains("\"held\":[false]"), "C9 fails");
    drop((again, other));
    served.stop(&runtime);
}

#[test]
fn too_many_locks_are_rejected_before_sending() {
    let runtime = runtime();
    let served = Served::start(&runtime, Arc::new(MemoryStore::new()));
    let client = connect(&[&served]);
    let many = |count: u32| (0..count).map(|n| n.to_be_bytes().to_vec().into()).collect();
    let error = client.lock(many(100_001), LONG).map(drop).unwrap_err();
    assert!(matches!(error, TimeLockError::TooManyLocks { count: 100_001, .. }), "{error}");
    let error = Error::from(error);
    assert!(!error.is_retriable() && error.outcome() == Outcome::NotCommitted);
    let long = vec![vec![b'x'; 21 << 20].into()];
    let error = client.lock(long, LONG).map(drop).unwrap_err();
    assert!(matches!(error, TimeLockError::TooManyLocks { count: 1, .. }), "{error}");
    let locks = client.lock(many(100_000), LONG).unwrap();
    let held = || Operator::new(&served.address).status().unwrap().leading.unwrap().locks;
    assert_eq!(held(), 100_000);
    client.unlock(locks);
    client.timestamp().unwrap();
    assert_eq!(held(), 0);
    drop(client);
    served.stop(&runtime);
}

#[test]
fn stalled_request_bodies_do_not_block_other_clients() {
    let runtime = runtime();
    let served = Served::start(&runtime, Arc::new(MemoryStore::new()));
    let client = connect(&[&served]);
    let head = "POST /v1/lock HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let mut stalled = Vec::new();
    for length in [32 << 20, 32 << 20, 32 << 20, 33 << 20] {
        let mut stream = TcpStream::connect(&served.address).unwrap();
        write!(stream, "{head}Content-Length: {length}\r\n\r\n[").unwrap();
        stalled.push(stream);
    }
    for _ in 0..10 {
        client.timestamp().unwrap();
        let locks = client.lock(names(&["a"]), LONG).unwrap();
        client.unlock(locks);
    }
    for mut stream in stalled {
        let answer = String::from_utf8(message(&mut BufReader::new(&mut stream)).unwrap()).unwrap();
        assert!(answer.contains("HTTP/1.1 503") || answer.contains("HTTP/1.1 400"), "{answer}");
    }
    drop(client);
    served.stop(&runtime);
}
