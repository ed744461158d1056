//! The values of a row.

use std::ffi::c_char;
use std::net::IpAddr;
use std::ptr;

use cassette::Value;
use cassette::convert::FromCql;
use uuid::Uuid;

use crate::error::{Error, call, call_or};
use crate::failure::{Failure, Status};
use crate::pointer::{c_text, get, get_mut, out};
use crate::rows::Rows;

/// Writes a value of the row, converted from its type, to `value`.
unsafe fn column<T: FromCql, U>(
    rows: *const Rows,
    index: usize,
    value: *mut U,
    error: *mut *mut Error,
    convert: impl FnOnce(T) -> Result<U, Failure>,
) -> Status {
    // SAFETY: by the contracts of the functions below.
    unsafe {
        call(error, || {
            let rows = get(rows, "rows")?;
            let bytes = rows.value(index)?;
            let column = rows.column(index)?;
            let null = || {
                Failure::misuse(format!("{}: the value is null, see cassette_column_is_null", column.name))
            };
            let bytes = bytes.ok_or_else(null)?;
            let mut value = out(value, "value")?;
            let in_column = |error: cassette::Error| {
                Failure::Database(cassette::Error::Invalid(format!("{}: {error}", column.name)))
            };
            let found = T::read(&column.data_type, Some(bytes)).map_err(in_column)?;
            value.set(convert(found)?);
            Ok(Status::Ok)
        })
    }
}

/// Returns whether a value of the row is null; true if there is no such column or no row.
///
/// # Safety
/// `rows` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_is_null(rows: *const Rows, index: usize) -> bool {
    // SAFETY: by the contract.
    call_or(true, || Ok(unsafe { get(rows, "rows") }?.value(index)?.is_none()))
}

/// Returns the bytes of a value in the encoding of its type in the native protocol, valid until the
/// next step. For `text`, `ascii` and `blob`, they are the value, without a zero byte at its end.
/// Null is a null pointer.
///
/// # Safety
/// `rows` is null or of this library; `data` and `length` are null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_bytes(
    rows: *const Rows,
    index: usize,
    data: *mut *const u8,
    length: *mut usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        call(error, || {
            let (mut data, mut length) = (out(data, "data")?, out(length, "length")?);
            data.set(ptr::null());
            length.set(0);
            if let Some(bytes) = get(rows, "rows")?.value(index)? {
                data.set(bytes.as_ptr());
                length.set(bytes.len());
            }
            Ok(Status::Ok)
        })
    }
}

/// Returns a value of type `boolean`.
///
/// # Safety
/// `rows` is null or of this library; `value` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_bool(
    rows: *const Rows,
    index: usize,
    value: *mut bool,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe { column::<bool, _>(rows, index, value, error, Ok) }
}

/// Returns a value of type `tinyint`, `smallint`, `int`, `bigint`, `counter`, `varint`, `timestamp`
/// (milliseconds since 1970) or `time` (nanoseconds since midnight). Fails if a `varint` is too
/// large.
///
/// # Safety
/// `rows` is null or of this library; `value` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_int64(
    rows: *const Rows,
    index: usize,
    value: *mut i64,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe { column::<i64, _>(rows, index, value, error, Ok) }
}

/// Returns a value of type `double` or `float`.
///
/// # Safety
/// `rows` is null or of this library; `value` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_double(
    rows: *const Rows,
    index: usize,
    value: *mut f64,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        column::<Value, _>(rows, index, value, error, |value| match value {
            Value::Double(value) => Ok(value),
            Value::Float(value) => Ok(f64::from(value)),
            _ => Err(Failure::misuse("expected a column of type double or float")),
        })
    }
}

/// Writes the 16 bytes of a value of type `uuid` or `timeuuid` in network order to `value`.
///
/// # Safety
/// `rows` is null or of this library; `value` is null or has 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_uuid(
    rows: *const Rows,
    index: usize,
    value: *mut u8,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe { column::<Uuid, [u8; 16]>(rows, index, value.cast(), error, |uuid| Ok(uuid.into_bytes())) }
}

/// Writes an address of type `inet` to `value`, and its number of bytes, 4 or 16, to `length`.
///
/// # Safety
/// `rows` is null or of this library; `value` is null or has 16 bytes; `length` is null or may be
/// written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_inet(
    rows: *const Rows,
    index: usize,
    value: *mut u8,
    length: *mut usize,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        column::<IpAddr, [u8; 16]>(rows, index, value.cast(), error, |address| {
            let mut length = out(length, "length")?;
            let mut bytes = [0; 16];
            length.set(match address {
                IpAddr::V4(address) => {
                    bytes[..4].copy_from_slice(&address.octets());
                    4
                }
                IpAddr::V6(address) => {
                    bytes = address.octets();
                    16
                }
            });
            Ok(bytes)
        })
    }
}

/// Returns a value of type `date`: days, of which 1970-01-01 is 2^31.
///
/// # Safety
/// `rows` is null or of this library; `value` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_date(
    rows: *const Rows,
    index: usize,
    value: *mut u32,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        column::<Value, _>(rows, index, value, error, |value| match value {
            Value::Date(days) => Ok(days),
            _ => Err(Failure::misuse("expected a column of type date")),
        })
    }
}

/// Returns the parts of a value of type `duration`.
///
/// # Safety
/// `rows` is null or of this library; the others are null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_duration(
    rows: *const Rows,
    index: usize,
    months: *mut i32,
    days: *mut i32,
    nanoseconds: *mut i64,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        column::<Value, _>(rows, index, months, error, |value| {
            let (mut to_days, mut to_nanoseconds) = (out(days, "days")?, out(nanoseconds, "nanoseconds")?);
            let Value::Duration { months, days, nanoseconds } = value else {
                return Err(Failure::misuse("expected a column of type duration"));
            };
            to_days.set(days);
            to_nanoseconds.set(nanoseconds);
            Ok(months)
        })
    }
}

/// Returns a value of type `decimal`, which is `unscaled` × 10^-`scale`. `unscaled` points to
/// `length` bytes of an integer in two's complement, in network order, valid until the next step. A
/// `varint` has these bytes as `cassette_column_bytes`.
///
/// # Safety
/// `rows` is null or of this library; the others are null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_decimal(
    rows: *const Rows,
    index: usize,
    unscaled: *mut *const u8,
    length: *mut usize,
    scale: *mut i32,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    let status = unsafe {
        column::<Value, _>(rows, index, scale, error, |value| match value {
            Value::Decimal { scale, .. } => Ok(scale),
            _ => Err(Failure::misuse("expected a column of type decimal")),
        })
    };
    if status != Status::Ok {
        return status;
    }
    // SAFETY: by the contract.
    unsafe {
        call(error, || {
            let (mut unscaled, mut length) = (out(unscaled, "unscaled")?, out(length, "length")?);
            // The scale is before the digits.
            let bytes = get(rows, "rows")?.value(index)?.and_then(|bytes| bytes.get(4..)).unwrap_or_default();
            unscaled.set(bytes.as_ptr());
            length.set(bytes.len());
            Ok(Status::Ok)
        })
    }
}

/// Keeps a text for the row, and writes its address to `value`.
unsafe fn returned(
    rows: *mut Rows,
    value: *mut *const c_char,
    error: *mut *mut Error,
    text: impl FnOnce(&Rows) -> Result<Option<String>, Failure>,
) -> Status {
    // SAFETY: by the contracts of the functions below.
    unsafe {
        call(error, || {
            let mut value = out(value, "value")?;
            value.set(ptr::null());
            let rows = get_mut(rows, "rows")?;
            if let Some(text) = text(rows)? {
                rows.texts.push(c_text(&text));
                value.set(rows.texts.last().map_or(ptr::null(), |text| text.as_ptr()));
            }
            Ok(Status::Ok)
        })
    }
}

/// Returns a value of any type as a literal of CQL, such as `{'a': 1}`, valid until the next step.
/// Null is a null pointer.
///
/// # Safety
/// `rows` is null or of this library; `value` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_literal(
    rows: *mut Rows,
    index: usize,
    value: *mut *const c_char,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        returned(rows, value, error, |rows| {
            let bytes = rows.value(index)?;
            let column = rows.column(index)?;
            Ok(bytes.is_some().then(|| column.literal(bytes)))
        })
    }
}

/// Returns a value of any type in the JSON of CQL's `SELECT JSON`, valid until the next step. Null
/// is a null pointer.
///
/// # Safety
/// `rows` is null or of this library; `value` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_json(
    rows: *mut Rows,
    index: usize,
    value: *mut *const c_char,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        returned(rows, value, error, |rows| {
            let bytes = rows.value(index)?;
            let json = serde_json::Value::read(&rows.column(index)?.data_type, bytes)?;
            Ok((!json.is_null()).then(|| json.to_string()))
        })
    }
}
