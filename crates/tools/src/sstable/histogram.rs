//! Histograms as text, in the format of sstablemetadata.

use std::fmt::Write;

use cassette_sstable::statistics::EstimatedHistogram;

/// The length of the longest bar.
const BAR: f64 = 30.0;
/// Buckets for percentiles.
const BUCKETS: usize = 165;

/// Formats a histogram of `points`, each a value and its count, with a title. `name` formats a
/// value.
pub fn draw(points: &[(i64, i64)], title: &str, name: impl Fn(i64) -> String) -> String {
    let names: Vec<_> = points.iter().map(|(value, _)| name(*value)).collect();
    let value_width = names.iter().map(String::len).chain([title.len()]).max().unwrap_or(0);
    let count_width = points.iter().map(|(_, count)| count.to_string().len()).chain([5]).max().unwrap_or(5);
    let max = points.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let sum: f64 = points.iter().map(|(_, count)| *count as f64).sum();
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "   {title:<value_width$} | {:<count_width$}  (%)  Histogram ", "Count");
    let mut percentiles = EstimatedHistogram::new(BUCKETS);
    for ((value, count), name) in points.iter().zip(&names) {
        let length = *count as f64 / max as f64 * BAR;
        let rest = match length.fract() {
            0.75.. => "o",
            0.3.. => ".",
            _ => "",
        };
        let percent = (100.0 * (*count as f64 / sum)) as i64;
        let bar = "O".repeat(length as usize);
        let _ = writeln!(out, "   {name:<value_width$} | {count:>count_width$} ({percent:>3}) {bar}{rest}");
        percentiles.add_many(*value, *count);
    }
    let _ = writeln!(out, "   Percentiles");
    let of = |fraction| percentiles.percentile(fraction);
    for (label, value) in [
        ("50th", of(0.5)),
        ("75th", of(0.75)),
        ("95th", of(0.95)),
        ("98th", of(0.98)),
        ("99th", of(0.99)),
        ("Min", percentiles.min()),
        ("Max", percentiles.max()),
    ] {
        let _ = writeln!(out, "   {label:<10}{}", name(value));
    }
    out
}
