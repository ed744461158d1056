//! Terms: the values in a statement.

use std::fmt;

use super::identifiers::{FunctionName, Identifier, QualifiedName, quote_string};
use super::types::{CqlType, NativeType};

/// A value, or an expression that computes one.
///
/// [`Display`](fmt::Display) writes a term that parses to an equal one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// `null`
    Null,
    Literal(Literal),
    /// `?` or `:name`
    BindMarker(BindMarker),
    /// `[a, b]`: a list, or a vector.
    List(Vec<Term>),
    /// `{a, b}`: a set. `{}` also represents the empty map.
    Set(Vec<Term>),
    /// `{k: v}`; never empty.
    Map(Vec<(Term, Term)>),
    /// `{field: v}`: a user-defined type's value; never empty.
    UserType(Vec<(Identifier, Term)>),
    /// `(a, b)`: a tuple; with one element also that element in parentheses. Never empty.
    Tuple(Vec<Term>),
    /// `name(arguments)`
    Function(FunctionCall),
    /// `(type) term`
    TypeHint(CqlType, Box<Term>),
    /// `CAST(term AS type)`
    Cast(Box<Term>, NativeType),
    /// `left op right`
    Arithmetic(Box<Term>, ArithmeticOperator, Box<Term>),
    /// `-term`, except for number literals, which contain their sign.
    Negated(Box<Term>),
}

/// A call of a native or user-defined function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCall {
    /// The function, with its keyspace if written.
    pub name: QualifiedName,
    pub arguments: Vec<Term>,
}

/// A constant, as text: its bytes depend on the type of its target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Literal {
    /// The form in which it was written.
    pub kind: LiteralKind,
    /// Strings: the content, unquoted. All others: the text as written, sign included; not-a-number
    /// and the infinities as `NaN`, `-NaN`, `Infinity`, `-Infinity`.
    pub text: Box<str>,
}

/// The lexical kind of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiteralKind {
    /// `'text'` or `$$text$$`
    String,
    /// `-12`
    Integer,
    /// `1.5e3`, `NaN`, `-Infinity`
    Float,
    /// `true`, in whatever case
    Boolean,
    /// `1h30m`, `P1Y2M3D`, `P0001-02-03T04:05:06`, ...
    Duration,
    /// `123e4567-e89b-12d3-a456-426614174000`
    Uuid,
    /// `0xCAFE`; the text starts with `0x` or `0X`
    Hex,
}

impl Literal {
    pub fn new(kind: LiteralKind, text: impl Into<Box<str>>) -> Literal {
        Literal { kind, text: text.into() }
    }
}

/// A placeholder for a bound value. The statement's list of markers contains its name at `index`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMarker {
    /// Position among the statement's markers, counted from 0 in order of appearance. Every `:name`
    /// counts, also a repeated one.
    pub index: u32,
    /// The name after the colon; `None` for `?`.
    pub name: Option<Identifier>,
}

/// `+ - * / %`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

impl ArithmeticOperator {
    /// The operator's sign.
    pub fn symbol(self) -> char {
        match self {
            ArithmeticOperator::Add => '+',
            ArithmeticOperator::Subtract => '-',
            ArithmeticOperator::Multiply => '*',
            ArithmeticOperator::Divide => '/',
            ArithmeticOperator::Modulo => '%',
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Null => f.write_str("NULL"),
            Term::Literal(literal) => write!(f, "{literal}"),
            Term::BindMarker(marker) => write!(f, "{marker}"),
            Term::List(elements) => write!(f, "[{}]", Separated(elements)),
            Term::Set(elements) => write!(f, "{{{}}}", Separated(elements)),
            Term::Map(entries) => {
                f.write_str("{")?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
            Term::UserType(fields) => {
                f.write_str("{")?;
                for (i, (field, value)) in fields.iter().enumerate() {
                    write!(f, "{}{field}: {value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
            Term::Tuple(elements) => write!(f, "({})", Separated(elements)),
            Term::Function(call) => {
                let name = FunctionName(&call.name);
                write!(f, "{name}({})", Separated(&call.arguments))
            }
            Term::TypeHint(hint, term) => write!(f, "({hint}){term}"),
            Term::Cast(term, native) => write!(f, "CAST({term} AS {native})"),
            Term::Arithmetic(left, operator, right) => write!(f, "{left} {} {right}", operator.symbol()),
            Term::Negated(term) => write!(f, "- {term}"),
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            LiteralKind::String => f.write_str(&quote_string(&self.text)),
            _ => f.write_str(&self.text),
        }
    }
}

impl fmt::Display for BindMarker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, ":{name}"),
            None => f.write_str("?"),
        }
    }
}

/// Items with `, ` between them.
pub(crate) struct Separated<'a, T>(pub &'a [T]);

impl<T: fmt::Display> fmt::Display for Separated<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{item}")?;
        }
        Ok(())
    }
}
