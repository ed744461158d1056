//! Numbers as Python formats them.

/// Formats as C's `%.*g`: `precision` significant digits, without trailing zeros, with an exponent
/// if it is below -4 or not below the precision.
pub fn general(value: f64, precision: usize) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let precision = precision.max(1);
    let scientific = format!("{value:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let limit = i32::try_from(precision).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= limit {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(limit - 1 - exponent).unwrap_or(0);
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

/// Formats a float or double as cqlsh does: `precision` digits after the decimal point as long as
/// that needs no exponent.
pub fn floating_point(value: f64, precision: usize) -> String {
    let exponent = if value.abs() > f64::EPSILON { value.abs().log10() as i64 } else { i64::MIN };
    let limit = i64::try_from(precision).unwrap_or(i64::MAX);
    if value.is_finite() && (-4..limit).contains(&exponent) {
        return general(value, usize::try_from(limit + exponent + 1).unwrap_or(precision));
    }
    general(value, precision)
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_in_c() {
        for (value, precision, text) in [
            (0.0, 5, "0"),
            (-0.0, 5, "-0"),
            (1.0, 5, "1"),
            (0.0001, 5, "0.0001"),
            (0.00001, 5, "1e-05"),
            (123456.0, 5, "1.2346e+05"),
            (1e100, 5, "1e+100"),
            (0.1, 17, "0.10000000000000001"),
        ] {
            assert_eq!(general(value, precision), text, "{value}");
        }
    }

    #[test]
    fn floats_have_digits_after_the_point_as_in_cqlsh() {
        for (value, text) in [
            (9.87654321, "9.87654"),
            (12345.678901, "12345.6789"),
            (123456.789, "1.2346e+05"),
            (99999.9, "99999.9"),
            (0.000123456, "0.000123"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (1e-20, "1e-20"),
        ] {
            assert_eq!(floating_point(value, 5), text, "{value}");
        }
    }
}
