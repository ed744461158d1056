//! Instants as Java writes them.

/// Formats microseconds since 1970 as `2023-11-14T22:13:20.000001Z`, computed as in sstabledump:
/// the second is truncated towards 1970, and nanoseconds are limited to 64 bits.
pub(super) fn micros_to_text(micros: i64) -> String {
    instant_to_text(micros / 1_000_000, micros.saturating_mul(1000).rem_euclid(1_000_000_000))
}

/// Seconds since 1970 as `2023-11-14T22:13:20Z`.
pub(super) fn seconds_to_text(seconds: i64) -> String {
    instant_to_text(seconds, 0)
}

/// The fraction has as many groups of three digits as it needs.
fn instant_to_text(seconds: i64, nanos: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let year = match year {
        0..=9999 => format!("{year:04}"),
        10_000.. => format!("+{year}"),
        _ => format!("-{:04}", -year),
    };
    let fraction = match nanos {
        0 => String::new(),
        _ if nanos % 1_000_000 == 0 => format!(".{:03}", nanos / 1_000_000),
        _ if nanos % 1000 == 0 => format!(".{:06}", nanos / 1000),
        _ => format!(".{nanos:09}"),
    };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Returns the Gregorian date of a day since 1970: Howard Hinnant's `civil_from_days`, in which a
/// year begins in March and an era has 146,097 days.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_as_java_does() {
        assert_eq!(micros_to_text(1_700_000_000_000_001), "2023-11-14T22:13:20.000001Z");
        assert_eq!(micros_to_text(1_700_000_000_120_000), "2023-11-14T22:13:20.120Z");
        assert_eq!(seconds_to_text(1_795_232_449), "2026-11-21T03:40:49Z");
        assert_eq!(seconds_to_text(-1), "1969-12-31T23:59:59Z");
        assert_eq!(seconds_to_text(253_402_300_800), "+10000-01-01T00:00:00Z");
        assert_eq!(seconds_to_text(-62_198_755_200), "-0001-01-01T00:00:00Z");
        assert_eq!(seconds_to_text(951_782_400), "2000-02-29T00:00:00Z");
        // The second is truncated towards 1970, the fraction is not.
        assert_eq!(micros_to_text(-1), "1970-01-01T00:00:00.999999Z");
    }
}
