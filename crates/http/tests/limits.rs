//! Limits of resources that clients can occupy, over real sockets.

use std::future::pending;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::{get, post};
use cassette_http::{Limits, buffered, serve};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Limits that no test reaches.
fn wide() -> Limits {
    Limits {
        head_wait_max: LONG * 10,
        body_wait_max: LONG * 10,
        write_wait_max: LONG * 10,
        ..Limits::new(100)
    }
}

async fn body(request: Request, wait_max: Duration) -> StatusCode {
    buffered(request, 100, wait_max).await.map_or(StatusCode::REQUEST_TIMEOUT, |_| StatusCode::OK)
}

fn start(limits: Limits) -> (Runtime, SocketAddr) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/", get(|| async { "answer" }))
        .route("/large", get(|| async { vec![7; 64 << 20] }))
        .route("/panic", get(|| async { panic!("the handler panics") as () }))
        .route("/body", post(move |request| body(request, limits.body_wait_max)));
    runtime.spawn(serve(listener, router, limits, |_| (), pending()));
    (runtime, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Sends a request and reads the response, which keeps the connection open.
fn exchange(stream: &mut TcpStream) {
    stream.write_all(REQUEST).unwrap();
    read_answer(stream);
}

fn read_answer(stream: &mut TcpStream) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"answer") {
        let mut part = [0; 1024];
        let length = stream.read(&mut part).unwrap();
        assert_ne!(length, 0, "closed after {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&part[..length]);
    }
}

#[test]
fn a_panic_of_a_handler_ends_its_connection_only_and_releases_its_place() {
    let (_runtime, address) = start(Limits { connections_max: 1, ..wide() });
    let mut panicking = connect(address);
    panicking.write_all(b"GET /panic HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(panicking.read_to_end(&mut Vec::new()).unwrap(), 0);
    exchange(&mut connect(address));
}

#[test]
fn connections_without_a_complete_head_are_closed() {
    let (_runtime, address) = start(Limits { head_wait_max: SHORT, ..wide() });
    for sent in [&b""[..], b"GET / HTTP/1.1\r\nHost: loc"] {
        let mut stream = connect(address);
        stream.write_all(sent).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    let mut idle = connect(address);
    exchange(&mut idle);
    assert_eq!(idle.read_to_end(&mut Vec::new()).unwrap(), 0, "idle after its first request");
}

#[test]
fn a_body_that_stalls_is_refused_and_its_connection_closed() {
    let (_runtime, address) = start(Limits { body_wait_max: SHORT, ..wide() });
    let mut stream = connect(address);
    stream.write_all(b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[test]
fn a_response_that_is_not_read_frees_its_connection() {
    let (_runtime, address) = start(Limits { connections_max: 1, write_wait_max: SHORT, ..wide() });
    let mut stalled = connect(address);
    stalled.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    exchange(&mut connect(address));
}

#[test]
fn connections_beyond_the_limit_wait_for_one_to_close() {
    let (_runtime, address) = start(Limits { connections_max: 2, ..wide() });
    let (mut one, mut two) = (connect(address), connect(address));
    exchange(&mut one);
    exchange(&mut two);
    let mut three = connect(address);
    three.write_all(REQUEST).unwrap();
    three.set_read_timeout(Some(SHORT * 4)).unwrap();
    let waits = three.read(&mut [0; 1]).unwrap_err();
    assert!(matches!(waits.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{waits}");
    drop(one);
    three.set_read_timeout(Some(LONG)).unwrap();
    read_answer(&mut three);
    exchange(&mut two);
}

#[test]
fn a_stop_closes_idle_connections_and_ends() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let router = Router::new().route("/", get(|| async { "answer" }));
    let serving = runtime.spawn(serve(listener, router, wide(), |_| (), async { drop(stopped.await) }));
    let mut idle = connect(address);
    exchange(&mut idle);
    drop(stop);
    assert_eq!(idle.read_to_end(&mut Vec::new()).unwrap(), 0);
    runtime.block_on(serving).unwrap().unwrap();
}
