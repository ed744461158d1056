//! Tests the client on an in-memory server built on the other side of the protocol crate.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cassette_protocol::response::{Authenticate, Error, ErrorDetail, Prepared};
use cassette_protocol::{
    ColumnSpec, Consistency, Decoder, Direction, EncodedRows, Encoder, Envelope, MetadataMode, Prelude,
    Request, Response, ResultMessage, ResultMetadata, RowsEncoder, Version,
};
use cassette_rows::types::DataType;

use super::{CqlSettings, CqlTarget};
use crate::benchmark::{Benchmark, Observer};
use crate::recording::LiveView;
use crate::results::PhaseReport;
use crate::run::Target;
use crate::ycsb::CoreWorkload;

type Records = BTreeMap<Vec<u8>, BTreeMap<String, Vec<u8>>>;

/// A server for `usertable`, with faults.
#[derive(Default)]
pub(crate) struct Fake {
    pub records: Mutex<Records>,
    pub queries: Mutex<Vec<String>>,
    pub refuse_updates: bool,
    pub spoil: bool,
    /// Closes a connection after this many EXECUTEs.
    pub close_after: Option<usize>,
    /// Evicts its prepared statements once, after this many EXECUTEs.
    pub forget_after: Option<usize>,
    pub executed: AtomicUsize,
    /// Statements prepared again since.
    pub remembered: Mutex<BTreeSet<String>>,
    /// Requires this SASL token.
    pub token: Option<&'static [u8]>,
}

impl Fake {
    /// Serves on a free port until the test process ends. Returns the address.
    pub fn serve(self: &Arc<Self>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let fake = Arc::clone(self);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let fake = Arc::clone(&fake);
                std::thread::spawn(move || fake.connection(stream.unwrap()));
            }
        });
        address
    }

    fn connection(&self, mut stream: TcpStream) {
        let mut decoder = Decoder::new(Direction::Request, 1 << 20);
        let mut encoder = Encoder::new(Version::V5);
        let (mut input, mut buffer) = (BytesMut::new(), [0; 1 << 16]);
        let mut executed = 0;
        loop {
            let Ok(length @ 1..) = stream.read(&mut buffer) else { return };
            input.extend_from_slice(&buffer[..length]);
            let mut envelopes = Vec::new();
            while let Some(envelope) = decoder.next(&mut input).unwrap() {
                let starts = envelope.header.opcode == cassette_protocol::Opcode::Startup;
                envelopes.push(envelope);
                if starts {
                    // Frames follow STARTUP; the client waits before it sends any.
                    break;
                }
            }
            // Answers the last request first, because responses may arrive in any order.
            for envelope in envelopes.iter().rev() {
                let (request, _) = decode(envelope);
                let version = envelope.header.version;
                executed += usize::from(matches!(request, Request::Execute(_)));
                if self.close_after.is_some_and(|after| executed > after) {
                    return;
                }
                let starts = matches!(request, Request::Startup(_));
                if starts {
                    encoder = Encoder::new(version);
                }
                let response = self.answer(request, version);
                encoder.response(envelope.header.stream, &response, &Prelude::default());
                if starts {
                    encoder.fix_version(version, None);
                    decoder.fix_version(version, None);
                }
            }
            encoder.seal();
            if stream.write_all(encoder.bytes()).is_err() {
                return;
            }
            encoder.clear(usize::MAX);
        }
    }

    fn answer(&self, request: Request, version: Version) -> Response {
        let void = Response::Result(ResultMessage::Void);
        match request {
            Request::Startup(_) if self.token.is_some() => {
                Response::Authenticate(Authenticate { authenticator: "PasswordAuthenticator".into() })
            }
            Request::Startup(_) => Response::Ready,
            Request::AuthResponse(response) if response.token.as_deref() == self.token => {
                Response::AuthSuccess(cassette_protocol::response::AuthSuccess { token: None })
            }
            Request::AuthResponse(_) => error(ErrorDetail::BadCredentials),
            Request::Query(query) => {
                self.queries.lock().unwrap().push(query.query.to_string());
                if query.query.starts_with("SELECT release_version") {
                    rows(version, 2, &[vec![Some(b"5.0.8".to_vec()), Some(b"Murmur3".to_vec())]])
                } else if query.query.starts_with("SELECT") {
                    error(ErrorDetail::Invalid)
                } else {
                    void
                }
            }
            Request::Prepare(prepare) if self.forgot() => {
                self.remembered.lock().unwrap().insert(prepare.query.to_string());
                prepared(prepare.query.into(), version)
            }
            Request::Prepare(prepare) => prepared(prepare.query.into(), version),
            Request::Execute(execute) => {
                assert_eq!(execute.result_metadata_id.is_some(), version >= Version::V5);
                assert_eq!(execute.parameters.consistency, Consistency::Quorum);
                assert!(execute.parameters.skip_metadata);
                let query = std::str::from_utf8(&execute.id).unwrap();
                self.executed.fetch_add(1, Ordering::Relaxed);
                if self.forgot() && !self.remembered.lock().unwrap().contains(query) {
                    return error(ErrorDetail::Unprepared { id: execute.id.clone() });
                }
                let values = execute.parameters.values.iter().map(|value| value.set().unwrap().to_vec());
                self.execute(query, values.collect(), version)
            }
            other => panic!("{} was not expected", other.opcode()),
        }
    }

    fn forgot(&self) -> bool {
        self.forget_after.is_some_and(|after| self.executed.load(Ordering::Relaxed) > after)
    }

    fn execute(&self, query: &str, values: Vec<Vec<u8>>, version: Version) -> Response {
        let mut records = self.records.lock().unwrap();
        let fields = |query: &str| -> Vec<String> {
            let words = query.split([' ', ',', '(', ')']);
            words.filter(|word| word.starts_with("field")).map(str::to_string).collect()
        };
        let read = |from: &[u8], length: usize| {
            let found = records.range(from.to_vec()..).take(length);
            let rows_found: Vec<Vec<Option<Vec<u8>>>> = found
                .map(|(key, record)| {
                    let spoilt = |value: &Vec<u8>| if self.spoil { b"x".to_vec() } else { value.clone() };
                    let cells = fields(query).into_iter().map(|name| record.get(&name).map(spoilt));
                    std::iter::once(Some(key.clone())).chain(cells).collect()
                })
                .collect();
            rows(version, 1 + fields(query).len(), &rows_found)
        };
        if query.starts_with("INSERT") {
            let record = fields(query).into_iter().zip(values[1..].iter().cloned()).collect();
            records.insert(values[0].clone(), record);
        } else if query.starts_with("UPDATE") {
            if self.refuse_updates {
                return error(ErrorDetail::Overloaded);
            }
            let (key, values) = values.split_last().unwrap();
            let record = records.get_mut(key).expect("only keys that are there are updated");
            record.extend(fields(query).into_iter().zip(values.iter().cloned()));
        } else if query.contains("token(y_id) >= token(?)") {
            return read(&values[0], i32::from_be_bytes(values[1][..].try_into().unwrap()) as usize);
        } else {
            let there = usize::from(records.contains_key(&values[0]));
            return read(&values[0], there);
        }
        Response::Result(ResultMessage::Void)
    }
}

fn prepared(query: String, version: Version) -> Response {
    Response::Result(ResultMessage::Prepared(Prepared {
        id: Bytes::from(query),
        result_metadata_id: (version >= Version::V5).then(|| Bytes::from_static(b"known")),
        bind_markers: ResultMetadata::default(),
        partition_key_indexes: Vec::new(),
        result_metadata: ResultMetadata::default(),
    }))
}

fn decode(envelope: &Envelope) -> (Request, ()) {
    (Request::decode(envelope).unwrap().request, ())
}

fn error(detail: ErrorDetail) -> Response {
    Response::Error(Error::new(detail, "requested by the test"))
}

fn rows(version: Version, columns: usize, content: &[Vec<Option<Vec<u8>>>]) -> Response {
    let column = |index: usize| ColumnSpec {
        keyspace: "ycsb".into(),
        table: "usertable".into(),
        name: format!("c{index}").into(),
        data_type: DataType::Text,
    };
    let metadata = ResultMetadata::new((0..columns).map(column).collect());
    let mut body = Vec::new();
    let mut encoder = RowsEncoder::begin(&mut body, version, &metadata, MetadataMode::Skip);
    for row in content {
        row.iter().for_each(|cell| encoder.push(cell.as_deref()));
        encoder.end_row();
    }
    encoder.finish(None);
    Response::Result(ResultMessage::Rows(EncodedRows::new(body.into(), version)))
}

pub(crate) fn settings(address: String) -> CqlSettings {
    CqlSettings {
        connections: 2,
        keyspace: "ycsb".into(),
        consistency: Consistency::Quorum,
        ..CqlSettings::new(vec![address])
    }
}

struct Silent;

impl Observer for Silent {
    fn on_phase_start(&self, _: &crate::run::PhasePlan) {}
    fn on_progress(&self, _: &LiveView) {}
    fn on_phase_end(&self, _: &PhaseReport) {}
}

fn perform(
    fake: Fake,
    change: impl FnOnce(&mut CqlSettings, &mut Benchmark),
) -> (Arc<Fake>, Vec<PhaseReport>) {
    let fake = Arc::new(fake);
    let mut settings = settings(fake.serve());
    let workload = |letter: char| {
        let mut workload = CoreWorkload::core(letter).unwrap();
        (workload.record_count, workload.operation_count) = (300, 1000);
        workload.max_scan_length = workload.max_scan_length.min(10);
        workload.data_integrity = true;
        (letter.to_string(), workload)
    };
    let mut benchmark = Benchmark {
        workloads: ('a'..='f').map(workload).collect(),
        load: true,
        run: true,
        replace: true,
        in_flight: 16,
        rate: None,
        spin: false,
        seed: 1,
        repeats: 1,
        settle: Duration::ZERO,
        server_pid: None,
    };
    change(&mut settings, &mut benchmark);
    let mut target = CqlTarget::new(settings).unwrap();
    let reports = benchmark.perform(&mut target, &Silent).unwrap();
    (fake, reports)
}

#[test]
fn all_workloads_verify_in_every_protocol_version() {
    for version in Version::SUPPORTED {
        let (fake, reports) = perform(Fake::default(), |settings, _| settings.version = version);
        for report in &reports {
            assert_eq!(
                (report.failed, &report.stopped),
                (0, &None),
                "{}: {:?}",
                report.name,
                report.failures
            );
        }
        assert_eq!(reports.iter().map(|report| report.operations).sum::<u64>(), 300 + 6 * 1000);
        let f = &reports[6];
        let count = |kind| f.latencies[kind].response.count;
        assert_eq!(count("READ"), 1000, "plain reads and those of read-modify-writes");
        assert_eq!(count("UPDATE"), count("READ-MODIFY-WRITE"));
        assert!(fake.records.lock().unwrap().len() > 300, "D and E inserted");
        let queries = fake.queries.lock().unwrap();
        assert!(queries.contains(&"DROP TABLE IF EXISTS ycsb.usertable".to_string()));
    }
}

#[test]
fn an_open_loop_keeps_its_rate_with_single_field_operations() {
    let (_, reports) = perform(Fake::default(), |_, benchmark| {
        benchmark.workloads.truncate(1);
        benchmark.workloads[0].1.read_all_fields = false;
        benchmark.rate = Some(5000.0);
    });
    assert_eq!((reports[1].operations, reports[1].failed), (1000, 0));
    assert!(reports[1].seconds >= 0.199, "{}", reports[1].seconds);
    assert!(reports[1].latencies["READ"].service.is_some());
}

#[test]
fn errors_are_counted_by_class_and_wrong_data_is_detected() {
    let (_, reports) = perform(Fake { refuse_updates: true, ..Fake::default() }, |_, _| {});
    let a = &reports[1];
    assert_eq!(a.failures["Overloaded"].count, a.failed);
    assert!(!a.latencies.contains_key("UPDATE"));
    assert_eq!(a.failed + a.latencies["READ"].response.count, 1000);
    let (_, reports) = perform(Fake { spoil: true, ..Fake::default() }, |_, benchmark| {
        benchmark.workloads.drain(..2);
    });
    assert_eq!(reports[1].failures["wrong data"].count, 1000);
}

#[test]
fn an_evicted_statement_is_prepared_again_without_failures() {
    let (fake, reports) = perform(Fake { forget_after: Some(200), ..Fake::default() }, |_, _| {});
    for report in &reports {
        assert_eq!((report.failed, &report.stopped), (0, &None), "{}: {:?}", report.name, report.failures);
    }
    assert_eq!(reports.iter().map(|report| report.operations).sum::<u64>(), 300 + 6 * 1000);
    assert!(fake.remembered.lock().unwrap().len() >= 4);
}

#[test]
fn a_lost_connection_fails_requests_in_flight_and_ends_the_benchmark() {
    let (_, reports) = perform(Fake { close_after: Some(100), ..Fake::default() }, |_, _| {});
    assert_eq!(reports.len(), 1);
    assert!(reports[0].stopped.as_ref().unwrap().starts_with("connection lost"));
    assert_eq!(reports[0].failures["connection lost"].count, reports[0].failed);
    assert!(reports[0].failed > 0);
}

#[test]
fn password_authentication_succeeds_and_reports_a_wrong_password() {
    let fake = Arc::new(Fake { token: Some(b"\0me\0secret"), ..Fake::default() });
    let with = |credentials: Option<(&str, &str)>| {
        let mut settings = settings(fake.serve());
        settings.credentials = credentials.map(|(user, password)| (user.into(), password.into()));
        CqlTarget::new(settings).map(|target| target.describe().version).map_err(|error| error.to_string())
    };
    assert_eq!(with(Some(("me", "secret"))), Ok("5.0.8".into()));
    assert!(with(Some(("me", "wrong"))).unwrap_err().contains("BadCredentials"));
    assert!(with(None).unwrap_err().contains("requires a user and a password"));
}
