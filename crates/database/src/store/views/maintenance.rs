//! The mutations of views that accompany those of their tables.
//!
//! A thread locks all partitions that it writes before it acquires other locks, in one order, so no
//! row changes between its read and its write.

use std::sync::Arc;

use cassette_engine::{Engine, Mutation, PartitionLock, may_wait};
use cassette_rows::merge::merge_rows;
use cassette_rows::{
    DecoratedKey, DeletionTime, PartitionHeader, PartitionStream, PartitionUpdate, Row, RowBuilder,
    Selection, Slice, Slices, TableId, TableMetadata, Unfiltered, interrupt, key,
};

use super::updates::Change;
use super::{EntryBudget, Reason};
use crate::basics::error::{DatabaseError, Result};
use crate::planning::context::BindContext;
use crate::planning::select::filter::BoundFilter;
use crate::schema::catalog::Catalog;
use crate::schema::views::View;
use crate::store::admission::Unapplied;

/// The cost of an old row, in steps of [`interrupt`].
const ROW_STEPS: u32 = 8;

/// Locks the partitions of tables with views, and `also` another one.
///
/// # Errors
/// WouldBlock, if one of them is locked and this thread must not wait.
pub(crate) fn lock_partitions<'e>(
    engine: &'e Engine,
    catalog: &Catalog,
    mutations: &[Mutation],
    also: Option<(TableId, &DecoratedKey)>,
) -> Result<Vec<PartitionLock<'e>>> {
    let has_views = |mutation: &&Mutation| !catalog.views_of(mutation.table.id).is_empty();
    let partitions = mutations.iter().filter(has_views).map(|m| (m.table.id, &m.update.key)).chain(also);
    if may_wait() {
        Ok(engine.lock_partitions(partitions)?)
    } else {
        engine.try_lock_partitions(partitions).ok_or(DatabaseError::WouldBlock)
    }
}

/// Adds the mutations of views to `mutations`. The partitions of tables with views must be locked.
///
/// # Errors
/// ReadFailure, if a row cannot be read, because its entries depend on it. WouldBlock, if it cannot
/// be read without waiting, and this thread must not wait. Those of the budget.
pub(crate) fn add_view_mutations(
    engine: &Engine,
    catalog: &Catalog,
    mutations: &mut Vec<Mutation>,
    cx: &BindContext<'_>,
    budget: &mut EntryBudget<'_, '_>,
) -> Result<(), Unapplied> {
    let mut added = Vec::new();
    for Mutation { table, update } in mutations.iter() {
        let views = catalog.views_of(table.id);
        if !views.is_empty() {
            add_entries(engine, views, update, cx, budget, &mut added)?;
        }
    }
    mutations.append(&mut added);
    Ok(())
}

/// Adds the entries of one partition. Old rows are read one at a time, since a deletion may cover
/// more than memory can hold.
fn add_entries(
    engine: &Engine,
    views: &[Arc<View>],
    update: &PartitionUpdate,
    cx: &BindContext<'_>,
    budget: &mut EntryBudget<'_, '_>,
    out: &mut Vec<Mutation>,
) -> Result<(), Unapplied> {
    // The view's version of the table: a writer may have planned with an older one.
    let Some(table) = views.first().map(|view| &view.base) else { return Ok(()) };
    let Some(selection) = touched(update, table) else { return Ok(()) };
    let header = PartitionHeader { key: update.key.clone(), deletion: DeletionTime::LIVE, static_row: None };
    let Some(writer) = EntryWriter::new(views, &header, cx)? else { return Ok(()) };
    let comparator = &table.comparator;
    let covering = |row: &Row| {
        update.deletion.max(update.range_tombstones.covering(row.clustering().into(), comparator))
    };
    let read = engine.read(table.id, &update.key, &selection);
    let mut old = read.map_err(|error| DatabaseError::of_read(cx.options.consistency, error))?;
    let failed = |error| DatabaseError::read_failure(cx.options.consistency, error);
    let found = old.next_partition().map_err(failed)?;
    // The stored deletions at the current position of `old`. An entry that is created again must
    // not show cells older than a later deletion of its row.
    let of_partition = found.as_ref().map_or(DeletionTime::LIVE, |header| header.deletion);
    let mut of_range = DeletionTime::LIVE;
    let mut new_rows = update.rows.iter().peekable();
    loop {
        interrupt::charge(ROW_STEPS)?;
        let next = if found.is_some() { old.next_unfiltered().map_err(failed)? } else { None };
        let position = next.as_ref().map(|next| match next {
            Unfiltered::Row(row) => row.clustering().into(),
            Unfiltered::Marker(marker) => marker.bound.position(),
        });
        let comes_first = |new: &&Row| {
            position.is_none_or(|next| comparator.compare(new.clustering().into(), next).is_lt())
        };
        while let Some(new) = new_rows.next_if(comes_first) {
            let deletion = covering(new).max(of_partition).max(of_range);
            writer.add(None, &after(None, Some(new), deletion, table), Reason::Row, budget, out)?;
        }
        match next {
            None => return Ok(()),
            Some(Unfiltered::Marker(marker)) => of_range = marker.open.unwrap_or(DeletionTime::LIVE),
            Some(Unfiltered::Row(before)) => {
                let is_same =
                    |new: &&Row| comparator.compare_rows(new.clustering(), before.clustering()).is_eq();
                let change = new_rows.next_if(is_same);
                let covering = covering(&before);
                if change.is_some() || !covering.is_live() {
                    let after = after(Some(&before), change, covering.max(of_partition).max(of_range), table);
                    let reason = if change.is_some() { Reason::Row } else { Reason::Deletion };
                    writer.add(Some(&before), &after, reason, budget, out)?;
                }
            }
        }
    }
}

/// Creates the entries of rows of one partition.
pub(crate) struct EntryWriter<'a> {
    views: Vec<(&'a Arc<View>, Vec<BoundFilter<'a>>)>,
    header: &'a PartitionHeader,
    key: Vec<&'a [u8]>,
    now: u32,
}

impl<'a> EntryWriter<'a> {
    /// Returns `None` if the partition's key is not a key of the table.
    ///
    /// # Errors
    /// Those of binding the WHERE of a view.
    pub fn new(
        views: &'a [Arc<View>],
        header: &'a PartitionHeader,
        cx: &BindContext<'a>,
    ) -> Result<Option<Self>> {
        let Some(base) = views.first().map(|view| &view.base) else { return Ok(None) };
        let Some(key) = key::components(header.key.key(), base.partition_key.len()) else { return Ok(None) };
        let views = views.iter().map(|view| Ok((view, view.bind(cx)?)));
        Ok(Some(Self { views: views.collect::<Result<_>>()?, header, key, now: cx.now_seconds }))
    }

    /// Adds the entries of a row before and after a write.
    ///
    /// # Errors
    /// Those of the budget.
    pub fn add(
        &self,
        before: Option<&Row>,
        after: &Row,
        reason: Reason,
        budget: &mut EntryBudget<'_, '_>,
        out: &mut Vec<Mutation>,
    ) -> Result<(), Unapplied> {
        let now = self.now;
        for (view, filters) in &self.views {
            let shows = |row: &Row| view.shows(self.header, row, filters, now);
            let change = Change {
                view,
                key: &self.key,
                before,
                after,
                shown_before: before.is_some_and(shows),
                shown_after: shows(after),
                now,
            };
            for update in change.entries() {
                budget.charge(&update, reason)?;
                out.push(Mutation { table: view.table.clone(), update });
            }
        }
        Ok(())
    }
}

/// Returns the row after a write, with the deletion that covers it as a row deletion.
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

/// Returns the selection of rows that an update changes; `None` if it changes none.
fn touched(update: &PartitionUpdate, table: &TableMetadata) -> Option<Selection> {
    let slices = if !update.deletion.is_live() {
        Slices::all()
    } else {
        let ranges = update.range_tombstones.as_slice().iter();
        let ranges = ranges.map(|range| Slice { start: range.start.clone(), end: range.end.clone() });
        let rows = update.rows.iter().map(|row| Slice::prefix(row.clustering().clone()));
        let slices: Vec<Slice> = ranges.chain(rows).collect();
        if slices.is_empty() {
            return None;
        }
        Slices::new(slices, &table.comparator)
    };
    Some(Selection { slices, reversed: false })
}
