//! Opening: the schema is read back, and the engine recovers the tables it names.
//!
//! 1. The schema's own tables are opened and the commit log is replayed for them: now the schema is whole.
//! 2. The tables it names are opened and the log is replayed for these. What is left in the log, and directories that
//!    nothing names, belong to dropped tables.
//! 3. What the program says of its own keyspaces and of this node is written where it differs from what is stored.

use std::sync::Arc;

use cassette_engine::{Engine, EngineError, Mutation};
use cassette_rows::TableMetadata;
use cassette_vfs::Clock;
use uuid::Uuid;

use super::local::{self, Node};
use super::{SYSTEM, encode, load, local_keyspaces, replicated_keyspaces, schema_rows};
use crate::catalog::{Catalog, Keyspace, KeyspaceKind};
use crate::error::{DatabaseError, Result, bail_config};
use crate::indexes::{self, Index};
use crate::views::{self, View};

/// What opening found.
pub(crate) struct Opened {
    pub catalog: Arc<Catalog>,
    pub node: Node,
    /// Indexes that are not wholly built.
    pub unbuilt: Vec<Arc<Index>>,
    /// Materialized views that are not wholly built.
    pub unbuilt_views: Vec<Arc<View>>,
    /// The newest write time in the schema: new ones must be later, whatever the clock says.
    pub newest_timestamp: i64,
}

/// Recovers `engine`'s tables, and the catalog from them.
pub(crate) fn open(engine: &Engine, clock: &dyn Clock, mut node: Node) -> Result<Opened> {
    let built_in = built_in();
    let own = built_in.keyspaces().flat_map(|keyspace| keyspace.tables.values());
    let stored: Vec<_> = own.filter(|table| built_in.virtual_table(table).is_none()).cloned().collect();
    engine.create_tables(&stored).map_err(|error| failed("the system tables", error))?;
    engine.replay().map_err(|error| failed("the commit log", error))?;

    let now_micros = clock.now_micros();
    let now = encode::seconds(now_micros);
    let stored = load::load(engine, &built_in, now)?;
    let newest_timestamp = stored.newest_timestamp.max(now_micros);
    let stored = Catalog::new(stored.keyspaces.into_iter().map(Arc::new));
    let catalog = Arc::new(merge(&built_in, &stored));
    let users = || catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User);
    let tables: Vec<_> = users().flat_map(|keyspace| keyspace.stored_tables().cloned()).collect();
    engine.create_tables(&tables).map_err(|error| failed("the tables", error))?;
    for keyspace in catalog.keyspaces() {
        set_durable_writes(engine, keyspace).map_err(|error| failed(&keyspace.name, error))?;
    }
    // Which replays the log for the tables that have been created since.
    engine.finish_recovery().map_err(|error| failed("the commit log", error))?;
    if let Err(error) = engine.remove_unknown_tables() {
        tracing::warn!(%error, "what dropped tables left stays until the next start");
    }

    let unbuilt = indexes::load(engine, &catalog, now)?;
    let unbuilt_views = views::load(engine, &catalog, now)?;
    node.host_id = identity(engine, &catalog, &node, now)?;
    let timestamp = newest_timestamp.saturating_add(1);
    write_own(engine, &stored, &catalog, &node, timestamp)?;
    Ok(Opened { catalog, node, unbuilt, unbuilt_views, newest_timestamp: timestamp })
}

/// Tells the engine whether writes to the stored tables of a keyspace go to the commit log.
pub(crate) fn set_durable_writes(engine: &Engine, keyspace: &Keyspace) -> Result<(), EngineError> {
    let is_stored = |table: &&Arc<TableMetadata>| !keyspace.virtual_tables.contains_key(&table.name);
    let mut stored = keyspace.stored_tables().filter(is_stored);
    stored.try_for_each(|table| engine.set_durable_writes(table.id, keyspace.params.durable_writes))
}

/// The keyspaces that come with the database.
fn built_in() -> Catalog {
    let keyspaces = local_keyspaces().into_iter().chain(replicated_keyspaces());
    Catalog::new(keyspaces.chain(crate::virtual_tables::keyspaces()).map(Arc::new))
}

fn failed(what: &str, error: EngineError) -> DatabaseError {
    DatabaseError::Server(format!("cannot open {what}: {error}"))
}

/// What users made as it is stored, and the database's own keyspaces as the program has them; only the replication of
/// `system_auth` and its like is theirs to alter.
fn merge(built_in: &Catalog, stored: &Catalog) -> Catalog {
    let own = built_in.keyspaces().map(|keyspace| match stored.keyspace(&keyspace.name) {
        Some(stored) if keyspace.kind == KeyspaceKind::Replicated => {
            Arc::new(Keyspace { params: stored.params.clone(), ..(**keyspace).clone() })
        }
        _ => keyspace.clone(),
    });
    let users = stored.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User).cloned();
    Catalog::new(own.chain(users))
}

/// The host id that is stored, or a new one.
fn identity(engine: &Engine, catalog: &Catalog, node: &Node, now: u32) -> Result<Uuid> {
    let table = catalog.require_table(SYSTEM, "local")?;
    match local::stored_identity(engine, table, now)? {
        Some((_, stored)) if stored != node.cluster_name => {
            bail_config!("Saved cluster name {stored} != configured name {}", node.cluster_name)
        }
        Some((host_id, _)) => Ok(host_id),
        None => Ok(Uuid::new_v4()),
    }
}

/// Writes what `stored` lacks of the own keyspaces in `catalog`, and this node's row.
fn write_own(
    engine: &Engine,
    stored: &Catalog,
    catalog: &Catalog,
    node: &Node,
    timestamp: i64,
) -> Result<()> {
    let own = catalog
        .keyspaces()
        .filter(|keyspace| matches!(keyspace.kind, KeyspaceKind::Local | KeyspaceKind::Replicated));
    // Rows are written with the tables of `catalog`; `stored` has them as rows only.
    let mut mutations: Vec<Mutation> =
        own.flat_map(|keyspace| schema_rows::changes(&keyspace.name, stored, catalog, timestamp)).collect();
    mutations.extend(local::node_row(catalog, node, timestamp));
    engine
        .apply(&mutations)
        .and_then(|()| engine.sync_log())
        .map_err(|error| DatabaseError::Server(format!("cannot write system tables: {error}")))
}
