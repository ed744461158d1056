//! Java's formats in the output of Cassandra's tools: dates, durations, maps.

use std::fmt::Display;

use cassette_cql::values::calendar::Civil;

/// Formats milliseconds since 1970 as `MM/dd/yyyy HH:mm:ss`, in UTC. Days before 15 October 1582
/// are those of the Julian calendar; the year is that of its era.
pub fn date_text(millis: i64) -> String {
    let seconds = millis.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    /// 1582-10-15, when the Gregorian calendar began.
    const GREGORIAN: i64 = -141_427;
    let (year, month, day) = if days >= GREGORIAN {
        let Civil { year, month, day } = Civil::from_days(days);
        (year, i64::from(month), i64::from(day))
    } else {
        julian(days)
    };
    let year = if year > 0 { year } else { 1 - year };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{month:02}/{day:02}/{year:04} {hour:02}:{minute:02}:{second:02}")
}

/// Returns the Julian date of a day since 1970-01-01 (Gregorian). A year begins in March; four of
/// them have 1461 days.
fn julian(days: i64) -> (i64, i64, i64) {
    /// Days from 1 March of the year 0 (Julian) to 1970-01-01 (Gregorian).
    const TO_1970: i64 = 719_470;
    let days = days + TO_1970;
    let cycle = days.div_euclid(1461);
    let day_of_cycle = days.rem_euclid(1461);
    let year_of_cycle = (day_of_cycle / 365).min(3);
    let day_of_year = day_of_cycle - 365 * year_of_cycle;
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (4 * cycle + year_of_cycle + i64::from(month <= 2), month, day)
}

/// Formats seconds as `3472 days 5 hours 20 minutes`: without zeros before the first and after the
/// last part, but with those between.
pub fn duration_words(seconds: i64) -> String {
    let parts = [
        (seconds / 86_400, "day"),
        (seconds / 3600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let first = parts.iter().position(|(n, _)| *n != 0).unwrap_or(3);
    let last = parts.iter().rposition(|(n, _)| *n != 0).unwrap_or(3);
    let words =
        parts[first..=last].iter().map(|(n, unit)| format!("{n} {unit}{}", if *n == 1 { "" } else { "s" }));
    words.collect::<Vec<_>>().join(" ")
}

/// Sorts the entries of a map in the order of Java's hash map, which is that of its buckets.
pub fn in_hash_order<V>(mut entries: Vec<(String, V)>) -> Vec<(String, V)> {
    let mut buckets = 16u32;
    while entries.len() as u32 > buckets / 4 * 3 {
        buckets *= 2;
    }
    entries.sort_by_key(|(name, _)| {
        let hash =
            name.encode_utf16().fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
        (hash ^ hash >> 16) & (buckets - 1)
    });
    entries
}

/// `[a, b]`
pub fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    format!("[{}]", items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", "))
}

/// Formats a number of bytes with three decimals in the largest suitable unit, `1.077 MiB`; below a
/// KiB without decimals, `17 B`.
pub fn pretty_memory(bytes: u64) -> String {
    let power = bytes.checked_ilog2().unwrap_or(0) / 10;
    match ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(power as usize) {
        Some(prefix) if power > 0 => {
            format!("{:.3} {prefix}B", bytes as f64 / f64::from(1u32 << 10).powi(power as i32))
        }
        _ => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_javas_calendar() {
        assert_eq!(date_text(1_699_999_999_999), "11/14/2023 22:13:19");
        assert_eq!(date_text(9_223_372_036_854_775), "01/10/294247 04:00:54");
        assert_eq!(date_text(-4_611_686_018_427_387), "06/15/144167 09:59:32");
        assert_eq!(date_text(-141_427 * 86_400_000), "10/15/1582 00:00:00");
        assert_eq!(date_text(-141_428 * 86_400_000), "10/04/1582 00:00:00");
    }

    #[test]
    fn durations_are_in_words() {
        assert_eq!(duration_words(300_000_000), "3472 days 5 hours 20 minutes");
        assert_eq!(duration_words(86_401), "1 day 0 hours 0 minutes 1 second");
        assert_eq!(duration_words(60), "1 minute");
    }

    #[test]
    fn maps_have_the_order_of_javas() {
        let entries = ["s", "n", "sl", "sm"].map(|name| (name.to_owned(), ())).to_vec();
        let names: Vec<_> = in_hash_order(entries).into_iter().map(|(name, ())| name).collect();
        assert_eq!(names, ["s", "sl", "sm", "n"]);
    }

    #[test]
    fn sizes_have_three_decimals_from_a_kibibyte_on() {
        assert_eq!(pretty_memory(0), "0 B");
        assert_eq!(pretty_memory(1023), "1023 B");
        assert_eq!(pretty_memory(1536), "1.500 KiB");
        assert_eq!(pretty_memory(3 << 30), "3.000 GiB");
    }
}
