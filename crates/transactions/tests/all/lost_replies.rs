//! Requests to a timelock server whose replies are lost.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cassette_transactions::store::MemoryStore;
use cassette_transactions::timelock::{RemoteOptions, RemoteTimeLock, TimeLock, TimeLockError};

use super::timelock::{Served, connect, names, runtime};

/// Reads one HTTP message: its head and a body of the declared length. `None` at the end of the
/// stream.
pub fn message(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let (mut message, mut length) = (Vec::new(), 0);
    loop {
        let before = message.len();
        if from.read_until(b'\n', &mut message).ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&message[before..]).trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let head = message.len();
    message.resize(head + length, 0);
    from.read_exact(&mut message[head..]).ok()?;
    Some(message)
}

/// A proxy in front of a server that forwards requests and drops the replies to the first `cuts`
/// requests for `path`. Its threads end with their connections.
fn proxy(server: &str, path: &'static str, cuts: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = server.to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (server, cuts) = (server.clone(), cuts.clone());
            std::thread::spawn(move || forward(client.ok()?, &server, path, &cuts));
        }
    });
    address
}

fn forward(mut client: TcpStream, server: &str, path: &str, cuts: &AtomicUsize) -> Option<()> {
    let mut server = TcpStream::connect(server).ok()?;
    let mut requests = BufReader::new(client.try_clone().ok()?);
    let mut replies = BufReader::new(server.try_clone().ok()?);
    loop {
        let request = message(&mut requests)?;
        server.write_all(&request).ok()?;
        let reply = message(&mut replies)?;
        let is_meant = request.starts_with(format!("POST {path} ").as_bytes());
        // Forwards one request at a time.
        if is_meant && cuts.load(Ordering::SeqCst) > 0 {
            cuts.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        client.write_all(&reply).ok()?;
    }
}

#[test]
fn a_repeated_wait_for_a_lock_completes_each_time() {
    let runtime = runtime();
    let served = Served::start(&runtime, Arc::new(MemoryStore::new()));
    drop(connect(&[&served]));
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let agent = ureq::Agent::from(config);
    for _ in 0..3 {
        let body =
            r#"{"session":1,"number":1,"oldest_open":1,"names":["YQ=="],"timeout_ms":1000,"only_wait":true}"#;
        let request = agent.post(format!("http://{}/v1/lock", served.address));
        let mut reply = request.header("Content-Type", "application/json").send(body).unwrap();
        let text = reply.body_mut().read_to_string().unwrap();
        assert_eq!((reply.status().as_u16(), &*text), (200, r#"{"number":1,"fence":null}"#));
    }
    served.stop(&runtime);
}

#[test]
fn a_client_recovers_from_lost_replies_by_retrying() {
    let runtime = runtime();
    let served = Served::start(&runtime, Arc::new(MemoryStore::new()));
    for path in ["/v1/lock", "/v1/batch"] {
        let cuts = Arc::new(AtomicUsize::new(0));
        let options = RemoteOptions {
            timeout: Duration::from_secs(5),
            ..RemoteOptions::new([proxy(&served.address, path, cuts.clone())])
        };
        let client = RemoteTimeLock::connect(options).unwrap();
        let wait = Duration::from_secs(5);
        cuts.store(2, Ordering::SeqCst);
        client.wait_for(&names(&["a"]), wait).unwrap();
        cuts.store(2, Ordering::SeqCst);
        let locks = client.lock(names(&["a"]), wait).unwrap();
        cuts.store(2, Ordering::SeqCst);
        let hold = client.start().unwrap().hold;
        assert!(client.is_held(Some(&locks), hold).unwrap());
        client.unlock(locks);
        client.release(hold);
        assert!(client.timestamp().is_ok());
    }
    served.stop(&runtime);
}

#[test]
fn an_ended_lock_request_fails_at_once_and_is_retriable() {
    // A server that has ended every lock request.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || -> Option<()> {
                let mut stream = stream.ok()?;
                let mut requests = BufReader::new(stream.try_clone().ok()?);
                loop {
                    let request = String::from_utf8(message(&mut requests)?).ok()?;
                    let number = |name: &str| {
                        let (_, rest) = request.split_once(&format!("\"{name}\":"))?;
                        rest.split([',', '}']).next().map(str::to_owned)
                    };
                    let (status, body) = if request.starts_with("POST /v1/lock ") {
                        (
                            "503 Service Unavailable",
                            r#"{"kind":"ended","message":"","leader":null}"#.to_owned(),
                        )
                    } else {
                        let (batch, attempt) = (number("batch")?, number("attempt")?);
                        let first = batch.parse::<i64>().ok()? * 1000;
                        let body = format!(
                            r#"{{"batch":{batch},"attempt":{attempt},"starts":null,
                               "timestamps":{first},"immutable":null,"held":[]}}"#
                        );
                        ("200 OK", body)
                    };
                    let length = body.len();
                    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
                }
            });
        }
    });
    let client = RemoteTimeLock::connect(RemoteOptions::new([&*address])).unwrap();
    let error = client.lock(names(&["a"]), Duration::from_secs(60)).map(drop).unwrap_err();
    assert_eq!(error, TimeLockError::RequestEnded { server: address });
    assert!(cassette_transactions::Error::from(error).is_retriable());
}
