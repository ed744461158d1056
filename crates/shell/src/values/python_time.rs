//! Times as Python's `strftime` formats them.

use std::fmt::Write;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The format of timestamps, and their time zone.
#[derive(Clone, Debug)]
pub struct TimestampFormat {
    /// A format of `strftime`.
    pub pattern: String,
    /// The time zone.
    pub zone: TimeZone,
    /// Whether a fraction of seconds has three digits, as in files of COPY.
    pub milliseconds_only: bool,
}

impl Default for TimestampFormat {
    fn default() -> Self {
        Self { pattern: "%Y-%m-%d %H:%M:%S.%f%z".to_owned(), zone: TimeZone::UTC, milliseconds_only: false }
    }
}

impl TimestampFormat {
    /// Parses a time to milliseconds since the epoch; one without an offset is in the time zone.
    pub fn parse(&self, text: &str) -> Option<i64> {
        // Python's %f is a fraction without its point.
        let pattern = self.pattern.replace(".%f", "%.f");
        let parsed = jiff::fmt::strtime::parse(pattern, text).ok()?;
        if let Ok(time) = parsed.to_timestamp() {
            return Some(time.as_millisecond());
        }
        let local =
            parsed.to_datetime().or_else(|_| parsed.to_date().map(jiff::civil::DateTime::from)).ok()?;
        Some(self.zone.to_timestamp(local).ok()?.as_millisecond())
    }
}

/// Returns the time zone with a name of the IANA database.
pub fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}

/// Formats milliseconds since the epoch. Times outside of the years 1 to 9999 are the number of
/// milliseconds, as in cqlsh.
pub fn format_time(ms: i64, format: &TimestampFormat) -> String {
    let zoned = Timestamp::from_millisecond(ms).ok().map(|time| time.to_zoned(format.zone.clone()));
    match zoned.filter(|time| (1..=9999).contains(&time.year())) {
        Some(time) => formatted(&time, format),
        None => ms.to_string(),
    }
}

fn formatted(time: &Zoned, format: &TimestampFormat) -> String {
    let mut out = String::new();
    let mut pattern = format.pattern.chars();
    while let Some(c) = pattern.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        // Writing to a string cannot fail.
        let _ = match pattern.next() {
            Some('Y') => write!(out, "{}", time.year()),
            Some('m') => write!(out, "{:02}", time.month()),
            Some('d') => write!(out, "{:02}", time.day()),
            Some('H') => write!(out, "{:02}", time.hour()),
            Some('M') => write!(out, "{:02}", time.minute()),
            Some('S') => write!(out, "{:02}", time.second()),
            Some('f') if format.milliseconds_only => {
                write!(out, "{:03}", time.subsec_nanosecond() / 1_000_000)
            }
            Some('f') => write!(out, "{:06}", time.subsec_nanosecond() / 1_000),
            Some('z') => {
                let seconds = time.offset().seconds();
                let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
                write!(out, "{sign}{:02}{:02}", minutes / 60, minutes % 60)
            }
            Some(other) => match jiff::fmt::strtime::format(format!("%{other}"), time) {
                Ok(text) => write!(out, "{text}"),
                Err(_) => write!(out, "%{other}"),
            },
            None => write!(out, "%"),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_formatted_as_in_cqlsh() {
        let mut format = TimestampFormat::default();
        assert_eq!(format_time(1_700_000_000_123, &format), "2023-11-14 22:13:20.123000+0000");
        assert_eq!(format_time(-1, &format), "1969-12-31 23:59:59.999000+0000");
        assert_eq!(format_time(i64::MAX, &format), i64::MAX.to_string());
        format.zone = zone("America/New_York").unwrap();
        assert_eq!(format_time(1_700_000_000_123, &format), "2023-11-14 17:13:20.123000-0500");
        format.pattern = "%d.%m.%Y %H:%M:%S.%f %j %% %A".to_owned();
        format.milliseconds_only = true;
        assert_eq!(format_time(1_700_000_000_123, &format), "14.11.2023 17:13:20.123 318 % Tuesday");
        assert_eq!(zone("No/Where"), None);
    }

    #[test]
    fn times_are_parsed_in_their_format() {
        let format =
            |pattern: &str| TimestampFormat { pattern: pattern.to_owned(), ..TimestampFormat::default() };
        assert_eq!(
            format("%Y-%m-%d %H:%M:%S.%f%z").parse("1970-01-01 00:00:01.500000+0100"),
            Some(-3_598_500)
        );
        assert_eq!(format("%d.%m.%Y").parse("02.01.1970"), Some(86_400_000));
        assert_eq!(format("%d.%m.%Y %H:%M").parse("02.01.1970 00:01"), Some(86_460_000));
        assert_eq!(format("%Y").parse("x"), None);
    }
}
