//! Loads the schema from `system_schema`.
//!
//! Missing rows that others refer to are reported, and definitions that depend on them are omitted:
//! their data stays on disk, like that of an unknown table. A row that exists and cannot be parsed
//! is an error.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use cassette_engine::{Engine, KeyRange, Mutation};
use cassette_rows::schema::DroppedColumn;
use cassette_rows::types::UserType;
use cassette_rows::{
    ColumnKind, ColumnMetadata, PartitionStream, Selection, StorageError, TableId, TableMetadata,
    TableParams, Unfiltered,
};

use crate::basics::error::{DatabaseError, Result};
use crate::schema::catalog::{
    Catalog, Keyspace, KeyspaceKind, KeyspaceParams, Replication, TypeUse, resolve_type,
};
use crate::schema::indexes::{Index, IndexKind};
use crate::schema::options::{compaction, compression, table_params};
use crate::schema::system::encode::{self, StoredRow};
use crate::schema::system::{SCHEMA, TextMap};
use crate::schema::views::View;

/// The stored keyspaces, tables and types, and the latest write timestamp of their rows.
pub(crate) struct StoredSchema {
    pub keyspaces: Vec<Keyspace>,
    pub newest_timestamp: i64,
    /// The missing rows, one description for each place; empty if the schema is complete as far as
    /// can be determined.
    pub problems: Vec<String>,
}

/// Reads all of `system_schema`, whose tables are in `built_in`.
///
/// # Errors
/// SchemaCorrupt, with the row that cannot be parsed.
pub(crate) fn load(engine: &Engine, built_in: &Catalog, now: u32) -> Result<StoredSchema> {
    let mut loader = Loader::new(engine, built_in, now);
    let mut keyspaces = BTreeMap::new();
    loader.rows("keyspaces", |name, row| {
        let kind = built_in.keyspace(name).map_or(KeyspaceKind::User, |keyspace| keyspace.kind);
        let mut options = row.text_map("replication").unwrap_or_default();
        let class =
            options.remove("class").unwrap_or_else(|| crate::schema::options::replication::SIMPLE.into());
        let params = KeyspaceParams {
            durable_writes: row.boolean("durable_writes").unwrap_or(true),
            replication: Replication { class, options },
        };
        keyspaces.insert(name.to_owned(), Keyspace::new(name, kind, params));
        Ok(())
    })?;
    add_missing_keyspaces(&mut loader, &mut keyspaces)?;
    load_types(&mut loader, &mut keyspaces)?;
    load_tables(&mut loader, &mut keyspaces)?;
    load_indexes(&mut loader, &mut keyspaces)?;
    // The first start writes these rows before any others.
    let own = keyspaces.get(SCHEMA).is_some_and(|own| own.tables.contains_key("tables"));
    if !keyspaces.is_empty() && !own {
        loader.problems.push(format!("the rows of {SCHEMA} itself are missing"));
    }
    Ok(StoredSchema {
        keyspaces: keyspaces.into_values().collect(),
        newest_timestamp: loader.newest_timestamp,
        problems: loader.problems,
    })
}

/// Adds keyspaces whose row is missing although tables, views or types have theirs, so these remain
/// usable.
fn add_missing_keyspaces(loader: &mut Loader<'_>, keyspaces: &mut BTreeMap<String, Keyspace>) -> Result<()> {
    let mut missing = BTreeSet::new();
    for table in ["tables", "views", "types"] {
        loader.rows(table, |name, _| {
            if !keyspaces.contains_key(name) {
                missing.insert(name.to_owned());
            }
            Ok(())
        })?;
    }
    for name in missing {
        loader.problems.push(format!(
            "keyspace {name} has tables and no row in {SCHEMA}.keyspaces; until ALTER KEYSPACE writes one, its replication \
             is taken to be SimpleStrategy with a factor of 1"
        ));
        let (kind, params) = match loader.built_in.keyspace(&name) {
            Some(own) => (own.kind, own.params.clone()),
            None => {
                let replication = Replication::simple(1);
                (KeyspaceKind::User, KeyspaceParams { durable_writes: true, replication })
            }
        };
        let keyspace = Keyspace { is_stored: false, ..Keyspace::new(&name, kind, params) };
        keyspaces.insert(name, keyspace);
    }
    Ok(())
}

/// Returns the mutations that delete leftover rows of a lost table with the name of a new table,
/// which would become part of it at the next start.
pub(crate) fn delete_leftovers(
    engine: &Engine,
    catalog: &Catalog,
    table: &TableMetadata,
    timestamp: i64,
) -> Result<Vec<Mutation>> {
    let mut loader = Loader::new(engine, catalog, encode::seconds(timestamp));
    let mut mutations = Vec::new();
    let Some(keyspace) = catalog.keyspace(&table.keyspace) else { return Ok(mutations) };
    let is_view = keyspace.views.contains_key(&table.name);
    for stored in ["columns", "dropped_columns", "indexes", "tables", "views"] {
        let mut rows = Vec::new();
        loader.rows(stored, |of, row| {
            let Some(name) =
                row.clustering_text(0).filter(|name| of == table.keyspace && *name == table.name)
            else {
                return Ok(());
            };
            let part = row.clustering_text(1).unwrap_or_default();
            let is_current = match stored {
                "columns" => table.column(part).is_some(),
                "dropped_columns" => table.dropped_columns.contains_key(part),
                "indexes" => keyspace.indexes.contains_key(part),
                "tables" => !is_view,
                _ => is_view,
            };
            if !is_current {
                let clustering = if part.is_empty() { vec![name] } else { vec![name, part] };
                rows.push(encode::row_deletion(&clustering, timestamp));
            }
            Ok(())
        })?;
        if !rows.is_empty() {
            mutations.push(encode::mutation(catalog.require_table(SCHEMA, stored)?, &table.keyspace, rows));
        }
    }
    Ok(mutations)
}

struct Loader<'a> {
    engine: &'a Engine,
    built_in: &'a Catalog,
    now: u32,
    newest_timestamp: i64,
    problems: Vec<String>,
}

impl<'a> Loader<'a> {
    fn new(engine: &'a Engine, built_in: &'a Catalog, now: u32) -> Self {
        Self { engine, built_in, now, newest_timestamp: i64::MIN, problems: Vec::new() }
    }

    /// Calls `each` with the keyspace's name and the row, for every live row of a table.
    fn rows(&mut self, table: &str, mut each: impl FnMut(&str, StoredRow<'_>) -> Result<()>) -> Result<()> {
        let attempted = format!("cannot read {SCHEMA}.{table}");
        let failed = |error: StorageError| DatabaseError::storage_after(&attempted, error);
        let table = self.built_in.require_table(SCHEMA, table)?;
        let scanned = self.engine.scan(table.id, &KeyRange::ALL, &Selection::all());
        let mut stream = scanned.map_err(|error| DatabaseError::storage_after(&attempted, error))?;
        while let Some(header) = stream.next_partition().map_err(failed)? {
            self.saw(header.deletion.timestamp);
            let keyspace = String::from_utf8_lossy(header.key.key()).into_owned();
            while let Some(next) = stream.next_unfiltered().map_err(failed)? {
                let Unfiltered::Row(row) = next else { continue };
                self.saw(row.liveness().timestamp);
                self.saw(row.deletion().timestamp);
                if row.is_live(self.now) {
                    each(&keyspace, StoredRow { table, row: &row, now: self.now })?;
                }
            }
        }
        Ok(())
    }

    fn saw(&mut self, timestamp: i64) {
        self.newest_timestamp = self.newest_timestamp.max(timestamp);
    }
}

fn too_many_columns(keyspace: &str, table: &str, count: usize) -> String {
    format!(
        "table {keyspace}.{table}: too many columns in the schema, dropped columns included: expected at \
         most {}, found {count}",
        TableMetadata::COLUMNS_MAX
    )
}

fn unreadable(what: impl std::fmt::Display) -> DatabaseError {
    let message = format!("the stored schema cannot be understood: {what}");
    DatabaseError::SchemaCorrupt { message, cause: None }
}

fn unreadable_in(what: impl std::fmt::Display, error: impl Into<DatabaseError>) -> DatabaseError {
    let definition = format_args!("the stored schema cannot be understood: {what}");
    DatabaseError::schema_corrupt_in(definition, error)
}

/// A stored user-defined type; the types of its fields are texts until the types that they refer to
/// are resolved.
struct RawType {
    name: String,
    fields: Vec<(String, String)>,
}

fn load_types(loader: &mut Loader<'_>, keyspaces: &mut BTreeMap<String, Keyspace>) -> Result<()> {
    let mut raw: BTreeMap<String, Vec<RawType>> = BTreeMap::new();
    loader.rows("types", |keyspace, row| {
        let name = row.clustering_text(0).ok_or_else(|| unreadable("a type without name"))?.to_owned();
        let names = row.text_list("field_names").unwrap_or_default();
        let types = row.text_list("field_types").unwrap_or_default();
        if names.len() != types.len() {
            return Err(unreadable(format!("fields of type {keyspace}.{name}")));
        }
        let fields = names.into_iter().zip(types).collect();
        raw.entry(keyspace.to_owned()).or_default().push(RawType { name, fields });
        Ok(())
    })?;
    for (name, mut pending) in raw {
        let Some(keyspace) = keyspaces.get_mut(&name) else { continue };
        // A type may refer to others: each round resolves those whose references are resolved.
        while !pending.is_empty() {
            let before = pending.len();
            let mut left = Vec::new();
            let mut last_error = None;
            for user_type in pending {
                match resolve_user_type(&user_type, keyspace) {
                    Ok(resolved) => {
                        keyspace.types.insert(resolved.name.clone(), Arc::new(resolved));
                    }
                    Err(error) => {
                        last_error = Some(error);
                        left.push(user_type);
                    }
                }
            }
            if left.len() == before {
                // Types that it refers to are missing.
                let error = last_error.map(|error| error.to_string()).unwrap_or_default();
                let problem = |raw: RawType| format!("type {name}.{}: {error}", raw.name);
                loader.problems.extend(left.into_iter().map(problem));
                break;
            }
            pending = left;
        }
    }
    Ok(())
}

fn resolve_user_type(raw: &RawType, keyspace: &Keyspace) -> Result<UserType> {
    let mut fields = Vec::with_capacity(raw.fields.len());
    for (name, text) in &raw.fields {
        fields.push((name.clone(), resolve_text(text, keyspace)?));
    }
    Ok(UserType::new(keyspace.name.clone(), raw.name.clone(), fields))
}

fn resolve_text(text: &str, keyspace: &Keyspace) -> Result<cassette_rows::DataType> {
    let raw = cassette_cql::parse_type(text).map_err(|error| unreadable_in(text, error))?;
    resolve_type(&raw, TypeUse { keyspace: &keyspace.name, types: &keyspace.types })
}

type ByTable<T> = BTreeMap<(String, String), Vec<T>>;

fn load_tables(loader: &mut Loader<'_>, keyspaces: &mut BTreeMap<String, Keyspace>) -> Result<()> {
    // Tables with a column that cannot be resolved have an error instead of columns.
    let mut columns: BTreeMap<(String, String), Result<Vec<ColumnMetadata>>> = BTreeMap::new();
    loader.rows("columns", |keyspace, row| {
        let table = row.clustering_text(0).ok_or_else(|| unreadable("a column without table"))?;
        let key = (keyspace.to_owned(), table.to_owned());
        // Reported when its table is found to be missing.
        let Some(keyspace) = keyspaces.get(keyspace) else {
            columns.entry(key).or_insert_with(|| Ok(Vec::new()));
            return Ok(());
        };
        let column = load_column(keyspace, &row);
        let of_table = columns.entry(key).or_insert_with(|| Ok(Vec::new()));
        match (of_table.as_mut(), column) {
            (Ok(of_table), Ok((_, column))) => of_table.push(column),
            (Ok(_), Err(error)) => *of_table = Err(error),
            (Err(_), _) => {}
        }
        Ok(())
    })?;
    let mut dropped: ByTable<(String, DroppedColumn)> = BTreeMap::new();
    let mut unresolved: BTreeMap<(String, String), DatabaseError> = BTreeMap::new();
    loader.rows("dropped_columns", |keyspace, row| {
        let Some(keyspace) = keyspaces.get(keyspace) else { return Ok(()) };
        match load_dropped_column(keyspace, &row) {
            Ok((table, name, column)) => {
                dropped.entry((keyspace.name.clone(), table)).or_default().push((name, column));
            }
            Err(error) => {
                let table = row.clustering_text(0).unwrap_or_default().to_owned();
                unresolved.insert((keyspace.name.clone(), table), error);
            }
        }
        Ok(())
    })?;
    let mut problems = Vec::new();
    // Takes the columns of a table or view; without them it is omitted.
    let mut take_columns = |key: &(String, String), problems: &mut Vec<String>| {
        let name = format!("{}.{}", key.0, key.1);
        match (columns.remove(key), unresolved.remove(key)) {
            (Some(Ok(columns)), None) if has_partition_key(&columns) => return Some(columns),
            (Some(Err(error)), _) | (_, Some(error)) => problems.push(format!("table {name}: {error}")),
            _ => problems
                .push(format!("table {name} has no columns, or no partition key, in {SCHEMA}.columns")),
        }
        None
    };
    let mut tables = Vec::new();
    let mut views = Vec::new();
    loader.rows("tables", |keyspace, row| {
        if !keyspaces.contains_key(keyspace) {
            return Ok(());
        }
        let name = row.clustering_text(0).ok_or_else(|| unreadable("a table without name"))?;
        let key = (keyspace.to_owned(), name.to_owned());
        let table = format!("table {keyspace}.{name}");
        let unreadable = |what: &str| unreadable(format_args!("{table}: {what}"));
        let id = row.uuid("id").ok_or_else(|| unreadable("no id"))?;
        let Some(columns) = take_columns(&key, &mut problems) else { return Ok(()) };
        let flags = row.text_list("flags");
        let has_flag = |name: &str| flags.as_ref().is_some_and(|flags| flags.iter().any(|flag| flag == name));
        if flags.is_some() && !has_flag("compound") {
            return Err(unreadable("COMPACT STORAGE is not supported"));
        }
        let params = load_params(&row).map_err(|error| unreadable_in(&table, error))?;
        let dropped: BTreeMap<_, _> = dropped.remove(&key).unwrap_or_default().into_iter().collect();
        // Dropped columns need ids, too, unless their names are in use again.
        let in_use: HashSet<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let count = columns.len() + dropped.keys().filter(|name| !in_use.contains(name.as_str())).count();
        if count > TableMetadata::COLUMNS_MAX {
            problems.push(too_many_columns(keyspace, name, count));
            return Ok(());
        }
        let mut table = TableMetadata::new(TableId(id), keyspace, name, columns, params);
        // Also if its last counter was dropped.
        table.is_counter |= has_flag("counter");
        table.set_dropped_columns(dropped);
        tables.push(table);
        Ok(())
    })?;
    loader.rows("views", |keyspace, row| {
        if !keyspaces.contains_key(keyspace) {
            return Ok(());
        }
        let name = row.clustering_text(0).ok_or_else(|| unreadable("a view without name"))?;
        let key = (keyspace.to_owned(), name.to_owned());
        let view = format!("view {keyspace}.{name}");
        let unreadable = |what: &str| unreadable(format_args!("{view}: {what}"));
        let id = row.uuid("id").ok_or_else(|| unreadable("no id"))?;
        let Some(columns) = take_columns(&key, &mut problems) else { return Ok(()) };
        let params = load_params(&row).map_err(|error| unreadable_in(&view, error))?;
        let base = row.text("base_table_name").ok_or_else(|| unreadable("no base table"))?.to_owned();
        let include_all = row.boolean("include_all_columns").unwrap_or(false);
        if columns.len() > TableMetadata::COLUMNS_MAX {
            problems.push(too_many_columns(keyspace, name, columns.len()));
            return Ok(());
        }
        let where_clause = View::parse_where(row.text("where_clause").unwrap_or_default())?;
        tables.push(TableMetadata::new(TableId(id), keyspace, name, columns, params));
        views.push((key, base, include_all, where_clause));
        Ok(())
    })?;
    for (keyspace, table) in columns.keys() {
        problems.push(format!("table {keyspace}.{table} has columns and no row in {SCHEMA}.tables or views"));
    }
    loader.problems.append(&mut problems);
    for table in tables {
        if let Some(keyspace) = keyspaces.get_mut(&table.keyspace) {
            keyspace.tables.insert(table.name.clone(), Arc::new(table));
        }
    }
    for ((keyspace, name), base, include_all, where_clause) in views {
        let Some(keyspace) = keyspaces.get_mut(&keyspace) else { continue };
        let (Some(base), Some(table)) = (keyspace.tables.get(&base), keyspace.tables.get(&name)) else {
            let problem = format!("view {}.{name}: its base table {base} is missing", keyspace.name);
            loader.problems.push(problem);
            keyspace.tables.remove(&name);
            continue;
        };
        let mut table = (**table).clone();
        let is_of_base_key = |column: &Arc<ColumnMetadata>| {
            base.partition_key.iter().chain(&base.clustering).any(|of_base| of_base.name == column.name)
        };
        table.strict_liveness = !table.partition_key.iter().chain(&table.clustering).all(is_of_base_key);
        let table = Arc::new(table);
        let view = View::new(base.clone(), table.clone(), include_all, where_clause)?;
        keyspace.tables.insert(name.clone(), table);
        keyspace.views.insert(name, Arc::new(view));
    }
    Ok(())
}

fn has_partition_key(columns: &[ColumnMetadata]) -> bool {
    columns.iter().any(|column| column.kind == ColumnKind::PartitionKey)
}

fn load_indexes(loader: &mut Loader<'_>, keyspaces: &mut BTreeMap<String, Keyspace>) -> Result<()> {
    let mut problems = Vec::new();
    loader.rows("indexes", |keyspace, row| {
        let Some(keyspace) = keyspaces.get_mut(keyspace) else { return Ok(()) };
        let of = row.clustering_text(0).unwrap_or_default();
        if !keyspace.tables.contains_key(of) {
            let name = row.clustering_text(1).unwrap_or_default();
            problems.push(format!("index {}.{name}: its table {of} is missing", keyspace.name));
            return Ok(());
        }
        let load = || {
            let (table, name) = (row.clustering_text(0)?, row.clustering_text(1)?);
            let kind = IndexKind::from_name(row.text("kind")?)?;
            Some((keyspace.tables.get(table)?, name, kind, row.text_map("options")?))
        };
        let Some((table, name, kind, options)) = load() else {
            return Err(unreadable(format!("an index of keyspace {}", keyspace.name)));
        };
        let created_at = row.row.liveness().timestamp;
        let index = Index::new(name, kind, options, created_at, table)?;
        keyspace.indexes.insert(name.to_owned(), Arc::new(index));
        Ok(())
    })?;
    loader.problems.append(&mut problems);
    Ok(())
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

fn load_column(keyspace: &Keyspace, row: &StoredRow<'_>) -> Result<(String, ColumnMetadata)> {
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
    Ok((table, ColumnMetadata { reversed, ..ColumnMetadata::new(name, kind, position, data_type) }))
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
