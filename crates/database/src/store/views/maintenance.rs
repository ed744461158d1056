//! The mutations of views that go with those of their tables.
//!
//! A thread takes the locks of all partitions that it writes before anything else, in one order, so that nobody changes a
//! row between its being read and its being written.

use std::sync::Arc;

use cassette_engine::{Engine, EngineError, Mutation, PartitionLock, may_wait};
use cassette_rows::merge::merge_rows;
use cassette_rows::{
    Bound, DeletionTime, PartitionHeader, PartitionUpdate, RangeTombstone, RangeTombstoneList, Row,
    RowBuilder, Selection, Slice, Slices, TableMetadata, Unfiltered, key,
};

use super::EntryBudget;
use super::updates::Change;
use crate::basics::error::{DatabaseError, Result};
use crate::planning::context::BindContext;
use crate::schema::catalog::Catalog;
use crate::schema::views::View;

/// Locks the partitions of tables with views.
///
/// # Errors
/// WouldBlock, when one of them is locked and this thread may not wait.
pub(crate) fn lock_partitions<'e>(
    engine: &'e Engine,
    catalog: &Catalog,
    mutations: &[Mutation],
) -> Result<Vec<PartitionLock<'e>>> {
    let has_views = |mutation: &&Mutation| !catalog.views_of(mutation.table.id).is_empty();
    let partitions = mutations.iter().filter(has_views).map(|m| (m.table.id, &m.update.key));
    match may_wait() {
        true => Ok(engine.lock_partitions(partitions)?),
        false => engine.try_lock_partitions(partitions).ok_or(DatabaseError::WouldBlock),
    }
}

/// Adds to `mutations` those of the views of their tables. The partitions of tables with views are locked.
///
/// # Errors
/// ReadFailure, when a row cannot be read: without knowing what it was its entries cannot be kept. WouldBlock, when it cannot be
/// read without waiting, and this thread may not.
pub(crate) fn add_view_mutations(
    engine: &Engine,
    catalog: &Catalog,
    mutations: &mut Vec<Mutation>,
    cx: &BindContext<'_>,
    budget: &mut EntryBudget<'_>,
) -> Result<()> {
    let mut added = Vec::new();
    for Mutation { table, update } in mutations.iter() {
        let views = catalog.views_of(table.id);
        if !views.is_empty() {
            entries_of(engine, views, update, cx, budget, &mut added)?;
        }
    }
    mutations.append(&mut added);
    Ok(())
}

fn entries_of(
    engine: &Engine,
    views: &[Arc<View>],
    update: &PartitionUpdate,
    cx: &BindContext<'_>,
    budget: &mut EntryBudget<'_>,
    out: &mut Vec<Mutation>,
) -> Result<()> {
    // As the view has it: a writer may have planned with an older version.
    let Some(table) = views.first().map(|view| &view.base) else { return Ok(()) };
    let Some(selection) = touched(update, table) else { return Ok(()) };
    let old = read(engine, update, table, &selection)
        .map_err(|error| DatabaseError::of_read(cx.options.consistency, error))?;
    let comparator = &table.comparator;
    let covering = |row: &Row| {
        update.deletion.max(update.range_tombstones.covering(row.clustering().into(), comparator))
    };
    // An entry that comes back must not show cells from before a deletion that its row has had since.
    let ever_covering = |row: &Row| {
        covering(row)
            .max(old.deletion)
            .max(old.range_tombstones.covering(row.clustering().into(), comparator))
    };
    let changed = |row: &Row| {
        let found =
            update.rows.binary_search_by(|new| comparator.compare_rows(new.clustering(), row.clustering()));
        found.ok().map(|at| &update.rows[at])
    };
    let mut rows: Vec<(Option<&Row>, Row)> = Vec::new();
    for before in &old.rows {
        let change = changed(before);
        if change.is_some() || !covering(before).is_live() {
            rows.push((Some(before), after(Some(before), change, ever_covering(before), table)));
        }
    }
    for new in &update.rows {
        let same = |before: &Row| comparator.compare_rows(before.clustering(), new.clustering());
        if old.rows.binary_search_by(same).is_err() {
            rows.push((None, after(None, Some(new), ever_covering(new), table)));
        }
    }
    let header = PartitionHeader { key: update.key.clone(), deletion: DeletionTime::LIVE, static_row: None };
    for view in views {
        add_entries(view, &header, &rows, cx, budget, out)?;
    }
    Ok(())
}

/// The entries of rows before and after a write in one view.
///
/// # Errors
/// Those of the budget.
pub(crate) fn add_entries(
    view: &Arc<View>,
    header: &PartitionHeader,
    rows: &[(Option<&Row>, Row)],
    cx: &BindContext<'_>,
    budget: &mut EntryBudget<'_>,
    out: &mut Vec<Mutation>,
) -> Result<()> {
    let now = cx.now_seconds;
    let filters = view.bind(cx)?;
    let Some(key) = key::components(header.key.key(), view.base.partition_key.len()) else { return Ok(()) };
    for (before, after) in rows {
        let change = Change {
            view,
            key: &key,
            before: *before,
            after,
            shown_before: before.is_some_and(|before| view.shows(header, before, &filters, now)),
            shown_after: view.shows(header, after, &filters, now),
            now,
        };
        for update in change.entries() {
            budget.charge(&update)?;
            out.push(Mutation { table: view.table.clone(), update });
        }
    }
    Ok(())
}

/// The row after a write, with the deletion that covers it as its own.
fn after(before: Option<&Row>, change: Option<&Row>, deletion: DeletionTime, table: &TableMetadata) -> Row {
    let versions: Vec<Row> = before.into_iter().chain(change).cloned().collect();
    let clustering = versions[0].clustering().clone();
    let merged = merge_rows(&versions, deletion, table);
    let mut row = RowBuilder::new(clustering);
    let own = versions.iter().map(Row::deletion).fold(deletion, DeletionTime::max);
    row.deletion(own);
    if let Some(merged) = merged {
        row.liveness(merged.liveness());
        for (column, deletion) in merged.complex_deletions() {
            row.complex_deletion(*column, *deletion);
        }
        for cell in merged.cells() {
            row.cell(cell);
        }
    }
    row.finish()
}

/// The rows that an update changes; `None` if it changes none.
fn touched(update: &PartitionUpdate, table: &TableMetadata) -> Option<Selection> {
    let slices = match update.deletion.is_live() {
        false => Slices::all(),
        true => {
            let ranges = update.range_tombstones.as_slice().iter();
            let ranges = ranges.map(|range| Slice { start: range.start.clone(), end: range.end.clone() });
            let rows = update.rows.iter().map(|row| Slice::prefix(row.clustering().clone()));
            let slices: Vec<Slice> = ranges.chain(rows).collect();
            if slices.is_empty() {
                return None;
            }
            Slices::new(slices, &table.comparator)
        }
    };
    Some(Selection { slices, reversed: false })
}

/// What a partition holds where it is to be changed.
struct Old {
    rows: Vec<Row>,
    /// Of the partition.
    deletion: DeletionTime,
    range_tombstones: RangeTombstoneList,
}

fn read(
    engine: &Engine,
    update: &PartitionUpdate,
    table: &TableMetadata,
    selection: &Selection,
) -> std::result::Result<Old, EngineError> {
    let mut stream = engine.read(table.id, &update.key, selection)?;
    let mut old = Old {
        rows: Vec::new(),
        deletion: DeletionTime::LIVE,
        range_tombstones: RangeTombstoneList::default(),
    };
    let Some(header) = stream.next_partition()? else { return Ok(old) };
    old.deletion = header.deletion;
    let mut open: Option<(Bound, DeletionTime)> = None;
    while let Some(next) = stream.next_unfiltered()? {
        match next {
            Unfiltered::Row(row) => old.rows.push(row),
            Unfiltered::Marker(marker) => {
                if let Some((start, deletion)) = open.take() {
                    let range = RangeTombstone { start, end: marker.bound.clone(), deletion };
                    old.range_tombstones.add(range, &table.comparator);
                }
                open = marker.open.map(|deletion| (marker.bound, deletion));
            }
        }
    }
    Ok(old)
}
