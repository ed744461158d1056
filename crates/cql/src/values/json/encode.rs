//! Values to JSON text, character for character as Cassandra writes it.

use cassette_rows::types::{DataType, collection, vector};

use crate::values::number::Number;
use crate::values::temporal::timestamp_to_json;
use crate::values::text::{encode_hex, separated, to_text};

/// Encodes a row of `SELECT JSON`: `{"k": 1, "\"V\"": null}`, from (name, type, value).
pub fn encode_row<'a>(columns: impl Iterator<Item = (&'a str, &'a DataType, Option<&'a [u8]>)>) -> String {
    let mut out = String::from("{");
    separated(columns, &mut out, |(name, data_type, value), out| {
        write_string(&quote_name(name), out);
        out.push_str(": ");
        write_nullable(data_type, value, out);
    });
    out.push('}');
    out
}

/// Encodes a value as JSON. An empty one of a type that has no empty text is `""`.
pub fn encode_value(data_type: &DataType, bytes: &[u8]) -> String {
    let mut out = String::new();
    write_value(data_type, bytes, &mut out);
    out
}

/// Returns the name of a column or field in JSON: with additional quotes unless it is all lower
/// case.
pub fn quote_name(name: &str) -> String {
    if name.to_lowercase() == name { name.to_owned() } else { format!("\"{name}\"") }
}

fn write_nullable(data_type: &DataType, bytes: Option<&[u8]>, out: &mut String) {
    match bytes {
        Some(bytes) => write_value(data_type, bytes, out),
        None => out.push_str("null"),
    }
}

fn write_value(data_type: &DataType, bytes: &[u8], out: &mut String) {
    match data_type {
        DataType::Text | DataType::Ascii => write_string(&String::from_utf8_lossy(bytes), out),
        DataType::Blob => {
            out.push_str("\"0x");
            out.push_str(&encode_hex(bytes));
            out.push('"');
        }
        DataType::Boolean if !bytes.is_empty() => out.push_str(&to_text(data_type, bytes)),
        DataType::Timestamp => match bytes.try_into() {
            Ok(ms) => write_string(&timestamp_to_json(i64::from_be_bytes(ms)), out),
            Err(_) => out.push_str("\"\""),
        },
        DataType::List { element, .. } | DataType::Set { element, .. } => {
            out.push('[');
            separated(collection::read_list(bytes), out, |item, out| write_nullable(element, item, out));
            out.push(']');
        }
        DataType::Map { key, value, .. } => {
            out.push('{');
            separated(collection::read_map(bytes), out, |(k, v), out| {
                // Keys of JSON objects are strings, so other keys are written as JSON within a
                // string.
                let name = encode_value(key, k);
                if name.starts_with('"') {
                    out.push_str(&name)
                } else {
                    write_string(&name, out)
                }
                out.push_str(": ");
                write_value(value, v, out);
            });
            out.push('}');
        }
        DataType::Tuple(types) => {
            let mut items = collection::read_tuple(bytes);
            out.push('[');
            separated(types.iter(), out, |item_type, out| {
                write_nullable(item_type, items.next().flatten(), out);
            });
            out.push(']');
        }
        DataType::Udt { definition, .. } => {
            let mut items = collection::read_tuple(bytes);
            out.push('{');
            separated(definition.fields.iter(), out, |(name, field), out| {
                write_string(&quote_name(name), out);
                out.push_str(": ");
                write_nullable(field, items.next().flatten(), out);
            });
            out.push('}');
        }
        DataType::Vector { element, dimension } => {
            out.push('[');
            separated(vector::read_vector(element, *dimension, bytes), out, |item, out| {
                write_value(element, item, out);
            });
            out.push(']');
        }
        _ => match Number::decode(data_type, bytes) {
            // JSON supports neither.
            Some(Number::Float(value)) if !value.is_finite() => out.push_str("null"),
            Some(Number::Double(value)) if !value.is_finite() => out.push_str("null"),
            Some(number) => out.push_str(&number.to_text()),
            None => write_string(&to_text(data_type, bytes), out),
        },
    }
}

/// Writes a JSON string; escapes only what must be.
fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
