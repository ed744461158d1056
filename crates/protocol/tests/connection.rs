//! Streams of messages through encoder and decoder: any chunking, any size, every framing, and
//! hostile bytes.

use bytes::{Bytes, BytesMut};
use cassette_protocol::{
    Compression, Consistency, Decoder, Direction, EncodedRows, Encoder, Envelope, Flags, Header, Opcode,
    Prelude, ProtocolError, QueryParameters, Rejected, Request, Response, ResultMessage, Value, Values,
    Version,
    frame::PAYLOAD_LENGTH_MAX,
    request::{
        AuthResponse, Batch, BatchStatement, BatchType, Execute, Options, Prepare, Query, StatementSource,
    },
};
use proptest::{collection::vec, option, prelude::*};

const LIMIT: usize = 16 * 1024 * 1024;

/// The combinations that a connection can agree on.
const AGREEMENTS: [(Version, Option<Compression>); 8] = [
    (Version::V3, None),
    (Version::V3, Some(Compression::Snappy)),
    (Version::V4, None),
    (Version::V4, Some(Compression::Lz4)),
    (Version::V4, Some(Compression::Snappy)),
    (Version::V5, None),
    (Version::V5, Some(Compression::Lz4)),
    (Version::V3, Some(Compression::Lz4)),
];

fn pair(agreement: (Version, Option<Compression>), direction: Direction) -> (Encoder, Decoder) {
    let (version, compression) = agreement;
    let mut encoder = Encoder::new(version);
    encoder.fix_version(version, compression);
    let mut decoder = Decoder::new(direction, LIMIT);
    decoder.fix_version(version, compression);
    (encoder, decoder)
}

/// Returns everything decoded from `bytes` if they arrive in pieces of these lengths, cyclically.
fn decode_chunked(decoder: &mut Decoder, bytes: &[u8], chunks: &[usize]) -> Vec<Result<Envelope, Rejected>> {
    let mut results = Vec::new();
    let mut input = BytesMut::new();
    let mut rest = bytes;
    for chunk in chunks.iter().cycle() {
        let (now, later) = rest.split_at((*chunk).clamp(1, rest.len().max(1)).min(rest.len()));
        input.extend_from_slice(now);
        rest = later;
        while let Some(result) = decoder.next(&mut input).transpose() {
            let fatal = matches!(&result, Err(rejected) if rejected.fatal);
            results.push(result);
            if fatal {
                return results;
            }
        }
        if rest.is_empty() {
            return results;
        }
    }
    results
}

fn agreement() -> impl Strategy<Value = (Version, Option<Compression>)> {
    prop::sample::select(&AGREEMENTS[..])
}

fn bytes(length_max: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..length_max).prop_map(Bytes::from)
}

fn consistency() -> impl Strategy<Value = Consistency> {
    prop::sample::select(&Consistency::ALL[..])
}

fn values(named: bool) -> impl Strategy<Value = Values> {
    let value = prop_oneof![
        1 => Just(None),
        1 => Just(Some(None)),
        4 => bytes(40).prop_map(|bytes| Some(Some(bytes))),
    ];
    vec(("[a-z]{0,5}", value), 0..30).prop_map(move |values| {
        let pairs = values.iter().map(|(name, value)| {
            let value = match value {
                None => Value::Unset,
                Some(None) => Value::Null,
                Some(Some(bytes)) => Value::Set(bytes),
            };
            (name.clone(), value)
        });
        if named { Values::named(pairs) } else { pairs.map(|(_, value)| value).collect() }
    })
}

fn parameters(values: impl Strategy<Value = Values>) -> impl Strategy<Value = QueryParameters> {
    (
        (consistency(), values, any::<bool>()),
        (option::of(any::<i32>().prop_filter("never zero", |size| *size != 0)), option::of(bytes(50))),
        (
            option::of(consistency()),
            option::of(any::<i64>().prop_filter("never the least", |t| *t != i64::MIN)),
        ),
        (option::of("[a-z]{1,10}"), option::of(any::<u32>())),
    )
        .prop_map(
            |(
                (consistency, values, skip_metadata),
                (page_size, paging_state),
                (serial_consistency, timestamp),
                (keyspace, now_in_seconds),
            )| QueryParameters {
                consistency,
                values,
                skip_metadata,
                page_size,
                paging_state,
                serial_consistency,
                timestamp,
                keyspace,
                now_in_seconds,
            },
        )
}

fn request() -> impl Strategy<Value = Request> {
    let statement = (
        prop_oneof![
            any::<String>().prop_map(|text| StatementSource::Query(text.into())),
            bytes(20).prop_map(StatementSource::Prepared)
        ],
        values(false),
    )
        .prop_map(|(source, values)| BatchStatement { source, values });
    let batch_type = prop::sample::select(&[BatchType::Logged, BatchType::Unlogged, BatchType::Counter][..]);
    prop_oneof![
        Just(Request::Options(Options)),
        option::of(bytes(20)).prop_map(|token| Request::AuthResponse(AuthResponse { token })),
        (any::<String>(), any::<bool>().prop_flat_map(|named| parameters(values(named))))
            .prop_map(|(query, parameters)| Request::Query(Query { query: query.into(), parameters })),
        (any::<String>(), option::of("[a-z]{1,10}"))
            .prop_map(|(query, keyspace)| Request::Prepare(Prepare { query: query.into(), keyspace })),
        (bytes(20), bytes(20), parameters(values(false))).prop_map(|(id, metadata_id, parameters)| {
            Request::Execute(Execute { id, result_metadata_id: Some(metadata_id), parameters })
        }),
        (batch_type, vec(statement, 0..5), parameters(Just(Values::default()))).prop_map(
            |(batch_type, statements, parameters)| Request::Batch(Batch {
                batch_type,
                statements,
                parameters
            })
        ),
    ]
}

/// Returns the part of a request that `version` can represent.
fn as_carried(mut request: Request, version: Version) -> Request {
    let narrow = |parameters: &mut QueryParameters| {
        if version < Version::V5 {
            parameters.keyspace = None;
            parameters.now_in_seconds = None;
        }
    };
    let narrow_values = |values: &mut Values| {
        if version < Version::V4 {
            let pairs: Vec<_> = values
                .iter()
                .map(|value| if value == Value::Unset { Value::Null } else { value })
                .enumerate()
                .map(|(index, value)| (values.name(index).unwrap_or_default().to_owned(), value))
                .collect();
            *values = if values.are_named() {
                Values::named(pairs)
            } else {
                pairs.into_iter().map(|(_, value)| value).collect()
            };
        }
    };
    match &mut request {
        Request::Query(query) => {
            narrow(&mut query.parameters);
            narrow_values(&mut query.parameters.values);
        }
        Request::Execute(execute) => {
            narrow(&mut execute.parameters);
            narrow_values(&mut execute.parameters.values);
            if version < Version::V5 {
                execute.result_metadata_id = None;
            }
        }
        Request::Batch(batch) => {
            narrow(&mut batch.parameters);
            for statement in &mut batch.statements {
                narrow_values(&mut statement.values);
            }
        }
        Request::Prepare(prepare) if version < Version::V5 => prepare.keyspace = None,
        _ => {}
    }
    request
}

proptest! {
    #[test]
    fn requests_come_out_as_they_went_in(
        agreement in agreement(),
        requests in vec((request(), any::<bool>()), 1..8),
        chunks in vec(1usize..500, 1..5),
    ) {
        let (mut encoder, mut decoder) = pair(agreement, Direction::Request);
        for (stream, (request, tracing)) in requests.iter().enumerate() {
            encoder.request(stream as i16, request, *tracing);
        }
        encoder.seal();
        let results = decode_chunked(&mut decoder, encoder.bytes(), &chunks);
        prop_assert_eq!(results.len(), requests.len());
        for (stream, (result, (request, tracing))) in results.into_iter().zip(requests).enumerate() {
            let envelope = result.unwrap();
            prop_assert_eq!(envelope.header.stream, stream as i16);
            let decoded = Request::decode(&envelope).unwrap();
            prop_assert_eq!(decoded.tracing, tracing);
            prop_assert_eq!(decoded.request, as_carried(request, agreement.0));
        }
    }

    #[test]
    fn bodies_of_any_length_come_through_every_framing(
        agreement in agreement(),
        lengths in vec(prop_oneof![
            0..2000usize,
            PAYLOAD_LENGTH_MAX - 40..PAYLOAD_LENGTH_MAX + 40,
            0..3 * PAYLOAD_LENGTH_MAX,
        ], 1..6),
        chunks in vec(1usize..200_000, 1..5),
        seals in any::<u8>(),
        random in any::<bool>(),
    ) {
        let (mut encoder, mut decoder) = pair(agreement, Direction::Response);
        let bodies: Vec<Bytes> = lengths.iter().map(|length| body_of(*length, random)).collect();
        for (index, body) in bodies.iter().enumerate() {
            let rows = Response::Result(ResultMessage::Rows(EncodedRows::new(body.clone(), agreement.0)));
            encoder.response(index as i16, &rows, &Prelude::default());
            if seals >> index & 1 == 1 {
                encoder.seal();
            }
        }
        encoder.seal();
        let results = decode_chunked(&mut decoder, encoder.bytes(), &chunks);
        prop_assert_eq!(results.len(), bodies.len());
        for (result, body) in results.into_iter().zip(bodies) {
            let envelope = result.unwrap();
            // The kind of the result precedes the rows.
            prop_assert!(envelope.body[4..] == body[..], "body of {} bytes", body.len());
        }
    }

    #[test]
    fn garbage_never_panics(
        agreement in agreement(),
        fixed in any::<bool>(),
        garbage in vec(any::<u8>(), 0..300),
        chunks in vec(1usize..40, 1..5),
    ) {
        for direction in [Direction::Request, Direction::Response] {
            let (_, mut decoder) = pair(agreement, direction);
            if !fixed {
                decoder = Decoder::new(direction, LIMIT);
            }
            decode_chunked(&mut decoder, &garbage, &chunks);
        }
    }

    #[test]
    fn garbage_bodies_never_panic(
        version in prop::sample::select(&Version::SUPPORTED[..]),
        opcode in 0u8..0x11,
        flags in any::<u8>(),
        garbage in vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..200),
    ) {
        let Some(opcode) = Opcode::from_number(opcode) else { return Ok(()) };
        let header = Header { version, flags: Flags(flags & !1), stream: 0, opcode, length: garbage.len() as u32 };
        let envelope = Envelope { header, body: garbage.into() };
        let _ = Request::decode(&envelope);
        if let Ok((Response::Result(ResultMessage::Rows(rows)), _)) = Response::decode(&envelope)
            && let Ok(rows) = rows.decode(None)
        {
            prop_assert_eq!(rows.iter().map(Iterator::count).sum::<usize>(), rows.len() * rows.columns_count());
        }
    }

    #[test]
    fn a_request_cut_short_or_changed_never_panics(
        version in prop::sample::select(&Version::SUPPORTED[..]),
        request in request(),
        at in any::<prop::sample::Index>(),
        cut in any::<bool>(),
        byte in any::<u8>(),
    ) {
        let mut body = Vec::new();
        request.encode(version, &mut body);
        prop_assume!(!body.is_empty());
        let at = at.index(body.len());
        if cut { body.truncate(at) } else { body[at] = byte }
        let header = Header {
            version, flags: Flags::default(), stream: 0, opcode: request.opcode(), length: body.len() as u32,
        };
        let decoded = Request::decode(&Envelope { header, body: body.into() });
        if cut {
            prop_assert!(decoded.is_err(), "{request:?} decodes although cut at {at}: {decoded:?}");
        }
    }

    #[test]
    fn a_flipped_bit_in_a_frame_is_always_noticed(
        compression in prop::sample::select(&[None, Some(Compression::Lz4)][..]),
        body in vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        bit in 0..8,
    ) {
        let (mut encoder, mut decoder) = pair((Version::V5, compression), Direction::Response);
        let rows = Response::Result(ResultMessage::Rows(EncodedRows::new(body.into(), Version::V5)));
        encoder.response(1, &rows, &Prelude::default());
        encoder.seal();
        let mut wire = encoder.bytes().to_vec();
        let at = at.index(wire.len());
        wire[at] ^= 1u8 << bit;
        let rejected = decode_chunked(&mut decoder, &wire, &[wire.len()]).remove(0).unwrap_err();
        prop_assert!(rejected.fatal);
        let corrupt = matches!(
            rejected.error,
            ProtocolError::CorruptFrameHeader { .. } | ProtocolError::CorruptFramePayload { .. }
        );
        prop_assert!(corrupt, "{rejected:?}");
    }
}

fn body_of(length: usize, random: bool) -> Bytes {
    let mut state = length as u32 | 1;
    (0..length)
        .map(|index| {
            if random {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            } else {
                (index / 100) as u8
            }
        })
        .collect()
}

#[test]
fn a_message_that_is_too_long_is_skipped_without_being_held() {
    for (version, compression) in AGREEMENTS {
        let mut encoder = Encoder::new(version);
        // Not compressed, because a body with a short compressed form is rejected for its announced
        // length instead.
        encoder.fix_version(version, compression.filter(|_| version == Version::V5));
        let long = Query { query: "x".repeat(600_000).into(), parameters: QueryParameters::default() };
        encoder.request(7, &Request::Query(long), false);
        encoder.request(8, &Request::Options(Options), false);
        encoder.seal();

        let mut decoder = Decoder::new(Direction::Request, 500_000);
        decoder.fix_version(version, compression);
        let results = decode_chunked(&mut decoder, encoder.bytes(), &[10_000]);
        let rejected = results[0].as_ref().unwrap_err();
        assert_eq!((rejected.stream, rejected.fatal), (7, false), "{version} {compression:?}");
        assert!(matches!(rejected.error, ProtocolError::TooLong { maximum: 500_000, .. }));
        assert!(rejected.error.to_string().starts_with("Request is too big: length 600"));
        assert_eq!(results[1].as_ref().unwrap().header.stream, 8);
        assert_eq!(results.len(), 2);
    }
}

#[test]
fn announced_lengths_alone_allocate_nothing() {
    // A plain envelope, an LZ4 body and a Snappy body with the greatest possible announcements.
    let mut decoder = Decoder::new(Direction::Request, LIMIT);
    let mut input = BytesMut::from(&[4, 0, 0, 0, 7, 0x00, 0xff, 0xff, 0x00][..]);
    assert_eq!(decoder.next(&mut input), Ok(None));
    assert!(input.capacity() < 200_000, "{}", input.capacity());

    let announcing = [0x00, 0xff, 0xff, 0xff, 0x10, 0x20];
    assert!(matches!(
        Compression::Lz4.decompress_body(&announcing, LIMIT),
        Err(ProtocolError::Compression { .. })
    ));
    let announcing = [0xff, 0xff, 0xff, 0x07, 0x00];
    assert!(matches!(
        Compression::Snappy.decompress_body(&announcing, LIMIT),
        Err(ProtocolError::Compression { .. })
    ));
    assert!(matches!(
        Compression::Lz4.decompress_body(&[0x7f, 0xff, 0xff, 0xff, 0], LIMIT),
        Err(ProtocolError::TooLong { .. })
    ));
}

#[test]
fn an_unknown_opcode_is_refused_and_the_next_message_read() {
    for (version, compression) in AGREEMENTS {
        let (mut encoder, mut decoder) = pair((version, compression), Direction::Request);
        let begun = encoder.begin();
        encoder.body().extend_from_slice(b"body");
        encoder.finish(begun, 3, Opcode::Result, Flags::default());
        encoder.request(4, &Request::Options(Options), false);
        encoder.seal();
        let results = decode_chunked(&mut decoder, encoder.bytes(), &[3]);
        let rejected = results[0].as_ref().unwrap_err();
        assert_eq!((rejected.stream, rejected.fatal), (3, false));
        assert_eq!(
            rejected.error,
            ProtocolError::WrongDirection { opcode: Opcode::Result, got: Direction::Response }
        );
        assert_eq!(results[1].as_ref().unwrap().header.stream, 4);
    }
}

#[test]
fn a_version_cannot_change_within_a_connection() {
    let mut decoder = Decoder::new(Direction::Request, LIMIT);
    decoder.fix_version(Version::V4, None);
    let mut encoder = Encoder::new(Version::V3);
    encoder.request(1, &Request::Options(Options), false);
    let rejected = decoder.next(&mut BytesMut::from(encoder.bytes())).unwrap_err();
    assert_eq!(
        rejected.error.to_string(),
        "Invalid message version. Got 3/v3 but previous messages on this connection had version 4/v4"
    );
}

#[test]
fn short_envelopes_share_a_frame() {
    let (mut encoder, _) = pair((Version::V5, None), Direction::Response);
    for stream in 0..10 {
        encoder.response(stream, &Response::Ready, &Prelude::default());
    }
    encoder.seal();
    assert_eq!(encoder.bytes().len(), 6 + 10 * Header::LENGTH + 4);
}

#[test]
fn an_abandoned_envelope_leaves_nothing_behind() {
    for agreement in AGREEMENTS {
        let (mut encoder, _) = pair(agreement, Direction::Response);
        let begun = encoder.begin();
        encoder.body().extend_from_slice(b"half a result");
        encoder.abandon(begun);
        encoder.seal();
        assert_eq!(encoder.bytes(), b"");
    }
}
