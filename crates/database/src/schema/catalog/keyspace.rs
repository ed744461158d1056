//! A keyspace: tables, types, functions and parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cassette_cql::values::functions::{UserAggregate, UserFunction};
use cassette_rows::TableMetadata;
use cassette_rows::types::UserType;

use crate::basics::error::Result;
use crate::schema::functions::Signature;
use crate::schema::indexes::Index;
use crate::schema::views::View;

/// The kind of a keyspace, which determines the permitted operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyspaceKind {
    /// `system` and `system_schema`: cannot be altered, nor written by clients.
    Local,
    /// `system_auth`, `system_traces`, `system_distributed`: ordinary tables that exist in every
    /// database.
    Replicated,
    /// Tables computed from memory: read-only.
    Virtual,
    /// Created by CREATE KEYSPACE.
    User,
}

/// A keyspace. Immutable: DDL creates a new one.
#[derive(Debug, Clone)]
pub struct Keyspace {
    /// The name, in the case it is stored in.
    pub name: String,
    /// The kind of the keyspace.
    pub kind: KeyspaceKind,
    /// Replication and durability.
    pub params: KeyspaceParams,
    /// Whether `system_schema.keyspaces` contains its row. `false` if the row was lost, until the
    /// next change of the keyspace.
    pub(crate) is_stored: bool,
    /// Tables by name, including virtual tables and materialized views.
    pub tables: BTreeMap<String, Arc<TableMetadata>>,
    /// User-defined types by name.
    pub types: BTreeMap<String, Arc<UserType>>,
    /// User-defined functions.
    pub functions: BTreeMap<Signature, Arc<UserFunction>>,
    /// User-defined aggregates.
    pub aggregates: BTreeMap<Signature, Arc<UserAggregate>>,
    /// Secondary indexes by name.
    pub indexes: BTreeMap<String, Arc<Index>>,
    /// Materialized views by name.
    pub views: BTreeMap<String, Arc<View>>,
    /// The names of the tables whose rows are computed, not stored.
    pub(crate) virtual_tables: BTreeSet<String>,
}

/// `WITH replication = … AND durable_writes = …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceParams {
    /// Whether writes go to the commit log.
    pub durable_writes: bool,
    /// The full class name and the options of the strategy. They are only stored and shown: a node
    /// holds one replica.
    pub replication: Replication,
}

/// A replication strategy as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication {
    /// `org.apache.cassandra.locator.SimpleStrategy` and the like.
    pub class: String,
    /// `replication_factor`, or a factor for each data center.
    pub options: BTreeMap<String, String>,
}

impl Keyspace {
    /// Returns an empty keyspace.
    pub fn new(name: impl Into<String>, kind: KeyspaceKind, params: KeyspaceParams) -> Self {
        Self {
            name: name.into(),
            kind,
            params,
            is_stored: true,
            tables: BTreeMap::new(),
            types: BTreeMap::new(),
            functions: BTreeMap::new(),
            aggregates: BTreeMap::new(),
            indexes: BTreeMap::new(),
            views: BTreeMap::new(),
            virtual_tables: BTreeSet::new(),
        }
    }

    /// Returns the keyspace with `table` added, or replaced if one has its name.
    pub(crate) fn with_table(&self, table: Arc<TableMetadata>) -> Self {
        let mut keyspace = self.clone();
        keyspace.tables.insert(table.name.clone(), table);
        keyspace
    }

    /// Returns the indexes of a table, by name.
    pub fn indexes_of(&self, table: &TableMetadata) -> impl Iterator<Item = &Arc<Index>> {
        let id = table.id;
        self.indexes.values().filter(move |index| index.base.id == id)
    }

    /// Returns the keyspace with indexes adapted to its tables: those of altered tables in their
    /// new form, without those of dropped tables.
    pub(crate) fn with_indexes_of_tables(mut self) -> Result<Self> {
        let mut indexes = BTreeMap::new();
        for (name, index) in self.indexes {
            match self.tables.get(&index.base.name).filter(|table| table.id == index.base.id) {
                Some(base) if Arc::ptr_eq(base, &index.base) => indexes.insert(name, index),
                Some(base) => indexes.insert(name, Arc::new(index.rebased(base)?)),
                None => None,
            };
        }
        self.indexes = indexes;
        Ok(self)
    }

    /// Returns the materialized views of a table, by name.
    pub fn views_of(&self, base: &TableMetadata) -> impl Iterator<Item = &Arc<View>> {
        let id = base.id;
        self.views.values().filter(move |view| view.base.id == id)
    }

    /// Returns the stored tables, including the hidden tables of indexes.
    pub fn stored_tables(&self) -> impl Iterator<Item = &Arc<TableMetadata>> {
        self.indexes.values().map(|index| &index.storage).chain(self.tables.values())
    }
}
