//! Values of text, as files of COPY contain them.

use cassette_cql::values::{collections, temporal, text};
use cassette_rows::DataType;

use super::python_time::TimestampFormat;

/// How values are written in a file.
#[derive(Clone, Debug)]
pub struct ParseFormats {
    /// The text of null.
    pub null: String,
    /// The format of timestamps; other notations of CQL are accepted, too.
    pub timestamp: TimestampFormat,
    /// The decimal separator.
    pub decimal_separator: Option<char>,
    /// The separator of thousands.
    pub thousands_separator: Option<char>,
    /// The texts of true and false.
    pub booleans: (String, String),
}

impl ParseFormats {
    /// Parses a field. `None` is null.
    ///
    /// # Errors
    /// If the text is no value of the type.
    pub fn parse(&self, data_type: &DataType, text: &str) -> Result<Option<Vec<u8>>, String> {
        if text == self.null {
            return Ok(None);
        }
        match data_type {
            DataType::Text => Ok(Some(text.as_bytes().to_vec())),
            // An empty field is null for types that have no empty text, if null has another text.
            _ if text.is_empty() && !matches!(data_type, DataType::Ascii) => Ok(None),
            _ => self.parse_value(data_type, text).map(Some),
        }
    }

    fn parse_value(&self, data_type: &DataType, text: &str) -> Result<Vec<u8>, String> {
        match data_type {
            DataType::Boolean => self.parse_boolean(text),
            DataType::Timestamp => self.parse_timestamp(text).map(|ms| ms.to_be_bytes().to_vec()),
            DataType::Blob => {
                let digits = text.strip_prefix("0x").unwrap_or(text);
                text::decode_hex(digits).ok_or_else(|| format!("expected hexadecimal digits, found '{text}'"))
            }
            DataType::TinyInt
            | DataType::SmallInt
            | DataType::Int
            | DataType::BigInt
            | DataType::Counter
            | DataType::VarInt
            | DataType::Decimal
            | DataType::Float
            | DataType::Double => self.parse_number(data_type, text.trim()),
            DataType::List { element, .. } => {
                Ok(collections::build_list(&self.parse_elements(element, text)?))
            }
            DataType::Set { element, .. } => {
                Ok(collections::build_set(element, self.parse_elements(element, text)?))
            }
            DataType::Vector { element, dimension } => {
                let elements = self.parse_elements(element, text)?;
                collections::build_vector(element, *dimension, &elements).map_err(|error| error.to_string())
            }
            DataType::Map { key, value, .. } => {
                let mut entries = Vec::new();
                for entry in split(text, ',')? {
                    let (k, v) = split_entry(entry)?;
                    entries.push((self.parse_element(key, k)?, self.parse_element(value, v)?));
                }
                Ok(collections::build_map(key, entries))
            }
            DataType::Tuple(types) => {
                let items = split(text, ',')?;
                if items.len() > types.len() {
                    return Err(format!("expected {} items, found {}", types.len(), items.len()));
                }
                let items: Result<Vec<_>, String> = types
                    .iter()
                    .zip(items)
                    .map(|(data_type, item)| self.parse_part(data_type, item))
                    .collect();
                Ok(collections::build_tuple(&items?))
            }
            DataType::Udt { definition, .. } => {
                let mut fields = vec![None; definition.fields.len()];
                for entry in split(text, ',')? {
                    let (name, value) = split_entry(entry)?;
                    let name =
                        unquote(name, '"').or_else(|| unquote(name, '\'')).unwrap_or_else(|| name.to_owned());
                    let index = definition.fields.iter().position(|(field, _)| *field == name);
                    let index =
                        index.ok_or_else(|| format!("type {} has no field '{name}'", definition.name))?;
                    fields[index] = self.parse_part(&definition.fields[index].1, value)?;
                }
                Ok(collections::build_tuple(&fields))
            }
            other => text::from_text(other, text).map_err(|error| error.to_string()),
        }
    }

    fn parse_boolean(&self, text: &str) -> Result<Vec<u8>, String> {
        let (yes, no) = &self.booleans;
        match text.trim() {
            text if text.eq_ignore_ascii_case(yes) => Ok(vec![1]),
            text if text.eq_ignore_ascii_case(no) => Ok(vec![0]),
            other => Err(format!("expected {yes} or {no}, found '{other}'")),
        }
    }

    fn parse_number(&self, data_type: &DataType, text: &str) -> Result<Vec<u8>, String> {
        // The separators are the usual ones.
        if self.thousands_separator.is_none() && self.decimal_separator.is_none_or(|c| c == '.') {
            return number(data_type, text);
        }
        let text: String = text
            .chars()
            .filter(|c| Some(*c) != self.thousands_separator)
            .map(|c| if Some(c) == self.decimal_separator { '.' } else { c })
            .collect();
        number(data_type, &text)
    }

    fn parse_timestamp(&self, text: &str) -> Result<i64, String> {
        let pattern = self.timestamp.pattern.as_str();
        if pattern != TimestampFormat::default().pattern
            && let Some(ms) = self.timestamp.parse(text)
        {
            return Ok(ms);
        }
        temporal::parse_timestamp(text.trim()).map_err(|error| error.to_string())
    }

    fn parse_elements(&self, element: &DataType, text: &str) -> Result<Vec<Vec<u8>>, String> {
        split(text, ',')?.into_iter().map(|item| self.parse_element(element, item)).collect()
    }

    /// Parses an element of a collection, which cannot be null.
    fn parse_element(&self, data_type: &DataType, text: &str) -> Result<Vec<u8>, String> {
        let text = text.trim();
        match unquote(text, '\'') {
            Some(text) => self.parse_value(data_type, &text),
            None if text.is_empty() && !matches!(data_type, DataType::Text | DataType::Ascii) => {
                Err("empty values are not allowed in collections".to_owned())
            }
            None => self.parse_value(data_type, text),
        }
    }

    /// Parses an item of a tuple or a field, which can be null.
    fn parse_part(&self, data_type: &DataType, text: &str) -> Result<Option<Vec<u8>>, String> {
        let text = text.trim();
        let is_null = text == self.null || text.is_empty() || text.eq_ignore_ascii_case("null");
        if is_null { Ok(None) } else { self.parse_element(data_type, text).map(Some) }
    }
}

/// Parses a number; a leading plus is allowed.
fn number(data_type: &DataType, text: &str) -> Result<Vec<u8>, String> {
    if let (DataType::Int, Ok(value)) = (data_type, text.parse::<i32>()) {
        return Ok(value.to_be_bytes().to_vec());
    }
    text::from_text(data_type, text).map_err(|error| error.to_string())
}

/// Removes quotes around a text, and doubled ones in it. `None` without quotes.
fn unquote(text: &str, quote: char) -> Option<String> {
    let text = text.trim().strip_prefix(quote)?.strip_suffix(quote)?;
    let doubled: String = [quote, quote].iter().collect();
    Some(if text.contains(quote) { text.replace(&doubled, &quote.to_string()) } else { text.to_owned() })
}

/// Splits the content of brackets at a separator that is in no inner brackets and in no quotes.
fn split(text: &str, separator: char) -> Result<Vec<&str>, String> {
    let text = text.trim();
    let close = match text.chars().next() {
        Some('[') => ']',
        Some('{') => '}',
        Some('(') => ')',
        _ => return Err(format!("expected brackets, found '{text}'")),
    };
    let content =
        text[1..].strip_suffix(close).ok_or_else(|| format!("expected {close} at the end of '{text}'"))?;
    if content.trim().is_empty() {
        return Ok(Vec::new());
    }
    Ok(split_outside(content, separator))
}

fn split_entry(entry: &str) -> Result<(&str, &str), String> {
    let parts = split_outside(entry, ':');
    let first = parts.first().filter(|_| parts.len() > 1);
    let first =
        first.ok_or_else(|| format!("expected a key, a colon and a value, found '{}'", entry.trim()))?;
    Ok((first.trim(), &entry[first.len() + 1..]))
}

fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut is_quoted) = (Vec::new(), 0, 0usize, false);
    for (at, c) in text.char_indices() {
        match c {
            '\'' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => depth = depth.saturating_sub(1),
            _ if c == separator && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cassette_rows::types::UserType;

    use super::super::Formats;
    use super::*;

    fn formats() -> ParseFormats {
        ParseFormats {
            null: String::new(),
            timestamp: TimestampFormat::default(),
            decimal_separator: None,
            thousands_separator: None,
            booleans: ("True".to_owned(), "False".to_owned()),
        }
    }

    fn list(element: DataType) -> DataType {
        DataType::List { element: element.into(), frozen: true }
    }

    #[test]
    fn shown_values_are_parsed_to_what_they_were() {
        let fields = vec![("a".to_owned(), DataType::Int), ("b".to_owned(), DataType::Text)];
        let definition = Arc::new(UserType::new("k".to_owned(), "u".to_owned(), fields));
        let udt = DataType::Udt { definition, frozen: true };
        let map =
            DataType::Map { key: DataType::Text.into(), value: list(DataType::Int).into(), frozen: true };
        let vector = DataType::Vector { element: DataType::Float.into(), dimension: 2 };
        for (data_type, text) in [
            (DataType::Int, "-7"),
            (DataType::Boolean, "True"),
            (DataType::Blob, "0xcafe"),
            (DataType::Timestamp, "2023-11-14 22:13:20.123000+0000"),
            (DataType::Duration, "1y2mo3d4h"),
            (DataType::Inet, "10.0.0.1"),
            (DataType::Decimal, "1.50"),
            (list(DataType::Text), "['it''s', 'a,b', '[']"),
            (map, "{'a:b': [1, 2], 'c': []}"),
            (udt, "{a: 1, b: 'x'}"),
            (DataType::Tuple(vec![DataType::Int, DataType::Text].into()), "(1, 'x')"),
            (vector, "[1, 2.5]"),
            (list(DataType::Inet), "['10.0.0.1']"),
        ] {
            let bytes = formats().parse(&data_type, text).unwrap().unwrap();
            assert_eq!(Formats::default().show(&data_type, Some(&bytes), false).text, text, "{data_type}");
        }
    }

    #[test]
    fn null_has_its_text_also_within_values() {
        assert_eq!(formats().parse(&DataType::Text, ""), Ok(None));
        let marked = ParseFormats { null: "NULL".to_owned(), ..formats() };
        assert_eq!(marked.parse(&DataType::Text, ""), Ok(Some(Vec::new())));
        assert_eq!(marked.parse(&DataType::Int, ""), Ok(None));
        let tuple = DataType::Tuple(vec![DataType::Int, DataType::Int].into());
        let bytes = formats().parse(&tuple, "(1, )").unwrap().unwrap();
        assert_eq!(Formats::default().show(&tuple, Some(&bytes), false).text, "(1, null)");
    }

    #[test]
    fn what_is_no_value_is_an_error() {
        for (data_type, text) in [
            (DataType::Int, "x"),
            (DataType::Boolean, "maybe"),
            (DataType::Blob, "0xz"),
            (list(DataType::Int), "1, 2"),
            (list(DataType::Int), "[1, ]"),
            (list(DataType::Int), "[1"),
            (DataType::Timestamp, "yesterday"),
        ] {
            assert!(formats().parse(&data_type, text).is_err(), "{data_type} {text}");
        }
    }

    #[test]
    fn separators_are_removed_from_numbers() {
        let formats = ParseFormats {
            thousands_separator: Some('.'),
            decimal_separator: Some(','),
            booleans: ("yes".to_owned(), "no".to_owned()),
            ..formats()
        };
        let parse = |data_type, text| formats.parse(&data_type, text).unwrap().unwrap();
        assert_eq!(parse(DataType::Double, "1.234,5"), 1234.5f64.to_be_bytes());
        assert_eq!(parse(DataType::Int, "1.234"), 1234i32.to_be_bytes());
        assert_eq!(parse(DataType::Boolean, "YES"), [1]);
    }
}
