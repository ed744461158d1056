//! The catalog: all keyspaces, tables and user-defined types at one moment.
//!
//! A [`Catalog`] is immutable. DDL creates a new one and replaces the current one (see
//! [`crate::statements::schema`]); a statement uses one catalog for planning and execution.

pub(crate) mod events;
pub(crate) mod keyspace;
pub(crate) mod resolve;
pub(crate) mod version;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cassette_rows::types::UserType;
use cassette_rows::{TableId, TableMetadata};
use uuid::Uuid;

use crate::basics::error::{Result, bail_invalid};
use crate::schema::indexes::Index;
use crate::schema::testing::refuse_absent;
use crate::schema::views::View;
pub use events::{SchemaEvents, Subscription};
pub use keyspace::{Keyspace, KeyspaceKind, KeyspaceParams, Replication};
pub(crate) use resolve::{TypeUse, raw_text, resolve_clustering_type, resolve_type};

/// All keyspaces at one moment.
#[derive(Debug, Clone)]
pub struct Catalog {
    keyspaces: BTreeMap<String, Arc<Keyspace>>,
    by_id: HashMap<TableId, Arc<TableMetadata>>,
    /// By base table.
    indexes: HashMap<TableId, Vec<Arc<Index>>>,
    /// By base table.
    views: HashMap<TableId, Vec<Arc<View>>>,
    version: Uuid,
}

impl Catalog {
    /// Returns a catalog of these keyspaces.
    pub(crate) fn new(keyspaces: impl IntoIterator<Item = Arc<Keyspace>>) -> Self {
        let keyspaces: BTreeMap<_, _> =
            keyspaces.into_iter().map(|keyspace| (keyspace.name.clone(), keyspace)).collect();
        let by_id = keyspaces
            .values()
            .flat_map(|keyspace| keyspace.tables.values())
            .map(|table| (table.id, table.clone()))
            .collect();
        let mut indexes: HashMap<TableId, Vec<Arc<Index>>> = HashMap::new();
        for index in keyspaces.values().flat_map(|keyspace| keyspace.indexes.values()) {
            indexes.entry(index.base.id).or_default().push(index.clone());
        }
        let mut views: HashMap<TableId, Vec<Arc<View>>> = HashMap::new();
        for view in keyspaces.values().flat_map(|keyspace| keyspace.views.values()) {
            views.entry(view.base.id).or_default().push(view.clone());
        }
        let version = version::schema_version(keyspaces.values());
        Self { keyspaces, by_id, indexes, views, version }
    }

    /// Returns the catalog with `keyspace` added, or replaced if one has its name.
    pub(crate) fn with_keyspace(&self, keyspace: Keyspace) -> Self {
        let mut keyspaces = self.keyspaces.clone();
        keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
        Self::new(keyspaces.into_values())
    }

    /// Returns the catalog without the keyspace called `name`.
    pub(crate) fn without_keyspace(&self, name: &str) -> Self {
        Self::new(self.keyspaces.values().filter(|keyspace| keyspace.name != name).cloned())
    }

    /// Returns the digest of all user-defined objects, as in `system.local`: equal schemas have
    /// equal versions.
    pub fn version(&self) -> Uuid {
        self.version
    }

    /// Returns all keyspaces by name.
    pub fn keyspaces(&self) -> impl Iterator<Item = &Arc<Keyspace>> {
        self.keyspaces.values()
    }

    /// Returns the keyspace called `name`, in the case it is stored in.
    pub fn keyspace(&self, name: &str) -> Option<&Arc<Keyspace>> {
        self.keyspaces.get(name)
    }

    /// Returns the keyspace called `name`.
    ///
    /// # Errors
    /// Invalid, with Cassandra's text, if it does not exist.
    pub fn require_keyspace(&self, name: &str) -> Result<&Arc<Keyspace>> {
        let Some(keyspace) = self.keyspace(name) else {
            refuse_absent(name)?;
            bail_invalid!("keyspace {name} does not exist")
        };
        Ok(keyspace)
    }

    /// Returns a table by its names.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<TableMetadata>> {
        self.keyspace(keyspace)?.tables.get(name)
    }

    /// Returns a table by its names.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, if the keyspace or the table does not exist.
    pub fn require_table(&self, keyspace: &str, name: &str) -> Result<&Arc<TableMetadata>> {
        if name.is_empty() {
            bail_invalid!("non-empty table is required");
        }
        match self.require_keyspace(keyspace)?.tables.get(name) {
            Some(table) => Ok(table),
            None => bail_invalid!("table {name} does not exist"),
        }
    }

    /// Returns a table by its id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableMetadata>> {
        self.by_id.get(&id)
    }

    /// Returns the indexes of a table.
    pub fn indexes_of(&self, table: TableId) -> &[Arc<Index>] {
        if self.indexes.is_empty() {
            return &[];
        }
        self.indexes.get(&table).map_or(&[], Vec::as_slice)
    }

    /// Returns the materialized views of a table.
    pub fn views_of(&self, base: TableId) -> &[Arc<View>] {
        self.views.get(&base).map_or(&[], Vec::as_slice)
    }

    /// Whether any table has a materialized view.
    pub(crate) fn has_views(&self) -> bool {
        !self.views.is_empty()
    }

    /// Whether a table is a materialized view.
    pub(crate) fn is_view(&self, table: &TableMetadata) -> bool {
        self.keyspace(&table.keyspace).is_some_and(|keyspace| keyspace.views.contains_key(&table.name))
    }

    /// Whether a table's rows are computed and not stored.
    pub(crate) fn is_virtual(&self, table: &TableMetadata) -> bool {
        self.keyspace(&table.keyspace).is_some_and(|keyspace| keyspace.virtual_tables.contains(&table.name))
    }

    /// Returns a user-defined type by its names.
    pub fn user_type(&self, keyspace: &str, name: &str) -> Option<&Arc<UserType>> {
        self.keyspace(keyspace)?.types.get(name)
    }
}

impl Default for Catalog {
    fn default() -> Self {
        Self::new([])
    }
}
