//! Requests to the admin endpoint and to the timelock server, as bytes of a connection.
//!
//! ```text
//! u8 0: admin; else: timelock
//! the bytes that a client sends
//! ```

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cassette_server::admin::{Access, Admin, LogLevels};
use cassette_server::{Server, ServerConfig};
use cassette_transactions::store::EmbeddedStore;
use cassette_transactions::timelock::{ServerOptions, TimeLockServer};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::split;
use crate::Target;
use crate::subjects::World;

pub const TARGET: Target = Target {
    name: "http",
    run,
    seeds,
    words: &[
        b"GET ",
        b"POST ",
        b" HTTP/1.1\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"Host: localhost\r\n",
        b"Content-Length: ",
        b"Transfer-Encoding: chunked\r\n",
        b"/v1/",
        b"?",
        b"&",
        b"%00",
        b"%2e%2e",
        b"{\"",
        b"\":",
        b"[]",
        b"null",
        b"-1",
        b"1e999",
        b"18446744073709551616",
    ],
    inputs: 150,
};

/// A complete request is answered sooner; an incomplete one is not answered before the client has
/// no more to send.
const FIRST_ANSWER: Duration = Duration::from_millis(15);

struct Levels;

impl LogLevels for Levels {
    fn levels(&self) -> Vec<(String, String)> {
        vec![("ROOT".to_owned(), "INFO".to_owned())]
    }

    fn set(&self, _: &str, level: &str) -> Result<(), String> {
        if level == "INFO" { Ok(()) } else { Err("no such level".to_owned()) }
    }
}

struct Servers {
    admin: SocketAddr,
    timelock: SocketAddr,
    /// Panics in any thread since the servers were started.
    panics: Arc<AtomicUsize>,
    _runtime: Runtime,
    _world: World,
}

fn servers() -> &'static Servers {
    static SERVERS: OnceLock<Servers> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let panics = Arc::new(AtomicUsize::new(0));
        let (counted, before) = (panics.clone(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            counted.fetch_add(1, Ordering::SeqCst);
            before(panic);
        }));
        let world = World::new();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (admin, timelock) = runtime.block_on(async {
            let config =
                ServerConfig { listen_address: ([127, 0, 0, 1], 0).into(), ..ServerConfig::default() };
            let server = Server::bind(config, Arc::new(world.database.clone())).await.unwrap();
            let admin = Admin::new(
                world.database.clone(),
                server.metrics(),
                Arc::new(Levels),
                Access::default(),
                || {},
            );
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let admin_address = listener.local_addr().unwrap();
            tokio::spawn(server.serve(std::future::pending()));
            tokio::spawn(admin.serve(listener, std::future::pending()));
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let database = world.database.clone();
            let started = tokio::task::spawn_blocking(move || {
                let store = EmbeddedStore::open(database, "transactions").unwrap();
                TimeLockServer::start(Arc::new(store), ServerOptions::new(address.to_string())).unwrap()
            });
            let timelock = started.await.unwrap();
            timelock.wait_until_leading(Duration::from_secs(60)).await.unwrap();
            tokio::spawn(timelock.serve(listener, std::future::pending()));
            (admin_address, address)
        });
        Servers { admin, timelock, panics, _runtime: runtime, _world: world }
    })
}

fn run(input: &[u8]) {
    let (which, bytes) = split(input);
    // It would end the server.
    if bytes.windows(4).any(|window| window.eq_ignore_ascii_case(b"stop")) {
        return;
    }
    let servers = servers();
    let before = servers.panics.load(Ordering::SeqCst);
    let address = if which == 0 { servers.admin } else { servers.timelock };
    let answer = send(address, bytes);
    assert_eq!(servers.panics.load(Ordering::SeqCst), before, "a thread of the server panicked");
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer));
    let status = answer.get(9..12).unwrap_or_default();
    assert_ne!(status, b"500", "{}", String::from_utf8_lossy(&answer));
}

/// What comes back; a connection that is reset gives what came before.
fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut answer = Vec::new();
    if stream.write_all(bytes).is_err() {
        return answer;
    }
    stream.set_read_timeout(Some(FIRST_ANSWER)).unwrap();
    drop(stream.read_to_end(&mut answer));
    drop(stream.shutdown(Shutdown::Write));
    stream.set_read_timeout(None).unwrap();
    drop(stream.read_to_end(&mut answer));
    answer
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for path in [
        "/",
        "/metrics",
        "/v1/node",
        "/v1/tables",
        "/v1/compactions",
        "/v1/compactions/history",
        "/v1/snapshots",
        "/v1/top_partitions?duration_ms=1&keyspace=ks&table=t&capacity=10&count=5",
        "/v1/logging",
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        seeds.push([&[0], request.as_bytes()].concat());
    }
    let post = |which: u8, path: &str, body: &str| {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        [&[which], request.as_bytes()].concat()
    };
    for operation in [
        r#"{"operation":"flush","keyspace":"ks","tables":["t"]}"#,
        r#"{"operation":"compact","keyspace":"ks","tables":[],"split_output":true}"#,
        r#"{"operation":"compact_range","keyspace":"ks","tables":["t"],"start_token":-5,"end_token":5}"#,
        r#"{"operation":"compact_files","files":["/db/data/ks/t-1/nb-1-big-Data.db"]}"#,
        r#"{"operation":"verify","keyspace":"ks","tables":["t"],"extended":true,"quick":false}"#,
        r#"{"operation":"snapshot","keyspaces":["ks"],"tables":[],"name":"../x","ttl":"1d","skip_flush":true}"#,
        r#"{"operation":"set_logging_level","target":"x","level":"INFO"}"#,
    ] {
        seeds.push(post(0, "/v1/operations", operation));
    }
    seeds.push(
        [&[1], &b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"[..]].concat(),
    );
    seeds.push(post(
        1,
        "/v1/batch",
        concat!(
            r#"{"session":1,"batch":1,"attempt":0,"answered":0,"starts":2,"timestamps":3,"immutable":true,"#,
            r#""checks":[[1,null]],"unlock":[1],"release":[1],"cancel":[1]}"#
        ),
    ));
    seeds.push(post(
        1,
        "/v1/lock",
        r#"{"session":1,"number":1,"oldest_open":1,"names":["YQ=="],"timeout_ms":1,"only_wait":false}"#,
    ));
    seeds.push(post(1, "/v1/fast-forward", r#"{"to":1000}"#));
    seeds
}
