//! The events of a schema change for clients: each element that was created, dropped or altered,
//! including those affected by others, such as tables with a user-defined type that has a new
//! field.

use std::collections::BTreeMap;
use std::sync::Arc;

use cassette_rows::TableMetadata;
use cassette_rows::types::UserType;

use super::{functions, table_event};
use crate::basics::response::{SchemaChange, SchemaChangeKind, SchemaChangeTarget};
use crate::schema::catalog::{Catalog, Keyspace};
use crate::schema::functions::Signature;

/// Returns the events of the change of `keyspace` between two catalogs, in Cassandra's order.
pub(crate) fn events(keyspace: &str, before: &Catalog, after: &Catalog) -> Vec<SchemaChange> {
    let whole = |kind| SchemaChange {
        kind,
        target: SchemaChangeTarget::Keyspace,
        keyspace: keyspace.to_owned(),
        name: String::new(),
        arguments: Vec::new(),
    };
    match (before.keyspace(keyspace), after.keyspace(keyspace)) {
        (Some(before), Some(after)) => {
            let mut events = gone(before, after);
            events.extend(come(before, after));
            if before.params != after.params {
                events.push(whole(SchemaChangeKind::Updated));
            }
            events.extend(altered(before, after));
            events
        }
        (None, Some(_)) => vec![whole(SchemaChangeKind::Created)],
        (Some(before), None) => {
            let mut events = gone(before, &Keyspace::new(keyspace, before.kind, before.params.clone()));
            events.push(whole(SchemaChangeKind::Dropped));
            events
        }
        (None, None) => Vec::new(),
    }
}

/// Returns views, then tables, then types that `after` lacks.
fn gone(before: &Keyspace, after: &Keyspace) -> Vec<SchemaChange> {
    let [tables, views] = tables_and_views(before);
    let mut events = tables_missing(views.into_iter().chain(tables), after, SchemaChangeKind::Dropped);
    events.extend(types_missing(before, after, SchemaChangeKind::Dropped));
    events.extend(functions_missing(before, after, SchemaChangeKind::Dropped).into_iter().rev());
    events
}

/// Returns types, then tables, then views that `before` lacks.
fn come(before: &Keyspace, after: &Keyspace) -> Vec<SchemaChange> {
    let mut events = types_missing(after, before, SchemaChangeKind::Created);
    let tables = tables_and_views(after).into_iter().flatten();
    events.extend(tables_missing(tables, before, SchemaChangeKind::Created));
    events.extend(functions_missing(after, before, SchemaChangeKind::Created));
    events
}

/// Returns the tables among `tables` that are not in `there`; a table that was dropped and created
/// again is another one.
fn tables_missing<'a>(
    tables: impl Iterator<Item = &'a Arc<TableMetadata>>,
    there: &Keyspace,
    kind: SchemaChangeKind,
) -> Vec<SchemaChange> {
    let missing =
        tables.filter(|table| there.tables.get(&table.name).is_none_or(|other| other.id != table.id));
    missing.map(|table| table_event(kind, &there.name, &table.name)).collect()
}

fn types_missing(here: &Keyspace, there: &Keyspace, kind: SchemaChangeKind) -> Vec<SchemaChange> {
    let missing = here.types.keys().filter(|name| !there.types.contains_key(*name));
    missing.map(|name| type_event(kind, &here.name, name)).collect()
}

/// Returns types, then tables, then views that exist in both, but differ.
fn altered(before: &Keyspace, after: &Keyspace) -> Vec<SchemaChange> {
    let changed =
        |user_type: &&Arc<UserType>| before.types.get(&user_type.name).is_some_and(|old| old != *user_type);
    let types = after.types.values().filter(changed);
    let mut events: Vec<_> =
        types.map(|user_type| type_event(SchemaChangeKind::Updated, &after.name, &user_type.name)).collect();
    let tables =
        tables_and_views(after).into_iter().flatten().filter(|table| is_altered(before, after, table));
    events.extend(tables.map(|table| table_event(SchemaChangeKind::Updated, &after.name, &table.name)));
    let updated = |target, signature: &Signature| {
        functions::event(SchemaChangeKind::Updated, target, &after.name, signature)
    };
    let functions = after.functions.iter();
    let changed = functions.filter(|(key, new)| before.functions.get(*key).is_some_and(|old| old != *new));
    events.extend(changed.map(|(key, _)| updated(SchemaChangeTarget::Function, key)));
    let aggregates = after.aggregates.iter();
    let changed = aggregates.filter(|(key, new)| before.aggregates.get(*key).is_some_and(|old| old != *new));
    events.extend(changed.map(|(key, _)| updated(SchemaChangeTarget::Aggregate, key)));
    events
}

/// Returns functions, then aggregates of `here` that `there` lacks.
fn functions_missing(here: &Keyspace, there: &Keyspace, kind: SchemaChangeKind) -> Vec<SchemaChange> {
    let event = |target, signature| functions::event(kind, target, &here.name, signature);
    let scalars = here.functions.keys().filter(|signature| !there.functions.contains_key(*signature));
    let aggregates = here.aggregates.keys().filter(|signature| !there.aggregates.contains_key(*signature));
    let scalars = scalars.map(|signature| event(SchemaChangeTarget::Function, signature));
    scalars.chain(aggregates.map(|signature| event(SchemaChangeTarget::Aggregate, signature))).collect()
}

/// Whether the table itself, its indexes, or the rows that it shows as a view differ.
fn is_altered(before: &Keyspace, after: &Keyspace, table: &TableMetadata) -> bool {
    let Some(old) = before.tables.get(&table.name).filter(|old| old.id == table.id) else { return false };
    let indexes = |keyspace: &Keyspace| -> BTreeMap<String, i64> {
        keyspace.indexes_of(table).map(|index| (index.name.clone(), index.created_at)).collect()
    };
    let condition =
        |keyspace: &Keyspace| keyspace.views.get(&table.name).map(|view| view.where_clause.clone());
    **old != *table || indexes(before) != indexes(after) || condition(before) != condition(after)
}

/// Returns the tables that are not views, and the views.
fn tables_and_views(keyspace: &Keyspace) -> [Vec<&Arc<TableMetadata>>; 2] {
    let (views, tables) =
        keyspace.tables.values().partition(|table| keyspace.views.contains_key(&table.name));
    [tables, views]
}

fn type_event(kind: SchemaChangeKind, keyspace: &str, name: &str) -> SchemaChange {
    SchemaChange {
        kind,
        target: SchemaChangeTarget::Type,
        keyspace: keyspace.to_owned(),
        name: name.to_owned(),
        arguments: Vec::new(),
    }
}
