//! Values as Cassandra's tools print them.

use cassette_cql::values::json::encode_value;
use cassette_cql::values::text::{encode_hex, to_literal, to_text};
use cassette_rows::DataType;
use cassette_sstable::dump::ValueText;

/// Cassandra's formats of values: those of its Java classes, not those of CQL.
#[derive(Debug, Clone, Copy)]
pub struct CassandraText;

impl ValueText for CassandraText {
    fn json(&self, data_type: &DataType, value: &[u8]) -> String {
        encode_value(data_type, value)
    }

    fn text(&self, data_type: &DataType, value: &[u8]) -> String {
        match tuple_types(data_type) {
            Some(types) => tuple_text(&types, value).unwrap_or_else(|| format!("0x{}", encode_hex(value))),
            None => plain_text(data_type, value),
        }
    }

    fn literal(&self, data_type: &DataType, value: &[u8]) -> String {
        to_literal(data_type, Some(value))
    }
}

/// Collections, vectors and counters are formatted as bytes.
fn plain_text(data_type: &DataType, value: &[u8]) -> String {
    match data_type {
        DataType::List { .. }
        | DataType::Set { .. }
        | DataType::Map { .. }
        | DataType::Vector { .. }
        | DataType::Counter => encode_hex(value),
        _ => to_text(data_type, value),
    }
}

/// The items of a tuple, or of a UDT, which is one.
fn tuple_types(data_type: &DataType) -> Option<Vec<&DataType>> {
    match data_type {
        DataType::Tuple(types) => Some(types.iter().collect()),
        DataType::Udt { definition, .. } => Some(definition.fields.iter().map(|(_, field)| field).collect()),
        _ => None,
    }
}

/// Formats items separated by colons, null as `@`; inside an item both are preceded by a backslash.
/// `None` if the bytes are no tuple.
fn tuple_text(types: &[&DataType], mut bytes: &[u8]) -> Option<String> {
    let mut out = String::new();
    for (i, data_type) in types.iter().enumerate() {
        if bytes.is_empty() {
            break;
        }
        if i > 0 {
            out.push(':');
        }
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            out.push('@');
            bytes = rest;
            continue;
        };
        let (item, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        let text = match tuple_types(data_type) {
            Some(types) => tuple_text(&types, item)?,
            None if data_type.validate(item).is_err() => return None,
            None => plain_text(data_type, item),
        };
        out.push_str(&text.replace(':', "\\:").replace('@', "\\@"));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_are_items_separated_by_colons_and_malformed_ones_are_bytes() {
        let tuple = DataType::tuple([DataType::Int, DataType::Text]);
        let text = |bytes: &[u8]| CassandraText.text(&tuple, bytes);
        assert_eq!(text(&[0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 3, b'a', b':', b'@']), "5:a\\:\\@");
        assert_eq!(text(&[0xff, 0xff, 0xff, 0xff]), "@");
        assert_eq!(text(b"upd"), "0x757064");
        assert_eq!(text(&[0, 0, 0, 44]), "0x0000002c");
    }
}
