//! Constants of the language: the types that accept them, and their bytes.

use cassette_rows::types::DataType;

use super::accepted::accepts;
use super::class_text::from_class_text;
use super::number::{double_to_text, parse_varint};
use super::text::{decode_hex, from_text};
use super::{ValueError, decimal};
use crate::ast::{Literal, LiteralKind};

/// How well a term fits a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignment {
    /// It has that type.
    Exact,
    /// It can be converted to that type.
    Weak,
    /// It cannot be converted.
    No,
}

impl Assignment {
    /// Returns whether the term is valid for the type.
    pub fn is_assignable(self) -> bool {
        self != Self::No
    }

    /// Combines several terms: exact if all are, none if one does not fit.
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::Exact, |all, part| match (all, part) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Exact, Self::Exact) => Self::Exact,
            _ => Self::Weak,
        })
    }

    /// Returns how well a value of type `given` fits type `wanted`, which need not be frozen for a
    /// frozen value.
    pub fn of_type(given: &DataType, wanted: &DataType) -> Self {
        if is_frozen(given) { Self::of_cast(given, &wanted.freeze()) } else { Self::of_cast(given, wanted) }
    }

    /// Returns how well a function's result of type `given` fits type `wanted`: one that is stored
    /// as one value fits a frozen type in any case.
    pub fn of_result(given: &DataType, wanted: &DataType) -> Self {
        if is_frozen(wanted) { Self::of_cast(&given.freeze(), wanted) } else { Self::of_cast(given, wanted) }
    }

    /// Returns how well a term with a type hint `given` fits type `wanted`. Neither or both are
    /// frozen, otherwise it does not fit.
    pub fn of_cast(given: &DataType, wanted: &DataType) -> Self {
        if given == wanted {
            Self::Exact
        } else if accepts(wanted, given) {
            Self::Weak
        } else {
            Self::No
        }
    }

    /// Returns how well a constant fits type `wanted`.
    pub fn of_literal(literal: &Literal, wanted: &DataType) -> Self {
        use DataType::*;
        let fits = match wanted {
            List { .. } | Set { .. } | Map { .. } | Udt { .. } | Vector { .. } => false,
            // They are not native types: any constant is accepted, and parsed as the text of one.
            Tuple(_) | Custom(_) => true,
            _ if preferred_type(literal).as_ref() == Some(wanted) => return Self::Exact,
            _ => match literal.kind {
                LiteralKind::String => matches!(wanted, Ascii | Text | Inet | Date | Time | Timestamp),
                LiteralKind::Integer => matches!(
                    wanted,
                    BigInt
                        | Counter
                        | Date
                        | Decimal
                        | Double
                        | Duration
                        | Float
                        | Int
                        | SmallInt
                        | Time
                        | Timestamp
                        | TinyInt
                        | VarInt
                ),
                LiteralKind::Uuid => matches!(wanted, Uuid | TimeUuid),
                LiteralKind::Float => matches!(wanted, Decimal | Double | Float),
                LiteralKind::Boolean => matches!(wanted, Boolean),
                LiteralKind::Hex => matches!(wanted, Blob),
                LiteralKind::Duration => matches!(wanted, Duration),
            },
        };
        if fits { Self::Weak } else { Self::No }
    }
}

/// Whether the type is a collection or user-defined type that is stored as one value.
fn is_frozen(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, List { .. } | Set { .. } | Map { .. } | Udt { .. }) && !data_type.is_multi_cell()
}

/// Returns the type of a constant without context: the smallest of `int`, `bigint` and `varint`,
/// `double` if it is exact, `ascii` if possible. Hexadecimal constants count as `tinyint`, which
/// they then do not fit, as in Cassandra.
pub fn preferred_type(literal: &Literal) -> Option<DataType> {
    let text = &*literal.text;
    Some(match literal.kind {
        LiteralKind::String if text.is_ascii() => DataType::Ascii,
        LiteralKind::String => DataType::Text,
        LiteralKind::Integer => {
            let value = parse_varint(text)?;
            if i32::try_from(&value).is_ok() {
                DataType::Int
            } else if i64::try_from(&value).is_ok() {
                DataType::BigInt
            } else {
                DataType::VarInt
            }
        }
        LiteralKind::Float if matches!(text, "NaN" | "-NaN" | "Infinity" | "-Infinity") => DataType::Double,
        LiteralKind::Float => {
            let exact = decimal::Decimal::parse(text)?;
            let double = decimal::Decimal::parse(&double_to_text(exact.to_double()));
            if double.is_some_and(|double| decimal::compare(&double, &exact).is_eq()) {
                DataType::Double
            } else {
                DataType::Decimal
            }
        }
        LiteralKind::Boolean => DataType::Boolean,
        LiteralKind::Duration => DataType::Duration,
        LiteralKind::Uuid if text.as_bytes().get(14) == Some(&b'1') => DataType::TimeUuid,
        LiteralKind::Uuid => DataType::Uuid,
        LiteralKind::Hex => DataType::TinyInt,
    })
}

/// Returns the name of the constant's kind in messages.
pub fn kind_name(kind: LiteralKind) -> &'static str {
    match kind {
        LiteralKind::String => "STRING",
        LiteralKind::Integer => "INTEGER",
        LiteralKind::Float => "FLOAT",
        LiteralKind::Boolean => "BOOLEAN",
        LiteralKind::Duration => "DURATION",
        LiteralKind::Uuid => "UUID",
        LiteralKind::Hex => "HEX",
    }
}

/// Returns the bytes of a constant as a value of type `wanted`, to which it must be assignable.
pub fn literal_bytes(literal: &Literal, wanted: &DataType) -> Result<Vec<u8>, ValueError> {
    match literal.kind {
        LiteralKind::Hex => {
            let digits = literal.text.get(2..).unwrap_or_default();
            let bytes = decode_hex(digits)
                .ok_or_else(|| ValueError::invalid(format!("cannot parse '{digits}' as hex bytes")))?;
            if matches!(wanted, DataType::Custom(_)) {
                wanted.validate(&bytes)?;
            }
            Ok(bytes)
        }
        _ if matches!(wanted, DataType::Tuple(_)) => from_class_text(wanted, &literal.text),
        _ => from_text(wanted, &literal.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(kind: LiteralKind, text: &str) -> Literal {
        Literal::new(kind, text)
    }

    #[test]
    fn constants_are_of_the_smallest_type_that_holds_them() {
        use LiteralKind::*;
        for (kind, text, preferred) in [
            (String, "a", DataType::Ascii),
            (String, "é", DataType::Text),
            (Integer, "-2147483648", DataType::Int),
            (Integer, "2147483648", DataType::BigInt),
            (Integer, "9223372036854775808", DataType::VarInt),
            (Float, "1.5", DataType::Double),
            (Float, "-Infinity", DataType::Double),
            (Float, "0.12345678901234567890", DataType::Decimal),
            (Uuid, "d2177dd0-eaa2-11de-a572-001b779c76e3", DataType::TimeUuid),
            (Uuid, "550e8400-e29b-41d4-a716-446655440000", DataType::Uuid),
        ] {
            assert_eq!(preferred_type(&literal(kind, text)), Some(preferred), "{text}");
        }
    }

    #[test]
    fn constants_fit_the_types_that_can_read_them() {
        use Assignment::*;
        let integer = literal(LiteralKind::Integer, "5");
        for (wanted, fit) in [
            (DataType::Int, Exact),
            (DataType::BigInt, Weak),
            (DataType::Timestamp, Weak),
            (DataType::Text, No),
            (DataType::list(DataType::Int), No),
        ] {
            assert_eq!(Assignment::of_literal(&integer, &wanted), fit, "{wanted}");
        }
        let hex = literal(LiteralKind::Hex, "0xCafe");
        assert_eq!(Assignment::of_literal(&hex, &DataType::Blob), Weak);
        assert_eq!(literal_bytes(&hex, &DataType::Blob), Ok(vec![0xca, 0xfe]));
    }
}
