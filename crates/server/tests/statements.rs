//! Statements over the wire, executed by a real database in a temporary directory.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use cassette_database::{Database, ServerMetrics};
use cassette_protocol::{
    Decoder, Direction, Encoder, Prelude, QueryParameters, Request, Response, ResultMessage, ResultMetadata,
    Rows, Value, Values, Version,
    request::{
        Batch, BatchStatement, BatchType, EventType, Execute, Prepare, Query, Register, Startup,
        StatementSource,
    },
    response::{ChangeType, Error, ErrorDetail, Event, Failures, Prepared, SchemaChange, SchemaTarget},
};
use cassette_server::{Server, ServerConfig};
use tempfile::TempDir;
use tokio::runtime::Runtime;

struct Served {
    address: SocketAddr,
    database: Arc<Database>,
    runtime: Option<Runtime>,
    _metrics: Arc<dyn ServerMetrics>,
    _directory: TempDir,
}

impl Served {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = Arc::new(Database::open(directory.path()).unwrap());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let config =
            ServerConfig { listen_address: "127.0.0.1:0".parse().unwrap(), ..ServerConfig::default() };
        let server = runtime.block_on(Server::bind(config, database.clone())).unwrap();
        let address = server.local_address().unwrap();
        let metrics = server.metrics();
        database.set_server(&metrics);
        runtime.spawn(server.serve(std::future::pending()));
        Self { address, database, runtime: Some(runtime), _metrics: metrics, _directory: directory }
    }

    fn connect(&self, version: Version) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        // A hanging test should fail.
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut client = Client {
            stream,
            input: BytesMut::new(),
            decoder: Decoder::new(Direction::Response, 1 << 20),
            encoder: Encoder::new(version),
            events: Vec::new(),
        };
        let startup = Startup { options: vec![(Startup::CQL_VERSION.into(), "3.0.0".into())] };
        assert_eq!(client.ask(&Request::Startup(startup)), Response::Ready);
        client.encoder.fix_version(version, None);
        client.decoder.fix_version(version, None);
        client
    }

    /// A client in keyspace `ks` with table `t (k int, c int, v text, PRIMARY KEY (k, c))`.
    fn connect_with_table(&self, version: Version) -> Client {
        let mut client = self.connect(version);
        client.query(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        client.query("USE ks");
        client.query("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))");
        client
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_timeout(Duration::from_secs(10));
    }
}

struct Client {
    stream: TcpStream,
    input: BytesMut,
    decoder: Decoder,
    encoder: Encoder,
    events: Vec<Event>,
}

impl Client {
    fn receive(&mut self) -> Response {
        self.receive_with_prelude().0
    }

    fn receive_with_prelude(&mut self) -> (Response, Prelude) {
        loop {
            if let Some(envelope) = self.decoder.next(&mut self.input).unwrap() {
                return Response::decode(&envelope).unwrap();
            }
            let mut chunk = [0; 16 * 1024];
            let length = self.stream.read(&mut chunk).unwrap();
            assert!(length > 0, "the server has closed the connection");
            self.input.extend_from_slice(&chunk[..length]);
        }
    }

    fn ask(&mut self, request: &Request) -> Response {
        self.encoder.request(1, request, false);
        self.encoder.seal();
        self.stream.write_all(self.encoder.bytes()).unwrap();
        self.encoder.clear(usize::MAX);
        loop {
            match self.receive() {
                Response::Event(event) => self.events.push(event),
                response => return response,
            }
        }
    }

    /// Returns the answer to a traced request, and the trace's id.
    fn traced(&mut self, request: &Request) -> (Response, Option<uuid::Uuid>) {
        self.encoder.request(1, request, true);
        self.encoder.seal();
        self.stream.write_all(self.encoder.bytes()).unwrap();
        self.encoder.clear(usize::MAX);
        let (response, prelude) = self.receive_with_prelude();
        (response, prelude.tracing_id)
    }

    fn result(&mut self, request: &Request) -> ResultMessage {
        match self.ask(request) {
            Response::Result(result) => result,
            other => panic!("{other:?} to {request:?}"),
        }
    }

    fn error(&mut self, request: &Request) -> Error {
        match self.ask(request) {
            Response::Error(error) => error,
            other => panic!("{other:?} to {request:?}"),
        }
    }

    fn query(&mut self, query: &str) -> ResultMessage {
        self.result(&query_with(query, QueryParameters::default()))
    }

    fn prepare(&mut self, query: &str) -> Prepared {
        match self.result(&Request::Prepare(Prepare { query: query.into(), keyspace: None })) {
            ResultMessage::Prepared(prepared) => prepared,
            other => panic!("{other:?}"),
        }
    }

    fn rows(&mut self, request: &Request, known: Option<&ResultMetadata>) -> Rows {
        match self.result(request) {
            ResultMessage::Rows(rows) => rows.decode(known).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

fn query_with(query: &str, parameters: QueryParameters) -> Request {
    Request::Query(Query { query: query.into(), parameters })
}

fn execute(prepared: &Prepared, values: &[Value<'_>], parameters: QueryParameters) -> Request {
    Request::Execute(Execute {
        id: prepared.id.clone(),
        result_metadata_id: prepared.result_metadata_id.clone(),
        parameters: QueryParameters { values: values.iter().copied().collect(), ..parameters },
    })
}

fn texts(rows: &Rows, column: usize) -> Vec<String> {
    let text = |cell: Option<&[u8]>| String::from_utf8(cell.unwrap_or(b"null").to_vec()).unwrap();
    rows.iter().map(|mut cells| text(cells.nth(column).unwrap())).collect()
}

const ONE: Value<'static> = Value::Set(&[0, 0, 0, 1]);
const TWO: Value<'static> = Value::Set(&[0, 0, 0, 2]);

#[test]
fn a_request_that_has_a_thread_of_its_own_is_seen_while_it_runs_and_not_after() {
    let served = Served::start();
    let mut client = served.connect_with_table(Version::V5);
    let select = "SELECT thread_id, task FROM system_views.queries";
    for _ in 0..3 {
        let running = client.rows(&query_with(select, QueryParameters::default()), None);
        assert_eq!(texts(&running, 0), ["Native-Transport-Requests-1"]);
        assert_eq!(texts(&running, 1), [format!("QUERY {select} [pageSize = -1] at consistency ONE")]);
    }
    let prepared = client.prepare(select);
    let running = client.rows(&execute(&prepared, &[], QueryParameters::default()), None);
    let id: String = prepared.id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(texts(&running, 1), [format!("EXECUTE {id} with 0 values at consistency ONE: {select}")]);
}

#[test]
fn a_traced_request_is_answered_with_the_id_of_its_trace_which_can_be_read_then() {
    let served = Served::start();
    let mut client = served.connect_with_table(Version::V5);
    let insert = client.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)");
    for (request, name, parameter, activity) in [
        (
            execute(&insert, &[ONE, TWO, Value::Set(b"two")], QueryParameters::default()),
            "Execute CQL3 prepared query",
            ("bound_var_2_v", "'two'"),
            "Adding to t memtable",
        ),
        (
            query_with("SELECT * FROM t WHERE k = 1", QueryParameters::default()),
            "Execute CQL3 query",
            ("query", "SELECT * FROM t WHERE k = 1"),
            "Merging memtable contents",
        ),
    ] {
        let id = client.traced(&request).1.expect("a trace");
        let select = format!(
            "SELECT request, parameters['{}'], client FROM system_traces.sessions WHERE session_id = {id}",
            parameter.0
        );
        let session = client.rows(&query_with(&select, QueryParameters::default()), None);
        assert_eq!(texts(&session, 0), [name]);
        assert_eq!(texts(&session, 1), [parameter.1]);
        assert_eq!(texts(&session, 2), ["\u{7f}\0\0\u{1}"]);
        let select = format!("SELECT activity FROM system_traces.events WHERE session_id = {id}");
        let events = texts(&client.rows(&query_with(&select, QueryParameters::default()), None), 0);
        assert!(events.iter().any(|event| event == activity), "{events:?}");
    }
    let wrong = query_with("SELECT nothing FROM t", QueryParameters::default());
    let (response, id) = client.traced(&wrong);
    assert!(matches!(response, Response::Error(_)) && id.is_some());
}

#[test]
fn requests_that_did_not_ask_for_it_are_traced_by_chance_and_not_told() {
    let served = Served::start();
    let mut client = served.connect_with_table(Version::V5);
    let sessions = query_with("SELECT request FROM system_traces.sessions", QueryParameters::default());
    assert!(texts(&client.rows(&sessions, None), 0).is_empty());
    served.database.set_trace_probability(1.0);
    let select = query_with("SELECT * FROM t WHERE k = 1", QueryParameters::default());
    client.encoder.request(1, &select, false);
    client.encoder.seal();
    client.stream.write_all(client.encoder.bytes()).unwrap();
    client.encoder.clear(usize::MAX);
    assert_eq!(client.receive_with_prelude().1.tracing_id, None);
    served.database.set_trace_probability(0.0);
    assert_eq!(texts(&client.rows(&sessions, None), 0), ["Execute CQL3 query"]);
}

#[test]
fn what_is_written_by_prepared_statements_is_read_back() {
    let served = Served::start();
    for version in Version::SUPPORTED {
        let mut client =
            if version == Version::V3 { served.connect_with_table(version) } else { served.connect(version) };
        client.query("TRUNCATE ks.t");
        let insert = client.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
        assert_eq!(insert.partition_key_indexes, if version == Version::V3 { vec![] } else { vec![0] });
        let markers: Vec<_> = insert.bind_markers.columns().iter().map(|column| &*column.name).collect();
        assert_eq!(markers, ["k", "c", "v"]);
        for (c, v) in [(ONE, Value::Set(b"one")), (TWO, Value::Null)] {
            let request = execute(&insert, &[ONE, c, v], QueryParameters::default());
            assert_eq!(client.result(&request), ResultMessage::Void);
        }
        let select = client.prepare("SELECT v FROM ks.t WHERE k = ?");
        for skip_metadata in [false, true] {
            let parameters = QueryParameters { skip_metadata, ..QueryParameters::default() };
            let rows = client.rows(&execute(&select, &[ONE], parameters), Some(&select.result_metadata));
            assert_eq!(rows.metadata, select.result_metadata);
            assert_eq!(texts(&rows, 0), ["one", "null"]);
        }
    }
}

#[test]
fn values_may_be_named() {
    let served = Served::start();
    let mut client = served.connect_with_table(Version::V4);
    let values =
        Values::named([("c".to_owned(), TWO), ("v".to_owned(), Value::Set(b"named")), ("k".to_owned(), ONE)]);
    let parameters = QueryParameters { values, ..QueryParameters::default() };
    client.result(&query_with("INSERT INTO t (k, c, v) VALUES (:k, :c, :v)", parameters));
    let rows =
        client.rows(&query_with("SELECT v FROM t WHERE k = 1 AND c = 2", QueryParameters::default()), None);
    assert_eq!(texts(&rows, 0), ["named"]);
}

#[test]
fn pages_follow_one_another() {
    let served = Served::start();
    let mut client = served.connect_with_table(Version::V5);
    let insert = client.prepare("INSERT INTO t (k, c, v) VALUES (1, ?, ?)");
    for c in 0..25i32 {
        let (c, v) = (c.to_be_bytes(), c.to_string());
        client.result(&execute(
            &insert,
            &[Value::Set(&c), Value::Set(v.as_bytes())],
            QueryParameters::default(),
        ));
    }
    let select = client.prepare("SELECT v FROM t WHERE k = ?");
    let (mut read, mut paging_state) = (Vec::new(), None);
    loop {
        let parameters = QueryParameters {
            page_size: Some(10),
            paging_state: paging_state.take(),
            ..QueryParameters::default()
        };
        let rows = client.rows(&execute(&select, &[ONE], parameters), None);
        read.extend(texts(&rows, 0));
        paging_state = rows.paging_state;
        if paging_state.is_none() {
            break;
        }
    }
    assert_eq!(read, (0..25).map(|c| c.to_string()).collect::<Vec<_>>());
}

#[test]
fn batches_mix_texts_and_prepared_statements() {
    let served = Served::start();
    let mut client = served.connect_with_table(Version::V4);
    let insert = client.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)");
    let statement =
        |source, values: &[Value<'_>]| BatchStatement { source, values: values.iter().copied().collect() };
    let batch = Request::Batch(Batch {
        batch_type: BatchType::Logged,
        statements: vec![
            statement(StatementSource::Prepared(insert.id.clone()), &[ONE, ONE, Value::Set(b"a")]),
            statement(
                StatementSource::Query("INSERT INTO t (k, c, v) VALUES (1, 2, ?)".into()),
                &[Value::Set(b"b")],
            ),
        ],
        parameters: QueryParameters::default(),
    });
    assert_eq!(client.result(&batch), ResultMessage::Void);
    let rows = client.rows(&query_with("SELECT v FROM t WHERE k = 1", QueryParameters::default()), None);
    assert_eq!(texts(&rows, 0), ["a", "b"]);
}

#[test]
fn statements_that_are_not_prepared_are_named() {
    let served = Served::start();
    let mut client = served.connect(Version::V4);
    let id = Bytes::from_static(&[7; 16]);
    let request = Request::Execute(Execute {
        id: id.clone(),
        result_metadata_id: None,
        parameters: QueryParameters::default(),
    });
    assert_eq!(client.error(&request).detail, ErrorDetail::Unprepared { id: id.clone() });
    let batch = Request::Batch(Batch {
        batch_type: BatchType::Unlogged,
        statements: vec![BatchStatement {
            source: StatementSource::Prepared(id.clone()),
            values: Values::default(),
        }],
        parameters: QueryParameters::default(),
    });
    assert_eq!(client.error(&batch).detail, ErrorDetail::Unprepared { id });
}

#[test]
fn clients_learn_that_the_columns_of_a_prepared_statement_have_changed() {
    let served = Served::start();
    let mut v5 = served.connect_with_table(Version::V5);
    let mut v4 = served.connect(Version::V4);
    v5.query("INSERT INTO t (k, c, v) VALUES (1, 1, 'x')");
    let known = v5.prepare("SELECT * FROM ks.t WHERE k = ?");
    let known_to_v4 = v4.prepare("SELECT * FROM ks.t WHERE k = ?");
    v5.query("ALTER TABLE t ADD added int");
    let skip = || QueryParameters { skip_metadata: true, ..QueryParameters::default() };

    let unprepared = ErrorDetail::Unprepared { id: known.id.clone() };
    assert_eq!(v5.error(&execute(&known, &[ONE], skip())).detail, unprepared);
    // It is prepared again by another client.
    v4.prepare("SELECT * FROM ks.t WHERE k = ?");
    let rows = v5.rows(&execute(&known, &[ONE], skip()), None);
    let new_id = rows.new_metadata_id.clone().expect("the id is new");
    assert_ne!(Some(&new_id), known.result_metadata_id.as_ref());
    assert_eq!(rows.metadata.columns().len(), 4);
    let known = Prepared { result_metadata_id: Some(new_id), result_metadata: rows.metadata, ..known };
    let rows = v5.rows(&execute(&known, &[ONE], skip()), None);
    assert_eq!((rows.columns_count(), rows.metadata.columns().len()), (4, 0), "it knows them now");

    let rows = v4.rows(&execute(&known_to_v4, &[ONE], skip()), None);
    assert_eq!(rows.metadata.columns().len(), 4, "v4 cannot say what it knows, so it is told");
}

#[test]
fn results_of_conditions_bring_their_columns_however_the_client_asks() {
    let served = Served::start();
    let mut client = served.connect_with_table(Version::V5);
    let insert = client.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, 'first') IF NOT EXISTS");
    let skip = || QueryParameters { skip_metadata: true, ..QueryParameters::default() };
    let names = |rows: &Rows| -> Vec<String> {
        rows.metadata.columns().iter().map(|column| column.name.to_string()).collect()
    };
    let rows = client.rows(&execute(&insert, &[ONE, ONE], skip()), None);
    assert_eq!(names(&rows), ["[applied]"]);
    let rows = client.rows(&execute(&insert, &[ONE, ONE], skip()), None);
    assert_eq!(names(&rows), ["[applied]", "k", "c", "v"]);
}

#[test]
fn schema_changes_are_told_to_the_one_who_made_them_and_to_those_who_registered() {
    let served = Served::start();
    let mut registered = served.connect(Version::V4);
    let register = Register { event_types: vec![EventType::SchemaChange] };
    assert_eq!(registered.ask(&Request::Register(register)), Response::Ready);
    let mut client = served.connect_with_table(Version::V5);
    let change = |change, target| SchemaChange { change, keyspace: "ks".into(), target };
    assert_eq!(
        client.query("DROP TABLE t"),
        ResultMessage::SchemaChange(change(ChangeType::Dropped, SchemaTarget::Table("t".into())))
    );
    let expected = [
        change(ChangeType::Created, SchemaTarget::Keyspace),
        change(ChangeType::Created, SchemaTarget::Table("t".into())),
        change(ChangeType::Dropped, SchemaTarget::Table("t".into())),
    ];
    for change in expected {
        assert_eq!(registered.receive(), Response::Event(Event::SchemaChange(change)));
    }
}

#[test]
fn errors_have_cassandras_codes() {
    let served = Served::start();
    let mut client = served.connect_with_table(Version::V4);
    let mut detail = |query: &str| client.error(&query_with(query, QueryParameters::default())).detail;
    assert_eq!(detail("SELEC 1"), ErrorDetail::SyntaxError);
    assert_eq!(detail("SELECT nothing FROM t"), ErrorDetail::Invalid);
    assert_eq!(
        detail("CREATE TABLE t (k int PRIMARY KEY)"),
        ErrorDetail::AlreadyExists { keyspace: "ks".into(), table: "t".into() }
    );
    assert_eq!(detail("INSERT INTO system.local (key) VALUES ('x')"), ErrorDetail::Unauthorized);
}

/// From protocol version 5 on the error contains the reason for each replica; before, their number.
#[test]
fn reads_that_guardrails_end_carry_their_reason_codes_on_the_wire() {
    let server = Served::start();
    let mut client = server.connect_with_table(Version::V5);
    client.query("CREATE TABLE i (k int PRIMARY KEY, v int, w int)");
    client.query("CREATE INDEX ON i (v)");
    for k in 0..4 {
        client.query(&format!("INSERT INTO t (k, c, v) VALUES (1, {k}, 'aaaaaaaaaaaaaaaaaaaa')"));
        client.query(&format!("INSERT INTO i (k, v, w) VALUES ({k}, 1, null)"));
    }
    let guardrails = server.database.guardrails();
    let set = |name: &str, value: &str| guardrails.set_by_name(name, &[value.to_owned()]).unwrap();
    let (too_many_tombstones, read_size) = (1, 4);
    let cases = [
        ("tombstone_failure_threshold", "2", "SELECT * FROM i WHERE v = 1", too_many_tombstones, false),
        ("coordinator_read_size", "50B", "SELECT v FROM t WHERE k = 1", read_size, true),
        ("local_read_size", "150B", "SELECT v FROM t WHERE k = 1", read_size, false),
    ];
    for (guardrail, value, statement, reason, has_data) in cases {
        match guardrail {
            "tombstone_failure_threshold" => set(guardrail, value),
            _ => {
                set("read_thresholds_enabled", "true");
                let pair = [value.to_owned(), "null".to_owned()];
                guardrails.set_by_name(&format!("{guardrail}_threshold"), &pair).unwrap();
            }
        }
        for version in [Version::V4, Version::V5] {
            let mut client = server.connect(version);
            client.query("USE ks");
            let request = query_with(statement, QueryParameters::default());
            let ErrorDetail::ReadFailure { received, block_for, failures, data_present, .. } =
                client.error(&request).detail
            else {
                panic!("{statement}");
            };
            let expected = match version {
                Version::V5 => Failures::Reasons(vec![("127.0.0.1".parse().unwrap(), reason)]),
                _ => Failures::Count(1),
            };
            assert_eq!((received, block_for, failures), (0, 1, expected), "{statement}");
            assert_eq!(data_present, has_data, "{statement}");
        }
        match guardrail {
            "tombstone_failure_threshold" => set(guardrail, "100000"),
            _ => {
                let pair = ["null".to_owned(), "null".to_owned()];
                guardrails.set_by_name(&format!("{guardrail}_threshold"), &pair).unwrap();
            }
        }
    }
}
