//! Text in the layout of Cassandra's tools.

use serde_json::Value;

/// Rows of columns as wide as their widest cell, separated by one or more spaces; cells are padded
/// on the right.
#[derive(Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Adds a row; rows may differ in length.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The rows, with `delimiter` between columns.
    pub fn text(&self, delimiter: &str) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            for (column, width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                text += &format!("{cell:<width$}");
                if column + 1 < columns {
                    text += delimiter;
                }
            }
            text.push('\n');
        }
        text
    }
}

/// `127.89 KiB`: at most two digits after the point.
pub(super) fn file_size(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{} {unit}", at_most_two_digits(bytes as f64 / *size as f64)),
        None => format!("{bytes} bytes"),
    }
}

fn at_most_two_digits(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `5.611KiB`, `0B`: three digits after the point.
pub(super) fn memory(bytes: u64) -> String {
    let step = bytes.checked_ilog2().unwrap_or(0) / 10;
    match step {
        0 => format!("{bytes}B"),
        step => {
            let unit = ["K", "M", "G", "T", "P", "E"][step as usize - 1];
            format!("{:.3}{unit}iB", bytes as f64 / f64::powi(1024.0, step as i32))
        }
    }
}

/// Formats bytes, with units for `-H`.
pub(super) fn bytes(bytes: u64, human_readable: bool) -> String {
    if human_readable { file_size(bytes) } else { bytes.to_string() }
}

/// Formats a floating-point number as Java does: `1.0`, `NaN`, `1.0E10`.
pub(super) fn double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-3..1e7).contains(&magnitude) {
        let text = format!("{number:E}");
        return match text.split_once('E') {
            Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0E{exponent}"),
            _ => text,
        };
    }
    format!("{number:?}")
}

/// `%0.Nf` with Java's NaN.
pub(super) fn fixed(number: f64, digits: usize) -> String {
    if number.is_nan() { "NaN".to_owned() } else { format!("{number:.digits$}") }
}

/// Formats JSON as Cassandra's tools do: indented by two, with a space before the colon too.
pub(super) fn pretty_json(value: &Value) -> String {
    let mut text = String::new();
    write_json(value, 0, &mut text);
    text
}

fn write_json(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(members) if members.is_empty() => text.push_str("{ }"),
        Value::Array(items) if items.is_empty() => text.push_str("[ ]"),
        Value::Object(members) => {
            text.push('{');
            for (i, (name, value)) in members.iter().enumerate() {
                text.push_str(if i == 0 { "\n" } else { ",\n" });
                text.push_str(&" ".repeat(indent + 2));
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push_str(" : ");
                write_json(value, indent + 2, text);
            }
            text.push_str(&format!("\n{}}}", " ".repeat(indent)));
        }
        Value::Array(items) => {
            text.push_str("[ ");
            for (i, value) in items.iter().enumerate() {
                if i > 0 {
                    text.push_str(", ");
                }
                write_json(value, indent, text);
            }
            text.push_str(" ]");
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// Formats milliseconds since 1970 as `2026-11-21T08:47:38.123`, in the time zone of this machine.
pub(super) fn local_time(millis: i64) -> String {
    let zoned =
        jiff::Timestamp::from_millisecond(millis).map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    zoned.map_or_else(|_| millis.to_string(), |time| time.strftime("%Y-%m-%dT%H:%M:%S.%3f").to_string())
}

/// Formats milliseconds since 1970 as `Nov 21, 2026 08:47:38`, in the time zone of this machine.
pub(super) fn local_date(millis: i64) -> String {
    let zoned =
        jiff::Timestamp::from_millisecond(millis).map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    zoned.map_or_else(|_| millis.to_string(), |time| time.strftime("%b %d, %Y %H:%M:%S").to_string())
}

/// Formats milliseconds since 1970 as `2026-11-21T08:49:24.284Z`.
pub(super) fn instant(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis)
        .map_or_else(|_| millis.to_string(), |time| time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_cassandras_tools() {
        let sizes = [0, 1023, 1024, 130_960, 53_477_376, 5 << 40].map(file_size);
        assert_eq!(sizes, ["0 bytes", "1023 bytes", "1 KiB", "127.89 KiB", "51 MiB", "5 TiB"]);
        assert_eq!(
            [0, 400, 5746, 3169, 1 << 30].map(memory),
            ["0B", "400B", "5.611KiB", "3.095KiB", "1.000GiB"]
        );
    }

    #[test]
    fn numbers_are_those_of_java() {
        let numbers = [1.0, 0.0, f64::NAN, 0.661_887_096_774_193_6, 1e10, 1.5e-5, 100.0].map(double);
        assert_eq!(numbers, ["1.0", "0.0", "NaN", "0.6618870967741936", "1.0E10", "1.5E-5", "100.0"]);
        assert_eq!((&*fixed(f64::NAN, 3), &*fixed(0.4478, 3)), ("NaN", "0.448"));
    }

    #[test]
    fn json_is_indented_as_cassandra_does() {
        let value = serde_json::json!({"a": {"b": null, "c": []}, "l": [{"d": 1}, {"d": 2}], "e": {}});
        let expected = [
            "{",
            "  \"a\" : {",
            "    \"b\" : null,",
            "    \"c\" : [ ]",
            "  },",
            "  \"e\" : { },",
            "  \"l\" : [ {",
            "    \"d\" : 1",
            "  }, {",
            "    \"d\" : 2",
            "  } ]",
            "}",
        ]
        .join("\n");
        assert_eq!(pretty_json(&value), expected);
    }
}
