//! Timestamps, dates and times as text, in all forms that Cassandra parses and writes.
//!
//! Times without a zone are UTC. (Cassandra uses its server's zone, which in production is UTC.)

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::ValueError;
use super::calendar::{Civil, DAY_MS, days_in_month};

/// Nanoseconds of a day.
pub const DAY_NS: i64 = DAY_MS * 1_000_000;

thread_local! {
    /// The time of the text `now`, instead of the machine's.
    static NOW: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Calls `work`, on this thread. Within it, the text `now` is this time, milliseconds since 1970,
/// instead of the machine's.
pub fn with_now<T>(millis: i64, work: impl FnOnce() -> T) -> T {
    /// Also restores it after a panic.
    struct Restored(Option<i64>);

    impl Drop for Restored {
        fn drop(&mut self) {
            NOW.set(self.0);
        }
    }

    let _restored = Restored(NOW.replace(Some(millis)));
    work()
}

/// Parses a timestamp into milliseconds since 1970: a whole number, `now`, or
///
/// ```text
/// 2015-05-03[T| ]13:30[:54[.234]][zone]     months, days, hours … also without leading zeros
/// 2015-05-03[zone]
/// zone: Z, +02, +0200, +02:00; after a blank also +02:00:00, UTC, GMT, UT and these with an offset, and the name of a
///       region, Europe/Paris, or one of its abbreviations that no other region has, CET
/// ```
///
/// A day that the month does not have becomes its last one, as in Cassandra. A time that a region's
/// clocks skipped is moved forward by the length of the gap, and of one that they showed twice the
/// first is used.
pub fn parse_timestamp(text: &str) -> Result<i64, ValueError> {
    if text.eq_ignore_ascii_case("now") {
        let of_machine =
            || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        return Ok(NOW.get().unwrap_or_else(of_machine));
    }
    if is_whole_number(text) {
        return text
            .parse()
            .map_err(|_| ValueError::invalid(format!("Unable to make long (for date) from: '{text}'")));
    }
    parse_date_and_time(text)
        .or_else(|| parse_day(text))
        .ok_or_else(|| ValueError::invalid(format!("Unable to parse a date/time from '{text}'")))
}

fn parse_date_and_time(text: &str) -> Option<i64> {
    let mut rest = text;
    let year = take_number(&mut rest)?;
    let month = take_after(&mut rest, '-')?;
    let day = take_after(&mut rest, '-')?;
    rest = rest.strip_prefix(['T', ' '])?;
    let hour = take_number(&mut rest)?;
    let minute = take_after(&mut rest, ':')?;
    let mut second = 0;
    let mut millisecond = 0;
    if rest.starts_with(':') {
        second = take_after(&mut rest, ':')?;
        if let Some(fraction) = rest.strip_prefix('.') {
            let digits = fraction.len() - fraction.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            // Parses at most nine digits, of which all after the third are dropped.
            let (fraction, after) = fraction.split_at(digits.min(9));
            millisecond = format!("{fraction:0<3}").get(..3)?.parse::<i64>().ok()?;
            rest = after;
        }
    }
    let whole_day = hour == 24 && minute == 0 && second == 0 && millisecond == 0;
    if year < 1 || !(hour < 24 || whole_day) || minute > 59 || second > 59 {
        return None;
    }
    let days = days_of(year, month, day)?;
    at_zone(days, ((hour * 60 + minute) * 60 + second) * 1000 + millisecond, rest)
}

/// Parses `2015-05-03` and a zone. A year of more than four digits requires a sign, and a plus
/// requires such a year.
fn parse_day(text: &str) -> Option<i64> {
    let mut rest = text;
    let days = take_day(&mut rest)?;
    at_zone(days, 0, rest)
}

/// Consumes an ISO date, in which a day that the month does not have becomes the last one.
fn take_day(rest: &mut &str) -> Option<i64> {
    let sign = rest.chars().next().filter(|c| matches!(c, '-' | '+'));
    *rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    let digits = rest.find('-')?;
    let year = take_number(rest)?;
    let enough = match sign {
        None => digits == 4,
        Some('-') => (4..=9).contains(&digits),
        Some(_) => (5..=9).contains(&digits),
    };
    let two_digits = |rest: &mut &str| {
        let digits = rest.strip_prefix('-')?.get(..2)?;
        *rest = &rest[3..];
        digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let (month, day) = (two_digits(rest)?, two_digits(rest)?);
    if !enough {
        return None;
    }
    days_of(if sign == Some('-') { -year } else { year }, month, day)
}

fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year.abs() > 999_999_999 {
        return None;
    }
    let (month, day) = (month as u8, day as u8);
    Some(Civil { year, month, day: day.min(days_in_month(year, month)) }.to_days())
}

fn to_millis(days: i64, of_day_ms: i64, offset_s: i64) -> Option<i64> {
    let ms = i128::from(days) * i128::from(DAY_MS) + i128::from(of_day_ms) - i128::from(offset_s) * 1000;
    i64::try_from(ms).ok()
}

/// Returns the milliseconds since 1970 of a local time in `zone`.
fn at_zone(days: i64, of_day_ms: i64, zone: &str) -> Option<i64> {
    match parse_zone(zone) {
        Some(offset_s) => to_millis(days, of_day_ms, offset_s),
        None => {
            let local = to_millis(days, of_day_ms, 0)?;
            let zone = region(zone.strip_prefix(' ')?)?;
            let civil = TimeZone::UTC.to_datetime(Timestamp::from_millisecond(local).ok()?);
            Some(zone.to_ambiguous_timestamp(civil).compatible().ok()?.as_millisecond())
        }
    }
}

/// Returns the region with exactly this name, or this abbreviation.
fn region(name: &str) -> Option<TimeZone> {
    /// Those of Java's abbreviations that are unambiguous.
    const ABBREVIATIONS: [(&str, &str); 16] = [
        ("AKST", "America/Anchorage"),
        ("CET", "Europe/Paris"),
        ("CEST", "Europe/Paris"),
        ("EDT", "America/New_York"),
        ("EET", "Europe/Bucharest"),
        ("EEST", "Europe/Bucharest"),
        ("EST", "America/New_York"),
        ("HST", "Pacific/Honolulu"),
        ("JST", "Asia/Tokyo"),
        ("KST", "Asia/Seoul"),
        ("MDT", "America/Denver"),
        ("MSK", "Europe/Moscow"),
        ("MST", "America/Denver"),
        ("PDT", "America/Los_Angeles"),
        ("PST", "America/Los_Angeles"),
        ("WET", "Europe/Lisbon"),
    ];
    let meant = ABBREVIATIONS.iter().find(|(abbreviation, _)| *abbreviation == name);
    let name = meant.map_or(name, |(_, region)| region);
    let zone = TimeZone::get(name).ok()?;
    // The database ignores the case of names; Cassandra does not.
    (zone.iana_name() == Some(name)).then_some(zone)
}

/// Returns the seconds that a zone is ahead of UTC, if its name is an offset.
fn parse_zone(text: &str) -> Option<i64> {
    match text.strip_prefix(' ') {
        None if text.is_empty() => Some(0),
        None => parse_offset(text, false),
        Some(zone) => {
            let named = ["UTC", "GMT", "UT"].iter().find_map(|name| zone.strip_prefix(name));
            match named {
                Some("") => Some(0),
                Some(offset) => parse_offset(offset, true),
                None => parse_offset(zone, true),
            }
        }
    }
}

/// `Z`, `+hh`, `+hhmm`, `+hh:mm` and, if allowed, `+hh:mm:ss`; at most 18 hours.
fn parse_offset(text: &str, with_seconds: bool) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let digits = text.strip_prefix(['-', '+'])?;
    let parts = match digits.len() {
        2 => [digits, "0", "0"],
        4 => [digits.get(..2)?, digits.get(2..)?, "0"],
        5 if digits.get(2..3)? == ":" => [digits.get(..2)?, digits.get(3..)?, "0"],
        8 if with_seconds && digits.get(2..3)? == ":" && digits.get(5..6)? == ":" => {
            [digits.get(..2)?, digits.get(3..5)?, digits.get(6..)?]
        }
        _ => return None,
    };
    if !parts.iter().all(|part| part.bytes().all(|digit| digit.is_ascii_digit())) {
        return None;
    }
    let [hours, minutes, seconds] = parts.map(|part| part.parse::<i64>().unwrap_or(i64::MAX));
    let offset = hours * 3600 + minutes * 60 + seconds;
    if minutes > 59 || seconds > 59 || offset > 18 * 3600 {
        return None;
    }
    Some(if text.starts_with('-') { -offset } else { offset })
}

/// Consumes 1 to 18 digits.
fn take_number(rest: &mut &str) -> Option<i64> {
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, after) = rest.split_at(digits);
    *rest = after;
    if digits > 18 { None } else { number.parse().ok() }
}

fn take_after(rest: &mut &str, separator: char) -> Option<i64> {
    *rest = rest.strip_prefix(separator)?;
    take_number(rest)
}

fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// Formats `2015-05-03T13:30:54.234Z`, the text of timestamps.
pub fn timestamp_to_text(ms: i64) -> String {
    format_timestamp(ms, 'T')
}

/// Formats `2015-05-03 13:30:54.234Z`, the JSON of timestamps.
pub fn timestamp_to_json(ms: i64) -> String {
    format_timestamp(ms, ' ')
}

fn format_timestamp(ms: i64, separator: char) -> String {
    let Civil { year, month, day } = Civil::from_days(ms.div_euclid(DAY_MS));
    let ms = ms.rem_euclid(DAY_MS);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    // Java counts these years by era: 1 BC, astronomical year 0, is written as 1.
    let year = year_to_text(if year > 0 { year } else { 1 - year });
    format!("{year}-{month:02}-{day:02}{separator}{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

/// At least four digits; with a sign if there are more or the year is negative.
fn year_to_text(year: i64) -> String {
    match year {
        ..0 => format!("-{:04}", -year),
        10_000.. => format!("+{year}"),
        _ => format!("{year:04}"),
    }
}

/// Parses a date as its stored number (days since 1970 plus 2^31): that number itself, or
/// `2015-05-03`.
pub fn parse_date(text: &str) -> Result<u32, ValueError> {
    if is_whole_number(text) {
        return text.parse().map_err(|_| {
            ValueError::invalid(format!("Unable to make unsigned int (for date) from: '{text}'"))
        });
    }
    let mut rest = text;
    let day = take_day(&mut rest).filter(|_| rest.is_empty());
    // Dates are parsed strictly: a day that the month does not have is an error.
    let is_of_month = |days: &i64| text.ends_with(&format!("-{:02}", Civil::from_days(*days).day));
    let has_millis = |days: &i64| days.checked_mul(DAY_MS).is_some();
    let Some(days) = day.filter(is_of_month).filter(has_millis) else {
        return Err(ValueError::invalid(format!("Unable to coerce '{text}' to a formatted date (long)")));
    };
    match i32::try_from(days) {
        Ok(days) => Ok((days as u32).wrapping_add(1 << 31)),
        Err(_) if days < 0 => Err(ValueError::invalid(format!(
            "Input date {text} is less than min supported date -5877641-06-23T00:00Z"
        ))),
        Err(_) => Err(ValueError::invalid(format!(
            "Input date {text} is greater than max supported date +5881580-07-11T00:00Z"
        ))),
    }
}

/// `2015-05-03`.
pub fn date_to_text(date: u32) -> String {
    let Civil { year, month, day } = Civil::from_days(days_of_date(date));
    format!("{}-{month:02}-{day:02}", year_to_text(year))
}

fn days_of_date(date: u32) -> i64 {
    i64::from(date) - (1 << 31)
}

/// Returns the midnight at the start of a date.
pub fn date_to_millis(date: u32) -> i64 {
    days_of_date(date) * DAY_MS
}

/// Returns the date of a timestamp. As in Cassandra, which truncates instead of rounding down, only
/// midnight belongs to the day before 1970, and so on backwards.
pub fn date_of_millis(ms: i64) -> u32 {
    let days = ms.div_euclid(1000) / (DAY_MS / 1000);
    (days as u32).wrapping_add(1 << 31)
}

/// Parses a time as nanoseconds since midnight: that number itself, or `13:30:54[.234]`.
pub fn parse_time(text: &str) -> Result<i64, ValueError> {
    if is_whole_number(text) {
        return match text.parse() {
            Ok(nanoseconds @ 0..DAY_NS) => Ok(nanoseconds),
            _ => Err(ValueError::invalid(format!("Unable to make long (for time) from: '{text}'"))),
        };
    }
    parse_time_of_day(text.trim()).ok_or_else(|| {
        ValueError::invalid(format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)"))
    })
}

fn parse_time_of_day(text: &str) -> Option<i64> {
    let (hour, rest) = text.split_once(':')?;
    let (minute, rest) = rest.split_once(':')?;
    let (second, fraction) = match rest.split_once('.') {
        Some((second, fraction)) => (second, Some(fraction)),
        None => (rest, None),
    };
    let part = |text: &str, below: i64| {
        Some(i64::from(text.parse::<i32>().ok()?)).filter(|n| (0..below).contains(n))
    };
    let nanoseconds = match fraction {
        None => 0,
        Some(digits) if digits.len() <= 9 && digits.starts_with(|c: char| c.is_ascii_digit()) => {
            i64::from(format!("{digits:0<9}").parse::<i32>().ok()?)
        }
        Some(_) => return None,
    };
    let seconds = (part(hour, 24)? * 60 + part(minute, 60)?) * 60 + part(second, 60)?;
    Some(seconds * 1_000_000_000 + nanoseconds)
}

/// `13:30:54.234000000`.
pub fn time_to_text(nanoseconds: i64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:09}", nanoseconds % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_read_in_every_form_of_cassandra() {
        for (text, ms) in [
            ("0", 0),
            ("-1", -1),
            ("1970-01-01", 0),
            ("1970-01-02Z", DAY_MS),
            ("1970-01-02+0100", DAY_MS - 3_600_000),
            ("1970-1-1 0:0", 0),
            ("1970-01-01T00:00:01", 1000),
            ("1970-01-01 00:00:01.5", 1500),
            ("1970-01-01 00:00:01.123456789Z", 1123),
            ("1970-01-01T01:00:00+01", 0),
            ("1970-01-01T01:00:00+0100", 0),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1970-01-01 01:00 +01:00", 0),
            ("1970-01-01 01:00:00 UTC", 3_600_000),
            ("1970-01-01 01:00:00 GMT", 3_600_000),
            ("2011-02-03T04:05:00.000+0000", 1_296_705_900_000),
            ("2015-02-31", 1_425_081_600_000),
            ("2015-07-01 12:00:00 America/Los_Angeles", 1_435_777_200_000),
            ("2015-07-01 12:00:00 PDT", 1_435_777_200_000),
            ("2015-01-01 12:00 CET", 1_420_110_000_000),
            // The clocks went from 2 to 3, and from 3 back to 2.
            ("2015-03-29 02:30 Europe/Paris", 1_427_592_600_000),
            ("2015-10-25 02:30 Europe/Paris", 1_445_733_000_000),
            ("-0001-01-01", -62_198_755_200_000),
            ("+12000-01-01", 316_516_204_800_000),
        ] {
            assert_eq!(parse_timestamp(text), Ok(ms), "{text}");
        }
        for bad in [
            "",
            "x",
            "1970-01-01 25:00",
            "1970-13-01",
            "1970-01-01T00",
            "12000-01-01",
            "1970-1-1",
            "1970-01-01 00:00 +19:00",
            "0000-01-01 00:00",
            "1970-01-01é",
            "1970-01-01 00:00 europe/paris",
            "1970-01-01 00:00 Nowhere/City",
            "1970-01-01 00:00Europe/Paris",
        ] {
            assert_eq!(
                parse_timestamp(bad),
                Err(ValueError::invalid(format!("Unable to parse a date/time from '{bad}'")))
            );
        }
        assert!(parse_timestamp("99999999999999999999").is_err());
    }

    #[test]
    fn timestamps_far_from_now_print_as_in_java() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (i64::MAX, "+292278994-08-17T07:12:55.807Z"),
            (i64::MIN, "+292275056-05-16T16:47:04.192Z"),
            (-62_198_755_200_000, "0002-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp_to_text(ms), text);
        }
    }

    #[test]
    fn dates_are_read_strictly() {
        assert_eq!(parse_date("1970-01-01"), Ok(1 << 31));
        assert_eq!(parse_date("2147483648"), Ok(1 << 31));
        assert_eq!(date_to_text(0), "-5877641-06-23");
        assert_eq!(parse_date("-5877641-06-23"), Ok(0));
        assert_eq!(date_to_text(u32::MAX), "+5881580-07-11");
        for bad in ["2015-02-30", "2015-2-3", "4294967296", "-1", "2015-02-03Z", "+5881580-07-12", "é"] {
            assert!(parse_date(bad).is_err(), "{bad}");
        }
        assert_eq!(date_of_millis(-1), 1 << 31);
        assert_eq!(date_of_millis(-DAY_MS), (1 << 31) - 1);
    }

    #[test]
    fn times_are_read_and_printed_to_the_nanosecond() {
        for (text, printed) in [
            ("13:30:54.234", "13:30:54.234000000"),
            ("1:2:3", "01:02:03.000000000"),
            (" 23:59:59.999999999 ", "23:59:59.999999999"),
            ("0", "00:00:00.000000000"),
        ] {
            assert_eq!(time_to_text(parse_time(text).unwrap()), printed);
        }
        for bad in ["24:00:00", "12:00", "12:00:00.", "12:00:00.1234567890", "86400000000000", "-1", "a:b:c"]
        {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
