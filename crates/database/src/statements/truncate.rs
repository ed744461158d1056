//! TRUNCATE: a table, its indexes and its views.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use cassette_engine::EngineError;
use cassette_engine::commitlog::Position;
use cassette_rows::{TableId, TableMetadata};

use crate::basics::error::{DatabaseError, Result};
use crate::basics::response::Outcome;
use crate::execution::describe;
use crate::schema::system::local;
use crate::statements::builds::{build_index, build_view, load_graph};
use crate::store::{Store, indexes, views};

/// Removes all rows of a table, and the entries of its indexes. The entries are removed first: rows
/// written between the two keep their entries, and so do rows that a crash leaves, because the
/// indexes are built again after it. Waits at most `patience` for other schema changes.
pub(crate) fn truncate(
    store: &Arc<Store>,
    table: &Arc<TableMetadata>,
    patience: Option<Duration>,
) -> Result<Outcome> {
    let failed = |error: EngineError| {
        let name = table.qualified_name();
        let mut message = format!("Error during truncate: {name}: {error}");
        if error.is_disk_full() && store.leaves_snapshot(table) {
            let _ = write!(
                message,
                "; rows in memory are written to the snapshot before TRUNCATE: to omit it, execute ALTER TABLE \
                 {name} WITH allow_auto_snapshot = false"
            );
        }
        DatabaseError::Truncate { message, cause: Some(error.into()) }
    };
    let engine = store.engine();
    // Indexes are neither created nor dropped meanwhile.
    let _changing = store.lock_schema_within(patience)?;
    let catalog = store.catalog();
    let views = catalog.views_of(table.id);
    let all_indexes = catalog.indexes_of(table.id);
    // A write between the truncation of a table and that of its views would remain in only one of
    // them, and so would the entries that a build of a view writes. The progress of builds is
    // recorded by writers, too.
    let is_being_built = !all_indexes.iter().all(|index| store.is_built(index));
    let alone = (is_being_built || !views.is_empty()).then(|| store.stop_writers());
    let (indexes, unbuilt): (Vec<_>, Vec<_>) = all_indexes.iter().partition(|index| store.is_built(index));
    for index in all_indexes {
        indexes::unbuild(store, index)?;
    }
    for index in &unbuilt {
        store.build_states().index(index).restart();
    }
    for view in views {
        views::unbuild(store, view)?;
        store.build_states().view(view).restart();
    }
    if table.params.cdc {
        note(store, table.id)?;
    }
    let indexes_and_views = all_indexes.iter().map(|index| index.storage.id);
    let indexes_and_views = indexes_and_views.chain(views.iter().map(|view| view.table.id));
    let tables = indexes_and_views.chain([table.id]);
    let truncate = |id| {
        if id == table.id && store.leaves_snapshot(table) {
            engine.truncate_with_snapshot(id, &describe::schema_cql_of(&catalog, table))
        } else {
            engine.truncate(id)
        }
    };
    let truncated = { tables }.try_for_each(truncate);
    if let Err(error) = truncated {
        // Builds write, too.
        drop(alone);
        for index in all_indexes {
            store.build_states().index(index).start_over();
            build_index(store, index);
        }
        for view in views {
            store.build_states().view(view).start_over();
            build_view(store, view);
        }
        return Err(failed(error));
    }
    for index in indexes {
        store.build_states().graphs.reset(index);
        indexes::mark_built(store, index)?;
        load_graph(store, index);
    }
    for view in views {
        views::truncated(store, view)?;
    }
    Ok(Outcome::Void)
}

/// Durably records in `system.local` that a captured table is about to be truncated: the stream of
/// changes does not contain it.
fn note(store: &Store, table: TableId) -> Result<()> {
    let timestamp = store.next_timestamp(store.clock().now_micros())?;
    let engine = store.engine();
    let noted = || {
        let position = engine.sync_captured()?.map_or(Position::ZERO, |point| point.end);
        let Some(note) = local::truncated_at(&store.catalog(), table, position, timestamp) else {
            return Ok(());
        };
        engine.apply(&[note]).and_then(|()| engine.sync_log())
    };
    noted().map_err(|error| DatabaseError::storage_in("cannot note the truncation in system.local", error))
}
