//! Conversion of columns' bytes to Rust values.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cassette_rows::DataType;
use cassette_rows::types::{collection, vector};
use cassette_rows::vint;
use num_bigint::BigInt;
use uuid::Uuid;

use super::Value;
use crate::basics::error::{DatabaseError, Result, bail_invalid};

/// A Rust type that column values can be converted to.
pub trait FromCql: Sized {
    /// Converts the bytes of a value; `None` is null.
    ///
    /// # Errors
    /// Invalid, if the column has another type, or the value is null and the Rust type has no null.
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self>;
}

/// Returns the bytes of a non-null value. An empty value of a fixed-width type is null.
fn present<'a>(data_type: &DataType, bytes: Option<&'a [u8]>) -> Result<&'a [u8]> {
    match bytes {
        Some(bytes) if !bytes.is_empty() || data_type.fixed_width().is_none() => Ok(bytes),
        _ => bail_invalid!("the value is null: read it as an Option"),
    }
}

fn mismatch<T>(rust: &str, data_type: &DataType) -> Result<T> {
    bail_invalid!("cannot convert a value of CQL's {data_type} to {rust}")
}

fn array<const N: usize>(data_type: &DataType, bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| {
        DatabaseError::Server(format!(
            "invalid value of {data_type}: expected {N} bytes, found {}",
            bytes.len()
        ))
    })
}

fn read_whole(data_type: &DataType, bytes: Option<&[u8]>, rust: &str) -> Result<i64> {
    let bytes = present(data_type, bytes)?;
    Ok(match data_type {
        DataType::TinyInt => i8::from_be_bytes(array(data_type, bytes)?).into(),
        DataType::SmallInt => i16::from_be_bytes(array(data_type, bytes)?).into(),
        DataType::Int => i32::from_be_bytes(array(data_type, bytes)?).into(),
        DataType::BigInt | DataType::Counter | DataType::Timestamp | DataType::Time => {
            i64::from_be_bytes(array(data_type, bytes)?)
        }
        DataType::VarInt => i64::try_from(BigInt::from_signed_bytes_be(bytes)).map_err(|_| {
            DatabaseError::Invalid(format!("cannot convert a varint: it is out of the range of {rust}"))
        })?,
        _ => return mismatch(rust, data_type),
    })
}

macro_rules! whole_numbers {
    ($($number:ty)*) => {$(
        /// Converts from any integer type, if the value is in range.
        impl FromCql for $number {
            fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
                let value = read_whole(data_type, bytes, stringify!($number))?;
                Self::try_from(value).map_err(|_| {
                    DatabaseError::Invalid(format!("{value} is beyond the range of {}", stringify!($number)))
                })
            }
        }
    )*};
}

whole_numbers!(i8 i16 i32 i64 u16 u32 u64);

macro_rules! reads {
    ($($rust:ty, $pattern:pat => |$data_type:ident, $bytes:ident| $read:expr;)*) => {$(
        impl FromCql for $rust {
            fn read($data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
                match $data_type {
                    $pattern => {
                        let $bytes = present($data_type, bytes)?;
                        Ok($read)
                    }
                    _ => mismatch(stringify!($rust), $data_type),
                }
            }
        }
    )*};
}

reads! {
    bool, DataType::Boolean => |data_type, bytes| bytes != [0];
    f32, DataType::Float => |data_type, bytes| f32::from_be_bytes(array(data_type, bytes)?);
    String, DataType::Text | DataType::Ascii => |data_type, bytes| {
        String::from_utf8(bytes.to_vec()).map_err(|_| {
            DatabaseError::invalid("the text is not valid UTF-8 in Rust: read it as a Value")
        })?
    };
    Vec<u8>, DataType::Blob | DataType::Custom(_) => |data_type, bytes| bytes.to_vec();
    bytes::Bytes, DataType::Blob | DataType::Custom(_) => |data_type, bytes| bytes::Bytes::copy_from_slice(bytes);
    Uuid, DataType::Uuid | DataType::TimeUuid => |data_type, bytes| Uuid::from_bytes(array(data_type, bytes)?);
    BigInt, DataType::VarInt => |data_type, bytes| BigInt::from_signed_bytes_be(bytes);
    IpAddr, DataType::Inet => |data_type, bytes| match bytes.len() {
        4 => IpAddr::from(array::<4>(data_type, bytes)?),
        _ => IpAddr::from(array::<16>(data_type, bytes)?),
    };
}

impl FromCql for f64 {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        match data_type {
            DataType::Double => Ok(f64::from_be_bytes(array(data_type, present(data_type, bytes)?)?)),
            DataType::Float => f32::read(data_type, bytes).map(f64::from),
            _ => mismatch("f64", data_type),
        }
    }
}

impl FromCql for SystemTime {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        if *data_type != DataType::Timestamp {
            return mismatch("SystemTime", data_type);
        }
        let millis = read_whole(data_type, bytes, "SystemTime")?;
        let distance = Duration::from_millis(millis.unsigned_abs());
        let time =
            if millis < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
        time.ok_or_else(|| DatabaseError::Invalid(format!("{millis} ms are beyond the range of SystemTime")))
    }
}

impl<T: FromCql> FromCql for Option<T> {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        match bytes {
            None => Ok(None),
            Some([]) if data_type.fixed_width().is_some() => Ok(None),
            bytes => T::read(data_type, bytes).map(Some),
        }
    }
}

/// Converts the elements of a list, set or vector. Null is empty: non-frozen collections do not
/// distinguish them.
fn read_elements<T: FromCql, C: FromIterator<T>>(
    data_type: &DataType,
    bytes: Option<&[u8]>,
    rust: &str,
) -> Result<C> {
    let bytes = bytes.unwrap_or_default();
    match data_type {
        DataType::List { element, .. } | DataType::Set { element, .. } => {
            collection::read_list(bytes).map(|item| T::read(element, item)).collect()
        }
        DataType::Vector { element, dimension } => {
            vector::read_vector(element, *dimension, bytes).map(|item| T::read(element, Some(item))).collect()
        }
        _ => mismatch(rust, data_type),
    }
}

fn read_entries<K: FromCql, V: FromCql, C: FromIterator<(K, V)>>(
    data_type: &DataType,
    bytes: Option<&[u8]>,
    rust: &str,
) -> Result<C> {
    let DataType::Map { key, value, .. } = data_type else { return mismatch(rust, data_type) };
    let entries = collection::read_map(bytes.unwrap_or_default());
    entries.map(|(k, v)| Ok((K::read(key, Some(k))?, V::read(value, Some(v))?))).collect()
}

impl<T: FromCql> FromCql for Vec<T> {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        read_elements(data_type, bytes, "Vec")
    }
}

impl<T: FromCql + Ord> FromCql for BTreeSet<T> {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        read_elements(data_type, bytes, "BTreeSet")
    }
}

impl<T: FromCql + Eq + Hash> FromCql for HashSet<T> {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        read_elements(data_type, bytes, "HashSet")
    }
}

impl<K: FromCql + Ord, V: FromCql> FromCql for BTreeMap<K, V> {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        read_entries(data_type, bytes, "BTreeMap")
    }
}

impl<K: FromCql + Eq + Hash, V: FromCql> FromCql for HashMap<K, V> {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        read_entries(data_type, bytes, "HashMap")
    }
}

impl FromCql for Value {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        let Some(raw) = bytes else { return Ok(Self::Null) };
        if raw.is_empty() && data_type.fixed_width().is_some() {
            return Ok(Self::Null);
        }
        Ok(match data_type {
            DataType::Empty => Self::Null,
            DataType::Text | DataType::Ascii => Self::Text(String::from_utf8_lossy(raw).into_owned()),
            DataType::BigInt | DataType::Counter => Self::BigInt(FromCql::read(data_type, bytes)?),
            DataType::Blob | DataType::Custom(_) => Self::Blob(raw.to_vec()),
            DataType::Boolean => Self::Boolean(FromCql::read(data_type, bytes)?),
            DataType::Date => Self::Date(u32::from_be_bytes(array(data_type, raw)?)),
            DataType::Decimal => {
                let (scale, unscaled) = raw.split_first_chunk::<4>().ok_or_else(|| {
                    DatabaseError::Server(format!("a value of decimal has {} bytes", raw.len()))
                })?;
                Self::Decimal {
                    unscaled: BigInt::from_signed_bytes_be(unscaled),
                    scale: i32::from_be_bytes(*scale),
                }
            }
            DataType::Double => Self::Double(FromCql::read(data_type, bytes)?),
            DataType::Duration => read_duration(raw)?,
            DataType::Float => Self::Float(FromCql::read(data_type, bytes)?),
            DataType::Inet => Self::Inet(FromCql::read(data_type, bytes)?),
            DataType::Int => Self::Int(FromCql::read(data_type, bytes)?),
            DataType::SmallInt => Self::SmallInt(FromCql::read(data_type, bytes)?),
            DataType::Time => Self::Time(FromCql::read(data_type, bytes)?),
            DataType::Timestamp => Self::Timestamp(FromCql::read(data_type, bytes)?),
            DataType::Uuid | DataType::TimeUuid => Self::Uuid(FromCql::read(data_type, bytes)?),
            DataType::TinyInt => Self::TinyInt(FromCql::read(data_type, bytes)?),
            DataType::VarInt => Self::VarInt(FromCql::read(data_type, bytes)?),
            DataType::List { .. } | DataType::Vector { .. } => Self::List(FromCql::read(data_type, bytes)?),
            DataType::Set { .. } => Self::Set(FromCql::read(data_type, bytes)?),
            DataType::Map { .. } => Self::Map(read_entries(data_type, bytes, "Value")?),
            DataType::Tuple(items) => {
                let mut parts = collection::read_tuple(raw);
                let item = |item: &DataType| Self::read(item, parts.next().flatten());
                Self::Tuple(items.iter().map(item).collect::<Result<_>>()?)
            }
            DataType::Udt { definition, .. } => {
                let mut parts = collection::read_tuple(raw);
                let field = |(name, field): &(String, DataType)| {
                    Ok((name.clone(), Self::read(field, parts.next().flatten())?))
                };
                Self::UserType(definition.fields.iter().map(field).collect::<Result<_>>()?)
            }
        })
    }
}

fn read_duration(mut bytes: &[u8]) -> Result<Value> {
    let mut part = || vint::read_signed(&mut bytes);
    let parts = (|| Some((i32::try_from(part()?).ok()?, i32::try_from(part()?).ok()?, part()?)))();
    match parts {
        Some((months, days, nanoseconds)) => Ok(Value::Duration { months, days, nanoseconds }),
        None => Err(DatabaseError::Server("invalid value of duration: it is truncated".to_owned())),
    }
}
