//! Relations of a WHERE clause, and conditions after IF.

use std::fmt;

use super::identifiers::Identifier;
use super::terms::{BindMarker, Term};

/// A conjunction of relations. Empty without WHERE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhereClause {
    /// The relations, in order; parentheses around single relations are dropped.
    pub relations: Vec<Relation>,
    /// `expr(index, term)` expressions, in order.
    pub expressions: Vec<CustomIndexExpression>,
}

/// `expr(index, term)`: a query in the language of a custom index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomIndexExpression {
    /// The index, in the table's keyspace.
    pub index: Identifier,
    /// The query.
    pub value: Term,
}

/// One relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `column op value`, for every operator except IN and IS NOT.
    Column {
        column: Identifier,
        /// The operator; never [`Operator::In`] or [`Operator::IsNot`].
        operator: Operator,
        value: Term,
    },
    /// `column IN values`
    In { column: Identifier, values: InValues },
    /// `column IS NOT NULL`
    IsNotNull { column: Identifier },
    /// `column[key] op value`
    Element {
        /// The map (or list) column.
        column: Identifier,
        key: Term,
        /// One of `= < <= > >= !=`.
        operator: Operator,
        value: Term,
    },
    /// `(c1, c2) op (v1, v2)` or `(c1, c2) op ?`
    Tuple {
        /// The columns; one or more.
        columns: Vec<Identifier>,
        /// One of `= < <= > >= !=`.
        operator: Operator,
        value: TupleValue,
    },
    /// `(c1, c2) IN ((v1, v2), ...)`, `(c1, c2) IN (?, ?)` or `(c1, c2) IN ?`
    TupleIn {
        /// The columns; one or more.
        columns: Vec<Identifier>,
        values: TupleInValues,
    },
    /// `token(c1, c2) op value`
    Token {
        /// The columns; one or more.
        columns: Vec<Identifier>,
        /// One of `= < <= > >= !=`.
        operator: Operator,
        value: Term,
    },
}

impl Relation {
    /// Returns the columns that it restricts.
    pub fn columns(&self) -> &[Identifier] {
        match self {
            Self::Column { column, .. }
            | Self::In { column, .. }
            | Self::IsNotNull { column }
            | Self::Element { column, .. } => std::slice::from_ref(column),
            Self::Tuple { columns, .. } | Self::TupleIn { columns, .. } | Self::Token { columns, .. } => {
                columns
            }
        }
    }
}

/// Writes the relation so that it parses to the same one.
impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column { column, operator, value } => write!(f, "{column} {operator} {value}"),
            Self::In { column, values: InValues::List(values) } => write!(f, "{column} IN {}", List(values)),
            Self::In { column, values: InValues::BindMarker(marker) } => write!(f, "{column} IN {marker}"),
            Self::IsNotNull { column } => write!(f, "{column} IS NOT NULL"),
            Self::Element { column, key, operator, value } => write!(f, "{column}[{key}] {operator} {value}"),
            Self::Tuple { columns, operator, value: TupleValue::Literal(values) } => {
                write!(f, "{} {operator} {}", List(columns), List(values))
            }
            Self::Tuple { columns, operator, value: TupleValue::BindMarker(marker) } => {
                write!(f, "{} {operator} {marker}", List(columns))
            }
            Self::TupleIn { columns, values } => {
                write!(f, "{} IN ", List(columns))?;
                match values {
                    TupleInValues::Literals(tuples) => {
                        let tuples: Vec<_> = tuples.iter().map(|tuple| List(tuple)).collect();
                        write!(f, "{}", List(&tuples))
                    }
                    TupleInValues::BindMarkers(markers) => write!(f, "{}", List(markers)),
                    TupleInValues::BindMarker(marker) => write!(f, "{marker}"),
                }
            }
            Self::Token { columns, operator, value } => {
                write!(f, "token{} {operator} {value}", List(columns))
            }
        }
    }
}

/// Writes items in parentheses.
struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (i, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str(")")
    }
}

/// The operator of a relation or condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `=`
    Eq,
    /// `!=`
    Neq,
    /// `<`
    Lt,
    /// `<=`
    Lte,
    /// `>`
    Gt,
    /// `>=`
    Gte,
    /// `IN`
    In,
    /// `CONTAINS`
    Contains,
    /// `CONTAINS KEY`
    ContainsKey,
    /// `LIKE`
    Like,
    /// `IS NOT`
    IsNot,
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Eq => "=",
            Operator::Neq => "!=",
            Operator::Lt => "<",
            Operator::Lte => "<=",
            Operator::Gt => ">",
            Operator::Gte => ">=",
            Operator::In => "IN",
            Operator::Contains => "CONTAINS",
            Operator::ContainsKey => "CONTAINS KEY",
            Operator::Like => "LIKE",
            Operator::IsNot => "IS NOT",
        })
    }
}

/// The right-hand side of `column IN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InValues {
    /// `(a, b)`, possibly empty.
    List(Vec<Term>),
    /// One marker for the whole list.
    BindMarker(BindMarker),
}

/// The right-hand side of a comparison of columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TupleValue {
    /// `(a, b)`; never empty.
    Literal(Vec<Term>),
    /// One marker for the whole tuple.
    BindMarker(BindMarker),
}

/// The right-hand side of `(columns) IN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TupleInValues {
    /// `((a, b), (c, d))`; empty for `()`.
    Literals(Vec<Vec<Term>>),
    /// `(?, ?)`: a marker for each tuple; never empty.
    BindMarkers(Vec<BindMarker>),
    /// One marker for the whole list of tuples.
    BindMarker(BindMarker),
}

/// The conditions after IF in UPDATE and DELETE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Conditions {
    /// No IF.
    #[default]
    None,
    /// `IF EXISTS`
    Exists,
    /// `IF a = 1 AND ...`; never empty.
    Columns(Vec<Condition>),
}

/// One condition of an IF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub column: Identifier,
    /// The part of the column, unless the condition is on the whole.
    pub part: Option<ColumnPart>,
    /// `= < <= > >= != IN`, and for whole columns also `CONTAINS` and `CONTAINS KEY`.
    pub operator: Operator,
    /// The right-hand side; [`ConditionValue::In`] exactly if the operator is [`Operator::In`].
    pub value: ConditionValue,
}

/// A part of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnPart {
    /// `column[key]`
    Element(Term),
    /// `column.field`
    Field(Identifier),
}

/// The right-hand side of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionValue {
    Term(Term),
    /// The values after IN.
    In(InValues),
}
