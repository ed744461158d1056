//! Conversion of Rust values to the bytes of a column's type.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use cassette_rows::DataType;
use cassette_rows::types::{collection, vector};
use cassette_rows::vint;
use num_bigint::BigInt;
use uuid::Uuid;

use super::Value;
use crate::basics::error::{DatabaseError, Result, bail_invalid};

/// The result of writing a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The bytes were appended.
    Bytes,
    /// The value is null; nothing was appended.
    Null,
    /// The value is omitted; nothing was appended.
    Unset,
}

/// A Rust value that can be bound to a marker.
pub trait ToCql {
    /// Appends the value in the encoding of `data_type`.
    ///
    /// # Errors
    /// Invalid, if it is not a value of that type, or out of its range.
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written>;
}

fn mismatch<T>(what: &str, data_type: &DataType) -> Result<T> {
    bail_invalid!("cannot convert a Rust value: expected CQL's {data_type}, found {what}")
}

/// Writes an integer as any integer type, if it is in range.
fn write_whole(value: i64, kind: &str, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
    let range = |_| DatabaseError::Invalid(format!("{value} is out of the range of CQL's {data_type}"));
    match data_type {
        DataType::TinyInt => out.extend_from_slice(&i8::try_from(value).map_err(range)?.to_be_bytes()),
        DataType::SmallInt => out.extend_from_slice(&i16::try_from(value).map_err(range)?.to_be_bytes()),
        DataType::Int => out.extend_from_slice(&i32::try_from(value).map_err(range)?.to_be_bytes()),
        DataType::BigInt | DataType::Counter | DataType::Timestamp | DataType::Time => {
            out.extend_from_slice(&value.to_be_bytes());
        }
        DataType::VarInt => out.extend_from_slice(&BigInt::from(value).to_signed_bytes_be()),
        _ => return mismatch(kind, data_type),
    }
    Ok(Written::Bytes)
}

macro_rules! whole_numbers {
    ($($number:ty)*) => {$(
        impl ToCql for $number {
            fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
                write_whole(i64::from(*self), stringify!($number), data_type, out)
            }
        }
    )*};
}

whole_numbers!(i8 i16 i32 i64 u16 u32);

impl ToCql for bool {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        match data_type {
            DataType::Boolean => out.push(u8::from(*self)),
            _ => return mismatch("bool", data_type),
        }
        Ok(Written::Bytes)
    }
}

impl ToCql for f32 {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        match data_type {
            DataType::Float => out.extend_from_slice(&self.to_be_bytes()),
            _ => return f64::from(*self).write(data_type, out),
        }
        Ok(Written::Bytes)
    }
}

impl ToCql for f64 {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        match data_type {
            DataType::Double => out.extend_from_slice(&self.to_be_bytes()),
            // A literal like 1.5 may be meant for either type.
            DataType::Float if *self as f32 as f64 == *self || self.is_nan() => {
                out.extend_from_slice(&(*self as f32).to_be_bytes());
            }
            _ => return mismatch("f64", data_type),
        }
        Ok(Written::Bytes)
    }
}

impl ToCql for str {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        match data_type {
            DataType::Text => {}
            DataType::Ascii if self.is_ascii() => {}
            _ => return mismatch("text", data_type),
        }
        out.extend_from_slice(self.as_bytes());
        Ok(Written::Bytes)
    }
}

impl ToCql for String {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        self.as_str().write(data_type, out)
    }
}

impl ToCql for [u8] {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        match data_type {
            DataType::Blob | DataType::Custom(_) => out.extend_from_slice(self),
            _ => return mismatch("bytes", data_type),
        }
        Ok(Written::Bytes)
    }
}

impl ToCql for Vec<u8> {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        self.as_slice().write(data_type, out)
    }
}

impl<const N: usize> ToCql for [u8; N] {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        self.as_slice().write(data_type, out)
    }
}

impl ToCql for bytes::Bytes {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        self[..].write(data_type, out)
    }
}

impl ToCql for Uuid {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        match data_type {
            DataType::Uuid | DataType::TimeUuid => out.extend_from_slice(self.as_bytes()),
            _ => return mismatch("uuid", data_type),
        }
        Ok(Written::Bytes)
    }
}

impl ToCql for IpAddr {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        match (data_type, self) {
            (DataType::Inet, Self::V4(address)) => out.extend_from_slice(&address.octets()),
            (DataType::Inet, Self::V6(address)) => out.extend_from_slice(&address.octets()),
            _ => return mismatch("ip address", data_type),
        }
        Ok(Written::Bytes)
    }
}

impl ToCql for BigInt {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        match data_type {
            DataType::VarInt => out.extend_from_slice(&self.to_signed_bytes_be()),
            _ => return mismatch("big integer", data_type),
        }
        Ok(Written::Bytes)
    }
}

/// Rounded down to milliseconds.
impl ToCql for SystemTime {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        let millis = match self.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()),
            Err(before) => i64::try_from(before.duration().as_nanos().div_ceil(1_000_000)).map(|ms| -ms),
        };
        let millis = millis.map_err(|_| {
            DatabaseError::invalid("cannot convert a time: it is out of the range of CQL's timestamp")
        })?;
        match data_type {
            DataType::Timestamp => write_whole(millis, "time", data_type, out),
            _ => mismatch("time", data_type),
        }
    }
}

impl<T: ToCql> ToCql for Option<T> {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        self.as_ref().map_or(Ok(Written::Null), |value| value.write(data_type, out))
    }
}

impl<T: ToCql + ?Sized> ToCql for &T {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        (**self).write(data_type, out)
    }
}

impl<T: ToCql> ToCql for Vec<T> {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        write_elements(self.iter(), "Vec", data_type, out)
    }
}

impl<T: ToCql> ToCql for BTreeSet<T> {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        write_elements(self.iter(), "BTreeSet", data_type, out)
    }
}

impl<T: ToCql, S> ToCql for HashSet<T, S> {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        write_elements(self.iter(), "HashSet", data_type, out)
    }
}

impl<K: ToCql, V: ToCql> ToCql for BTreeMap<K, V> {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        write_entries(self.iter(), "BTreeMap", data_type, out)
    }
}

impl<K: ToCql, V: ToCql, S> ToCql for HashMap<K, V, S> {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        write_entries(self.iter(), "HashMap", data_type, out)
    }
}

/// Writes a part of a collection, which cannot be null.
fn write_part(part: &(impl ToCql + ?Sized), data_type: &DataType) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match part.write(data_type, &mut bytes)? {
        Written::Bytes => Ok(bytes),
        Written::Null => bail_invalid!("null is not supported inside collections"),
        Written::Unset => bail_invalid!("unset is not supported inside collections"),
    }
}

/// Writes a list, set or vector.
fn write_elements<'a, T: ToCql + 'a>(
    values: impl ExactSizeIterator<Item = &'a T>,
    kind: &str,
    data_type: &DataType,
    out: &mut Vec<u8>,
) -> Result<Written> {
    let count = values.len();
    let parts =
        |element: &DataType| values.map(|value| write_part(value, element)).collect::<Result<Vec<_>>>();
    match data_type {
        DataType::List { element, .. } => {
            collection::write_list(out, parts(element)?.iter().map(Vec::as_slice));
        }
        DataType::Set { element, .. } => {
            let mut parts = parts(element)?;
            parts.sort_by(|a, b| element.compare(a, b));
            parts.dedup_by(|a, b| element.compare(a, b).is_eq());
            collection::write_list(out, parts.iter().map(Vec::as_slice));
        }
        DataType::Vector { element, dimension } => {
            if count != *dimension as usize {
                bail_invalid!("{count} values were given for {data_type}");
            }
            parts(element)?.iter().for_each(|part| vector::write_element(out, element, part));
        }
        _ => return mismatch(kind, data_type),
    }
    Ok(Written::Bytes)
}

fn write_entries<'a, K: ToCql + 'a, V: ToCql + 'a>(
    entries: impl Iterator<Item = (&'a K, &'a V)>,
    kind: &str,
    data_type: &DataType,
    out: &mut Vec<u8>,
) -> Result<Written> {
    let DataType::Map { key, value, .. } = data_type else { return mismatch(kind, data_type) };
    let mut parts = Vec::new();
    for (k, v) in entries {
        parts.push((write_part(k, key)?, write_part(v, value)?));
    }
    parts.sort_by(|a, b| key.compare(&a.0, &b.0));
    collection::write_map(out, parts.iter().map(|(key, value)| (key.as_slice(), value.as_slice())));
    Ok(Written::Bytes)
}

impl ToCql for Value {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        match (self, data_type) {
            (Self::Null, _) => return Ok(Written::Null),
            (Self::Text(text), _) => return text.write(data_type, out),
            (Self::TinyInt(value), _) => return value.write(data_type, out),
            (Self::SmallInt(value), _) => return value.write(data_type, out),
            (Self::Int(value), _) => return value.write(data_type, out),
            (Self::BigInt(value), _) => return value.write(data_type, out),
            (Self::VarInt(value), _) => return value.write(data_type, out),
            (Self::Float(value), _) => return value.write(data_type, out),
            (Self::Double(value), _) => return value.write(data_type, out),
            (Self::Blob(bytes), _) => return bytes.write(data_type, out),
            (Self::Boolean(value), _) => return value.write(data_type, out),
            (Self::Uuid(value), _) => return value.write(data_type, out),
            (Self::Inet(value), _) => return value.write(data_type, out),
            (Self::List(values) | Self::Set(values), _) => {
                return write_elements(values.iter(), self.kind(), data_type, out);
            }
            (Self::Map(entries), _) => {
                let entries = entries.iter().map(|(key, value)| (key, value));
                return write_entries(entries, self.kind(), data_type, out);
            }
            (Self::Timestamp(value), DataType::Timestamp) | (Self::Time(value), DataType::Time) => {
                out.extend_from_slice(&value.to_be_bytes());
            }
            (Self::Date(days), DataType::Date) => out.extend_from_slice(&days.to_be_bytes()),
            (Self::Decimal { unscaled, scale }, DataType::Decimal) => {
                out.extend_from_slice(&scale.to_be_bytes());
                out.extend_from_slice(&unscaled.to_signed_bytes_be());
            }
            (Self::Duration { months, days, nanoseconds }, DataType::Duration) => {
                for part in [i64::from(*months), i64::from(*days), *nanoseconds] {
                    vint::write_signed(out, part);
                }
            }
            (Self::Tuple(values), DataType::Tuple(items)) => {
                if values.len() > items.len() {
                    bail_invalid!("{} values were given for {data_type}", values.len());
                }
                write_items(values.iter().zip(items.iter()), out)?;
            }
            (Self::UserType(fields), DataType::Udt { definition, .. }) => {
                let mut values = vec![None; definition.fields.len()];
                for (name, value) in fields {
                    let Some((index, _)) = definition.field(name) else {
                        let of = &definition.name;
                        bail_invalid!("Unknown field '{name}' in value of user defined type {of}");
                    };
                    // The first of equal names counts.
                    values[index].get_or_insert(value);
                }
                let types = definition.fields.iter().map(|(_, field)| field);
                write_items(values.into_iter().map(|value| value.unwrap_or(&Self::Null)).zip(types), out)?;
            }
            _ => return mismatch(self.kind(), data_type),
        }
        Ok(Written::Bytes)
    }
}

/// Writes the items of a tuple or user-defined type.
fn write_items<'a>(items: impl Iterator<Item = (&'a Value, &'a DataType)>, out: &mut Vec<u8>) -> Result<()> {
    for (value, data_type) in items {
        let mut bytes = Vec::new();
        let item = match value.write(data_type, &mut bytes)? {
            Written::Bytes => Some(bytes.as_slice()),
            Written::Null | Written::Unset => None,
        };
        collection::write_item(out, item);
    }
    Ok(())
}
