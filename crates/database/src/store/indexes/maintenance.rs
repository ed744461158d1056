//! The mutations of indexes that accompany those of their tables.
//!
//! A value written to an indexed column becomes an entry without a read. A value that is replaced
//! or deleted is read, so that its entry is deleted in the same commit log record. If there is
//! none, as for a new row, the read costs a look-up in memtables and bloom filters. No lock is held
//! between that read and the write. Two concurrent writers of one row may each miss the other's
//! value, whose entry is then stale, which readers detect. Deletions of very many rows leave stale
//! entries, too.
//!
//! No valid entry is deleted: the deletion of an entry carries the write timestamp of its cell, and
//! is made only when something else in the row supersedes that cell. The same value written later
//! creates an entry with a later timestamp. In an index of a key column, only deletions of the row
//! delete an entry, with their timestamp.

use std::cell::OnceCell;
use std::sync::Arc;

use cassette_engine::{Engine, EngineError, Mutation};
use cassette_rows::merge::{merge_rows, reconcile};
use cassette_rows::{
    Cell, DataType, DecoratedKey, DeletionTime, PartitionUpdate, Row, Selection, Slice, Slices, StorageError,
    TableMetadata, Unfiltered,
};

use super::entries::{Change, Changes, Entry, LASTING, entries};
use crate::basics::error::{DatabaseError, Result, WriteType, bail_invalid};
use crate::planning::context::BindContext;
use crate::schema::catalog::Catalog;
use crate::schema::indexes::{Index, IndexKind, Source, TERMS_MAX};

/// The maximum number of rows that a write reads. Deletions of more rows leave stale entries.
const OLD_ROWS_MAX: usize = 1000;

/// The maximum length of an indexed value, in bytes: the length of a partition key has 16 bits, and
/// a byte precedes the value.
const VALUE_LENGTH_MAX: usize = u16::MAX as usize - 1;

/// Adds the mutations of indexes to `mutations`. Returns whether there are indexes of vectors.
///
/// # Errors
/// - Invalid, with Cassandra's text, for values that are too long.
/// - WriteFailure, with the text that Cassandra logs, for vectors that cannot be compared.
/// - WouldBlock, if old rows cannot be read without waiting for a disk, and this thread must not
///   wait.
pub(crate) fn add_index_mutations(
    engine: &Engine,
    catalog: &Catalog,
    mutations: &mut Vec<Mutation>,
    cx: &BindContext<'_>,
    write_type: WriteType,
) -> Result<bool> {
    let mut has_vectors = false;
    let now = cx.now_seconds;
    for i in 0..mutations.len() {
        let indexes = catalog.indexes_of(mutations[i].table.id);
        if indexes.is_empty() {
            continue;
        }
        has_vectors |= indexes.iter().any(|index| index.similarity.is_some());
        let mut added = Vec::with_capacity(indexes.len());
        let Mutation { table, update } = &mutations[i];
        add_insertions(indexes, update, (cx, write_type), &mut added)?;
        if let Some(wanted) = old_rows_wanted(indexes, update, table) {
            match read_old(engine, update, table, wanted) {
                Ok(old) => add_deletions(indexes, update, &old, table, now, &mut added),
                Err(EngineError::Storage(StorageError::WouldBlock { .. })) => {
                    return Err(DatabaseError::WouldBlock);
                }
                Err(EngineError::Storage(StorageError::Interrupted(reason))) => return Err(reason.into()),
                // The write succeeds: readers skip stale entries.
                Err(error) => tracing::warn!(
                    table = table.qualified_name(),
                    %error,
                    "old index entries are left behind: the row that they are of cannot be read"
                ),
            }
        }
        mutations.append(&mut added);
    }
    Ok(has_vectors)
}

/// Rejects a value with more terms than an index can have.
fn guard_terms(index: &Index, terms: usize) -> Result<()> {
    if index.sasi.is_some() && terms > TERMS_MAX {
        bail_invalid!(
            "Cannot index a value of more than {TERMS_MAX} terms for index {} on {}({})",
            index.name,
            index.base.qualified_name(),
            index.column.name
        );
    }
    Ok(())
}

/// Adds entries for all values that the update writes to indexed columns.
fn add_insertions(
    indexes: &[Arc<Index>],
    update: &PartitionUpdate,
    (cx, write_type): (&BindContext<'_>, WriteType),
    out: &mut Vec<Mutation>,
) -> Result<()> {
    let now = cx.now_seconds;
    let rows = update.rows.iter().map(|row| (row, false));
    for (row, is_static) in rows.chain(update.static_row.iter().map(|row| (row, true))) {
        let mut changes = Changes::new(&update.key, row.clustering());
        for index in indexes {
            let entries = entries(index, &update.key, row, is_static, now);
            guard_terms(index, entries.len())?;
            for entry in entries {
                guard_size(index, entry.value.len(), cx)?;
                validate_vector(index, &entry.value).map_err(|message| DatabaseError::WriteFailure {
                    consistency: cx.options.consistency,
                    write_type,
                    message,
                    cause: None,
                })?;
                if entry.value.len() <= VALUE_LENGTH_MAX {
                    out.push(changes.make(index, &entry.value, entry.path, Change::Write(entry.liveness)));
                } else if index.kind == IndexKind::Composites {
                    bail_invalid!(
                        "Cannot index value of size {} for index {} on {}({}) (maximum allowed size={})",
                        entry.value.len(),
                        index.name,
                        index.base.qualified_name(),
                        index.column.name,
                        u16::MAX
                    );
                }
                // Longer values are stored, but this index does not find them, as in Cassandra.
            }
            // The value of a key column is known without reading the row.
            if index.is_of_key()
                && !row.deletion().is_live()
                && let Some(value) = key_value(index, &update.key, row)
            {
                let deletion = DeletionTime::new(row.deletion().timestamp, now);
                for term in index.terms(value.into()) {
                    out.push(changes.make(index, &term, Some(LASTING), Change::Delete(deletion)));
                }
            }
        }
    }
    Ok(())
}

/// Applies the guardrails to a value of a storage-attached index.
fn guard_size(index: &Index, bytes: usize, cx: &BindContext<'_>) -> Result<()> {
    if index.kind != IndexKind::StorageAttached {
        return Ok(());
    }
    let name = &index.column.name;
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Ascii | DataType::Text);
    match &index.column.data_type {
        DataType::Ascii | DataType::Text => cx.guard().indexed_text_size(name, bytes),
        DataType::List { element, frozen: false } | DataType::Set { element, frozen: false }
            if is_text(element) =>
        {
            cx.guard().indexed_text_size(name, bytes)
        }
        DataType::Map { key, value, frozen: false } if is_text(key) || is_text(value) => {
            cx.guard().indexed_text_size(name, bytes)
        }
        DataType::Vector { .. } => cx.guard().indexed_vector_size(name, bytes),
        DataType::List { frozen: true, .. }
        | DataType::Set { frozen: true, .. }
        | DataType::Map { frozen: true, .. }
        | DataType::Udt { .. }
        | DataType::Tuple(_) => cx.guard().indexed_frozen_size(name, bytes),
        _ => Ok(()),
    }
}

/// Checks that a vector can be compared with others, if the index is one of vectors.
fn validate_vector(index: &Index, value: &[u8]) -> std::result::Result<(), String> {
    let (Some(similarity), DataType::Vector { dimension, .. }) = (index.similarity, &index.column.data_type)
    else {
        return Ok(());
    };
    match cassette_vectors::floats(value, *dimension as usize) {
        Some(vector) => similarity.validate(&vector).map_err(|invalid| invalid.to_string()),
        None => Ok(()),
    }
}

/// Returns the value of an indexed key column, without reading the row.
fn key_value<'r>(index: &Index, key: &'r DecoratedKey, row: &'r Row) -> Option<&'r [u8]> {
    match index.source {
        Source::Clustering(position) => row.clustering().value(position),
        Source::PartitionKey(position) => {
            let components = cassette_rows::key::components(key.key(), index.base.partition_key.len());
            components.and_then(|components| components.get(position).copied())
        }
        _ => None,
    }
}

/// Returns the rows whose old entries the update may make stale; `None` if there are none.
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
            | Source::AnalyzedPaths(column)
            | Source::Values(column)
            | Source::Entries(column) => {
                index.is_of_static() == is_static
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

/// The rows of a partition before a write.
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
    let mut old = Old::default();
    if !engine.may_contain(table.id, &update.key)? {
        return Ok(old);
    }
    let mut stream = engine.read(table.id, &update.key, &wanted)?;
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

/// Adds the deletions of entries that rows had before the update and lose by it.
fn add_deletions(
    indexes: &[Arc<Index>],
    update: &PartitionUpdate,
    old: &Old,
    table: &TableMetadata,
    now: u32,
    out: &mut Vec<Mutation>,
) {
    let comparator = &table.comparator;
    let mut replaced = |before: &Row, change: Option<&Row>, active: DeletionTime, is_static: bool| {
        let key = &update.key;
        Replaced { key, table, before, change, active, is_static, now }.add_deletions(indexes, out);
    };
    for before in &old.rows {
        let clustering = before.clustering();
        let change =
            update.rows.binary_search_by(|row| comparator.compare_rows(row.clustering(), clustering));
        let covering = update.range_tombstones.covering(clustering.into(), comparator);
        replaced(before, change.ok().map(|i| &update.rows[i]), update.deletion.max(covering), false);
    }
    if let Some(before) = &old.static_row {
        replaced(before, update.static_row.as_ref(), update.deletion, true);
    }
}

/// A row that a write changes.
struct Replaced<'a> {
    key: &'a DecoratedKey,
    table: &'a TableMetadata,
    /// The row before the write.
    before: &'a Row,
    /// The row that is written.
    change: Option<&'a Row>,
    /// The deletion by a partition or range deletion.
    active: DeletionTime,
    is_static: bool,
    now: u32,
}

impl Replaced<'_> {
    fn add_deletions(&self, indexes: &[Arc<Index>], out: &mut Vec<Mutation>) {
        let mut changes = Changes::new(self.key, self.before.clustering());
        let mut delete = |index: &Index, entry: &Entry<'_>, timestamp| {
            let deletion = Change::Delete(DeletionTime::new(timestamp, self.now));
            out.push(changes.make(index, &entry.value, entry.path, deletion));
        };
        let after = OnceCell::new();
        for index in indexes {
            let had = |index| entries(index, self.key, self.before, self.is_static, self.now);
            match index.source {
                Source::PartitionKey(_) | Source::Clustering(_) => {
                    // The entry of a named row was deleted with the insertions.
                    let is_deleted = |entry: &Entry<'_>| {
                        entry.path == Some(LASTING) && self.active.deletes(entry.liveness.timestamp)
                    };
                    for entry in had(index).iter().filter(|entry| is_deleted(entry)) {
                        delete(index, entry, self.active.timestamp);
                    }
                }
                Source::Cell(column) if self.only_cells_change() => {
                    let Some(written) = self.change.and_then(|change| change.cell(column)) else { continue };
                    let wins = |cell: Cell<'_>| reconcile(&written, &cell).is_gt();
                    if !self.before.cell(column).is_some_and(wins) {
                        continue;
                    }
                    let values = written.is_live(self.now).then(|| index.terms(written.value.into()));
                    let is_kept = |entry: &Entry<'_>| {
                        values.iter().flatten().any(|value| index.same_value(value, &entry.value))
                    };
                    let entries = had(index);
                    for entry in entries.iter().filter(|entry| is_indexed(entry) && !is_kept(entry)) {
                        delete(index, entry, entry.liveness.timestamp);
                    }
                }
                _ => {
                    let after: &Option<Row> = after.get_or_init(|| self.after());
                    let has =
                        after.as_ref().map(|row| entries(index, self.key, row, self.is_static, self.now));
                    let is_kept = |entry: &Entry<'_>| {
                        let mut has = has.iter().flatten();
                        has.any(|has| index.same_value(&has.value, &entry.value) && has.path == entry.path)
                    };
                    let entries = had(index);
                    for entry in entries.iter().filter(|entry| is_indexed(entry) && !is_kept(entry)) {
                        delete(index, entry, entry.liveness.timestamp);
                    }
                }
            }
        }
    }

    /// Whether only cells are written, so that the later cell of a simple column wins: an earlier
    /// deletion of the row is older than all that remains of it.
    fn only_cells_change(&self) -> bool {
        self.active.is_live() && self.change.is_some_and(|change| change.deletion().is_live())
    }

    fn after(&self) -> Option<Row> {
        let before = self.before.clone();
        match self.change {
            Some(change) => merge_rows(&[before, change.clone()], self.active, self.table),
            None => merge_rows(&[before], self.active, self.table),
        }
    }
}

/// Whether the value is short enough for an entry.
fn is_indexed(entry: &Entry<'_>) -> bool {
    entry.value.len() <= VALUE_LENGTH_MAX
}
