//! Opening a database: loading the schema, and recovering its tables.
//!
//! 1. The schema tables are opened, and the commit log and the schema journal are replayed for
//!    them. The schema is then complete.
//! 2. The tables of the schema are opened, and the commit log is replayed for them. Directories and
//!    log records of other tables are removed if a drop record names them, and otherwise kept and
//!    reported: the schema may have lost their rows. A start with an incomplete schema removes
//!    nothing.
//! 3. The rows of the database's own keyspaces and of this node are written if they differ from the
//!    stored ones.

#[cfg(test)]
mod journal_tests;
pub(crate) mod stored_schema;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use cassette_engine::{Engine, EngineError, Mutation, ReplaySummary, UnknownTable};
use cassette_rows::{Selection, TableMetadata, Unfiltered};
use cassette_vfs::Clock;
use uuid::Uuid;

use crate::basics::error::{DatabaseError, Result, bail_config};
use crate::schema::catalog::{Catalog, Keyspace, KeyspaceKind};
use crate::schema::indexes::Index;
use crate::schema::system::local::{self, Node};
use crate::schema::system::{SCHEMA, SYSTEM, encode, local_keyspaces, replicated_keyspaces, schema_rows};
use crate::schema::views::View;
use crate::store::build_state::BuildStates;
use crate::store::seeded::Seeded;
use crate::store::write_clock::{self, Ceilings, StoredCeiling};
use crate::store::{indexes, views};

/// The result of opening.
pub(crate) struct Opened {
    pub catalog: Arc<Catalog>,
    pub node: Node,
    /// Indexes that are not completely built.
    pub unbuilt: Vec<Arc<Index>>,
    /// Materialized views that are not completely built.
    pub unbuilt_views: Vec<Arc<View>>,
    /// The latest write timestamp in use: new ones must be later, regardless of the clock.
    pub newest_timestamp: i64,
    /// Whether rows of the schema that others refer to are missing.
    pub schema_is_incomplete: bool,
    /// The table that stores the ceiling of write timestamps.
    pub ceilings: Ceilings,
    /// The stored ceiling.
    pub ceiling: StoredCeiling,
}

/// Recovers `engine`'s tables and loads the catalog from them, and sets the states of indexes and
/// views.
pub(crate) fn open(
    engine: &Engine,
    clock: &dyn Clock,
    mut node: Node,
    virtual_keyspaces: Vec<Keyspace>,
    build_states: &BuildStates,
    seeded: Option<&Seeded>,
) -> Result<Opened> {
    let began = clock.monotonic();
    let built_in = built_in(virtual_keyspaces);
    let own = built_in.keyspaces().flat_map(|keyspace| keyspace.tables.values());
    let stored: Vec<_> = own.filter(|table| !built_in.is_virtual(table)).cloned().collect();
    let ceilings = Ceilings::new();
    let stored = stored.into_iter().chain([ceilings.table().clone()]).collect::<Vec<_>>();
    engine.create_tables(&stored).map_err(|error| failed("the system tables", error))?;
    let of_system = engine.replay().map_err(|error| failed("the commit log", error))?;

    let now_micros = clock.now_micros();
    let now = encode::seconds(now_micros);
    let stored = stored_schema::load(engine, &built_in, now)?;
    let mut problems = stored.problems;
    problems.extend(engine.schema_journal_damage());
    let schema_is_incomplete = !problems.is_empty();
    let schema_is_empty = stored.keyspaces.is_empty();
    if schema_is_incomplete || schema_is_empty {
        engine.mark_schema_incomplete();
    }
    report_problems(&problems);
    if engine.log_damage_skipped() {
        tracing::warn!(
            "damage in the commit log was skipped: schema changes may be lost with it; this start removes \
             no files of tables"
        );
    }
    let ceiling = ceilings.stored(engine, now)?;
    write_clock::warn_if_behind(ceiling.ceiling, now_micros);
    let newest_timestamp = stored.newest_timestamp.max(ceiling.ceiling).max(now_micros);
    let stored = Catalog::new(stored.keyspaces.into_iter().map(Arc::new));
    let catalog = Arc::new(merge(&built_in, &stored));
    let users = || catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User);
    let tables: Vec<_> = users().flat_map(|keyspace| keyspace.stored_tables().cloned()).collect();
    engine.create_tables(&tables).map_err(|error| failed("the tables", error))?;
    for keyspace in catalog.keyspaces() {
        set_durable_writes(engine, keyspace).map_err(|error| failed(&keyspace.name, error))?;
    }
    // Replays the commit log for the tables that have been created since.
    let recovered = engine.finish_recovery().map_err(|error| failed("the commit log", error))?;
    let mutations = of_system.mutations + recovered.mutations;
    report_recovery(engine, &recovered, mutations, tables.len(), clock.monotonic().saturating_sub(began));
    let unknown = engine.unknown_tables().map_err(|error| failed("the tables", error))?;
    if schema_is_empty && !unknown.is_empty() {
        report_problems(&[format!(
            "{SCHEMA} has no row at all, and the data directory holds {} tables",
            unknown.len()
        )]);
    }

    let unbuilt = indexes::load(engine, &catalog, build_states, now)?;
    let unbuilt_views = views::load(engine, &catalog, build_states, now)?;
    node.host_id = identity(engine, &catalog, &node, now, seeded)?;
    let timestamp = newest_timestamp.saturating_add(1);
    // Written in one record with the first writes of this run.
    let ceiling = ceiling.above(timestamp);
    let ceiling_row = ceilings.row(ceiling);
    write_own(engine, &stored, &catalog, &node, timestamp, &unknown, ceiling_row)?;
    Ok(Opened {
        catalog,
        node,
        unbuilt,
        unbuilt_views,
        newest_timestamp: timestamp,
        ceilings,
        ceiling,
        schema_is_incomplete: schema_is_incomplete || (schema_is_empty && !unknown.is_empty()),
    })
}

/// Logs what a start found, in one line.
fn report_recovery(engine: &Engine, read: &ReplaySummary, mutations: u64, tables: usize, time: Duration) {
    tracing::info!(
        "opened {}, version {}, {tables} tables: read {} records ({} KiB) of the commit log and replayed \
         {mutations} mutations, in {} ms",
        engine.options().data_dir.display(),
        env!("CARGO_PKG_VERSION"),
        read.records,
        read.bytes.div_ceil(1024),
        time.as_millis()
    );
}

/// Logs the problems of the schema and what to do about them.
fn report_problems(problems: &[String]) {
    /// With a lost SSTable, every table may have a problem.
    const SHOWN: usize = 20;
    if problems.is_empty() {
        return;
    }
    let mut missing = problems[..problems.len().min(SHOWN)].join("; ");
    if problems.len() > SHOWN {
        missing += &format!("; and {} more", problems.len() - SHOWN);
    }
    tracing::error!(
        missing,
        "system_schema is incomplete. All data is kept and nothing is removed. Stop and restore \
         data/system_schema from a backup, or adopt the tables (`cassette nodetool unknowntables`, \
         `adopttable`)"
    );
}

/// Sets whether writes to the stored tables of a keyspace go to the commit log.
pub(crate) fn set_durable_writes(engine: &Engine, keyspace: &Keyspace) -> Result<(), EngineError> {
    let is_stored = |table: &&Arc<TableMetadata>| !keyspace.virtual_tables.contains(&table.name);
    let mut stored = keyspace.stored_tables().filter(is_stored);
    stored.try_for_each(|table| engine.set_durable_writes(table.id, keyspace.params.durable_writes))
}

/// Returns the built-in keyspaces.
fn built_in(virtual_keyspaces: Vec<Keyspace>) -> Catalog {
    let keyspaces = local_keyspaces().into_iter().chain(replicated_keyspaces());
    Catalog::new(keyspaces.chain(virtual_keyspaces).map(Arc::new))
}

fn failed(what: &str, error: EngineError) -> DatabaseError {
    DatabaseError::storage_in(format_args!("cannot open {what}"), error)
}

/// Combines the stored user keyspaces with the built-in ones. Of the latter, only the replication
/// of `system_auth` and similar keyspaces can be altered.
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

/// Returns the stored host id, or a new one.
fn identity(
    engine: &Engine,
    catalog: &Catalog,
    node: &Node,
    now: u32,
    seeded: Option<&Seeded>,
) -> Result<Uuid> {
    let table = catalog.require_table(SYSTEM, "local")?;
    match stored_identity(engine, table, now)? {
        Some((_, stored)) if stored != node.cluster_name => {
            bail_config!("Saved cluster name {stored} != configured name {}", node.cluster_name)
        }
        Some((host_id, _)) => Ok(host_id),
        None => Ok(seeded.map_or_else(Uuid::new_v4, Seeded::host_id)),
    }
}

/// Writes the rows of built-in keyspaces in `catalog` that `stored` lacks, and the row of this
/// node. Removes the build progress of indexes and views among the `unknown` tables.
fn write_own(
    engine: &Engine,
    stored: &Catalog,
    catalog: &Catalog,
    node: &Node,
    timestamp: i64,
    unknown: &[UnknownTable],
    ceiling: Mutation,
) -> Result<()> {
    let own = catalog
        .keyspaces()
        .filter(|keyspace| matches!(keyspace.kind, KeyspaceKind::Local | KeyspaceKind::Replicated));
    // The rows are encoded with the tables of `catalog`; `stored` contains only their rows.
    let mut mutations: Vec<Mutation> =
        own.flat_map(|keyspace| schema_rows::changes(&keyspace.name, stored, catalog, timestamp)).collect();
    mutations.extend(local::node_row(catalog, node, timestamp));
    for lost in unknown {
        // If its row is restored, later writes are missing, so it has to be built again.
        mutations.extend(
            lost.index.iter().filter_map(|index| indexes::forget(catalog, &lost.keyspace, index, timestamp)),
        );
        if lost.index.is_none() && !lost.table.is_empty() {
            mutations.extend(views::forget(catalog, &lost.keyspace, &lost.table, timestamp));
        }
    }
    mutations.push(ceiling);
    match engine.apply_schema(&mutations, &crate::schema::system::is_schema) {
        Err(error @ EngineError::OnlyInLog { .. }) => {
            tracing::warn!(%error, "cannot write the system tables outside the commit log");
            Ok(())
        }
        applied => applied.map_err(|error| DatabaseError::storage_in("cannot write system tables", error)),
    }
}

/// Returns the stored host id and cluster name, if this directory was opened before.
fn stored_identity(engine: &Engine, table: &Arc<TableMetadata>, now: u32) -> Result<Option<(Uuid, String)>> {
    const ATTEMPTED: &str = "cannot read system.local";
    let stream = engine.read(table.id, &encode::text_key("local"), &Selection::all());
    let mut stream = stream.map_err(|error| DatabaseError::storage_after(ATTEMPTED, error))?;
    let mut next = || -> cassette_rows::Result<Option<Unfiltered>> {
        match stream.next_partition()? {
            Some(_) => stream.next_unfiltered(),
            None => Ok(None),
        }
    };
    let next = next().map_err(|error| DatabaseError::storage_after(ATTEMPTED, error))?;
    let Some(Unfiltered::Row(row)) = next else { return Ok(None) };
    let row = encode::StoredRow { table, row: &row, now };
    let cluster_name = row.text("cluster_name").unwrap_or_default().to_owned();
    Ok(row.uuid("host_id").map(|host_id| (host_id, cluster_name)))
}
