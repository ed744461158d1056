//! The table that an SSTable is of: as its own Statistics.db knows it, or as CREATE statements say.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use cassette_cql::ast::Statement;
use cassette_cql::lexer::{Lexer, Symbol, TokenKind};
use cassette_cql::quote_identifier;
use cassette_database::{Database, KeyspaceKind, Options};
use cassette_rows::types::{parse_class_name, parse_key_class_name};
use cassette_rows::{ColumnId, ColumnKind, ColumnMetadata, TableId, TableMetadata, TableParams};
use cassette_sstable::statistics::{SerializationHeader, Statistics};
use cassette_sstable::{Component, Descriptor};
use cassette_vfs::FakeFileSystem;
use uuid::Uuid;

use super::arguments::Place;

/// What Statistics.db says of an SSTable.
pub fn statistics(descriptor: &Descriptor) -> anyhow::Result<Statistics> {
    let path = descriptor.path(Component::Statistics);
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Statistics::decode_version(&bytes, descriptor.version).map_err(|malformed| malformed.at(&path))?)
}

/// The table as far as the SSTable itself knows it. Key columns have no names there; they get those that Cassandra's tools give
/// them: `PartitionKey`, `clustering`, `clustering1`.
pub fn table_of_header(descriptor: &Descriptor) -> anyhow::Result<Arc<TableMetadata>> {
    let header = statistics(descriptor)?.header;
    let path = descriptor.path(Component::Statistics);
    table_of(&header).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// The table of several SSTables, with the columns that any of them has.
pub fn table_of_headers(descriptors: &[Descriptor]) -> anyhow::Result<Arc<TableMetadata>> {
    let mut whole: Option<SerializationHeader> = None;
    for descriptor in descriptors {
        let header = statistics(descriptor)?.header;
        let Some(whole) = &mut whole else {
            whole = Some(header);
            continue;
        };
        if (&whole.key_type, &whole.clustering_types) != (&header.key_type, &header.clustering_types) {
            bail!("{descriptor}: not of the same table as the one before: its key is {}", header.key_type);
        }
        for (all, new) in [
            (&mut whole.static_columns, header.static_columns),
            (&mut whole.regular_columns, header.regular_columns),
        ] {
            for column in new {
                match all.iter_mut().find(|known| known.name == column.name) {
                    // Types only grow.
                    Some(known) => *known = column,
                    None => all.push(column),
                }
            }
        }
    }
    let whole = whole.context("no SSTable")?;
    table_of(&whole).map_err(|error| anyhow!("{error}"))
}

fn table_of(header: &SerializationHeader) -> Result<Arc<TableMetadata>, String> {
    let column = |name: String, kind, position, data_type, reversed| ColumnMetadata {
        name,
        kind,
        position,
        data_type,
        reversed,
        id: ColumnId(0),
    };
    let mut columns = Vec::new();
    let key = parse_key_class_name(&header.key_type).map_err(|error| error.to_string())?;
    let count = key.len();
    for (i, data_type) in key.into_iter().enumerate() {
        let name = if count == 1 { "PartitionKey".to_owned() } else { format!("PartitionKey{i}") };
        columns.push(column(name, ColumnKind::PartitionKey, i, data_type, false));
    }
    for (i, class) in header.clustering_types.iter().enumerate() {
        let (data_type, reversed) = parse_class_name(class).map_err(|error| error.to_string())?;
        let name = if i == 0 { "clustering".to_owned() } else { format!("clustering{i}") };
        columns.push(column(name, ColumnKind::Clustering, i, data_type, reversed));
    }
    for (kind, definitions) in
        [(ColumnKind::Static, &header.static_columns), (ColumnKind::Regular, &header.regular_columns)]
    {
        for definition in definitions {
            let (data_type, _) =
                parse_class_name(&definition.type_name).map_err(|error| error.to_string())?;
            columns.push(column(definition.name.clone(), kind, 0, data_type, false));
        }
    }
    let id = TableId(Uuid::nil());
    Ok(Arc::new(TableMetadata::new(id, "keyspace", "table", columns, TableParams::default())))
}

/// Tables by names: from CREATE statements, such as a snapshot's schema.cql, or from a data directory.
pub struct Schema {
    tables: Vec<Arc<TableMetadata>>,
    from: PathBuf,
}

impl Schema {
    /// Reads a file of statements, or a data directory, which no server may have open.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let database = match path.is_dir() {
            true => Database::open(path)?,
            false => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                execute(&text).with_context(|| path.display().to_string())?
            }
        };
        let catalog = database.catalog();
        let keyspaces = catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User);
        let tables = keyspaces.flat_map(|keyspace| keyspace.tables.values().cloned()).collect();
        Ok(Self { tables, from: path.to_owned() })
    }

    /// The table of an SSTable: the one whose name or id its directory bears, or else the only one there is.
    pub fn table(&self, descriptor: &Descriptor) -> anyhow::Result<Arc<TableMetadata>> {
        if let [only] = &self.tables[..] {
            return Ok(only.clone());
        }
        let place = Place::guess(&descriptor.directory);
        let is_meant = |table: &&Arc<TableMetadata>| {
            place.table_id == Some(table.id)
                || place.table.as_deref() == Some(table.name.as_str())
                    && place.keyspace.as_deref().is_none_or(|keyspace| keyspace == table.keyspace)
        };
        match &self.tables.iter().filter(is_meant).collect::<Vec<_>>()[..] {
            [table] => Ok((*table).clone()),
            found => bail!(
                "{}: its directory's name fits {} of the {} tables in {}; give a file with its table alone",
                descriptor,
                found.len(),
                self.tables.len(),
                self.from.display()
            ),
        }
    }
}

/// Executes CREATE and ALTER statements in a database of their own, which is in memory alone.
fn execute(text: &str) -> anyhow::Result<Database> {
    let mut options = Options::new("schema");
    options.file_system = Arc::new(FakeFileSystem::new());
    options.engine.background_threads = false;
    let database = Database::open(options)?;
    let session = database.session();
    for statement in statements(text) {
        let first_line = || statement.lines().next().unwrap_or_default().to_owned();
        let parsed = cassette_cql::parse(statement).with_context(first_line)?;
        let name = match &parsed.statement {
            Statement::CreateTable(create) => Some(&create.name),
            Statement::CreateType(create) => Some(&create.name),
            Statement::AlterTable(alter) => Some(&alter.name),
            Statement::CreateKeyspace(_) | Statement::Use(_) => None,
            // Indexes, views and rows change nothing about how the table's files are read.
            _ => continue,
        };
        // A snapshot's schema.cql has types and a table, and takes their keyspace for granted.
        if let Some(keyspace) = name.and_then(|name| name.keyspace.as_ref())
            && database.catalog().keyspace(keyspace.as_str()).is_none()
        {
            let quoted = quote_identifier(keyspace.as_str());
            let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
            session.execute(&format!("CREATE KEYSPACE {quoted} WITH replication = {replication}"), ())?;
        }
        session.execute(statement, ()).with_context(first_line)?;
    }
    Ok(database)
}

/// The statements of a text, without the semicolons between them.
fn statements(text: &str) -> Vec<&str> {
    let mut lexer = Lexer::new(text);
    let mut found = Vec::new();
    let mut start = 0;
    let mut is_empty = true;
    loop {
        let token = lexer.next_token();
        let is_end = matches!(token.kind, TokenKind::Eof | TokenKind::Error);
        if !is_end && token.kind != TokenKind::Symbol(Symbol::Semicolon) {
            is_empty = false;
            continue;
        }
        if !is_empty && let Some(statement) = text.get(start..token.start as usize) {
            found.push(statement.trim());
        }
        if is_end {
            return found;
        }
        start = token.end as usize;
        is_empty = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_read_from_statements_and_makes_its_keyspace() {
        let text = "CREATE TYPE IF NOT EXISTS ks.u (a int); -- a comment; with a semicolon
            CREATE TABLE ks.t (k int, \"C;\" text, v frozen<u>, PRIMARY KEY (k, \"C;\")) WITH comment = 'it''s; fine';";
        assert_eq!(statements(text).len(), 2);
        let database = execute(text).unwrap();
        let catalog = database.catalog();
        let table = &catalog.keyspace("ks").unwrap().tables["t"];
        assert_eq!(table.clustering[0].name, "C;");
        let error = format!("{:#}", execute("CREATE TABLE ks.t (k int)").unwrap_err());
        assert!(error.contains("PRIMARY KEY"), "{error}");
    }
}
