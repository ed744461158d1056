//! ALTER TABLE and DROP TABLE.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cassette_cql::ast::{self, AlterTableChange};
use cassette_cql::values::accepts_cells;
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, TableMetadata, TableParams};

use super::indexes::dependent_indexes;
use super::{Change, SchemaContext, indexes, masks, views};
use crate::basics::error::{Result, bail_config, bail_invalid};
use crate::basics::response::SchemaChangeKind;
use crate::planning::restrictions::existing;
use crate::schema::catalog::{Keyspace, TypeUse, resolve_type};
use crate::schema::guardrails::Verdict;
use crate::schema::options::table_definition::{check_column_count, refuse_nested_multi_cell};
use crate::schema::options::table_params;
use crate::schema::system::schema_rows::without_user_types;

pub(crate) fn alter(
    statement: &ast::AlterTable,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    let name = statement.name.name.as_str();
    if let AlterTableChange::Mask { mask: Some(_), .. } = &statement.change {
        masks::ensure_enabled(cx)?;
    }
    let verdict = match &statement.change {
        AlterTableChange::Properties(properties) => {
            let verdict = cx.guard.table_properties(properties)?;
            table_params::check(verdict.of(properties))?;
            verdict
        }
        _ => Verdict::AsGiven,
    };
    let found = cx.catalog.keyspace(keyspace).and_then(|found| Some((found, found.tables.get(name)?)));
    let Some((keyspace, table)) = found else {
        return missing(keyspace, name, statement.if_exists);
    };
    if keyspace.views.contains_key(name) {
        bail_invalid!("Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead");
    }
    let altered = match &statement.change {
        AlterTableChange::AlterType { .. } => bail_invalid!("Altering column types is no longer supported"),
        AlterTableChange::Mask { if_exists, column, mask } => {
            mask_column(table, column, *if_exists, mask.as_ref(), cx)?
        }
        AlterTableChange::DropCompactStorage => {
            if !cx.drop_compact_storage_enabled {
                bail_invalid!(
                    "DROP COMPACT STORAGE is disabled. Set `drop_compact_storage_enabled: true` \
                     in the configuration file (--config) to use it."
                );
            }
            if !table.layout.is_compact() {
                bail_invalid!("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE");
            }
            table.with_compact_storage_dropped()
        }
        AlterTableChange::Add { if_not_exists, columns } => {
            cx.guard.alter_columns()?;
            let altered = add_columns(table, keyspace, columns, *if_not_exists, cx)?;
            check_added(&altered, columns, cx)?;
            altered
        }
        AlterTableChange::Drop { if_exists, columns, timestamp } => {
            cx.guard.alter_columns()?;
            let dropped_at = timestamp.unwrap_or_else(|| whole_millisecond(cx.timestamp));
            drop_columns(table, keyspace, columns, *if_exists, dropped_at)?
        }
        AlterTableChange::Rename { if_exists, columns } => {
            cx.guard.alter_columns()?;
            rename_columns(table, keyspace, columns, *if_exists)?
        }
        AlterTableChange::Properties(properties) => {
            let has_views = keyspace.views_of(table).next().is_some();
            let params = altered_params(verdict.of(properties), table, has_views, cx)?;
            if params == table.params { (**table).clone() } else { table.with_params(params) }
        }
    };
    if altered == **table {
        return Ok(None);
    }
    // One statement creates one new version, however many columns it adds or drops.
    let mut altered = altered;
    altered.version = table.version + 1;
    let altered = Arc::new(altered);
    let after = views::follow_base(keyspace.with_table(altered.clone()), table, &altered)?;
    let warnings = match &statement.change {
        AlterTableChange::Add { .. } => indexes::vector_warnings(&after, &altered),
        _ => Vec::new(),
    };
    Ok(Some(Change { warnings, ..Change::of_table(SchemaChangeKind::Updated, after, name) }))
}

pub(crate) fn drop(
    statement: &ast::DropElement,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    let name = statement.name.name.as_str();
    cx.guard.drop_or_truncate()?;
    let Some(keyspace) = cx.catalog.keyspace(keyspace).filter(|found| found.tables.contains_key(name)) else {
        return missing(keyspace, name, statement.if_exists);
    };
    if keyspace.views.contains_key(name) {
        bail_invalid!(
            "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead."
        );
    }
    if keyspace.tables.get(name).is_some_and(|table| keyspace.views_of(table).next().is_some()) {
        // Cassandra's message contains the keyspace, not the views.
        bail_invalid!("Cannot drop a table when materialized views still depend on it ({})", keyspace.name);
    }
    let mut after = (**keyspace).clone();
    after.tables.remove(name);
    Ok(Some(Change::of_table(SchemaChangeKind::Dropped, after, name)))
}

/// The schema stores the drop time in milliseconds: rounded up, so that it covers the same cells
/// after a restart.
pub(crate) fn whole_millisecond(micros: i64) -> i64 {
    micros.saturating_add(999).div_euclid(1000).saturating_mul(1000)
}

fn missing(keyspace: &str, name: &str, if_exists: bool) -> Result<Option<Change>> {
    if if_exists { Ok(None) } else { bail_invalid!("Table '{keyspace}.{name}' doesn't exist") }
}

/// Returns the options of `table` replaced by those of `properties`.
fn altered_params(
    properties: &ast::Properties,
    table: &TableMetadata,
    has_views: bool,
    cx: &SchemaContext<'_>,
) -> Result<TableParams> {
    // As in Cassandra, the options must be valid with the defaults before they are combined with
    // the table's.
    table_params::read(properties, cx.default_params)?;
    let params = table_params::read(properties, &table.params)?;
    if table_params::table_id(properties)?.is_some() {
        bail_config!("Cannot alter table id.");
    }
    if table.is_counter && params.default_time_to_live > 0 {
        bail_invalid!("Cannot set default_time_to_live on a table with counters");
    }
    if has_views && params.gc_grace_seconds == 0 {
        bail_invalid!(
            "Cannot alter gc_grace_seconds of the base table of a materialized view to 0, since \
             this value is used to TTL undelivered updates. Setting gc_grace_seconds too low might \
             cause undelivered updates to expire before being replayed."
        );
    }
    if properties.get("compression").is_some() {
        cx.guard.uncompressed(&params)?;
    }
    if properties.get("compaction").is_some() {
        cx.guard.zero_ttl(&params)?;
    }
    Ok(params)
}

/// Checks the table with the columns that were added.
fn check_added(
    altered: &TableMetadata,
    added: &[ast::ColumnDefinition],
    cx: &SchemaContext<'_>,
) -> Result<()> {
    refuse_mixed_counters(altered)?;
    for column in added.iter().filter_map(|column| altered.column(column.name.as_str())) {
        cx.guard.vectors(&format!("Column {}", column.name), &column.data_type)?;
    }
    cx.guard.columns_of_table(&altered.name, altered.all_columns().count())
}

/// Renames columns, each from its first to its second name. As in Cassandra, a new name must not be
/// that of a column before the statement, even if that column is renamed, too.
fn rename_columns(
    table: &TableMetadata,
    keyspace: &Keyspace,
    columns: &[(ast::Identifier, ast::Identifier)],
    if_exists: bool,
) -> Result<TableMetadata> {
    // If a column is renamed twice, the last new name counts.
    let last: HashMap<&str, usize> =
        columns.iter().enumerate().map(|(i, (from, _))| (from.as_str(), i)).collect();
    let named_last = |(i, (from, _)): &(usize, &(ast::Identifier, _))| last.get(from.as_str()) == Some(i);
    let columns = columns.iter().enumerate().filter(named_last);
    columns.map(|(_, names)| names).try_fold(table.clone(), |renamed, (from, to)| {
        rename_column(&renamed, table, keyspace, (from, to), if_exists)
    })
}

fn add_columns(
    table: &TableMetadata,
    keyspace: &Keyspace,
    columns: &[ast::ColumnDefinition],
    if_not_exists: bool,
    cx: &SchemaContext<'_>,
) -> Result<TableMetadata> {
    let mut names = HashSet::with_capacity(columns.len());
    let mut added = Vec::with_capacity(columns.len());
    let mut count = table.counted_columns();
    for column in columns {
        let name = column.name.as_str();
        let exists = table.column(name).is_some() || !names.insert(name);
        let Some(column) = column_to_add(table, keyspace, column, (exists, if_not_exists), cx)? else {
            continue;
        };
        // A dropped column reuses its id.
        if !table.dropped_ids.contains_key(name) {
            count += 1;
        }
        check_column_count(&table.name, count)?;
        added.push(column);
    }
    Ok(table.with_columns_added(added))
}

/// Returns the metadata of a column that ALTER TABLE adds; `None` if it exists and IF NOT EXISTS is
/// specified.
fn column_to_add(
    table: &TableMetadata,
    keyspace: &Keyspace,
    column: &ast::ColumnDefinition,
    (exists, if_not_exists): (bool, bool),
    cx: &SchemaContext<'_>,
) -> Result<Option<ColumnMetadata>> {
    let name = column.name.as_str();
    let scope = TypeUse { keyspace: &keyspace.name, types: &keyspace.types };
    let data_type = resolve_type(&column.column_type, scope)?;
    let target =
        masks::Target { keyspace: &keyspace.name, table: &table.name, column: name, data_type: &data_type };
    let mask = column.mask.as_ref().map(|mask| masks::prepare(mask, target, cx)).transpose()?;
    if exists {
        if if_not_exists {
            return Ok(None);
        }
        bail_invalid!("Column with name '{name}' already exists");
    }
    if table.layout.is_compact() {
        bail_invalid!("Cannot add new column to a COMPACT STORAGE table");
    }
    if column.is_static && table.clustering.is_empty() {
        bail_invalid!(
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
        );
    }
    refuse_nested_multi_cell(&data_type, &format!(" for column {name}"))?;
    let kind = if column.is_static { ColumnKind::Static } else { ColumnKind::Regular };
    if let Some(dropped) = table.dropped_columns.get(name) {
        if !is_serialization_compatible(&data_type, &dropped.data_type) {
            bail_invalid!(
                "Cannot add a column '{name}' of type {data_type}, incompatible with previously dropped \
                 column '{name}' of type {}",
                dropped.data_type
            );
        }
        if dropped.kind != kind {
            bail_invalid!(
                "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with previous kind {}",
                kind_name(kind),
                kind_name(dropped.kind)
            );
        }
        if table.is_counter {
            bail_invalid!("Cannot re-add previously dropped counter column {name}");
        }
    }
    Ok(Some(ColumnMetadata { mask, ..ColumnMetadata::new(name, kind, 0, data_type) }))
}

/// Replaces or drops the mask of a column.
fn mask_column(
    table: &TableMetadata,
    name: &ast::Identifier,
    if_exists: bool,
    mask: Option<&ast::ColumnMask>,
    cx: &SchemaContext<'_>,
) -> Result<TableMetadata> {
    let Some(column) = table.column(name) else {
        if if_exists {
            return Ok(table.clone());
        }
        bail_invalid!("Column with name '{}' doesn't exist on table '{}'", name.as_str(), table.name);
    };
    let target = masks::Target {
        keyspace: &table.keyspace,
        table: &table.name,
        column: &column.name,
        data_type: &column.data_type,
    };
    let mask = mask.map(|mask| masks::prepare(mask, target, cx)).transpose()?;
    if mask == column.mask {
        return Ok(table.clone());
    }
    let changed = column.name.as_str();
    Ok(table.with_masks(|column| if column.name == changed { mask.clone() } else { column.mask.clone() }))
}

/// Rejects tables in which only some columns outside the key are counters.
fn refuse_mixed_counters(table: &TableMetadata) -> Result<()> {
    let stored = table.columns.iter().flatten();
    let other = stored.filter(|column| (column.data_type == DataType::Counter) != table.is_counter);
    let Some(column) = other.min_by(|a, b| a.name.cmp(&b.name)) else { return Ok(()) };
    let (a, the) =
        if table.is_counter { ("a non counter", "a counter") } else { ("a counter", "a non counter") };
    bail_config!(
        "{}.{}: Cannot have {a} column (\"{}\") in {the} table",
        table.keyspace,
        table.name,
        column.name
    )
}

/// Whether cells written as `before` can be read as `after`: the same cells, and valid values.
fn is_serialization_compatible(after: &DataType, before: &DataType) -> bool {
    let after = &without_user_types(after);
    // The second is what a start requires of the types in SSTables.
    accepts_cells(after, before) && after.is_value_compatible_with(before)
}

fn kind_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::PartitionKey => "PARTITION_KEY",
        ColumnKind::Clustering => "CLUSTERING",
        ColumnKind::Static => "STATIC",
        ColumnKind::Regular => "REGULAR",
    }
}

fn drop_columns(
    table: &TableMetadata,
    keyspace: &Keyspace,
    columns: &[ast::Identifier],
    if_exists: bool,
    dropped_at: i64,
) -> Result<TableMetadata> {
    let mut names = HashSet::with_capacity(columns.len());
    for column in columns {
        if names.insert(column.as_str()) {
            check_drop(table, keyspace, column, if_exists)?;
        }
    }
    let mut altered = table.with_columns_dropped(names.iter().copied(), dropped_at);
    // Stored dropped columns must not refer to types that can be dropped.
    for name in names.into_iter().filter(|name| table.column(name).is_some()) {
        if let Some(dropped) = altered.dropped_columns.get_mut(name) {
            dropped.data_type = without_user_types(&dropped.data_type);
        }
    }
    Ok(altered)
}

fn check_drop(table: &TableMetadata, keyspace: &Keyspace, name: &str, if_exists: bool) -> Result<()> {
    let Some(column) = table.column(name) else {
        if if_exists {
            return Ok(());
        } else {
            bail_invalid!("Column {name} was not found in table '{}'", table.qualified_name())
        }
    };
    if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
        bail_invalid!("Cannot drop PRIMARY KEY column {name}");
    }
    if table.compact_value().is_some_and(|value| value.name == column.name) {
        bail_invalid!(
            "Cannot drop column {name} of table {}: its COMPACT STORAGE needs it",
            table.qualified_name()
        );
    }
    if matches!(column.data_type, DataType::Udt { frozen: false, .. }) {
        bail_invalid!("Cannot drop non-frozen column {name} of user type {}", column.data_type);
    }
    if let Some(indexes) = dependent_indexes(keyspace, table, name) {
        bail_invalid!("Cannot drop column {name} because it has dependent secondary indexes ({indexes})");
    }
    if keyspace.views_of(table).next().is_some() {
        bail_invalid!("Cannot drop column {name} on base table {} with materialized views", table.name);
    }
    Ok(())
}

/// `table`: before the statement; `renamed`: after its preceding changes.
fn rename_column(
    renamed: &TableMetadata,
    table: &TableMetadata,
    keyspace: &Keyspace,
    (from, to): (&str, &str),
    if_exists: bool,
) -> Result<TableMetadata> {
    if if_exists && table.column(from).is_none() {
        return Ok(renamed.clone());
    }
    let column = existing(table, from)?;
    if !matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
        bail_invalid!("Cannot rename non PRIMARY KEY column {from}");
    }
    if table.column(to).is_some() || renamed.column(to).is_some() {
        bail_invalid!(
            "Cannot rename column {from} to {to} in table '{}'; another column with that name already exists",
            table.qualified_name()
        );
    }
    if let Some(indexes) = dependent_indexes(keyspace, table, from) {
        bail_invalid!("Can't rename column {from} because it has dependent secondary indexes ({indexes})");
    }
    Ok(renamed.with_key_column_renamed(from, to))
}
