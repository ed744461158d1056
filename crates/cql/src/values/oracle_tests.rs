//! What Cassandra 5.0.8's own classes answered, recorded.

use cassette_rows::types::{DataType, parse_class_name};

use super::text::encode_hex;
use super::*;

fn native_type(name: &str) -> DataType {
    let class = match name {
        "ascii" => "AsciiType",
        "bigint" => "LongType",
        "blob" => "BytesType",
        "boolean" => "BooleanType",
        "date" => "SimpleDateType",
        "decimal" => "DecimalType",
        "double" => "DoubleType",
        "duration" => "DurationType",
        "float" => "FloatType",
        "inet" => "InetAddressType",
        "int" => "Int32Type",
        "smallint" => "ShortType",
        "text" => "UTF8Type",
        "time" => "TimeType",
        "timestamp" => "TimestampType",
        "timeuuid" => "TimeUUIDType",
        "tinyint" => "ByteType",
        "uuid" => "UUIDType",
        "varint" => "IntegerType",
        other => panic!("unknown type {other}"),
    };
    parse_class_name(class).unwrap().0
}

/// Each line: type, text, then the bytes, the bytes as text, as JSON and as a literal - or an error after a `!`.
#[test]
fn texts_become_bytes_and_bytes_become_texts_as_in_cassandra() {
    let mut wrong = Vec::new();
    for line in include_str!("../../tests/data/text.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let data_type = native_type(fields[0]);
        let read = from_text(&data_type, fields[1]);
        let expected = match fields[2].strip_prefix('!') {
            Some(message) => Err(ValueError::invalid(message)),
            None => Ok(fields[2].to_owned()),
        };
        if read.as_deref().map(encode_hex).map_err(Clone::clone) != expected {
            wrong.push(format!("{line}: {read:?}"));
        }
        let Ok(bytes) = read else { continue };
        let written = [
            to_text(&data_type, &bytes),
            json::encode_value(&data_type, &bytes),
            to_literal(&data_type, Some(&bytes)),
        ];
        for (written, expected) in written.iter().zip(&fields[3..]) {
            // Cassandra fails to print some empty values.
            let escaped = written.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n");
            if !expected.starts_with('!') && escaped != *expected {
                wrong.push(format!("{line}: {written}, expected {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
