//! Loads user-defined functions and aggregates.

use std::collections::BTreeMap;
use std::sync::Arc;

use cassette_cql::values::functions::{UserAggregate, UserFunction};
use cassette_rows::DataType;

use super::{Loader, resolve_text, unreadable, unreadable_in};
use crate::basics::error::{DatabaseError, Result};
use crate::planning::functions::prepare_initial_value;
use crate::schema::catalog::{Catalog, Keyspace};
use crate::schema::conditions::Term;
use crate::schema::functions::Signature;
use crate::schema::system::encode::StoredRow;

/// Adds functions and aggregates to the keyspaces. Those that refer to something that is missing
/// are omitted, and reported.
pub(super) fn load(loader: &mut Loader<'_>, keyspaces: &mut BTreeMap<String, Keyspace>) -> Result<()> {
    let mut problems = Vec::new();
    loader.rows("functions", |of, row| {
        let Some(keyspace) = keyspaces.get_mut(of) else { return Ok(()) };
        let name = name(&row, of)?;
        match load_function(&row, name, keyspace) {
            Ok(function) => {
                keyspace.functions.insert(Signature::of(&function), Arc::new(function));
            }
            Err(error) => problems.push(format!("function {of}.{name}: {}", reason(&error))),
        }
        Ok(())
    })?;
    loader.rows("aggregates", |of, row| {
        let Some(keyspace) = keyspaces.get_mut(of) else { return Ok(()) };
        let name = name(&row, of)?;
        match load_aggregate(&row, name, keyspace) {
            Ok(aggregate) => {
                keyspace.aggregates.insert(Signature::of_aggregate(&aggregate), Arc::new(aggregate));
            }
            Err(error) => problems.push(format!("aggregate {of}.{name}: {}", reason(&error))),
        }
        Ok(())
    })?;
    loader.problems.append(&mut problems);
    Ok(())
}

fn reason(error: &DatabaseError) -> String {
    let text = error.to_string();
    text.strip_prefix(super::UNREADABLE).unwrap_or(&text).to_owned()
}

fn name<'a>(row: &StoredRow<'a>, keyspace: &str) -> Result<&'a str> {
    row.clustering_text(0)
        .ok_or_else(|| unreadable(format!("a function without name in keyspace {keyspace}")))
}

/// Returns the types of the arguments, which are clustering values.
fn argument_types(row: &StoredRow<'_>, keyspace: &Keyspace) -> Result<Vec<DataType>> {
    let types = row.clustering_list(1).unwrap_or_default();
    types.iter().map(|text| resolve_text(text, keyspace)).collect()
}

fn required<'a>(row: &StoredRow<'a>, column: &str) -> Result<&'a str> {
    row.text(column).ok_or_else(|| unreadable(format!("{column} is missing")))
}

fn load_function(row: &StoredRow<'_>, name: &str, keyspace: &Keyspace) -> Result<UserFunction> {
    let types = argument_types(row, keyspace)?;
    let names = row.text_list("argument_names").unwrap_or_default();
    if names.len() != types.len() {
        return Err(unreadable("the numbers of its arguments and of their names differ"));
    }
    Ok(UserFunction {
        keyspace: keyspace.name.clone(),
        name: name.to_owned(),
        arguments: names.into_iter().zip(types).collect(),
        returns: resolve_text(required(row, "return_type")?, keyspace)?,
        called_on_null_input: row.boolean("called_on_null_input").unwrap_or(false),
        language: required(row, "language")?.to_owned(),
        body: row.text("body").unwrap_or_default().to_owned(),
    })
}

fn load_aggregate(row: &StoredRow<'_>, name: &str, keyspace: &Keyspace) -> Result<UserAggregate> {
    let arguments = argument_types(row, keyspace)?;
    let state_type = resolve_text(required(row, "state_type")?, keyspace)?;
    let function = |name: &str, signature: Signature| {
        let function = keyspace.functions.get(&signature);
        function.cloned().ok_or_else(|| {
            unreadable(format!("its function {name}({}) is missing", signature.types.join(", ")))
        })
    };
    let state_name = required(row, "state_func")?;
    let state_types = std::iter::once(&state_type).chain(&arguments);
    let state_function = function(state_name, Signature::new(state_name, state_types))?;
    let final_function = match row.text("final_func") {
        Some(name) => Some(function(name, Signature::new(name, [&state_type]))?),
        None => None,
    };
    let initial_value = match row.text("initcond") {
        Some(text) => initial_value(text, &state_type, keyspace)?,
        None => None,
    };
    Ok(UserAggregate {
        keyspace: keyspace.name.clone(),
        name: name.to_owned(),
        arguments,
        state_function,
        final_function,
        initial_value,
    })
}

/// Returns the value of a literal as it is stored.
fn initial_value(text: &str, state_type: &DataType, keyspace: &Keyspace) -> Result<Option<Vec<u8>>> {
    let raw = cassette_cql::parse_term(text).map_err(|error| unreadable_in(text, error))?;
    match prepare_initial_value(&raw, state_type, &keyspace.name, &Catalog::default())? {
        Term::Null => Ok(None),
        Term::Value(bytes) => Ok(Some(bytes.to_vec())),
        _ => Err(unreadable(format!("INITCOND {text} is no constant"))),
    }
}
