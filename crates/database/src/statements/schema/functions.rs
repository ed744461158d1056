//! CREATE and DROP FUNCTION, and what both share with aggregates.

use std::collections::HashSet;
use std::sync::Arc;

use cassette_cql::ast::{CqlType, CreateFunction, DropFunction};
use cassette_cql::values::functions::UserFunction;
use cassette_functions::CallError;
use cassette_rows::DataType;

use super::{Change, KeyspaceChange, SchemaContext, keyspace_to_change};
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::response::{SchemaChange, SchemaChangeKind, SchemaChangeTarget};
use crate::schema::catalog::{Keyspace, TypeUse, raw_text, resolve_type};
use crate::schema::functions::Signature;

pub(super) fn create(
    statement: &CreateFunction,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    let name = statement.name.name.as_str();
    refuse_both_directives(statement.if_not_exists, statement.or_replace)?;
    cx.functions.check_enabled(&statement.language).map_err(compile_error)?;
    if !is_name_valid(name) {
        bail_invalid!("Function name '{name}' is invalid");
    }
    let names: Vec<&str> = statement.arguments.iter().map(|(argument, _)| argument.as_str()).collect();
    if names.iter().collect::<HashSet<_>>().len() != names.len() {
        bail_invalid!(
            "Duplicate argument names for given function {name} with argument names [{}]",
            names.join(", ")
        );
    }
    statement.arguments.iter().try_for_each(|(_, raw)| refuse_frozen("Argument", raw))?;
    refuse_frozen("Return type", &statement.return_type)?;
    let keyspace = keyspace_to_change(keyspace, cx)?;
    let scope = TypeUse { keyspace: &keyspace.name, types: &keyspace.types };
    let mut arguments = Vec::with_capacity(names.len());
    for (argument, raw) in &statement.arguments {
        arguments.push((argument.as_str().to_owned(), resolve_type(raw, scope)?));
    }
    let function = Arc::new(UserFunction {
        keyspace: keyspace.name.clone(),
        name: name.to_owned(),
        arguments,
        returns: resolve_type(&statement.return_type, scope)?,
        called_on_null_input: statement.called_on_null_input,
        language: statement.language.to_string(),
        body: statement.body.to_string(),
    });
    cx.functions.check(&function).map_err(compile_error)?;
    let signature = Signature::of(&function);
    if keyspace.aggregates.contains_key(&signature) {
        bail_invalid!("Function '{name}' cannot replace an aggregate");
    }
    let existing = keyspace.functions.get(&signature);
    if let Some(existing) = existing {
        if statement.if_not_exists {
            return Ok(None);
        }
        if !statement.or_replace {
            bail_invalid!("Function '{name}' already exists");
        }
        if statement.called_on_null_input != existing.called_on_null_input {
            let directive = if statement.called_on_null_input { "CALLED" } else { "RETURNS NULL" };
            bail_invalid!("Function '{name}' must have {directive} ON NULL INPUT directive");
        }
        if !function.returns.is_compatible_with(&existing.returns) {
            bail_invalid!(
                "Cannot replace function '{name}', the new return type {} is not compatible with the return type \
                 {} of existing function",
                function.returns,
                existing.returns
            );
        }
        if **existing == *function {
            return Ok(None);
        }
    }
    let kind = if existing.is_some() { SchemaChangeKind::Updated } else { SchemaChangeKind::Created };
    let mut after = (**keyspace).clone();
    after.put_function(&function);
    Ok(Some(change(after, kind, SchemaChangeTarget::Function, &signature)))
}

pub(super) fn drop(
    statement: &DropFunction,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    let shown = shown_name(statement, keyspace);
    let functions = |keyspace: &Keyspace| keyspace.functions.keys().cloned().collect();
    let found = find_dropped(statement, keyspace, "FUNCTION", cx, functions)?;
    let Some((keyspace, signature)) = found else {
        if statement.if_exists {
            return Ok(None);
        }
        bail_invalid!("Function '{shown}' doesn't exist");
    };
    let mut after = (**keyspace).clone();
    if let Some(function) = after.functions.remove(&signature) {
        let users: Vec<String> = keyspace
            .aggregates_using(&function)
            .map(|aggregate| format!("{}.{}", aggregate.keyspace, aggregate.name))
            .collect();
        if !users.is_empty() {
            bail_invalid!("Function '{shown}' is still referenced by aggregates {}", users.join(", "));
        }
    }
    Ok(Some(change(after, SchemaChangeKind::Dropped, SchemaChangeTarget::Function, &signature)))
}

/// Returns the name of a dropped function in messages.
pub(super) fn shown_name(statement: &DropFunction, keyspace: &str) -> String {
    let types = |types: &Vec<CqlType>| {
        format!("({})", types.iter().map(|raw| raw_text(raw, false)).collect::<Vec<_>>().join(", "))
    };
    let arguments = statement.arguments.as_ref().map(types).unwrap_or_default();
    format!("{keyspace}.{}{arguments}", statement.name.name.as_str())
}

/// Returns what a DROP refers to among the signatures that `of` returns.
///
/// # Errors
/// Invalid, with Cassandra's texts, for a name with several signatures, and for arguments that
/// cannot be those of a function.
pub(super) fn find_dropped<'a>(
    statement: &DropFunction,
    keyspace: &str,
    what: &str,
    cx: &SchemaContext<'a>,
    of: impl FnOnce(&Keyspace) -> Vec<Signature>,
) -> Result<Option<(&'a Arc<Keyspace>, Signature)>> {
    let name = statement.name.name.as_str();
    let Some(keyspace) = cx.catalog.keyspace(keyspace) else { return Ok(None) };
    let overloads = keyspace.functions_named(name).count() + keyspace.aggregates_named(name).count();
    let mut found = of(keyspace);
    found.retain(|signature| signature.name == name);
    match &statement.arguments {
        None if overloads > 1 => bail_invalid!(
            "'DROP {what} {name}' matches multiple function definitions; specify the argument types by issuing a \
             statement like 'DROP {what} {name} (type, type, ...)'. You can use cqlsh 'DESCRIBE {what} {name}' \
             command to find all overloads"
        ),
        None => {}
        Some(arguments) => {
            arguments.iter().try_for_each(|raw| refuse_frozen("Argument", raw))?;
            let types = resolve_each(arguments, keyspace)?;
            let wanted = Signature::new(name, &types);
            found.retain(|signature| *signature == wanted);
        }
    }
    Ok(found.pop().map(|signature| (keyspace, signature)))
}

/// Resolves the types of arguments.
pub(super) fn resolve_each(raw: &[CqlType], keyspace: &Keyspace) -> Result<Vec<DataType>> {
    let scope = TypeUse { keyspace: &keyspace.name, types: &keyspace.types };
    raw.iter().map(|raw| resolve_type(raw, scope)).collect()
}

pub(super) fn refuse_both_directives(if_not_exists: bool, or_replace: bool) -> Result<()> {
    if if_not_exists && or_replace {
        bail_invalid!("Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives");
    }
    Ok(())
}

/// Rejects a type that is declared frozen: arguments are whole values in any case.
pub(super) fn refuse_frozen(what: &str, raw: &CqlType) -> Result<()> {
    match raw {
        CqlType::Frozen(inner) if !matches!(**inner, CqlType::Tuple(_) | CqlType::Vector(..)) => {
            let text = raw_text(raw, false);
            bail_invalid!("{what} '{text}' cannot be frozen; remove frozen<> modifier from '{text}'")
        }
        _ => Ok(()),
    }
}

/// Whether a function can have this name, which becomes a part of the names of resources.
pub(super) fn is_name_valid(name: &str) -> bool {
    !name.contains(['/', '[', ']'])
}

/// Returns the change of a function or aggregate of the keyspace `after`.
pub(super) fn change(
    after: Keyspace,
    kind: SchemaChangeKind,
    target: SchemaChangeTarget,
    signature: &Signature,
) -> Change {
    let event = event(kind, target, &after.name, signature);
    Change { keyspace: KeyspaceChange::Put(after), event, warnings: Vec::new() }
}

/// Returns the event of a function or aggregate.
pub(super) fn event(
    kind: SchemaChangeKind,
    target: SchemaChangeTarget,
    keyspace: &str,
    signature: &Signature,
) -> SchemaChange {
    SchemaChange {
        kind,
        target,
        keyspace: keyspace.to_owned(),
        name: signature.name.clone(),
        arguments: signature.types.clone(),
    }
}

fn compile_error(error: CallError) -> DatabaseError {
    match error {
        CallError::Refused(message) => DatabaseError::Invalid(message),
        CallError::Failed(reason) => {
            DatabaseError::Invalid(format!("Lua source compilation failed:\n{reason}"))
        }
        CallError::Interrupted(reason) => DatabaseError::Interrupted(reason),
    }
}
