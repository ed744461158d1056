//! Guarantees of connections for well-behaved clients and others.

#[path = "connections/resources.rs"]
mod resources;
mod support;

use std::{
    collections::BTreeSet,
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cassette_protocol::{
    Compression, Request, Response, ResultMessage, Version,
    request::{AuthResponse, EventType, Options, Register, Startup},
    response::{ErrorDetail, Event, SchemaTarget},
};
use cassette_server::{
    ServerConfig,
    authentication::{Authenticator, Negotiation, Peer, Verdict},
};
use support::{TestServer, VOID, error_of, read_to_end, wait_until};

const AGREEMENTS: [(Version, Option<Compression>); 8] = [
    (Version::V3, None),
    (Version::V3, Some(Compression::Lz4)),
    (Version::V4, None),
    (Version::V4, Some(Compression::Lz4)),
    (Version::V4, Some(Compression::Snappy)),
    (Version::V5, None),
    (Version::V5, Some(Compression::Lz4)),
    (Version::V3, Some(Compression::Snappy)),
];

#[test]
fn every_version_and_compression_is_served() {
    let server = TestServer::start();
    for (version, compression) in AGREEMENTS {
        let mut client = server.connect_raw(version);
        assert!(matches!(client.ask(&Request::Options(Options)), Response::Supported(_)));
        assert_eq!(client.start_up(compression, &[]), Response::Ready);
        assert_eq!(client.ask_query("ok"), VOID);
        assert!(matches!(client.ask(&Request::Options(Options)), Response::Supported(_)));
        let long = client.ask_query("bytes 300000");
        assert!(matches!(long, Response::Result(ResultMessage::SetKeyspace(_))), "{version} {compression:?}");
        let long_query = format!("error {}", "y".repeat(300_000));
        assert_eq!(error_of(client.ask_query(&long_query)).message.len(), usize::from(u16::MAX));
    }
}

#[test]
fn thousands_of_pipelined_requests_are_each_answered_once() {
    let server = TestServer::start();
    server.script.open_gate();
    for (version, compression) in AGREEMENTS {
        let mut client = server.connect(version, compression);
        const REQUESTS: i16 = 5000;
        for stream in 0..REQUESTS {
            let query = match stream % 10 {
                0 => "block",
                1 => "error no",
                2 => "bytes 70000",
                _ => "ok",
            };
            client.query(stream, query);
        }
        let mut reader = client.stream.try_clone().unwrap();
        let sender = std::thread::spawn({
            client.encoder.seal();
            let bytes = client.encoder.bytes().to_vec();
            move || std::io::Write::write_all(&mut reader, &bytes).unwrap()
        });
        let mut streams = BTreeSet::new();
        for _ in 0..REQUESTS {
            let (stream, response) = client.receive().unwrap();
            assert!(streams.insert(stream), "stream {stream} is answered twice");
            assert_eq!(matches!(response, Response::Error(_)), stream % 10 == 1);
        }
        assert_eq!(streams, (0..REQUESTS).collect());
        sender.join().unwrap();
    }
}

#[test]
fn a_request_that_waits_for_a_disk_holds_up_nobody() {
    let server = TestServer::start();
    let mut waiting = server.connect(Version::V4, None);
    for stream in 0..8 {
        waiting.query(stream, "block");
    }
    waiting.query(100, "ok");
    waiting.send();
    assert_eq!(waiting.receive(), Some((100, VOID)));
    let mut other = server.connect(Version::V5, None);
    assert_eq!(other.ask_query("ok"), VOID);
    server.script.open_gate();
    let streams: BTreeSet<i16> = (0..8).map(|_| waiting.receive().unwrap().0).collect();
    assert_eq!(streams, (0..8).collect());
}

#[test]
fn threads_are_shared_by_all_connections_and_given_back() {
    let config = ServerConfig { max_threads: 2, max_threads_per_connection: 3, ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    let mut clients: Vec<_> = (0..4).map(|_| server.connect(Version::V4, None)).collect();
    for client in &mut clients {
        for stream in 0..10 {
            client.query(stream, "block");
        }
        client.send();
    }
    while server.script.blocked.load(Ordering::SeqCst) < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(server.script.blocked.load(Ordering::SeqCst), 2);
    server.script.open_gate();
    for client in &mut clients {
        let streams: BTreeSet<i16> = (0..10).map(|_| client.receive().unwrap().0).collect();
        assert_eq!(streams, (0..10).collect());
    }
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let server = TestServer::start();
    let mut client = server.connect(Version::V4, None);
    // 200 MB of answers: far beyond the buffers of sockets.
    for stream in 0..200 {
        client.query(stream, "bytes 1000000");
    }
    client.send();
    let mut other = server.connect(Version::V4, None);
    for _ in 0..100 {
        assert_eq!(other.ask_query("ok"), VOID);
    }
    assert!(server.script.executed.load(Ordering::SeqCst) < 200);
    for stream in 0..200 {
        assert_eq!(client.receive().unwrap().0, stream);
    }
}

#[test]
fn a_panic_ends_one_request_only() {
    let server = TestServer::start();
    let mut client = server.connect(Version::V4, None);
    let error = error_of(client.ask_query("panic the reason"));
    assert_eq!(error.detail, ErrorDetail::ServerError);
    assert!(error.message.contains("the reason"));
    assert_eq!(client.ask_query("ok"), VOID);
    // The first tick panics, too.
    wait_until(|| server.metrics.panics() == 2);
}

#[test]
fn a_panic_ends_one_connection_only_and_releases_its_place() {
    let config = ServerConfig { max_concurrent_connections: Some(1), ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    server.script.panics_at_session.store(true, Ordering::SeqCst);
    let mut panicking = server.connect_raw(Version::V4);
    assert!(read_to_end(&mut panicking.stream).is_empty());
    wait_until(|| server.metrics.panics() == 2);
    assert_eq!(server.connect(Version::V4, None).ask_query("ok"), VOID);
}

#[test]
fn a_panic_of_a_periodic_update_does_not_end_the_server() {
    let mut server = TestServer::start();
    wait_until(|| server.script.ticks.load(Ordering::SeqCst) > 0);
    assert_eq!(server.connect(Version::V4, None).ask_query("ok"), VOID);
    assert_eq!(server.metrics.panics(), 1);
    server.begin_stop();
    server.wait_stopped();
}

#[test]
fn unknown_versions_are_told_the_known_ones_and_closed() {
    let server = TestServer::start();
    for (version, answered_in) in [(66, 0x85), (65, 0x85), (6, 0x85), (0, 0x85), (1, 0x81), (2, 0x82)] {
        let mut client = server.connect_raw(Version::V4);
        client.send_raw(&[version, 0, 0, 0, 1, 0, 0, 0, 0]);
        let answer = read_to_end(&mut client.stream);
        assert_eq!(answer[0], answered_in);
        let text = format!("protocol version ({version}); supported versions are (3/v3, 4/v4, 5/v5)");
        assert!(String::from_utf8_lossy(&answer).ends_with(&text), "{answer:?}");
    }
    assert_eq!(server.connect(Version::V4, None).ask_query("ok"), VOID);
}

#[test]
fn garbage_and_messages_cut_short_end_only_their_connection() {
    let server = TestServer::start();
    let mut good = server.connect(Version::V5, None);
    let samples: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[0xff; 1000],
        &[0; 1000],
        // A header that announces more than follows.
        &[4, 0, 0, 0, 1, 0, 0, 1, 0, 0],
        // A header that announces a negative length.
        &[4, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0],
        &[4],
    ];
    for sample in samples {
        let mut client = server.connect_raw(Version::V4);
        client.send_raw(sample);
        client.finish_sending();
        read_to_end(&mut client.stream);
        assert_eq!(good.ask_query("ok"), VOID);
    }
    for (version, compression) in AGREEMENTS {
        let mut client = server.connect(version, compression);
        client.query(1, "ok");
        client.encoder.seal();
        let bytes = client.encoder.bytes().to_vec();
        client.send_raw(&bytes[..bytes.len() - 1]);
        client.finish_sending();
        assert_eq!(client.receive(), None, "{version} {compression:?}");
    }
}

#[test]
fn a_message_that_is_too_long_is_refused_and_the_next_one_served() {
    let server = TestServer::start_with(ServerConfig { max_frame_size: 200_000, ..ServerConfig::default() });
    for (version, compression) in AGREEMENTS {
        let mut client = server.connect(version, compression);
        // Incompressible, so its compressed form is too long as well.
        let noise: String = (0..300_000u32)
            .map(|index| char::from(b' ' + (index.wrapping_mul(2_654_435_761) >> 25) as u8 % 95))
            .collect();
        client.query(7, &noise);
        client.query(8, "ok");
        client.send();
        let (stream, response) = client.receive().unwrap();
        let error = error_of(response);
        assert_eq!((stream, error.detail), (7, ErrorDetail::Invalid), "{version} {compression:?}");
        assert!(error.message.starts_with("Request is too big"), "{}", error.message);
        assert_eq!(client.receive(), Some((8, VOID)));
    }
}

#[test]
fn nobody_sends_long_messages_before_being_let_in() {
    let server = TestServer::start();
    let mut client = server.connect_raw(Version::V4);
    let answer = client.start_up(
        None,
        &[("X", &"x".repeat(60_000)), ("Y", &"y".repeat(60_000)), ("Z", &"z".repeat(60_000))],
    );
    assert!(error_of(answer).message.starts_with("Request is too big"));
    assert_eq!(client.start_up(None, &[]), Response::Ready);
}

#[test]
fn a_frame_with_a_wrong_checksum_is_named_and_closes_the_connection() {
    let server = TestServer::start();
    for (position, text) in [(0, "header CRC24"), (20, "payload CRC32")] {
        let mut client = server.connect(Version::V5, None);
        client.query(1, "ok");
        client.encoder.seal();
        let mut bytes = client.encoder.bytes().to_vec();
        bytes[position] ^= 0x10;
        client.send_raw(&bytes);
        let error = error_of(client.receive().unwrap().1);
        assert_eq!(error.detail, ErrorDetail::ProtocolError);
        assert!(error.message.contains(text), "{}", error.message);
        assert_eq!(client.receive(), None);
        assert_eq!(server.script.executed.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn one_malformed_body_is_forgiven_and_in_v5_two_in_a_row_are_not() {
    let server = TestServer::start();
    for version in [Version::V4, Version::V5] {
        let mut client = server.connect(version, None);
        let malformed = |client: &mut support::Client| {
            let begun = client.encoder.begin();
            client.encoder.body().extend_from_slice(&[0, 0, 1, 0, b'x']);
            client.encoder.finish(begun, 5, cassette_protocol::Opcode::Query, Default::default());
        };
        malformed(&mut client);
        client.query(6, "ok");
        malformed(&mut client);
        malformed(&mut client);
        client.query(6, "ok");
        client.send();
        let mut answers = Vec::new();
        while answers.len() < 5
            && let Some((stream, response)) = client.receive()
        {
            answers.push((stream, matches!(response, Response::Error(_))));
        }
        let expected = [(5, true), (6, false), (5, true), (5, true), (6, false)];
        assert_eq!(answers, expected[..if version == Version::V5 { 4 } else { 5 }]);
    }
}

#[test]
fn messages_at_the_wrong_stage_are_refused() {
    let server = TestServer::start();
    let mut client = server.connect_raw(Version::V4);
    let error = error_of(client.ask_query("ok"));
    assert_eq!(error.message, "Unexpected message QUERY, expecting STARTUP or OPTIONS");
    assert_eq!(error.detail, ErrorDetail::ProtocolError);
    assert_eq!(client.start_up(None, &[]), Response::Ready);
    let error = error_of(client.ask(&Request::Startup(Startup::default())));
    assert_eq!(error.message, "Unexpected message STARTUP, the connection is already initialized");
    assert_eq!(client.ask_query("ok"), VOID);
}

#[test]
fn startup_options_are_checked() {
    let server = TestServer::start();
    let message_of = |version, startup: Startup| {
        error_of(server.connect_raw(version).ask(&Request::Startup(startup))).message
    };
    let options = |options: &[(&str, &str)]| Startup {
        options: options.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
    };
    assert_eq!(message_of(Version::V4, options(&[])), "Missing value CQL_VERSION in STARTUP message");
    assert!(message_of(Version::V4, options(&[("CQL_VERSION", "2.0.0")])).contains("2.0.0 is not supported"));
    let compressed = |name| options(&[("CQL_VERSION", "3.0.0"), ("COMPRESSION", name)]);
    assert_eq!(message_of(Version::V4, compressed("zip")), "Unknown compression algorithm: zip");
    assert_eq!(
        message_of(Version::V5, compressed("snappy")),
        "Snappy compression is not supported in protocol V5"
    );
}

#[test]
fn events_reach_those_who_registered() {
    let server = TestServer::start();
    let mut registered = server.connect(Version::V5, None);
    let mut elsewhere = server.connect(Version::V4, None);
    let register = |event_type| Request::Register(Register { event_types: vec![event_type] });
    assert_eq!(registered.ask(&register(EventType::SchemaChange)), Response::Ready);
    assert_eq!(elsewhere.ask(&register(EventType::StatusChange)), Response::Ready);
    let mut changing = server.connect(Version::V4, None);
    assert!(matches!(changing.ask_query("schema ks"), Response::Result(ResultMessage::SchemaChange(_))));
    let (stream, event) = registered.receive().unwrap();
    let Response::Event(Event::SchemaChange(change)) = event else { panic!("{event:?}") };
    assert_eq!((stream, &*change.keyspace, change.target), (-1, "ks", SchemaTarget::Keyspace));
    assert_eq!(elsewhere.ask_query("ok"), VOID);
    assert_eq!(changing.ask_query("ok"), VOID);
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once() {
    let config = ServerConfig { max_concurrent_connections: Some(2), ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    let first = server.connect(Version::V4, None);
    let mut second = server.connect(Version::V4, None);
    assert_eq!(read_to_end(&mut TcpStream::connect(server.address).unwrap()), b"");
    assert_eq!(second.ask_query("ok"), VOID);
    drop(first);
    // The slot is free once the server has noticed the end of the first connection.
    loop {
        let mut next = server.connect_raw(Version::V4);
        next.encoder.request(0, &Request::Options(Options), false);
        next.send();
        if next.receive().is_some() {
            break;
        }
    }
}

#[test]
fn a_stopping_server_finishes_what_is_in_flight_and_takes_nothing_new() {
    let mut server = TestServer::start();
    let mut idle = server.connect(Version::V4, None);
    let mut client = server.connect(Version::V5, None);
    client.query(1, "block");
    client.send();
    while server.script.blocked.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    server.begin_stop();
    assert_eq!(idle.receive(), None);
    server.script.open_gate();
    assert_eq!(client.receive(), Some((1, VOID)));
    assert_eq!(client.receive(), None);
    server.wait_stopped();
    assert!(TcpStream::connect(server.address).is_err());
}

#[test]
fn a_client_that_takes_no_answers_cannot_keep_a_server_from_stopping() {
    let config = ServerConfig { stop_timeout: Duration::from_millis(50), ..ServerConfig::default() };
    let mut server = TestServer::start_with(config);
    let mut client = server.connect(Version::V4, None);
    for stream in 0..100 {
        client.query(stream, "bytes 1000000");
    }
    client.send();
    server.begin_stop();
    server.wait_stopped();
}

#[test]
fn an_overloaded_server_says_so_to_clients_that_asked_for_it() {
    let config = ServerConfig { max_request_data_in_flight: 100, ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    let mut client = server.connect_raw(Version::V4);
    assert_eq!(client.start_up(None, &[(Startup::THROW_ON_OVERLOAD, "1")]), Response::Ready);
    client.query(1, &format!("block {}", "x".repeat(200)));
    client.query(2, "ok");
    client.send();
    let (stream, response) = client.receive().unwrap();
    assert_eq!((stream, error_of(response).detail), (2, ErrorDetail::Overloaded));
    server.script.open_gate();
    assert_eq!(client.receive(), Some((1, VOID)));
    assert_eq!(client.ask_query("ok"), VOID);
}

#[test]
fn an_overloaded_server_reads_nothing_until_it_is_relieved() {
    let config = ServerConfig { max_request_data_in_flight: 100, ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    let mut client = server.connect(Version::V4, None);
    client.query(1, &format!("block {}", "x".repeat(200)));
    client.send();
    while server.script.blocked.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    client.query(2, "ok");
    client.send();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(server.script.executed.load(Ordering::SeqCst), 0);
    server.script.open_gate();
    assert_eq!(client.receive(), Some((1, VOID)));
    assert_eq!(client.receive(), Some((2, VOID)));
}

/// Accepts clients that answer "knock" with "password".
#[derive(Debug)]
struct Knock;

impl Authenticator for Knock {
    fn class_name(&self) -> &str {
        "org.example.Knock"
    }

    fn negotiate(&self, _peer: Peer<'_>) -> Box<dyn Negotiation> {
        Box::new(Knock)
    }
}

impl Negotiation for Knock {
    fn evaluate(&mut self, token: &[u8]) -> Verdict {
        match token {
            b"knock" => Verdict::Challenge(b"who?".to_vec()),
            b"password" => Verdict::Authenticated { role: "alice".into() },
            _ => Verdict::Refused("no".into()),
        }
    }
}

#[test]
fn requests_are_served_only_after_authentication() {
    let config = ServerConfig { authenticator: Some(Arc::new(Knock)), ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    let token = |token: &'static [u8]| Request::AuthResponse(AuthResponse { token: Some(token.into()) });
    for version in [Version::V4, Version::V5] {
        let mut client = server.connect_raw(version);
        let answer = client.start_up(None, &[]);
        assert!(
            matches!(answer, Response::Authenticate(asked) if asked.authenticator == "org.example.Knock")
        );
        assert_eq!(error_of(client.ask_query("ok")).detail, ErrorDetail::ProtocolError);
        assert_eq!(error_of(client.ask(&token(b"guess"))).detail, ErrorDetail::BadCredentials);
        assert!(matches!(client.ask(&token(b"knock")), Response::AuthChallenge(_)));
        assert_eq!(error_of(client.ask_query("ok")).detail, ErrorDetail::ProtocolError);
        assert!(matches!(client.ask(&token(b"password")), Response::AuthSuccess(_)));
        assert_eq!(client.ask_query("ok"), VOID);
    }
}

/// Refuses every client, and counts the tokens that it saw.
#[derive(Debug, Default, Clone)]
struct Closed(Arc<AtomicUsize>);

impl Authenticator for Closed {
    fn class_name(&self) -> &str {
        "org.example.Closed"
    }

    fn negotiate(&self, _peer: Peer<'_>) -> Box<dyn Negotiation> {
        Box::new(self.clone())
    }
}

impl Negotiation for Closed {
    fn evaluate(&mut self, token: &[u8]) -> Verdict {
        self.0.fetch_add(1, Ordering::SeqCst);
        assert_ne!(token, b"panic", "injected");
        Verdict::Refused("no".into())
    }
}

#[test]
fn after_many_failed_logins_tokens_are_refused_without_a_check() {
    let closed = Closed::default();
    let config = ServerConfig { authenticator: Some(Arc::new(closed.clone())), ..ServerConfig::default() };
    let server = TestServer::start_with(config);
    let mut client = server.connect_raw(Version::V5);
    client.start_up(None, &[]);
    let mut log_in = |token: &'static [u8]| {
        let request = Request::AuthResponse(AuthResponse { token: Some(token.into()) });
        error_of(client.ask(&request)).detail
    };
    assert_eq!(log_in(b"panic"), ErrorDetail::ServerError);
    let mut tokens = 1;
    while log_in(b"guess") == ErrorDetail::BadCredentials {
        tokens += 1;
        assert!(tokens < 1000, "logins are not limited");
    }
    assert_eq!(closed.0.load(Ordering::SeqCst), tokens);
    let metrics = server.metrics.clone();
    assert_eq!((metrics.logins_failed() + 1, metrics.logins_refused()), (tokens as u64, 1));
}
