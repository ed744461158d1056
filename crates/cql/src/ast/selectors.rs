//! Selectors: the expressions between SELECT and FROM, and after GROUP BY.

use std::fmt;

use super::identifiers::{FunctionName, Identifier, QualifiedName};
use super::terms::{ArithmeticOperator, BindMarker, Literal, Separated, Term};
use super::types::{CqlType, NativeType};

/// An expression of the select clause and its alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    pub selector: Selector,
    /// The name after AS.
    pub alias: Option<Identifier>,
}

/// An expression over the columns of a row.
///
/// [`Display`](fmt::Display) writes a selector that parses back to an equal one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    Column(Identifier),
    Literal(Literal),
    /// `null`
    Null,
    /// `?` or `:name`
    BindMarker(BindMarker),
    /// `count(*)`. (`count(1)` is a [`Selector::Function`].)
    CountRows,
    /// `writetime(column)`, possibly of a field or element.
    WriteTime(Box<Selector>),
    /// `maxwritetime(column)`, possibly of a field or element.
    MaxWriteTime(Box<Selector>),
    /// `ttl(column)`, possibly of a field or element.
    Ttl(Box<Selector>),
    /// `CAST(selector AS type)`
    Cast(Box<Selector>, NativeType),
    /// `name(arguments)`, also `token(...)` and aggregates.
    Function(QualifiedName, Vec<Selector>),
    /// `of.field`
    Field(Box<Selector>, Identifier),
    /// `of[key]`
    Element(Box<Selector>, Term),
    /// `of[from..to]`; at least one end is present.
    Slice(Box<Selector>, Option<Term>, Option<Term>),
    /// `(type) selector`
    TypeHint(CqlType, Box<Selector>),
    /// `(a, b)`: a tuple; with one element also that element in parentheses. Never empty.
    Tuple(Vec<Selector>),
    /// `[a, b]`: a list, or a vector.
    List(Vec<Selector>),
    /// `{a, b}`: a set. `{}` also represents the empty map.
    Set(Vec<Selector>),
    /// `{k: v}`: a map, or a user-defined type whose fields look like columns. Never empty.
    MapOrUserType(Vec<(Selector, Selector)>),
    /// `left op right`
    Arithmetic(Box<Selector>, ArithmeticOperator, Box<Selector>),
    /// `-selector`, except for number literals, which contain their sign.
    Negated(Box<Selector>),
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.alias {
            Some(alias) => write!(f, "{} AS {alias}", self.selector),
            None => write!(f, "{}", self.selector),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Column(name) => write!(f, "{name}"),
            Selector::Literal(literal) => write!(f, "{literal}"),
            Selector::Null => f.write_str("null"),
            Selector::BindMarker(marker) => write!(f, "{marker}"),
            Selector::CountRows => f.write_str("count(*)"),
            Selector::WriteTime(of) => write!(f, "writetime({of})"),
            Selector::MaxWriteTime(of) => write!(f, "maxwritetime({of})"),
            Selector::Ttl(of) => write!(f, "ttl({of})"),
            Selector::Cast(of, native) => write!(f, "cast({of} as {native})"),
            Selector::Function(name, arguments) => {
                write!(f, "{}({})", FunctionName(name), Separated(arguments))
            }
            // `1.a` would start with a float.
            Selector::Field(of, field) => match **of {
                Selector::Literal(_) => write!(f, "{of} .{field}"),
                _ => write!(f, "{of}.{field}"),
            },
            Selector::Element(of, key) => write!(f, "{of}[{key}]"),
            Selector::Slice(of, from, to) => {
                write!(f, "{of}[")?;
                if let Some(from) = from {
                    write!(f, "{from}")?;
                }
                f.write_str("..")?;
                if let Some(to) = to {
                    write!(f, "{to}")?;
                }
                f.write_str("]")
            }
            Selector::TypeHint(hint, of) => write!(f, "({hint}) {of}"),
            Selector::Tuple(elements) => write!(f, "({})", Separated(elements)),
            Selector::List(elements) => write!(f, "[{}]", Separated(elements)),
            Selector::Set(elements) => write!(f, "{{{}}}", Separated(elements)),
            Selector::MapOrUserType(entries) => {
                f.write_str("{")?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
            Selector::Arithmetic(left, operator, right) => write!(f, "{left} {} {right}", operator.symbol()),
            Selector::Negated(of) => write!(f, "- {of}"),
        }
    }
}
