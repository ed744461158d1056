//! The table of an SSTable: from its Statistics.db, or from CREATE statements.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use cassette_cql::ast::{CreateView, Statement};
use cassette_cql::{quote_identifier, split_statements};
use cassette_database::{Database, KeyspaceKind, Options};
use cassette_rows::types::parse_key_class_name;
use cassette_rows::{ColumnKind, TableId, TableMetadata, TableParams};
use cassette_sstable::header_schema::{columns_of_header, merge_headers, with_stored_types};
use cassette_sstable::statistics::{SerializationHeader, Statistics};
use cassette_sstable::{Component, Descriptor};
use cassette_vfs::FakeFileSystem;
use uuid::Uuid;

use super::arguments::Place;

/// Returns the content of Statistics.db of an SSTable.
pub fn statistics(descriptor: &Descriptor) -> anyhow::Result<Statistics> {
    let path = descriptor.path(Component::Statistics);
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Statistics::decode_version(&bytes, descriptor.version).map_err(|malformed| malformed.at(&path))?)
}

/// Returns the columns of an SSTable, with the types of their cells.
fn header(descriptor: &Descriptor) -> anyhow::Result<SerializationHeader> {
    Ok(with_stored_types(statistics(descriptor)?.header, descriptor.version))
}

/// Returns the table as far as the SSTable describes it. It contains no names of key columns; they
/// have the names of Cassandra's tools: `PartitionKey`, `clustering`, `clustering1`.
pub fn table_of_header(descriptor: &Descriptor) -> anyhow::Result<Arc<TableMetadata>> {
    let header = header(descriptor)?;
    let path = descriptor.path(Component::Statistics);
    table_of(&header, &|_, _| None).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// Returns the table of several SSTables, with the columns of all.
pub fn table_of_headers(descriptors: &[Descriptor]) -> anyhow::Result<Arc<TableMetadata>> {
    let headers = descriptors.iter().map(header);
    let headers = headers.collect::<anyhow::Result<Vec<_>>>()?;
    let whole = merge_headers(headers).map_err(|error| anyhow!("{error}"))?.context("no SSTable")?;
    table_of(&whole, &|_, _| None).map_err(|error| anyhow!("{error}"))
}

/// Returns the name of the key column of a kind and position; `None` if unknown.
type KeyNames<'a> = &'a dyn Fn(ColumnKind, usize) -> Option<String>;

fn table_of(header: &SerializationHeader, named: KeyNames<'_>) -> Result<Arc<TableMetadata>, String> {
    let count = parse_key_class_name(&header.key_type).map_err(|error| error.to_string())?.len();
    let columns = columns_of_header(header, &|kind, at| {
        named(kind, at).unwrap_or_else(|| match (kind, at) {
            (ColumnKind::PartitionKey, _) if count == 1 => "PartitionKey".to_owned(),
            (ColumnKind::PartitionKey, at) => format!("PartitionKey{at}"),
            (_, 0) => "clustering".to_owned(),
            (_, at) => format!("clustering{at}"),
        })
    })?;
    let id = TableId(Uuid::nil());
    Ok(Arc::new(TableMetadata::new(id, "keyspace", "table", columns, TableParams::default())))
}

/// Tables by names: from CREATE statements, such as a snapshot's schema.cql, or from a data
/// directory.
pub struct Schema {
    tables: Vec<Arc<TableMetadata>>,
    /// Views without their base tables, as in a snapshot of a view: names are from the view, types
    /// from the SSTable.
    views: Vec<CreateView>,
    from: PathBuf,
}

impl Schema {
    /// Reads a file of statements, or a data directory, which no server may have open.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let (database, views) = if path.is_dir() {
            (Database::open(path)?, Vec::new())
        } else {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            execute(&text).with_context(|| path.display().to_string())?
        };
        let catalog = database.catalog();
        let keyspaces = catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User);
        let tables = keyspaces.flat_map(|keyspace| keyspace.tables.values().cloned()).collect();
        Ok(Self { tables, views, from: path.to_owned() })
    }

    /// Returns the table of an SSTable: the one with the name or id of its directory, or else the
    /// only one.
    pub fn table(&self, descriptor: &Descriptor) -> anyhow::Result<Arc<TableMetadata>> {
        if let ([only], []) = (&self.tables[..], &self.views[..]) {
            return Ok(only.clone());
        }
        let place = Place::guess(&descriptor.directory);
        let is_view = |view: &&CreateView| place.table.as_deref() == Some(view.name.name.as_str());
        match (&self.tables[..], &self.views[..]) {
            ([], [only]) => return table_of_view(descriptor, only),
            (_, views) => {
                if let Some(view) = views.iter().find(is_view) {
                    return table_of_view(descriptor, view);
                }
            }
        }
        let is_meant = |table: &&Arc<TableMetadata>| {
            place.table_id == Some(table.id)
                || place.table.as_deref() == Some(table.name.as_str())
                    && place.keyspace.as_deref().is_none_or(|keyspace| keyspace == table.keyspace)
        };
        match &self.tables.iter().filter(is_meant).collect::<Vec<_>>()[..] {
            [table] => Ok((*table).clone()),
            found => bail!(
                "{}: its directory's name matches {} of the {} tables in {}; specify a file with its table only",
                descriptor,
                found.len(),
                self.tables.len(),
                self.from.display()
            ),
        }
    }
}

/// Returns a view's table: the names of key columns from its statement, the rest from the SSTable.
fn table_of_view(descriptor: &Descriptor, view: &CreateView) -> anyhow::Result<Arc<TableMetadata>> {
    let header = header(descriptor)?;
    let key = &view.primary_key;
    let named = |kind, at: usize| {
        let columns = if kind == ColumnKind::PartitionKey { &key.partition_key } else { &key.clustering };
        columns.get(at).map(|column| column.as_str().to_owned())
    };
    table_of(&header, &named).map_err(|error| anyhow!("{descriptor}: {error}"))
}

/// Executes CREATE and ALTER statements in a temporary database in memory. Returns also the views
/// whose base tables are missing.
fn execute(text: &str) -> anyhow::Result<(Database, Vec<CreateView>)> {
    let mut views = Vec::new();
    let mut options = Options::new("schema");
    options.materialized_views_enabled = true;
    options.sasi_indexes_enabled = true;
    options.dynamic_data_masking_enabled = true;
    options.file_system = Arc::new(FakeFileSystem::new());
    options.engine.background_threads = false;
    let database = Database::open(options)?;
    let session = database.session();
    for statement in split_statements(text) {
        let first_line = || statement.lines().next().unwrap_or_default().to_owned();
        let parsed = cassette_cql::parse(statement).with_context(first_line)?;
        let name = match &parsed.statement {
            Statement::CreateTable(create) => Some(&create.name),
            Statement::CreateType(create) => Some(&create.name),
            Statement::AlterTable(alter) => Some(&alter.name),
            Statement::CreateView(create) => {
                let base = &create.base_table;
                let keyspace = base.keyspace.as_ref().or(create.name.keyspace.as_ref());
                let is_there = keyspace.is_some_and(|keyspace| {
                    let catalog = database.catalog();
                    let keyspace = catalog.keyspace(keyspace.as_str());
                    keyspace.is_some_and(|keyspace| keyspace.tables.contains_key(base.name.as_str()))
                });
                if keyspace.is_some() && !is_there {
                    views.push((**create).clone());
                    continue;
                }
                Some(&create.name)
            }
            Statement::CreateKeyspace(_) | Statement::Use(_) => None,
            // Indexes and rows do not affect how the table's files are read.
            _ => continue,
        };
        // A snapshot's schema.cql contains types and a table, and presumes their keyspace.
        if let Some(keyspace) = name.and_then(|name| name.keyspace.as_ref())
            && database.catalog().keyspace(keyspace.as_str()).is_none()
        {
            let quoted = quote_identifier(keyspace.as_str());
            let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
            session.execute(&format!("CREATE KEYSPACE {quoted} WITH replication = {replication}"), ())?;
        }
        session.execute(statement, ()).with_context(first_line)?;
    }
    Ok((database, views))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_read_from_statements_and_creates_its_keyspace() {
        let text = "CREATE TYPE IF NOT EXISTS ks.u (a int); -- a comment; with a semicolon
            CREATE TABLE ks.t (k int, \"C;\" text, v frozen<u>, PRIMARY KEY (k, \"C;\")) WITH comment = 'it''s; fine';";
        assert_eq!(split_statements(text).len(), 2);
        let (database, _) = execute(text).unwrap();
        let catalog = database.catalog();
        let table = &catalog.keyspace("ks").unwrap().tables["t"];
        assert_eq!(table.clustering[0].name, "C;");
        let error = format!("{:#}", execute("CREATE TABLE ks.t (k int)").map(drop).unwrap_err());
        assert!(error.contains("PRIMARY KEY"), "{error}");
    }
    /// Regression: a view's snapshot has only its statement in schema.cql, which was reported as
    /// "no table".
    #[test]
    fn a_view_is_read_by_its_own_statement() {
        let data = tempfile::tempdir().unwrap();
        let mut options = Options::new(data.path());
        options.materialized_views_enabled = true;
        options.sasi_indexes_enabled = true;
        options.dynamic_data_masking_enabled = true;
        let database = Database::open(options).unwrap();
        let session = database.session();
        let view = "CREATE MATERIALIZED VIEW IF NOT EXISTS ks.by_v AS SELECT * FROM ks.t \
                    WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)";
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v text, w int)",
            view,
            "INSERT INTO ks.t (k, v, w) VALUES (1, 'a', 2)",
        ] {
            session.execute(cql, ()).unwrap();
        }
        database.engine().flush(None).unwrap();
        let table = database.catalog().keyspace("ks").unwrap().tables["by_v"].clone();
        let directory = data.path().join("data/ks").join(table.directory_name());
        let sstable = Descriptor::new(&directory, cassette_sstable::SSTableId::Sequence(1));
        let file = data.path().join("schema.cql");
        let with_base = format!("CREATE TABLE ks.t (k int PRIMARY KEY, v text, w int);\n{view};");
        for text in [view, with_base.as_str()] {
            std::fs::write(&file, text).unwrap();
            let found = Schema::read(&file).unwrap().table(&sstable).unwrap();
            let names: Vec<_> = found.all_columns().map(|column| column.name.as_str()).collect();
            assert_eq!(names, ["v", "k", "w"]);
        }
    }
}
