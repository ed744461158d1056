//! Sizes, rates and durations in the notation of cassandra.yaml: a number and a unit.

use std::time::Duration;

use anyhow::{Context, bail};

/// `64MiB`, `512B`.
pub fn bytes(text: &str) -> anyhow::Result<u64> {
    let what =
        || format!("{text}: expected a size, such as 64MiB (a whole number and one of B, KiB, MiB, GiB)");
    let (number, unit) = split(text).with_context(what)?;
    let factor = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => bail!(what()),
    };
    number.checked_mul(factor).with_context(|| format!("{text} is too large"))
}

/// `64MiB/s`.
pub fn bytes_per_second(text: &str) -> anyhow::Result<u64> {
    match text.strip_suffix("/s") {
        Some(size) => bytes(size),
        None => bail!("{text}: expected a rate, such as 64MiB/s (a size per second)"),
    }
}

/// `10000ms`, `10s`.
pub fn duration(text: &str) -> anyhow::Result<Duration> {
    let what = || {
        format!("{text}: expected a duration, such as 10s (a whole number and one of ns, us, ms, s, m, h, d)")
    };
    let (number, unit) = split(text).with_context(what)?;
    let seconds = |n: u64| number.checked_mul(n).map(Duration::from_secs);
    let duration = match unit {
        "ns" => Some(Duration::from_nanos(number)),
        "us" | "µs" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(60 * 60),
        "d" => seconds(24 * 60 * 60),
        _ => bail!(what()),
    };
    duration.with_context(|| format!("{text} is too long"))
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_read() {
        assert_eq!(bytes("64MiB").unwrap(), 64 << 20);
        assert_eq!(bytes_per_second("1 GiB/s").unwrap(), 1 << 30);
        assert_eq!(duration("10000ms").unwrap(), Duration::from_secs(10));
        assert_eq!(duration("2h").unwrap(), Duration::from_secs(7200));
    }

    #[test]
    fn values_without_a_unit_and_too_large_ones_are_rejected() {
        for text in ["64", "64MB", "MiB", "", "99999999999999GiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert!(bytes_per_second("64MiB").is_err());
        assert!(duration("99999999999999999d").is_err());
    }
}
