//! JSON as written: numbers keep their digits, objects their order.

use std::fmt::{self, Display, Formatter};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::values::number::{double_to_text, parse_varint};

/// The maximum nesting of arrays and objects: deeper than types can nest.
const NESTING_MAX: usize = 128;

/// A JSON value. [`Display`] writes it as Java does, because messages contain it.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the variants are JSON's")]
pub enum Json {
    Null,
    Boolean(bool),
    Number(String),
    String(String),
    Array(Vec<Json>),
    /// Entries in the order written; of equal names, the last wins.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses the first JSON value of `text`. As in Cassandra, anything can follow it, but a number
    /// needs a space after it.
    pub fn parse(text: &str) -> Result<Self, String> {
        check_nesting(text)?;
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        match values.next() {
            Some(Ok(raw)) => match (Self::from_raw(raw)?, text.get(values.byte_offset()..)) {
                (Self::Number(_), Some(rest))
                    if !rest.is_empty() && !rest.starts_with([' ', '\t', '\r', '\n']) =>
                {
                    let next = rest.chars().next().unwrap_or_default();
                    let code = u32::from(next);
                    Err(format!(
                        "Unexpected character ('{next}' (code {code})): Expected space separating root-level values"
                    ))
                }
                (value, _) => Ok(value),
            },
            Some(Err(error)) => Err(error.to_string()),
            None => Err("No content to map due to end-of-input".to_owned()),
        }
    }

    /// Parses a value whose nesting has been checked: each level parses its whole content.
    fn from_raw(raw: &RawValue) -> Result<Self, String> {
        let text = raw.get();
        let read = |error: serde_json::Error| error.to_string();
        Ok(match text.as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b't') => Self::Boolean(true),
            Some(b'f') => Self::Boolean(false),
            Some(b'"') => Self::String(serde_json::from_str(text).map_err(read)?),
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).map_err(read)?;
                Self::Array(items.into_iter().map(Self::from_raw).collect::<Result<_, _>>()?)
            }
            Some(b'{') => {
                let Entries(entries) = serde_json::from_str(text).map_err(read)?;
                let entries = entries.into_iter();
                Self::Object(entries.map(|(name, item)| Ok((name, Self::from_raw(item)?))).collect::<Result<
                    _,
                    String,
                >>(
                )?)
            }
            _ => Self::Number(text.to_owned()),
        })
    }

    /// Returns Java's class name of such a value.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "Boolean",
            Self::Number(text) if is_fractional(text) => "Double",
            Self::Number(text) if text.parse::<i32>().is_ok() => "Integer",
            Self::Number(text) if text.parse::<i64>().is_ok() => "Long",
            Self::Number(_) => "BigInteger",
            Self::String(_) => "String",
            Self::Array(_) => "ArrayList",
            Self::Object(_) => "LinkedHashMap",
        }
    }
}

/// Rejects a text whose first value nests too deep, without reading the rest of it. Invalid JSON
/// can pass.
fn check_nesting(text: &str) -> Result<(), String> {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
        // The innermost array or object can be empty, so it counts as one value.
        if depth > NESTING_MAX + 1 {
            return Err(format!("nested more than {NESTING_MAX} deep"));
        }
    }
    Ok(())
}

/// Returns whether Cassandra parses the number as a double.
pub(super) fn is_fractional(number: &str) -> bool {
    number.contains(['.', 'e', 'E'])
}

impl Display for Json {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Number(text) if is_fractional(text) => {
                f.write_str(&double_to_text(text.parse().unwrap_or(f64::NAN)))
            }
            Self::Number(text) => match parse_varint(text) {
                Some(value) => write!(f, "{value}"),
                None => f.write_str(text),
            },
            Self::String(text) => f.write_str(text),
            Self::Array(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Object(entries) => {
                f.write_str("{")?;
                for (i, (name, item)) in entries.iter().enumerate() {
                    write!(f, "{}{name}={item}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

/// The entries of an object, not parsed.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_may_follow_the_first_value_but_a_number_needs_a_space_behind_it() {
        for text in ["1 2", "1 x", "1\n}", " 1 ", "\"a\"b", "[1]]", "{\"a\": 1}}", "true false", "{} // c"] {
            assert!(Json::parse(text).is_ok(), "{text}");
        }
        for text in ["1}", "1,", "-2]", "1.5:", "1\"a\"", "1x", "nullx", "", " "] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
        let error = Json::parse("1}").unwrap_err();
        assert_eq!(
            error,
            "Unexpected character ('}' (code 125)): Expected space separating root-level values"
        );
    }

    #[test]
    fn deep_nesting_is_refused_after_one_look_at_the_text() {
        let nested = |depth: usize, inner: &str| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(&nested(NESTING_MAX, "1")).is_ok());
        assert!(Json::parse(&nested(NESTING_MAX, "\"[[[ \\\" [[\"")).is_ok());
        for inner in ["[[1]]".to_owned(), "[".repeat(20_000_000)] {
            let error = Json::parse(&nested(NESTING_MAX, &inner)).unwrap_err();
            assert_eq!(error, "nested more than 128 deep");
        }
        let objects = format!("{}1{}", "{\"a\": ".repeat(200), "}".repeat(200));
        assert_eq!(Json::parse(&objects).unwrap_err(), "nested more than 128 deep");
    }
}
