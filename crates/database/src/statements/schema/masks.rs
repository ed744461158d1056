//! `MASKED WITH …`: the masks that schema statements attach to columns.

use std::fmt;
use std::sync::Arc;

use cassette_cql::ast;
use cassette_cql::values::class_text::{from_class_text, to_class_text};
use cassette_cql::values::functions::{self, Argument, Function, ScalarFunction, TypedArgument};
use cassette_rows::types::DataType;
use cassette_rows::{ColumnMask, TableMetadata};

use super::SchemaContext;
use crate::basics::error::{Result, bail_invalid};
use crate::basics::response::ColumnSpec;
use crate::planning::context::PlanContext;
use crate::planning::terms::{Bound, TermArgument};
use crate::schema::catalog::{Keyspace, TypeUse, resolve_type};
use crate::schema::conditions::Term;

/// Rejects masks unless `dynamic_data_masking_enabled` is set.
pub(crate) fn ensure_enabled(cx: &SchemaContext<'_>) -> Result<()> {
    if !cx.dynamic_data_masking_enabled {
        bail_invalid!(
            "Cannot mask columns because dynamic data masking is not enabled. Set \
             `dynamic_data_masking_enabled: true` in the configuration file (--config) to enable \
             it."
        );
    }
    Ok(())
}

/// The column that a mask is for.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub keyspace: &'a str,
    pub table: &'a str,
    pub column: &'a str,
    pub data_type: &'a DataType,
}

/// Returns the table of a CREATE TABLE with the masks of its columns.
///
/// # Errors
/// As [`prepare`], for the first column by name.
pub(crate) fn of_new_table(
    statement: &ast::CreateTable,
    keyspace: &Keyspace,
    cx: &SchemaContext<'_>,
) -> Result<Vec<(String, Arc<ColumnMask>)>> {
    let scope = TypeUse { keyspace: &keyspace.name, types: &keyspace.types };
    let mut declared: Vec<_> = statement.columns.iter().collect();
    declared.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
    let mut masks = Vec::new();
    for column in declared {
        let Some(mask) = &column.mask else { continue };
        let data_type = resolve_type(&column.column_type, scope)?;
        let target = Target {
            keyspace: &keyspace.name,
            table: statement.name.name.as_str(),
            column: column.name.as_str(),
            data_type: &data_type,
        };
        masks.push((column.name.as_str().to_owned(), prepare(mask, target, cx)?));
    }
    Ok(masks)
}

/// Returns the same table with these masks.
pub(crate) fn with_masks(table: TableMetadata, masks: &[(String, Arc<ColumnMask>)]) -> TableMetadata {
    if masks.is_empty() {
        return table;
    }
    let version = table.version;
    let mask = |name: &str| masks.iter().find(|(column, _)| column == name).map(|(_, mask)| mask.clone());
    let mut table = table.with_masks(|column| mask(&column.name));
    table.version = version;
    table
}

/// Resolves a mask for a column, and computes its arguments.
///
/// # Errors
/// Invalid, with Cassandra's texts, for functions that are no masks or do not fit the column, and
/// for arguments that `system_schema` cannot represent.
pub(crate) fn prepare(
    raw: &ast::ColumnMask,
    target: Target<'_>,
    cx: &SchemaContext<'_>,
) -> Result<Arc<ColumnMask>> {
    ensure_enabled(cx)?;
    let mut planning = PlanContext::of_schema(cx.catalog);
    let function = resolve(raw, target, &planning)?;
    let mut arguments = Vec::with_capacity(raw.arguments.len());
    for (i, (term, data_type)) in raw.arguments.iter().zip(function.arguments.iter().skip(1)).enumerate() {
        let receiver = Arc::new(ColumnSpec {
            keyspace: target.keyspace.into(),
            table: target.table.into(),
            name: format!("arg{}(system.{})", i + 1, function.name).into(),
            data_type: data_type.clone(),
        });
        let term = Term::prepare(term, &receiver, &mut planning)?;
        if term.contains_marker() {
            bail_invalid!("invalid mask of column {}: bind markers are not supported there", target.column);
        }
        let value = match term.bind(cx.bound)? {
            Bound::Value(bytes) => Some(bytes.into_owned()),
            Bound::Null | Bound::Unset => None,
        };
        if let Some(value) = &value {
            require_stored_form(raw, target, data_type, value)?;
        }
        arguments.push(value);
    }
    Ok(Arc::new(ColumnMask { function: function.name, arguments }))
}

fn resolve(raw: &ast::ColumnMask, target: Target<'_>, cx: &PlanContext<'_>) -> Result<ScalarFunction> {
    let shown = Shown(raw);
    let name = raw.function.name.as_str();
    let column = TypedArgument { data_type: target.data_type.clone(), text: target.data_type.class_name() };
    let further: Vec<_> =
        raw.arguments.iter().map(|raw| TermArgument { raw, keyspace: target.keyspace, cx }).collect();
    let mut known: Vec<&dyn Argument> = vec![&column];
    known.extend(further.iter().map(|argument| argument as &dyn Argument));
    let is_native = raw.function.keyspace.as_ref().is_none_or(|keyspace| *keyspace == "system");
    let found = if is_native { functions::resolve(name, &known, Some(target.data_type))? } else { None };
    let function = match found {
        None => bail_invalid!(
            "Unable to find masking function for {}, no declared function matches the signature {shown}",
            target.column
        ),
        Some(Function::Aggregate(_)) => {
            bail_invalid!("Aggregate function {shown} cannot be used for masking table columns")
        }
        Some(Function::Scalar(_)) if !functions::is_masking(name) => {
            bail_invalid!("Not-masking function {shown} cannot be used for masking table columns")
        }
        Some(Function::Scalar(function)) => function,
    };
    if function.returns != *target.data_type {
        bail_invalid!(
            "Masking function {shown} return type is {}. This is different to the type of the masked column \
             {} of type {}. Masking functions can only be attached to table columns if they return the same \
             data type as the masked column.",
            function.returns,
            target.column,
            target.data_type
        );
    }
    Ok(function)
}

/// Rejects arguments that the next start would read otherwise: Cassandra's texts of tuples are
/// ambiguous where an item ends with a backslash.
fn require_stored_form(
    raw: &ast::ColumnMask,
    target: Target<'_>,
    data_type: &DataType,
    value: &[u8],
) -> Result<()> {
    let text = to_class_text(data_type, value);
    if from_class_text(data_type, &text).ok().as_deref() != Some(value) {
        bail_invalid!(
            "invalid mask of column {}: system_schema.column_masks cannot represent the arguments of {}",
            target.column,
            Shown(raw)
        );
    }
    Ok(())
}

/// Formats a mask as in Cassandra's messages.
struct Shown<'a>(&'a ast::ColumnMask);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = &self.0.function;
        if let Some(keyspace) = &function.keyspace {
            write!(f, "{}.", keyspace.as_str())?;
        }
        let text = |term: &ast::Term| match term {
            ast::Term::Null => "NULL".to_owned(),
            term => term.to_string(),
        };
        let arguments: Vec<_> = self.0.arguments.iter().map(text).collect();
        write!(f, "{}({})", function.name.as_str(), arguments.join(", "))
    }
}
