//! The cost of a request outside of its execution: decoding EXECUTE, encoding rows.

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use cassette_protocol::{
    ColumnSpec, Decoder, Direction, Encoder, Flags, MESSAGE_LENGTH_MAX_DEFAULT, MetadataMode, Opcode,
    QueryParameters, Request, ResultKind, ResultMetadata, RowsEncoder, Value, Version, request::Execute,
};
use cassette_rows::types::DataType;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const VALUE: [u8; 100] = [0x61; 100];

fn execute_decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("execute_decode_12_values");
    for version in [Version::V4, Version::V5] {
        let execute = Execute {
            id: Bytes::from_static(&[1; 16]),
            result_metadata_id: Some(Bytes::from_static(&[2; 16])),
            parameters: QueryParameters {
                values: [Value::Set(&VALUE); 12].into_iter().collect(),
                ..Default::default()
            },
        };
        let mut encoder = Encoder::new(version);
        encoder.fix_version(version, None);
        let requests = 16;
        for stream in 0..requests {
            encoder.request(stream, &Request::Execute(execute.clone()), false);
        }
        encoder.seal();
        let wire = encoder.bytes();
        let mut decoder = Decoder::new(Direction::Request, MESSAGE_LENGTH_MAX_DEFAULT);
        decoder.fix_version(version, None);
        group.throughput(Throughput::Elements(requests as u64));
        group.bench_function(format!("v{}", version.number()), |bencher| {
            bencher.iter_batched_ref(
                || BytesMut::from(wire),
                |input| {
                    while let Some(envelope) = decoder.next(input).expect("it is well-formed") {
                        let decoded = Request::decode(&envelope).expect("it is well-formed");
                        let Request::Execute(execute) = &decoded.request else { panic!("it is an EXECUTE") };
                        black_box(
                            execute
                                .parameters
                                .values
                                .iter()
                                .map(|value| value.set().map_or(0, <[u8]>::len))
                                .sum::<usize>(),
                        );
                    }
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn rows_encode(criterion: &mut Criterion) {
    let columns = (0..11).map(|index| ColumnSpec {
        keyspace: "ycsb".into(),
        table: "usertable".into(),
        name: format!("field{index}").into(),
        data_type: DataType::Text,
    });
    let metadata = ResultMetadata::new(columns.collect());
    let mut group = criterion.benchmark_group("rows_encode_11_columns");
    for rows_count in [1, 100] {
        group.throughput(Throughput::Elements(rows_count));
        group.bench_function(format!("{rows_count}_rows"), |bencher| {
            let mut encoder = Encoder::new(Version::V4);
            bencher.iter(|| {
                let begun = encoder.begin();
                let buffer = encoder.body();
                ResultKind::Rows.encode(buffer);
                let mut rows = RowsEncoder::begin(buffer, Version::V4, &metadata, MetadataMode::Skip);
                for _ in 0..rows_count {
                    for _ in 0..11 {
                        rows.push(Some(&VALUE));
                    }
                    rows.end_row();
                }
                rows.finish(None);
                encoder.finish(begun, 1, Opcode::Result, Flags::default());
                encoder.seal();
                black_box(encoder.bytes());
                encoder.clear(usize::MAX);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, execute_decode, rows_encode);
criterion_main!(benches);
