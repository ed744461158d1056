//! Validates the reads of serializable tables at the commit: C7 of the protocol.

use std::collections::BTreeSet;

use bytes::Bytes;
use cassette_rows::DecoratedKey;

use super::reads::Snapshot;
use super::scans::{SeenRow, Span};
use super::table::Table;
use super::writes::Writes;
use crate::error::{Error, Result};
use crate::store::{Cell, Version};
use crate::timestamp::Timestamp;

/// Maximum number of cells that one call reads again.
const BATCH: usize = 1_000;
/// Page size in columns and rows when ranges are read again.
const PAGE: usize = 1_000;

/// Reads and the timestamps of the versions they returned. Versions are immutable, so a timestamp
/// represents the value. Deletions are recorded as nothing.
#[derive(Default)]
pub(super) struct Reads {
    cells: Vec<(Table, Cell, Option<Timestamp>)>,
    columns: Vec<ColumnsRead>,
    rows: Vec<RowsRead>,
    /// Cells that were read for update, by table.
    for_update: Vec<(Table, BTreeSet<Cell>)>,
}

struct ColumnsRead {
    table: Table,
    row: Bytes,
    span: Span,
    seen: Vec<(Bytes, Timestamp)>,
}

struct RowsRead {
    table: Table,
    after: Option<Bytes>,
    /// The last row read; `None`: up to the end.
    last: Option<Bytes>,
    seen: Vec<(Cell, Timestamp)>,
}

/// Returns what represents a version: its timestamp, or nothing for a deletion, because sweeping
/// removes deletions.
pub(super) fn seen(version: Option<&Version>) -> Option<Timestamp> {
    version.filter(|version| !version.value.is_empty()).map(|version| version.timestamp)
}

fn timestamps(versions: &[(Bytes, Version)]) -> Vec<(Bytes, Timestamp)> {
    versions.iter().filter_map(|(column, version)| Some((column.clone(), seen(Some(version))?))).collect()
}

fn cells_of(rows: &[SeenRow]) -> Vec<(Cell, Timestamp)> {
    let of_row = |(row, seen): &SeenRow| {
        let row = row.clone();
        timestamps(seen).into_iter().map(move |(column, at)| (Cell::new(row.clone(), column), at))
    };
    rows.iter().flat_map(of_row).collect()
}

impl Reads {
    pub fn cells(&mut self, table: &Table, cells: impl Iterator<Item = (Cell, Option<Timestamp>)>) {
        self.cells.extend(cells.map(|(cell, version)| (table.clone(), cell, version)));
    }

    /// Records columns with their visible versions, in ascending order.
    pub fn columns(&mut self, table: &Table, row: &Bytes, span: &Span, seen: &[(Bytes, Version)]) {
        self.columns.push(ColumnsRead {
            table: table.clone(),
            row: row.clone(),
            span: span.clone(),
            seen: timestamps(seen),
        });
    }

    pub fn rows(&mut self, table: &Table, after: Option<&Bytes>, last: Option<&Bytes>, rows: &[SeenRow]) {
        // Consecutive pages are validated as one, with one scan.
        if let Some(before) = self.rows.last_mut()
            && before.table == *table
            && before.last.is_some()
            && before.last.as_ref() == after
        {
            before.last = last.cloned();
            before.seen.extend(cells_of(rows));
            return;
        }
        self.rows.push(RowsRead {
            table: table.clone(),
            after: after.cloned(),
            last: last.cloned(),
            seen: cells_of(rows),
        });
    }

    /// Records cells that must not have changed when the transaction commits, whatever the conflict
    /// handler of the table is.
    pub fn for_update(&mut self, table: &Table, cells: impl Iterator<Item = Cell>) {
        match self.for_update.iter_mut().find(|(known, _)| known.name() == table.name()) {
            Some((_, known)) => known.extend(cells),
            None => self.for_update.push((table.clone(), cells.collect())),
        }
    }

    /// Returns the cells that were read for update and are not in `writes`, whose check covers
    /// them.
    pub fn only_read_for_update(&self, writes: &Writes) -> Vec<(Table, BTreeSet<Cell>)> {
        let unwritten = |(table, cells): &(Table, BTreeSet<Cell>)| {
            let cells = cells.iter().filter(|cell| writes.get(table, cell).is_none());
            (table.clone(), cells.cloned().collect())
        };
        self.for_update.iter().map(unwritten).collect()
    }

    /// Returns whether no reads are to be repeated at the commit timestamp.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.columns.is_empty() && self.rows.is_empty()
    }

    /// Compares all reads with `now`. Skips cells that the transaction writes, which the check of
    /// writes covers.
    pub fn check(&self, now: &Snapshot<'_>, writes: &Writes) -> Result<()> {
        for batch in self.cells.chunks(BATCH) {
            let mut rest = batch;
            while let Some((table, ..)) = rest.first() {
                let count = rest.iter().take_while(|(other, ..)| other == table).count();
                let (of_table, others) = rest.split_at(count);
                rest = others;
                check_cells(table, of_table, now, writes)?;
            }
        }
        for read in &self.columns {
            check_columns(read, now, writes)?;
        }
        for read in &self.rows {
            check_rows(read, now, writes)?;
        }
        Ok(())
    }
}

fn conflict(table: &Table, what: String) -> Error {
    Error::ReadWriteConflict { table: table.name().to_owned(), what }
}

fn check_cells(
    table: &Table,
    reads: &[(Table, Cell, Option<Timestamp>)],
    now: &Snapshot<'_>,
    writes: &Writes,
) -> Result<()> {
    let reads: Vec<_> = reads.iter().filter(|(_, cell, _)| writes.get(table, cell).is_none()).collect();
    let cells: Vec<&Cell> = reads.iter().map(|(_, cell, _)| cell).collect();
    for ((_, cell, before), version) in reads.iter().zip(now.get(table, &cells)?) {
        if seen(version.as_ref()) != *before {
            return Err(conflict(table, format!("{cell:02x?}")));
        }
    }
    Ok(())
}

fn check_columns(read: &ColumnsRead, now: &Snapshot<'_>, writes: &Writes) -> Result<()> {
    let ColumnsRead { table, row, span, seen } = read;
    let is_others = |column: &Bytes| writes.get(table, &Cell::new(row.clone(), column.clone())).is_none();
    let mut again = Vec::new();
    let mut rest = Some(span.clone());
    while let Some(span) = rest {
        let page = now.columns(table, row, &span, PAGE, false)?;
        again.extend(timestamps(&page.seen));
        rest = page.rest;
    }
    again.retain(|(column, _)| is_others(column));
    if again.iter().eq(seen.iter().filter(|(column, _)| is_others(column))) {
        Ok(())
    } else {
        Err(conflict(table, format!("a range of columns of row {row:02x?}")))
    }
}

fn check_rows(read: &RowsRead, now: &Snapshot<'_>, writes: &Writes) -> Result<()> {
    let RowsRead { table, after, last, seen } = read;
    let last = last.clone().map(DecoratedKey::new);
    let is_others = |cell: &Cell| writes.get(table, cell).is_none();
    let mut again = Vec::new();
    let mut from = after.clone();
    // As many rows as were read and the one after them, so that a short read is not validated by a
    // long one.
    let rows = seen.chunk_by(|(a, _), (b, _)| a.row == b.row).count();
    let page_size = (rows + 1).clamp(16, PAGE);
    loop {
        let page = now.rows(table, from.as_deref(), page_size)?;
        let is_last = page.len() < page_size;
        from = page.last().map(|(row, _)| row.clone());
        let within = page
            .iter()
            .take_while(|(row, _)| last.as_ref().is_none_or(|last| DecoratedKey::new(row.clone()) <= *last));
        let count = within.count();
        again.extend(cells_of(&page[..count]));
        if is_last || count < page.len() {
            break;
        }
    }
    again.retain(|(cell, _)| is_others(cell));
    if again.iter().eq(seen.iter().filter(|(cell, _)| is_others(cell))) {
        Ok(())
    } else {
        Err(conflict(table, "a range of rows".to_owned()))
    }
}
