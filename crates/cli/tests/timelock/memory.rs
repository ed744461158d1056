//! Memory of a timelock after large requests.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::process::{anonymous_bytes, peak_resident_bytes, resident_bytes};
use super::timelocks::{connect, serve, timelock};

/// What the process may hold beyond its memory before the requests: caches of its threads and the
/// smallest pages of maps.
const KEPT_MAX: u64 = 24 << 20;

/// Locks in one request.
const NAMES: usize = 20_000;

/// Acquires locks in several requests of one session and leaves it without releasing them; returns
/// the last status.
fn lock_many(address: &str, session: usize) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut status = 0;
    for number in 1..=6 {
        // 48 characters of base64.
        let name = |n: usize| format!("\"{session:04}{number:04}{n:08}{}\"", "A".repeat(32));
        let names: Vec<String> = (0..NAMES).map(name).collect();
        let body = format!(
            "{{\"session\":{},\"number\":{number},\"oldest_open\":1,\"names\":[{}],\"timeout_ms\":1000,\
             \"only_wait\":false}}",
            session + 1,
            names.join(",")
        );
        let length = body.len();
        write!(
            stream,
            "POST /v1/lock HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: \
             {length}\r\n\r\n{body}"
        )
        .unwrap();
        status = read_answer(&mut answers);
    }
    status
}

fn read_answer(answers: &mut impl BufRead) -> u16 {
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        assert_ne!(answers.read_line(&mut line).unwrap(), 0, "the connection was closed");
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(rest) = line.strip_prefix("http/1.1 ") {
            status = rest[..3].parse().unwrap();
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        if line.is_empty() {
            answers.read_exact(&mut vec![0; length]).unwrap();
            return status;
        }
    }
}

#[test]
fn an_idle_timelock_returns_the_memory_of_large_requests() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, cql) = serve(directory.path());
    let (process, address) = timelock(&cql, "bank");
    drop(connect(&[&address]));
    let id = process.0.id();
    let (before, resident_before) = (anonymous_bytes(id), resident_bytes(id));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..5)
            .map(|session| {
                scope.spawn({
                    let address = &address;
                    move || lock_many(address, session)
                })
            })
            .collect();
        clients.into_iter().for_each(|client| assert_eq!(client.join().unwrap(), 200));
    });
    let peak = peak_resident_bytes(id);
    let taken = peak - resident_before;
    assert!(taken > 2 * KEPT_MAX, "the requests took only {taken} bytes");
    let began = Instant::now();
    while anonymous_bytes(id) > before + KEPT_MAX {
        let now = anonymous_bytes(id);
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "{before} anonymous bytes before, {taken} bytes taken at the peak, {now} anonymous bytes now"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}
