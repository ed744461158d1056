//! Types and terms as Cassandra's messages show them, which is not always as they are written.

use std::fmt::{self, Display, Formatter};

use super::identifiers::FunctionName;
use super::terms::{ArithmeticOperator, LiteralKind, Term};
use super::types::CqlType;

/// A type in a message: within a frozen collection and within a tuple, everything that can be
/// frozen is shown as frozen. Tuples and vectors are always frozen, and not shown as such.
#[derive(Debug, Clone, Copy)]
pub struct ShownType<'a> {
    data_type: &'a CqlType,
    is_frozen: bool,
    keyspace: Option<&'a str>,
}

/// A term in a message: strings without escapes, markers without names, operators as calls.
#[derive(Debug, Clone, Copy)]
pub struct ShownTerm<'a> {
    term: &'a Term,
    keyspace: Option<&'a str>,
}

impl CqlType {
    /// Returns the type for a message. User-defined types have `keyspace` before their name where
    /// Cassandra has resolved them before.
    pub fn shown<'a>(&'a self, keyspace: Option<&'a str>) -> ShownType<'a> {
        ShownType { data_type: self, is_frozen: false, keyspace }
    }

    /// [`shown`](Self::shown) for a part of a frozen type.
    pub fn shown_as_frozen(&self) -> ShownType<'_> {
        ShownType { data_type: self, is_frozen: true, keyspace: None }
    }
}

impl Term {
    /// Returns the term for a message; `keyspace` as for [types](CqlType::shown).
    pub fn shown<'a>(&'a self, keyspace: Option<&'a str>) -> ShownTerm<'a> {
        ShownTerm { term: self, keyspace }
    }
}

impl<'a> ShownType<'a> {
    fn part(self, data_type: &'a CqlType, is_frozen: bool) -> Self {
        Self { data_type, is_frozen, ..self }
    }

    /// Returns a part that is frozen if the whole is.
    fn inside(self, data_type: &'a CqlType) -> Self {
        Self { data_type, ..self }
    }
}

impl Display for ShownType<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.is_frozen { ("frozen<", ">") } else { ("", "") };
        match self.data_type {
            CqlType::Frozen(inner) => self.part(inner, true).fmt(f),
            CqlType::List(element) => write!(f, "{open}list<{}>{close}", self.inside(element)),
            CqlType::Set(element) => write!(f, "{open}set<{}>{close}", self.inside(element)),
            CqlType::Map(key, value) => {
                write!(f, "{open}map<{}, {}>{close}", self.inside(key), self.inside(value))
            }
            CqlType::UserType(name) => {
                f.write_str(open)?;
                if let Some(keyspace) = name.keyspace.as_deref().or(self.keyspace) {
                    write!(f, "{keyspace}.")?;
                }
                write!(f, "{}{close}", name.name.as_str())
            }
            CqlType::Tuple(items) => {
                f.write_str("tuple<")?;
                separated(f, items.iter().map(|item| self.part(item, true)))?;
                f.write_str(">")
            }
            CqlType::Vector(element, dimension) => {
                write!(f, "vector<{}, {dimension}>", self.part(element, false))
            }
            CqlType::Native(_) | CqlType::Custom(_) => self.data_type.fmt(f),
        }
    }
}

impl<'a> ShownTerm<'a> {
    fn part(self, term: &'a Term) -> Self {
        Self { term, ..self }
    }

    fn all(self, f: &mut Formatter<'_>, open: &str, terms: &'a [Term], close: &str) -> fmt::Result {
        f.write_str(open)?;
        separated(f, terms.iter().map(|term| self.part(term)))?;
        f.write_str(close)
    }
}

impl Display for ShownTerm<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.term {
            Term::Null => f.write_str("NULL"),
            Term::Literal(literal) if literal.kind == LiteralKind::String => write!(f, "'{}'", literal.text),
            Term::Literal(literal) => f.write_str(&literal.text),
            Term::BindMarker(_) => f.write_str("?"),
            Term::List(elements) => self.all(f, "[", elements, "]"),
            Term::Set(elements) => self.all(f, "{", elements, "}"),
            Term::Map(entries) => {
                f.write_str("{")?;
                separated(f, entries.iter().map(|(key, value)| Entry(self.part(key), self.part(value))))?;
                f.write_str("}")
            }
            Term::UserType(fields) => {
                f.write_str("{")?;
                separated(f, fields.iter().map(|(field, value)| Entry(field.as_str(), self.part(value))))?;
                f.write_str("}")
            }
            Term::Tuple(elements) => self.all(f, "(", elements, ")"),
            Term::Function(call) => {
                write!(f, "{}", FunctionName(&call.name))?;
                self.all(f, "(", &call.arguments, ")")
            }
            Term::TypeHint(hint, term) => write!(f, "({}){}", hint.shown(self.keyspace), self.part(term)),
            Term::Cast(term, native) => write!(f, "system.cast_as_{native}({})", self.part(term)),
            Term::Arithmetic(left, operator, right) => {
                let function = function_of(*operator);
                write!(f, "system.\"{function}\"({}, {})", self.part(left), self.part(right))
            }
            Term::Negated(term) => write!(f, "system.\"_negate\"({})", self.part(term)),
        }
    }
}

/// An entry of a map or user-defined type.
struct Entry<K, V>(K, V);

impl<K: Display, V: Display> Display for Entry<K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

/// Writes the items with `, ` between them.
fn separated(f: &mut Formatter<'_>, items: impl Iterator<Item = impl Display>) -> fmt::Result {
    for (i, item) in items.enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

/// Returns the name of the function of an operator.
fn function_of(operator: ArithmeticOperator) -> &'static str {
    match operator {
        ArithmeticOperator::Add => "_add",
        ArithmeticOperator::Subtract => "_substract",
        ArithmeticOperator::Multiply => "_multiply",
        ArithmeticOperator::Divide => "_divide",
        ArithmeticOperator::Modulo => "_modulo",
    }
}

#[cfg(test)]
mod tests {
    use crate::parse_term;

    #[test]
    fn types_of_casts_are_frozen_inside_of_frozen_types_and_tuples() {
        for (written, shown) in [
            ("(list<int>)[1]", "(list<int>)[1]"),
            ("(frozen<list<list<int>>>)[]", "(frozen<list<frozen<list<int>>>>)[]"),
            ("(frozen<tuple<int, set<int>>>)(1, {2})", "(tuple<int, frozen<set<int>>>)(1, {2})"),
            ("(vector<list<int>, 1>)[[1]]", "(vector<list<int>, 1>)[[1]]"),
            ("(frozen<vector<int, 1>>)[1]", "(vector<int, 1>)[1]"),
            ("(frozen<map<int, p>>){1: {x: 'a'}}", "(frozen<map<int, frozen<ks.p>>>){1: {x: 'a'}}"),
            ("(ks.p){x: 1}", "(ks.p){x: 1}"),
        ] {
            assert_eq!(parse_term(written).unwrap().shown(Some("ks")).to_string(), shown);
        }
        assert_eq!(parse_term("(p){x: 1}").unwrap().shown(None).to_string(), "(p){x: 1}");
    }

    #[test]
    fn operators_are_shown_as_the_functions_that_they_call() {
        for (written, shown) in [
            ("1 + 2 * 3", "system.\"_add\"(1, system.\"_multiply\"(2, 3))"),
            ("-(int)'it''s'", "system.\"_negate\"((int)'it's')"),
            ("CAST(:name AS int)", "system.cast_as_int(?)"),
            ("f({1: null})", "f({1: NULL})"),
        ] {
            assert_eq!(parse_term(written).unwrap().shown(None).to_string(), shown);
        }
    }
}
