//! JSON to values, with Cassandra's messages.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;

use cassette_rows::types::{DataType, UserType};

use super::document::{Json, is_fractional};
use crate::values::collections::{build_list, build_map, build_set, build_tuple, build_vector};
use crate::values::number::{double_to_text, parse_varint};
use crate::values::text::{from_text, java_nan_32, java_nan_64};
use crate::values::{ValueError, decimal::Decimal};

/// The value of a column in `INSERT JSON`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonColumn {
    /// Absent: null, or unchanged with `DEFAULT UNSET`.
    Absent,
    /// JSON `null`.
    Null,
    /// A value; collections and UDTs as one value, also where the column is not frozen.
    Value(Vec<u8>),
}

/// Decodes the object of an `INSERT JSON`: one entry per column, in the columns' order. Names are
/// as in CQL: lower-cased unless they are quoted inside the string.
pub fn decode_row(text: &str, columns: &[(&str, &DataType)]) -> Result<Vec<JsonColumn>, ValueError> {
    let not_a_map = |reason: &str| {
        ValueError::invalid(format!("Could not decode JSON string as a map: {reason}. (String was: {text})"))
    };
    let entries = match Json::parse(text) {
        Ok(Json::Object(entries)) => fold_names(entries),
        Ok(Json::Null) => return Err(ValueError::invalid("Got null for INSERT JSON values")),
        Ok(other) => return Err(not_a_map(&format!("it is a {}", other.class()))),
        Err(reason) => return Err(not_a_map(&reason)),
    };
    // Of entries with one name the last wins.
    let by_name: HashMap<&str, &Json> = entries.iter().map(|(name, json)| (name.as_str(), json)).collect();
    let read = |(column, data_type): &(&str, &DataType)| match by_name.get(column) {
        None => Ok(JsonColumn::Absent),
        Some(Json::Null) => Ok(JsonColumn::Null),
        Some(json) => decode_value(data_type, json).map(JsonColumn::Value).map_err(|error| match error {
            ValueError::InvalidPart(_) => error,
            error => ValueError::invalid(format!("Error decoding JSON value for {column}: {error}")),
        }),
    };
    // As in Cassandra, unknown columns are refused after values that cannot be decoded.
    let values = columns.iter().map(read).collect::<Result<_, _>>()?;
    let known: HashSet<&str> = columns.iter().map(|(column, _)| *column).collect();
    if let Some((name, _)) = entries.iter().find(|(name, _)| !known.contains(name.as_str())) {
        return Err(ValueError::invalid(format!("JSON values map contains unrecognized column: {name}")));
    }
    Ok(values)
}

/// Returns names without their quotes, or lower-cased if they have none.
fn fold_names(entries: Vec<(String, Json)>) -> Vec<(String, Json)> {
    let fold = |name: String| match name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => name.to_lowercase(),
    };
    entries.into_iter().map(|(name, json)| (fold(name), json)).collect()
}

/// Decodes a value, which is not JSON's null.
pub fn decode_value(data_type: &DataType, json: &Json) -> Result<Vec<u8>, ValueError> {
    match (data_type, json) {
        (
            DataType::TinyInt
            | DataType::SmallInt
            | DataType::Int
            | DataType::BigInt
            | DataType::Float
            | DataType::Double
            | DataType::VarInt
            | DataType::Decimal,
            _,
        ) => decode_number(data_type, json),
        (DataType::Counter, _) => Err(ValueError::invalid("counters are not written as JSON")),
        (DataType::Blob, _) => decode_blob(json),
        (
            DataType::List { .. }
            | DataType::Set { .. }
            | DataType::Vector { .. }
            | DataType::Map { .. }
            | DataType::Tuple(_)
            | DataType::Udt { .. },
            _,
        ) => decode_nested(data_type, json),

        (DataType::Boolean, Json::Boolean(value)) => Ok(vec![u8::from(*value)]),
        (DataType::Timestamp, Json::Number(text)) if json.class() == "Long" => from_text(data_type, text),
        // In Cassandra this error is of another class, which is reported as it is.
        (DataType::Duration, Json::String(text)) => {
            from_text(data_type, text).map_err(|error| ValueError::InvalidPart(error.to_string()))
        }
        // All other types are strings in JSON.
        (_, Json::String(text)) => from_text(data_type, text),
        (DataType::Empty, _) => {
            Err(ValueError::invalid(format!("Expected an empty string, but got: {json}")))
        }
        _ => Err(unexpected(data_type, json)),
    }
}

/// Decodes a number, which can also be a string.
fn decode_number(data_type: &DataType, json: &Json) -> Result<Vec<u8>, ValueError> {
    let not_valid = || {
        ValueError::invalid(format!("Value '{json}' is not a valid representation of a {data_type} value"))
    };
    match (data_type, json) {
        (DataType::VarInt, _) => {
            let value = parse_varint(&json.to_string()).ok_or_else(not_valid)?;
            Ok(value.to_signed_bytes_be())
        }
        (DataType::Decimal, _) => {
            let text = match json {
                Json::Number(text) if is_fractional(text) => double_to_text(text.parse().unwrap_or(f64::NAN)),
                other => other.to_string(),
            };
            match Decimal::parse(&text) {
                Some(value) => Ok(value.encode()),
                None if text.is_empty() => Ok(Vec::new()),
                None => Err(not_valid()),
            }
        }

        (DataType::Float | DataType::Double, Json::String(text)) => from_text(data_type, text),
        // Cassandra parses a fraction as a double first.
        (DataType::Float, Json::Number(text)) if is_fractional(text) => {
            Ok(java_nan_32(text.parse::<f64>().unwrap_or(f64::NAN) as f32).to_be_bytes().to_vec())
        }
        (DataType::Float, Json::Number(text)) => {
            Ok(java_nan_32(text.parse().unwrap_or(f32::NAN)).to_be_bytes().to_vec())
        }
        (DataType::Double, Json::Number(text)) => {
            Ok(java_nan_64(text.parse().unwrap_or(f64::NAN)).to_be_bytes().to_vec())
        }

        (DataType::Int, Json::Number(_)) if json.class() != "Integer" => Err(unexpected(data_type, json)),
        (DataType::BigInt, Json::Number(_)) if !matches!(json.class(), "Integer" | "Long") => {
            Err(unexpected(data_type, json))
        }
        (_, Json::String(_) | Json::Number(_)) => from_text(data_type, &json.to_string()),
        _ => Err(unexpected(data_type, json)),
    }
}

fn decode_blob(json: &Json) -> Result<Vec<u8>, ValueError> {
    let not_valid = |reason: &dyn Display| {
        ValueError::invalid(format!("Value '{json}' is not a valid blob representation: {reason}"))
    };
    let Json::String(text) = json else {
        let class = json.class();
        return Err(not_valid(&format_args!("class {class} cannot be cast to class java.lang.String")));
    };
    let bytes = match text.strip_prefix("0x") {
        Some(hex) => from_text(&DataType::Blob, hex),
        None => {
            Err(ValueError::invalid(format!("String representation of blob is missing 0x prefix: {text}")))
        }
    };
    bytes.map_err(|reason| not_valid(&reason))
}

/// Decodes a value of a type with parts.
fn decode_nested(data_type: &DataType, json: &Json) -> Result<Vec<u8>, ValueError> {
    match (data_type, json) {
        // A nested value can be JSON within a string, as in the key of a map.
        (_, Json::String(text)) => match Json::parse(text) {
            Ok(Json::String(_)) => Err(unexpected(data_type, json)),
            Ok(inner) => decode_value(data_type, &inner),
            Err(reason) => Err(ValueError::invalid(format!("Error decoding JSON string: {reason}"))),
        },
        (DataType::List { element, .. }, Json::Array(items)) => {
            Ok(build_list(&decode_items(element, items, "list")?))
        }
        (DataType::Set { element, .. }, Json::Array(items)) => {
            Ok(build_set(element, decode_items(element, items, "set")?))
        }
        (DataType::Vector { element, dimension }, Json::Array(items)) => {
            if items.len() != *dimension as usize {
                return Err(ValueError::invalid(format!(
                    "List had incorrect size: expected {dimension} but given {}; {json}",
                    items.len()
                )));
            }
            build_vector(element, *dimension, &decode_items(element, items, "list")?)
        }
        (DataType::Map { key, value, .. }, Json::Object(entries)) => {
            let entries = entries.iter().map(|(name, json)| match json {
                Json::Null => Err(ValueError::invalid("Invalid null value in map")),
                json => Ok((decode_value(key, &Json::String(name.clone()))?, decode_value(value, json)?)),
            });
            Ok(build_map(key, entries.collect::<Result<_, _>>()?))
        }
        (DataType::Tuple(types), Json::Array(items)) => {
            let wrong = if items.len() > types.len() { "contains extra" } else { "is missing" };
            if items.len() != types.len() {
                return Err(ValueError::invalid(format!(
                    "Tuple {wrong} items (expected {}): {json}",
                    types.len()
                )));
            }
            let items = types.iter().zip(items).map(|(item_type, item)| decode_nullable(item_type, item));
            Ok(build_tuple(&items.collect::<Result<Vec<_>, _>>()?))
        }
        (DataType::Udt { definition, .. }, Json::Object(entries)) => decode_udt(definition, entries.clone()),
        _ => Err(unexpected(data_type, json)),
    }
}

/// The error of a value that JSON represents otherwise.
fn unexpected(data_type: &DataType, json: &Json) -> ValueError {
    let what = representation(data_type);
    ValueError::invalid(format!("Expected {what}, but got a {}: {json}", json.class()))
}

/// The representation of a type in JSON, in Cassandra's words.
fn representation(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Ascii => "an ascii string",
        DataType::Boolean => "a boolean value",
        DataType::TinyInt => "a byte value",
        DataType::SmallInt => "a short value",
        DataType::Int => "an int value",
        DataType::BigInt => "a bigint value",
        DataType::Float => "a float value",
        DataType::Double => "a double value",
        DataType::Timestamp => "a long or a datestring representation of a timestamp value",
        DataType::Date => "a string representation of a date value",
        DataType::Time => "a string representation of a time value",
        DataType::Uuid => "a string representation of a uuid",
        DataType::TimeUuid => "a string representation of a timeuuid",
        DataType::Inet => "a string representation of an inet value",
        DataType::Duration => "a string representation of a duration",
        DataType::List { .. } | DataType::Vector { .. } => "a list",
        DataType::Set { .. } => "a list (representing a set)",
        DataType::Map { .. } | DataType::Udt { .. } => "a map",
        DataType::Tuple(_) => "a list representation of a tuple",
        // The other types have their own errors.
        _ => "a UTF-8 string",
    }
}

fn decode_items(element: &DataType, items: &[Json], what: &str) -> Result<Vec<Vec<u8>>, ValueError> {
    let read = |item: &Json| match item {
        Json::Null => Err(ValueError::invalid(format!("Invalid null element in {what}"))),
        item => decode_value(element, item),
    };
    items.iter().map(read).collect()
}

fn decode_nullable(data_type: &DataType, json: &Json) -> Result<Option<Vec<u8>>, ValueError> {
    match json {
        Json::Null => Ok(None),
        json => decode_value(data_type, json).map(Some),
    }
}

fn decode_udt(definition: &UserType, entries: Vec<(String, Json)>) -> Result<Vec<u8>, ValueError> {
    let mut values = vec![Json::Null; definition.fields.len()];
    // The last of equal names wins.
    for (name, json) in fold_names(entries) {
        let Some((index, _)) = definition.field(&name) else {
            return Err(ValueError::invalid(format!(
                "Unknown field '{name}' in value of user defined type {}",
                definition.name
            )));
        };
        values[index] = json;
    }
    let fields = definition.fields.iter().zip(&values);
    let fields = fields.map(|((_, field), json)| decode_nullable(field, json));
    Ok(build_tuple(&fields.collect::<Result<Vec<_>, _>>()?))
}
