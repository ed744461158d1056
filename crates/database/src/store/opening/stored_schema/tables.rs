//! Loads tables and views with their columns.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use cassette_cql::ast::WhereClause;
use cassette_rows::schema::DroppedColumn;
use cassette_rows::{ColumnKind, ColumnMetadata, Layout, TableId, TableMetadata, TableParams};

use super::{Loader, masks, resolve_text, unreadable, unreadable_in};
use crate::basics::error::{DatabaseError, Result};
use crate::schema::catalog::Keyspace;
use crate::schema::options::{compaction, compression, table_params};
use crate::schema::system::encode::StoredRow;
use crate::schema::system::{SCHEMA, TextMap};
use crate::schema::views::View;

/// The keyspace and the name of a table.
type Key = (String, String);

/// Adds the tables and views to their keyspaces.
pub(super) fn load(loader: &mut Loader<'_>, keyspaces: &mut BTreeMap<String, Keyspace>) -> Result<()> {
    let mut columns = StoredColumns::load(loader, keyspaces)?;
    for table in load_tables(loader, keyspaces, &mut columns)? {
        add_table(keyspaces, table);
    }
    let views = load_views(loader, keyspaces, &mut columns)?;
    for (keyspace, table) in columns.columns.keys() {
        columns
            .problems
            .push(format!("table {keyspace}.{table} has columns and no row in {SCHEMA}.tables or views"));
    }
    loader.problems.append(&mut columns.problems);
    for view in views {
        let added = add_view(loader, keyspaces, view);
        loader.tolerate(added)?;
    }
    Ok(())
}

fn add_table(keyspaces: &mut BTreeMap<String, Keyspace>, table: TableMetadata) {
    if let Some(keyspace) = keyspaces.get_mut(&table.keyspace) {
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
    }
}

/// The columns of tables and views that are not loaded yet.
#[derive(Default)]
struct StoredColumns {
    /// Tables with a column that cannot be resolved have an error instead of columns.
    columns: masks::Columns,
    dropped: BTreeMap<Key, BTreeMap<String, DroppedColumn>>,
    /// The errors of dropped columns that cannot be resolved.
    unresolved: BTreeMap<Key, DatabaseError>,
    /// The reasons why tables and views are omitted.
    problems: Vec<String>,
}

impl StoredColumns {
    fn load(loader: &mut Loader<'_>, keyspaces: &BTreeMap<String, Keyspace>) -> Result<Self> {
        let mut found = Self::default();
        loader.rows("columns", |keyspace, row| {
            let table = row.clustering_text(0).ok_or_else(|| unreadable("a column without table"))?;
            let of_table = found.columns.entry((keyspace.to_owned(), table.to_owned()));
            let of_table = of_table.or_insert_with(|| Ok(Vec::new()));
            // Reported when its table is found to be missing.
            let Some(keyspace) = keyspaces.get(keyspace) else { return Ok(()) };
            match (of_table.as_mut(), load_column(keyspace, &row)) {
                (Ok(of_table), Ok(column)) => of_table.push(column),
                (Ok(_), Err(error)) => *of_table = Err(error),
                (Err(_), _) => {}
            }
            Ok(())
        })?;
        masks::load(loader, &mut found.columns)?;
        loader.rows("dropped_columns", |keyspace, row| {
            let Some(keyspace) = keyspaces.get(keyspace) else { return Ok(()) };
            match load_dropped_column(keyspace, &row) {
                Ok((table, name, column)) => {
                    let key = (keyspace.name.clone(), table);
                    found.dropped.entry(key).or_default().insert(name, column);
                }
                Err(error) => {
                    let table = row.clustering_text(0).unwrap_or_default().to_owned();
                    found.unresolved.insert((keyspace.name.clone(), table), error);
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Removes and returns the columns of a table or view; without them it is omitted.
    fn take(&mut self, key: &Key) -> Option<Vec<ColumnMetadata>> {
        let (keyspace, name) = key;
        match (self.columns.remove(key), self.unresolved.remove(key)) {
            (Some(Ok(columns)), None) if has_partition_key(&columns) => return Some(columns),
            (Some(Err(error)), _) | (_, Some(error)) => {
                self.problems.push(format!("table {keyspace}.{name}: {error}"));
            }
            _ => self.problems.push(format!(
                "table {keyspace}.{name} has no columns, or no partition key, in {SCHEMA}.columns"
            )),
        }
        None
    }

    /// Reports a table or view whose columns and dropped columns are too many.
    fn refuse_count(&mut self, (keyspace, name): &Key, count: usize) {
        self.problems.push(format!(
            "table {keyspace}.{name}: too many columns in the schema, dropped columns included: expected at \
             most {}, found {count}",
            TableMetadata::COLUMNS_MAX
        ));
    }
}

fn load_tables(
    loader: &mut Loader<'_>,
    keyspaces: &BTreeMap<String, Keyspace>,
    columns: &mut StoredColumns,
) -> Result<Vec<TableMetadata>> {
    let mut tables = Vec::new();
    loader.rows("tables", |keyspace, row| {
        if keyspaces.contains_key(keyspace) {
            tables.extend(load_table(keyspace, &row, columns)?);
        }
        Ok(())
    })?;
    Ok(tables)
}

/// Returns the table of a row; `None` if it is omitted.
fn load_table(
    keyspace: &str,
    row: &StoredRow<'_>,
    stored: &mut StoredColumns,
) -> Result<Option<TableMetadata>> {
    let name = row.clustering_text(0).ok_or_else(|| unreadable("a table without name"))?;
    let key = (keyspace.to_owned(), name.to_owned());
    let table = format!("table {keyspace}.{name}");
    let unreadable = |what: &str| unreadable(format_args!("{table}: {what}"));
    let id = row.uuid("id").ok_or_else(|| unreadable("no id"))?;
    let Some(columns) = stored.take(&key) else { return Ok(None) };
    let flags = row.text_list("flags");
    let has_flag = |name: &str| flags.as_ref().is_some_and(|flags| flags.iter().any(|flag| flag == name));
    // System tables of Cassandra before 3.0 have no flags.
    let layout = match &flags {
        Some(_) => {
            Layout::from_flags(has_flag).ok_or_else(|| unreadable("super columns are not supported"))?
        }
        None => Layout::Cql,
    };
    if layout.is_compact() && !fits(layout, &columns) {
        return Err(unreadable("the columns of COMPACT STORAGE are not those of its flags"));
    }
    let params = load_params(row).map_err(|error| unreadable_in(&table, error))?;
    let dropped = stored.dropped.remove(&key).unwrap_or_default();
    // Dropped columns need ids, too, unless their names are in use again.
    let in_use: HashSet<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let count = columns.len() + dropped.keys().filter(|name| !in_use.contains(name.as_str())).count();
    if count > TableMetadata::COLUMNS_MAX {
        stored.refuse_count(&key, count);
        return Ok(None);
    }
    let mut table = TableMetadata::new(TableId(id), keyspace, name, columns, params);
    table.layout = layout;
    // Also if its last counter was dropped.
    table.is_counter |= has_flag("counter");
    table.set_dropped_columns(dropped);
    Ok(Some(table))
}

/// Returns whether a table with a layout of COMPACT STORAGE can have these columns: one regular
/// column, and as many clustering columns as the layout has.
fn fits(layout: Layout, columns: &[ColumnMetadata]) -> bool {
    let count = |kind: ColumnKind| columns.iter().filter(|column| column.kind == kind).count();
    let clustering = match layout {
        Layout::DenseCompound => 1..=usize::MAX,
        _ => 1..=1,
    };
    count(ColumnKind::Regular) == 1 && clustering.contains(&count(ColumnKind::Clustering))
}

/// A view before its base table is looked up.
struct StoredView {
    table: TableMetadata,
    base: String,
    include_all: bool,
    where_clause: WhereClause,
}

fn load_views(
    loader: &mut Loader<'_>,
    keyspaces: &BTreeMap<String, Keyspace>,
    columns: &mut StoredColumns,
) -> Result<Vec<StoredView>> {
    let mut views = Vec::new();
    loader.rows("views", |keyspace, row| {
        if keyspaces.contains_key(keyspace) {
            views.extend(load_view(keyspace, &row, columns)?);
        }
        Ok(())
    })?;
    Ok(views)
}

/// Returns the view of a row; `None` if it is omitted.
fn load_view(keyspace: &str, row: &StoredRow<'_>, stored: &mut StoredColumns) -> Result<Option<StoredView>> {
    let name = row.clustering_text(0).ok_or_else(|| unreadable("a view without name"))?;
    let key = (keyspace.to_owned(), name.to_owned());
    let view = format!("view {keyspace}.{name}");
    let unreadable = |what: &str| unreadable(format_args!("{view}: {what}"));
    let id = row.uuid("id").ok_or_else(|| unreadable("no id"))?;
    let Some(columns) = stored.take(&key) else { return Ok(None) };
    let params = load_params(row).map_err(|error| unreadable_in(&view, error))?;
    let base = row.text("base_table_name").ok_or_else(|| unreadable("no base table"))?.to_owned();
    if columns.len() > TableMetadata::COLUMNS_MAX {
        stored.refuse_count(&key, columns.len());
        return Ok(None);
    }
    Ok(Some(StoredView {
        table: TableMetadata::new(TableId(id), keyspace, name, columns, params),
        base,
        include_all: row.boolean("include_all_columns").unwrap_or(false),
        where_clause: View::parse_where(row.text("where_clause").unwrap_or_default())?,
    }))
}

/// Adds a view and its table to its keyspace, unless its base table is missing.
fn add_view(
    loader: &mut Loader<'_>,
    keyspaces: &mut BTreeMap<String, Keyspace>,
    view: StoredView,
) -> Result<()> {
    let StoredView { mut table, base, include_all, where_clause } = view;
    let Some(keyspace) = keyspaces.get_mut(&table.keyspace) else { return Ok(()) };
    let name = table.name.clone();
    let Some(base) = keyspace.tables.get(&base) else {
        let problem = format!("view {}.{name}: its base table {base} is missing", keyspace.name);
        loader.problems.push(problem);
        return Ok(());
    };
    let is_of_base_key = |column: &Arc<ColumnMetadata>| {
        base.partition_key.iter().chain(&base.clustering).any(|of_base| of_base.name == column.name)
    };
    table.strict_liveness = !table.partition_key.iter().chain(&table.clustering).all(is_of_base_key);
    let table = Arc::new(table);
    let view = View::new(base.clone(), table.clone(), include_all, where_clause, &keyspace.types)?;
    keyspace.tables.insert(name.clone(), table);
    keyspace.views.insert(name, Arc::new(view));
    Ok(())
}

fn has_partition_key(columns: &[ColumnMetadata]) -> bool {
    columns.iter().any(|column| column.kind == ColumnKind::PartitionKey)
}

fn load_kind(name: &str) -> Option<ColumnKind> {
    Some(match name {
        "partition_key" => ColumnKind::PartitionKey,
        "clustering" => ColumnKind::Clustering,
        "static" => ColumnKind::Static,
        "regular" => ColumnKind::Regular,
        _ => return None,
    })
}

fn load_column(keyspace: &Keyspace, row: &StoredRow<'_>) -> Result<ColumnMetadata> {
    let load = || {
        let table = row.clustering_text(0)?.to_owned();
        let name = row.clustering_text(1)?.to_owned();
        let kind = load_kind(row.text("kind")?)?;
        let position = usize::try_from(row.int("position")?.max(0)).ok()?;
        let reversed = row.text("clustering_order") == Some("desc");
        Some((table, name, kind, position, reversed, row.text("type")?))
    };
    let Some((table, name, kind, position, reversed, text)) = load() else {
        return Err(unreadable(format!("a column of keyspace {}", keyspace.name)));
    };
    let data_type = resolve_text(text, keyspace)
        .map_err(|error| unreadable_in(format_args!("column {}.{table}.{name}", keyspace.name), error))?;
    Ok(ColumnMetadata { reversed, ..ColumnMetadata::new(name, kind, position, data_type) })
}

fn load_dropped_column(keyspace: &Keyspace, row: &StoredRow<'_>) -> Result<(String, String, DroppedColumn)> {
    let load = || {
        let kind = row.text("kind").map_or(Some(ColumnKind::Regular), load_kind)?;
        let table = row.clustering_text(0)?.to_owned();
        let name = row.clustering_text(1)?.to_owned();
        Some((table, name, kind, row.long("dropped_time")?, row.text("type")?))
    };
    let Some((table, name, kind, dropped_time, text)) = load() else {
        return Err(unreadable(format!("a dropped column of keyspace {}", keyspace.name)));
    };
    let data_type = resolve_text(text, keyspace).map_err(|error| {
        unreadable_in(format_args!("dropped column {}.{table}.{name}", keyspace.name), error)
    })?;
    let dropped_at = dropped_time.saturating_mul(1000);
    Ok((table, name, DroppedColumn { data_type, kind, dropped_at }))
}

fn load_params(row: &StoredRow<'_>) -> Result<TableParams> {
    let default = TableParams::default();
    let int = |name: &str, default: u32| {
        row.int(name).and_then(|value| u32::try_from(value).ok()).unwrap_or(default)
    };
    let text = |name: &str, default: &str| row.text(name).unwrap_or(default).to_owned();
    let entries = |map: TextMap| -> Vec<(Box<str>, Box<str>)> {
        map.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
    };
    Ok(TableParams {
        additional_write_policy: text("additional_write_policy", &default.additional_write_policy),
        allow_auto_snapshot: row.boolean("allow_auto_snapshot"),
        bloom_filter_fp_chance: row.double("bloom_filter_fp_chance"),
        caching: match row.text_map("caching") {
            Some(map) => table_params::read_caching(&entries(map))?,
            None => default.caching,
        },
        cdc: row.boolean("cdc").unwrap_or(false),
        comment: text("comment", ""),
        compaction: match row.text_map("compaction") {
            Some(map) => compaction::from_map(map)?,
            None => default.compaction,
        },
        compression: match row.text_map("compression") {
            Some(map) => compression::from_map(map)?,
            None => default.compression,
        },
        crc_check_chance: row.double("crc_check_chance").unwrap_or(default.crc_check_chance),
        default_time_to_live: int("default_time_to_live", default.default_time_to_live),
        extensions: BTreeMap::new(),
        gc_grace_seconds: int("gc_grace_seconds", default.gc_grace_seconds),
        incremental_backups: row.boolean("incremental_backups"),
        max_index_interval: int("max_index_interval", default.max_index_interval),
        memtable: text("memtable", &default.memtable),
        memtable_flush_period_in_ms: int("memtable_flush_period_in_ms", 0),
        min_index_interval: int("min_index_interval", default.min_index_interval),
        read_repair: text("read_repair", &default.read_repair),
        speculative_retry: text("speculative_retry", &default.speculative_retry),
    })
}
