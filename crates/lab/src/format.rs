//! Formats numbers and the texts of other processes for reports.

use std::time::Duration;

/// Returns the start of a text of another process, without what could control a terminal.
pub fn printable(text: &str, length_max: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(length_max).collect()
}

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

/// Formats a number of bytes in decimal units: 1.1 GB.
pub fn bytes(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 1000.0 {
            return if unit == "B" { format!("{number} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// Formats hours, minutes and seconds, the two most significant.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}
