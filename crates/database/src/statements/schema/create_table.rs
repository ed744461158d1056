//! CREATE TABLE.

use std::sync::Arc;

use cassette_cql::ast;
use cassette_rows::TableMetadata;

use super::{Change, SchemaContext, keyspace_to_change, masks};
use crate::basics::error::{DatabaseError, Result, bail_config};
use crate::basics::response::SchemaChangeKind;
use crate::schema::catalog::TypeUse;
use crate::schema::options::table_definition::{Options, build, check_column_count, primary_key};
use crate::schema::options::table_params;

/// The maximum length of a table name: its directory appends `-` and 32 hex digits, and file names
/// are limited to 255 bytes.
const TABLE_NAME_LENGTH: usize = 255 - 32 - 1;

pub(crate) fn create(
    statement: &ast::CreateTable,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    let name = statement.name.name.as_str();
    let (partition_key, clustering) = primary_key(statement)?;
    if statement.columns.iter().any(|column| column.mask.is_some()) {
        masks::ensure_enabled(cx)?;
    }
    let verdict = cx.guard.table_properties(&statement.properties)?;
    let properties = verdict.of(&statement.properties);
    table_params::check(properties)?;
    cx.guard.columns_of_table(name, statement.columns.len())?;
    check_column_count(name, statement.columns.len())?;
    cx.guard.new_table(name, cx.catalog)?;
    if statement.is_compact {
        cx.guard.new_compact_table()?;
    }
    let keyspace = keyspace_to_change(keyspace, cx)?;
    if keyspace.tables.contains_key(name) {
        if statement.if_not_exists {
            return Ok(None);
        }
        return Err(DatabaseError::AlreadyExists { keyspace: keyspace.name.clone(), table: name.to_owned() });
    }
    let scope = TypeUse { keyspace: &keyspace.name, types: &keyspace.types };
    let options = Options { properties, defaults: cx.default_params };
    let masks = masks::of_new_table(statement, keyspace, cx)?;
    let table = build(statement, partition_key, clustering, (scope, options), cx.new_id)?;
    let table = masks::with_masks(table, &masks);
    for column in &statement.columns {
        if let Some(column) = table.column(column.name.as_str()) {
            cx.guard.vectors(&format!("Column {}", column.name), &column.data_type)?;
        }
    }
    cx.guard.uncompressed(&table.params)?;
    cx.guard.zero_ttl(&table.params)?;
    validate_name(&table)?;
    if let Some(other) = cx.catalog.table_by_id(table.id) {
        bail_config!("Table id {} is taken by table {}", table.id.0, other.qualified_name());
    }
    let after = keyspace.with_table(Arc::new(table));
    Ok(Some(Change::of_table(SchemaChangeKind::Created, after, name)))
}

pub(crate) fn validate_name(table: &TableMetadata) -> Result<()> {
    let name = &table.name;
    if !crate::statements::schema::is_word(name) {
        bail_config!(
            "{}.{name}: Table name must not be empty or not contain non-alphanumeric-underscore characters \
             (got \"{name}\")",
            table.keyspace
        );
    }
    if name.len() > TABLE_NAME_LENGTH {
        bail_config!(
            "{}.{name}: Table name must not be more than {TABLE_NAME_LENGTH} characters long (got {} characters \
             for \"{name}\")",
            table.keyspace,
            name.len()
        );
    }
    Ok(())
}
