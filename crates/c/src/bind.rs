//! The values of a statement's markers.

use std::ffi::c_char;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cassette::Value;
use cassette::convert::{ToCql, Written};
use num_bigint::BigInt;
use uuid::Uuid;

use crate::error::{Error, call};
use crate::failure::{Failure, Status};
use crate::pointer::{bytes, get_mut, text};
use crate::statement::{Bound, Statement};

/// Sets the value of a marker, converted to its type.
unsafe fn bind<T: ToCql>(
    statement: *mut Statement,
    index: usize,
    error: *mut *mut Error,
    value: impl FnOnce() -> Result<T, Failure>,
) -> Status {
    // SAFETY: by the contracts of the functions below.
    unsafe {
        call(error, || {
            let statement = get_mut(statement, "statement")?;
            let marker = statement.marker(index)?;
            let mut written = Vec::new();
            let done = value()?.write(&marker.data_type, &mut written);
            let in_marker = |error: cassette::Error| {
                Failure::Database(cassette::Error::Invalid(format!("{}: {error}", marker.name)))
            };
            statement.values[index] = match done.map_err(in_marker)? {
                Written::Bytes => Bound::Bytes(written),
                Written::Null => Bound::Null,
                Written::Unset => Bound::Unset,
            };
            Ok(Status::Ok)
        })
    }
}

/// Sets a marker to null, which writes a tombstone.
///
/// # Safety
/// `statement` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_null(
    statement: *mut Statement,
    index: usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe { bind(statement, index, error, || Ok(Value::Null)) }
}

/// Omits a value: its column stays as it is, and nothing is written for it.
///
/// # Safety
/// `statement` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_unset(
    statement: *mut Statement,
    index: usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe { bind(statement, index, error, || Ok(cassette::Unset)) }
}

/// Sets a marker to bytes in the encoding of its type in the native protocol, as
/// `cassette_column_bytes` returns them. For `blob`, these are the value. They are copied.
///
/// # Safety
/// `statement` is null or of this library; `data` is null or has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_bytes(
    statement: *mut Statement,
    index: usize,
    data: *const u8,
    length: usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe { bind(statement, index, error, || Ok(Bound::Bytes(bytes(data, length, "data")?.to_vec()))) }
}

/// Sets a marker of type `boolean`.
///
/// # Safety
/// `statement` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_bool(
    statement: *mut Statement,
    index: usize,
    value: bool,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe { bind(statement, index, error, || Ok(Value::Boolean(value))) }
}

/// Sets a marker of type `tinyint`, `smallint`, `int`, `bigint`, `counter`, `varint`, `timestamp`
/// (milliseconds since 1970) or `time` (nanoseconds since midnight). Fails if the value is out of
/// the range of the type.
///
/// # Safety
/// `statement` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_int64(
    statement: *mut Statement,
    index: usize,
    value: i64,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe { bind(statement, index, error, || Ok(value)) }
}

/// Sets a marker of type `double` or `float`; the latter is rounded.
///
/// # Safety
/// `statement` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_double(
    statement: *mut Statement,
    index: usize,
    value: f64,
    error: *mut *mut Error,
) -> Status {
    /// A number for both types.
    struct Number(f64);

    impl ToCql for Number {
        fn write(
            &self,
            data_type: &cassette::convert::DataType,
            out: &mut Vec<u8>,
        ) -> cassette::Result<Written> {
            match data_type {
                cassette::convert::DataType::Float => (self.0 as f32).write(data_type, out),
                _ => self.0.write(data_type, out),
            }
        }
    }

    // SAFETY: by the contract.
    unsafe { bind(statement, index, error, || Ok(Number(value))) }
}

/// Sets a marker of type `text` or `ascii` to a text of `length` bytes in UTF-8, which is copied.
///
/// # Safety
/// `statement` is null or of this library; `value` is null or has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_text(
    statement: *mut Statement,
    index: usize,
    value: *const c_char,
    length: usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        bind(statement, index, error, || {
            let text = std::str::from_utf8(bytes(value.cast(), length, "value")?);
            Ok(Value::Text(text.map_err(|_| Failure::misuse("value: expected UTF-8"))?.to_owned()))
        })
    }
}

/// Sets a marker of type `uuid` or `timeuuid` to 16 bytes in network order.
///
/// # Safety
/// `statement` is null or of this library; `value` is null or has 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_uuid(
    statement: *mut Statement,
    index: usize,
    value: *const u8,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        bind(statement, index, error, || {
            let value = Uuid::from_slice(bytes(value, 16, "value")?);
            Ok(Value::Uuid(value.map_err(|error| Failure::misuse(error.to_string()))?))
        })
    }
}

/// Sets a marker of type `inet` to the 4 or 16 bytes of an address.
///
/// # Safety
/// `statement` is null or of this library; `value` is null or has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_inet(
    statement: *mut Statement,
    index: usize,
    value: *const u8,
    length: usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        bind(statement, index, error, || {
            let value = bytes(value, length, "value")?;
            let v4 = <[u8; 4]>::try_from(value).map(|octets| IpAddr::V4(Ipv4Addr::from(octets)));
            let v6 = <[u8; 16]>::try_from(value).map(|octets| IpAddr::V6(Ipv6Addr::from(octets)));
            let expected =
                |_| Failure::misuse(format!("expected an address of 4 or 16 bytes, found {length}"));
            Ok(Value::Inet(v4.or(v6).map_err(expected)?))
        })
    }
}

/// Sets a marker of type `date` to days, of which 1970-01-01 is 2^31.
///
/// # Safety
/// `statement` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_date(
    statement: *mut Statement,
    index: usize,
    value: u32,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe { bind(statement, index, error, || Ok(Value::Date(value))) }
}

/// Sets a marker of type `duration`, whose parts are all negative or all positive.
///
/// # Safety
/// `statement` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_duration(
    statement: *mut Statement,
    index: usize,
    months: i32,
    days: i32,
    nanoseconds: i64,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe { bind(statement, index, error, || Ok(Value::Duration { months, days, nanoseconds })) }
}

/// Sets a marker of type `varint` to the bytes of an integer in two's complement, in network order.
///
/// # Safety
/// `statement` is null or of this library; `value` is null or has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_varint(
    statement: *mut Statement,
    index: usize,
    value: *const u8,
    length: usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        bind(statement, index, error, || {
            Ok(Value::VarInt(BigInt::from_signed_bytes_be(bytes(value, length, "value")?)))
        })
    }
}

/// Sets a marker of type `decimal` to `unscaled` × 10^-`scale`; `unscaled` is as for
/// `cassette_bind_varint`.
///
/// # Safety
/// `statement` is null or of this library; `unscaled` is null or has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_decimal(
    statement: *mut Statement,
    index: usize,
    unscaled: *const u8,
    length: usize,
    scale: i32,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        bind(statement, index, error, || {
            let unscaled = BigInt::from_signed_bytes_be(bytes(unscaled, length, "unscaled")?);
            Ok(Value::Decimal { unscaled, scale })
        })
    }
}

/// Sets a marker of any type to a value in the JSON of CQL's `INSERT JSON`: for collections, tuples
/// and user-defined types.
///
/// # Safety
/// `statement` is null or of this library; `json` is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_bind_json(
    statement: *mut Statement,
    index: usize,
    json: *const c_char,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        bind(statement, index, error, || {
            let value = serde_json::from_str::<serde_json::Value>(text(json, "json")?);
            value.map_err(|error| Failure::misuse(format!("json: {error}")))
        })
    }
}
