//! Restoring tables from snapshots.

use std::collections::BTreeMap;
use std::path::Path;

use cassette_cql::ast::{QualifiedName, Statement};
use cassette_cql::split_statements;
use cassette_engine::{ImportOptions, ImportedSSTable};
use cassette_rows::{ColumnKind, ColumnMetadata, TableMetadata};

use super::{RestoreNames, Session};
use crate::api::database::Database;
use crate::basics::error::{DatabaseError, Result, bail_invalid};

const REPLICATION: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";

impl Database {
    /// Restores a table from the directory of a snapshot, or a copy of one. Its `schema.cql`
    /// creates missing definitions: the keyspace, the table, its types, indexes and views. Its
    /// SSTables are added to the rows of the table.
    ///
    /// The files of the directory are copied and not removed. To return to the state of the
    /// snapshot, truncate the table first.
    ///
    /// # Errors
    /// Invalid, if the directory is not a snapshot, or its files do not match the table; no row is
    /// added then.
    pub fn restore(&self, directory: &Path) -> Result<Vec<ImportedSSTable>> {
        // Files outside of the data directory would be moved otherwise, and may be the only copy.
        self.restore_with(directory, &ImportOptions { copy_data: true, ..ImportOptions::default() })
    }

    /// [`restore`](Self::restore) with other options of the import.
    #[doc(hidden)]
    pub fn restore_with(&self, directory: &Path, options: &ImportOptions) -> Result<Vec<ImportedSSTable>> {
        self.restore_as(directory, &SnapshotRestore { import: *options, ..SnapshotRestore::default() })
    }

    /// [`restore`](Self::restore) under other names, or in place of the rows of a table: after an
    /// error or a crash, it has its earlier rows or those of the snapshot.
    ///
    /// # Errors
    /// As for `restore`.
    #[doc(hidden)]
    pub fn restore_as(&self, directory: &Path, options: &SnapshotRestore) -> Result<Vec<ImportedSSTable>> {
        let text = self.schema_text(directory)?;
        let (_, keyspace, table) = parse(&text, directory)?;
        let renamed = options.names.rename(&text, &keyspace, &table);
        let (schema, keyspace, table) = parse(&renamed, directory)?;
        let session = self.session();
        create_keyspace(self, &session, &keyspace)?;
        execute(&session, &schema.before)?;
        let imported = if options.replace {
            self.replace(&keyspace, &table, directory, &options.import)?
        } else {
            self.import(&keyspace, &table, directory, &options.import)?
        };
        if options.names.table.is_none() {
            execute(&session, &schema.views)?;
        }
        Ok(imported)
    }

    /// Checks that a table that exists can take the rows of a snapshot, without changing anything.
    ///
    /// # Errors
    /// Invalid, if it has other columns, views, or an index that is being built.
    #[doc(hidden)]
    pub fn check_restore(&self, directory: &Path, names: &RestoreNames) -> Result<()> {
        let text = self.schema_text(directory)?;
        let (_, keyspace, table) = parse(&text, directory)?;
        let renamed = names.rename(&text, &keyspace, &table);
        let (schema, keyspace, table) = parse(&renamed, directory)?;
        let catalog = self.catalog();
        let Some(existing) = catalog.table(&keyspace, &table) else { return Ok(()) };
        let name = existing.qualified_name();
        if let Some(view) = catalog.views_of(existing.id).first() {
            bail_invalid!(
                "cannot restore {name}: nothing was changed; drop its view {} first, which the restore creates again",
                view.name()
            );
        }
        if let Some(index) = catalog.indexes_of(existing.id).iter().find(|index| !self.is_built(index)) {
            bail_invalid!(
                "cannot restore {name}: nothing was changed; its index {} is being built, try again when it is done",
                index.name
            );
        }
        let sample = Self::in_memory()?;
        let session = sample.session();
        create_keyspace(&sample, &session, &keyspace)?;
        // Without indexes, which do not matter here and would be created.
        let definitions: Vec<&str> = schema.before.iter().filter(|text| !is_index(text)).copied().collect();
        execute(&session, &definitions)?;
        let found = sample.catalog();
        let Some(found) = found.table(&keyspace, &table) else { return Ok(()) };
        match difference(found, existing) {
            None => Ok(()),
            Some(difference) => bail_invalid!(
                "cannot restore {name}: nothing was changed; {difference}; restore it under another name"
            ),
        }
    }

    fn schema_text(&self, directory: &Path) -> Result<String> {
        let text = self.engine().schema_file(directory).map_err(DatabaseError::storage)?;
        let Some(text) = text else {
            bail_invalid!("cannot restore {}: it has no schema.cql", directory.display());
        };
        Ok(text)
    }
}

/// The options of restoring a snapshot.
#[derive(Debug, Clone, Default)]
pub struct SnapshotRestore {
    /// Options of the import.
    pub import: ImportOptions,
    /// Other names.
    pub names: RestoreNames,
    /// Whether the rows of the table are replaced.
    pub replace: bool,
}

fn parse<'a>(text: &'a str, directory: &Path) -> Result<(Schema<'a>, String, String)> {
    let Some(parsed) = Schema::parse(text) else {
        bail_invalid!(
            "cannot restore {}: its schema.cql does not create a table in a keyspace",
            directory.display()
        );
    };
    Ok(parsed)
}

fn create_keyspace(database: &Database, session: &Session, keyspace: &str) -> Result<()> {
    if database.catalog().keyspace(keyspace).is_none() {
        let name = cassette_cql::quote_identifier(keyspace);
        let create = format!("CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = {REPLICATION}");
        session.execute(&create, ())?;
    }
    Ok(())
}

fn is_index(statement: &str) -> bool {
    let parsed = cassette_cql::parse(statement);
    parsed.is_ok_and(|parsed| matches!(parsed.statement, Statement::CreateIndex(_)))
}

/// Returns the reason why rows of `source` cannot be added to `target`.
fn difference(source: &TableMetadata, target: &TableMetadata) -> Option<String> {
    let key = |table: &TableMetadata| -> Vec<String> {
        let columns = table.partition_key.iter().chain(&table.clustering);
        columns
            .map(|column| {
                format!("{} {}{}", column.data_type, if column.reversed { "desc " } else { "" }, column.name)
            })
            .collect()
    };
    if (key(source), source.partition_key.len()) != (key(target), target.partition_key.len()) {
        return Some(format!(
            "expected the primary key ({}), found ({})",
            key(source).join(", "),
            key(target).join(", ")
        ));
    }
    let others = |table: &TableMetadata| -> BTreeMap<String, String> {
        let columns = table.columns.iter().flatten();
        let shown = |column: &ColumnMetadata| {
            let kind = if column.kind == ColumnKind::Static { "static " } else { "" };
            (column.name.clone(), format!("{kind}{}", column.data_type))
        };
        columns.map(|column| shown(column)).collect()
    };
    let existing = others(target);
    others(source).into_iter().find_map(|(name, expected)| match existing.get(&name) {
        Some(found) if *found == expected => None,
        Some(found) => Some(format!("expected column {name} of type {expected}, found {found}")),
        None if target.dropped_columns.contains_key(&name) => None,
        None => Some(format!("expected column {name}, found none of this name")),
    })
}

fn execute(session: &Session, statements: &[&str]) -> Result<()> {
    statements.iter().try_for_each(|statement| session.execute(statement, ()).map(drop))
}

/// The statements of a `schema.cql`.
struct Schema<'a> {
    before: Vec<&'a str>,
    /// Imported rows do not update views, which are built from the rows afterwards.
    views: Vec<&'a str>,
}

impl<'a> Schema<'a> {
    /// Returns the statements, and the keyspace and name of the table; `None` if there is no table.
    fn parse(text: &'a str) -> Option<(Self, String, String)> {
        let (mut before, mut views, mut table) = (Vec::new(), Vec::new(), None);
        for statement in split_statements(text) {
            match cassette_cql::parse(statement).ok()?.statement {
                Statement::CreateView(_) => views.push(statement),
                Statement::CreateTable(create) => {
                    table.get_or_insert(create.name);
                    before.push(statement);
                }
                _ => before.push(statement),
            }
        }
        let QualifiedName { keyspace, name, .. } = table?;
        Some((Self { before, views }, keyspace?.as_str().to_owned(), name.as_str().to_owned()))
    }
}
