//! `chrono`: `DateTime<Utc>` is a `timestamp`, `NaiveDate` a `date`, `NaiveTime` a `time`.

use cassette_rows::DataType;
use chrono::{DateTime, NaiveDate, NaiveTime, TimeZone, Timelike, Utc};

use super::instants::{
    in_range, read_date, read_time, read_timestamp, write_date, write_time, write_timestamp,
};
use crate::api::embedded::{FromCql, ToCql, Written};
use crate::basics::error::Result;

/// Rounded down to milliseconds.
impl<Z: TimeZone> ToCql for DateTime<Z> {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        write_timestamp("chrono::DateTime", self.timestamp_millis(), data_type, out)
    }
}

impl FromCql for DateTime<Utc> {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        let millis = read_timestamp("chrono::DateTime", data_type, bytes)?;
        in_range("chrono::DateTime", millis, Self::from_timestamp_millis(millis))
    }
}

impl ToCql for NaiveDate {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        write_date("chrono::NaiveDate", self.to_epoch_days().into(), data_type, out)
    }
}

impl FromCql for NaiveDate {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        let days = read_date("chrono::NaiveDate", data_type, bytes)?;
        in_range("chrono::NaiveDate", days, i32::try_from(days).ok().and_then(Self::from_epoch_days))
    }
}

/// A leap second is written as the last nanosecond before it.
impl ToCql for NaiveTime {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        let nanoseconds = i64::from(self.nanosecond().min(999_999_999));
        let seconds = i64::from(self.num_seconds_from_midnight());
        write_time("chrono::NaiveTime", seconds * 1_000_000_000 + nanoseconds, data_type, out)
    }
}

impl FromCql for NaiveTime {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        let nanoseconds = read_time("chrono::NaiveTime", data_type, bytes)?;
        let time = u32::try_from(nanoseconds / 1_000_000_000).ok().and_then(|seconds| {
            Self::from_num_seconds_from_midnight_opt(
                seconds,
                u32::try_from(nanoseconds % 1_000_000_000).ok()?,
            )
        });
        in_range("chrono::NaiveTime", nanoseconds, time)
    }
}
