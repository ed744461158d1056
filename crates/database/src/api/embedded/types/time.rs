//! `time`: `OffsetDateTime` is a `timestamp`, `Date` a `date`, `Time` a `time`.

use cassette_rows::DataType;
use time::{Date, OffsetDateTime, Time};

use super::instants::{
    in_range, read_date, read_time, read_timestamp, write_date, write_time, write_timestamp,
};
use crate::api::embedded::{FromCql, ToCql, Written};
use crate::basics::error::Result;

/// 1970-01-01 as a Julian day.
const EPOCH: i64 = 2_440_588;

/// Rounded down to milliseconds.
impl ToCql for OffsetDateTime {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        let millis = self.unix_timestamp() * 1000 + i64::from(self.millisecond());
        write_timestamp("time::OffsetDateTime", millis, data_type, out)
    }
}

/// In UTC.
impl FromCql for OffsetDateTime {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        let millis = read_timestamp("time::OffsetDateTime", data_type, bytes)?;
        let nanoseconds = i128::from(millis) * 1_000_000;
        in_range("time::OffsetDateTime", millis, Self::from_unix_timestamp_nanos(nanoseconds).ok())
    }
}

impl ToCql for Date {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        write_date("time::Date", i64::from(self.to_julian_day()) - EPOCH, data_type, out)
    }
}

impl FromCql for Date {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        let days = read_date("time::Date", data_type, bytes)?;
        let date = i32::try_from(days + EPOCH).ok().and_then(|day| Self::from_julian_day(day).ok());
        in_range("time::Date", days, date)
    }
}

impl ToCql for Time {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        let (hour, minute, second, nanosecond) = self.as_hms_nano();
        let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
        write_time("time::Time", seconds * 1_000_000_000 + i64::from(nanosecond), data_type, out)
    }
}

impl FromCql for Time {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        let nanoseconds = read_time("time::Time", data_type, bytes)?;
        let part = |divisor: i64, modulus: i64| u8::try_from(nanoseconds / divisor % modulus).ok();
        let time = (|| {
            let nanosecond = u32::try_from(nanoseconds % 1_000_000_000).ok()?;
            let hour = u8::try_from(nanoseconds / 3_600_000_000_000).ok()?;
            Self::from_hms_nano(hour, part(60_000_000_000, 60)?, part(1_000_000_000, 60)?, nanosecond).ok()
        })();
        in_range("time::Time", nanoseconds, time)
    }
}
