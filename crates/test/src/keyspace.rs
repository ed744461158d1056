//! Keyspaces of tests.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use cassette_cql::quote_identifier;
use cassette_database::{Database, Session};

use crate::error::{Error, Result};
use crate::script;

/// A keyspace with a schema. It is dropped with this value, so tests that share a server can run in
/// parallel, each in its own keyspace.
#[derive(Debug)]
pub struct Keyspace {
    name: String,
    session: Session,
}

impl Keyspace {
    /// Creates a keyspace whose name no other keyspace of this process has.
    pub(crate) fn create(database: &Database) -> Result<Self> {
        static CREATED: AtomicU64 = AtomicU64::new(1);
        let name = format!("test_{}", CREATED.fetch_add(1, Ordering::Relaxed));
        let session = database.session();
        session.execute(
            &*format!(
                "CREATE KEYSPACE {name} \
                 WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            ),
            (),
        )?;
        // From here on, the keyspace is dropped if its schema has an error.
        let keyspace = Self { name, session };
        keyspace.session.execute(&*format!("USE {}", keyspace.name), ())?;
        Ok(keyspace)
    }

    /// Returns the name, which needs no quotes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a session in the keyspace that does not use the network: to insert and to check rows
    /// without a driver.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Executes the statements of a text in the keyspace.
    ///
    /// # Errors
    /// If a statement fails, with its line and column. The statements before it were executed.
    pub fn execute(&self, cql: &str) -> Result<()> {
        script::execute(&self.session, "CQL", cql)
    }

    /// Executes the statements of a file in the keyspace: `keyspace.execute_file("schema.cql")?`.
    /// Relative paths are below the directory of the package, where Cargo runs tests.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), and if the file cannot be read.
    pub fn execute_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let text =
            std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        script::execute(&self.session, &path.display().to_string(), &text)
    }

    /// Removes the rows of all tables of the keyspace, and keeps the schema. Takes about a
    /// millisecond for each table. With a seed, UUIDs and times start again.
    ///
    /// # Errors
    /// If a table cannot be truncated.
    pub fn reset(&self) -> Result<()> {
        truncate(&self.session, &self.name)
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        // The test may have dropped it, or closed the database.
        let _ = self.session.execute(&*format!("DROP KEYSPACE IF EXISTS {}", self.name), ());
    }
}

/// Removes the rows of all tables of a keyspace; those of views disappear with those of their
/// tables.
pub fn truncate(session: &Session, keyspace: &str) -> Result<()> {
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";
    for row in session.execute(tables, (keyspace,))?.typed::<(String,)>() {
        let (table,) = row?;
        let (keyspace, table) = (quote_identifier(keyspace), quote_identifier(&table));
        session.execute(&*format!("TRUNCATE {keyspace}.{table}"), ())?;
    }
    if session.database().is_seeded() {
        session.execute("TRUNCATE system_testing.cassette_clock", ())?;
    }
    Ok(())
}
