//! CREATE and DROP AGGREGATE.

use std::sync::Arc;

use cassette_cql::ast::{self, CqlType, CreateAggregate, DropFunction};
use cassette_cql::values::functions::user::is_null;
use cassette_cql::values::functions::{UserAggregate, UserFunction};
use cassette_rows::DataType;

use super::functions::{
    change, find_dropped, is_name_valid, refuse_both_directives, refuse_frozen, resolve_each, shown_name,
};
use super::{Change, SchemaContext, keyspace_to_change};
use crate::basics::error::{Result, bail_config, bail_invalid};
use crate::basics::response::{SchemaChangeKind, SchemaChangeTarget};
use crate::planning::context::BindContext;
use crate::planning::functions::prepare_initial_value;
use crate::schema::catalog::{Catalog, Keyspace, raw_text};
use crate::schema::functions::Signature;

pub(super) fn create(
    statement: &CreateAggregate,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    let name = statement.name.name.as_str();
    // As in Cassandra, which resolves the types before anything else.
    if cx.catalog.keyspace(keyspace).is_none() {
        bail_config!("Keyspace {keyspace} doesn't exist");
    }
    refuse_both_directives(statement.if_not_exists, statement.or_replace)?;
    if !is_name_valid(name) {
        bail_invalid!("Aggregate name '{name}' is invalid");
    }
    statement.arguments.iter().try_for_each(|raw| refuse_frozen("Argument", raw))?;
    refuse_frozen("State type", &statement.state_type)?;
    let keyspace = keyspace_to_change(keyspace, cx)?;
    let arguments = resolve_each(&statement.arguments, keyspace)?;
    let state_type = resolve_each(std::slice::from_ref(&statement.state_type), keyspace)?.remove(0);
    let state_function = state_function(statement, keyspace, &state_type, &arguments)?;
    let final_function = final_function(statement, keyspace, &state_type)?;
    let initial_value = match &statement.initial_value {
        Some(raw) => initial_value(raw, &state_type, keyspace, cx.catalog, cx.bound)?,
        None => None,
    };
    if !state_function.called_on_null_input && initial_value.is_none() {
        bail_invalid!(
            "Cannot create aggregate '{name}' without INITCOND because state function {}.{} does not accept 'null' \
             arguments",
            keyspace.name,
            state_function.name
        );
    }
    let aggregate = UserAggregate {
        keyspace: keyspace.name.clone(),
        name: name.to_owned(),
        arguments,
        state_function,
        final_function,
        initial_value,
    };
    let signature = Signature::of_aggregate(&aggregate);
    if keyspace.functions.contains_key(&signature) {
        bail_invalid!("Aggregate '{name}' cannot replace a function");
    }
    let existing = keyspace.aggregates.get(&signature);
    if let Some(existing) = existing {
        if statement.if_not_exists {
            return Ok(None);
        }
        if !statement.or_replace {
            bail_invalid!("Aggregate '{name}' already exists");
        }
        if !aggregate.returns().is_compatible_with(existing.returns()) {
            bail_invalid!(
                "Cannot replace aggregate '{name}', the new return type {} isn't compatible with the return type {} \
                 of existing function",
                aggregate.returns(),
                existing.returns()
            );
        }
        if **existing == aggregate {
            return Ok(None);
        }
    }
    let kind = if existing.is_some() { SchemaChangeKind::Updated } else { SchemaChangeKind::Created };
    let mut after = (**keyspace).clone();
    after.aggregates.insert(signature.clone(), Arc::new(aggregate));
    Ok(Some(change(after, kind, SchemaChangeTarget::Aggregate, &signature)))
}

fn state_function(
    statement: &CreateAggregate,
    keyspace: &Keyspace,
    state_type: &DataType,
    arguments: &[DataType],
) -> Result<Arc<UserFunction>> {
    let raw: Vec<&CqlType> = std::iter::once(&statement.state_type).chain(&statement.arguments).collect();
    let shown = shown_function(&keyspace.name, &statement.state_function, &raw);
    let types = std::iter::once(state_type).chain(arguments);
    let signature = Signature::new(&statement.state_function, types);
    if keyspace.aggregates.contains_key(&signature) {
        bail_invalid!("State function {shown} isn't a scalar function");
    }
    let Some(function) = keyspace.functions.get(&signature) else {
        bail_invalid!("State function {shown} doesn't exist");
    };
    if function.returns != *state_type {
        bail_invalid!(
            "State function {shown} return type must be the same as the first argument type - check STYPE, argument \
             and return types"
        );
    }
    Ok(function.clone())
}

fn final_function(
    statement: &CreateAggregate,
    keyspace: &Keyspace,
    state_type: &DataType,
) -> Result<Option<Arc<UserFunction>>> {
    let Some(name) = &statement.final_function else { return Ok(None) };
    let shown = shown_function(&keyspace.name, name, &[&statement.state_type]);
    let signature = Signature::new(name, [state_type]);
    if keyspace.aggregates.contains_key(&signature) {
        bail_invalid!("Final function {shown} isn't a scalar function");
    }
    match keyspace.functions.get(&signature) {
        Some(function) => Ok(Some(function.clone())),
        None => bail_invalid!("Final function {shown} doesn't exist"),
    }
}

fn shown_function(keyspace: &str, name: &str, types: &[&CqlType]) -> String {
    let types: Vec<String> = types.iter().map(|raw| raw_text(raw, false)).collect();
    format!("{keyspace}.{name}({})", types.join(", "))
}

/// Returns the value of INITCOND.
///
/// # Errors
/// Invalid, with Cassandra's texts, if it is no value of the state's type, or an empty one that
/// means null.
fn initial_value(
    raw: &ast::Term,
    state_type: &DataType,
    keyspace: &Keyspace,
    catalog: &Catalog,
    bound: &BindContext<'_>,
) -> Result<Option<Vec<u8>>> {
    let term = prepare_initial_value(raw, state_type, &keyspace.name, catalog)?;
    if term.contains_marker() {
        bail_invalid!("Invalid INITCOND: bind markers are not supported there");
    }
    let bytes = term.bind(bound)?.value().map(<[u8]>::to_vec);
    if bytes.as_deref().is_some_and(|bytes| state_type.validate(bytes).is_err()) {
        bail_invalid!("Invalid value for INITCOND of type {state_type}");
    }
    if !matches!(raw, ast::Term::Null) && is_null(state_type, bytes.as_deref()) {
        bail_invalid!("INITCOND must not be empty for all types except TEXT, ASCII, BLOB");
    }
    Ok(bytes)
}

pub(super) fn drop(
    statement: &DropFunction,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    let aggregates = |keyspace: &Keyspace| keyspace.aggregates.keys().cloned().collect();
    let found = find_dropped(statement, keyspace, "AGGREGATE", cx, aggregates)?;
    let Some((found, signature)) = found else {
        if statement.if_exists {
            return Ok(None);
        }
        bail_invalid!("Aggregate '{}' doesn't exist", shown_name(statement, keyspace));
    };
    let mut after = (**found).clone();
    after.aggregates.remove(&signature);
    Ok(Some(change(after, SchemaChangeKind::Dropped, SchemaChangeTarget::Aggregate, &signature)))
}
