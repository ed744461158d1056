//! Values as cqlsh shows them in tables.

use std::net::{Ipv4Addr, Ipv6Addr};

use cassette_cql::values::{duration::Duration, text};
use cassette_rows::DataType;
use cassette_rows::types::{collection, vector};

use super::number::floating_point;
use super::python_time::{TimestampFormat, format_time};
use super::text::{Color, Shown};

/// Days from the epoch to the first and last date of the years 1 to 9999.
const DATE_DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;

/// How values are shown.
#[derive(Clone, Debug)]
pub struct Formats {
    /// Digits of floats after the decimal point; `None` for all that are needed.
    pub float_precision: Option<usize>,
    /// Digits of doubles after the decimal point.
    pub double_precision: Option<usize>,
    /// Timestamps.
    pub timestamp: TimestampFormat,
    /// The text of null.
    pub null: String,
    /// The decimal separator.
    pub decimal_separator: Option<char>,
    /// The separator of thousands.
    pub thousands_separator: Option<char>,
    /// The texts of true and false.
    pub booleans: (String, String),
    /// Whether control characters and backslashes in text are escaped.
    pub escapes_text: bool,
}

impl Default for Formats {
    fn default() -> Self {
        Self {
            float_precision: Some(5),
            double_precision: Some(5),
            timestamp: TimestampFormat::default(),
            null: "null".to_owned(),
            decimal_separator: None,
            thousands_separator: None,
            booleans: ("True".to_owned(), "False".to_owned()),
            escapes_text: true,
        }
    }
}

impl Formats {
    /// Formats a cell.
    pub fn show(&self, data_type: &DataType, cell: Option<&[u8]>, colored: bool) -> Shown {
        let mut out = Shown::new(colored);
        self.write(data_type, cell, false, &mut out);
        out
    }

    /// Appends a cell as plain text, without its width.
    pub fn write_plain(&self, data_type: &DataType, cell: Option<&[u8]>, out: &mut String) {
        match (data_type, cell) {
            (DataType::Text | DataType::Ascii, Some(bytes)) if !self.escapes_text => {
                out.push_str(&String::from_utf8_lossy(bytes));
            }
            _ => out.push_str(&self.show(data_type, cell, false).text),
        }
    }

    /// Appends a value. In collections, tuples and user-defined types, text and times are quoted.
    fn write(&self, data_type: &DataType, cell: Option<&[u8]>, nested: bool, out: &mut Shown) {
        let Some(bytes) = cell else { return out.push(Color::Error, &self.null) };
        match data_type {
            DataType::Text | DataType::Ascii => {
                let text = String::from_utf8_lossy(bytes);
                if self.escapes_text {
                    return out.push_text(Color::Text, &text, nested);
                }
                let quoted =
                    if nested { format!("'{}'", text.replace('\'', "''")) } else { text.into_owned() };
                return out.push(Color::Text, &quoted);
            }
            DataType::Blob => return out.push(Color::Blob, &format!("0x{}", text::encode_hex(bytes))),
            // An empty value of another type is an empty text.
            _ if bytes.is_empty() => return,
            _ => {}
        }
        match data_type {
            DataType::List { element, .. } => {
                self.write_all(("[", "]"), collection::read_list(bytes).map(|item| (&**element, item)), out);
            }
            DataType::Vector { element, dimension } => {
                let elements = vector::read_vector(element, *dimension, bytes);
                self.write_all(("[", "]"), elements.map(|item| (&**element, Some(item))), out);
            }
            DataType::Set { element, .. } => {
                let mut items: Vec<_> = collection::read_list(bytes).flatten().collect();
                sort(element, &mut items, |item| *item);
                self.write_all(("{", "}"), items.into_iter().map(|item| (&**element, Some(item))), out);
            }
            DataType::Tuple(types) => {
                let mut items = collection::read_tuple(bytes);
                let items = types.iter().map(|data_type| (data_type, items.next().flatten()));
                self.write_all(("(", ")"), items, out);
            }
            DataType::Map { key, value, .. } => {
                let mut entries: Vec<_> = collection::read_map(bytes).collect();
                sort(key, &mut entries, |entry| entry.0);
                self.write_entries(entries.into_iter(), out, |(k, v), out| {
                    self.write(key, Some(k), true, out);
                    out.push(Color::Collection, ": ");
                    self.write(value, Some(v), true, out);
                });
            }
            DataType::Udt { definition, .. } => {
                let mut items = collection::read_tuple(bytes);
                let fields = definition.fields.iter().map(|field| (field, items.next().flatten()));
                self.write_entries(fields, out, |((name, data_type), field), out| {
                    out.push_text(Color::Text, name, false);
                    out.push(Color::Collection, ": ");
                    self.write(data_type, field, true, out);
                });
            }
            _ => {
                let is_quoted = nested && matches!(data_type, DataType::Inet | DataType::Timestamp);
                let text = self.scalar(data_type, bytes);
                out.push(Color::Number, &if is_quoted { format!("'{text}'") } else { text });
            }
        }
    }

    /// Appends elements in brackets. Brackets without elements have no width, as in cqlsh.
    fn write_all<'a>(
        &self,
        (open, close): (&str, &str),
        items: impl Iterator<Item = (&'a DataType, Option<&'a [u8]>)>,
        out: &mut Shown,
    ) {
        let mut items = items.peekable();
        if items.peek().is_none() {
            return out.push_zero_width(Color::Collection, &format!("{open}{close}"));
        }
        out.push(Color::Collection, open);
        for (index, (data_type, item)) in items.enumerate() {
            if index > 0 {
                out.push(Color::Collection, ", ");
            }
            self.write(data_type, item, true, out);
        }
        out.push(Color::Collection, close);
    }

    /// Appends entries in braces. Braces without entries have no width, as in cqlsh.
    fn write_entries<T>(
        &self,
        entries: impl Iterator<Item = T>,
        out: &mut Shown,
        mut write: impl FnMut(T, &mut Shown),
    ) {
        let mut entries = entries.peekable();
        if entries.peek().is_none() {
            return out.push_zero_width(Color::Collection, "{}");
        }
        out.push(Color::Collection, "{");
        for (index, entry) in entries.enumerate() {
            if index > 0 {
                out.push(Color::Collection, ", ");
            }
            write(entry, out);
        }
        out.push(Color::Collection, "}");
    }

    /// Formats a value without parts.
    fn scalar(&self, data_type: &DataType, bytes: &[u8]) -> String {
        match data_type {
            DataType::Boolean => {
                if bytes == [0] {
                    self.booleans.1.clone()
                } else {
                    self.booleans.0.clone()
                }
            }
            DataType::Float => match <[u8; 4]>::try_from(bytes) {
                Ok(_) if self.float_precision.is_none() => {
                    self.with_separator(text::to_text(data_type, bytes))
                }
                Ok(bytes) => self.floating(f64::from(f32::from_be_bytes(bytes)), self.float_precision),
                Err(_) => invalid(bytes),
            },
            DataType::Double => match bytes.try_into() {
                Ok(bytes) => self.floating(f64::from_be_bytes(bytes), self.double_precision),
                Err(_) => invalid(bytes),
            },
            DataType::Timestamp => match bytes.try_into() {
                Ok(bytes) => format_time(i64::from_be_bytes(bytes), &self.timestamp),
                Err(_) => invalid(bytes),
            },
            DataType::Date => match bytes.try_into() {
                Ok(bytes) => date(u32::from_be_bytes(bytes)),
                Err(_) => invalid(bytes),
            },
            DataType::Duration => Duration::decode(bytes).map_or_else(
                || invalid(bytes),
                |value| format_duration(value.months, value.days, value.nanoseconds),
            ),
            DataType::Inet => address(bytes),
            DataType::Decimal => self.decimal(&text::to_text(data_type, bytes)),
            DataType::TinyInt
            | DataType::SmallInt
            | DataType::Int
            | DataType::BigInt
            | DataType::Counter
            | DataType::VarInt => self.whole(&text::to_text(data_type, bytes)),
            other => text::to_text(other, bytes),
        }
    }

    fn floating(&self, value: f64, precision: Option<usize>) -> String {
        let Some(precision) = precision else {
            let text = text::to_text(&DataType::Double, &value.to_be_bytes());
            return self.with_separator(text);
        };
        let Some(separator) = self.thousands_separator.filter(|_| value.is_finite()) else {
            return self.with_separator(floating_point(value, precision));
        };
        let mut text = grouped(&format!("{:.0}", value.trunc()), separator);
        let fraction = format!("{:.precision$}", value.fract().abs());
        let digits = fraction.get(2..).unwrap_or_default().trim_end_matches('0');
        if !digits.is_empty() {
            text.push(self.decimal_separator.unwrap_or('.'));
            text.push_str(digits);
        }
        text
    }

    fn decimal(&self, text: &str) -> String {
        if self.thousands_separator.is_none() && self.decimal_separator.is_some() {
            return self.with_separator(text.to_owned());
        }
        if self.thousands_separator.is_some() {
            return text
                .parse()
                .map_or_else(|_| text.to_owned(), |value| self.floating(value, self.float_precision));
        }
        text.to_owned()
    }

    fn whole(&self, text: &str) -> String {
        self.thousands_separator.map_or_else(|| text.to_owned(), |separator| grouped(text, separator))
    }

    fn with_separator(&self, text: String) -> String {
        match self.decimal_separator {
            Some(separator) if separator != '.' => text.replace('.', &separator.to_string()),
            _ => text,
        }
    }
}

/// Sorts as Python sorts the values that the driver makes of `data_type`; those that the server
/// sorts in the same way stay.
fn sort<T>(data_type: &DataType, items: &mut [T], key: impl Fn(&T) -> &[u8]) {
    match data_type {
        DataType::Uuid | DataType::TimeUuid => items.sort_by(|a, b| key(a).cmp(key(b))),
        DataType::Inet => items.sort_by_key(|item| address(key(item))),
        _ => {}
    }
}

/// Inserts a separator of thousands into the digits of a whole number.
fn grouped(text: &str, separator: char) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let mut out = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(separator);
        }
        out.push(digit);
    }
    out
}

/// Shows bytes that are no value of their type.
fn invalid(bytes: &[u8]) -> String {
    format!("0x{}", text::encode_hex(bytes))
}

fn address(bytes: &[u8]) -> String {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Ipv4Addr::from(bytes).to_string();
    }
    <[u8; 16]>::try_from(bytes).map_or_else(|_| invalid(bytes), |bytes| Ipv6Addr::from(bytes).to_string())
}

/// A date; one outside of the years 1 to 9999 as days since the epoch, as in cqlsh.
fn date(value: u32) -> String {
    let days = i64::from(value) - (1 << 31);
    if DATE_DAYS.contains(&days) {
        return text::to_text(&DataType::Date, &value.to_be_bytes());
    }
    days.to_string()
}

/// Formats a duration as cqlsh does: the largest units first, without those that are zero.
fn format_duration(months: i32, days: i32, nanoseconds: i64) -> String {
    const UNITS: [(u64, &str); 6] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let mut out = String::new();
    if months < 0 || days < 0 || nanoseconds < 0 {
        out.push('-');
    }
    let mut push = |number: u64, unit: &str| {
        if number > 0 {
            out.push_str(&format!("{number}{unit}"));
        }
    };
    let months = u64::from(months.unsigned_abs());
    push(months / 12, "y");
    push(months % 12, "mo");
    push(u64::from(days.unsigned_abs()), "d");
    let mut rest = nanoseconds.unsigned_abs();
    for (length, unit) in UNITS {
        push(rest / length, unit);
        rest %= length;
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cassette_cql::values::collections::{build_list, build_map, build_set, build_tuple};
    use cassette_rows::types::UserType;

    use super::*;

    fn shown(data_type: &DataType, bytes: &[u8]) -> String {
        Formats::default().show(data_type, Some(bytes), false).text
    }

    #[test]
    fn scalars_are_shown_as_in_cqlsh() {
        let v4: [u8; 4] = [127, 0, 0, 1];
        let v6: [u8; 16] = Ipv6Addr::LOCALHOST.octets();
        for (data_type, bytes, text) in [
            (DataType::Int, &7i32.to_be_bytes()[..], "7"),
            (DataType::Boolean, &[1], "True"),
            (DataType::Boolean, &[0], "False"),
            (DataType::Double, &0.1f64.to_be_bytes(), "0.1"),
            (DataType::Float, &1.5f32.to_be_bytes(), "1.5"),
            (DataType::Blob, &[0xca, 0xfe], "0xcafe"),
            (DataType::Inet, &v4, "127.0.0.1"),
            (DataType::Inet, &v6, "::1"),
            (DataType::Timestamp, &0i64.to_be_bytes(), "1970-01-01 00:00:00.000000+0000"),
            (DataType::Date, &(1u32 << 31).to_be_bytes(), "1970-01-01"),
            (DataType::Date, &u32::MAX.to_be_bytes(), "2147483647"),
            (DataType::Time, &1_000_000_001i64.to_be_bytes(), "00:00:01.000000001"),
            (DataType::Int, &[], ""),
            (DataType::Text, b"", ""),
        ] {
            assert_eq!(shown(&data_type, bytes), text, "{data_type}");
        }
        assert_eq!(Formats::default().show(&DataType::Int, None, false).text, "null");
    }

    #[test]
    fn parts_of_collections_are_quoted() {
        let list = DataType::List { element: DataType::Text.into(), frozen: true };
        let bytes = build_list(&[b"it's".to_vec(), b"b\n".to_vec()]);
        assert_eq!(shown(&list, &bytes), "['it''s', 'b\\n']");
        let map = DataType::Map { key: DataType::Int.into(), value: list.into(), frozen: true };
        let bytes = build_map(&DataType::Int, vec![(1i32.to_be_bytes().to_vec(), bytes)]);
        assert_eq!(shown(&map, &bytes), "{1: ['it''s', 'b\\n']}");
        let tuple = DataType::Tuple(vec![DataType::Timestamp, DataType::Inet, DataType::Int].into());
        let bytes = build_tuple(&[Some(0i64.to_be_bytes().to_vec()), Some(vec![10, 0, 0, 1]), None]);
        assert_eq!(shown(&tuple, &bytes), "('1970-01-01 00:00:00.000000+0000', '10.0.0.1', null)");
        let fields = vec![("a".to_owned(), DataType::Int), ("b".to_owned(), DataType::Text)];
        let definition = Arc::new(UserType::new("k".to_owned(), "u".to_owned(), fields));
        let udt = DataType::Udt { definition, frozen: true };
        assert_eq!(shown(&udt, &build_tuple(&[Some(1i32.to_be_bytes().to_vec())])), "{a: 1, b: null}");
    }

    #[test]
    fn uuids_in_sets_have_the_order_of_python() {
        let set = DataType::Set { element: DataType::TimeUuid.into(), frozen: true };
        let time_uuid = |low: u8, mid: u8| {
            let mut bytes = [0; 16];
            (bytes[3], bytes[5], bytes[6], bytes[8]) = (low, mid, 0x10, 0x80);
            bytes.to_vec()
        };
        let bytes = build_set(&DataType::TimeUuid, vec![time_uuid(1, 2), time_uuid(2, 1)]);
        let text = shown(&set, &bytes);
        assert!(text.starts_with("{00000001-0002"), "{text}");
    }

    #[test]
    fn empty_collections_have_no_width() {
        let list = DataType::List { element: DataType::Text.into(), frozen: true };
        let shown = Formats::default().show(&list, Some(&build_list(&[])), false);
        assert_eq!((shown.text.as_str(), shown.width), ("[]", 0));
    }

    #[test]
    fn durations_have_the_largest_units_first() {
        assert_eq!(format_duration(14, 3, 3_723_004_005_006), "1y2mo3d1h2m3s4ms5us6ns");
        assert_eq!(format_duration(-1, -2, 0), "-1mo2d");
        assert_eq!(format_duration(0, 0, 0), "");
    }

    #[test]
    fn separators_group_digits() {
        let formats =
            Formats { thousands_separator: Some(','), decimal_separator: Some('.'), ..Formats::default() };
        let show = |data_type, bytes: &[u8]| formats.show(&data_type, Some(bytes), false).text;
        assert_eq!(show(DataType::Int, &(-1_234_567i32).to_be_bytes()), "-1,234,567");
        assert_eq!(show(DataType::Double, &1234.5f64.to_be_bytes()), "1,234.5");
    }
}
