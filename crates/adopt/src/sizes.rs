//! Sizes as text.

/// Returns bytes as text: `1.5 GiB`.
pub fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if unit == 0 { format!("{bytes} {name}") } else { format!("{value:.1} {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits() {
        assert_eq!(size_text(12), "12 bytes");
        assert_eq!(size_text(1536), "1.5 KiB");
        assert_eq!(size_text(3 << 30), "3.0 GiB");
        assert_eq!(size_text(u64::MAX), "16777216.0 TiB");
    }
}
