//! Cut-overs between two servers over real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use cassette_database::{Database, FORWARDING_FILE, Options};
use cassette_protocol::request::{EventType, Query, Register, Startup};
use cassette_protocol::response::Event;
use cassette_protocol::{
    Decoder, Direction, Encoder, QueryParameters, Request, Response, ResultMessage, Version, request,
};
use cassette_server::admin::{Access, Admin, LogLevels, Switch};
use cassette_server::authentication::PasswordAuthenticator;
use cassette_server::{Forwarding, Marker, Proxy, Server, ServerConfig};
use cassette_vfs::RealFileSystem;
use serde_json::{Value, json};
use tempfile::TempDir;

struct NoLevels;

impl LogLevels for NoLevels {
    fn levels(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn set(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// A server with its admin endpoint.
struct Node {
    database: Database,
    address: SocketAddr,
    admin: SocketAddr,
    marker: PathBuf,
    runtime: tokio::runtime::Runtime,
    _directory: TempDir,
}

impl Node {
    fn start() -> Self {
        Self::start_with(ServerConfig::default(), None)
    }

    fn start_with(config: ServerConfig, refusal: Option<&str>) -> Self {
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("data");
        let mut options = Options::new(&data);
        options.engine.cdc.enabled = true;
        let database = Database::open(options).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let config = ServerConfig { listen_address: ([127, 0, 0, 1], 0).into(), ..config };
        let server = runtime.block_on(Server::bind(config, Arc::new(database.clone()))).unwrap();
        let address = server.local_address().unwrap();
        let (metrics, access) = (server.metrics(), Access::default());
        let admin = Admin::new(database.clone(), metrics, Arc::new(NoLevels), access, || {});
        let marker = Marker::new(Arc::new(RealFileSystem), &data);
        let path = marker.path();
        let refusal = refusal.map(str::to_owned);
        admin.set_switch(Switch { gate: server.gate(), marker, tls: None, refusal });
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let admin_address = listener.local_addr().unwrap();
        runtime.spawn(server.serve(std::future::pending()));
        runtime.spawn(admin.serve(listener, std::future::pending()));
        Self { database, address, admin: admin_address, marker: path, runtime, _directory: directory }
    }

    /// Executes a step of a cut-over.
    fn step(&self, step: &Value) -> (u16, Value) {
        let body = step.to_string();
        let mut stream = TcpStream::connect(self.admin).unwrap();
        write!(
            stream,
            "POST /v1/cut_over HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.admin,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap())
    }

    fn check(&self, target: &str) -> Result<(), String> {
        match self.step(&json!({"step": "check", "target": target})) {
            (200, _) => Ok(()),
            (_, refused) => Err(refused["error"].as_str().unwrap().to_owned()),
        }
    }

    fn stall(&self, target: &str) -> (u16, Value) {
        self.step(&json!({"step": "stall", "milliseconds": 30_000, "target": target}))
    }

    /// Forwards to another server.
    fn cut_over(&self, target: &Self) {
        let (status, answer) = self.stall(&target.address.to_string());
        assert_eq!(status, 200, "{answer}");
        let (status, answer) = self.step(&json!({"step": "forward", "stall": answer["stall"]}));
        assert_eq!(status, 200, "{answer}");
        assert!(self.marker.ends_with(FORWARDING_FILE) && self.marker.exists());
    }
}

/// A client of protocol version 4.
struct Client {
    stream: TcpStream,
    encoder: Encoder,
    decoder: Decoder,
    input: BytesMut,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        // A hanging test should fail.
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let (encoder, decoder) = (Encoder::new(Version::V4), Decoder::new(Direction::Response, 16 << 20));
        Self { stream, encoder, decoder, input: BytesMut::new() }
    }

    fn started(address: SocketAddr) -> Self {
        let mut client = Self::connect(address);
        assert_eq!(client.start_up(), Response::Ready);
        client
    }

    fn start_up(&mut self) -> Response {
        let options = vec![(Startup::CQL_VERSION.to_owned(), "3.0.0".to_owned())];
        self.ask(&Request::Startup(Startup { options }))
    }

    fn send(&mut self, request: &Request) {
        self.encoder.request(0, request, false);
        self.stream.write_all(self.encoder.bytes()).unwrap();
        self.encoder.clear(0);
    }

    /// Returns the next message; `None` when the server has closed.
    fn receive(&mut self) -> Option<Response> {
        loop {
            if let Some(envelope) = self.decoder.next(&mut self.input).unwrap() {
                return Some(Response::decode(&envelope).unwrap().0);
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(length) => self.input.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("cannot read from the server: {error}"),
            }
        }
    }

    fn ask(&mut self, request: &Request) -> Response {
        self.send(request);
        self.receive().expect("an answer")
    }

    fn query(&mut self, query: &str) -> Response {
        self.ask(&Request::Query(Query { query: query.into(), parameters: QueryParameters::default() }))
    }

    /// Returns the host id of the server that answers.
    fn host_id(&mut self) -> Vec<u8> {
        match self.query("SELECT host_id FROM system.local") {
            Response::Result(ResultMessage::Rows(rows)) => {
                rows.decode(None).unwrap().iter().next().unwrap().next().flatten().unwrap().to_vec()
            }
            other => panic!("expected rows, found {other:?}"),
        }
    }
}

fn register() -> Request {
    Request::Register(Register { event_types: vec![EventType::SchemaChange] })
}

fn id(node: &Node) -> Vec<u8> {
    node.database.node().host_id.as_bytes().to_vec()
}

#[test]
fn a_target_that_cannot_serve_or_is_the_server_itself_is_refused_before_it_is_recorded() {
    let (source, target) = (Node::start(), Node::start());
    // A proxy that leads back.
    let config = ServerConfig { listen_address: ([127, 0, 0, 1], 0).into(), ..ServerConfig::default() };
    let listener = source.runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let back = Forwarding::new(&source.address.to_string(), None).unwrap();
    let proxy = Proxy::new(listener, config, back);
    let proxy_address = proxy.local_address().unwrap();
    source.runtime.spawn(proxy.serve(std::future::pending()));
    // Something that speaks another protocol.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let other_address = other.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = other.accept() {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH\r\n");
        }
    });
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let own = source.address.to_string();
    let with_own = format!("{},{own}", target.address);
    for (address, expected) in [
        (own, "it is this server"),
        (proxy_address.to_string(), "it is this server"),
        (with_own, "it is this server"),
        (other_address.to_string(), "--forward-tls-ca"),
        (closed.to_string(), "cannot connect to"),
        ("127.0.0.1".to_owned(), "expected HOST:PORT"),
        ("x".repeat(5000), "expected at most 1024 bytes"),
    ] {
        let refused = source.check(&address).unwrap_err();
        assert!(refused.contains(expected), "{address:.40}: {refused}");
        let (status, stalled) = source.stall(&address);
        assert_eq!(status, 400, "{stalled}");
    }
    assert_eq!(Client::started(source.address).host_id(), id(&source), "nothing is stalled");
    source.check(&target.address.to_string()).unwrap();
    source.check(&format!("{closed},{}", target.address)).unwrap();
    assert!(!source.marker.exists());
}

#[test]
fn a_server_that_requires_logins_recognises_itself_too() {
    let database = Database::in_memory().unwrap();
    let authenticator = Some(Arc::new(PasswordAuthenticator::new(database)) as _);
    let config = ServerConfig { authenticator, ..ServerConfig::default() };
    let (source, target) = (Node::start_with(config.clone(), None), Node::start_with(config, None));
    let refused = source.check(&source.address.to_string()).unwrap_err();
    assert!(refused.contains("it is this server"), "{refused}");
    source.check(&target.address.to_string()).unwrap();
}

#[test]
fn a_server_that_has_undone_a_cut_over_refuses_another_one() {
    let (source, target) = (Node::start_with(ServerConfig::default(), Some("restart it")), Node::start());
    let (status, refused) = source.stall(&target.address.to_string());
    assert_eq!((status, &refused["error"]), (400, &json!("restart it")));
    assert_eq!(Client::started(source.address).host_id(), id(&source));
}

#[test]
fn a_stall_longer_than_the_maximum_is_refused_and_does_not_begin() {
    let (source, target) = (Node::start(), Node::start());
    let target = target.address.to_string();
    let (status, refused) = source.step(&json!({"step": "stall", "milliseconds": 30_001, "target": target}));
    assert_eq!(status, 400, "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("expected at most 30s, found 30.001s"), "{refused}");
    assert_eq!(Client::started(source.address).host_id(), id(&source));
}

#[test]
fn clients_get_the_events_of_the_target() {
    let (source, target) = (Node::start(), Node::start());
    let mut registered = Client::started(source.address);
    assert_eq!(registered.ask(&register()), Response::Ready);
    let mut later = Client::started(source.address);
    let mut new = Client::connect(source.address);
    assert!(matches!(new.ask(&Request::Options(request::Options)), Response::Supported(_)));
    let mut unregistered = Client::started(source.address);
    source.cut_over(&target);
    assert_eq!(registered.receive(), None, "its driver reads the list of nodes again");
    assert!(matches!(later.ask(&Request::Options(request::Options)), Response::Supported(_)));
    assert_eq!(later.ask(&register()), Response::Ready);
    assert_eq!(new.start_up(), Response::Ready);
    assert_eq!(new.ask(&register()), Response::Ready);
    assert_eq!(unregistered.host_id(), id(&target));
    let statement =
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    target.database.session().execute(statement, ()).unwrap();
    for mut client in [later, new] {
        assert!(matches!(client.receive(), Some(Response::Event(Event::SchemaChange(_)))));
        assert_eq!(client.host_id(), id(&target));
    }
}

#[test]
fn forwarded_clients_that_do_not_log_in_or_are_idle_are_disconnected() {
    let config = ServerConfig {
        handshake_timeout: Duration::from_millis(300),
        idle_timeout: Some(Duration::from_millis(600)),
        ..ServerConfig::default()
    };
    let (source, target) = (Node::start_with(config, None), Node::start());
    source.cut_over(&target);
    let mut silent = Client::connect(source.address);
    assert_eq!(silent.receive(), None);
    let mut idle = Client::started(source.address);
    assert_eq!(idle.host_id(), id(&target));
    assert_eq!(idle.receive(), None);
}

#[test]
fn forwarding_needs_two_sockets_for_each_connection() {
    let config = ServerConfig { max_sockets: Some(3), ..ServerConfig::default() };
    let (source, target) = (Node::start_with(config, None), Node::start());
    source.cut_over(&target);
    let mut first = Client::started(source.address);
    assert_eq!(first.host_id(), id(&target));
    assert_eq!(Client::connect(source.address).receive(), None);
    drop(first);
}
