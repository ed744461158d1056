//! CQL's `timestamp`, `date` and `time`, as integers.

use cassette_rows::DataType;

use crate::api::embedded::{FromCql, ToCql, Written};
use crate::basics::error::{Result, bail_invalid};

/// The origin of a `date`'s bytes: 1970-01-01 is in the middle.
const EPOCH: i64 = 1 << 31;

fn check(rust: &str, expected: &DataType, found: &DataType) -> Result<()> {
    if expected != found {
        bail_invalid!("cannot convert {rust}: expected a value of CQL's {expected}, found {found}");
    }
    Ok(())
}

/// Writes milliseconds since 1970 as a `timestamp`.
pub fn write_timestamp(rust: &str, millis: i64, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
    check(rust, &DataType::Timestamp, data_type)?;
    millis.write(data_type, out)
}

/// Reads a `timestamp` as milliseconds since 1970.
pub fn read_timestamp(rust: &str, data_type: &DataType, bytes: Option<&[u8]>) -> Result<i64> {
    check(rust, &DataType::Timestamp, data_type)?;
    i64::read(data_type, bytes)
}

/// Writes days since 1970-01-01 as a `date`.
pub fn write_date(rust: &str, days: i64, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
    check(rust, &DataType::Date, data_type)?;
    match u32::try_from(days.saturating_add(EPOCH)) {
        Ok(days) => out.extend_from_slice(&days.to_be_bytes()),
        Err(_) => {
            bail_invalid!("cannot convert {rust}: {days} days since 1970 are out of the range of CQL's date")
        }
    }
    Ok(Written::Bytes)
}

/// Reads a `date` as days since 1970-01-01.
pub fn read_date(rust: &str, data_type: &DataType, bytes: Option<&[u8]>) -> Result<i64> {
    check(rust, &DataType::Date, data_type)?;
    match bytes.map(<[u8; 4]>::try_from) {
        Some(Ok(bytes)) => Ok(i64::from(u32::from_be_bytes(bytes)) - EPOCH),
        _ => bail_invalid!("the value is null: read it as an Option"),
    }
}

/// Writes nanoseconds since midnight as a `time`.
pub fn write_time(rust: &str, nanoseconds: i64, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
    check(rust, &DataType::Time, data_type)?;
    nanoseconds.write(data_type, out)
}

/// Reads a `time` as nanoseconds since midnight.
pub fn read_time(rust: &str, data_type: &DataType, bytes: Option<&[u8]>) -> Result<i64> {
    check(rust, &DataType::Time, data_type)?;
    i64::read(data_type, bytes)
}

/// Returns the value in `converted`, or an error that `value` is out of the range of the Rust type.
pub fn in_range<T>(rust: &str, value: i64, converted: Option<T>) -> Result<T> {
    match converted {
        Some(converted) => Ok(converted),
        None => bail_invalid!("cannot convert to {rust}: {value} is out of its range"),
    }
}
