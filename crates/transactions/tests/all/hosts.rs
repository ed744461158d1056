//! Requests that the timelock's HTTP server rejects before it reads their bodies: other hosts, and
//! clients that stall.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use cassette_transactions::store::MemoryStore;
use cassette_transactions::timelock::{Limits, Operator};

use super::timelock::{LONG, Served, runtime};

/// Sends `head` and returns the response.
fn send(served: &Served, head: &str) -> String {
    let mut stream = TcpStream::connect(&served.address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write!(stream, "{head}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn requests_for_other_hosts_are_rejected_on_every_path() {
    let runtime = runtime();
    let served = Served::at(&runtime, Arc::new(MemoryStore::new()), ([127, 0, 0, 1], 0).into(), |options| {
        let port = options.address.rsplit_once(':').unwrap().1.to_owned();
        options.address = format!("advertised.example:{port}");
        options.hosts = vec!["lock.example".to_owned()];
    });
    let address = served.address.clone();
    let port = address.rsplit_once(':').unwrap().1;
    for path in ["/v1/status", "/v1/stop", "/nothing"] {
        for head in [
            format!("GET {path} HTTP/1.1\r\n"),
            format!("GET {path} HTTP/1.1\r\nHost: rebound.example:{port}\r\n"),
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nHost: rebound.example\r\n"),
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nHost: {address}\r\n"),
            format!("GET http://rebound.example{path} HTTP/1.1\r\nHost: {address}\r\n"),
        ] {
            let answer = send(&served, &head);
            assert!(
                answer.starts_with("HTTP/1.1 400 ") && answer.to_lowercase().contains("host"),
                "{head}: {answer}"
            );
        }
    }
    for host in [&*address, "localhost", "LOCK.example:80", &format!("advertised.example:{port}")] {
        let answer = send(&served, &format!("GET /v1/status HTTP/1.1\r\nHost: {host}\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
    }
    // By a host name.
    Operator::new(&format!("localhost:{port}")).status().unwrap();
    served.stop(&runtime);
}

#[test]
fn the_timelock_closes_connections_that_stall() {
    let (runtime, wait_max) = (runtime(), Duration::from_millis(50));
    let served = Served::at(&runtime, Arc::new(MemoryStore::new()), ([127, 0, 0, 1], 0).into(), |options| {
        options.limits = Limits { head_wait_max: wait_max, body_wait_max: wait_max, ..Limits::new(1) };
    });
    let post = "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\n\
                Content-Type: application/json\r\nContent-Length: 9\r\n\r\n";
    let stalled = ["", "GET /v1/sta", post].map(|sent| {
        let mut stream = TcpStream::connect(&served.address).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        stream
    });
    Operator::new(&served.address).status().unwrap();
    for (mut stream, expected) in stalled.into_iter().zip(["", "", "HTTP/1.1 503 "]) {
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(expected) && answer.is_empty() == expected.is_empty(), "{answer}");
    }
    served.stop(&runtime);
}
