//! Types as written; the catalog checks whether user types and custom classes exist.

use std::fmt;

pub use crate::native_type::NativeType;

use super::identifiers::{QualifiedName, TypeName, quote_string};

/// A type in a statement.
///
/// [`Display`](fmt::Display) writes it in CQL's canonical spelling, which parses to an equal value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CqlType {
    /// A native type: `int`, `text`, ...
    Native(NativeType),
    /// `list<element>`
    List(Box<CqlType>),
    /// `set<element>`
    Set(Box<CqlType>),
    /// `map<key, value>`
    Map(Box<CqlType>, Box<CqlType>),
    /// `tuple<a, b, ...>`; never empty.
    Tuple(Vec<CqlType>),
    /// `vector<element, dimension>`; a dimension below 1 parses, and the catalog rejects it.
    Vector(Box<CqlType>, i32),
    /// `frozen<type>`, as written: also around types that are always frozen.
    Frozen(Box<CqlType>),
    /// A user-defined type, by name.
    UserType(QualifiedName),
    /// A custom type: the class name that was written as a string.
    Custom(Box<str>),
}

impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CqlType::Native(native) => write!(f, "{native}"),
            CqlType::List(element) => write!(f, "list<{element}>"),
            CqlType::Set(element) => write!(f, "set<{element}>"),
            CqlType::Map(key, value) => write!(f, "map<{key}, {value}>"),
            CqlType::Tuple(elements) => {
                f.write_str("tuple<")?;
                for (i, element) in elements.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{element}")?;
                }
                f.write_str(">")
            }
            CqlType::Vector(element, dimension) => write!(f, "vector<{element}, {dimension}>"),
            CqlType::Frozen(inner) => write!(f, "frozen<{inner}>"),
            CqlType::UserType(name) => write!(f, "{}", TypeName(name)),
            CqlType::Custom(class) => f.write_str(&quote_string(class)),
        }
    }
}
