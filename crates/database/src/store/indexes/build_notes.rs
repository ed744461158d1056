//! `system."IndexInfo"`: the progress of index builds, for the next start.

use std::sync::Arc;

use bytes::Bytes;
use cassette_engine::{Engine, Mutation};
use cassette_rows::DecoratedKey;

use crate::basics::error::{DatabaseError, Result};
use crate::schema::catalog::{Catalog, KeyspaceKind};
use crate::schema::indexes::Index;
use crate::schema::system::encode::{self, StoredRow};
use crate::schema::system::{INDEX_INFO, SYSTEM};
use crate::store::Store;
use crate::store::build_notes;
use crate::store::build_state::BuildStates;

/// Stores the progress of an index; without `done` it is built.
pub(crate) fn note(store: &Store, index: &Index, done: Option<&DecoratedKey>) -> Result<()> {
    let catalog = store.catalog();
    let Some(table) = catalog.table(SYSTEM, INDEX_INFO) else { return Ok(()) };
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    let value = done.map(|done| [&index.created_at.to_be_bytes()[..], done.key()].concat());
    let values: Vec<_> = value.into_iter().map(|value| ("value", encode::Value::Bytes(value))).collect();
    let row = encode::row(table, &[&index.name], &values, timestamp);
    let mutation = encode::mutation(table, &index.base.keyspace, vec![row]);
    store
        .engine()
        .apply(&[mutation])
        .map_err(|error| DatabaseError::storage_in(format_args!("cannot write {SYSTEM}.{INDEX_INFO}"), error))
}

/// Returns the mutation that removes the progress of an index: when it is dropped, and before
/// another one of its name is built.
pub(crate) fn forget(catalog: &Catalog, keyspace: &str, index: &str, timestamp: i64) -> Option<Mutation> {
    let table = catalog.table(SYSTEM, INDEX_INFO)?;
    Some(encode::mutation(table, keyspace, vec![encode::row_deletion(&[index], timestamp)]))
}

/// Reads the stored progress, and returns the indexes that are not completely built.
pub(crate) fn load(
    engine: &Engine,
    catalog: &Catalog,
    states: &BuildStates,
    now: u32,
) -> Result<Vec<Arc<Index>>> {
    let value = |row: &StoredRow<'_>| Some(row.bytes("value").map(<[u8]>::to_vec));
    let notes = build_notes::read(engine, catalog, INDEX_INFO, now, value)?;
    let users = catalog.keyspaces().filter(|keyspace| keyspace.kind == KeyspaceKind::User);
    let mut unbuilt = Vec::new();
    for (keyspace, index) in
        users.flat_map(|keyspace| keyspace.indexes.values().map(move |index| (keyspace, index)))
    {
        if !keyspace.params.durable_writes {
            // Without commit log, rows may have been flushed without their entries, and deletions
            // of entries without those of their rows, which would hide entries built later.
            engine.truncate(index.storage.id).map_err(|error| {
                DatabaseError::storage_after(format_args!("cannot empty index {}", index.name), error)
            })?;
            unbuilt.push(index.clone());
            continue;
        }
        match notes.get(&(index.base.keyspace.clone(), index.name.clone())) {
            Some(None) => {
                states.index(index).set_built();
                continue;
            }
            Some(Some(note)) => {
                if let Some((created_at, done)) = note.split_first_chunk::<8>()
                    && i64::from_be_bytes(*created_at) == index.created_at
                {
                    states.index(index).set_done(Some(DecoratedKey::new(Bytes::copy_from_slice(done))));
                }
            }
            None => {}
        }
        unbuilt.push(index.clone());
    }
    Ok(unbuilt)
}

/// Durably removes the note that an index is built, before its entries are removed: after a crash
/// in between, it is built again.
pub(crate) fn unbuild(store: &Store, index: &Index) -> Result<()> {
    let catalog = store.catalog();
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    let Some(mutation) = forget(&catalog, &index.base.keyspace, &index.name, timestamp) else {
        return Ok(());
    };
    let engine = store.engine();
    engine
        .apply(&[mutation])
        .and_then(|()| engine.sync_log())
        .map_err(|error| DatabaseError::storage_in(format_args!("cannot write {SYSTEM}.{INDEX_INFO}"), error))
}

/// Stores that an index of an empty table is built.
pub(crate) fn mark_built(store: &Store, index: &Index) -> Result<()> {
    note(store, index, None)
}
