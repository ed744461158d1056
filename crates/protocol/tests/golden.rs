//! Messages and their bytes, written by hand from the specification.

use bytes::{Bytes, BytesMut};
use cassette_protocol::{
    ColumnSpec, Compression, Consistency, Decoder, Direction, EncodedRows, Encoder, Flags, FrameFormat,
    Header, MESSAGE_LENGTH_MAX_DEFAULT, MetadataMode, Opcode, Prelude, ProtocolError, QueryParameters,
    RejectedHeader, Request, Response, ResultMessage, ResultMetadata, RowsEncoder, Value, Values, Version,
    frame::Frame,
    request::{
        Batch, BatchStatement, BatchType, EventType, Execute, Prepare, Query, Register, Startup,
        StatementSource,
    },
    response::{
        ChangeType, Error, ErrorDetail, Event, Failures, Prepared, SchemaChange, SchemaTarget, StatusChange,
        Supported, WriteType,
    },
};
use cassette_rows::types::{DataType, UserType};

/// Parses hexadecimal bytes; skips blanks and quoted text.
fn bytes(text: &str) -> Vec<u8> {
    let mut result = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            result.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u8> = part.bytes().filter(u8::is_ascii_hexdigit).collect();
        for pair in digits.chunks(2) {
            result.push(u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
        }
    }
    result
}

fn check_request(version: Version, request: &Request, expected: &str) {
    let expected = bytes(expected);
    let mut encoder = Encoder::new(version);
    encoder.request(0x0102, request, false);
    let (header, body) = encoder.bytes().split_at(9);
    assert_eq!(body, expected, "{request:?}");
    let mut golden_header = vec![version.number(), 0, 1, 2, request.opcode().number()];
    golden_header.extend_from_slice(&(expected.len() as u32).to_be_bytes());
    assert_eq!(header, golden_header);

    let mut input = BytesMut::from(encoder.bytes());
    let envelope =
        Decoder::new(Direction::Request, MESSAGE_LENGTH_MAX_DEFAULT).next(&mut input).unwrap().unwrap();
    assert_eq!(envelope.header.stream, 0x0102);
    assert_eq!(&Request::decode(&envelope).unwrap().request, request);
}

fn check_response(version: Version, response: &Response, expected: &str) {
    let expected = bytes(expected);
    let mut encoder = Encoder::new(version);
    encoder.response(-1, response, &Prelude::default());
    let (header, body) = encoder.bytes().split_at(9);
    assert_eq!(body, expected, "{response:?}");
    let mut golden_header = vec![0x80 | version.number(), 0, 0xff, 0xff, response.opcode().number()];
    golden_header.extend_from_slice(&(expected.len() as u32).to_be_bytes());
    assert_eq!(header, golden_header);

    let mut input = BytesMut::from(encoder.bytes());
    let envelope =
        Decoder::new(Direction::Response, MESSAGE_LENGTH_MAX_DEFAULT).next(&mut input).unwrap().unwrap();
    assert_eq!(&Response::decode(&envelope).unwrap().0, response);
}

#[test]
fn startup_is_a_string_map() {
    let startup = Startup { options: vec![("CQL_VERSION".into(), "3.0.0".into())] };
    check_request(Version::V4, &Request::Startup(startup), "0001 000b 'CQL_VERSION' 0005 '3.0.0'");
}

#[test]
fn query_in_v4_has_a_byte_of_flags_and_in_v5_an_int() {
    let parameters = QueryParameters { consistency: Consistency::Quorum, ..QueryParameters::default() };
    let query = Request::Query(Query { query: "SELECT 1".into(), parameters });
    check_request(Version::V4, &query, "00000008 'SELECT 1' 0004 00");
    check_request(Version::V5, &query, "00000008 'SELECT 1' 0004 00000000");
}

#[test]
fn all_query_parameters_stand_in_the_order_of_their_flags() {
    let parameters = QueryParameters {
        consistency: Consistency::LocalOne,
        values: Values::named([
            ("a".to_owned(), Value::Set(b"xy")),
            ("b".to_owned(), Value::Null),
            ("c".to_owned(), Value::Unset),
            ("d".to_owned(), Value::Set(b"")),
        ]),
        skip_metadata: true,
        page_size: Some(5000),
        paging_state: Some(Bytes::from_static(b"state")),
        serial_consistency: Some(Consistency::LocalSerial),
        timestamp: Some(-2),
        keyspace: Some("ks".into()),
        now_in_seconds: Some(0x0708_090a),
    };
    let query = Request::Query(Query { query: "q".into(), parameters });
    check_request(
        Version::V5,
        &query,
        "00000001 'q' 000a 000001ff
         0004 0001 'a' 00000002 'xy'  0001 'b' ffffffff  0001 'c' fffffffe  0001 'd' 00000000
         00001388  00000005 'state'  0009  fffffffffffffffe  0002 'ks'  0708090a",
    );
}

#[test]
fn execute_in_v5_names_the_result_metadata_it_knows() {
    let execute = |result_metadata_id| {
        Request::Execute(Execute {
            id: Bytes::from_static(b"id"),
            result_metadata_id,
            parameters: QueryParameters {
                values: Values::new([Value::Set(&[0, 0, 0, 7])]),
                ..QueryParameters::default()
            },
        })
    };
    check_request(Version::V4, &execute(None), "0002 'id' 0001 01 0001 00000004 00000007");
    check_request(
        Version::V5,
        &execute(Some(Bytes::from_static(b"meta"))),
        "0002 'id' 0004 'meta' 0001 00000001 0001 00000004 00000007",
    );
}

#[test]
fn prepare_in_v5_may_name_a_keyspace() {
    let prepare = |keyspace: Option<&str>| {
        Request::Prepare(Prepare { query: "q".into(), keyspace: keyspace.map(Into::into) })
    };
    check_request(Version::V3, &prepare(None), "00000001 'q'");
    check_request(Version::V5, &prepare(None), "00000001 'q' 00000000");
    check_request(Version::V5, &prepare(Some("ks")), "00000001 'q' 00000001 0002 'ks'");
}

#[test]
fn batch_holds_texts_and_ids_with_their_values() {
    let batch = Batch {
        batch_type: BatchType::Unlogged,
        statements: vec![
            BatchStatement { source: StatementSource::Query("q".into()), values: Values::default() },
            BatchStatement {
                source: StatementSource::Prepared(Bytes::from_static(b"id")),
                values: Values::new([Value::Unset]),
            },
        ],
        parameters: QueryParameters { timestamp: Some(1), ..QueryParameters::default() },
    };
    check_request(
        Version::V4,
        &Request::Batch(batch),
        "01 0002  00 00000001 'q' 0000  01 0002 'id' 0001 fffffffe  0001 20 0000000000000001",
    );
}

#[test]
fn register_is_a_string_list() {
    let register = Register { event_types: vec![EventType::SchemaChange, EventType::StatusChange] };
    check_request(
        Version::V4,
        &Request::Register(register),
        "0002 000d 'SCHEMA_CHANGE' 000d 'STATUS_CHANGE'",
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of messages with their bytes, without steps")]
fn errors_bring_what_their_code_has_to_tell() {
    let check = |version, detail: ErrorDetail, expected: &str| {
        check_response(version, &Response::Error(Error::new(detail, "m")), expected);
    };
    let consistency = Consistency::Quorum;
    check(Version::V4, ErrorDetail::Invalid, "00002200 0001 'm'");
    check(
        Version::V4,
        ErrorDetail::Unavailable { consistency, required: 2, alive: 1 },
        "00001000 0001 'm' 0004 00000002 00000001",
    );
    check(
        Version::V4,
        ErrorDetail::WriteTimeout {
            consistency,
            received: 1,
            block_for: 2,
            write_type: WriteType::UnloggedBatch,
            contentions: 0,
        },
        "00001100 0001 'm' 0004 00000001 00000002 000e 'UNLOGGED_BATCH'",
    );
    check(
        Version::V5,
        ErrorDetail::WriteTimeout {
            consistency,
            received: 1,
            block_for: 2,
            write_type: WriteType::Cas,
            contentions: 3,
        },
        "00001100 0001 'm' 0004 00000001 00000002 0003 'CAS' 0003",
    );
    check(
        Version::V4,
        ErrorDetail::ReadTimeout { consistency, received: 1, block_for: 2, data_present: true },
        "00001200 0001 'm' 0004 00000001 00000002 01",
    );
    check(
        Version::V4,
        ErrorDetail::ReadFailure {
            consistency,
            received: 1,
            block_for: 2,
            failures: Failures::Count(1),
            data_present: false,
        },
        "00001300 0001 'm' 0004 00000001 00000002 00000001 00",
    );
    check(
        Version::V5,
        ErrorDetail::WriteFailure {
            consistency,
            received: 1,
            block_for: 2,
            failures: Failures::Reasons(vec![("127.0.0.1".parse().unwrap(), 1)]),
            write_type: WriteType::Simple,
        },
        "00001500 0001 'm' 0004 00000001 00000002 00000001 04 7f000001 0001 0006 'SIMPLE'",
    );
    check(
        Version::V4,
        ErrorDetail::FunctionFailure {
            keyspace: "ks".into(),
            function: "f".into(),
            arg_types: vec!["int".into()],
        },
        "00001400 0001 'm' 0002 'ks' 0001 'f' 0001 0003 'int'",
    );
    check(
        Version::V5,
        ErrorDetail::CasWriteUnknown { consistency, received: 1, block_for: 2 },
        "00001700 0001 'm' 0004 00000001 00000002",
    );
    check(
        Version::V4,
        ErrorDetail::AlreadyExists { keyspace: "ks".into(), table: String::new() },
        "00002400 0001 'm' 0002 'ks' 0000",
    );
    check(
        Version::V4,
        ErrorDetail::Unprepared { id: Bytes::from_static(b"id") },
        "00002500 0001 'm' 0002 'id'",
    );
}

#[test]
fn errors_unknown_to_an_older_version_become_the_nearest_known_one() {
    let code_of = |version, detail| {
        let mut body = Vec::new();
        Error::new(detail, "m").encode(version, &mut body);
        i32::from_be_bytes(body[..4].try_into().unwrap())
    };
    let consistency = Consistency::One;
    let unknown = ErrorDetail::CasWriteUnknown { consistency, received: 1, block_for: 2 };
    assert_eq!(code_of(Version::V4, unknown), 0x1100);
    let failure = ErrorDetail::ReadFailure {
        consistency,
        received: 0,
        block_for: 1,
        failures: Failures::Count(1),
        data_present: false,
    };
    assert_eq!(code_of(Version::V3, failure), 0x1200);
    assert_eq!(code_of(Version::V3, ErrorDetail::CdcWriteFailure), 0x2200);
}

#[test]
fn supported_lists_versions_as_drivers_read_them() {
    let supported = Supported::with_cql_version("3.4.7");
    check_response(
        Version::V4,
        &Response::Supported(supported),
        "0003 0011 'PROTOCOL_VERSIONS' 0003 0004 '3/v3' 0004 '4/v4' 0004 '5/v5'
              000b 'COMPRESSION' 0002 0006 'snappy' 0003 'lz4'
              000b 'CQL_VERSION' 0001 0005 '3.4.7'",
    );
}

#[test]
fn events_and_schema_changes() {
    let change = |target| SchemaChange { change: ChangeType::Created, keyspace: "ks".into(), target };
    check_response(
        Version::V4,
        &Response::Event(Event::SchemaChange(change(SchemaTarget::Table("t".into())))),
        "000d 'SCHEMA_CHANGE' 0007 'CREATED' 0005 'TABLE' 0002 'ks' 0001 't'",
    );
    check_response(
        Version::V4,
        &Response::Result(ResultMessage::SchemaChange(change(SchemaTarget::Keyspace))),
        "00000005 0007 'CREATED' 0008 'KEYSPACE' 0002 'ks'",
    );
    check_response(
        Version::V4,
        &Response::Event(Event::StatusChange {
            status: StatusChange::Up,
            address: "127.0.0.1:9042".parse().unwrap(),
        }),
        "000d 'STATUS_CHANGE' 0002 'UP' 04 7f000001 00002352",
    );
}

fn column(name: &str, data_type: DataType) -> ColumnSpec {
    ColumnSpec { keyspace: "ks".into(), table: "t".into(), name: name.into(), data_type }
}

#[test]
fn rows_are_metadata_count_and_cells() {
    let metadata = ResultMetadata::new(vec![column("k", DataType::Int), column("v", DataType::Text)]);
    let mut body = Vec::new();
    let mut rows = RowsEncoder::begin(&mut body, Version::V4, &metadata, MetadataMode::Full);
    rows.push(Some(&[0, 0, 0, 1]));
    rows.push_with(|buffer| buffer.extend_from_slice(b"one"));
    rows.end_row();
    rows.push(Some(&[0, 0, 0, 2]));
    rows.push(None);
    rows.end_row();
    assert_eq!(rows.finish(None), 2);
    check_response(
        Version::V4,
        &Response::Result(ResultMessage::Rows(EncodedRows::new(body.into(), Version::V4))),
        "00000002 00000001 00000002 0002 'ks' 0001 't' 0001 'k' 0009 0001 'v' 000d
         00000002  00000004 00000001 00000003 'one'  00000004 00000002 ffffffff",
    );
}

#[test]
fn a_page_with_more_to_come_has_its_paging_state_before_the_metadata_id() {
    let metadata = ResultMetadata::new(vec![column("k", DataType::Int)]);
    let mut body = Vec::new();
    let mode = MetadataMode::Changed { new_metadata_id: b"meta" };
    let mut rows = RowsEncoder::begin(&mut body, Version::V5, &metadata, mode);
    rows.push(Some(&[0, 0, 0, 1]));
    rows.end_row();
    rows.finish(Some(b"state"));
    assert_eq!(
        body,
        bytes(
            "0000000b 00000001 00000005 'state' 0004 'meta' 0002 'ks' 0001 't' 0001 'k' 0009
             00000001 00000004 00000001"
        )
    );
    let rows = EncodedRows::new(body.into(), Version::V5).decode(None).unwrap();
    assert_eq!(rows.paging_state.as_deref(), Some(&b"state"[..]));
    assert_eq!(rows.new_metadata_id.as_deref(), Some(&b"meta"[..]));
    assert_eq!(rows.metadata, metadata);
}

#[test]
fn skipped_metadata_is_taken_from_the_prepared_statement() {
    let metadata = ResultMetadata::new(vec![column("k", DataType::Int)]);
    let mut body = Vec::new();
    let mut rows = RowsEncoder::begin(&mut body, Version::V4, &metadata, MetadataMode::Skip);
    rows.push(None);
    rows.end_row();
    rows.finish(None);
    assert_eq!(body, bytes("00000005 00000001 00000001 ffffffff"));
    let rows = EncodedRows::new(body.into(), Version::V4).decode(Some(&metadata)).unwrap();
    assert_eq!(rows.metadata, metadata);
    assert_eq!(rows.iter().map(|cells| cells.collect::<Vec<_>>()).collect::<Vec<_>>(), [[None]]);
}

#[test]
fn columns_of_several_tables_name_theirs_each() {
    let other = ColumnSpec { table: "u".into(), ..column("b", DataType::Int) };
    let metadata = ResultMetadata::new(vec![column("a", DataType::Int), other]);
    let mut body = Vec::new();
    RowsEncoder::begin(&mut body, Version::V4, &metadata, MetadataMode::Full).finish(None);
    assert_eq!(
        body,
        bytes("00000000 00000002 0002'ks'0001't' 0001'a'0009  0002'ks'0001'u' 0001'b'0009 00000000")
    );
}

#[test]
fn prepared_tells_bind_markers_partition_key_and_result() {
    let prepared = Prepared {
        id: Bytes::from_static(b"id"),
        result_metadata_id: Some(Bytes::from_static(b"meta")),
        bind_markers: ResultMetadata::new(vec![column("v", DataType::Blob), column("k", DataType::Int)]),
        partition_key_indexes: vec![1],
        result_metadata: ResultMetadata::default(),
    };
    check_response(
        Version::V5,
        &Response::Result(ResultMessage::Prepared(prepared)),
        "00000004 0002 'id' 0004 'meta'
         00000001 00000002 00000001 0001 0002 'ks' 0001 't' 0001 'v' 0003 0001 'k' 0009
         00000004 00000000",
    );
}

#[test]
fn type_options() {
    let check = |version, data_type: DataType, expected: &str| {
        let metadata = ResultMetadata::new(vec![column("", data_type.clone())]);
        let mut body = Vec::new();
        RowsEncoder::begin(&mut body, version, &metadata, MetadataMode::Full).finish(None);
        let prefix = bytes("00000001 00000001 0002 'ks' 0001 't' 0000");
        let option = body.strip_prefix(&prefix[..]).unwrap().strip_suffix(&[0, 0, 0, 0]).unwrap();
        assert_eq!(option, bytes(expected), "{data_type:?}");
        let decoded = EncodedRows::new(body.clone().into(), version).decode(None).unwrap();
        assert_eq!(decoded.metadata.columns()[0].data_type, data_type);
    };
    check(Version::V4, DataType::list(DataType::Int), "0020 0009");
    check(Version::V4, DataType::map(DataType::Int, DataType::set(DataType::Uuid)), "0021 0009 0022 000c");
    check(Version::V4, DataType::tuple([DataType::Int, DataType::Text]), "0031 0002 0009 000d");
    let definition = UserType::new("ks", "u", vec![("f".into(), DataType::Boolean)]);
    check(
        Version::V4,
        DataType::Udt { definition: definition.into(), frozen: false },
        "0030 0002 'ks' 0001 'u' 0001 0001 'f' 0004",
    );
    check(Version::V4, DataType::Date, "0011");
    check(Version::V3, DataType::Date, "0000 002e 'org.apache.cassandra.db.marshal.SimpleDateType'");
    check(Version::V5, DataType::Duration, "0015");
    check(Version::V4, DataType::Duration, "0000 002c 'org.apache.cassandra.db.marshal.DurationType'");
    check(
        Version::V5,
        DataType::vector(DataType::Float, 3),
        "0000 0059 'org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 3)'",
    );
}

#[test]
fn warnings_and_tracing_id_precede_the_message() {
    let prelude = Prelude {
        tracing_id: Some("00000000-0000-1000-8000-000000000001".parse().unwrap()),
        warnings: vec!["w".into()],
        custom_payload: vec![("k".into(), Some(Bytes::from_static(b"v")))],
    };
    let mut encoder = Encoder::new(Version::V4);
    encoder.response(1, &Response::Result(ResultMessage::Void), &prelude);
    assert_eq!(
        encoder.bytes(),
        bytes(
            "84 0e 0001 08 00000023
             00000000000010008000000000000001  0001 0001 'w'  0001 0001 'k' 00000001 'v'  00000001"
        )
    );
    let mut input = BytesMut::from(encoder.bytes());
    let envelope = Decoder::new(Direction::Response, 1000).next(&mut input).unwrap().unwrap();
    assert_eq!(Response::decode(&envelope).unwrap(), (Response::Result(ResultMessage::Void), prelude));
}

#[test]
fn v3_has_no_place_for_warnings() {
    let prelude = Prelude { warnings: vec!["w".into()], ..Prelude::default() };
    let mut encoder = Encoder::new(Version::V3);
    encoder.response(1, &Response::Ready, &prelude);
    assert_eq!(encoder.bytes(), bytes("83 00 0001 02 00000000"));
}

#[test]
fn an_uncompressed_frame() {
    let mut frame = Vec::new();
    FrameFormat::Uncompressed.encode(true, b"123456789", &mut frame);
    // 9 | self-contained << 17, little-endian; checksums little-endian.
    assert_eq!(frame[..3], [0x09, 0x00, 0x02]);
    assert_eq!(frame[3..6], cassette_protocol::crc::crc24(&[0x09, 0x00, 0x02]).to_le_bytes()[..3]);
    assert_eq!(frame[6..15], *b"123456789");
    assert_eq!(frame[15..], [0xa7, 0x61, 0xa2, 0xe2]);
    let decoded = FrameFormat::Uncompressed.decode(&mut BytesMut::from(&frame[..])).unwrap().unwrap();
    assert_eq!(decoded, Frame { self_contained: true, payload: Bytes::from_static(b"123456789") });
}

#[test]
fn an_lz4_frame_that_would_not_get_shorter_is_sent_as_it_is() {
    let mut frame = Vec::new();
    FrameFormat::Lz4.encode(true, b"123456789", &mut frame);
    // 9 | 0 << 17 | self-contained << 34
    assert_eq!(frame[..5], [0x09, 0x00, 0x00, 0x00, 0x04]);
    assert_eq!(frame[8..17], *b"123456789");
    let decoded = FrameFormat::Lz4.decode(&mut BytesMut::from(&frame[..])).unwrap().unwrap();
    assert_eq!(decoded.payload, &b"123456789"[..]);
}

#[test]
fn an_lz4_frame_announces_both_lengths() {
    let payload = [7; 1000];
    let mut frame = Vec::new();
    FrameFormat::Lz4.encode(false, &payload, &mut frame);
    let bits = frame[..5].iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    assert_eq!(bits & 0x1_ffff, frame.len() as u64 - 8 - 4);
    assert_eq!(bits >> 17 & 0x1_ffff, 1000);
    assert_eq!(bits >> 34, 0);
    let decoded = FrameFormat::Lz4.decode(&mut BytesMut::from(&frame[..])).unwrap().unwrap();
    assert_eq!(decoded, Frame { self_contained: false, payload: Bytes::copy_from_slice(&payload) });
}

#[test]
fn an_lz4_body_starts_with_its_length_in_big_endian() {
    let mut compressed = Vec::new();
    Compression::Lz4.compress_body(&[7; 1000], &mut compressed);
    assert_eq!(compressed[..4], [0, 0, 0x03, 0xe8]);
    assert_eq!(Compression::Lz4.decompress_body(&compressed, 1000).unwrap(), [7; 1000]);
}

#[test]
fn an_unsupported_version_is_answered_in_the_newest_supported_one() {
    // STARTUP of DSE's v2 (66), the first attempt of drivers.
    let mut input = BytesMut::from(&bytes("42 00 0005 01 00000000")[..]);
    let rejected = Decoder::new(Direction::Request, 1000).next(&mut input).unwrap_err();
    assert!(rejected.fatal);
    assert_eq!(rejected.error, ProtocolError::UnsupportedVersion { version: 66 });
    let mut encoder = Encoder::new(Version::CURRENT);
    encoder.reject(&rejected);
    let text = "Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5)";
    assert_eq!(encoder.bytes()[..13], bytes("85 00 0000 00 0000005d 0000000a"));
    assert_eq!(encoder.bytes()[15..], *text.as_bytes());
}

#[test]
fn the_beta_of_version_6_is_not_supported() {
    let mut input = BytesMut::from(&bytes("06 10 0000 01 00000000")[..]);
    let rejected = Decoder::new(Direction::Request, 1000).next(&mut input).unwrap_err();
    assert_eq!(rejected.error, ProtocolError::UnsupportedVersion { version: 6 });
}

#[test]
fn versions_with_the_short_header_are_answered_in_it() {
    // The complete header of v1 and v2 has eight bytes; the first is enough.
    let rejected = Decoder::new(Direction::Request, 1000).next(&mut BytesMut::from(&[0x02][..])).unwrap_err();
    let mut encoder = Encoder::new(Version::CURRENT);
    encoder.reject(&rejected);
    assert_eq!(encoder.bytes()[..12], bytes("82 00 00 00 0000005c 0000000a"));
}

#[test]
fn flags_are_named_bits() {
    let flags = Flags::COMPRESSED.with(Flags::WARNING);
    assert_eq!(flags.0, 0x09);
    assert!(flags.contains(Flags::WARNING) && !flags.contains(Flags::TRACING));
    assert_eq!(flags.without(Flags::COMPRESSED), Flags::WARNING);
}

#[test]
fn an_unknown_opcode_is_rejected_with_its_stream_and_length() {
    assert_eq!(Opcode::from_number(0x04), None);
    let rejected = Header::decode(&bytes("04 00 0007 04 00000003"), Direction::Request).unwrap_err();
    let expected = RejectedHeader { error: ProtocolError::UnknownOpcode(4), stream: 7, length: Some(3) };
    assert_eq!(rejected, expected);
}

/// The answers of Cassandra 5.0.8 to STARTUP and OPTIONS, byte by byte.
#[test]
fn what_cassandra_sent_is_understood() {
    let recorded = [
        (
            Version::V4,
            Compression::Lz4,
            "8401000502000000050000000000",
            "84010006060000006600000066f02e0003001150524f544f434f4c5f56455253494f4e5300040004332f76330004342f7634
             0004352f76350009362f76362d62657461000b434f4d505245532d00f50400020006736e6170707900036c7a34000b435149
             009000010005332e342e37",
        ),
        (
            Version::V4,
            Compression::Snappy,
            "84010005020000000100",
            "84010006060000006966f0650003001150524f544f434f4c5f56455253494f4e5300040004332f76330004342f76340004
             352f76350009362f76362d62657461000b434f4d5052455353494f4e00020006736e6170707900036c7a34000b43514c5f
             56455253494f4e00010005332e342e37",
        ),
        (
            Version::V5,
            Compression::Lz4,
            "850000050200000000",
            "6b00de000448b3dff0378500000606000000660003001150524f544f434f4c5f56455253494f4e5300040004332f763300
             04342f76340004352f76350009362f76362d62657461000b434f4d505245532d00f50400020006736e6170707900036c7a
             34000b435149009000010005332e342e37d2cea029",
        ),
    ];
    for (version, compression, ready, supported) in recorded {
        let mut decoder = Decoder::new(Direction::Response, MESSAGE_LENGTH_MAX_DEFAULT);
        // The answer to STARTUP is never framed, but before v5 it may be compressed.
        if version < Version::V5 {
            decoder.fix_version(version, Some(compression));
        }
        let envelope = decoder.next(&mut BytesMut::from(&bytes(ready)[..])).unwrap().unwrap();
        assert_eq!((envelope.header.stream, &envelope.body[..]), (5, &b""[..]));
        assert_eq!(Response::decode(&envelope).unwrap().0, Response::Ready);
        decoder.fix_version(version, Some(compression));
        let envelope = decoder.next(&mut BytesMut::from(&bytes(supported)[..])).unwrap().unwrap();
        let Response::Supported(supported) = Response::decode(&envelope).unwrap().0 else {
            panic!("{envelope:?}");
        };
        assert_eq!(supported.options[2], ("CQL_VERSION".to_owned(), vec!["3.4.7".to_owned()]));
    }
}
