//! Tables from CREATE TABLE: user tables and system tables.

use std::collections::{HashMap, HashSet};

use cassette_cql::ast::{self, CqlType, Direction, NativeType};
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, Layout, TableId, TableMetadata, TableParams};
use uuid::Uuid;

use super::{compact_storage, table_params};
use crate::basics::error::{Result, bail_config, bail_invalid};
use crate::schema::catalog::{TypeUse, resolve_clustering_type, resolve_type};

/// Rejects more columns than a table can have. `count` includes key columns, and dropped columns
/// that keep their ids.
pub(crate) fn check_column_count(table: &str, count: usize) -> Result<()> {
    if count > TableMetadata::COLUMNS_MAX {
        bail_invalid!(
            "too many columns in table {table}, dropped columns included: expected at most {}, found {count}",
            TableMetadata::COLUMNS_MAX
        );
    }
    Ok(())
}

/// Returns a system table with Cassandra's id: a digest of its names.
///
/// # Panics
/// If `cql` is not a valid CREATE TABLE; it is a constant.
pub(crate) fn own_table(keyspace: &str, cql: &str) -> TableMetadata {
    let parsed = cassette_cql::parse(cql).unwrap_or_else(|error| panic!("{cql}: {error}"));
    let ast::Statement::CreateTable(statement) = parsed.statement else { panic!("{cql}: no CREATE TABLE") };
    let types = Default::default();
    let scope = TypeUse { keyspace, types: &types };
    let name = statement.name.name.as_str();
    let defaults = TableParams::default();
    let build = || {
        let (partition_key, clustering) = primary_key(&statement)?;
        let options = Options { properties: &statement.properties, defaults: &defaults };
        build(&statement, partition_key, clustering, (scope, options), own_table_id(keyspace, name))
    };
    build().unwrap_or_else(|error| panic!("{cql}: {error}"))
}

/// `UUID.nameUUIDFromBytes` of the names: version 3 without a name space.
fn own_table_id(keyspace: &str, table: &str) -> Uuid {
    use md5::{Digest, Md5};
    let mut digest = Md5::new();
    digest.update(keyspace.as_bytes());
    digest.update(table.as_bytes());
    uuid::Builder::from_md5_bytes(digest.finalize().into()).into_uuid()
}

/// Returns the declared primary key: partition key and clustering columns.
pub(crate) fn primary_key(statement: &ast::CreateTable) -> Result<(&[ast::Identifier], &[ast::Identifier])> {
    let name = &statement.name;
    let columns = &statement.columns;
    let mut names = HashSet::with_capacity(columns.len());
    for column in columns {
        if !names.insert(column.name.as_str()) {
            bail_invalid!(
                "Duplicate column '{}' declaration for table '{}'",
                column.name.as_str(),
                display_name(name)
            );
        }
    }
    let order = &statement.clustering_order;
    let mut names = HashSet::with_capacity(order.len());
    for (column, _) in order {
        if !names.insert(column.as_str()) {
            bail_invalid!(
                "Duplicate column '{}' in CLUSTERING ORDER BY clause for table '{}'",
                column.as_str(),
                display_name(name)
            );
        }
    }
    match &statement.primary_keys[..] {
        [] => {
            bail_invalid!("No PRIMARY KEY specifed for table '{}' (exactly one required)", display_name(name))
        }
        [only] => Ok((&only.partition_key, &only.clustering)),
        _ => {
            bail_invalid!(
                "Multiple PRIMARY KEY specified for table '{}' (exactly one required)",
                display_name(name)
            )
        }
    }
}

fn display_name(name: &ast::QualifiedName) -> String {
    match &name.keyspace {
        Some(keyspace) => format!("{}.{}", keyspace.as_str(), name.name.as_str()),
        None => name.name.as_str().to_owned(),
    }
}

/// The options of a new table: those of the statement take precedence over `defaults`.
#[derive(Clone, Copy)]
pub(crate) struct Options<'a> {
    pub properties: &'a ast::Properties,
    pub defaults: &'a TableParams,
}

/// Returns the table that `statement` declares, with `options` and without masks. Its id is
/// `new_id` unless an option specifies one.
pub(crate) fn build(
    statement: &ast::CreateTable,
    partition_key: &[ast::Identifier],
    clustering: &[ast::Identifier],
    (scope, options): (TypeUse<'_>, Options<'_>),
    new_id: Uuid,
) -> Result<TableMetadata> {
    let name = statement.name.name.as_str();
    let params = table_params::read(options.properties, options.defaults)?;
    // Sorted by name, which determines whose error is returned.
    let mut declared: Vec<_> = statement.columns.iter().collect();
    declared.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
    let resolve = |column: &&ast::ColumnDefinition| {
        if clustering.contains(&column.name) {
            resolve_clustering_type(&column.column_type, scope)
        } else {
            resolve_type(&column.column_type, scope).map(|data_type| (data_type, false))
        }
    };
    let resolved: Result<Vec<_>> = declared.iter().map(resolve).collect();
    let (types, reversed_by_type): (Vec<_>, Vec<_>) = resolved?.into_iter().unzip();
    for data_type in &types {
        refuse_nested_multi_cell(data_type, "")?;
    }
    let find = |column: &ast::Identifier| {
        declared.binary_search_by(|declared| declared.name.as_str().cmp(column.as_str())).ok()
    };
    let key_columns = || partition_key.iter().chain(clustering);
    let mut keys = HashSet::new();
    for column in key_columns() {
        let Some(index) = find(column) else {
            bail_invalid!(
                "Unknown column '{}' referenced in PRIMARY KEY for table '{name}'",
                column.as_str()
            );
        };
        if !keys.insert(column.as_str()) {
            bail_invalid!("Duplicate column '{}' in PRIMARY KEY clause for table '{name}'", column.as_str());
        }
        validate_key_column(declared[index], &types[index])?;
    }
    let reversed = clustering_directions(&statement.clustering_order, clustering)?;
    let others: Vec<(&ast::ColumnDefinition, &DataType)> = declared
        .iter()
        .copied()
        .zip(&types)
        .filter(|(column, _)| !keys.contains(column.name.as_str()))
        .collect();
    validate_statics(statement, &others, clustering.len())?;
    validate_counters(statement, (&declared, &types), &others, (scope, &params))?;
    let places = places_in_key(partition_key, clustering);
    let columns = declared.iter().zip(types).zip(reversed_by_type).map(|((column, data_type), by_type)| {
        let (kind, position) = match places.get(column.name.as_str()) {
            Some(place) => *place,
            None if column.is_static => (ColumnKind::Static, 0),
            None => (ColumnKind::Regular, 0),
        };
        ColumnMetadata {
            // Reversed twice, the order is ascending, as in Cassandra.
            reversed: kind == ColumnKind::Clustering && by_type != reversed[position],
            ..ColumnMetadata::new(column.name.as_str(), kind, position, data_type)
        }
    });
    let id = TableId(table_params::table_id(options.properties)?.unwrap_or(new_id));
    let mut columns = columns.collect();
    let mut layout = Layout::Cql;
    if statement.is_compact {
        layout = compact_storage::layout(clustering.len());
        compact_storage::complete(&mut columns, layout);
        check_column_count(name, columns.len())?;
    }
    let mut table = TableMetadata::new(id, scope.keyspace, name, columns, params);
    table.layout = layout;
    Ok(table)
}

/// Checks the static columns, and with COMPACT STORAGE all columns outside the key, of a table with
/// `clustering` clustering columns.
fn validate_statics(
    statement: &ast::CreateTable,
    others: &[(&ast::ColumnDefinition, &DataType)],
    clustering: usize,
) -> Result<()> {
    let has_statics = statement.columns.iter().any(|column| column.is_static);
    if statement.is_compact {
        let others: Vec<_> = others.iter().map(|(column, of)| (column.name.as_str(), *of)).collect();
        compact_storage::validate(&others, has_statics, clustering)
    } else if clustering == 0 && has_statics {
        bail_invalid!(
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
        )
    } else {
        Ok(())
    }
}

/// Checks that all columns outside the key are counters, or none.
fn validate_counters(
    statement: &ast::CreateTable,
    (declared, types): (&[&ast::ColumnDefinition], &[DataType]),
    others: &[(&ast::ColumnDefinition, &DataType)],
    (scope, params): (TypeUse<'_>, &TableParams),
) -> Result<()> {
    if statement.columns.iter().any(|column| is_counter(&column.column_type)) {
        if others.iter().any(|(_, data_type)| **data_type != DataType::Counter) {
            bail_invalid!("Cannot mix counter and non counter columns in the same table");
        }
        if params.default_time_to_live > 0 {
            bail_invalid!("Cannot set default_time_to_live on a table with counters");
        }
    }
    // The counter type is specified by its class; only the type's name makes a counter table.
    else if let Some(index) = types.iter().position(|data_type| *data_type == DataType::Counter) {
        bail_config!(
            "{}.{}: Cannot have a counter column (\"{}\") in a non counter table",
            scope.keyspace,
            statement.name.name.as_str(),
            declared[index].name.as_str()
        );
    }
    Ok(())
}

fn is_counter(raw: &CqlType) -> bool {
    matches!(raw, CqlType::Native(NativeType::Counter))
}

/// Rejects non-frozen UDTs with non-frozen fields: each field is one cell, and cannot have several.
pub(crate) fn refuse_nested_multi_cell(data_type: &DataType, suffix: &str) -> Result<()> {
    if let DataType::Udt { definition, frozen: false } = data_type
        && definition.fields.iter().any(|(_, field)| field.is_multi_cell())
    {
        bail_invalid!("Non-frozen UDTs with nested non-frozen collections are not supported{suffix}");
    }
    Ok(())
}

/// Returns the kinds and positions of the columns of a primary key.
fn places_in_key<'a>(
    partition_key: &'a [ast::Identifier],
    clustering: &'a [ast::Identifier],
) -> HashMap<&'a str, (ColumnKind, usize)> {
    let places = |kind: ColumnKind, columns: &'a [ast::Identifier]| {
        columns.iter().enumerate().map(move |(at, column)| (column.as_str(), (kind, at)))
    };
    places(ColumnKind::PartitionKey, partition_key)
        .chain(places(ColumnKind::Clustering, clustering))
        .collect()
}

fn validate_key_column(column: &ast::ColumnDefinition, data_type: &DataType) -> Result<()> {
    let name = column.name.as_str();
    match data_type {
        DataType::Udt { frozen: false, definition } => {
            // Cassandra treats the two names as one, which has to be quoted.
            bail_invalid!(
                "Invalid non-frozen user-defined type \"{}.{}\" for PRIMARY KEY column '{name}'",
                definition.keyspace,
                definition.name
            )
        }
        multi if multi.is_multi_cell() => {
            bail_invalid!("Invalid non-frozen collection type {multi} for PRIMARY KEY column '{name}'")
        }
        DataType::Counter => bail_invalid!("counter type is not supported for PRIMARY KEY column '{name}'"),
        duration if duration.contains_duration() => {
            bail_invalid!("duration type is not supported for PRIMARY KEY column '{name}'")
        }
        _ if column.is_static => bail_invalid!("Static column '{name}' cannot be part of the PRIMARY KEY"),
        _ => Ok(()),
    }
}

/// Returns for each clustering column whether its order is descending. The directive names a prefix
/// of them, in their order.
fn clustering_directions(
    order: &[(ast::Identifier, Direction)],
    clustering: &[ast::Identifier],
) -> Result<Vec<bool>> {
    let columns: HashSet<&str> = clustering.iter().map(ast::Identifier::as_str).collect();
    let strangers: Vec<&str> = order
        .iter()
        .filter(|(column, _)| !columns.contains(column.as_str()))
        .map(|(column, _)| column.as_str())
        .collect();
    if !strangers.is_empty() {
        bail_invalid!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not clustering columns",
            strangers.join(", ")
        );
    }
    for ((column, _), expected) in order.iter().zip(clustering) {
        if column == expected {
            continue;
        }
        if order.iter().any(|(column, _)| column == expected) {
            bail_invalid!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the clustering \
                 columns ({} must appear before {})",
                expected.as_str(),
                column.as_str()
            );
        }
        bail_invalid!("Missing CLUSTERING ORDER for column {}", expected.as_str());
    }
    // The directive was checked to be a prefix of the clustering columns.
    let descends = |at: usize| order.get(at).is_some_and(|(_, direction)| *direction == Direction::Desc);
    Ok((0..clustering.len()).map(descends).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_among_very_many_columns_is_found_in_one_pass() {
        // Comparing each column with all previous ones would take minutes.
        let columns: Vec<String> = (0..150_000).map(|n| format!("c{n} int")).collect();
        let cql = format!("CREATE TABLE ks.t (k int PRIMARY KEY, {}, c7 int)", columns.join(", "));
        let parsed = cassette_cql::parse(&cql).unwrap();
        let ast::Statement::CreateTable(statement) = parsed.statement else { panic!("no CREATE TABLE") };
        let error = primary_key(&statement).unwrap_err().to_string();
        assert_eq!(error, "Duplicate column 'c7' declaration for table 'ks.t'");
    }
}
