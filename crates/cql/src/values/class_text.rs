//! Values as texts of Cassandra's Java classes, which differ from those of CQL: collections and
//! vectors are hexadecimal, tuples are separated by colons.
//!
//! `system_schema.column_masks` stores values so, and Cassandra's tools for SSTables print keys so.

use cassette_rows::DataType;
use cassette_rows::types::collection;

use super::ValueError;
use super::text::{decode_hex, encode_hex, from_text, to_text};

/// Returns the text of a value. A malformed tuple becomes its bytes, after `0x`.
pub fn to_class_text(data_type: &DataType, value: &[u8]) -> String {
    match tuple_types(data_type) {
        Some(types) => tuple_text(&types, value).unwrap_or_else(|| format!("0x{}", encode_hex(value))),
        None => plain_text(data_type, value),
    }
}

/// Parses the text of a value.
///
/// # Errors
/// Invalid, if it is not the text of a value of this type.
pub fn from_class_text(data_type: &DataType, text: &str) -> Result<Vec<u8>, ValueError> {
    let value = match tuple_types(data_type) {
        Some(types) => tuple_value(data_type, &types, text)?,
        None if is_hexadecimal(data_type) => decode_hex(text)
            .ok_or_else(|| ValueError::invalid(format!("cannot parse '{text}' as hex bytes")))?,
        None => from_text(data_type, text)?,
    };
    data_type.validate(&value)?;
    Ok(value)
}

fn is_hexadecimal(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, List { .. } | Set { .. } | Map { .. } | Vector { .. } | Counter)
}

fn plain_text(data_type: &DataType, value: &[u8]) -> String {
    if is_hexadecimal(data_type) { encode_hex(value) } else { to_text(data_type, value) }
}

/// Returns the items of a tuple, or of a UDT, which is one.
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

fn tuple_value(data_type: &DataType, types: &[&DataType], text: &str) -> Result<Vec<u8>, ValueError> {
    let items = split_items(text);
    if items.len() > types.len() {
        return Err(ValueError::invalid(format!(
            "Invalid tuple literal: too many elements. Type {data_type} expects {} but got {}",
            types.len(),
            items.len()
        )));
    }
    let mut values = Vec::with_capacity(items.len());
    for (item, data_type) in items.iter().zip(types) {
        values.push(match *item {
            "@" => None,
            item => {
                let item = item.replace("\\:", ":").replace("\\@", "@");
                Some(from_class_text(data_type, &item)?)
            }
        });
    }
    let mut out = Vec::new();
    collection::write_tuple(&mut out, values.iter().map(Option::as_deref));
    Ok(out)
}

/// Splits a text at the colons without a backslash before them.
pub(super) fn split_items(text: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(':') {
        if !text[..at].ends_with('\\') {
            items.push(&text[start..at]);
            start = at + 1;
        }
    }
    items.push(&text[start..]);
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(items: &[Option<&[u8]>]) -> Vec<u8> {
        let mut out = Vec::new();
        collection::write_tuple(&mut out, items.iter().copied());
        out
    }

    #[test]
    fn tuples_are_items_between_colons_and_malformed_ones_are_bytes() {
        let data_type = DataType::tuple([DataType::Int, DataType::Text]);
        let text = |bytes: &[u8]| to_class_text(&data_type, bytes);
        assert_eq!(text(&tuple(&[Some(&[0, 0, 0, 5]), Some(b"a:@")])), "5:a\\:\\@");
        assert_eq!(text(&tuple(&[None])), "@");
        assert_eq!(text(b"upd"), "0x757064");
        assert_eq!(text(&[0, 0, 0, 44]), "0x0000002c");
    }

    #[test]
    fn texts_of_cassandra_parse_to_the_values_that_they_were_made_of() {
        let inner = DataType::tuple([DataType::Text, DataType::Int]);
        let nested = DataType::tuple([inner, DataType::Text]);
        let one = [0, 0, 0, 1];
        for (data_type, value, text) in [
            (DataType::Int, one.to_vec(), "1"),
            (DataType::Blob, vec![0xca, 0xfe], "cafe"),
            (DataType::Time, 3_723_000_000_000_i64.to_be_bytes().to_vec(), "01:02:03.000000000"),
            (
                DataType::list(DataType::Int),
                [&one[..], &[0, 0, 0, 4], &one].concat(),
                "000000010000000400000001",
            ),
            (nested, tuple(&[Some(&tuple(&[Some(b"a:b@"), None])), Some(b"c:")]), "a\\\\:b\\\\@\\:\\@:c\\:"),
        ] {
            assert_eq!(to_class_text(&data_type, &value), text, "{data_type}");
            assert_eq!(from_class_text(&data_type, text).unwrap(), value, "{data_type}");
        }
    }

    #[test]
    fn texts_of_no_value_are_refused() {
        let data_type = DataType::tuple([DataType::Int, DataType::Text]);
        assert_eq!(
            from_class_text(&data_type, "1:a:b").unwrap_err().to_string(),
            "Invalid tuple literal: too many elements. Type frozen<tuple<int, text>> expects 2 but got 3"
        );
        assert!(from_class_text(&DataType::list(DataType::Int), "00000001").is_err());
        assert!(from_class_text(&DataType::list(DataType::Int), "xyz").is_err());
        assert!(from_class_text(&DataType::Int, "x").is_err());
    }
}
