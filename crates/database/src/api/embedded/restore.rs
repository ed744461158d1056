//! Restoring tables from snapshots.

use std::collections::BTreeMap;
use std::path::Path;

use cassette_cql::ast::{QualifiedName, Statement};
use cassette_cql::{StatementKind, Subject, split_statements};
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
        options.check(&keyspace, &table, directory)?;
        let renamed = options.names.rename(&text, &keyspace, &table);
        let (schema, keyspace, table) = parse(&renamed, directory)?;
        let session = self.session();
        create_keyspace(self, &session, &keyspace)?;
        execute(&session, &schema.types)?;
        if self.catalog().table(&keyspace, &table).is_none() {
            execute(&session, &schema.table)?;
        }
        execute(&session, &schema.indexes)?;
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

    /// Checks that a directory can be restored, without changing anything: that it is a snapshot of
    /// the expected table, and that a table that exists can take its rows.
    ///
    /// # Errors
    /// Invalid, if it is not, or the table has other columns, views, or an index that is being
    /// built.
    #[doc(hidden)]
    pub fn check_restore(&self, directory: &Path, options: &SnapshotRestore) -> Result<()> {
        let text = self.schema_text(directory)?;
        let (_, keyspace, table) = parse(&text, directory)?;
        options.check(&keyspace, &table, directory)?;
        let renamed = options.names.rename(&text, &keyspace, &table);
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
        execute(&session, &schema.types)?;
        execute(&session, &schema.table)?;
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
    /// The keyspace and name of the table that the directory is expected to define, under its own
    /// name; any if it is `None`.
    pub expected: Option<(String, String)>,
}

impl SnapshotRestore {
    fn check(&self, keyspace: &str, table: &str, directory: &Path) -> Result<()> {
        let Some((expected_keyspace, expected_table)) = &self.expected else { return Ok(()) };
        if (expected_keyspace.as_str(), expected_table.as_str()) != (keyspace, table) {
            bail_invalid!(
                "cannot restore {}: its schema.cql was expected to create {expected_keyspace}.{expected_table}, and \
                 creates {keyspace}.{table}",
                directory.display()
            );
        }
        Ok(())
    }
}

fn parse<'a>(text: &'a str, directory: &Path) -> Result<(Schema<'a>, String, String)> {
    match Schema::parse(text) {
        Ok(parsed) => Ok(parsed),
        Err(reason) => bail_invalid!("cannot restore {}: its schema.cql {reason}", directory.display()),
    }
}

fn create_keyspace(database: &Database, session: &Session, keyspace: &str) -> Result<()> {
    if database.catalog().keyspace(keyspace).is_none() {
        let name = cassette_cql::quote_identifier(keyspace);
        let create = format!("CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = {REPLICATION}");
        session.execute(&create, ())?;
    }
    Ok(())
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

/// The statements of a `schema.cql`: definitions of one table. Others are not executed, because the
/// file may come from elsewhere.
#[derive(Default)]
struct Schema<'a> {
    types: Vec<&'a str>,
    /// The table, and the drops of its former columns. A table that exists may have got columns of
    /// these names since.
    table: Vec<&'a str>,
    indexes: Vec<&'a str>,
    /// Imported rows do not update views, which are built from the rows afterwards.
    views: Vec<&'a str>,
}

impl<'a> Schema<'a> {
    /// Returns the statements, and the keyspace and name of the table.
    ///
    /// # Errors
    /// What the text does instead, after its name.
    fn parse(text: &'a str) -> std::result::Result<(Self, String, String), String> {
        const NO_TABLE: &str = "does not create a table in a keyspace";
        let (mut schema, mut table, mut subjects) = (Self::default(), None, Vec::new());
        for statement in split_statements(text) {
            let parsed = cassette_cql::parse(statement).map_err(|_| NO_TABLE)?.statement;
            subjects.push(Subject::of(&parsed, None));
            match &parsed {
                Statement::CreateKeyspace(_) | Statement::CreateType(_) => schema.types.push(statement),
                Statement::CreateTable(create) => {
                    if table.replace(create.name.clone()).is_some() {
                        return Err("creates more than one table".to_owned());
                    }
                    schema.table.push(statement);
                }
                Statement::AlterTable(_) => schema.table.push(statement),
                Statement::CreateIndex(_) => schema.indexes.push(statement),
                Statement::CreateView(_) => schema.views.push(statement),
                _ => return Err("contains a statement that is not part of a table's definition".to_owned()),
            }
        }
        let QualifiedName { keyspace, name, .. } = table.ok_or(NO_TABLE)?;
        let keyspace = keyspace.ok_or(NO_TABLE)?.as_str().to_owned();
        let name = name.as_str().to_owned();
        let is_foreign = |subject: &Subject| {
            subject.keyspace.as_deref() != Some(keyspace.as_str())
                || subject.kind == StatementKind::AlterTable && subject.name.as_deref() != Some(name.as_str())
        };
        if subjects.iter().any(is_foreign) {
            return Err(format!("contains a statement on something other than {keyspace}.{name}"));
        }
        Ok((schema, keyspace, name))
    }
}

/// Returns the statements of a text that creates a keyspace and its types, if it contains nothing
/// else.
///
/// # Errors
/// Invalid, if it contains other statements.
#[doc(hidden)]
pub fn keyspace_definitions<'a>(text: &'a str, keyspace: &str) -> Result<Vec<&'a str>> {
    let mut statements = Vec::new();
    for statement in split_statements(text) {
        let parsed = cassette_cql::parse(statement).map(|parsed| Subject::of(&parsed.statement, None));
        let is_definition = parsed.is_ok_and(|subject| {
            matches!(subject.kind, StatementKind::CreateKeyspace | StatementKind::CreateType)
                && subject.keyspace.as_deref() == Some(keyspace)
        });
        if !is_definition {
            bail_invalid!("expected statements that create keyspace {keyspace} and its types, found others");
        }
        statements.push(statement);
    }
    Ok(statements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_file_with_other_statements_than_definitions_of_its_table_is_rejected() {
        const TABLE: &str = "CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY, v int);";
        for addition in [
            "",
            "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy'};",
            "CREATE TYPE IF NOT EXISTS ks.pair (a int);",
            "ALTER TABLE ks.t DROP v USING TIMESTAMP 7;",
            "CREATE INDEX IF NOT EXISTS i ON ks.t (v);",
        ] {
            let text = format!("{TABLE}\n{addition}");
            let parsed = Schema::parse(&text);
            let (_, keyspace, table) = parsed.unwrap_or_else(|error| panic!("{addition}: {error}"));
            assert_eq!((keyspace.as_str(), table.as_str()), ("ks", "t"));
        }
        for addition in [
            "DROP TABLE ks.t;",
            "DROP KEYSPACE other;",
            "TRUNCATE ks.t;",
            "CREATE ROLE r WITH SUPERUSER = true AND LOGIN = true AND PASSWORD = 'x';",
            "GRANT ALL ON ALL KEYSPACES TO r;",
            "INSERT INTO system_auth.roles (role, is_superuser) VALUES ('r', true);",
            "ALTER TABLE ks.u DROP v;",
            "ALTER TABLE other.t DROP v;",
            "CREATE TYPE other.pair (a int);",
            "CREATE TABLE ks.u (k int PRIMARY KEY);",
            "CREATE INDEX ON other.t (v);",
            "USE ks;",
        ] {
            assert!(Schema::parse(&format!("{TABLE}\n{addition}")).is_err(), "{addition}");
        }
        assert!(Schema::parse("CREATE TYPE ks.pair (a int);").is_err());
    }

    #[test]
    fn the_definition_of_a_keyspace_contains_nothing_else() {
        let keyspace = "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy'};";
        let types = "CREATE TYPE IF NOT EXISTS ks.pair (a int);";
        assert_eq!(keyspace_definitions(&format!("{keyspace}\n{types}"), "ks").unwrap().len(), 2);
        for other in
            ["DROP KEYSPACE ks;", "CREATE TYPE other.pair (a int);", "GRANT ALL ON KEYSPACE ks TO r;"]
        {
            assert!(keyspace_definitions(&format!("{keyspace}\n{other}"), "ks").is_err(), "{other}");
        }
    }
}
