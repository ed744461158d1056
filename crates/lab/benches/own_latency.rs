//! Measures the latency added by `cassette lab`: reads through its whole client, compared with a
//! loop that writes and reads the same bytes on the same server, with nothing between the clock and
//! the socket.
//!
//! The server responds to every EXECUTE at once with a row of 1 KB. `ROUNDS` (5), `OPERATIONS`
//! (50000) per round.
//!
//! Everything runs on one processor, where a context switch always takes the same few microseconds.
//! Between two processors, a virtual machine may take 5 or 75 to wake the other one, varying over
//! time, which would hide the difference.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use cassette_lab::benchmark::{Benchmark, Observer};
use cassette_lab::cql::{CqlSettings, CqlTarget};
use cassette_lab::recording::LiveView;
use cassette_lab::results::PhaseReport;
use cassette_lab::ycsb::CoreWorkload;
use cassette_protocol::request::{Execute, Startup};
use cassette_protocol::response::Prepared;
use cassette_protocol::{
    ColumnSpec, Consistency, Decoder, Direction, EncodedRows, Encoder, MetadataMode, Opcode, Prelude,
    QueryParameters, Request, Response, ResultMessage, ResultMetadata, RowsEncoder, Version,
};
use cassette_rows::types::DataType;

fn main() {
    let count = |name: &str, default: usize| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (rounds, operations) = (count("ROUNDS", 5), count("OPERATIONS", 50_000));
    stay_on_one_processor();
    let address = serve();
    println!("round, then p50 and mean in µs: plain loop, cassette lab, difference");
    let (mut of_p50, mut of_mean) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let (plain_p50, plain_mean) = plain(&address, operations);
        let (p50, mean) = laboratory(&address, operations);
        println!(
            "{round}: {plain_p50:.2} {plain_mean:.2}, {p50:.2} {mean:.2}, {:+.2} {:+.2}",
            p50 - plain_p50,
            mean - plain_mean
        );
        of_p50.push(p50 - plain_p50);
        of_mean.push(mean - plain_mean);
    }
    for differences in [&mut of_p50, &mut of_mean] {
        differences.sort_by(f64::total_cmp);
    }
    println!(
        "medians of the differences: {:+.2} µs of p50, {:+.2} of the mean",
        of_p50[rounds / 2],
        of_mean[rounds / 2]
    );
}

/// Pins this thread, and all threads started later, to the last processor.
fn stay_on_one_processor() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let allowed = sched_getaffinity(None).expect("the processors of this thread");
    let last = (0..CpuSet::MAX_CPU).rev().find(|processor| allowed.is_set(*processor)).expect("it has one");
    let mut one = CpuSet::new();
    one.set(last);
    sched_setaffinity(None, &one).expect("a processor of those it had");
}

/// Reads sequentially, timed from just before the request is written until the whole response has
/// arrived.
fn plain(address: &str, operations: usize) -> (f64, f64) {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    let mut buffer = vec![0; 1 << 16];
    let mut encoder = Encoder::new(Version::V5);
    let startup = Startup { options: vec![("CQL_VERSION".into(), "3.0.0".into())] };
    encoder.request(0, &Request::Startup(startup), false);
    stream.write_all(encoder.bytes()).expect("written");
    assert!(stream.read(&mut buffer).expect("an answer") > 0);
    encoder.clear(usize::MAX);
    encoder.fix_version(Version::V5, None);
    let parameters = QueryParameters {
        consistency: Consistency::Quorum,
        skip_metadata: true,
        ..QueryParameters::default()
    };
    let execute = Execute {
        id: Bytes::from_static(b"read"),
        result_metadata_id: Some(Bytes::from_static(b"m")),
        parameters,
    };
    encoder.request(0, &Request::Execute(execute), false);
    encoder.seal();
    let request = encoder.bytes().to_vec();
    // Length of a response, from the first one.
    stream.write_all(&request).expect("written");
    std::thread::sleep(Duration::from_millis(50));
    let length = stream.read(&mut buffer).expect("an answer");
    let mut times: Vec<f64> = (0..operations)
        .map(|_| {
            let start = Instant::now();
            stream.write_all(&request).expect("written");
            stream.read_exact(&mut buffer[..length]).expect("an answer");
            start.elapsed().as_nanos() as f64 / 1e3
        })
        .collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], mean)
}

struct Silent;

impl Observer for Silent {
    fn on_phase_start(&self, _: &cassette_lab::run::PhasePlan) {}
    fn on_progress(&self, _: &LiveView) {}
    fn on_phase_end(&self, _: &PhaseReport) {}
}

fn laboratory(address: &str, operations: usize) -> (f64, f64) {
    let mut workload = CoreWorkload::core('c').expect("it is a core workload");
    (workload.record_count, workload.operation_count) = (1000, operations as u64);
    let benchmark = Benchmark {
        workloads: vec![("c".into(), workload)],
        load: false,
        run: true,
        replace: false,
        in_flight: 1,
        rate: None,
        spin: false,
        seed: 1,
        repeats: 1,
        settle: Duration::ZERO,
        server_pid: None,
    };
    let settings = CqlSettings {
        keyspace: "ycsb".into(),
        consistency: Consistency::Quorum,
        ..CqlSettings::new(vec![address.into()])
    };
    let mut target = CqlTarget::new(settings).expect("the server answers");
    let reports = benchmark.perform(&mut target, &Silent).expect("it runs");
    assert_eq!(reports[0].failed, 0, "{:?}", reports[0].failures);
    let read = &reports[0].latencies["READ"].response;
    (read.p50_us, read.mean_us)
}

/// Serves until the process ends. Returns the address.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(stream));
        }
    });
    address
}

fn answer_all(mut stream: TcpStream) {
    let mut decoder = Decoder::new(Direction::Request, 1 << 20);
    let mut encoder = Encoder::new(Version::V5);
    let (mut input, mut buffer) = (BytesMut::new(), [0; 1 << 16]);
    let row = row();
    stream.set_nodelay(true).expect("a socket");
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        input.extend_from_slice(&buffer[..length]);
        while let Some(envelope) = decoder.next(&mut input).expect("frames") {
            let stream = envelope.header.stream;
            if envelope.header.opcode == Opcode::Execute {
                encoder.response(stream, &row, &Prelude::default());
                continue;
            }
            let response = match Request::decode(&envelope).expect("a request").request {
                Request::Startup(_) => Response::Ready,
                Request::Prepare(_) => Response::Result(ResultMessage::Prepared(Prepared {
                    id: Bytes::from_static(b"read"),
                    result_metadata_id: Some(Bytes::from_static(b"m")),
                    bind_markers: ResultMetadata::default(),
                    partition_key_indexes: Vec::new(),
                    result_metadata: ResultMetadata::default(),
                })),
                _ => Response::Result(ResultMessage::Void),
            };
            encoder.response(stream, &response, &Prelude::default());
            if envelope.header.opcode == Opcode::Startup {
                encoder.fix_version(Version::V5, None);
                decoder.fix_version(Version::V5, None);
            }
        }
        encoder.seal();
        if stream.write_all(encoder.bytes()).is_err() {
            return;
        }
        encoder.clear(usize::MAX);
    }
}

/// A row of YCSB: the key and ten fields of 100 bytes.
fn row() -> Response {
    let column = |index: usize| ColumnSpec {
        keyspace: "ycsb".into(),
        table: "usertable".into(),
        name: format!("field{index}").into(),
        data_type: DataType::Text,
    };
    let metadata = ResultMetadata::new((0..11).map(column).collect());
    let mut body = Vec::new();
    let mut encoder = RowsEncoder::begin(&mut body, Version::V5, &metadata, MetadataMode::Skip);
    encoder.push(Some(b"user6284781860667377211"));
    (0..10).for_each(|_| encoder.push(Some(&[b'x'; 100])));
    encoder.end_row();
    encoder.finish(None);
    Response::Result(ResultMessage::Rows(EncodedRows::new(body.into(), Version::V5)))
}
