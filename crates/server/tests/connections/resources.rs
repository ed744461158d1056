//! Limits of the memory, threads and connections that one client can occupy.

use std::{collections::BTreeSet, net::TcpStream, sync::atomic::Ordering, time::Duration};

use cassette_protocol::{
    Compression, Request, Response, ResultMessage, Version, request::Options, request::Startup,
    response::ErrorDetail,
};
use cassette_server::ServerConfig;

use crate::support::{Client, TestServer, VOID, error_of, read_to_end};

const AGREEMENTS: [(Version, Option<Compression>); 6] = [
    (Version::V3, Some(Compression::Snappy)),
    (Version::V4, None),
    (Version::V4, Some(Compression::Lz4)),
    (Version::V4, Some(Compression::Snappy)),
    (Version::V5, None),
    (Version::V5, Some(Compression::Lz4)),
];

const MIB: usize = 1 << 20;

/// A query that waits for the gate, of `length` compressible bytes.
fn blocking(length: usize) -> String {
    format!("block {}", "x".repeat(length))
}

fn wait_until_blocked(server: &TestServer, requests: usize) {
    while server.script.blocked.load(Ordering::SeqCst) < requests {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Long enough for anything that the server must not do.
fn let_it_work() {
    std::thread::sleep(Duration::from_millis(200));
}

#[test]
fn requests_are_charged_at_their_decompressed_length_before_they_are_decompressed() {
    for (version, compression) in AGREEMENTS {
        let config = ServerConfig {
            max_request_data_in_flight: 20 * MIB,
            max_request_data_in_flight_per_ip: 10 * MIB,
            ..ServerConfig::default()
        };
        let server = TestServer::start_with(config);
        let mut clients: Vec<Client> = (0..6).map(|_| server.connect(version, compression)).collect();
        let senders: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                client.query(1, &blocking(4 * MIB));
                client.encoder.seal();
                let (bytes, stream) = (client.encoder.bytes().to_vec(), client.stream.try_clone().unwrap());
                client.encoder.clear(0);
                std::thread::spawn(move || std::io::Write::write_all(&mut &stream, &bytes).unwrap())
            })
            .collect();
        wait_until_blocked(&server, 1);
        let_it_work();
        let blocked = server.script.blocked.load(Ordering::SeqCst);
        assert!(blocked <= 2, "{blocked} requests of 4 MiB within 10 MiB in {version} {compression:?}");
        let mut other = server.connect_from("127.0.0.2", version);
        other.query(1, &blocking(4 * MIB));
        other.send();
        wait_until_blocked(&server, blocked + 1);
        let mut small = server.connect(version, compression);
        assert_eq!(small.ask_query("ok"), VOID, "a request without memory is not stalled");
        server.script.open_gate();
        for client in clients.iter_mut().chain([&mut other]) {
            assert_eq!(client.receive(), Some((1, VOID)), "{version} {compression:?}");
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    }
}

#[test]
fn a_request_longer_than_the_limits_passes_alone() {
    let config = ServerConfig {
        max_request_data_in_flight: MIB,
        max_request_data_in_flight_per_ip: MIB / 2,
        ..ServerConfig::default()
    };
    let server = TestServer::start_with(config);
    server.script.open_gate();
    for (version, compression) in AGREEMENTS {
        let mut client = server.connect(version, compression);
        for _ in 0..2 {
            assert_eq!(client.ask_query(&blocking(3 * MIB)), VOID, "{version} {compression:?}");
        }
    }
}

#[test]
fn a_long_request_without_memory_is_refused_for_clients_that_prefer_it() {
    let config = ServerConfig { max_request_data_in_flight: 5 * MIB, ..ServerConfig::default() };
    for (version, compression) in AGREEMENTS {
        let server = TestServer::start_with(config.clone());
        let mut holder = server.connect(version, compression);
        holder.query(1, &blocking(4 * MIB));
        holder.send();
        wait_until_blocked(&server, 1);
        let mut client = server.connect_raw(version);
        let options = [(Startup::THROW_ON_OVERLOAD, "1")];
        assert_eq!(client.start_up(compression, &options), Response::Ready);
        for _ in 0..3 {
            let error = error_of(client.ask_query(&blocking(4 * MIB)));
            assert_eq!(error.detail, ErrorDetail::Overloaded, "{version} {compression:?}");
        }
        assert_eq!(client.ask_query("ok"), VOID);
        server.script.open_gate();
        assert_eq!(holder.receive(), Some((1, VOID)));
        assert_eq!(client.ask_query(&blocking(2 * MIB)), VOID);
    }
}

#[test]
fn a_client_that_announces_a_long_message_reserves_nothing_until_it_sends_it() {
    let config = ServerConfig { max_request_data_in_flight: 10 * MIB, ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    server.script.open_gate();
    let announcing: Vec<Client> = (0..20)
        .map(|_| {
            let mut client = server.connect(Version::V4, None);
            client.send_raw(&[4, 0, 0, 1, 7, 0, 0x70, 0, 0, 1, 2, 3]);
            client
        })
        .collect();
    let mut client = server.connect(Version::V4, None);
    assert_eq!(client.ask_query(&blocking(8 * MIB)), VOID);
    drop(announcing);
}

#[test]
fn long_answers_are_whole_in_every_version_and_compression() {
    let server = TestServer::start();
    for (version, compression) in AGREEMENTS {
        let mut client = server.connect(version, compression);
        for length in [300_000, 3_000_000, 12_000_000] {
            for stream in 0..3 {
                client.query(stream, &format!("slow-bytes {length}"));
            }
            client.query(3, "ok");
            client.send();
            let mut streams = BTreeSet::new();
            for _ in 0..4 {
                let (stream, response) = client.receive().unwrap();
                let expected = if stream == 3 {
                    response == VOID
                } else {
                    matches!(&response, Response::Result(ResultMessage::SetKeyspace(_)))
                };
                assert!(expected, "{version} {compression:?} {length}");
                streams.insert(stream);
            }
            assert_eq!(streams.len(), 4);
        }
    }
}

#[test]
fn a_request_that_waits_for_a_thread_is_dropped_when_its_client_leaves() {
    let server = TestServer::start_with(ServerConfig { max_threads: 1, ..ServerConfig::default() });
    let mut running = server.connect(Version::V4, None);
    running.query(1, "block");
    running.send();
    wait_until_blocked(&server, 1);
    let mut leaving: Vec<Client> = (0..3).map(|_| server.connect(Version::V4, None)).collect();
    for client in &mut leaving {
        client.query(1, "block");
        client.send();
    }
    let mut staying = server.connect(Version::V4, None);
    staying.query(2, "block");
    staying.send();
    let_it_work();
    for client in &mut leaving {
        client.finish_sending();
        assert_eq!(client.receive(), None, "the server has noticed");
    }
    server.script.open_gate();
    assert_eq!(running.receive(), Some((1, VOID)));
    assert_eq!(staying.receive(), Some((2, VOID)));
    assert_eq!(server.script.executed.load(Ordering::SeqCst), 2);
}

#[test]
fn an_address_that_occupies_all_threads_leaves_one_for_others() {
    let server = TestServer::start_with(ServerConfig { max_threads: 4, ..ServerConfig::default() });
    let mut greedy = server.connect(Version::V4, None);
    for stream in 0..16 {
        greedy.query(stream, "block");
    }
    greedy.send();
    wait_until_blocked(&server, 4);
    let mut other = server.connect_from("127.0.0.2", Version::V4);
    for _ in 0..3 {
        let answer = other.ask_query("slow-bytes 70000");
        assert!(matches!(answer, Response::Result(ResultMessage::SetKeyspace(_))));
    }
    assert_eq!(server.script.blocked.load(Ordering::SeqCst), 4);
    server.script.open_gate();
    let streams: BTreeSet<i16> = (0..16).map(|_| greedy.receive().unwrap().0).collect();
    assert_eq!(streams.len(), 16);
}

#[test]
fn clients_that_do_not_finish_their_startup_are_closed() {
    let config = ServerConfig { handshake_timeout: Duration::from_millis(100), ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    let mut ready = server.connect(Version::V4, None);
    let mut silent = TcpStream::connect(server.address).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(read_to_end(&mut silent), b"");
    let mut asking = server.connect_raw(Version::V4);
    loop {
        asking.encoder.request(0, &Request::Options(Options), false);
        asking.encoder.seal();
        let sent = std::io::Write::write_all(&mut asking.stream, asking.encoder.bytes());
        asking.encoder.clear(0);
        if sent.is_err() || asking.receive().is_none() {
            break;
        }
    }
    assert_eq!(ready.ask_query("ok"), VOID, "a client after its handshake may be idle");
}

#[test]
fn idle_connections_are_closed_if_that_is_configured() {
    let config = ServerConfig { idle_timeout: Some(Duration::from_millis(300)), ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    let mut waiting = server.connect(Version::V4, None);
    waiting.query(1, "block");
    waiting.send();
    wait_until_blocked(&server, 1);
    let mut idle = server.connect(Version::V5, None);
    assert_eq!(idle.receive(), None);
    server.script.open_gate();
    assert_eq!(waiting.receive(), Some((1, VOID)), "a client that waits for its answer is not idle");
    assert_eq!(waiting.receive(), None);
}

#[test]
fn requests_are_interrupted_when_their_client_leaves() {
    let server = TestServer::start();
    let mut half_closed = server.connect(Version::V4, None);
    // More than may be in flight, so that the server does not read the following ones.
    for stream in 0..20 {
        half_closed.query(stream, "compute");
    }
    half_closed.send();
    let mut closed = server.connect(Version::V5, None);
    closed.query(1, "compute");
    closed.send();
    wait_until_blocked(&server, 8);
    half_closed.finish_sending();
    assert_eq!(half_closed.receive(), None);
    drop(closed);
    while server.script.interrupted.load(Ordering::SeqCst) < server.script.blocked.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(server.connect(Version::V4, None).ask_query("ok"), VOID);
}
