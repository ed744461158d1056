//! From resolved selectors to expressions with their names and types.

use std::sync::Arc;

use cassette_cql::ast;
use cassette_cql::values::aggregates::AggregateFunction;
use cassette_cql::values::functions::{self, Function};
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, TableMetadata};

use super::cell_times::CellTime;
use super::expression::{Collection, Expression};
use super::masked::MaskedColumn;
use super::selectable::{
    EntryKey, Scope, Selectable, call_text, element_type, field_of, slice_text, term_text,
};
use crate::basics::error::{Result, bail_invalid};
use crate::planning::context::PlanContext;
use crate::planning::restrictions::{existing, named_receiver};
use crate::schema::conditions::Term;

/// Builds expressions, and collects the terms, aggregates and columns that they share.
#[derive(Debug)]
pub(crate) struct Builder<'t> {
    table: &'t TableMetadata,
    /// The terms of the expressions, which are bound once for each execution.
    pub terms: Vec<PlannedTerm>,
    /// The aggregates in the expressions.
    pub aggregates: Vec<Aggregate>,
    /// The distinct columns of the expressions.
    pub columns: Vec<Arc<ColumnMetadata>>,
}

/// A term of an expression.
#[derive(Debug)]
pub(crate) struct PlannedTerm {
    pub term: Term,
    /// The value that must not be null, and may have to be set, for the message; `None` if null and
    /// unset are allowed.
    pub required: Option<Required>,
}

/// A value that a term must have.
#[derive(Debug)]
pub(crate) struct Required {
    /// `element selection on m`
    pub what: String,
    /// Whether it may be unset.
    pub may_be_unset: bool,
}

/// An aggregate of the rows of a group.
#[derive(Debug)]
pub(crate) struct Aggregate {
    pub function: AggregateFunction,
    /// The arguments; none for `count(*)`.
    pub arguments: Vec<Expression>,
}

/// An expression with its name and its type.
#[derive(Debug)]
pub(crate) struct Built {
    pub expression: Expression,
    /// The name of its result column.
    pub name: String,
    pub data_type: DataType,
}

impl<'t> Builder<'t> {
    pub fn new(table: &'t TableMetadata) -> Self {
        Self { table, terms: Vec::new(), aggregates: Vec::new(), columns: Vec::new() }
    }

    /// Returns the expression of `selectable`; `wanted` is the expected type, if it is known.
    /// Markers are recorded in `cx`.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, for selectors without a type and for parts that the value
    /// lacks.
    pub fn build(
        &mut self,
        selectable: &Selectable<'_>,
        wanted: Option<&DataType>,
        cx: &mut PlanContext<'_>,
    ) -> Result<Built> {
        match selectable {
            Selectable::Column(column) => {
                self.note(column);
                let expression = match MaskedColumn::new(column)? {
                    Some(masked) => Expression::Masked(Box::new(masked)),
                    None => Expression::Column(column.clone()),
                };
                Ok(Built { expression, name: column.name.clone(), data_type: column.data_type.clone() })
            }
            Selectable::Term(term) => {
                let data_type = required_type(selectable, wanted)?;
                let receiver = named_receiver(self.table, "[selection]", data_type.clone());
                let expression = Expression::Term(self.term(Term::prepare(term, &receiver, cx)?, None));
                Ok(Built { expression, name: term_text(term), data_type })
            }
            Selectable::CellTime { what, column, of } => self.cell_time(*what, column, of, wanted, cx),
            Selectable::Call { function, arguments } => self.call(function, arguments, cx),
            Selectable::Token(arguments) => {
                let types: Vec<DataType> =
                    self.table.partition_key.iter().map(|column| column.data_type.clone()).collect();
                let (expressions, names) = self.each(arguments, &types, cx)?;
                Ok(Built {
                    expression: Expression::Token(expressions),
                    name: format!("system.token({})", names.join(", ")),
                    data_type: DataType::BigInt,
                })
            }
            Selectable::Cast(of, native) => self.cast(of, *native, cx),
            Selectable::Field(of, field) => self.field(of, field, cx),
            Selectable::Element(of, key) => self.element(selectable, of, key, cx),
            Selectable::Slice(of, from, to) => self.slice(of, *from, *to, wanted, cx),
            Selectable::TypeHint { text, data_type, of } => {
                of.check_names(data_type, self.table)?;
                if !of.assignment(data_type, Scope { table: self.table, cx }).is_assignable() {
                    bail_invalid!("Cannot assign value {selectable} to {selectable} of type {data_type}");
                }
                let inner = self.build(of, Some(data_type), cx)?;
                Ok(Built { name: format!("({text}){}", inner.name), data_type: data_type.clone(), ..inner })
            }
            Selectable::Tuple(elements) => self.tuple(selectable, elements, wanted, cx),
            Selectable::List(elements) => self.list(selectable, elements, wanted, cx),
            Selectable::Set(elements) => self.set(selectable, elements, wanted, cx),
            Selectable::MapOrUserType(entries) => match required_type(selectable, wanted)? {
                DataType::Map { key, value, frozen } => {
                    let data_type = DataType::Map { key: key.clone(), value: value.clone(), frozen };
                    self.map(entries, &key, &value, data_type, cx)
                }
                data_type => self.user_type(entries, data_type, cx),
            },
        }
    }

    fn note(&mut self, column: &Arc<ColumnMetadata>) {
        if !self.columns.iter().any(|noted| noted.name == column.name) {
            self.columns.push(column.clone());
        }
    }

    fn term(&mut self, term: Term, required: Option<Required>) -> usize {
        self.terms.push(PlannedTerm { term, required });
        self.terms.len() - 1
    }

    fn each(
        &mut self,
        selectables: &[Selectable<'_>],
        types: &[DataType],
        cx: &mut PlanContext<'_>,
    ) -> Result<(Vec<Expression>, Vec<String>)> {
        let mut expressions = Vec::with_capacity(selectables.len());
        let mut names = Vec::with_capacity(selectables.len());
        for (selectable, data_type) in selectables.iter().zip(types) {
            let built = self.build(selectable, Some(data_type), cx)?;
            expressions.push(built.expression);
            names.push(built.name);
        }
        Ok((expressions, names))
    }

    fn cell_time(
        &mut self,
        what: CellTime,
        column: &Arc<ColumnMetadata>,
        of: &Selectable<'_>,
        wanted: Option<&DataType>,
        cx: &mut PlanContext<'_>,
    ) -> Result<Built> {
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            bail_invalid!(
                "Cannot use selection function {} on PRIMARY KEY part {}",
                what.name(),
                column.name
            );
        }
        let inner = self.build(of, wanted, cx)?;
        self.note(column);
        Ok(Built {
            name: format!("{}({})", what.name(), inner.name),
            data_type: what.data_type(inner.data_type.is_multi_cell()),
            expression: Expression::CellTime(what, Box::new(inner.expression)),
        })
    }

    fn call(
        &mut self,
        function: &Function,
        arguments: &[Selectable<'_>],
        cx: &mut PlanContext<'_>,
    ) -> Result<Built> {
        let aggregates_before = self.aggregates.len();
        cx.uses(function);
        let (expressions, names) = self.each(arguments, function.arguments(), cx)?;
        let expression = match function {
            Function::Scalar(scalar) => Expression::Call(Box::new(scalar.clone()), expressions),
            Function::Aggregate(aggregate) => {
                if self.aggregates.len() > aggregates_before {
                    bail_invalid!("aggregate functions cannot be used as arguments of aggregate functions");
                }
                self.aggregates.push(Aggregate { function: aggregate.clone(), arguments: expressions });
                Expression::Aggregate(self.aggregates.len() - 1)
            }
        };
        Ok(Built { expression, name: call_text(function, &names), data_type: function.returns().clone() })
    }

    fn cast(
        &mut self,
        of: &Selectable<'_>,
        native: ast::NativeType,
        cx: &mut PlanContext<'_>,
    ) -> Result<Built> {
        let inner = self.build(of, None, cx)?;
        if inner.data_type == native.data_type() {
            return Ok(inner);
        }
        // As in Cassandra, the message names the first column of the select clause.
        if !functions::has_casts(native)
            && let Some(first) = self.columns.first()
        {
            bail_invalid!("{} cannot be cast to {native}", first.name);
        }
        let scope = Scope { table: self.table, cx };
        let Some(function) = functions::resolve_cast(&of.within(scope), native)? else { return Ok(inner) };
        let data_type = function.returns.clone();
        Ok(Built {
            name: format!("cast({} as {data_type})", inner.name),
            expression: Expression::Call(Box::new(function), vec![inner.expression]),
            data_type,
        })
    }

    fn field(
        &mut self,
        of: &Selectable<'_>,
        field: &ast::Identifier,
        cx: &mut PlanContext<'_>,
    ) -> Result<Built> {
        // A UDT in parentheses is not a tuple.
        let wanted = match of {
            Selectable::Tuple(elements) => elements.first().and_then(Selectable::exact_type),
            _ => None,
        };
        let inner = self.build(of, wanted.as_ref(), cx)?;
        let DataType::Udt { definition, .. } = &inner.data_type else {
            bail_invalid!("Invalid field selection: {of} of type {} is not a user type", inner.data_type);
        };
        let Some((index, field_type)) = definition.field(field) else {
            bail_invalid!("{of} of type {} has no field {}", inner.data_type, field.as_str());
        };
        Ok(Built {
            name: format!("{}.{}", inner.name, field.as_str()),
            data_type: field_type.clone(),
            expression: Expression::Field(Box::new(inner.expression), index),
        })
    }

    fn element(
        &mut self,
        selectable: &Selectable<'_>,
        of: &Selectable<'_>,
        key: &ast::Term,
        cx: &mut PlanContext<'_>,
    ) -> Result<Built> {
        let inner = self.build(of, None, cx)?;
        let Some(data_type) = element_type(&inner.data_type) else {
            bail_invalid!(
                "Invalid element selection: {of} is of type {} is not a collection",
                inner.data_type
            );
        };
        let key = self.key(key, &inner, of, "Element", cx)?;
        let required = Required { what: format!("element selection on {}", inner.name), may_be_unset: false };
        let key = self.term(key, Some(required));
        let collection = Collection { of: inner.expression, data_type: inner.data_type };
        Ok(Built {
            name: selectable.to_string(),
            data_type,
            expression: Expression::Element(Box::new(collection), key),
        })
    }

    fn slice(
        &mut self,
        of: &Selectable<'_>,
        from: Option<&ast::Term>,
        to: Option<&ast::Term>,
        wanted: Option<&DataType>,
        cx: &mut PlanContext<'_>,
    ) -> Result<Built> {
        let inner = self.build(of, wanted, cx)?;
        if element_type(&inner.data_type).is_none() {
            bail_invalid!("Invalid slice selection: {of} of type {} is not a collection", inner.data_type);
        }
        let mut end = |term: Option<&ast::Term>| -> Result<Option<usize>> {
            let Some(term) = term else { return Ok(None) };
            let term = self.key(term, &inner, of, "Slice", cx)?;
            let what = format!("slice selection on {}", inner.name);
            Ok(Some(self.term(term, Some(Required { what, may_be_unset: true }))))
        };
        let (start, last) = (end(from)?, end(to)?);
        let collection = Collection { of: inner.expression, data_type: inner.data_type.clone() };
        Ok(Built {
            name: slice_text(of, from, to),
            data_type: inner.data_type,
            expression: Expression::Slice(Box::new(collection), start, last),
        })
    }

    /// Prepares a key of the set or map `inner`.
    fn key(
        &self,
        key: &ast::Term,
        inner: &Built,
        of: &Selectable<'_>,
        what: &str,
        cx: &mut PlanContext<'_>,
    ) -> Result<Term> {
        let (part, key_type) = match &inner.data_type {
            DataType::Map { key, .. } => ("key", key),
            DataType::Set { element, .. } => ("value", element),
            _ => bail_invalid!("{what} selection is only allowed on sets and maps, but {of} is a list"),
        };
        let name = format!("{part}({})", inner.name);
        Term::prepare(key, &named_receiver(self.table, &name, (**key_type).clone()), cx)
    }

    fn tuple(
        &mut self,
        selectable: &Selectable<'_>,
        elements: &[Selectable<'_>],
        wanted: Option<&DataType>,
        cx: &mut PlanContext<'_>,
    ) -> Result<Built> {
        let data_type = required_type(selectable, wanted)?;
        let DataType::Tuple(items) = &data_type else {
            let [only] = elements else {
                bail_invalid!("Invalid tuple literal: {selectable} is not of type {data_type}");
            };
            let inner = self.build(only, wanted, cx)?;
            return Ok(Built { name: format!("({})", inner.name), ..inner });
        };
        let (expressions, names) = self.each(elements, items, cx)?;
        Ok(Built {
            expression: Expression::Items(expressions.into_iter().map(Some).collect()),
            name: format!("({})", names.join(", ")),
            data_type,
        })
    }

    fn list(
        &mut self,
        selectable: &Selectable<'_>,
        elements: &[Selectable<'_>],
        wanted: Option<&DataType>,
        cx: &mut PlanContext<'_>,
    ) -> Result<Built> {
        let data_type = match wanted {
            Some(vector @ DataType::Vector { .. }) => vector.clone(),
            _ => required_type(selectable, wanted)?,
        };
        let element = match &data_type {
            DataType::List { element, .. } => (**element).clone(),
            DataType::Vector { element, dimension } => {
                if elements.len() != *dimension as usize {
                    bail_invalid!(
                        "Unable to create a vector selector of type {data_type} from {} elements",
                        elements.len()
                    );
                }
                (**element).clone()
            }
            _ => bail_invalid!("Unsupported target type: {data_type}"),
        };
        let (expressions, names) = self.each(elements, &vec![element.clone(); elements.len()], cx)?;
        let expression = match &data_type {
            DataType::Vector { .. } => Expression::Vector(element, expressions),
            _ => Expression::List(expressions),
        };
        Ok(Built { expression, name: format!("[{}]", names.join(", ")), data_type })
    }

    fn set(
        &mut self,
        selectable: &Selectable<'_>,
        elements: &[Selectable<'_>],
        wanted: Option<&DataType>,
        cx: &mut PlanContext<'_>,
    ) -> Result<Built> {
        let data_type = required_type(selectable, wanted)?;
        let element = match &data_type {
            DataType::Map { key, .. } => {
                let expression = Expression::Map((**key).clone(), Vec::new());
                return Ok(Built { expression, name: "{}".to_owned(), data_type });
            }
            DataType::Set { element, .. } => (**element).clone(),
            _ => bail_invalid!("Unsupported target type: {data_type}"),
        };
        if element == DataType::Duration {
            bail_invalid!("Durations are not allowed inside sets: {data_type}");
        }
        let (expressions, names) = self.each(elements, &vec![element.clone(); elements.len()], cx)?;
        Ok(Built {
            expression: Expression::Set(element, expressions),
            name: format!("{{{}}}", names.join(", ")),
            data_type,
        })
    }

    fn map(
        &mut self,
        raw: &[(EntryKey<'_>, Selectable<'_>)],
        key_type: &DataType,
        value_type: &DataType,
        data_type: DataType,
        cx: &mut PlanContext<'_>,
    ) -> Result<Built> {
        if *key_type == DataType::Duration {
            bail_invalid!("Durations are not allowed as map keys: {data_type}");
        }
        let mut entries = Vec::with_capacity(raw.len());
        let mut names = Vec::with_capacity(raw.len());
        for (key, value) in raw {
            let key = match key {
                EntryKey::Name(name) => {
                    self.build(&Selectable::Column(existing(self.table, name)?), Some(key_type), cx)?
                }
                EntryKey::Key(key) => self.build(key, Some(key_type), cx)?,
            };
            let value = self.build(value, Some(value_type), cx)?;
            entries.push((key.expression, value.expression));
            names.push(format!("{}: {}", key.name, value.name));
        }
        Ok(Built {
            expression: Expression::Map(key_type.clone(), entries),
            name: format!("{{{}}}", names.join(", ")),
            data_type,
        })
    }

    fn user_type(
        &mut self,
        raw: &[(EntryKey<'_>, Selectable<'_>)],
        data_type: DataType,
        cx: &mut PlanContext<'_>,
    ) -> Result<Built> {
        let DataType::Udt { definition, .. } = &data_type else {
            bail_invalid!("Unsupported target type: {data_type}");
        };
        let mut items: Vec<Option<Expression>> = definition.fields.iter().map(|_| None).collect();
        let mut names = Vec::with_capacity(raw.len());
        for (name, value) in raw {
            let name = match name {
                EntryKey::Name(name) => name,
                EntryKey::Key(key) => {
                    bail_invalid!("{key} is not a valid field identifier of type {} ", definition.name)
                }
            };
            let (index, field) = field_of(definition, name)?;
            let built = self.build(value, Some(field), cx)?;
            names.push(format!("{}: {}", name.as_str(), built.name));
            items[index] = Some(built.expression);
        }
        let name = format!("{{{}}}", names.join(", "));
        Ok(Built { expression: Expression::Items(items), name, data_type })
    }
}

/// Returns the type of a literal, or the expected type.
fn required_type(selectable: &Selectable<'_>, wanted: Option<&DataType>) -> Result<DataType> {
    match selectable.exact_type().or_else(|| wanted.cloned()) {
        Some(data_type) => Ok(data_type),
        None => bail_invalid!(
            "Cannot infer type for term {selectable} in selection clause (try using a cast to force a type)"
        ),
    }
}
