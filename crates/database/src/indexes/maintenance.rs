//! The mutations of indexes that go with those of their tables.
//!
//! What a write puts into an indexed column becomes an entry, unread. What it replaces or deletes is looked up, so that
//! its entry goes in the same record: a read that finds nothing, as for a new row, costs a look into memtables and bloom
//! filters. No lock is held between that read and the write. Two writers of one row may each miss the other's value;
//! its entry is then stale, which readers notice. Likewise what a deletion of very many rows leaves.
//!
//! No entry is taken away that is needed: a deletion of one carries the write time of the cell it was of, and is made when
//! something else in the row was seen to win over that cell. The same value written later brings an entry of a later time.
//! An entry of a row, in an index of a key column, is taken away by deletions of the row alone, and at their time.

use std::sync::Arc;

use cassette_engine::{Engine, EngineError, Mutation};
use cassette_rows::merge::merge_rows;
use cassette_rows::{
    ColumnKind, DeletionTime, PartitionUpdate, Row, Selection, Slice, Slices, StorageError, TableMetadata,
    Unfiltered,
};

use super::Index;
use super::definition::{IndexKind, Source};
use super::entries::{LASTING, Place, deletion, entries, entry_clustering, insertion};
use crate::catalog::Catalog;
use crate::error::{DatabaseError, Result, bail_invalid};

/// How many rows a write looks up at most. What a deletion of more takes away leaves stale entries.
const OLD_ROWS_MAX: usize = 1000;

/// The longest indexed value, in bytes: a partition key's length is 16 bits, and one byte stands before the value.
const VALUE_LENGTH_MAX: usize = u16::MAX as usize - 1;

/// Adds to `mutations` those of the indexes of their tables. `now` is in seconds.
///
/// # Errors
/// Invalid, with Cassandra's text, for values that are too long. WouldBlock, when old rows cannot be read without waiting for a
/// disk, and this thread may not.
pub(crate) fn add_index_mutations(
    engine: &Engine,
    catalog: &Catalog,
    mutations: &mut Vec<Mutation>,
    now: u32,
) -> Result<()> {
    for i in 0..mutations.len() {
        let indexes = catalog.indexes_of(mutations[i].table.id);
        if indexes.is_empty() {
            continue;
        }
        let mut added = Vec::with_capacity(indexes.len());
        let Mutation { table, update } = &mutations[i];
        for index in indexes {
            add_insertions(index, update, now, &mut added)?;
        }
        if let Some(wanted) = old_rows_wanted(indexes, update, table) {
            match read_old(engine, update, table, wanted) {
                Ok(old) => add_deletions(indexes, update, &old, table, now, &mut added),
                Err(EngineError::Storage(StorageError::WouldBlock { .. })) => {
                    return Err(DatabaseError::WouldBlock);
                }
                // Readers pass over what is stale; the write need not fail for it.
                Err(error) => tracing::warn!(
                    table = table.qualified_name(),
                    %error,
                    "old index entries are left behind: the row that they are of cannot be read"
                ),
            }
        }
        mutations.append(&mut added);
    }
    Ok(())
}

/// All that the update writes into the indexed column.
fn add_insertions(index: &Index, update: &PartitionUpdate, now: u32, out: &mut Vec<Mutation>) -> Result<()> {
    let rows = update.rows.iter().map(|row| (row, false));
    for (row, is_static) in rows.chain(update.static_row.iter().map(|row| (row, true))) {
        for entry in entries(index, &update.key, row, is_static, now) {
            if entry.value.len() > VALUE_LENGTH_MAX {
                if index.kind == IndexKind::StorageAttached {
                    // As in Cassandra, it is written and not found by this index.
                    continue;
                }
                bail_invalid!(
                    "Cannot index value of size {} for index {} on {}({}) (maximum allowed size={})",
                    entry.value.len(),
                    index.name,
                    index.base.qualified_name(),
                    index.column.name,
                    u16::MAX
                );
            }
            out.push(insertion(index, &update.key, row.clustering(), &entry));
        }
        // The value of a key column is known without looking at the row.
        if index.is_of_key() && !row.deletion().is_live() {
            add_row_deletion(index, update, row, now, out);
        }
    }
    Ok(())
}

/// The entry of a deleted row in an index of a key column.
fn add_row_deletion(index: &Index, update: &PartitionUpdate, row: &Row, now: u32, out: &mut Vec<Mutation>) {
    let key = &update.key;
    let value = match index.source {
        Source::Clustering(position) => row.clustering().value(position),
        Source::PartitionKey(position) => {
            let components = cassette_rows::key::components(key.key(), index.base.partition_key.len());
            components.and_then(|components| components.get(position).copied())
        }
        _ => None,
    };
    if let Some(value) = value {
        let value = match &index.analyzer {
            Some(analyzer) => analyzer.analyze(value.into()),
            None => value.into(),
        };
        let place = Place::new(index, &value);
        let clustering = entry_clustering(index, place.value, key, row.clustering(), Some(LASTING));
        out.push(deletion(index, place.key, clustering, row.deletion().timestamp, now));
    }
}

/// Which rows' old entries the update may make stale; `None` if it cannot.
fn old_rows_wanted(
    indexes: &[Arc<Index>],
    update: &PartitionUpdate,
    table: &TableMetadata,
) -> Option<Selection> {
    let selection = |slices| Some(Selection { slices, reversed: false });
    if !update.deletion.is_live() {
        return selection(Slices::all());
    }
    let mut slices: Vec<Slice> = Vec::new();
    for range in update.range_tombstones.as_slice() {
        slices.push(Slice { start: range.start.clone(), end: range.end.clone() });
    }
    let touches = |row: &Row, is_static: bool| {
        indexes.iter().any(|index| match index.source {
            Source::PartitionKey(_) | Source::Clustering(_) => false,
            Source::Cell(column)
            | Source::Paths(column)
            | Source::Values(column)
            | Source::Entries(column) => {
                (index.column.kind == ColumnKind::Static) == is_static
                    && (!row.deletion().is_live()
                        || !row.complex_deletion(column).is_live()
                        || row.cells_of(column).len() > 0)
            }
        })
    };
    let rows = update.rows.iter().filter(|row| touches(row, false));
    slices.extend(rows.map(|row| Slice::prefix(row.clustering().clone())));
    if slices.is_empty() {
        let wants_static = update.static_row.as_ref().is_some_and(|row| touches(row, true));
        return if wants_static { selection(Slices::none()) } else { None };
    }
    selection(Slices::new(slices, &table.comparator))
}

/// Rows of a partition as they were before a write.
#[derive(Default)]
struct Old {
    static_row: Option<Row>,
    rows: Vec<Row>,
}

fn read_old(
    engine: &Engine,
    update: &PartitionUpdate,
    table: &TableMetadata,
    wanted: Selection,
) -> std::result::Result<Old, EngineError> {
    let mut stream = engine.read(table.id, &update.key, &wanted)?;
    let mut old = Old::default();
    let Some(header) = stream.next_partition()? else { return Ok(old) };
    old.static_row = header.static_row;
    while let Some(next) = stream.next_unfiltered()? {
        if let Unfiltered::Row(row) = next {
            old.rows.push(row);
            if old.rows.len() >= OLD_ROWS_MAX {
                break;
            }
        }
    }
    Ok(old)
}

/// The deletions of entries that rows had before the update and do not have after it.
fn add_deletions(
    indexes: &[Arc<Index>],
    update: &PartitionUpdate,
    old: &Old,
    table: &TableMetadata,
    now: u32,
    out: &mut Vec<Mutation>,
) {
    let comparator = &table.comparator;
    let key = &update.key;
    let mut compare = |before: &Row, change: Option<&Row>, active: DeletionTime, is_static: bool| {
        let after = match change {
            Some(change) => merge_rows(&[before.clone(), change.clone()], active, table),
            None => merge_rows(std::slice::from_ref(before), active, table),
        };
        for index in indexes {
            if index.is_of_key() {
                // That of a row that is named went with the insertions.
                for entry in entries(index, key, before, is_static, now) {
                    if entry.path == Some(LASTING) && active.deletes(entry.liveness.timestamp) {
                        let place = Place::new(index, &entry.value);
                        let clustering =
                            entry_clustering(index, place.value, key, before.clustering(), entry.path);
                        out.push(deletion(index, place.key, clustering, active.timestamp, now));
                    }
                }
                continue;
            }
            let kept = after.as_ref().map(|after| entries(index, key, after, is_static, now));
            let is_kept = |value: &[u8], path: Option<&[u8]>| {
                kept.iter().flatten().any(|kept| index.same_value(&kept.value, value) && kept.path == path)
            };
            for entry in entries(index, key, before, is_static, now) {
                if entry.value.len() <= VALUE_LENGTH_MAX && !is_kept(&entry.value, entry.path) {
                    let place = Place::new(index, &entry.value);
                    let clustering =
                        entry_clustering(index, place.value, key, before.clustering(), entry.path);
                    out.push(deletion(index, place.key, clustering, entry.liveness.timestamp, now));
                }
            }
        }
    };
    for before in &old.rows {
        let clustering = before.clustering();
        let change =
            update.rows.binary_search_by(|row| comparator.compare_rows(row.clustering(), clustering));
        let covering = update.range_tombstones.covering(clustering.into(), comparator);
        compare(before, change.ok().map(|i| &update.rows[i]), update.deletion.max(covering), false);
    }
    if let Some(before) = &old.static_row {
        compare(before, update.static_row.as_ref(), update.deletion, true);
    }
}
