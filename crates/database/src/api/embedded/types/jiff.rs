//! `jiff`: `Timestamp` is a `timestamp`, `civil::Date` a `date`, `civil::Time` a `time`.

use cassette_rows::DataType;
use jiff::civil::{Date, Time};
use jiff::{SignedDuration, Span, Timestamp};

use super::instants::{
    in_range, read_date, read_time, read_timestamp, write_date, write_time, write_timestamp,
};
use crate::api::embedded::{FromCql, ToCql, Written};
use crate::basics::error::Result;

const EPOCH: Date = Date::constant(1970, 1, 1);

/// Rounded down to milliseconds.
impl ToCql for Timestamp {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        let millis = self.as_nanosecond().div_euclid(1_000_000);
        write_timestamp("jiff::Timestamp", i64::try_from(millis).unwrap_or(i64::MAX), data_type, out)
    }
}

impl FromCql for Timestamp {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        let millis = read_timestamp("jiff::Timestamp", data_type, bytes)?;
        in_range("jiff::Timestamp", millis, Self::from_millisecond(millis).ok())
    }
}

impl ToCql for Date {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        write_date("jiff::civil::Date", self.duration_since(EPOCH).as_hours() / 24, data_type, out)
    }
}

impl FromCql for Date {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        let days = read_date("jiff::civil::Date", data_type, bytes)?;
        let date = Span::new().try_days(days).ok().and_then(|span| EPOCH.checked_add(span).ok());
        in_range("jiff::civil::Date", days, date)
    }
}

impl ToCql for Time {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        let nanoseconds = self.duration_since(Self::MIN).as_nanos();
        write_time("jiff::civil::Time", i64::try_from(nanoseconds).unwrap_or(i64::MAX), data_type, out)
    }
}

impl FromCql for Time {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        let nanoseconds = read_time("jiff::civil::Time", data_type, bytes)?;
        let time = Self::MIN.checked_add(SignedDuration::from_nanos(nanoseconds)).ok();
        in_range("jiff::civil::Time", nanoseconds, time)
    }
}
