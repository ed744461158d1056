//! Adoption and removal of tables whose rows in `system_schema` were lost.

use std::sync::Arc;

use cassette_cql::{quote_identifier, split_statements};
use cassette_engine::UnknownTable;
use cassette_rows::types::UserType;
use cassette_rows::{ColumnKind, DataType, TableId, TableMetadata, TableParams};
use uuid::Uuid;

use crate::api::database::Database;
use crate::basics::error::{DatabaseError, Result};
use crate::basics::request::StatementOptions;
use crate::basics::response::{SchemaChange, SchemaChangeKind, SchemaChangeTarget};
use crate::execution::Execution;
use crate::schema::catalog::Keyspace;
use crate::statements::schema::commit::change_schema;
use crate::statements::schema::{Change, KeyspaceChange, SchemaContext};

/// The source of an adopted table's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdoptedSchema {
    /// The `schema.cql` of its latest snapshot.
    Snapshot,
    /// The serialization headers of its SSTables, which lack the names of key columns: these become
    /// `key`, `key2`; `column1`, `column2`.
    Headers,
}

impl Database {
    /// Returns the data of tables that the schema does not contain and that were not dropped; see
    /// [`Engine::unknown_tables`](cassette_engine::Engine::unknown_tables).
    #[doc(hidden)]
    pub fn unknown_tables(&self) -> Result<Vec<UnknownTable>> {
        self.engine().unknown_tables().map_err(DatabaseError::of_operation)
    }

    /// Creates the table of unknown data again, with its id, so that its files are used in place
    /// and the log records kept for it are applied. A missing keyspace is created with
    /// SimpleStrategy and a replication factor of 1.
    ///
    /// # Errors
    /// Invalid, if there is no such data, if it is that of an index or has no SSTable to take the
    /// schema from, or if another table has its name.
    #[doc(hidden)]
    pub fn adopt_table(&self, id: Uuid) -> Result<(String, AdoptedSchema)> {
        let unknown = self.unknown_table(&id.to_string())?;
        if unknown.directory.is_none() {
            return Err(DatabaseError::invalid(format!(
                "table {id} has log records only: create it with its keyspace, name and columns by CREATE \
                 TABLE ... WITH id = {id}"
            )));
        }
        let name = format!("{}.{}", unknown.keyspace, unknown.table);
        if self.catalog().table(&unknown.keyspace, &unknown.table).is_some() {
            return Err(DatabaseError::invalid(format!(
                "another table has the name {name}: import the SSTables into it (nodetool import), or drop it first"
            )));
        }
        self.create_missing_keyspace(&unknown.keyspace)?;
        let schema = self.engine().snapshot_schema(&unknown).map_err(DatabaseError::of_operation)?;
        if let Some(text) = schema.filter(|text| text.contains(&id.to_string())) {
            let session = self.session();
            for statement in split_statements(&text) {
                session.execute(statement, ())?;
            }
            return Ok((name, AdoptedSchema::Snapshot));
        }
        self.adopt_by_headers(&unknown, TableId(id))?;
        Ok((name, AdoptedSchema::Headers))
    }

    /// Removes unknown data, specified by table id or directory; its snapshots are kept.
    ///
    /// # Errors
    /// Invalid, if there is no such data.
    #[doc(hidden)]
    pub fn remove_unknown_table(&self, id_or_directory: &str) -> Result<()> {
        let unknown = self.unknown_table(id_or_directory)?;
        self.engine().remove_unknown_table(&unknown).map_err(DatabaseError::of_operation)
    }

    fn unknown_table(&self, id_or_directory: &str) -> Result<UnknownTable> {
        let id = Uuid::try_parse(id_or_directory).ok().map(TableId);
        let is_meant = |unknown: &UnknownTable| match (id, &unknown.directory) {
            (Some(id), _) => unknown.id == Some(id),
            (None, Some(directory)) => directory.as_os_str() == id_or_directory,
            (None, None) => false,
        };
        let found = self.unknown_tables()?.into_iter().find(is_meant);
        found.ok_or_else(|| {
            DatabaseError::invalid(format!(
                "no unknown table has the id or directory {id_or_directory} (nodetool unknowntables lists them)"
            ))
        })
    }

    fn create_missing_keyspace(&self, keyspace: &str) -> Result<()> {
        if self.catalog().keyspace(keyspace).is_some() {
            return Ok(());
        }
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        let name = quote_identifier(keyspace);
        let statement = format!("CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = {replication}");
        self.session().execute(&statement, ()).map(drop)
    }

    fn adopt_by_headers(&self, unknown: &UnknownTable, id: TableId) -> Result<()> {
        let key_name = |kind: ColumnKind, at: usize| match (kind, at) {
            (ColumnKind::PartitionKey, 0) => "key".to_owned(),
            (ColumnKind::PartitionKey, at) => format!("key{}", at + 1),
            (_, at) => format!("column{}", at + 1),
        };
        let columns =
            self.engine().unknown_table_columns(unknown, &key_name).map_err(DatabaseError::of_operation)?;
        if columns.is_empty() {
            return Err(DatabaseError::invalid(format!(
                "{}.{} has no SSTable that names its columns: create it by CREATE TABLE ... WITH id = {}",
                unknown.keyspace, unknown.table, id.0
            )));
        }
        let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(DatabaseError::invalid(format!(
                "{}.{} has a column with a name that is made up for its key: create it by CREATE TABLE ... \
                 WITH id = {}",
                unknown.keyspace, unknown.table, id.0
            )));
        }
        let (catalog, options) = (self.catalog(), StatementOptions::default());
        let execution = Execution::new(self.store(), &catalog, &[], &options, None);
        let decide = |cx: &SchemaContext<'_>| {
            let Some(keyspace) = cx.catalog.keyspace(&unknown.keyspace) else {
                return Err(DatabaseError::invalid(format!("Keyspace {} does not exist", unknown.keyspace)));
            };
            let mut changed = Keyspace::clone(keyspace);
            for column in &columns {
                add_types(&mut changed, &column.data_type);
            }
            let params = TableParams::clone(cx.default_params);
            let (keyspace, name) = (&unknown.keyspace, &unknown.table);
            let table = Arc::new(TableMetadata::new(id, keyspace, name, columns.clone(), params));
            let event = SchemaChange {
                kind: SchemaChangeKind::Created,
                target: SchemaChangeTarget::Table,
                keyspace: keyspace.clone(),
                name: name.clone(),
                arguments: Vec::new(),
            };
            let keyspace = KeyspaceChange::Put(changed.with_table(table));
            Ok(Some(Change { keyspace, event, warnings: Vec::new() }))
        };
        // An adoption grants no permissions.
        change_schema(&execution, decide, |_, _| Ok(Vec::new()))?;
        Ok(())
    }
}

/// Adds the user-defined types that a type refers to and that the keyspace lacks.
fn add_types(keyspace: &mut Keyspace, data_type: &DataType) {
    match data_type {
        DataType::List { element, .. } | DataType::Set { element, .. } | DataType::Vector { element, .. } => {
            add_types(keyspace, element)
        }
        DataType::Map { key, value, .. } => {
            add_types(keyspace, key);
            add_types(keyspace, value);
        }
        DataType::Tuple(parts) => parts.iter().for_each(|part| add_types(keyspace, part)),
        DataType::Udt { definition, .. } => {
            definition.fields.iter().for_each(|(_, field)| add_types(keyspace, field));
            if !keyspace.types.contains_key(&definition.name) {
                keyspace.types.insert(definition.name.clone(), Arc::<UserType>::clone(definition));
            }
        }
        _ => {}
    }
}
