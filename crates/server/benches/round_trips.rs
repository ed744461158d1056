//! The cost of the server itself: requests over loopback to a backend that does nothing.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use cassette_protocol::{
    Decoder, Direction, Encoder, MESSAGE_LENGTH_MAX_DEFAULT, Prelude, QueryParameters, Request, ResultKind,
    Value, Version,
    request::{Execute, Startup},
    response::{Error, SchemaChange},
};
use cassette_server::{Answer, Backend, Body, Effort, Server, ServerConfig};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use uuid::Uuid;

struct Nothing;

impl Backend for Nothing {
    type Session = ();
    type Subscription = ();

    fn open_session(&self, _peer: SocketAddr) {}

    fn new_trace(&self) -> Uuid {
        Uuid::nil()
    }

    fn execute(
        &self,
        (): &(),
        _request: &Request,
        _version: Version,
        _effort: Effort,
        _trace: Option<Uuid>,
        body: Body<'_>,
    ) -> Result<Answer, Error> {
        ResultKind::Void.encode(body.buffer);
        Ok(Answer::Result(Prelude::default()))
    }

    fn subscribe(&self, _listener: Box<dyn Fn(&SchemaChange) + Send + Sync>) {}
}

/// Sends the content of the encoder, and reads this many responses.
fn exchange(
    stream: &mut TcpStream,
    encoder: &mut Encoder,
    decoder: &mut Decoder,
    input: &mut BytesMut,
    count: usize,
) {
    encoder.seal();
    stream.write_all(encoder.bytes()).expect("the server reads");
    encoder.clear(usize::MAX);
    let mut received = 0;
    while received < count {
        let mut chunk = [0; 16 * 1024];
        let length = stream.read(&mut chunk).expect("the server answers");
        input.extend_from_slice(&chunk[..length]);
        while decoder.next(input).expect("the server speaks the protocol").is_some() {
            received += 1;
        }
    }
}

fn round_trips(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let config = ServerConfig { listen_address: ([127, 0, 0, 1], 0).into(), ..ServerConfig::default() };
    let server = runtime.block_on(Server::bind(config, Arc::new(Nothing))).expect("a free port");
    let address = server.local_address().expect("it is bound");
    runtime.spawn(server.serve(std::future::pending()));

    let mut group = criterion.benchmark_group("round_trips_of_1_kb_writes");
    for (version, in_flight) in [(Version::V4, 1), (Version::V4, 16), (Version::V5, 16), (Version::V4, 128)] {
        let mut stream = TcpStream::connect(address).expect("the server listens");
        let mut encoder = Encoder::new(version);
        let mut decoder = Decoder::new(Direction::Response, MESSAGE_LENGTH_MAX_DEFAULT);
        let mut input = BytesMut::new();
        let startup = Startup { options: vec![(Startup::CQL_VERSION.into(), "3.0.0".into())] };
        encoder.request(0, &Request::Startup(startup), false);
        exchange(&mut stream, &mut encoder, &mut decoder, &mut input, 1);
        encoder.fix_version(version, None);
        decoder.fix_version(version, None);
        let execute = Request::Execute(Execute {
            id: Bytes::from_static(&[1; 16]),
            result_metadata_id: None,
            parameters: QueryParameters {
                values: [Value::Set(&[0x61; 100]); 11].into_iter().collect(),
                ..QueryParameters::default()
            },
        });
        group.throughput(Throughput::Elements(in_flight as u64));
        group.bench_function(format!("v{}_{in_flight}_in_flight", version.number()), |bencher| {
            bencher.iter(|| {
                for number in 0..in_flight {
                    encoder.request(number as i16, &execute, false);
                }
                exchange(&mut stream, &mut encoder, &mut decoder, &mut input, in_flight);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, round_trips);
criterion_main!(benches);
