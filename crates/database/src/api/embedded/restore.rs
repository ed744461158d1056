//! Restoring tables from snapshots.

use std::path::Path;

use cassette_cql::ast::{QualifiedName, Statement};
use cassette_cql::split_statements;
use cassette_engine::{ImportOptions, ImportedSSTable};

use super::Session;
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
        let text = self.engine().schema_file(directory).map_err(DatabaseError::storage)?;
        let Some(text) = text else {
            bail_invalid!("cannot restore {}: it has no schema.cql", directory.display());
        };
        let Some((schema, keyspace, table)) = Schema::parse(&text) else {
            bail_invalid!(
                "cannot restore {}: its schema.cql does not create a table in a keyspace",
                directory.display()
            );
        };
        let session = self.session();
        if self.catalog().keyspace(&keyspace).is_none() {
            let name = cassette_cql::quote_identifier(&keyspace);
            let create = format!("CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = {REPLICATION}");
            session.execute(&create, ())?;
        }
        execute(&session, &schema.before)?;
        let imported = self.import(&keyspace, &table, directory, options)?;
        execute(&session, &schema.views)?;
        Ok(imported)
    }
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
