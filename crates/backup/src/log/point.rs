//! Points in time.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::error::{Error, Result};

/// How far the commit log is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Everything that was acknowledged at this time, microseconds since 1970.
    Time(i64),
    /// Everything that is archived.
    Latest,
}

/// Parses `latest`, or a time: `2026-11-24 10:15:30.5` in UTC, with up to six digits of a second;
/// with an offset such as `+02:00` or `Z`; or as Cassandra's `restore_point_in_time`,
/// `2026:11:24 10:15:30`.
///
/// # Errors
/// Invalid, for other texts.
pub fn parse_until(text: &str) -> Result<Until> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("latest") {
        return Ok(Until::Latest);
    }
    // Cassandra separates the parts of a date by colons.
    let mut parts = text.splitn(3, ':');
    let colons = match (parts.next(), parts.next(), parts.next()) {
        (Some(year), Some(month), Some(rest)) if year.len() == 4 => Some(format!("{year}-{month}-{rest}")),
        _ => None,
    };
    let text_of_date = colons.as_deref().unwrap_or(text);
    let with_offset = text_of_date.parse::<Timestamp>().ok();
    let in_utc = || {
        let civil = text_of_date.parse::<DateTime>().ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let time = with_offset.or_else(in_utc).ok_or_else(|| {
        Error::invalid(format!(
            "invalid time: expected one such as '2026-11-24 10:15:30.5' (UTC), '2026-11-24T10:15:30+02:00' or \
             'latest', found '{text}'"
        ))
    })?;
    Ok(Until::Time(time.as_microsecond()))
}

/// Returns a time as text.
pub(crate) fn time_text(micros: i64) -> String {
    Timestamp::from_microsecond(micros).map_or_else(|_| micros.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_utc_with_an_offset_and_as_in_cassandra() {
        const SECOND: i64 = 1_795_515_330;
        let at = |micros: i64| Until::Time(SECOND * 1_000_000 + micros);
        for (text, expected) in [
            ("2026-11-24 10:15:30", at(0)),
            ("2026-11-24T10:15:30.5", at(500_000)),
            ("2026-11-24 10:15:30.123456", at(123_456)),
            ("2026-11-24T12:15:30.123+02:00", at(123_000)),
            ("2026-11-24 10:15:30Z", at(0)),
            ("2026:11:24 10:15:30", at(0)),
            ("2026:11:24 10:15:30.123", at(123_000)),
            ("2026:11:24 10:15:30.123456", at(123_456)),
            (" latest ", Until::Latest),
        ] {
            assert_eq!(parse_until(text).unwrap(), expected, "{text}");
        }
        for text in ["", "now", "10:15:30", "2026-13-01 00:00:00"] {
            assert!(parse_until(text).is_err(), "{text}");
        }
        assert_eq!(time_text(SECOND * 1_000_000 + 500_000), "2026-11-24T10:15:30.5Z");
    }
}
