//! Preparation of terms for their receivers.

use std::sync::Arc;

use bytes::Bytes;
use cassette_cql::ast;
use cassette_cql::values::{Assignment, literal_bytes};
use cassette_rows::{DataType, interrupt};

use super::bind::{assemble_elements, assemble_items};
use super::test_assignment;
use crate::basics::error::{Result, bail_invalid};
use crate::basics::response::ColumnSpec;
use crate::planning::context::PlanContext;
use crate::schema::catalog::{TypeUse, resolve_type};
use crate::schema::conditions::Term;

impl Term {
    /// Prepares `raw` for `receiver`; its markers are recorded in `cx`.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, if the term has another type.
    pub fn prepare(raw: &ast::Term, receiver: &Arc<ColumnSpec>, cx: &mut PlanContext<'_>) -> Result<Self> {
        interrupt::check()?;
        match raw {
            ast::Term::Null => match receiver.data_type {
                DataType::Counter => bail_invalid!("Invalid null value for counter increment/decrement"),
                _ => Ok(Self::Null),
            },
            ast::Term::Literal(literal) => {
                if !fits(raw, receiver, cx)? {
                    bail_invalid!(
                        "Invalid {} constant ({}) for \"{}\" of type {}",
                        kind_name(literal.kind),
                        literal.text,
                        receiver.name,
                        receiver.data_type
                    );
                }
                Ok(Self::Value(literal_bytes(literal, &receiver.data_type)?.into()))
            }
            ast::Term::BindMarker(marker) => Ok(Self::marker(marker, receiver, cx)),
            ast::Term::List(elements) => match &receiver.data_type {
                DataType::Vector { dimension, .. } => {
                    if elements.len() != *dimension as usize {
                        bail_invalid!(
                            "Invalid vector literal for {} of type {}; expected {dimension} elements, but given {}",
                            receiver.name,
                            receiver.data_type,
                            elements.len()
                        );
                    }
                    prepare_elements("vector", elements, receiver, cx)
                }
                other => {
                    refuse_list(other)?;
                    prepare_elements("list", elements, receiver, cx)
                }
            },
            ast::Term::Set(elements) => match &receiver.data_type {
                DataType::Set { .. } => prepare_elements("set", elements, receiver, cx),
                DataType::Map { .. } if elements.is_empty() => prepare_map(&[], receiver, cx),
                other => bail_invalid!("Invalid set literal for {} of type {other}", receiver.name),
            },
            ast::Term::Map(entries) => prepare_map(entries, receiver, cx),
            ast::Term::UserType(fields) => prepare_user_type(fields, receiver, cx),
            ast::Term::Tuple(elements) => match (&receiver.data_type, &elements[..]) {
                (DataType::Tuple(items), _) => prepare_tuple(elements, items, receiver, cx),
                (DataType::Udt { definition, .. }, _) => {
                    let types: Vec<_> = definition.fields.iter().map(|(_, field)| field.clone()).collect();
                    prepare_tuple(elements, &types, receiver, cx)
                }
                (_, [only]) => Self::prepare(only, receiver, cx),
                (other, _) => {
                    bail_invalid!("Invalid tuple type literal for {} of type {other}", receiver.name)
                }
            },
            ast::Term::TypeHint(hint, inner) => {
                check_hint(hint, inner, receiver, cx)?;
                Self::prepare(inner, receiver, cx)
            }
            ast::Term::Function(call) => Self::prepare_call(call, receiver, cx),
            ast::Term::Cast(inner, to) => Self::prepare_cast(inner, *to, receiver, cx),
            ast::Term::Arithmetic(left, operator, right) => {
                Self::prepare_arithmetic(left, *operator, right, receiver, cx)
            }
            ast::Term::Negated(inner) => Self::prepare_negation(inner, receiver, cx),
        }
    }

    /// Returns the term of a bind marker, and records in `cx` that it is bound to `receiver`.
    pub fn marker(marker: &ast::BindMarker, receiver: &Arc<ColumnSpec>, cx: &mut PlanContext<'_>) -> Self {
        cx.markers.receive(marker.index, receiver);
        Self::Marker { index: marker.index, receiver: receiver.clone() }
    }

    /// Whether its value depends on no marker and no function.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Null | Self::Value(_))
    }

    /// Whether it contains a marker.
    pub fn contains_marker(&self) -> bool {
        match self {
            Self::Null | Self::Value(_) => false,
            Self::Marker { .. } => true,
            Self::Elements { elements: parts, .. } | Self::Items { items: parts, .. } => {
                parts.iter().any(Self::contains_marker)
            }
            Self::Item { of, .. } => of.contains_marker(),
            Self::Function(function) => function.arguments.iter().any(Self::contains_marker),
        }
    }
}

/// Whether `raw` is assignable to `receiver`. As in Cassandra, `[…]` of a type that has no such
/// literals is a separate error.
fn fits(raw: &ast::Term, receiver: &ColumnSpec, cx: &PlanContext<'_>) -> Result<bool> {
    if matches!(raw, ast::Term::List(_)) {
        refuse_list(&receiver.data_type)?;
    }
    Ok(test_assignment(raw, &receiver.data_type, &receiver.keyspace, cx).is_assignable())
}

/// Returns the receiver of a part of `whole`, for messages and nested markers.
fn part(whole: &ColumnSpec, name: String, data_type: &DataType) -> Arc<ColumnSpec> {
    Arc::new(ColumnSpec { name: name.into(), data_type: data_type.clone(), ..whole.clone() })
}

/// Checks that `(hint) inner` can be assigned to `receiver`.
fn check_hint(
    hint: &ast::CqlType,
    inner: &ast::Term,
    receiver: &ColumnSpec,
    cx: &PlanContext<'_>,
) -> Result<()> {
    let keyspace = cx.catalog.require_keyspace(&receiver.keyspace)?;
    let scope = TypeUse { keyspace: &keyspace.name, types: &keyspace.types };
    let hinted = resolve_type(hint, scope)?;
    if matches!(inner, ast::Term::List(_))
        && !matches!(hinted, DataType::List { .. } | DataType::Vector { .. })
    {
        bail_invalid!("Unexpected receiver type '{hinted}'; only list and vector are expected");
    }
    let (shown, inner_shown) = (hint.shown(Some(&keyspace.name)), inner.shown(Some(&keyspace.name)));
    if !test_assignment(inner, &hinted, &receiver.keyspace, cx).is_assignable() {
        bail_invalid!("Cannot cast value {inner_shown} to type {shown}");
    }
    if !Assignment::of_cast(&hinted, &receiver.data_type).is_assignable() {
        let (name, data_type) = (&receiver.name, &receiver.data_type);
        bail_invalid!("Cannot assign value ({shown}){inner_shown} to {name} of type {data_type}");
    }
    Ok(())
}

/// Prepares the elements of a list, set or vector.
fn prepare_elements(
    what: &str,
    elements: &[ast::Term],
    receiver: &Arc<ColumnSpec>,
    cx: &mut PlanContext<'_>,
) -> Result<Term> {
    let element_type = match &receiver.data_type {
        DataType::List { element, .. } | DataType::Set { element, .. } | DataType::Vector { element, .. } => {
            element
        }
        other => bail_invalid!("Invalid {what} literal for {} of type {other}", receiver.name),
    };
    let element = part(receiver, format!("value({})", receiver.name), element_type);
    let check = |raw: &ast::Term, cx: &PlanContext<'_>| {
        if !fits(raw, &element, cx)? {
            bail_invalid!(
                "Invalid {what} literal for {}: value {} is not of type {}",
                receiver.name,
                raw.shown(Some(&receiver.keyspace)),
                element.data_type
            );
        }
        Ok(())
    };
    let is_vector = what == "vector";
    // As in Cassandra, all of them are checked before any is prepared, except in vectors.
    if !is_vector {
        elements.iter().try_for_each(|raw| check(raw, cx))?;
    }
    let mut terms = Vec::with_capacity(elements.len());
    for raw in elements {
        if is_vector {
            check(raw, cx)?;
        }
        let term = Term::prepare(raw, &element, cx)?;
        if !is_vector {
            refuse_marker(what, &term, receiver)?;
        }
        terms.push(term);
    }
    elements_term(terms, receiver)
}

fn prepare_map(
    entries: &[(ast::Term, ast::Term)],
    receiver: &Arc<ColumnSpec>,
    cx: &mut PlanContext<'_>,
) -> Result<Term> {
    let DataType::Map { key, value, .. } = &receiver.data_type else {
        bail_invalid!("Invalid map literal for {} of type {}", receiver.name, receiver.data_type);
    };
    let key = part(receiver, format!("key({})", receiver.name), key);
    let value = part(receiver, format!("value({})", receiver.name), value);
    let parts = || entries.iter().flat_map(|(k, v)| [("key", k, &key), ("value", v, &value)]);
    // As in Cassandra, all of them are checked before any is prepared.
    for (what, raw, receiving) in parts() {
        if !fits(raw, receiving, cx)? {
            bail_invalid!(
                "Invalid map literal for {}: {what} {} is not of type {}",
                receiver.name,
                raw.shown(Some(&receiver.keyspace)),
                receiving.data_type
            );
        }
    }
    let mut terms = Vec::with_capacity(2 * entries.len());
    for (_, raw, receiving) in parts() {
        let term = Term::prepare(raw, receiving, cx)?;
        refuse_marker("map", &term, receiver)?;
        terms.push(term);
    }
    elements_term(terms, receiver)
}

fn refuse_marker(what: &str, term: &Term, receiver: &ColumnSpec) -> Result<()> {
    if term.contains_marker() {
        bail_invalid!(
            "Invalid {what} literal for {}: bind variables are not supported inside collection literals",
            receiver.name
        );
    }
    Ok(())
}

/// Returns a constant if all parts are constant.
fn elements_term(elements: Vec<Term>, receiver: &ColumnSpec) -> Result<Term> {
    let data_type = receiver.data_type.clone();
    if !elements.iter().all(Term::is_constant) {
        return Ok(Term::Elements { data_type, elements });
    }
    let values = elements.iter().map(constant).collect::<Vec<_>>();
    Ok(Term::Value(assemble_elements(&data_type, values)?.into()))
}

fn constant(term: &Term) -> Option<&[u8]> {
    match term {
        Term::Value(bytes) => Some(bytes),
        _ => None,
    }
}

/// Rejects types that no literal `[…]` has.
fn refuse_list(data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::List { .. } | DataType::Vector { .. } => Ok(()),
        other => bail_invalid!("Unexpected receiver type '{other}'; only list and vector are expected"),
    }
}

fn prepare_tuple(
    elements: &[ast::Term],
    items: &[DataType],
    receiver: &Arc<ColumnSpec>,
    cx: &mut PlanContext<'_>,
) -> Result<Term> {
    let components: Vec<_> = elements
        .iter()
        .zip(items)
        .enumerate()
        .map(|(i, (raw, item))| (raw, part(receiver, format!("{}[{i}]", receiver.name), item)))
        .collect();
    // As in Cassandra, all of them are checked before any is prepared.
    for (i, (raw, item)) in components.iter().enumerate() {
        if !fits(raw, item, cx)? {
            bail_invalid!(
                "Invalid tuple literal for {}: component {i} is not of type {}",
                receiver.name,
                item.data_type
            );
        }
    }
    if elements.len() > items.len() {
        bail_invalid!(
            "Invalid tuple literal for {}: too many elements. Type {} expects {} but got {}",
            receiver.name,
            receiver.data_type,
            items.len(),
            elements.len()
        );
    }
    let terms = components.iter().map(|(raw, item)| Term::prepare(raw, item, cx));
    Ok(items_term(terms.collect::<Result<_>>()?, receiver))
}

fn prepare_user_type(
    fields: &[(ast::Identifier, ast::Term)],
    receiver: &Arc<ColumnSpec>,
    cx: &mut PlanContext<'_>,
) -> Result<Term> {
    let DataType::Udt { definition, .. } = &receiver.data_type else {
        bail_invalid!("Invalid user type literal for {} of type {}", receiver.name, receiver.data_type);
    };
    let definition = definition.clone();
    let mut given = vec![None; definition.fields.len()];
    let mut unknown = None;
    for (field, raw) in fields {
        match definition.field(field) {
            // The first of equal names counts.
            Some((index, _)) => _ = given[index].get_or_insert(raw),
            None => _ = unknown.get_or_insert(field),
        }
    }
    let field = |name: &str, data_type| part(receiver, format!("{}.{name}", receiver.name), data_type);
    let fields = || definition.fields.iter().zip(&given);
    // As in Cassandra, all of them are checked before any is prepared.
    for ((name, data_type), raw) in fields() {
        let Some(raw) = raw else { continue };
        let field = field(name, data_type);
        if !fits(raw, &field, cx)? {
            bail_invalid!(
                "Invalid user type literal for {}: field {name} is not of type {}",
                receiver.name,
                field.data_type
            );
        }
    }
    let mut terms = Vec::with_capacity(definition.fields.len());
    for ((name, data_type), raw) in fields() {
        terms.push(match raw {
            Some(raw) => Term::prepare(raw, &field(name, data_type), cx)?,
            None => Term::Null,
        });
    }
    if let Some(unknown) = unknown {
        bail_invalid!("Unknown field '{unknown}' in value of user defined type {}", definition.name);
    }
    Ok(items_term(terms, receiver))
}

/// Returns a constant if all items are constant.
fn items_term(items: Vec<Term>, receiver: &ColumnSpec) -> Term {
    if items.iter().all(Term::is_constant) {
        return Term::Value(Bytes::from(assemble_items(items.iter().map(constant))));
    }
    Term::Items { data_type: receiver.data_type.clone(), items }
}

/// Returns Cassandra's name of a kind of literal.
fn kind_name(kind: ast::LiteralKind) -> &'static str {
    match kind {
        ast::LiteralKind::String => "STRING",
        ast::LiteralKind::Integer => "INTEGER",
        ast::LiteralKind::Float => "FLOAT",
        ast::LiteralKind::Boolean => "BOOLEAN",
        ast::LiteralKind::Duration => "DURATION",
        ast::LiteralKind::Uuid => "UUID",
        ast::LiteralKind::Hex => "HEX",
    }
}
