//! `system.built_views` and `system.view_builds_in_progress`: the progress of view builds, for the
//! next start.

use std::sync::Arc;

use cassette_engine::{Engine, Mutation};
use cassette_rows::Token;

use crate::basics::error::{DatabaseError, Result};
use crate::schema::catalog::{Catalog, Keyspace, KeyspaceKind};
use crate::schema::system::encode;
use crate::schema::system::{BUILT_VIEWS, SYSTEM, VIEW_BUILDS};
use crate::schema::views::View;
use crate::store::Store;
use crate::store::build_notes;
use crate::store::build_state::BuildStates;

/// Cassandra's minimum token: both ends of the whole ring.
const RING: &str = "-9223372036854775808";

pub(crate) fn progress(store: &Store, view: &View, last: Option<Token>, count: i64) -> Result<Vec<Mutation>> {
    let catalog = store.catalog();
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    let Some(table) = catalog.table(SYSTEM, VIEW_BUILDS) else { return Ok(Vec::new()) };
    let mut values = vec![("keys_built", count.into())];
    let token = last.map(|token| token.0.to_string());
    if let Some(token) = &token {
        values.push(("last_token", token.as_str().into()));
    }
    let row = encode::row(table, &[view.name(), RING, RING], &values, timestamp);
    Ok(vec![encode::mutation(table, &view.base.keyspace, vec![row])])
}

pub(crate) fn built(store: &Store, view: &View) -> Result<Vec<Mutation>> {
    let catalog = store.catalog();
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    let mut mutations = Vec::new();
    if let Some(table) = catalog.table(SYSTEM, BUILT_VIEWS) {
        let row = encode::row(table, &[view.name()], &[("status_replicated", true.into())], timestamp);
        mutations.push(encode::mutation(table, &view.base.keyspace, vec![row]));
    }
    if let Some(table) = catalog.table(SYSTEM, VIEW_BUILDS) {
        let row = encode::row_deletion(&[view.name(), RING, RING], timestamp);
        mutations.push(encode::mutation(table, &view.base.keyspace, vec![row]));
    }
    Ok(mutations)
}

/// Returns the mutations that remove the progress of a view: when it is created and when it is
/// dropped.
pub(crate) fn forget(catalog: &Catalog, keyspace: &str, view: &str, timestamp: i64) -> Vec<Mutation> {
    let notes = [(BUILT_VIEWS, vec![view]), (VIEW_BUILDS, vec![view, RING, RING])];
    let mutation = |(table, clustering): (&str, Vec<&str>)| {
        let table = catalog.table(SYSTEM, table)?;
        Some(encode::mutation(table, keyspace, vec![encode::row_deletion(&clustering, timestamp)]))
    };
    notes.into_iter().filter_map(mutation).collect()
}

/// Durably removes the progress of a view before its base table is truncated: after a crash in
/// between, it is truncated and built again.
pub(crate) fn unbuild(store: &Store, view: &View) -> Result<()> {
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    let notes = forget(&store.catalog(), &view.base.keyspace, view.name(), timestamp);
    let engine = store.engine();
    engine.apply(&notes).and_then(|()| engine.sync_log()).map_err(|error| {
        DatabaseError::storage_in(format_args!("cannot note that view {} is not built", view.name()), error)
    })
}

/// Stores that a truncated view of a truncated base table is built.
pub(crate) fn truncated(store: &Store, view: &View) -> Result<()> {
    let notes = built(store, view)?;
    store.engine().apply(&notes).map_err(|error| {
        DatabaseError::storage_in(format_args!("cannot note that view {} is built", view.name()), error)
    })
}

/// Empties a view without progress before it is built: entries whose rows do not exist any more
/// would stay.
///
/// No statement dropped them, so SSTables are kept in a snapshot: the progress may be lost together
/// with rows of the base table. Only where writes are not logged is every start without progress.
fn empty(engine: &Engine, view: &View, keyspace: &Keyspace) -> Result<()> {
    let id = view.table.id;
    let emptied = engine.sstables(id).and_then(|sstables| {
        if sstables.is_empty() || !keyspace.params.durable_writes {
            return engine.truncate(id);
        }
        tracing::warn!(
            keyspace = keyspace.name,
            view = view.name(),
            "whether the view is complete is not recorded: it is built again, and its SSTables are kept in a snapshot"
        );
        engine.truncate_with_snapshot(id, "")
    });
    emptied.map_err(|error| {
        DatabaseError::storage_after(format_args!("cannot empty view {}", view.name()), error)
    })
}

/// Reads the stored progress, and returns the views that are not completely built. Views without
/// progress are emptied.
pub(crate) fn load(
    engine: &Engine,
    catalog: &Catalog,
    states: &BuildStates,
    now: u32,
) -> Result<Vec<Arc<View>>> {
    let built = build_notes::read(engine, catalog, BUILT_VIEWS, now, |_| Some(()))?;
    let begun = build_notes::read(engine, catalog, VIEW_BUILDS, now, |row| {
        Some((Token(row.text("last_token")?.parse().ok()?), row.long("keys_built").unwrap_or(0)))
    })?;
    let mut unbuilt = Vec::new();
    for keyspace in catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User) {
        for view in keyspace.views.values() {
            let name = (keyspace.name.clone(), view.name().to_owned());
            // Without commit log, rows may have been flushed without their entries.
            if built.contains_key(&name) && keyspace.params.durable_writes {
                states.view(view).set_built();
                continue;
            }
            match begun.get(&name).filter(|_| keyspace.params.durable_writes) {
                Some(done) => states.view(view).set_done(Some(*done)),
                None => empty(engine, view, keyspace)?,
            }
            unbuilt.push(view.clone());
        }
    }
    Ok(unbuilt)
}
