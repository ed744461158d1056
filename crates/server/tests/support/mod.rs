//! A backend that interprets the text of a query, and a client on a raw socket.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc, Condvar, Mutex, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::BytesMut;
use cassette_database::ServerMetrics;
use cassette_protocol::{
    Compression, Decoder, Direction, Encoder, Prelude, QueryParameters, Rejected, Request, Response,
    ResultKind, ResultMessage, Version,
    request::{Query, Startup},
    response::{ChangeType, Error, ErrorDetail, SchemaChange, SchemaTarget},
};
use cassette_server::{Answer, Backend, Body, Effort, Server, ServerConfig};
use tokio::sync::oneshot;
use uuid::Uuid;

type Listener = Box<dyn Fn(&SchemaChange) + Send + Sync>;

/// Executes the words of a query: `ok`, `error`, `panic`, `block`, `compute`, `bytes N`,
/// `slow-bytes N`, `schema`.
#[derive(Default)]
pub struct Script {
    pub executed: AtomicUsize,
    gate: Mutex<bool>,
    opened: Condvar,
    pub blocked: AtomicUsize,
    pub interrupted: AtomicUsize,
    /// Ticks so far; the first one panics.
    pub ticks: AtomicUsize,
    /// Whether the next session panics instead of being opened.
    pub panics_at_session: AtomicBool,
    listeners: Mutex<Vec<Weak<Listener>>>,
}

impl Script {
    /// Releases all blocked requests, and lets later ones pass.
    pub fn open_gate(&self) {
        *self.gate.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

impl Backend for Script {
    type Session = ();
    type Subscription = Arc<Listener>;

    fn open_session(&self, _peer: SocketAddr) {
        assert!(!self.panics_at_session.swap(false, Ordering::SeqCst), "the session panics");
    }

    fn tick(&self) {
        assert!(self.ticks.fetch_add(1, Ordering::SeqCst) > 0, "the first tick panics");
    }

    fn new_trace(&self) -> Uuid {
        Uuid::nil()
    }

    fn execute(
        &self,
        (): &(),
        request: &Request,
        _version: Version,
        effort: Effort,
        _trace: Option<Uuid>,
        body: Body<'_>,
    ) -> Result<Answer, Error> {
        let Request::Query(Query { query, .. }) = request else {
            return Err(Error::new(ErrorDetail::Invalid, "only queries"));
        };
        let body = body.buffer;
        body.extend_from_slice(b"to be thrown away unless there is a result");
        let start = body.len();
        match query.split_once(' ').unwrap_or((query, "")) {
            ("ok", _) => ResultKind::Void.encode(body),
            ("error", message) => return Err(Error::new(ErrorDetail::Invalid, message)),
            ("panic", message) => panic!("{message}"),
            ("block", _) if effort == Effort::MemoryOnly => return Ok(Answer::WouldBlock),
            ("block", _) => {
                self.blocked.fetch_add(1, Ordering::SeqCst);
                let gate = self.opened.wait_while(self.gate.lock().unwrap(), |open| !*open).unwrap();
                drop(gate);
                ResultKind::Void.encode(body);
            }
            ("compute", _) if effort == Effort::MemoryOnly => return Ok(Answer::WouldBlock),
            ("compute", _) => {
                self.blocked.fetch_add(1, Ordering::SeqCst);
                while cassette_rows::interrupt::check_now().is_ok() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                self.interrupted.fetch_add(1, Ordering::SeqCst);
                return Err(Error::new(ErrorDetail::ServerError, "interrupted"));
            }
            ("slow-bytes", _) if effort == Effort::MemoryOnly => return Ok(Answer::WouldBlock),
            ("bytes" | "slow-bytes", length) => {
                ResultKind::SetKeyspace.encode(body);
                let length: usize = length.parse().unwrap();
                body.extend_from_slice(&u16::MAX.to_be_bytes());
                body.resize(body.len() + length.max(usize::from(u16::MAX)), b'x');
            }
            ("schema", keyspace) => {
                let change = SchemaChange {
                    change: ChangeType::Created,
                    keyspace: keyspace.to_owned(),
                    target: SchemaTarget::Keyspace,
                };
                for listener in self.listeners.lock().unwrap().iter().filter_map(Weak::upgrade) {
                    listener(&change);
                }
                ResultKind::SchemaChange.encode(body);
                change.encode(Version::V4, body);
            }
            _ => return Err(Error::new(ErrorDetail::SyntaxError, &**query)),
        }
        body.drain(start - 42..start);
        self.executed.fetch_add(1, Ordering::SeqCst);
        Ok(Answer::Result(Prelude::default()))
    }

    fn subscribe(&self, listener: Listener) -> Arc<Listener> {
        let listener = Arc::new(listener);
        self.listeners.lock().unwrap().push(Arc::downgrade(&listener));
        listener
    }
}

/// A server with a separate runtime.
pub struct TestServer {
    pub address: SocketAddr,
    pub script: Arc<Script>,
    pub metrics: Arc<dyn ServerMetrics>,
    stop: Option<oneshot::Sender<()>>,
    runtime: Option<tokio::runtime::Runtime>,
    served: Option<tokio::task::JoinHandle<()>>,
}

impl TestServer {
    pub fn start() -> Self {
        Self::start_with(ServerConfig::default())
    }

    pub fn start_with(config: ServerConfig) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let script = Arc::new(Script::default());
        let config = ServerConfig { listen_address: "127.0.0.1:0".parse().unwrap(), ..config };
        let server = runtime.block_on(Server::bind(config, Arc::clone(&script))).unwrap();
        let address = server.local_address().unwrap();
        let metrics = server.metrics();
        let (stop, stopped) = oneshot::channel();
        let served = runtime.spawn(server.serve(async { drop(stopped.await) }));
        Self { address, script, metrics, stop: Some(stop), runtime: Some(runtime), served: Some(served) }
    }

    /// A client that has completed its STARTUP.
    pub fn connect(&self, version: Version, compression: Option<Compression>) -> Client {
        let mut client = self.connect_raw(version);
        assert_eq!(client.start_up(compression, &[]), Response::Ready);
        client
    }

    /// A client that has sent nothing yet.
    pub fn connect_raw(&self, version: Version) -> Client {
        self.client_on(TcpStream::connect(self.address).unwrap(), version)
    }

    /// A client at another address of this machine that has completed its STARTUP.
    pub fn connect_from(&self, address: &str, version: Version) -> Client {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{address}:0").parse().unwrap()).unwrap();
        let stream = self.runtime.as_ref().unwrap().block_on(socket.connect(self.address)).unwrap();
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        let mut client = self.client_on(stream, version);
        assert_eq!(client.start_up(None, &[]), Response::Ready);
        client
    }

    fn client_on(&self, stream: TcpStream, version: Version) -> Client {
        // A hanging test should fail.
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client {
            stream,
            input: BytesMut::new(),
            decoder: Decoder::new(Direction::Response, 64 << 20),
            encoder: Encoder::new(version),
            version,
        }
    }

    /// Makes the server stop.
    pub fn begin_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until it has stopped.
    pub fn wait_stopped(&mut self) {
        self.runtime.as_ref().unwrap().block_on(self.served.take().unwrap()).unwrap();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.script.open_gate();
        self.runtime.take().unwrap().shutdown_timeout(Duration::from_secs(10));
    }
}

/// A client on a raw socket.
pub struct Client {
    pub stream: TcpStream,
    input: BytesMut,
    decoder: Decoder,
    pub encoder: Encoder,
    version: Version,
}

impl Client {
    /// Sends STARTUP with additional options; returns the answer, and switches to frames if it is
    /// positive.
    pub fn start_up(&mut self, compression: Option<Compression>, options: &[(&str, &str)]) -> Response {
        let mut startup = Startup { options: vec![(Startup::CQL_VERSION.into(), "3.0.0".into())] };
        if let Some(compression) = compression {
            startup.options.push((Startup::COMPRESSION.into(), compression.name().into()));
        }
        startup.options.extend(options.iter().map(|(key, value)| ((*key).into(), (*value).into())));
        let answer = self.ask(&Request::Startup(startup));
        if !matches!(answer, Response::Error(_)) {
            self.encoder.fix_version(self.version, compression);
            self.decoder.fix_version(self.version, compression);
        }
        answer
    }

    /// Appends a query to the output.
    pub fn query(&mut self, stream: i16, query: &str) {
        let query = Query { query: query.into(), parameters: QueryParameters::default() };
        self.encoder.request(stream, &Request::Query(query), false);
    }

    /// Sends the encoded output.
    pub fn send(&mut self) {
        self.encoder.seal();
        self.stream.write_all(self.encoder.bytes()).unwrap();
        self.encoder.clear(usize::MAX);
    }

    /// Sends raw bytes.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Closes the sending side.
    pub fn finish_sending(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Returns the next response with its stream; `None` once the server has closed.
    pub fn receive(&mut self) -> Option<(i16, Response)> {
        loop {
            match self.decoder.next(&mut self.input) {
                Ok(Some(envelope)) => {
                    return Some((envelope.header.stream, Response::decode(&envelope).unwrap().0));
                }
                Ok(None) => {}
                Err(Rejected { error, .. }) => panic!("the server sent: {error}"),
            }
            let mut chunk = [0; 64 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(length) => self.input.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("cannot read from the server: {error}"),
            }
        }
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, request: &Request) -> Response {
        self.encoder.request(0, request, false);
        self.send();
        self.receive().expect("the server answers").1
    }

    /// Sends a query and waits for its answer.
    pub fn ask_query(&mut self, query: &str) -> Response {
        self.query(0, query);
        self.send();
        self.receive().expect("the server answers").1
    }
}

/// The answer to `ok`.
pub const VOID: Response = Response::Result(ResultMessage::Void);

/// The text of an ERROR.
pub fn error_of(response: Response) -> Error {
    match response {
        Response::Error(error) => error,
        other => panic!("an error is expected, not {other:?}"),
    }
}

/// Returns everything that the server sends until it closes.
pub fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("the server does not close: {error}"),
    }
}

/// Waits for what the server does on its own.
pub fn wait_until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "the server does nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
}
