//! Durations: months, days and nanoseconds, which are not convertible into each other; parsed from
//! three forms.

use std::fmt::{self, Display, Formatter};

use cassette_rows::vint;

use super::ValueError;
use super::calendar::{Civil, DAY_MS};

const MICROSECOND: i64 = 1000;
const MILLISECOND: i64 = 1000 * MICROSECOND;
const SECOND: i64 = 1000 * MILLISECOND;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// A value of type `duration`. The parts are all of one sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(missing_docs, reason = "the parts are named after their units")]
pub struct Duration {
    pub months: i32,
    pub days: i32,
    pub nanoseconds: i64,
}

/// The units of a duration, in the order in which parts must come.
const UNITS: [(&str, &[&str], Part, i64); 10] = [
    ("years", &["y"], Part::Months, 12),
    ("months", &["mo"], Part::Months, 1),
    ("weeks", &["w"], Part::Days, 7),
    ("days", &["d"], Part::Days, 1),
    ("hours", &["h"], Part::Nanoseconds, HOUR),
    ("minutes", &["m"], Part::Nanoseconds, MINUTE),
    ("seconds", &["s"], Part::Nanoseconds, SECOND),
    ("milliseconds", &["ms"], Part::Nanoseconds, MILLISECOND),
    ("microseconds", &["us", "µs"], Part::Nanoseconds, MICROSECOND),
    ("nanoseconds", &["ns"], Part::Nanoseconds, 1),
];

#[derive(Clone, Copy)]
enum Part {
    Months,
    Days,
    Nanoseconds,
}

impl Duration {
    /// Parses a duration:
    ///
    /// ```text
    /// [-]1y2mo3w4d5h6m7s8ms9us10ns      any parts, in this order
    /// [-]P1Y2M3DT4H5M6S                 ISO 8601, any parts
    /// [-]P5W                            ISO 8601, weeks
    /// [-]P0001-02-03T04:05:06           ISO 8601, alternative form
    /// ```
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let (negative, source) = match text.strip_prefix('-') {
            Some(source) => (true, source),
            None => (false, text),
        };
        let parts = match source.strip_prefix('P') {
            None => split_units(source),
            Some(iso) if iso.ends_with('W') => split_iso(iso, &[('W', 2)], &[]),
            Some(iso) if iso.contains('-') => split_alternative(iso),
            Some(iso) => split_iso(iso, &[('Y', 0), ('M', 1), ('D', 3)], &[('H', 4), ('M', 5), ('S', 6)]),
        };
        let mut sum = Sum::default();
        let (parts, complete) = parts;
        for (unit, count) in parts {
            sum.add(unit, count)?;
        }
        if !complete {
            return Err(ValueError::invalid(format!("Unable to convert '{source}' to a duration")));
        }
        let Self { months, days, nanoseconds } = sum.duration;
        Ok(if negative {
            Self { months: -months, days: -days, nanoseconds: -nanoseconds }
        } else {
            sum.duration
        })
    }

    /// Decodes a value: three zigzag vints. `None` if they are truncated or out of range.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let months = i32::try_from(vint::read_signed(&mut bytes)?).ok()?;
        let days = i32::try_from(vint::read_signed(&mut bytes)?).ok()?;
        let nanoseconds = vint::read_signed(&mut bytes)?;
        Some(Self { months, days, nanoseconds })
    }

    /// The value's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        vint::write_signed(&mut bytes, i64::from(self.months));
        vint::write_signed(&mut bytes, i64::from(self.days));
        vint::write_signed(&mut bytes, self.nanoseconds);
        bytes
    }

    /// Returns whether any part is below zero.
    pub fn is_negative(&self) -> bool {
        self.months < 0 || self.days < 0 || self.nanoseconds < 0
    }

    /// The opposite duration.
    pub fn negate(&self) -> Self {
        Self {
            months: self.months.wrapping_neg(),
            days: self.days.wrapping_neg(),
            nanoseconds: self.nanoseconds.wrapping_neg(),
        }
    }

    /// Returns the timestamp this much after `ms`: first months, where the last day of the month
    /// replaces a missing one, then days, then the time, truncated to milliseconds.
    pub fn add_to(&self, ms: i64) -> i64 {
        let mut start = ms;
        let mut time = self.nanoseconds / MILLISECOND;
        if self.months != 0 {
            let day = Civil::from_days(ms.div_euclid(DAY_MS)).plus_months(i64::from(self.months));
            start = day.to_days().wrapping_mul(DAY_MS).wrapping_add(ms.rem_euclid(DAY_MS));
            // Java's calendars add milliseconds as a 32-bit number.
            time = i64::from(time as i32);
        }
        start.wrapping_add(i64::from(self.days) * DAY_MS).wrapping_add(time)
    }

    /// Returns days and time in milliseconds, truncated.
    fn days_and_time_ms(&self) -> i64 {
        (i64::from(self.days) * DAY_MS).wrapping_add(self.nanoseconds / MILLISECOND)
    }

    /// Returns the start of the period of this length, counted from `start`, that contains `ms`.
    pub fn floor(&self, ms: i64, start: i64) -> Result<i64, ValueError> {
        if start > ms {
            return Err(ValueError::invalid(
                "The floor function starting time is greater than the provided time",
            ));
        }
        self.check_floor()?;
        let step = self.days_and_time_ms();
        if self.months == 0 {
            let passed = i128::from(ms) - i128::from(start);
            let into = if step == 0 { 0 } else { passed % i128::from(step) };
            return Ok((i128::from(ms) - into) as i64);
        }
        // The start of the period number `count`: months first, then days and time.
        let after = |count: i64| {
            let months = count.saturating_mul(i64::from(self.months));
            let day = Civil::from_days(start.div_euclid(DAY_MS)).plus_months(months);
            let midnight = i128::from(day.to_days()) * i128::from(DAY_MS);
            midnight + i128::from(start.rem_euclid(DAY_MS)) + i128::from(count) * i128::from(step)
        };
        let month_of = |ms: i64| {
            let day = Civil::from_days(ms.div_euclid(DAY_MS));
            day.year * 12 + i64::from(day.month)
        };
        let count = (month_of(ms) - month_of(start)) / i64::from(self.months);
        if step == 0 {
            return Ok(after(count) as i64);
        }
        // The days of so many periods can exceed the target: the last count that does not lies
        // between zero and this one.
        let (mut low, mut high) = (0, count + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if after(middle) > i128::from(ms) { high = middle } else { low = middle }
        }
        Ok(after(low).max(i128::from(start)) as i64)
    }

    /// Returns the start of the period of this length, counted from midnight, that contains a time
    /// of the day.
    pub fn floor_time(&self, nanoseconds: i64) -> Result<i64, ValueError> {
        self.check_floor()?;
        if self.months != 0 || self.days != 0 || self.nanoseconds > 24 * HOUR {
            return Err(ValueError::invalid(
                "For time values, the floor can only be computed for durations smaller that a day",
            ));
        }
        Ok(match self.nanoseconds {
            0 => nanoseconds,
            step => nanoseconds - nanoseconds % step,
        })
    }

    fn check_floor(&self) -> Result<(), ValueError> {
        if self.is_negative() {
            Err(ValueError::invalid("Negative durations are not supported by the floor function"))
        } else {
            Ok(())
        }
    }
}

/// Writes `1y2mo24d5h6m7s8ms9us10ns`; an empty text for zero.
impl Display for Duration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_negative() {
            f.write_str("-")?;
        }
        let months = u64::from(self.months.unsigned_abs());
        let nanoseconds = self.nanoseconds.unsigned_abs();
        let below = |unit: i64| unit.unsigned_abs();
        for (count, unit) in [
            (months / 12, "y"),
            (months % 12, "mo"),
            (u64::from(self.days.unsigned_abs()), "d"),
            (nanoseconds / below(HOUR), "h"),
            (nanoseconds % below(HOUR) / below(MINUTE), "m"),
            (nanoseconds % below(MINUTE) / below(SECOND), "s"),
            (nanoseconds % below(SECOND) / below(MILLISECOND), "ms"),
            (nanoseconds % below(MILLISECOND) / below(MICROSECOND), "us"),
            (nanoseconds % below(MICROSECOND), "ns"),
        ] {
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

/// Parts as (index of the unit, count), and whether they are the complete text.
type Parts = (Vec<(usize, i64)>, bool);

fn split_units(mut text: &str) -> Parts {
    let mut parts = Vec::new();
    while let Some(count) = take_count(&mut text) {
        let letters = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
        let symbol = text[..letters].to_ascii_lowercase();
        let Some(unit) = UNITS.iter().position(|(_, symbols, ..)| symbols.contains(&symbol.as_str())) else {
            return (parts, false);
        };
        parts.push((unit, count));
        text = &text[letters..];
    }
    let complete = text.is_empty() && !parts.is_empty();
    (parts, complete)
}

fn split_iso(text: &str, days: &[(char, usize)], time: &[(char, usize)]) -> Parts {
    let mut parts = Vec::new();
    let (mut date_text, time_text) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut take_all = |text: &mut &str, units: &[(char, usize)]| {
        for (letter, unit) in units {
            let mut rest = *text;
            if let (Some(count), Some(after)) = (take_count(&mut rest), rest.strip_prefix(*letter)) {
                parts.push((*unit, count));
                *text = after;
            }
        }
        text.is_empty()
    };
    let mut complete = take_all(&mut date_text, days);
    if let Some(mut time_text) = time_text {
        complete &= !time.is_empty() && take_all(&mut time_text, time);
    }
    (parts, complete)
}

/// Splits `0001-02-03T04:05:06`, after the P.
fn split_alternative(text: &str) -> Parts {
    let shape = text.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    if !shape.eq(*b"0000-00-00T00:00:00") {
        return (Vec::new(), false);
    }
    let units = [0, 1, 3, 4, 5, 6];
    let counts = text.split(['-', 'T', ':']).map(|digits| digits.parse().unwrap_or(0));
    (units.into_iter().zip(counts).collect(), true)
}

fn take_count(text: &mut &str) -> Option<i64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at(digits);
    let count = number.parse().ok()?;
    *text = rest;
    Some(count)
}

/// Builds a duration; requires ordered parts that do not overflow.
#[derive(Default)]
struct Sum {
    duration: Duration,
    last: Option<usize>,
}

impl Sum {
    fn add(&mut self, unit: usize, count: i64) -> Result<(), ValueError> {
        let (name, _, part, factor) = UNITS[unit];
        match self.last {
            Some(last) if last == unit => {
                return Err(ValueError::invalid(format!(
                    "Invalid duration. The {name} are specified multiple times"
                )));
            }
            Some(last) if last > unit => {
                return Err(ValueError::invalid(format!(
                    "Invalid duration. The {} should be after {name}",
                    UNITS[last].0
                )));
            }
            _ => self.last = Some(unit),
        }
        // Cassandra's message contains the limit of months and days for all parts.
        let too_much = |total: &str| {
            ValueError::invalid(format!(
                "Invalid duration. The total number of {total} must be less or equal to {}",
                i32::MAX
            ))
        };
        let amount = count.checked_mul(factor);
        let small = amount.and_then(|amount| i32::try_from(amount).ok());
        match part {
            Part::Months => {
                let sum = small.and_then(|amount| self.duration.months.checked_add(amount));
                self.duration.months = sum.ok_or_else(|| too_much("months"))?;
            }
            Part::Days => {
                let sum = small.and_then(|amount| self.duration.days.checked_add(amount));
                self.duration.days = sum.ok_or_else(|| too_much("days"))?;
            }
            Part::Nanoseconds => {
                let sum = amount.and_then(|amount| self.duration.nanoseconds.checked_add(amount));
                self.duration.nanoseconds = sum.ok_or_else(|| too_much("nanoseconds"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_all_forms_and_printed_in_one() {
        for (text, printed) in [
            ("1y2mo3w4d5h6m7s8ms9us10ns", "1y2mo25d5h6m7s8ms9us10ns"),
            ("-12MO", "-1y"),
            ("5µs", "5us"),
            ("90m", "1h30m"),
            ("0s", ""),
            ("P1Y2M3DT4H5M6S", "1y2mo3d4h5m6s"),
            ("PT3M", "3m"),
            ("P3M", "3mo"),
            ("P", ""),
            ("-P5W", "-35d"),
            ("P0001-02-03T04:05:06", "1y2mo3d4h5m6s"),
        ] {
            let duration = Duration::parse(text).unwrap();
            assert_eq!(duration.to_string(), printed, "{text}");
            assert_eq!(Duration::decode(&duration.encode()), Some(duration));
        }
    }

    #[test]
    fn bad_durations_are_refused_in_the_words_of_cassandra() {
        for (text, words) in [
            ("1d1d", "Invalid duration. The days are specified multiple times"),
            ("1d1y", "Invalid duration. The days should be after years"),
            ("-1x", "Unable to convert '1x' to a duration"),
            ("1", "Unable to convert '1' to a duration"),
            ("P1H", "Unable to convert 'P1H' to a duration"),
            ("P0001-02-03", "Unable to convert 'P0001-02-03' to a duration"),
            (
                "178956971y",
                "Invalid duration. The total number of months must be less or equal to 2147483647",
            ),
            (
                "9999999999999h",
                "Invalid duration. The total number of nanoseconds must be less or equal to 2147483647",
            ),
        ] {
            assert_eq!(Duration::parse(text), Err(ValueError::invalid(words)), "{text}");
        }
    }

    #[test]
    fn the_least_parts_are_printed_although_no_text_denotes_them() {
        let least = Duration { months: i32::MIN, days: i32::MIN, nanoseconds: i64::MIN };
        let text = least.to_string();
        assert_eq!(text, "-178956970y8mo2147483648d2562047h47m16s854ms775us808ns");
        let refusal = "Invalid duration. The total number of months must be less or equal to 2147483647";
        assert_eq!(Duration::parse(&text), Err(ValueError::invalid(refusal)));
    }

    #[test]
    fn months_are_added_before_days() {
        let january_31 = Civil { year: 2023, month: 1, day: 31 }.to_days() * DAY_MS;
        let march_1 = Civil { year: 2023, month: 3, day: 1 }.to_days() * DAY_MS;
        assert_eq!(Duration::parse("1mo1d").unwrap().add_to(january_31), march_1);
        assert_eq!(Duration::parse("-1ms").unwrap().add_to(0), -1);
    }
}
