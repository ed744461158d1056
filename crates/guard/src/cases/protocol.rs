//! Bytes of connections to requests, and results to bytes.

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use cassette_protocol::request::Execute;
use cassette_protocol::{
    ColumnSpec, Decoder, Direction, Encoder, Flags, FrameFormat, MESSAGE_LENGTH_MAX_DEFAULT, MetadataMode,
    Opcode, QueryParameters, Request, ResultKind, ResultMetadata, RowsEncoder, Value, Version,
};
use cassette_rows::types::DataType;

use super::data::{FIELDS, Record, records, text_of};
use super::{Case, case};
use crate::meter::{Counted, Meter};

pub const CASES: &[Case] = &[
    case("decode_execute", 2_000, decode_execute),
    case("encode_1_row", 4_000, encode_1_row),
    case("encode_100_rows", 200, encode_100_rows),
    case("encode_frame", 4_000, encode_frame),
    case("decode_frame", 4_000, decode_frame),
    case("encode_compressed_frame", 200, encode_compressed_frame),
    case("decode_compressed_frame", 500, decode_compressed_frame),
];

/// An EXECUTE that inserts a row of 1 KB, in version 5.
fn decode_execute(meter: Meter) -> Counted {
    let mut encoder = Encoder::new(Version::V5);
    encoder.fix_version(Version::V5, None);
    for (stream, record) in records(0, meter.operations()).iter().enumerate() {
        let texts = std::iter::once(&record.key).chain(&record.fields);
        let execute = Execute {
            id: Bytes::from_static(&[1; 16]),
            result_metadata_id: Some(Bytes::from_static(&[2; 16])),
            parameters: QueryParameters {
                values: texts.map(|text| Value::Set(text.as_bytes())).collect(),
                ..Default::default()
            },
        };
        encoder.request((stream % 128) as i16, &Request::Execute(execute), false);
    }
    encoder.seal();
    let mut input = BytesMut::from(encoder.bytes());
    let mut decoder = Decoder::new(Direction::Request, MESSAGE_LENGTH_MAX_DEFAULT);
    decoder.fix_version(Version::V5, None);
    meter.each(|_| {
        let envelope = decoder.next(&mut input).expect("a frame").expect("an envelope");
        let decoded = Request::decode(&envelope).expect("a request");
        let Request::Execute(execute) = &decoded.request else { panic!("expected EXECUTE") };
        let values = execute.parameters.values.iter();
        let length: usize = values.map(|value| value.set().map_or(0, <[u8]>::len)).sum();
        assert!(length > 1_000);
    })
}

fn encode_1_row(meter: Meter) -> Counted {
    encode_rows(meter, 1)
}

fn encode_100_rows(meter: Meter) -> Counted {
    encode_rows(meter, 100)
}

/// A result with rows of 1 KB in version 5, whose columns the client has.
fn encode_rows(meter: Meter, count: u64) -> Counted {
    let columns = (0..=FIELDS).map(|column| ColumnSpec {
        keyspace: "ycsb".into(),
        table: "usertable".into(),
        name: format!("field{column}").into(),
        data_type: DataType::Text,
    });
    let metadata = ResultMetadata::new(columns.collect());
    let rows = records(0, count);
    let mut encoder = Encoder::new(Version::V5);
    encoder.fix_version(Version::V5, None);
    let mut encode = |_| {
        let begun = encoder.begin();
        encode_body(encoder.body(), &metadata, &rows);
        encoder.finish(begun, 1, Opcode::Result, Flags::default());
        encoder.seal();
        black_box(encoder.bytes());
        encoder.clear(usize::MAX);
    };
    encode(0);
    meter.each(encode)
}

fn encode_body(body: &mut Vec<u8>, metadata: &ResultMetadata, rows: &[Record]) {
    ResultKind::Rows.encode(body);
    let mut encoder = RowsEncoder::begin(body, Version::V5, metadata, MetadataMode::Skip);
    for row in rows {
        encoder.push(Some(row.key.as_bytes()));
        for field in &row.fields {
            encoder.push(Some(field.as_bytes()));
        }
        encoder.end_row();
    }
    encoder.finish(None);
}

fn encode_frame(meter: Meter) -> Counted {
    encode_frames(meter, FrameFormat::Uncompressed, 1 << 10)
}

fn decode_frame(meter: Meter) -> Counted {
    decode_frames(meter, FrameFormat::Uncompressed, 1 << 10)
}

fn encode_compressed_frame(meter: Meter) -> Counted {
    encode_frames(meter, FrameFormat::Lz4, 16 << 10)
}

fn decode_compressed_frame(meter: Meter) -> Counted {
    decode_frames(meter, FrameFormat::Lz4, 16 << 10)
}

/// A frame of version 5 with `length` bytes of payload.
fn encode_frames(meter: Meter, format: FrameFormat, length: usize) -> Counted {
    let payload = text_of(1, length);
    let mut buffer = Vec::with_capacity(4 * length);
    meter.each(|_| {
        buffer.clear();
        format.encode(true, black_box(payload.as_bytes()), &mut buffer);
    })
}

fn decode_frames(meter: Meter, format: FrameFormat, length: usize) -> Counted {
    let payload = text_of(1, length);
    let mut buffer = Vec::new();
    for _ in 0..meter.operations() {
        format.encode(true, payload.as_bytes(), &mut buffer);
    }
    let mut input = BytesMut::from(&buffer[..]);
    meter.each(|_| {
        let frame = format.decode(&mut input).expect("a frame").expect("a complete frame");
        assert_eq!(frame.payload.len(), length);
    })
}
