//! Loads the schema from `system_schema`.
//!
//! Missing rows that others refer to are reported, and definitions that depend on them are omitted:
//! their data stays on disk, like that of an unknown table. A row that exists and cannot be parsed
//! is an error.

mod functions;
mod masks;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cassette_engine::{Engine, KeyRange, Mutation};
use cassette_rows::types::UserType;
use cassette_rows::{PartitionStream, Selection, StorageError, TableMetadata, Unfiltered};

use crate::basics::error::{DatabaseError, Result};
use crate::schema::catalog::{
    Catalog, Keyspace, KeyspaceKind, KeyspaceParams, Replication, TypeUse, resolve_type,
};
use crate::schema::indexes::{CLASS_NAME, Index, IndexKind, is_storage_attached};
use crate::schema::is_word;
use crate::schema::system::SCHEMA;
use crate::schema::system::encode::{self, StoredRow};

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
    let (keyspaces, omitted) = loader.load()?;
    loader.problems.extend(omitted);
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

/// The schema that Cassandra stored.
pub(crate) struct ForeignSchema {
    /// The user keyspaces.
    pub keyspaces: Vec<Keyspace>,
    /// The tables, views and types that are missing in `keyspaces`, with the reasons.
    pub unsupported: Vec<String>,
    /// The indexes that are missing in `keyspaces`, with the reasons.
    pub omitted_indexes: Vec<String>,
}

/// Reads the user keyspaces of a `system_schema` that Cassandra wrote, whose tables are in
/// `built_in`. Definitions that are not supported are omitted and reported.
///
/// # Errors
/// Those of reading.
pub(crate) fn load_foreign(engine: &Engine, built_in: &Catalog, now: u32) -> Result<ForeignSchema> {
    let mut loader = Loader { is_foreign: true, ..Loader::new(engine, built_in, now) };
    let (keyspaces, omitted_indexes) = loader.load()?;
    let keyspaces = keyspaces.into_values().collect();
    Ok(ForeignSchema { keyspaces, unsupported: loader.problems, omitted_indexes })
}

/// Keyspaces by name, and the reasons why indexes are omitted.
type Loaded = (BTreeMap<String, Keyspace>, Vec<String>);

impl Loader<'_> {
    fn load(&mut self) -> Result<Loaded> {
        let mut keyspaces = load_keyspaces(self)?;
        add_missing_keyspaces(self, &mut keyspaces)?;
        load_types(self, &mut keyspaces)?;
        tables::load(self, &mut keyspaces)?;
        functions::load(self, &mut keyspaces)?;
        let problems = self.problems.len();
        load_indexes(self, &mut keyspaces)?;
        let omitted = self.problems.split_off(problems);
        Ok((keyspaces, omitted))
    }
}

fn load_keyspaces(loader: &mut Loader<'_>) -> Result<BTreeMap<String, Keyspace>> {
    let (mut keyspaces, built_in) = (BTreeMap::new(), loader.built_in);
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
    Ok(keyspaces)
}

/// Adds keyspaces whose row is missing although tables, views, types or functions have theirs, so
/// these remain usable.
fn add_missing_keyspaces(loader: &mut Loader<'_>, keyspaces: &mut BTreeMap<String, Keyspace>) -> Result<()> {
    let mut missing = BTreeSet::new();
    for table in ["tables", "views", "types", "functions"] {
        loader.rows(table, |name, _| {
            if !keyspaces.contains_key(name) {
                missing.insert(name.to_owned());
            }
            Ok(())
        })?;
    }
    for name in missing {
        loader.problems.push(format!(
            "keyspace {name} has tables and no row in {SCHEMA}.keyspaces; until ALTER KEYSPACE writes one, its \
             replication is taken to be SimpleStrategy with a factor of 1"
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
    for stored in ["column_masks", "columns", "dropped_columns", "indexes", "tables", "views"] {
        let mut rows = Vec::new();
        loader.rows(stored, |of, row| {
            let Some(name) =
                row.clustering_text(0).filter(|name| of == table.keyspace && *name == table.name)
            else {
                return Ok(());
            };
            let part = row.clustering_text(1).unwrap_or_default();
            let is_current = match stored {
                "column_masks" => table.column(part).is_some_and(|column| column.mask.is_some()),
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
    /// Whether the schema is another program's: its own keyspaces are skipped, and rows that are
    /// not supported are problems, not errors.
    is_foreign: bool,
}

impl<'a> Loader<'a> {
    fn new(engine: &'a Engine, built_in: &'a Catalog, now: u32) -> Self {
        Self { engine, built_in, now, newest_timestamp: i64::MIN, problems: Vec::new(), is_foreign: false }
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
            if self.is_foreign && (self.built_in.keyspace(&keyspace).is_some() || is_cassandras(&keyspace)) {
                continue;
            }
            while let Some(next) = stream.next_unfiltered().map_err(failed)? {
                let Unfiltered::Row(row) = next else { continue };
                self.saw(row.liveness().timestamp);
                self.saw(row.deletion().timestamp);
                if row.is_live(self.now) {
                    let row = StoredRow { table, row: &row, now: self.now };
                    let done = if self.is_foreign { check_names(&keyspace, &row) } else { Ok(()) };
                    let done = done.and_then(|()| each(&keyspace, row));
                    self.tolerate(done)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the error of a definition in another program's schema a problem.
    fn tolerate(&mut self, done: Result<()>) -> Result<()> {
        match done {
            Err(error) if self.is_foreign => {
                let problem = error.to_string();
                let problem = problem.strip_prefix(UNREADABLE).unwrap_or(&problem).to_owned();
                // Rows of several tables have the names of a keyspace and a table.
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
                Ok(())
            }
            done => done,
        }
    }

    fn saw(&mut self, timestamp: i64) {
        self.newest_timestamp = self.newest_timestamp.max(timestamp);
    }
}

/// Checks the names in a row that become those of directories: another program's may lead anywhere.
fn check_names(keyspace: &str, row: &StoredRow<'_>) -> Result<()> {
    let of_row = match row.table.name.as_str() {
        "tables" | "views" => row.clustering_text(0),
        "indexes" => row.clustering_text(1),
        _ => None,
    };
    match std::iter::once(keyspace).chain(of_row).find(|name| !is_word(name)) {
        None => Ok(()),
        Some(name) => Err(unreadable(format_args!(
            "{name:?} in keyspace {keyspace:?}: a name of letters, digits and underscores expected"
        ))),
    }
}

/// The beginning of the errors of definitions.
const UNREADABLE: &str = "the stored schema cannot be understood: ";

/// Whether a keyspace is one of Cassandra's own that this program lacks.
fn is_cassandras(keyspace: &str) -> bool {
    matches!(
        keyspace,
        "system_cluster_metadata" | "system_views" | "system_virtual_schema" | "system_metrics"
    )
}

fn unreadable(what: impl std::fmt::Display) -> DatabaseError {
    let message = format!("{UNREADABLE}{what}");
    DatabaseError::SchemaCorrupt { message, cause: None }
}

fn unreadable_in(what: impl std::fmt::Display, error: impl Into<DatabaseError>) -> DatabaseError {
    DatabaseError::schema_corrupt_in(format_args!("{UNREADABLE}{what}"), error)
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
    // It has no name in CQL, where `empty` could be a user-defined type.
    if text == "empty" {
        return Ok(cassette_rows::DataType::Empty);
    }
    let raw = cassette_cql::parse_type(text).map_err(|error| unreadable_in(text, error))?;
    resolve_type(&raw, TypeUse { keyspace: &keyspace.name, types: &keyspace.types })
}

fn load_indexes(loader: &mut Loader<'_>, keyspaces: &mut BTreeMap<String, Keyspace>) -> Result<()> {
    let (mut problems, is_foreign) = (Vec::new(), loader.is_foreign);
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
            let options = row.text_map("options")?;
            let class = options.get(CLASS_NAME).map_or("", String::as_str);
            let kind = IndexKind::from_name(row.text("kind")?, class)?;
            Some((keyspace.tables.get(table)?, name, kind, options))
        };
        let Some((table, name, kind, options)) = load() else {
            let index = row.clustering_text(1).unwrap_or_default();
            return Err(unreadable(format!("index {}.{index}: its kind is not supported", keyspace.name)));
        };
        let class = options.get(CLASS_NAME).map_or("", String::as_str);
        let is_supported = kind != IndexKind::StorageAttached || is_storage_attached(class);
        if is_foreign && !is_supported {
            return Err(unreadable(format!("index {}.{name}: {class} is not supported", keyspace.name)));
        }
        let created_at = row.row.liveness().timestamp;
        let index = Index::new(name, kind, options, created_at, table)?;
        keyspace.indexes.insert(name.to_owned(), Arc::new(index));
        Ok(())
    })?;
    loader.problems.append(&mut problems);
    Ok(())
}
