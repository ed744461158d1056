//! Values as text: the content of literals, and the output of `CAST(… AS text)` and DESCRIBE.

use std::fmt::Write;

use cassette_rows::types::{DataType, collection, quote_identifier, vector};

use super::decimal::Decimal;
use super::duration::Duration;
use super::inet::{inet_to_text, parse_inet};
use super::number::{DIGITS_MAX, Number, parse_double, parse_float, parse_varint};
use super::{ValueError, custom_text, temporal};

/// Parses a value of a type without parts. Collections, tuples, UDTs and vectors are built from
/// their elements instead.
///
/// The empty text is an empty value where it is in Cassandra: numbers, timestamps, UUIDs,
/// addresses, durations.
pub fn from_text(data_type: &DataType, text: &str) -> Result<Vec<u8>, ValueError> {
    match data_type {
        DataType::Text => Ok(text.as_bytes().to_vec()),
        DataType::Ascii if text.is_ascii() => Ok(text.as_bytes().to_vec()),
        DataType::Ascii => Err(ValueError::invalid(
            "Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: \
             Input length = 1",
        )),
        DataType::Boolean if text.is_empty() || text.eq_ignore_ascii_case("false") => Ok(vec![0]),
        DataType::Boolean if text.eq_ignore_ascii_case("true") => Ok(vec![1]),
        DataType::Boolean => Err(unreadable("Unable to make boolean from", text)),
        DataType::Blob => {
            decode_hex(text).ok_or_else(|| ValueError::invalid(format!("cannot parse '{text}' as hex bytes")))
        }
        DataType::Date => Ok(temporal::parse_date(text)?.to_be_bytes().to_vec()),
        DataType::Time => Ok(temporal::parse_time(text)?.to_be_bytes().to_vec()),
        DataType::Empty if text.is_empty() => Ok(Vec::new()),
        DataType::Empty => Err(ValueError::invalid(format!("'{text}' is not empty"))),
        DataType::Custom(custom) => custom_text::parse(custom, text),
        nested if is_nested(nested) => {
            Err(ValueError::invalid(format!("a value of type {nested} is not read from a string")))
        }
        // Cassandra also accepts an empty tinyint or smallint, and then fails to print what it
        // stored.
        DataType::TinyInt | DataType::SmallInt => number_from_text(data_type, text),
        _ if text.is_empty() => Ok(Vec::new()),
        DataType::Timestamp => Ok(temporal::parse_timestamp(text)?.to_be_bytes().to_vec()),
        DataType::Duration => Ok(Duration::parse(text)?.encode()),
        DataType::Inet => {
            parse_inet(text).ok_or_else(|| unreadable("Unable to make inet address from", text))
        }
        DataType::Uuid => match parse_uuid(text) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Err(unreadable("Unable to make UUID from", text)),
        },
        DataType::TimeUuid => match parse_uuid(text) {
            Some(bytes) if bytes[6] >> 4 == 1 => Ok(bytes.to_vec()),
            Some(_) => Err(ValueError::invalid("TimeUUID supports only version 1 UUIDs")),
            None => Err(ValueError::invalid(format!("Unknown timeuuid representation: {text}"))),
        },
        number => number_from_text(number, text),
    }
}

/// Parses a number of the type `number`.
fn number_from_text(number: &DataType, text: &str) -> Result<Vec<u8>, ValueError> {
    let (bytes, problem) = match number {
        DataType::TinyInt => {
            (text.parse::<i8>().ok().map(|value| value.to_be_bytes().to_vec()), "Unable to make byte from")
        }
        DataType::SmallInt => {
            (text.parse::<i16>().ok().map(|value| value.to_be_bytes().to_vec()), "Unable to make short from")
        }
        DataType::Int => {
            (text.parse::<i32>().ok().map(|value| value.to_be_bytes().to_vec()), "Unable to make int from")
        }
        DataType::Float => (
            parse_float(text).map(|value| java_nan_32(value).to_be_bytes().to_vec()),
            "Unable to make float from",
        ),
        DataType::Double => (
            parse_double(text).map(|value| java_nan_64(value).to_be_bytes().to_vec()),
            "Unable to make double from",
        ),
        DataType::VarInt | DataType::Decimal if text.len() > DIGITS_MAX => {
            return Err(ValueError::invalid(format!(
                "a {number} of {} characters has more than {DIGITS_MAX} digits",
                text.len()
            )));
        }
        DataType::VarInt => {
            (parse_varint(text).map(|value| value.to_signed_bytes_be()), "unable to make int from")
        }
        DataType::Decimal => {
            (Decimal::parse(text).map(|value| value.encode()), "unable to make BigDecimal from")
        }
        // bigint and counter
        _ => (text.parse::<i64>().ok().map(|value| value.to_be_bytes().to_vec()), "Unable to make long from"),
    };
    bytes.ok_or_else(|| unreadable(problem, text))
}

fn unreadable(problem: &str, text: &str) -> ValueError {
    ValueError::invalid(format!("{problem} '{text}'"))
}

fn is_nested(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, List { .. } | Set { .. } | Map { .. } | Tuple(_) | Udt { .. } | Vector { .. })
}

/// Java writes all NaNs alike.
pub(super) fn java_nan_64(value: f64) -> f64 {
    if value.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { value }
}

/// Java writes all NaNs alike.
pub(super) fn java_nan_32(value: f32) -> f32 {
    if value.is_nan() { f32::from_bits(0x7fc0_0000) } else { value }
}

pub(super) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let shape = text.bytes().map(|byte| if byte.is_ascii_hexdigit() { b'0' } else { byte });
    if !shape.eq(*b"00000000-0000-0000-0000-000000000000") {
        return None;
    }
    uuid::Uuid::parse_str(text).ok().map(uuid::Uuid::into_bytes)
}

/// Decodes hexadecimal digits; `None` for an odd number of them or other characters.
pub fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// Lower-case hexadecimal digits.
pub fn encode_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}

/// Returns the value as text without quotes. Blobs have no `0x` prefix; collections, tuples, UDTs
/// and vectors are formatted as in [`to_literal`]. An empty value of a type without an empty text,
/// and a malformed value, are an empty text.
pub fn to_text(data_type: &DataType, bytes: &[u8]) -> String {
    match data_type {
        // Java's strings can represent text that Rust's cannot, which becomes the replacement
        // character.
        DataType::Text | DataType::Ascii => String::from_utf8_lossy(bytes).into_owned(),
        DataType::Blob => encode_hex(bytes),
        DataType::Boolean => match bytes {
            [] => String::new(),
            [0, ..] => "false".to_owned(),
            _ => "true".to_owned(),
        },
        DataType::Date => {
            bytes.try_into().map_or_else(|_| String::new(), |b| temporal::date_to_text(u32::from_be_bytes(b)))
        }
        DataType::Time => {
            bytes.try_into().map_or_else(|_| String::new(), |b| temporal::time_to_text(i64::from_be_bytes(b)))
        }
        DataType::Timestamp => bytes
            .try_into()
            .map_or_else(|_| String::new(), |b| temporal::timestamp_to_text(i64::from_be_bytes(b))),
        DataType::Duration => {
            Duration::decode(bytes).map_or_else(String::new, |duration| duration.to_string())
        }
        DataType::Inet => inet_to_text(bytes),
        DataType::Uuid | DataType::TimeUuid => {
            uuid::Uuid::from_slice(bytes).map_or_else(|_| String::new(), |uuid| uuid.to_string())
        }
        DataType::Empty => String::new(),
        DataType::Custom(custom) => custom_text::format(custom, bytes),
        nested if is_nested(nested) => to_literal(nested, Some(bytes)),
        number => Number::decode(number, bytes).map_or_else(String::new, |number| number.to_text()),
    }
}

/// Returns the value as a CQL literal that parses to it; `null` for null and for empty values that
/// have no literal.
pub fn to_literal(data_type: &DataType, bytes: Option<&[u8]>) -> String {
    let mut out = String::new();
    write_literal(data_type, bytes, &mut out);
    out
}

fn write_literal(data_type: &DataType, bytes: Option<&[u8]>, out: &mut String) {
    let has_empty_literal = matches!(data_type, DataType::Text | DataType::Ascii | DataType::Blob);
    let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty() || has_empty_literal) else {
        out.push_str("null");
        return;
    };
    match data_type {
        DataType::List { element, .. } => {
            out.push('[');
            separated(collection::read_list(bytes), out, |item, out| write_literal(element, item, out));
            out.push(']');
        }
        DataType::Set { element, .. } => {
            out.push('{');
            separated(collection::read_list(bytes), out, |item, out| write_literal(element, item, out));
            out.push('}');
        }
        DataType::Map { key, value, .. } => {
            out.push('{');
            separated(collection::read_map(bytes), out, |(k, v), out| {
                write_literal(key, Some(k), out);
                out.push_str(": ");
                write_literal(value, Some(v), out);
            });
            out.push('}');
        }
        DataType::Tuple(types) => {
            out.push('(');
            separated(types.iter().zip(collection::read_tuple(bytes)), out, |(item_type, item), out| {
                write_literal(item_type, item, out);
            });
            out.push(')');
        }
        DataType::Udt { definition, .. } => {
            out.push('{');
            let fields = definition.fields.iter().zip(collection::read_tuple(bytes));
            separated(fields, out, |((name, field_type), field), out| {
                out.push_str(&quote_identifier(name));
                out.push_str(": ");
                write_literal(field_type, field, out);
            });
            out.push('}');
        }
        DataType::Vector { element, dimension } => {
            out.push('[');
            let elements = vector::read_vector(element, *dimension, bytes);
            separated(elements, out, |item, out| write_literal(element, Some(item), out));
            out.push(']');
        }
        DataType::Blob | DataType::Custom(_) => {
            out.push_str("0x");
            out.push_str(&encode_hex(bytes));
        }
        DataType::Text
        | DataType::Ascii
        | DataType::Date
        | DataType::Time
        | DataType::Timestamp
        | DataType::Inet => {
            // Writing to a string cannot fail.
            let _ = write!(out, "'{}'", to_text(data_type, bytes).replace('\'', "''"));
        }
        other => out.push_str(&to_text(other, bytes)),
    }
}

/// Writes all items with `, ` between them.
pub(super) fn separated<T>(
    items: impl Iterator<Item = T>,
    out: &mut String,
    mut write: impl FnMut(T, &mut String),
) {
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write(item, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_nested_values_read_as_cql() {
        let tuple = DataType::tuple([DataType::Int, DataType::Text, DataType::Blob]);
        let mut bytes = Vec::new();
        collection::write_tuple(&mut bytes, [Some([0, 0, 0, 5].as_slice()), Some(b"it's"), None]);
        assert_eq!(to_literal(&tuple, Some(&bytes)), "(5, 'it''s', null)");
        let map = DataType::map(DataType::Text, DataType::Blob);
        let mut bytes = Vec::new();
        collection::write_map(&mut bytes, [(b"k".as_slice(), [0xca, 0xfe].as_slice())].into_iter());
        assert_eq!(to_literal(&map, Some(&bytes)), "{'k': 0xcafe}");
    }
}
