//! Formats numbers for reports.

/// Formats a number with thousands separators: 12,345.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with its significant digits.
pub fn rounded(value: f64) -> String {
    let digits = value.abs();
    if digits < 100.0 && value.fract() == 0.0 {
        format!("{value:.0}")
    } else if digits < 10.0 {
        format!("{value:.2}")
    } else if digits < 100.0 {
        format!("{value:.1}")
    } else if value < 0.0 {
        format!("-{}", grouped(digits.round() as u64))
    } else {
        grouped(digits.round() as u64)
    }
}
