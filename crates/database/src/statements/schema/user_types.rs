//! CREATE, ALTER and DROP TYPE.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use cassette_cql::ast::{
    AlterType, AlterTypeChange, CqlType, CreateType, DropElement, NativeType, QualifiedName,
};
use cassette_cql::quote_identifier;
use cassette_cql::values::functions::UserAggregate;
use cassette_rows::types::UserType;
use cassette_rows::{ColumnMetadata, DataType, TableMetadata};

use super::{Change, KeyspaceChange, SchemaContext, keyspace_to_change};
use crate::basics::error::{Result, bail_invalid};
use crate::basics::response::{SchemaChange, SchemaChangeKind, SchemaChangeTarget};
use crate::schema::catalog::{Keyspace, TypeUse, raw_text, resolve_type};

pub(crate) fn create(
    statement: &CreateType,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    let keyspace = keyspace_to_change(keyspace, cx)?;
    let name = statement.name.name.as_str();
    if keyspace.types.contains_key(name) {
        if statement.if_not_exists {
            return Ok(None);
        }
        bail_invalid!("A user type with name '{name}' already exists");
    }
    if let Some(field) = duplicate(statement.fields.iter().map(|(field, _)| field.as_str())) {
        bail_invalid!("Duplicate field name '{field}' in type '{name}'");
    }
    check_count(name, statement.fields.len())?;
    cx.guard.fields_of_type(name, statement.fields.len())?;
    for (_, raw) in &statement.fields {
        refuse_field_type(raw)?;
    }
    let scope = TypeUse { keyspace: &keyspace.name, types: &keyspace.types };
    let mut fields = Vec::with_capacity(statement.fields.len());
    for (field, raw) in &statement.fields {
        fields.push((field.as_str().to_owned(), resolve_type(raw, scope)?));
    }
    for (field, data_type) in &fields {
        cx.guard.vectors(&format!("Field {field}"), data_type)?;
    }
    let user_type = UserType::new(keyspace.name.clone(), name, fields);
    let mut after = (**keyspace).clone();
    after.types.insert(name.to_owned(), Arc::new(user_type));
    Ok(Some(change(after, SchemaChangeKind::Created, name)))
}

pub(crate) fn alter(statement: &AlterType, keyspace: &str, cx: &SchemaContext<'_>) -> Result<Option<Change>> {
    let name = statement.name.name.as_str();
    let existing = cx.catalog.keyspace(keyspace).and_then(|found| Some((found, found.types.get(name)?)));
    let Some((keyspace, user_type)) = existing else {
        if statement.if_exists {
            return Ok(None);
        } else {
            bail_invalid!("Type {keyspace}.{name} doesn't exist")
        }
    };
    let fields = match &statement.change {
        AlterTypeChange::AlterField { .. } => bail_invalid!("Altering field types is no longer supported"),
        AlterTypeChange::Add { if_not_exists, field, field_type } => {
            cx.guard.fields_of_type(name, user_type.fields.len() + 1)?;
            let fields = add_field(keyspace, user_type, field, field_type, *if_not_exists)?;
            check_count(name, fields.len())?;
            for (added, data_type) in fields.iter().filter(|(name, _)| **name == **field) {
                cx.guard.vectors(&format!("Field {added}"), data_type)?;
            }
            fields
        }
        AlterTypeChange::Rename { if_exists, fields } => {
            let mut renamed = user_type.fields.clone();
            for (from, to) in fields {
                match user_type.field(from) {
                    Some((index, _)) => renamed[index].0 = to.as_str().to_owned(),
                    None if *if_exists => {}
                    None => bail_invalid!(
                        "Unkown field {} in user type {}",
                        from.as_str(),
                        qualified_name(user_type)
                    ),
                }
            }
            let in_initial_value = aggregates_with_value(keyspace, name);
            if !in_initial_value.is_empty() {
                bail_invalid!(
                    "Cannot alter user type {} as it is still used in INITCOND by aggregates {}",
                    qualified_name(user_type),
                    in_initial_value.join(", ")
                );
            }
            if let Some(field) = duplicate(renamed.iter().map(|(field, _)| field.as_str())) {
                bail_invalid!("Duplicate field name {field} in type {}", keyspace.name);
            }
            renamed
        }
    };
    if fields == user_type.fields {
        return Ok(None);
    }
    let altered = Arc::new(user_type.with_fields(fields));
    Ok(Some(change(with_type_changed(keyspace, &altered), SchemaChangeKind::Updated, name)))
}

/// Returns the first name that repeats an earlier one.
fn duplicate<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut distinct = HashSet::new();
    names.find(|name| !distinct.insert(*name))
}

fn check_count(name: &str, count: usize) -> Result<()> {
    let most = UserType::FIELDS_MAX;
    if count > most {
        bail_invalid!("too many fields in type {name}: expected at most {most}, found {count}");
    }
    Ok(())
}

fn add_field(
    keyspace: &Keyspace,
    user_type: &UserType,
    field: &str,
    raw: &CqlType,
    if_not_exists: bool,
) -> Result<Vec<(String, DataType)>> {
    refuse_field_type(raw)?;
    let name = qualified_name(user_type);
    let raw_name = raw_text(&qualified(raw, &keyspace.name), false);
    let mut fields = user_type.fields.clone();
    if user_type.field(field).is_some() {
        if if_not_exists {
            return Ok(fields);
        }
        bail_invalid!("Cannot add field {field} to type {name}: a field with name {field} already exists");
    }
    let field_type = resolve_type(raw, TypeUse { keyspace: &keyspace.name, types: &keyspace.types })?;
    if field_type.references_udt(&keyspace.name, &user_type.name) {
        bail_invalid!(
            "Cannot add new field {field} of type {raw_name} to user type {name} as it would create a \
             circular reference"
        );
    }
    let in_key = |table: &&Arc<TableMetadata>| {
        table
            .partition_key
            .iter()
            .any(|column| column.data_type.references_udt(&keyspace.name, &user_type.name))
    };
    let tables: Vec<_> =
        keyspace.tables.values().filter(in_key).map(|table| table.qualified_name()).collect();
    if !tables.is_empty() {
        bail_invalid!(
            "Cannot add new field {field} of type {raw_name} to user type {name} as the type is being used \
             in partition key by the following tables: {}",
            tables.join(", ")
        );
    }
    fields.push((field.to_owned(), field_type));
    Ok(fields)
}

pub(crate) fn drop(
    statement: &DropElement,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    let name = statement.name.name.as_str();
    let Some(keyspace) = cx.catalog.keyspace(keyspace).filter(|found| found.types.contains_key(name)) else {
        if statement.if_exists {
            return Ok(None);
        } else {
            bail_invalid!("Type '{keyspace}.{name}' doesn't exist")
        }
    };
    let references = |data_type: &DataType| data_type.references_udt(&keyspace.name, name);
    let functions = functions_using(keyspace, name);
    if !functions.is_empty() {
        bail_invalid!(
            "Cannot drop user type '{}.{name}' as it is still used by functions {}",
            keyspace.name,
            functions.join(", ")
        );
    }
    let types = join(
        keyspace
            .types
            .values()
            .filter(|other| other.name != name && other.fields.iter().any(|(_, field)| references(field)))
            .map(|other| other.name.as_str()),
    );
    if !types.is_empty() {
        bail_invalid!(
            "Cannot drop user type '{}.{name}' as it is still used by user types {types}",
            keyspace.name
        );
    }
    let uses = |column: &Arc<ColumnMetadata>| references(&column.data_type);
    // Views are tables, too.
    let of_table = |table: &&Arc<TableMetadata>| !keyspace.views.contains_key(&table.name);
    let tables = keyspace.tables.values().filter(of_table);
    let tables = join(tables.filter(|table| table.all_columns().any(uses)).map(|table| table.name.as_str()));
    if !tables.is_empty() {
        bail_invalid!(
            "Cannot drop user type '{}.{name}' as it is still used by tables {tables}",
            keyspace.name
        );
    }
    let mut after = (**keyspace).clone();
    after.types.remove(name);
    Ok(Some(change(after, SchemaChangeKind::Dropped, name)))
}

/// Returns the names of the aggregates whose INITCOND contains values of a type.
fn aggregates_with_value(keyspace: &Keyspace, name: &str) -> Vec<String> {
    let contains = |aggregate: &&Arc<UserAggregate>| {
        aggregate.initial_value.is_some() && aggregate.state_type().references_udt(&keyspace.name, name)
    };
    let aggregates = keyspace.aggregates.values().filter(contains);
    aggregates.map(|aggregate| format!("{}.{}", keyspace.name, aggregate.name)).collect()
}

/// Returns the names of the functions and aggregates with a type in their signature or state.
fn functions_using(keyspace: &Keyspace, name: &str) -> Vec<String> {
    let functions = keyspace.functions.values().filter(|function| function.uses_type(name));
    let uses = |aggregate: &&Arc<UserAggregate>| {
        let arguments = aggregate.arguments.iter();
        let types = arguments.chain([aggregate.state_type(), aggregate.returns()]);
        types.into_iter().any(|data_type| data_type.references_udt(&keyspace.name, name))
    };
    let aggregates = keyspace.aggregates.values().filter(uses).map(|aggregate| &aggregate.name);
    let names = functions.map(|function| &function.name).chain(aggregates);
    names.map(|name| format!("{}.{name}", keyspace.name)).collect()
}

/// Returns `keyspace.name`, quoted if necessary.
fn qualified_name(user_type: &UserType) -> String {
    format!("{}.{}", quote_identifier(&user_type.keyspace), quote_identifier(&user_type.name))
}

/// Returns `raw` with all user-defined types qualified by the keyspace.
fn qualified(raw: &CqlType, keyspace: &str) -> CqlType {
    let inner = |inner: &CqlType| Box::new(qualified(inner, keyspace));
    match raw {
        CqlType::UserType(name) => {
            let of = name.keyspace.clone().unwrap_or_else(|| keyspace.into());
            CqlType::UserType(QualifiedName::new(Some(of), name.name.clone()))
        }
        CqlType::Frozen(of) => CqlType::Frozen(inner(of)),
        CqlType::List(element) => CqlType::List(inner(element)),
        CqlType::Set(element) => CqlType::Set(inner(element)),
        CqlType::Map(key, value) => CqlType::Map(inner(key), inner(value)),
        CqlType::Vector(element, dimension) => CqlType::Vector(inner(element), *dimension),
        CqlType::Tuple(items) => CqlType::Tuple(items.iter().map(|item| qualified(item, keyspace)).collect()),
        CqlType::Native(_) | CqlType::Custom(_) => raw.clone(),
    }
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn refuse_field_type(raw: &CqlType) -> Result<()> {
    match raw {
        CqlType::Native(NativeType::Counter) => bail_invalid!("A user type cannot contain counters"),
        CqlType::UserType(_) => bail_invalid!("A user type cannot contain non-frozen UDTs"),
        _ => Ok(()),
    }
}

/// Returns the keyspace with `altered` replacing its older version, also in other types and in
/// tables.
fn with_type_changed(keyspace: &Keyspace, altered: &Arc<UserType>) -> Keyspace {
    let mut after = keyspace.clone();
    let refers = |data_type: &DataType| data_type.references_udt(&altered.keyspace, &altered.name);
    let change_type = |(name, user_type): (&String, &Arc<UserType>)| {
        let fields = &user_type.fields;
        if user_type.name == altered.name {
            return (name.clone(), altered.clone());
        }
        if !fields.iter().any(|(_, field)| refers(field)) {
            return (name.clone(), user_type.clone());
        }
        let fields = fields.iter().map(|(name, field)| (name.clone(), field.with_udt(altered))).collect();
        (name.clone(), Arc::new(user_type.with_fields(fields)))
    };
    after.types = keyspace.types.iter().map(change_type).collect::<BTreeMap<_, _>>();
    after.change_type_in_functions(altered);
    for table in after.tables.values_mut() {
        if table.all_columns().any(|column| refers(&column.data_type)) {
            *table = Arc::new(table.with_types_mapped(|data_type| data_type.with_udt(altered)));
        }
    }
    after
}

fn change(after: Keyspace, kind: SchemaChangeKind, name: &str) -> Change {
    let event = SchemaChange {
        kind,
        target: SchemaChangeTarget::Type,
        keyspace: after.name.clone(),
        name: name.to_owned(),
        arguments: Vec::new(),
    };
    Change { keyspace: KeyspaceChange::Put(after), event, warnings: Vec::new() }
}
