//! The native protocol, both directions: framing, compression, messages.
//!
//! ```text
//! u8 agreement (version and compression), bit 6: responses, bit 7: the rest is one envelope to be framed
//! the bytes of a connection after STARTUP; or: u8 opcode, u8 flags, a body
//! ```

use bytes::{Bytes, BytesMut};
use cassette_protocol::request::{
    Batch, BatchStatement, BatchType, Execute, Options, Prepare, Query, StatementSource,
};
use cassette_protocol::{
    Compression, Consistency, DecodedRequest, Decoder, Direction, Encoder, Envelope, Flags, Header, Opcode,
    Prelude, QueryParameters, Request, Response, Value, Values, Version,
};

use super::split;
use crate::Target;

pub const TARGET: Target = Target {
    name: "frames",
    run,
    seeds,
    words: &[
        b"SELECT",
        b"CQL_VERSION",
        b"COMPRESSION",
        b"\xff\xff\xff\xff",
        b"\xff\xff\xff\xfe",
        b"\0\0\0\0",
    ],
    inputs: 20_000,
};

const AGREEMENTS: [(Version, Option<Compression>); 8] = [
    (Version::V3, None),
    (Version::V3, Some(Compression::Snappy)),
    (Version::V3, Some(Compression::Lz4)),
    (Version::V4, None),
    (Version::V4, Some(Compression::Lz4)),
    (Version::V4, Some(Compression::Snappy)),
    (Version::V5, None),
    (Version::V5, Some(Compression::Lz4)),
];

/// The longest message that the decoder accepts.
const MESSAGE_LENGTH_MAX: usize = 1 << 20;

const RESPONSES: u8 = 0x40;
const FRAMED: u8 = 0x80;

fn run(input: &[u8]) {
    let (mode, rest) = split(input);
    let agreement = AGREEMENTS[usize::from(mode & 7)];
    let direction = if mode & RESPONSES == 0 { Direction::Request } else { Direction::Response };
    if mode & FRAMED == 0 {
        let whole = decode(agreement, direction, rest, usize::MAX);
        assert_eq!(whole, decode(agreement, direction, rest, 7), "in one piece and in pieces of 7 bytes");
        whole.iter().for_each(|envelope| check_message(envelope, direction));
        return;
    }
    let [opcode, flags, body @ ..] = rest else { return };
    let Some(opcode) = Opcode::from_number(*opcode) else { return };
    if opcode.direction() != direction {
        return;
    }
    let (version, compression) = agreement;
    let flags = Flags(*flags).without(Flags::COMPRESSED);
    let header = Header { version, flags, stream: 9, opcode, length: body.len() as u32 };
    let envelope = Envelope { header, body: Bytes::copy_from_slice(body) };
    let mut encoder = Encoder::new(version);
    encoder.fix_version(version, compression);
    encoder.envelope(&envelope);
    encoder.seal();
    let decoded = decode(agreement, direction, encoder.bytes(), usize::MAX);
    assert_eq!(decoded.len(), 1, "one envelope goes in");
    assert_eq!((decoded[0].header.opcode, &decoded[0].body), (opcode, &envelope.body));
    check_message(&envelope, direction);
}

/// Everything the decoder makes of the bytes when they arrive in pieces.
fn decode(
    (version, compression): (Version, Option<Compression>),
    direction: Direction,
    bytes: &[u8],
    piece: usize,
) -> Vec<Envelope> {
    let mut decoder = Decoder::new(direction, MESSAGE_LENGTH_MAX);
    decoder.fix_version(version, compression);
    let (mut envelopes, mut input) = (Vec::new(), BytesMut::new());
    for piece in bytes.chunks(piece.min(bytes.len().max(1))) {
        input.extend_from_slice(piece);
        while let Some(result) = decoder.next(&mut input).transpose() {
            match result {
                Ok(envelope) => envelopes.push(envelope),
                Err(rejected) if rejected.fatal => return envelopes,
                Err(_) => {}
            }
        }
    }
    envelopes
}

/// A message that is understood is the same after it was encoded and decoded again: requests of v5
/// from the first time on. Of requests of v3 and v4, Cassandra reads what these versions have no
/// place for, and of responses a decoder reads what no encoder writes, such as indexes of a
/// partition key without markers; so they are the same from the second time on.
fn check_message(envelope: &Envelope, direction: Direction) {
    let version = envelope.header.version;
    match direction {
        Direction::Request => {
            let Ok(first) = Request::decode(envelope) else { return };
            let again = |request: &DecodedRequest| {
                let mut encoder = Encoder::new(version);
                encoder.request(1, &request.request, request.tracing);
                let decoded = Request::decode(&read_back(&encoder, direction)).unwrap();
                DecodedRequest { custom_payload: request.custom_payload.clone(), ..decoded }
            };
            let second = again(&first);
            if version >= Version::V5 {
                assert_eq!(second, first);
            }
            assert_eq!(again(&second), second);
        }
        Direction::Response => {
            let Ok(first) = Response::decode(envelope) else { return };
            let again = |(response, prelude): &(Response, Prelude)| {
                let mut encoder = Encoder::new(version);
                encoder.response(1, response, prelude);
                Response::decode(&read_back(&encoder, direction)).unwrap()
            };
            let second = again(&first);
            assert_eq!(again(&second), second);
        }
    }
}

fn read_back(encoder: &Encoder, direction: Direction) -> Envelope {
    let mut decoder = Decoder::new(direction, usize::MAX);
    decoder.next(&mut BytesMut::from(encoder.bytes())).unwrap().unwrap()
}

fn requests() -> Vec<Request> {
    let values: Values = [Value::Null, Value::Unset, Value::Set(&[0, 0, 0, 1])].into_iter().collect();
    let parameters = QueryParameters {
        consistency: Consistency::Quorum,
        values,
        skip_metadata: true,
        page_size: Some(5000),
        paging_state: Some(Bytes::from_static(b"state")),
        serial_consistency: Some(Consistency::Serial),
        timestamp: Some(1),
        keyspace: None,
        now_in_seconds: None,
    };
    let query = "SELECT * FROM ks.t WHERE p = ?".to_owned();
    let batch = Batch {
        batch_type: BatchType::Logged,
        statements: vec![
            BatchStatement {
                source: StatementSource::Query(query.clone().into()),
                values: [Value::Set(b"x")].into_iter().collect(),
            },
            BatchStatement {
                source: StatementSource::Prepared(Bytes::from_static(b"0123456789abcdef")),
                values: Values::default(),
            },
        ],
        parameters: QueryParameters { timestamp: Some(7), ..QueryParameters::default() },
    };
    vec![
        Request::Options(Options),
        Request::Query(Query { query: query.clone().into(), parameters: parameters.clone() }),
        Request::Prepare(Prepare { query: query.into(), keyspace: None }),
        Request::Execute(Execute {
            id: Bytes::from_static(b"0123456789abcdef"),
            result_metadata_id: None,
            parameters,
        }),
        Request::Batch(batch),
    ]
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, (version, compression)) in AGREEMENTS.into_iter().enumerate() {
        let mut encoder = Encoder::new(version);
        encoder.fix_version(version, compression);
        for mut request in requests() {
            if let (Request::Execute(execute), Version::V5) = (&mut request, version) {
                execute.result_metadata_id = Some(Bytes::from_static(b"fedcba9876543210"));
            }
            encoder.request(3, &request, false);
            let mut body = vec![FRAMED | number as u8, request.opcode().number(), 0];
            request.encode(version, &mut body);
            seeds.push(body);
        }
        encoder.seal();
        seeds.push([&[number as u8], encoder.bytes()].concat());
        let mut encoder = Encoder::new(version);
        encoder.fix_version(version, compression);
        encoder.response(3, &Response::Ready, &Prelude::default());
        encoder.seal();
        seeds.push([&[RESPONSES | number as u8], encoder.bytes()].concat());
    }
    // A body for every kind of response: number of columns, strings, bytes.
    for opcode in [0x00, 0x02, 0x03, 0x06, 0x08, 0x0c, 0x0e, 0x10] {
        for kind in 1..6 {
            let mut seed = vec![FRAMED | RESPONSES | 6, opcode, 0, 0, 0, 0, kind];
            seed.extend_from_slice(
                b"\0\0\0\x01\0\0\0\x01\0\x02ks\0\x01t\0\x01c\0\x09\0\0\0\x01\0\0\0\x04\0\0\0\x01",
            );
            seeds.push(seed);
        }
    }
    seeds
}
