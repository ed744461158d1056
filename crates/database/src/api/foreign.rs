//! The schema and the identity of a node of Cassandra, or of a backup, read from the SSTables of
//! system tables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use cassette_engine::{ArchivedLog, Engine, ImportOptions, ImportedSSTable, KeyRange, Mutation};
use cassette_functions::is_supported;
use cassette_rows::schema::DroppedColumn;
use cassette_rows::{ColumnKind, DataType, Selection, StorageError, TableId, TableMetadata, Unfiltered};
use cassette_vfs::{Clock, FileSystem, OverlayFileSystem, SystemClock};
use uuid::Uuid;

use crate::api::database::Database;
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::request::StatementOptions;
use crate::basics::response::{SchemaChange, SchemaChangeKind, SchemaChangeTarget};
use crate::execution::Execution;
use crate::schema::catalog::{Catalog, Keyspace, KeyspaceKind};
use crate::schema::system::encode::{self, StoredRow};
use crate::schema::system::{BUILT_VIEWS, SCHEMA, SYSTEM, local_keyspaces, replicated_keyspaces};
use crate::statements::schema::commit::change_schema;
use crate::statements::schema::{Change, KeyspaceChange, SchemaContext};
use crate::store::opening::stored_schema;

/// The path of the engine that reads the system tables, in memory.
const IN_MEMORY: &str = "/cassette-foreign";

/// The tables of `system` that are read, besides those of `system_schema`.
const OF_SYSTEM: [&str; 5] = ["local", "peers", "peers_v2", BATCHES, BUILT_VIEWS];

/// The table of logged batches.
const BATCHES: &str = "batches";

/// What the system tables of a node of Cassandra contain.
#[derive(Debug, Clone, Default)]
pub struct ForeignNode {
    /// The name of its cluster.
    pub cluster_name: Option<String>,
    /// Its id in the cluster.
    pub host_id: Option<Uuid>,
    /// The version of Cassandra that started last.
    pub release_version: Option<String>,
    /// The ids of the other nodes.
    pub peers: BTreeSet<Uuid>,
    /// The number of logged batches that may not be applied completely.
    pub pending_batches: u64,
    /// Whether there are SSTables with logged batches that cannot be read.
    pub has_unread_batches: bool,
    /// The user keyspaces, as far as they are supported.
    pub keyspaces: Vec<Keyspace>,
    /// Tables, views and types that are not supported, with the reasons.
    pub unsupported: Vec<String>,
    /// Indexes that are not supported, with the reasons.
    pub omitted_indexes: Vec<String>,
    /// Triggers, which are not supported.
    pub omitted: Vec<String>,
    /// Functions that cannot be called, because their language is not supported.
    pub uncallable: Vec<String>,
    /// Where the commit log was when tables were truncated last: segments and offsets in them.
    pub truncated: BTreeMap<TableId, (i64, i32)>,
    /// The names of views that are built.
    built_views: BTreeSet<(String, String)>,
}

/// A system table, and the SSTables with its rows.
#[derive(Debug, Clone)]
pub struct ForeignTable {
    /// The table.
    pub table: Arc<TableMetadata>,
    /// Its SSTables.
    pub sstables: Vec<ImportedSSTable>,
}

/// Returns the mutations of system tables that their SSTables lack.
pub type Unflushed<'a> = &'a dyn Fn(&[ForeignTable]) -> Result<Vec<Mutation>>;

impl ForeignNode {
    /// Whether the SSTables of a view contain all of its rows.
    pub fn is_built(&self, keyspace: &str, view: &str) -> bool {
        self.built_views.contains(&(keyspace.to_owned(), view.to_owned()))
    }

    /// Reads the system tables in the data directories of one node. Nothing is written there.
    ///
    /// # Errors
    /// If a file cannot be read or is damaged, or has a version that is not supported.
    pub fn read(file_system: Arc<dyn FileSystem>, directories: &[PathBuf]) -> Result<Self> {
        Self::read_all(file_system, directories, None, &|_| Ok(Vec::new()))
    }

    /// [`read`](Self::read), with the mutations that `unflushed` returns.
    ///
    /// # Errors
    /// As for `read`; and those of `unflushed`.
    pub fn read_unflushed(
        file_system: Arc<dyn FileSystem>,
        directories: &[PathBuf],
        unflushed: Unflushed<'_>,
    ) -> Result<Self> {
        Self::read_all(file_system, directories, None, unflushed)
    }

    /// [`read`](Self::read), with the schema changes of archived commit log segments.
    ///
    /// # Errors
    /// As for `read`; and if the segments do not match the schema.
    #[doc(hidden)]
    pub fn read_with(
        file_system: Arc<dyn FileSystem>,
        directories: &[PathBuf],
        archived: Option<&ArchivedLog>,
    ) -> Result<Self> {
        Self::read_all(file_system, directories, archived, &|_| Ok(Vec::new()))
    }

    fn read_all(
        file_system: Arc<dyn FileSystem>,
        directories: &[PathBuf],
        archived: Option<&ArchivedLog>,
        unflushed: Unflushed<'_>,
    ) -> Result<Self> {
        let overlay: Arc<dyn FileSystem> = Arc::new(OverlayFileSystem::new(file_system));
        let mut options = cassette_engine::Options::new(IN_MEMORY);
        options.background_threads = false;
        options.auto_snapshot = false;
        let clock = Arc::new(SystemClock::new());
        let now = encode::seconds(clock.now_micros());
        let failed = |error| DatabaseError::storage_in("cannot read the system tables", error);
        let engine = Engine::open(options, overlay.clone(), clock).map_err(failed)?;
        let built_in =
            Catalog::new(local_keyspaces().into_iter().chain(replicated_keyspaces()).map(Arc::new));
        let of_schema = built_in.keyspace(SCHEMA).into_iter().flat_map(|schema| schema.tables.values());
        let of_system = OF_SYSTEM.iter().filter_map(|name| built_in.table(SYSTEM, name));
        let tables: Vec<Arc<TableMetadata>> = of_schema.chain(of_system).map(with_former_columns).collect();
        engine.create_tables(&tables).map_err(failed)?;
        engine.replay().map_err(failed)?;
        engine.finish_recovery().map_err(failed)?;
        let importing = ImportOptions { keep_source: true, ..ImportOptions::default() };
        let mut of_node = Vec::with_capacity(tables.len());
        let mut has_unread_batches = false;
        for table in tables {
            let mut sstables = Vec::new();
            for directory in directories_of(overlay.as_ref(), directories, &table) {
                let imported = engine.import(table.id, &directory, &importing);
                // Cassandra orders this table by time, not by token.
                if table.name == BATCHES && imported.is_err() {
                    has_unread_batches = true;
                    continue;
                }
                sstables.extend(imported.map_err(DatabaseError::of_operation)?);
            }
            of_node.push(ForeignTable { table, sstables });
        }
        for mutation in unflushed(&of_node)? {
            engine.apply(&[mutation]).map_err(failed)?;
        }
        if let Some(archived) = archived {
            let is_schema = |table: &TableMetadata| table.keyspace == SCHEMA;
            engine.apply_archived(archived, &is_schema).map_err(DatabaseError::of_operation)?;
        }
        let node = Self::load(&Reader { engine: &engine, built_in: &built_in, now })?;
        Ok(Self { has_unread_batches, ..node })
    }

    fn load(reader: &Reader<'_>) -> Result<Self> {
        let schema = stored_schema::load_foreign(reader.engine, reader.built_in, reader.now)?;
        let mut node = Self {
            keyspaces: schema.keyspaces,
            unsupported: schema.unsupported,
            omitted_indexes: schema.omitted_indexes,
            ..Self::default()
        };
        reader.rows(SYSTEM, "local", |_, row| {
            node.cluster_name = row.text("cluster_name").map(str::to_owned);
            node.host_id = row.uuid("host_id");
            node.release_version = row.text("release_version").map(str::to_owned);
            node.truncated.extend(row.elements("truncated_at").filter_map(|(id, record)| {
                let (segment, rest) = record.split_first_chunk()?;
                let position = (i64::from_be_bytes(*segment), i32::from_be_bytes(*rest.first_chunk()?));
                Some((TableId(Uuid::from_slice(id).ok()?), position))
            }));
        })?;
        // `peers_v2` since 4.0, and both since then.
        for table in ["peers", "peers_v2"] {
            reader.rows(SYSTEM, table, |_, row| node.peers.extend(row.uuid("host_id")))?;
        }
        reader.rows(SYSTEM, BATCHES, |_, _| node.pending_batches += 1)?;
        reader.rows(SYSTEM, BUILT_VIEWS, |keyspace, row| {
            if let Some(view) = row.clustering_text(0) {
                node.built_views.insert((keyspace.to_owned(), view.to_owned()));
            }
        })?;
        reader.rows(SCHEMA, "triggers", |keyspace, row| {
            if reader.built_in.keyspace(keyspace).is_none() {
                let name = row.clustering_text(1).unwrap_or_default();
                node.omitted.push(format!("trigger {keyspace}.{name}"));
            }
        })?;
        let functions = node.keyspaces.iter().flat_map(|keyspace| keyspace.functions.iter());
        let uncallable = functions.filter(|(_, function)| !is_supported(&function.language));
        node.uncallable = uncallable
            .map(|(signature, function)| {
                let (keyspace, types) = (&function.keyspace, signature.types.join(", "));
                format!("function {keyspace}.{}({types}) in language {}", signature.name, function.language)
            })
            .collect();
        Ok(node)
    }
}

/// Returns the directories of a table. As in Cassandra, those of tables that were created before
/// 2.1, which have no id in their names, replace the others.
fn directories_of(fs: &dyn FileSystem, data: &[PathBuf], table: &TableMetadata) -> Vec<PathBuf> {
    let named = |name: &str| -> Vec<PathBuf> {
        let directories = data.iter().map(|data| data.join(&table.keyspace).join(name));
        directories.filter(|path| fs.metadata(path).is_ok_and(|found| found.is_dir)).collect()
    };
    let former = named(&table.name);
    if former.is_empty() { named(&table.directory_name()) } else { former }
}

/// Columns of system tables that Cassandra had before 4.0: table, column.
const FORMER_COLUMNS: [(&str, &str); 1] = [("local", "thrift_version")];

/// Returns a system table that ignores the columns which earlier versions had.
fn with_former_columns(table: &Arc<TableMetadata>) -> Arc<TableMetadata> {
    let former = FORMER_COLUMNS.iter().filter(|(of, _)| table.keyspace == SYSTEM && table.name == *of);
    let dropped = |(_, name): &(&str, &str)| {
        let column =
            DroppedColumn { data_type: DataType::Text, kind: ColumnKind::Regular, dropped_at: i64::MAX };
        ((*name).to_owned(), column)
    };
    let mut dropped: BTreeMap<_, _> = former.map(dropped).collect();
    if dropped.is_empty() {
        return table.clone();
    }
    dropped.extend(table.dropped_columns.clone());
    let mut table = TableMetadata::clone(table);
    table.set_dropped_columns(dropped);
    Arc::new(table)
}

/// Reads the rows of imported tables.
struct Reader<'a> {
    engine: &'a Engine,
    built_in: &'a Catalog,
    now: u32,
}

impl Reader<'_> {
    /// Calls `each` with the partition key as text, and the row, for every live row.
    fn rows(&self, keyspace: &str, table: &str, mut each: impl FnMut(&str, &StoredRow<'_>)) -> Result<()> {
        let table = self.built_in.require_table(keyspace, table)?;
        let attempted = format!("cannot read {}", table.qualified_name());
        let failed = |error: StorageError| DatabaseError::storage_after(&attempted, error);
        let scanned = self.engine.scan(table.id, &KeyRange::ALL, &Selection::all());
        let mut stream = scanned.map_err(|error| DatabaseError::storage_after(&attempted, error))?;
        while let Some(header) = stream.next_partition().map_err(failed)? {
            let key = String::from_utf8_lossy(header.key.key()).into_owned();
            while let Some(next) = stream.next_unfiltered().map_err(failed)? {
                let Unfiltered::Row(row) = next else { continue };
                if row.is_live(self.now) {
                    each(&key, &StoredRow { table, row: &row, now: self.now });
                }
            }
        }
        Ok(())
    }
}

impl Database {
    /// Creates or replaces user keyspaces, with the ids of their tables. Indexes and views that are
    /// added are built from the rows of their tables.
    ///
    /// # Errors
    /// Invalid, if a keyspace is one of the database's own.
    #[doc(hidden)]
    pub fn put_keyspaces(&self, keyspaces: &[Keyspace]) -> Result<()> {
        let options = StatementOptions::default();
        for keyspace in keyspaces {
            if keyspace.kind != KeyspaceKind::User {
                bail_invalid!("{} is not user-modifiable.", keyspace.name);
            }
            let catalog = self.catalog();
            let execution = Execution::new(self.store(), &catalog, &[], &options, None);
            let decide = |cx: &SchemaContext<'_>| {
                let exists = cx.catalog.keyspace(&keyspace.name).is_some();
                let event = SchemaChange {
                    kind: if exists { SchemaChangeKind::Updated } else { SchemaChangeKind::Created },
                    target: SchemaChangeTarget::Keyspace,
                    keyspace: keyspace.name.clone(),
                    name: String::new(),
                    arguments: Vec::new(),
                };
                let keyspace = KeyspaceChange::Put(keyspace.clone());
                Ok(Some(Change { keyspace, event, warnings: Vec::new() }))
            };
            change_schema(&execution, decide, |_, _| Ok(Vec::new()))?;
        }
        Ok(())
    }

    /// Returns the tables of `system_auth` that are stored: roles and permissions.
    #[doc(hidden)]
    pub fn tables_of_roles(&self) -> Vec<Arc<TableMetadata>> {
        let catalog = self.catalog();
        let Some(keyspace) = catalog.keyspace(crate::schema::system::SYSTEM_AUTH) else { return Vec::new() };
        keyspace.tables.values().filter(|table| !catalog.is_virtual(table)).cloned().collect()
    }
}
