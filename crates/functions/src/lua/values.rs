//! Values of CQL's types as values of Lua.
//!
//! | type | argument | result |
//! | --- | --- | --- |
//! | `ascii`, `text`, `blob` | string | string |
//! | `boolean` | boolean | boolean |
//! | integers, `counter` | integer | integer, float without fraction, string of digits |
//! | `varint` | integer, or string of digits if it is too large | the same |
//! | `float`, `double` | float | number, string |
//! | `decimal` | string | string, number |
//! | `uuid`, `timeuuid`, `inet` | string | string |
//! | `timestamp` | integer: milliseconds since 1970 | integer, string |
//! | `date` | integer: days since 1970 | integer, string |
//! | `time` | integer: nanoseconds since midnight | integer, string |
//! | `duration` | table with `months`, `days` and `nanoseconds` | the same, string |
//! | `list`, `vector`, `tuple` | table from index 1 on | the same |
//! | `set` | table with `true` for each element | the same |
//! | `map` | table | table |
//! | user-defined type | table with the names of the fields | the same |
//!
//! Null is `nil`.

use std::cell::Cell;

use cassette_cql::values::duration::Duration;
use cassette_cql::values::functions::user::is_null;
use cassette_cql::values::number::{Number, double_to_text};
use cassette_cql::values::{build_list, build_map, build_set, build_tuple, build_vector, from_text, to_text};
use cassette_rows::types::{DataType, collection, vector};
use mlua::{Integer, IntoLua, Lua, Table, Value};

/// The number of the day 1970-01-01 in a `date`.
const EPOCH: i64 = 1 << 31;

/// Returns a value as an argument.
pub(super) fn to_lua(lua: &Lua, data_type: &DataType, value: Option<&[u8]>) -> mlua::Result<Value> {
    let Some(bytes) = value.filter(|_| !is_null(data_type, value)) else { return Ok(Value::Nil) };
    let integer =
        |bytes: &[u8]| Number::decode(data_type, bytes).map_or(Value::Nil, |n| Value::Integer(n.to_long()));
    let long = |bytes: &[u8]| bytes.try_into().map(i64::from_be_bytes).map_or(Value::Nil, Value::Integer);
    Ok(match data_type {
        DataType::Ascii | DataType::Text | DataType::Blob | DataType::Empty | DataType::Custom(_) => {
            lua.create_string(bytes)?.into_lua(lua)?
        }
        DataType::Boolean => Value::Boolean(bytes != [0]),
        DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt | DataType::Counter => {
            integer(bytes)
        }
        DataType::VarInt => match Number::decode(data_type, bytes) {
            Some(Number::VarInt(number)) => match Integer::try_from(&number) {
                Ok(number) => Value::Integer(number),
                Err(_) => number.to_string().into_lua(lua)?,
            },
            _ => Value::Nil,
        },
        DataType::Float | DataType::Double => {
            Number::decode(data_type, bytes).map_or(Value::Nil, |n| Value::Number(n.to_double()))
        }
        DataType::Timestamp | DataType::Time => long(bytes),
        DataType::Date => bytes
            .try_into()
            .map_or(Value::Nil, |bytes| Value::Integer(i64::from(u32::from_be_bytes(bytes)) - EPOCH)),
        DataType::Duration => match Duration::decode(bytes) {
            Some(duration) => {
                let table = lua.create_table()?;
                table.raw_set("months", duration.months)?;
                table.raw_set("days", duration.days)?;
                table.raw_set("nanoseconds", duration.nanoseconds)?;
                Value::Table(table)
            }
            None => Value::Nil,
        },
        DataType::Decimal | DataType::Inet | DataType::Uuid | DataType::TimeUuid => {
            to_text(data_type, bytes).into_lua(lua)?
        }
        DataType::List { element, .. } => {
            let elements = collection::read_list(bytes);
            sequence(lua, elements.map(|value| (&**element, value)))?
        }
        DataType::Vector { element, dimension } => {
            let elements = vector::read_vector(element, *dimension, bytes);
            sequence(lua, elements.map(|value| (&**element, Some(value))))?
        }
        DataType::Tuple(items) => sequence(lua, items.iter().zip(collection::read_tuple(bytes)))?,
        DataType::Set { element, .. } => {
            let table = lua.create_table()?;
            for value in collection::read_list(bytes) {
                table.raw_set(to_lua(lua, element, value)?, true)?;
            }
            Value::Table(table)
        }
        DataType::Map { key, value, .. } => {
            let table = lua.create_table()?;
            for (k, v) in collection::read_map(bytes) {
                table.raw_set(to_lua(lua, key, Some(k))?, to_lua(lua, value, Some(v))?)?;
            }
            Value::Table(table)
        }
        DataType::Udt { definition, .. } => {
            let table = lua.create_table()?;
            for ((name, field), value) in definition.fields.iter().zip(collection::read_tuple(bytes)) {
                table.raw_set(name.as_str(), to_lua(lua, field, value)?)?;
            }
            Value::Table(table)
        }
    })
}

fn sequence<'a>(
    lua: &Lua,
    elements: impl Iterator<Item = (&'a DataType, Option<&'a [u8]>)>,
) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    for (index, (data_type, value)) in elements.enumerate() {
        table.raw_set(index + 1, to_lua(lua, data_type, value)?)?;
    }
    Ok(Value::Table(table))
}

/// Returns the bytes of a result; `None` is null.
///
/// # Errors
/// If it is no value of the type, or longer than `room` bytes: one table can contain the same text
/// many times.
pub(super) fn from_lua(data_type: &DataType, value: &Value, room: &Room) -> Result<Option<Vec<u8>>, String> {
    if value.is_nil() {
        return Ok(None);
    }
    let bytes = bytes_of(data_type, value, room)?;
    room.take(ELEMENT_SIZE + bytes.len())?;
    data_type.validate(&bytes).map_err(|invalid| invalid.0)?;
    Ok(Some(bytes))
}

/// The assumed size of an element besides its bytes.
const ELEMENT_SIZE: usize = 24;

/// The bytes that a result may still occupy.
pub(super) struct Room(Cell<usize>);

impl Room {
    pub fn new(bytes: usize) -> Self {
        Self(Cell::new(bytes))
    }

    fn take(&self, bytes: usize) -> Result<(), String> {
        let left = self.0.get().checked_sub(bytes).ok_or("out of memory")?;
        self.0.set(left);
        Ok(())
    }
}

fn bytes_of(data_type: &DataType, value: &Value, room: &Room) -> Result<Vec<u8>, String> {
    let expected = |what: &str| format!("expected {what}, found {}", value.type_name());
    match data_type {
        DataType::Ascii | DataType::Text | DataType::Blob | DataType::Empty | DataType::Custom(_) => {
            match value {
                Value::String(text) => {
                    room.take(text.as_bytes().len())?;
                    Ok(text.as_bytes().to_vec())
                }
                _ => Err(expected("string")),
            }
        }
        DataType::Boolean => match value {
            Value::Boolean(value) => Ok(vec![u8::from(*value)]),
            _ => Err(expected("boolean")),
        },
        DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt | DataType::VarInt => {
            match (integer(value), value) {
                (Some(number), _) => parse(data_type, &number.to_string()),
                (None, Value::String(text)) => parse(data_type, &text.to_string_lossy()),
                _ => Err(expected("integer")),
            }
        }
        DataType::Counter => match integer(value) {
            Some(number) => Ok(number.to_be_bytes().to_vec()),
            None => Err(expected("integer")),
        },
        DataType::Float | DataType::Double => match (float(value), value) {
            (Some(number), _) if *data_type == DataType::Float => Ok((number as f32).to_be_bytes().to_vec()),
            (Some(number), _) => Ok(number.to_be_bytes().to_vec()),
            (None, Value::String(text)) => parse(data_type, &text.to_string_lossy()),
            _ => Err(expected("number")),
        },
        DataType::Decimal => match value {
            Value::Integer(number) => parse(data_type, &number.to_string()),
            Value::Number(number) => parse(data_type, &double_to_text(*number)),
            Value::String(text) => parse(data_type, &text.to_string_lossy()),
            _ => Err(expected("string or number")),
        },
        DataType::Timestamp | DataType::Time | DataType::Date => match (integer(value), value) {
            (Some(days), _) if *data_type == DataType::Date => days
                .checked_add(EPOCH)
                .and_then(|day| u32::try_from(day).ok())
                .map(|day| day.to_be_bytes().to_vec())
                .ok_or_else(|| format!("expected days since 1970-01-01, found {days}")),
            (Some(number), _) => Ok(number.to_be_bytes().to_vec()),
            (None, Value::String(text)) => parse(data_type, &text.to_string_lossy()),
            _ => Err(expected("integer or string")),
        },
        DataType::Duration => match value {
            Value::Table(table) => duration(table),
            Value::String(text) => parse(data_type, &text.to_string_lossy()),
            _ => Err(expected("table with months, days and nanoseconds")),
        },
        DataType::Inet | DataType::Uuid | DataType::TimeUuid => match value {
            Value::String(text) => parse(data_type, &text.to_string_lossy()),
            _ => Err(expected("string")),
        },
        _ => match value {
            Value::Table(table) => composite(data_type, table, room),
            _ => Err(expected("table")),
        },
    }
}

/// Returns the bytes of a collection, vector, tuple or user-defined type.
fn composite(data_type: &DataType, table: &Table, room: &Room) -> Result<Vec<u8>, String> {
    match data_type {
        DataType::List { element, .. } => Ok(build_list(&elements(element, table, room)?)),
        DataType::Vector { element, dimension } => {
            build_vector(element, *dimension, &elements(element, table, room)?)
                .map_err(|error| error.to_string())
        }
        DataType::Set { element, .. } => {
            let mut found = Vec::new();
            for (key, value) in entries(table)? {
                if value != Value::Boolean(true) {
                    return Err("expected a table with true for each element of the set".to_owned());
                }
                found.push(required(element, &key, "an element", room)?);
            }
            Ok(build_set(element, found))
        }
        DataType::Map { key: key_type, value: value_type, .. } => {
            let mut found = Vec::new();
            for (key, value) in entries(table)? {
                let key = required(key_type, &key, "a key", room)?;
                found.push((key, required(value_type, &value, "a value", room)?));
            }
            Ok(build_map(key_type, found))
        }
        DataType::Tuple(items) => {
            if table.raw_len() > items.len() {
                return Err(format!("expected {} items, found {}", items.len(), table.raw_len()));
            }
            let item = |(at, item): (usize, &DataType)| from_lua(item, &get(table, at + 1)?, room);
            let items: Result<Vec<_>, String> = items.iter().enumerate().map(item).collect();
            Ok(build_tuple(&items?))
        }
        DataType::Udt { definition, .. } => {
            for (key, _) in entries(table)? {
                let is_field = match &key {
                    Value::String(name) => definition.field(&name.to_string_lossy()).is_some(),
                    _ => false,
                };
                if !is_field {
                    let key = key.to_string().unwrap_or_default();
                    return Err(format!("type {} has no field {key}", definition.name));
                }
            }
            let field = |(name, field): &(String, DataType)| {
                from_lua(field, &get(table, name.as_str())?, room)
                    .map_err(|error| format!("field {name}: {error}"))
            };
            let fields: Result<Vec<_>, String> = definition.fields.iter().map(field).collect();
            Ok(build_tuple(&fields?))
        }
        other => Err(format!("{other} is not supported")),
    }
}

fn elements(element: &DataType, table: &Table, room: &Room) -> Result<Vec<Vec<u8>>, String> {
    let mut found = Vec::new();
    for at in 1..=table.raw_len() {
        found.push(required(element, &get(table, at)?, "an element", room)?);
    }
    Ok(found)
}

fn required(data_type: &DataType, value: &Value, what: &str, room: &Room) -> Result<Vec<u8>, String> {
    from_lua(data_type, value, room)?.ok_or_else(|| format!("{what} is nil"))
}

fn get(table: &Table, key: impl IntoLua) -> Result<Value, String> {
    table.raw_get(key).map_err(|error| error.to_string())
}

fn entries(table: &Table) -> Result<Vec<(Value, Value)>, String> {
    table.pairs::<Value, Value>().collect::<mlua::Result<_>>().map_err(|error| error.to_string())
}

/// Returns an integer, or a float without fraction as an integer.
fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        // The greatest float below 2^63 is exact.
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 9_223_372_036_854_775_808.0 => {
            Some(*number as i64)
        }
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

fn duration(table: &Table) -> Result<Vec<u8>, String> {
    let part = |name: &str| {
        let value = get(table, name)?;
        if value.is_nil() {
            return Ok(0);
        }
        integer(&value).ok_or_else(|| format!("{name}: expected integer, found {}", value.type_name()))
    };
    let (months, days, nanoseconds) = (part("months")?, part("days")?, part("nanoseconds")?);
    let small = |number: i64| i32::try_from(number).map_err(|_| format!("{number} is out of range"));
    let duration = Duration { months: small(months)?, days: small(days)?, nanoseconds };
    Ok(duration.encode())
}

fn parse(data_type: &DataType, text: &str) -> Result<Vec<u8>, String> {
    from_text(data_type, text).map_err(|error| error.to_string())
}
