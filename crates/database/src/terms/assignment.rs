//! Whether a term can stand for a value of a type, and how exactly it fits.

use cassette_cql::ast::{self, Literal, LiteralKind};
use cassette_rows::DataType;

use crate::catalog::{TypeUse, resolve_type};
use crate::functions::ScalarFunction;
use crate::plan::PlanContext;

/// How a term fits a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assignable {
    /// It is of that type.
    Exactly,
    /// It can be taken for a value of that type.
    Weakly,
    /// It cannot.
    No,
}

impl Assignable {
    /// Whether it can stand for a value of the type.
    pub fn is_assignable(self) -> bool {
        self != Self::No
    }

    /// All exact is exact, one misfit is none.
    fn all(fits: impl Iterator<Item = Self>) -> Self {
        fits.fold(Self::Exactly, |all, fit| match (all, fit) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Exactly, Self::Exactly) => Self::Exactly,
            _ => Self::Weakly,
        })
    }
}

/// How `raw` fits a value of type `wanted`, in a statement on `keyspace`.
pub(crate) fn test_assignment(
    raw: &ast::Term,
    wanted: &DataType,
    keyspace: &str,
    cx: &PlanContext<'_>,
) -> Assignable {
    let test = |raw: &ast::Term, wanted: &DataType| test_assignment(raw, wanted, keyspace, cx);
    match raw {
        ast::Term::Null => match wanted {
            DataType::Counter => Assignable::No,
            _ => Assignable::Weakly,
        },
        ast::Term::Literal(literal) => test_literal(literal, wanted),
        ast::Term::BindMarker(_) => Assignable::Weakly,
        ast::Term::List(elements) => match wanted {
            DataType::List { .. } if elements.is_empty() => Assignable::Weakly,
            DataType::List { element, .. } => Assignable::all(elements.iter().map(|raw| test(raw, element))),
            DataType::Vector { element, dimension } if elements.len() == *dimension as usize => {
                Assignable::all(elements.iter().map(|raw| test(raw, element)))
            }
            _ => Assignable::No,
        },
        ast::Term::Set(elements) => match wanted {
            DataType::Set { .. } | DataType::Map { .. } if elements.is_empty() => Assignable::Weakly,
            DataType::Set { element, .. } => Assignable::all(elements.iter().map(|raw| test(raw, element))),
            _ => Assignable::No,
        },
        ast::Term::Map(entries) => match wanted {
            DataType::Map { key, value, .. } => {
                Assignable::all(entries.iter().flat_map(|(k, v)| [test(k, key), test(v, value)]))
            }
            _ => Assignable::No,
        },
        ast::Term::UserType(fields) => match wanted {
            DataType::Udt { definition, .. } => {
                let fit = |(name, raw): &(ast::Identifier, ast::Term)| {
                    definition.field(name).is_none_or(|(_, field)| test(raw, field).is_assignable())
                };
                if fields.iter().all(fit) { Assignable::Weakly } else { Assignable::No }
            }
            _ => Assignable::No,
        },
        ast::Term::Tuple(elements) => match (wanted, &elements[..]) {
            (DataType::Tuple(items), _) => {
                let fits = elements.len() <= items.len()
                    && elements.iter().zip(items.iter()).all(|(raw, item)| test(raw, item).is_assignable());
                if fits { Assignable::Weakly } else { Assignable::No }
            }
            (_, [only]) => test(only, wanted),
            _ => Assignable::No,
        },
        ast::Term::TypeHint(hint, _) => {
            let Some(keyspace) = cx.catalog.keyspace(keyspace) else { return Assignable::No };
            let scope = TypeUse { keyspace: &keyspace.name, types: &keyspace.types };
            match resolve_type(hint, scope) {
                Ok(hinted) => test_type(&hinted, wanted),
                Err(_) => Assignable::No,
            }
        }
        // An unknown function is assignable: preparing it says what is wrong.
        ast::Term::Function(call) => match ScalarFunction::by_name(&call.name.name) {
            Some(function) => test_type(&function.return_type(), wanted),
            None => Assignable::Weakly,
        },
        ast::Term::Cast(..) | ast::Term::Arithmetic(..) | ast::Term::Negated(_) => Assignable::Weakly,
    }
}

/// How a value of type `given` fits where one of type `wanted` is.
pub(crate) fn test_type(given: &DataType, wanted: &DataType) -> Assignable {
    if given == wanted {
        Assignable::Exactly
    } else if is_value_compatible(given, wanted) {
        Assignable::Weakly
    } else {
        Assignable::No
    }
}

/// Whether every value of `given` is one of `wanted`, whatever their order.
pub(crate) fn is_value_compatible(given: &DataType, wanted: &DataType) -> bool {
    given.freeze() == wanted.freeze()
        || matches!(
            (given, wanted),
            (_, DataType::Blob)
                | (DataType::Ascii, DataType::Text)
                | (DataType::TimeUuid, DataType::Uuid)
                | (DataType::Timestamp | DataType::Counter, DataType::BigInt)
                | (DataType::BigInt, DataType::Timestamp)
                | (DataType::Int | DataType::BigInt | DataType::Timestamp, DataType::VarInt)
        )
}

fn test_literal(literal: &Literal, wanted: &DataType) -> Assignable {
    use DataType::*;
    let fits = match literal.kind {
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
    };
    // Tuples are no native type: Cassandra lets any literal pass and then fails to read it.
    match fits {
        true if preferred_type(literal).as_ref() == Some(wanted) => Assignable::Exactly,
        true => Assignable::Weakly,
        false => Assignable::No,
    }
}

/// The type that a literal is of when nothing else says it.
pub(crate) fn preferred_type(literal: &Literal) -> Option<DataType> {
    Some(match literal.kind {
        LiteralKind::String => DataType::Text,
        LiteralKind::Integer => match literal.text.parse::<i64>() {
            Ok(value) if i32::try_from(value).is_ok() => DataType::Int,
            Ok(_) => DataType::BigInt,
            Err(_) => DataType::VarInt,
        },
        LiteralKind::Float => DataType::Double,
        LiteralKind::Boolean => DataType::Boolean,
        LiteralKind::Duration => DataType::Duration,
        LiteralKind::Uuid => DataType::Uuid,
        LiteralKind::Hex => return None,
    })
}
