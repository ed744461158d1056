//! CREATE, ALTER and DROP MATERIALIZED VIEW.

use std::collections::HashSet;
use std::sync::Arc;

use cassette_cql::ast::{self, Relation, Selector};
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, TableId, TableMetadata, TableParams};

use super::create_table::validate_name;
use super::{Change, KeyspaceChange, SchemaContext, keyspace_to_change, table_event};
use crate::basics::error::{DatabaseError, Result, bail_config, bail_invalid};
use crate::basics::response::SchemaChangeKind;
use crate::planning::restrictions::existing;
use crate::schema::catalog::Keyspace;
use crate::schema::options::table_params;
use crate::schema::views::View;

/// Cassandra's warning about every new view.
pub(crate) const WARNING: &str =
    "Materialized views are experimental and are not recommended for production use.";

pub(crate) fn create(
    statement: &ast::CreateView,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    if !cx.materialized_views_enabled {
        bail_invalid!(
            "Materialized views are disabled. Set `materialized_views_enabled: true` in the \
             configuration file (--config) to use them."
        );
    }
    let order = &statement.clustering_order;
    let is_twice = |i: &usize| order[..*i].iter().any(|(other, _)| *other == order[*i].0);
    if let Some(i) = (1..order.len()).find(is_twice) {
        bail_invalid!(
            "Duplicate column '{}' in CLUSTERING ORDER BY clause for view '{}'",
            order[i].0,
            statement.name
        );
    }
    let name = statement.name.name.as_str();
    let base_name = statement.base_table.name.as_str();
    let keyspace = keyspace_to_change(keyspace, cx)?;
    if let Some(other) = &statement.base_table.keyspace
        && other.as_str() != keyspace.name
    {
        bail_invalid!("Cannot create a materialized view on a table in a different keyspace");
    }
    let base = keyspace.tables.get(base_name).filter(|_| !keyspace.views.contains_key(base_name));
    let Some(base) = base else { bail_invalid!("Base table '{base_name}' doesn't exist") };
    if keyspace.views.contains_key(name) {
        if statement.if_not_exists {
            return Ok(None);
        }
        return Err(DatabaseError::AlreadyExists { keyspace: keyspace.name.clone(), table: name.to_owned() });
    }
    if keyspace.tables.contains_key(name) {
        bail_invalid!("Cannot create materialized view '{name}' - a table with the same name already exists");
    }
    if base.is_counter {
        bail_invalid!("Materialized views are not supported on counter tables");
    }
    if base.params.gc_grace_seconds == 0 {
        bail_invalid!(
            "Cannot create materialized view '{name}' for base table '{base_name}' with gc_grace_seconds of \
             0, since this value is used to TTL undelivered updates. Setting gc_grace_seconds too low might \
             cause undelivered updates to expire before being replayed."
        );
    }
    let verdict = cx.guard.table_properties(&statement.properties)?;
    cx.guard.new_view(name, base_name, keyspace.views_of(base).count())?;
    let properties = verdict.of(&statement.properties);
    let table = build(statement, base, properties, cx)?;
    validate_name(&table)?;
    let include_all = statement.selections.is_empty();
    let (table, where_clause) = (Arc::new(table), statement.where_clause.clone());
    let mut view = View::new(base.clone(), table, include_all, where_clause, &keyspace.types)?;
    validate_where(statement, &view)?;
    // As in Cassandra, mistakes in options are reported after those in the WHERE.
    view.table = Arc::new(view.table.with_params(params(properties, cx)?));
    if cx.catalog.table_by_id(view.table.id).is_some() {
        bail_config!("Table id {} is taken", view.table.id.0);
    }
    let mut after = keyspace.with_table(view.table.clone());
    after.views.insert(name.to_owned(), Arc::new(view));
    Ok(Some(Change {
        event: table_event(SchemaChangeKind::Created, &after.name, name),
        keyspace: KeyspaceChange::Put(after),
        warnings: vec![WARNING.to_owned()],
    }))
}

/// Returns the options of a new view.
fn params(properties: &ast::Properties, cx: &SchemaContext<'_>) -> Result<TableParams> {
    let params = table_params::read(properties, cx.default_params)?;
    if params.default_time_to_live != 0 {
        bail_invalid!(
            "Cannot set default_time_to_live for a materialized view. Data in a materialized view always \
             expire at the same time than the corresponding data in the parent table."
        );
    }
    Ok(params)
}

/// Builds the view's table, with default options.
fn build(
    statement: &ast::CreateView,
    base: &Arc<TableMetadata>,
    properties: &ast::Properties,
    cx: &SchemaContext<'_>,
) -> Result<TableMetadata> {
    let name = statement.name.name.as_str();
    let selected = selected(statement, base)?;
    if let Some(column) = selected.iter().find(|column| column.kind == ColumnKind::Static) {
        bail_invalid!("Cannot include static column '{}' in materialized view '{name}'", column.name);
    }
    let key = &statement.primary_key;
    let key_names: Vec<&str> =
        key.partition_key.iter().chain(&key.clustering).map(ast::Identifier::as_str).collect();
    for (i, column_name) in key_names.iter().enumerate() {
        let Some(column) = selected.iter().find(|column| column.name == *column_name) else {
            bail_invalid!(
                "Unknown column '{column_name}' referenced in PRIMARY KEY for materialized view '{name}'"
            );
        };
        if key_names[..i].contains(column_name) {
            bail_invalid!(
                "Duplicate column '{column_name}' in PRIMARY KEY clause for materialized view '{name}'"
            );
        }
        validate_key_column(column)?;
    }
    let order = &statement.clustering_order;
    if !order.is_empty() && !order.iter().map(|(name, _)| name).eq(&key.clustering) {
        bail_invalid!("Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive");
    }
    let has_own_key_column = check_key(name, &key_names, base)?;
    let position = |names: &[ast::Identifier], name: &str| names.iter().position(|n| n.as_str() == name);
    let columns = selected.iter().map(|column| {
        let (kind, position) = match position(&key.partition_key, &column.name) {
            Some(position) => (ColumnKind::PartitionKey, position),
            None => match position(&key.clustering, &column.name) {
                Some(position) => (ColumnKind::Clustering, position),
                None => (ColumnKind::Regular, 0),
            },
        };
        let said = order.iter().find(|(name, _)| name.as_str() == column.name);
        let reversed = match said {
            Some((_, direction)) => *direction == ast::Direction::Desc,
            None => column.reversed,
        };
        ColumnMetadata {
            reversed: kind == ColumnKind::Clustering && reversed,
            mask: column.mask.clone(),
            ..ColumnMetadata::new(&column.name, kind, position, column.data_type.clone())
        }
    });
    let id = table_params::table_id(properties)?.unwrap_or(cx.new_id);
    let mut table = TableMetadata::new(
        TableId(id),
        base.keyspace.as_str(),
        name,
        columns.collect(),
        cx.default_params.clone(),
    );
    table.strict_liveness = has_own_key_column;
    Ok(table)
}

/// Checks that the view's key has all columns of the base table's key and at most one other.
/// Returns whether it has another.
fn check_key(view: &str, key_names: &[&str], base: &TableMetadata) -> Result<bool> {
    let base_key = || base.partition_key.iter().chain(&base.clustering);
    let missing: Vec<&str> =
        base_key().map(|column| column.name.as_str()).filter(|name| !key_names.contains(name)).collect();
    if !missing.is_empty() {
        bail_invalid!(
            "Cannot create materialized view '{view}' without primary key columns {} from base table '{}'",
            missing.join(", "),
            base.name
        );
    }
    let extra: Vec<&str> =
        key_names.iter().copied().filter(|name| !base_key().any(|column| column.name == *name)).collect();
    if extra.len() > 1 {
        bail_invalid!(
            "Cannot include more than one non-primary key column in materialized view primary key (got {})",
            extra.join(", ")
        );
    }
    Ok(!extra.is_empty())
}

/// Returns the base table's columns that the view shows.
fn selected(statement: &ast::CreateView, base: &Arc<TableMetadata>) -> Result<Vec<Arc<ColumnMetadata>>> {
    if statement.selections.is_empty() {
        return Ok(base.all_columns().cloned().collect());
    }
    let mut selected: Vec<Arc<ColumnMetadata>> = Vec::new();
    let mut names = HashSet::new();
    for selection in &statement.selections {
        if selection.alias.is_some() {
            bail_invalid!("Cannot use aliases when defining a materialized view (got {selection})");
        }
        let Selector::Column(name) = &selection.selector else {
            bail_invalid!(
                "Can only select columns by name when defining a materialized view (got {})",
                selection.selector
            );
        };
        let column = existing(base, name)?;
        if names.insert(column.name.clone()) {
            selected.push(column);
        }
    }
    Ok(selected)
}

fn validate_key_column(column: &ColumnMetadata) -> Result<()> {
    let name = &column.name;
    match &column.data_type {
        data_type @ DataType::Udt { frozen: false, .. } => bail_invalid!(
            "Invalid non-frozen user-defined type '{}' for PRIMARY KEY column '{name}'",
            data_type.class_name()
        ),
        data_type if data_type.is_multi_cell() => bail_invalid!(
            "Invalid non-frozen collection type '{}' for PRIMARY KEY column '{name}'",
            data_type.class_name()
        ),
        DataType::Counter => bail_invalid!("counter type is not supported for PRIMARY KEY column '{name}'"),
        data_type if data_type.contains_duration() => {
            bail_invalid!("duration type is not supported for PRIMARY KEY column '{name}'")
        }
        _ => Ok(()),
    }
}

fn validate_where(statement: &ast::CreateView, view: &View) -> Result<()> {
    if !statement.where_clause.expressions.is_empty() {
        bail_invalid!(
            "WHERE clause for materialized view '{}' cannot contain custom index expressions",
            view.name()
        );
    }
    let not_null = |name: &str| {
        statement
            .where_clause
            .relations
            .iter()
            .any(|relation| matches!(relation, Relation::IsNotNull { column } if column.as_str() == name))
    };
    let restricted =
        |name: &str| not_null(name) || view.filters.iter().any(|filter| filter.column.name == name);
    let key = view.table.partition_key.iter().chain(&view.table.clustering);
    let missing: Vec<&str> =
        key.map(|column| column.name.as_str()).filter(|name| !restricted(name)).collect();
    if !missing.is_empty() {
        bail_invalid!(
            "Primary key columns {} must be restricted with 'IS NOT NULL' or otherwise",
            missing.join(", ")
        );
    }
    let illegal: Vec<&str> = view
        .filters
        .iter()
        .filter(|filter| matches!(filter.column.kind, ColumnKind::Regular | ColumnKind::Static))
        .map(|filter| filter.column.name.as_str())
        .collect();
    if !illegal.is_empty() {
        bail_invalid!(
            "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: {} restricted illegally)",
            illegal.join(",")
        );
    }
    Ok(())
}

pub(crate) fn alter(
    statement: &ast::AlterView,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    let name = statement.name.name.as_str();
    let found = cx.catalog.keyspace(keyspace).and_then(|found| Some((found, found.views.get(name)?)));
    let Some((keyspace, view)) = found else { return missing(keyspace, name, statement.if_exists) };
    let verdict = cx.guard.table_properties(&statement.properties)?;
    let properties = verdict.of(&statement.properties);
    let params = table_params::read(properties, &view.table.params)?;

    if params.gc_grace_seconds == 0 {
        bail_invalid!(
            "Cannot alter gc_grace_seconds of a materialized view to 0, since this value is used to TTL \
             undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to \
             expire before being replayed."
        );
    }
    if params.default_time_to_live > 0 {
        bail_invalid!(
            "Forbidden default_time_to_live detected for a materialized view. Data in a materialized view \
             always expire at the same time than the corresponding data in the parent table. \
             default_time_to_live must be set to zero, see CASSANDRA-12868 for more information"
        );
    }
    if params == view.table.params {
        return Ok(None);
    }
    let after = keyspace.with_table(Arc::new(view.table.with_params(params)));
    Ok(Some(Change::of_table(SchemaChangeKind::Updated, after, name)))
}

pub(crate) fn drop(
    statement: &ast::DropElement,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    let name = statement.name.name.as_str();
    let Some(keyspace) = cx.catalog.keyspace(keyspace).filter(|found| found.views.contains_key(name)) else {
        return missing(keyspace, name, statement.if_exists);
    };
    let mut after = (**keyspace).clone();
    after.tables.remove(name);
    after.views.remove(name);
    Ok(Some(Change::of_table(SchemaChangeKind::Dropped, after, name)))
}

fn missing(keyspace: &str, name: &str, if_exists: bool) -> Result<Option<Change>> {
    if if_exists { Ok(None) } else { bail_invalid!("Materialized view '{keyspace}.{name}' doesn't exist") }
}

/// Returns the keyspace with views adapted to an altered base table: views of all columns gain
/// added ones, renamed key columns are renamed, and masks become those of the base table.
pub(crate) fn follow_base(
    mut keyspace: Keyspace,
    before: &TableMetadata,
    base: &Arc<TableMetadata>,
) -> Result<Keyspace> {
    let views: Vec<Arc<View>> = keyspace.views_of(before).cloned().collect();
    for view in views {
        let mut table = (*view.table).clone();
        if view.include_all {
            let is_new = |column: &&Arc<ColumnMetadata>| before.column(&column.name).is_none();
            let added = base.regular_columns().filter(is_new).map(|column| (**column).clone());
            let added: Vec<ColumnMetadata> = added.collect();
            if !added.is_empty() {
                table = table.with_columns_added(added);
            }
        }
        let mut where_clause = view.where_clause.clone();
        let old = before.partition_key.iter().chain(&before.clustering);
        for (old, new) in old.zip(base.partition_key.iter().chain(&base.clustering)) {
            if old.name != new.name {
                table = table.with_key_column_renamed(&old.name, &new.name);
                where_clause.relations.iter_mut().for_each(|relation| rename(relation, &old.name, &new.name));
            }
        }
        let masked = |column: &ColumnMetadata| base.column(&column.name).and_then(|base| base.mask.clone());
        if table.all_columns().any(|column| column.mask != masked(column)) {
            table = table.with_masks(masked);
        }
        if table == *view.table && where_clause == view.where_clause {
            continue;
        }
        table.version = view.table.version + 1;
        let table = Arc::new(table);
        let view = View::new(base.clone(), table.clone(), view.include_all, where_clause, &keyspace.types)?;
        keyspace.tables.insert(table.name.clone(), table);
        keyspace.views.insert(view.name().to_owned(), Arc::new(view));
    }
    Ok(keyspace)
}

fn rename(relation: &mut Relation, from: &str, to: &str) {
    let one = |name: &mut ast::Identifier| {
        if name.as_str() == from {
            *name = ast::Identifier::new(to);
        }
    };
    match relation {
        Relation::IsNotNull { column }
        | Relation::Column { column, .. }
        | Relation::In { column, .. }
        | Relation::Element { column, .. } => one(column),
        Relation::Tuple { columns, .. }
        | Relation::TupleIn { columns, .. }
        | Relation::Token { columns, .. } => columns.iter_mut().for_each(one),
    }
}
