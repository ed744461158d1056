//! Execution of a schema change.
//!
//! 1. New tables are created in the engine. A crash after this leaves at most an empty directory
//!    that nothing refers to. If the writes of a keyspace become durable, its unlogged data is
//!    flushed, and indexes and views that are not completely built lose their notes of having been
//!    built, which are trusted after the next step.
//! 2. The rows of `system_schema` and `system.local` are written as one batch, and the commit log
//!    is synced. The change survives any later crash; after an earlier one, none of it does. A copy
//!    in the schema journal preserves it if the log is lost; see `schema_journal` in the engine.
//! 3. Altered tables are altered in the engine, then the catalog is replaced: no statement is
//!    planned with a table that the engine does not know.
//! 4. Dropped tables are removed from the engine. The intent to drop them is durable before step 2,
//!    so after a crash, opening removes their files if the schema no longer contains them; see
//!    `drop_records` in the engine.
//! 5. Listeners are notified. New indexes are built when the writers that did not see them are
//!    done; see [`crate::statements::builds`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cassette_engine::{EngineError, Mutation};
use cassette_rows::{TableId, TableMetadata};

use super::{Change, KeyspaceChange, SchemaContext, alter_table, events};
use crate::basics::error::{DatabaseError, Result};
use crate::basics::response::SchemaChange;
use crate::execution::{Execution, describe};
use crate::schema::catalog::{Catalog, Keyspace, KeyspaceKind};
use crate::schema::system;
use crate::schema::views::View;
use crate::statements::builds::{build_index, build_view};
use crate::store::{Store, indexes, opening, views};

/// Calls `decide` with the catalog while other schema changes are locked out, and executes the
/// change that it returns, together with the changes of permissions that `permissions` returns for
/// its event and a timestamp. Returns the event and the warnings; `None` if nothing changed.
pub(crate) fn change_schema(
    execution: &Execution<'_>,
    decide: impl FnOnce(&SchemaContext<'_>) -> Result<Option<Change>>,
    permissions: impl FnOnce(&SchemaChange, i64) -> Result<Vec<Mutation>>,
) -> Result<Option<(SchemaChange, Vec<String>)>> {
    let store = execution.store;
    let changing = store.lock_schema_within(execution.schema_patience.take())?;
    let before = store.catalog();
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    // The cells of a dropped column up to the time of the drop are deleted, also if the column is
    // added again, and that time is rounded up: no later write may have a timestamp up to it.
    // Timestamps may be close together while the clock is behind those of an earlier run.
    store.withhold_timestamps(alter_table::whole_millisecond(timestamp))?;
    let cx = SchemaContext {
        catalog: &before,
        data_centers: store.data_centers(),
        timestamp,
        new_id: store.new_time_uuid(),
        materialized_views_enabled: store.materialized_views_enabled(),
        dynamic_data_masking_enabled: store.dynamic_data_masking_enabled(),
        sasi_indexes_enabled: store.sasi_indexes_enabled(),
        drop_compact_storage_enabled: store.drop_compact_storage_enabled(),
        functions: store.functions(),
        bound: &execution.bound,
        default_params: store.default_params(),
        guard: execution.guard(),
    };
    let Some(Change { keyspace, event, warnings }) = decide(&cx)? else { return Ok(None) };
    let (name, after) = match keyspace {
        KeyspaceChange::Put(keyspace) => {
            // A lost row is restored by any change.
            let keyspace = Keyspace { is_stored: true, ..keyspace };
            (
                keyspace.name.clone(),
                before.with_keyspace(keyspace.with_indexes_of_tables()?.with_views_of_tables()?),
            )
        }
        KeyspaceChange::Drop(name) => {
            let after = before.without_keyspace(&name);
            (name, after)
        }
    };
    let after = Arc::new(after);
    let changing_roles = store.lock_roles();
    let permissions = permissions(&event, timestamp)?;
    let changes_permissions = !permissions.is_empty();
    let in_force = put_into_force(store, &name, &before, &after, permissions);
    if changes_permissions {
        store.authorization().invalidate();
    }
    drop(changing_roles);
    in_force?;
    events::events(&name, &before, &after).iter().for_each(|event| store.events().tell(event));
    drop(changing);
    for index in after.keyspace(&name).into_iter().flat_map(|keyspace| keyspace.indexes.values()) {
        build_index(store, index);
    }
    for view in after.keyspace(&name).into_iter().flat_map(|keyspace| keyspace.views.values()) {
        build_view(store, view);
    }
    Ok(Some((event, warnings)))
}

fn put_into_force(
    store: &Store,
    keyspace: &str,
    before: &Catalog,
    after: &Arc<Catalog>,
    permissions: Vec<Mutation>,
) -> Result<()> {
    let engine = store.engine();
    let diff = TablesDiff::new(keyspace, before, after);
    let dropped = ids(&diff.dropped);
    let undo = |cause: DatabaseError| {
        if let Err(error) = engine.discard_tables(&ids(&diff.created)) {
            tracing::warn!(keyspace, %error, "cannot remove tables that were not created");
        }
        cause
    };
    engine
        .create_tables(&diff.created)
        .map_err(|error| DatabaseError::storage_in("cannot create the tables", error))?;
    for table in diff.dropped.iter().filter(|table| store.leaves_snapshot(table)) {
        // Before the intent to drop it is recorded: afterwards, a crash may remove its files.
        if let Err(error) = engine.snapshot_before_drop(table.id, &describe::schema_cql_of(before, table)) {
            let name = table.qualified_name();
            let attempted = format_args!("cannot take a snapshot of {name} before it is dropped");
            return Err(undo(DatabaseError::storage_after(attempted, error)));
        }
    }
    if let Some(keyspace) = becomes_durable(keyspace, before, after)
        && let Err(error) = make_durable(store, keyspace)
    {
        // Statements still see the old schema; at worst the commit log contains too much.
        for table in keyspace.stored_tables() {
            let _ = engine.set_durable_writes(table.id, false);
        }
        return Err(undo(DatabaseError::failed_in("cannot set durable_writes", error)));
    }
    if !dropped.is_empty() {
        // Until the schema change is durable, a crash leaves intents, which the next start
        // resolves.
        engine.intend_drops(&dropped).map_err(|error| {
            undo(DatabaseError::storage_after("cannot record what is to be dropped", error))
        })?;
    }
    let cancel = |cause: DatabaseError| {
        engine.cancel_drops(&dropped);
        undo(cause)
    };
    // Later than the timestamps of all statements so far, and of all earlier schema changes.
    let timestamp = store.next_timestamp(store.clock().now_micros()).map_err(cancel)?;
    let mut mutations = mutations(store, keyspace, before, after, &diff, timestamp).map_err(cancel)?;
    mutations.extend(permissions);
    let written = match engine.apply_schema(&mutations, &system::is_schema) {
        Ok(()) => Ok(()),
        Err(error @ EngineError::OnlyInLog { .. }) => Err(DatabaseError::storage(error)),
        Err(error) => return Err(cancel(DatabaseError::storage_after("cannot write the schema", error))),
    };
    written.and(take_effect(store, keyspace, before, after, &diff))
}

/// Returns the changes of the schema's tables.
fn mutations(
    store: &Store,
    keyspace: &str,
    before: &Catalog,
    after: &Catalog,
    diff: &TablesDiff,
    timestamp: i64,
) -> Result<Vec<Mutation>> {
    let changed_indexes =
        diff.created.iter().chain(&diff.dropped).filter_map(|table| table.index_of.as_ref());
    let mut mutations = system::schema_rows::changes(keyspace, before, after, timestamp)
        .into_iter()
        .chain(system::local::schema_version(after, timestamp))
        .chain(
            changed_views(keyspace, before, after)
                .flat_map(|name| views::forget(after, keyspace, name, timestamp)),
        )
        .chain(changed_indexes.filter_map(|of| indexes::forget(after, keyspace, &of.index, timestamp)))
        .collect::<Vec<_>>();
    if store.schema_is_incomplete() {
        for table in diff.created.iter().filter(|table| table.index_of.is_none()) {
            mutations.extend(opening::stored_schema::delete_leftovers(
                store.engine(),
                after,
                table,
                timestamp,
            )?);
        }
    }
    Ok(mutations)
}

/// Makes a schema change that is durable visible to statements. A failure ends no later step: the
/// next start completes what failed. Returns the first one.
fn take_effect(
    store: &Store,
    keyspace: &str,
    before: &Catalog,
    after: &Arc<Catalog>,
    diff: &TablesDiff,
) -> Result<()> {
    let engine = store.engine();
    let mut failure = None;
    for table in &diff.altered {
        if let Err(error) = engine.alter_table(table.clone()) {
            let attempted = format!("cannot alter {}", table.qualified_name());
            failure.get_or_insert_with(|| DatabaseError::storage_after(attempted, error));
        }
    }
    if let Some(keyspace) = after.keyspace(keyspace)
        && let Err(error) = opening::set_durable_writes(engine, keyspace)
    {
        failure.get_or_insert_with(|| DatabaseError::storage_after("cannot set durable_writes", error));
    }
    store.swap_catalog(after.clone());
    if diff.changes_indexes() || changed_views(keyspace, before, after).next().is_some() {
        // Returns when all writers with the previous indexes and views are done.
        store.wait_for_writers();
    }
    if !diff.dropped.is_empty()
        && let Err(error) = engine.drop_tables(&ids(&diff.dropped))
    {
        failure.get_or_insert_with(|| DatabaseError::storage_after("cannot remove what was dropped", error));
    }
    failure.map_or(Ok(()), Err)
}

fn ids(tables: &[Arc<TableMetadata>]) -> Vec<TableId> {
    tables.iter().map(|table| table.id).collect()
}

/// Returns the keyspace if this change makes its writes durable.
fn becomes_durable<'a>(keyspace: &str, before: &Catalog, after: &'a Catalog) -> Option<&'a Keyspace> {
    let (old, new) = (before.keyspace(keyspace)?, after.keyspace(keyspace)?);
    (!old.params.durable_writes && new.params.durable_writes).then_some(&**new)
}

/// Makes the commit log and SSTables together contain all data of a keyspace, so that its indexes
/// and views can be trusted after a crash.
fn make_durable(store: &Store, keyspace: &Keyspace) -> Result<()> {
    // The order of tables does not matter: each is complete once it is flushed, and the schema
    // changes after all of them.
    opening::set_durable_writes(store.engine(), keyspace).map_err(DatabaseError::storage)?;
    // The notes may be from an earlier process, whose entries are lost.
    for index in keyspace.indexes.values().filter(|index| !store.is_built(index)) {
        indexes::unbuild(store, index)?;
    }
    for view in keyspace.views.values().filter(|view| !store.build_states().view(view).is_built()) {
        views::unbuild(store, view)?;
    }
    Ok(())
}

/// Returns the views that are created or dropped.
fn changed_views<'a>(
    keyspace: &str,
    before: &'a Catalog,
    after: &'a Catalog,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let views = |catalog: &'a Catalog| catalog.keyspace(keyspace).map(|keyspace| &keyspace.views);
    let (old, new) = (views(before), views(after));
    let missing = |view: &View, from: Option<&'a BTreeMap<String, Arc<View>>>| {
        from.and_then(|views| views.get(view.name())).is_none_or(|other| other.table.id != view.table.id)
    };
    let gone = old.into_iter().flat_map(BTreeMap::values).filter(move |view| missing(view, new));
    let come = new.into_iter().flat_map(BTreeMap::values).filter(move |view| missing(view, old));
    gone.chain(come).map(|view| view.name())
}

/// The changes of the stored tables of a keyspace.
struct TablesDiff {
    created: Vec<Arc<TableMetadata>>,
    altered: Vec<Arc<TableMetadata>>,
    dropped: Vec<Arc<TableMetadata>>,
}

impl TablesDiff {
    fn new(keyspace: &str, before: &Catalog, after: &Catalog) -> Self {
        let stored = |catalog: &Catalog| -> Vec<Arc<TableMetadata>> {
            match catalog.keyspace(keyspace) {
                Some(keyspace) if keyspace.kind == KeyspaceKind::User => {
                    keyspace.stored_tables().cloned().collect()
                }
                _ => Vec::new(),
            }
        };
        let by_id = |tables: &[Arc<TableMetadata>]| -> HashMap<TableId, Arc<TableMetadata>> {
            tables.iter().map(|table| (table.id, table.clone())).collect()
        };
        let (old, new) = (stored(before), stored(after));
        let (old_by_id, new_by_id) = (by_id(&old), by_id(&new));
        let (mut created, mut altered) = (Vec::new(), Vec::new());
        for table in &new {
            match old_by_id.get(&table.id) {
                None => created.push(table.clone()),
                Some(old) if !Arc::ptr_eq(old, table) => altered.push(table.clone()),
                Some(_) => {}
            }
        }
        // Hidden tables of indexes come before the tables whose directories contain them.
        let dropped = old.into_iter().filter(|table| !new_by_id.contains_key(&table.id)).collect();
        Self { created, altered, dropped }
    }

    fn changes_indexes(&self) -> bool {
        self.created.iter().chain(&self.dropped).any(|table| table.index_of.is_some())
    }
}
