//! The CQL types whose values can be generated, and their encodings.

/// A type, as far as it determines the encoding of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are CQL's type names")]
pub enum ValueType {
    Text,
    Blob,
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
    Timestamp,
    Uuid,
    List(Box<ValueType>),
    Set(Box<ValueType>),
    Map(Box<ValueType>, Box<ValueType>),
}

/// Maximum nesting of types.
const NESTING_MAX: usize = 8;

impl ValueType {
    /// Parses a CQL type; `frozen<…>` does not affect a value.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_nested(text, NESTING_MAX)
    }

    fn parse_nested(text: &str, nesting_left: usize) -> Result<Self, String> {
        let text = text.trim();
        let Some(left) = nesting_left.checked_sub(1) else {
            return Err(format!("type {text:?} nests too deeply"));
        };
        let lower = text.to_ascii_lowercase();
        if let Some((outer, inner)) = lower.split_once('<') {
            let Some(inner) = inner.trim_end().strip_suffix('>') else {
                return Err(format!("type {text:?} lacks a '>'"));
            };
            let boxed = |text: &str| Self::parse_nested(text, left).map(Box::new);
            return match outer.trim() {
                "frozen" => Self::parse_nested(inner, left),
                "list" => Ok(Self::List(boxed(inner)?)),
                "set" => Ok(Self::Set(boxed(inner)?)),
                "map" => {
                    let (key, value) = split_pair(inner)
                        .ok_or_else(|| format!("type {text:?} needs the types of a key and a value"))?;
                    Ok(Self::Map(boxed(key)?, boxed(value)?))
                }
                _ => Err(format!("cannot generate values of type {text:?}")),
            };
        }
        Ok(match lower.as_str() {
            "text" | "varchar" | "ascii" => Self::Text,
            "blob" => Self::Blob,
            "boolean" => Self::Boolean,
            "tinyint" => Self::TinyInt,
            "smallint" => Self::SmallInt,
            "int" => Self::Int,
            "bigint" => Self::BigInt,
            "float" => Self::Float,
            "double" => Self::Double,
            "timestamp" => Self::Timestamp,
            "uuid" => Self::Uuid,
            _ => return Err(format!("cannot generate values of type {text:?}")),
        })
    }
}

/// Splits `a<b, c>, d` at the comma outside brackets.
fn split_pair(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0u32;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_parsed_as_cql_writes_them() {
        use ValueType::{Int, List, Map, Text};
        let parsed = |text| ValueType::parse(text).unwrap();
        assert_eq!(parsed("Varchar"), Text);
        assert_eq!(
            parsed("map<text, frozen<list<int>>>"),
            Map(Box::new(Text), Box::new(List(Box::new(Int))))
        );
        assert_eq!(
            parsed("map<frozen<map<text,int>>, text>"),
            Map(Box::new(Map(Box::new(Text), Box::new(Int))), Box::new(Text))
        );
        for wrong in ["", "txt", "list<text", "map<text>", "list<nosuch>", &"list<".repeat(1000)] {
            assert!(ValueType::parse(wrong).is_err(), "{wrong}");
        }
    }
}
