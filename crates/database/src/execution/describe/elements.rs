//! The elements of a schema, in the order of their description.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use cassette_cql::quote_identifier;
use cassette_cql::values::functions::{UserAggregate, UserFunction};
use cassette_rows::types::UserType;
use cassette_rows::{DataType, TableMetadata};

use super::cql_text::{self, Form};
use super::function_text::{self, signature_text};
use crate::schema::catalog::{Catalog, Keyspace, KeyspaceKind};
use crate::schema::indexes::Index;
use crate::schema::views::View;

/// A schema element.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Element<'a> {
    Keyspace(&'a Keyspace),
    Type(&'a Arc<UserType>),
    Function(&'a Arc<UserFunction>),
    Aggregate(&'a Arc<UserAggregate>),
    Table(&'a Arc<TableMetadata>, KeyspaceKind),
    Index(&'a Arc<Index>),
    View(&'a Arc<View>),
}

impl<'a> Element<'a> {
    /// Returns the keyspace of the element, or the keyspace itself, quoted if necessary.
    pub fn keyspace(&self) -> Cow<'a, str> {
        quote_identifier(match self {
            Self::Keyspace(keyspace) => &keyspace.name,
            Self::Type(user_type) => &user_type.keyspace,
            Self::Function(function) => &function.keyspace,
            Self::Aggregate(aggregate) => &aggregate.keyspace,
            Self::Table(table, _) => &table.keyspace,
            Self::Index(index) => &index.base.keyspace,
            Self::View(view) => &view.base.keyspace,
        })
    }

    /// Returns the name, quoted if necessary.
    pub fn name(&self) -> Cow<'a, str> {
        quote_identifier(match self {
            Self::Function(function) => {
                return signature_text(&function.name, &function.argument_types()).into();
            }
            Self::Aggregate(aggregate) => {
                return signature_text(&aggregate.name, &aggregate.arguments).into();
            }
            Self::Keyspace(keyspace) => &keyspace.name,
            Self::Type(user_type) => &user_type.name,
            Self::Table(table, _) => &table.name,
            Self::Index(index) => &index.name,
            Self::View(view) => view.name(),
        })
    }

    /// Returns `keyspace`, `type`, `table` or `index`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Keyspace(_) => "keyspace",
            Self::Type(_) => "type",
            Self::Function(_) => "function",
            Self::Aggregate(_) => "aggregate",
            Self::Table(..) => "table",
            Self::Index(_) => "index",
            Self::View(_) => "materialized_view",
        }
    }

    /// Returns the statements that create the element; `with_internals` with its id and dropped
    /// columns.
    pub fn text(&self, with_internals: bool) -> String {
        self.text_in(if with_internals { Form::WithInternals } else { Form::Described })
    }

    /// Returns the statements that create the element, in a form.
    pub fn text_in(&self, form: Form) -> String {
        match self {
            Self::Keyspace(keyspace) => cql_text::create_keyspace(keyspace),
            Self::Type(user_type) => cql_text::create_type(user_type),
            Self::Function(function) => function_text::create_function(function),
            Self::Aggregate(aggregate) => function_text::create_aggregate(aggregate),
            Self::Table(table, kind) => cql_text::create_table(table, *kind == KeyspaceKind::Virtual, form),
            Self::Index(index) => index.create_statement(),
            Self::View(view) => cql_text::create_view(view, form != Form::Described),
        }
    }
}

/// Sorts by name in Cassandra's order, which ignores case.
fn by_name<T>(mut items: Vec<T>, name: impl Fn(&T) -> &str) -> Vec<T> {
    items.sort_by_cached_key(|item| name(item).to_lowercase());
    items
}

pub(crate) fn sorted_keyspaces(catalog: &Catalog) -> Vec<&Keyspace> {
    by_name(catalog.keyspaces().map(|keyspace| &**keyspace).collect(), |keyspace| &keyspace.name)
}

pub(crate) fn sorted_tables(keyspace: &Keyspace) -> Vec<Element<'_>> {
    let tables = by_name(tables(keyspace).collect(), |table| &table.name);
    tables.into_iter().map(|table| Element::Table(table, keyspace.kind)).collect()
}

/// Returns the tables that are not views.
fn tables(keyspace: &Keyspace) -> impl Iterator<Item = &Arc<TableMetadata>> {
    keyspace.tables.values().filter(|table| !keyspace.views.contains_key(&table.name))
}

/// Returns a table, followed by its indexes and views.
pub(crate) fn of_table<'a>(table: &'a Arc<TableMetadata>, keyspace: &'a Keyspace) -> Vec<Element<'a>> {
    let mut elements = vec![Element::Table(table, keyspace.kind)];
    let indexes = by_name(keyspace.indexes_of(table).collect(), |index| &index.name);
    elements.extend(indexes.into_iter().map(Element::Index));
    elements.extend(
        by_name(keyspace.views_of(table).collect(), |view| view.name()).into_iter().map(Element::View),
    );
    elements
}

pub(crate) fn types_by_name(keyspace: &Keyspace) -> Vec<Element<'_>> {
    by_name(keyspace.types.values().collect(), |user_type| &user_type.name)
        .into_iter()
        .map(Element::Type)
        .collect()
}

/// Returns a keyspace and its contents: types, each after those it refers to, then tables, each
/// with its indexes.
pub(crate) fn of_keyspace(keyspace: &Keyspace) -> Vec<Element<'_>> {
    let mut elements = vec![Element::Keyspace(keyspace)];
    let mut seen = BTreeSet::new();
    for user_type in keyspace.types.values() {
        add_type(user_type, keyspace, &mut seen, &mut elements);
    }
    elements.extend(functions_by_name(keyspace, None));
    elements.extend(aggregates_by_name(keyspace, None));
    for table in by_name(tables(keyspace).collect(), |table| &table.name) {
        elements.extend(of_table(table, keyspace));
    }
    elements
}

/// Returns the functions, or those with a name.
pub(crate) fn functions_by_name<'a>(keyspace: &'a Keyspace, name: Option<&str>) -> Vec<Element<'a>> {
    let named = keyspace.functions.values().filter(|function| name.is_none_or(|name| function.name == name));
    sorted(named.map(Element::Function).collect())
}

/// Returns the aggregates, or those with a name.
pub(crate) fn aggregates_by_name<'a>(keyspace: &'a Keyspace, name: Option<&str>) -> Vec<Element<'a>> {
    let aggregates = keyspace.aggregates.values();
    let named = aggregates.filter(|aggregate| name.is_none_or(|name| aggregate.name == name));
    sorted(named.map(Element::Aggregate).collect())
}

fn sorted(mut elements: Vec<Element<'_>>) -> Vec<Element<'_>> {
    // Of names that differ in case only, Cassandra has no order.
    elements.sort_by_cached_key(|element| {
        let name = element.name().replace('"', "");
        (name.to_lowercase(), Reverse(name))
    });
    elements
}

/// Returns a table between the types that it uses and its indexes.
pub(crate) fn with_types<'a>(keyspace: &'a Keyspace, table: &'a Arc<TableMetadata>) -> Vec<Element<'a>> {
    let (mut elements, mut seen) = (Vec::new(), BTreeSet::new());
    for column in table.all_columns() {
        add_types_in(&column.data_type, keyspace, &mut seen, &mut elements);
    }
    if let Some(view) = keyspace.views.get(&table.name) {
        elements.push(Element::View(view));
        return elements;
    }
    elements.push(Element::Table(table, keyspace.kind));
    elements.extend(keyspace.indexes_of(table).map(Element::Index));
    elements.extend(keyspace.views_of(table).map(Element::View));
    elements
}

fn add_type<'a>(
    user_type: &'a Arc<UserType>,
    keyspace: &'a Keyspace,
    seen: &mut BTreeSet<&'a str>,
    elements: &mut Vec<Element<'a>>,
) {
    if !seen.insert(&user_type.name) {
        return;
    }
    for (_, field) in &user_type.fields {
        add_types_in(field, keyspace, seen, elements);
    }
    elements.push(Element::Type(user_type));
}

fn add_types_in<'a>(
    data_type: &DataType,
    keyspace: &'a Keyspace,
    seen: &mut BTreeSet<&'a str>,
    elements: &mut Vec<Element<'a>>,
) {
    match data_type {
        DataType::Udt { definition, .. } => {
            if let Some(user_type) = keyspace.types.get(&definition.name) {
                add_type(user_type, keyspace, seen, elements);
            }
        }
        DataType::List { element, .. } | DataType::Set { element, .. } | DataType::Vector { element, .. } => {
            add_types_in(element, keyspace, seen, elements);
        }
        DataType::Map { key, value, .. } => {
            add_types_in(key, keyspace, seen, elements);
            add_types_in(value, keyspace, seen, elements);
        }
        DataType::Tuple(items) => {
            items.iter().for_each(|item| add_types_in(item, keyspace, seen, elements));
        }
        _ => {}
    }
}
