//! Merging the versions of one row.

use std::cmp::Ordering;

use crate::deletion::{DeletionTime, LivenessInfo, NO_DELETION_TIME};
use crate::row::{Cell, Row, RowBuilder};
use crate::schema::{ColumnId, TableMetadata};
use crate::types::DataType;

use super::counter;

/// Compares two versions of a cell: `Greater` if `a` wins, `Less` if `b` wins, `Equal` if they are
/// the same.
///
/// The later timestamp wins. On a tie: deleted and expiring cells over others; a tombstone over an
/// expiring cell; the later local deletion time; the lower TTL; the greater value by unsigned
/// bytes.
pub fn reconcile(a: &Cell<'_>, b: &Cell<'_>) -> Ordering {
    let ends = |c: &Cell<'_>| c.local_deletion_time != NO_DELETION_TIME;
    a.timestamp
        .cmp(&b.timestamp)
        .then_with(|| ends(a).cmp(&ends(b)))
        .then_with(|| a.is_tombstone().cmp(&b.is_tombstone()))
        .then_with(|| a.local_deletion_time.cmp(&b.local_deletion_time))
        .then_with(|| b.ttl.cmp(&a.ttl))
        .then_with(|| a.value.cmp(b.value))
}

/// Merges versions of one row, without what they or `active` (the partition's and range deletions
/// that cover the row) delete. `None` if nothing is left. The deletions of the rows themselves stay
/// unless `active` covers them.
///
/// All rows must have the same clustering, by the table's comparator; the bytes of the first one
/// stay. The result is `None` without rows.
pub fn merge_rows(rows: &[Row], active: DeletionTime, table: &TableMetadata) -> Option<Row> {
    let first = rows.first()?;
    if rows.len() == 1 && !is_touched_by(first, active) {
        return Some(first.clone());
    }
    if let [a, b] = rows
        && let Some(only) = survivor(a, b, active, table)
    {
        return Some(only.clone());
    }
    merge_parts(rows, active, table)
}

/// [`merge_rows`] that creates a new row.
fn merge_parts(rows: &[Row], active: DeletionTime, table: &TableMetadata) -> Option<Row> {
    let first = rows.first()?;
    let mut deletion = rows.iter().map(Row::deletion).fold(DeletionTime::LIVE, DeletionTime::max);
    if !deletion.supersedes(&active) {
        deletion = DeletionTime::LIVE;
    }
    let active = active.max(deletion);
    let liveness = rows
        .iter()
        .map(Row::liveness)
        .filter(|l| !l.is_empty() && !active.deletes(l.timestamp))
        .fold(LivenessInfo::EMPTY, |a, b| if b.supersedes(&a) { b } else { a });

    if !table.is_counter
        && let Some(cells) = merge_simple_cells(rows)
    {
        let is_left = |cell: &&Cell<'_>| !active.deletes(cell.timestamp);
        let bytes = cells.iter().filter(is_left).map(|cell| cell.value.len()).sum();
        let mut out = RowBuilder::with_capacity(first.clustering().clone(), cells.len(), bytes);
        out.liveness(liveness).deletion(deletion);
        cells.iter().filter(is_left).for_each(|cell| {
            out.cell(*cell);
        });
        return (!out.is_empty()).then(|| out.finish());
    }

    let (cells, bytes) = rows
        .iter()
        .fold((0, 0), |(cells, bytes), row| (cells.max(row.cell_count()), bytes.max(row.data_size())));
    let mut out = RowBuilder::with_capacity(first.clustering().clone(), cells, bytes);
    out.liveness(liveness).deletion(deletion);
    let mut cursors: Vec<Cursor<'_>> = rows.iter().map(|row| Cursor { row, next: 0 }).collect();
    let mut complex = ComplexDeletions { rows, seen: vec![0; rows.len()] };

    while let Some(column) = next_column(&cursors, &complex) {
        let data_type = table.column_by_id(column).map(|c| &c.data_type);
        let column_deletion = complex.take(column);
        let shadow = if column_deletion.supersedes(&active) {
            out.complex_deletion(column, column_deletion);
            column_deletion
        } else {
            active
        };
        merge_cells(&mut cursors, column, data_type, shadow, &mut out);
    }
    (!out.is_empty()).then(|| out.finish())
}

/// Returns the winning cells of rows with simple columns only, which most rows are; `None` if one
/// has others.
///
/// Merges row by row: both the winners so far and the next row's cells ascend by column.
fn merge_simple_cells(rows: &[Row]) -> Option<Vec<Cell<'_>>> {
    let has_others = |row: &Row| !row.complex_deletions().is_empty() || row.cells().any(|c| c.path.is_some());
    if rows.iter().any(has_others) {
        return None;
    }
    let (first, rest) = rows.split_first()?;
    let mut merged: Vec<Cell<'_>> = first.cells().collect();
    for row in rest {
        let mut won = merged.into_iter().peekable();
        merged = Vec::with_capacity(won.len() + row.cell_count());
        for cell in row.cells() {
            while let Some(before) = won.next_if(|other| other.column < cell.column) {
                merged.push(before);
            }
            match won.next_if(|other| other.column == cell.column) {
                Some(other) if reconcile(&cell, &other).is_le() => merged.push(other),
                _ => merged.push(cell),
            }
        }
        merged.extend(won);
    }
    Some(merged)
}

/// Returns the version that is the result of the merge, if that is cheap to determine: an overwrite
/// of all cells, or a deletion of the row. It can then be shared instead of copied.
fn survivor<'a>(a: &'a Row, b: &'a Row, active: DeletionTime, table: &TableMetadata) -> Option<&'a Row> {
    // Counters are added, and the elements of complex columns are ordered by their type.
    if table.is_counter || !a.complex_deletions().is_empty() || !b.complex_deletions().is_empty() {
        return None;
    }
    // Equal values can have different bytes, such as the decimals 1.0 and 1.00; the first stay.
    if a.clustering() != b.clustering() {
        return None;
    }
    // Usually one statement wrote the whole row, so one timestamp determines which is later.
    let timestamp = |row: &Row| {
        let cell = row.cell_at(0).map_or(row.liveness().timestamp, |cell| cell.timestamp);
        cell.max(row.deletion().timestamp)
    };
    let (later, earlier) = if timestamp(a) > timestamp(b) { (a, b) } else { (b, a) };
    (covers(later, earlier, active) && !is_touched_by(later, active)).then_some(later)
}

/// Returns whether nothing of `earlier` is left beside `later`, and `later` is not empty. Neither
/// has complex deletions. May be false for rows with elements of complex columns.
fn covers(later: &Row, earlier: &Row, active: DeletionTime) -> bool {
    if later.is_empty() || earlier.deletion().supersedes(&later.deletion()) {
        return false;
    }
    let shadow = active.max(later.deletion());
    let (liveness, by) = (earlier.liveness(), later.liveness());
    let has_no_liveness = liveness.is_empty() || shadow.deletes(liveness.timestamp);
    if !has_no_liveness && liveness != by && !by.supersedes(&liveness) {
        return false;
    }
    let mut winners = later.cells();
    earlier.cells().filter(|cell| !shadow.deletes(cell.timestamp)).all(|cell| {
        let winner = winners.find(|winner| winner.column >= cell.column);
        winner.is_some_and(|winner| {
            winner.column == cell.column
                && winner.path.is_none()
                && cell.path.is_none()
                && reconcile(&winner, &cell).is_ge()
        })
    })
}

/// Returns whether `active` or the row's deletions remove anything of `row`.
fn is_touched_by(row: &Row, active: DeletionTime) -> bool {
    if active.is_live() && row.deletion().is_live() && row.complex_deletions().is_empty() {
        return false;
    }
    let shadow = active.max(row.deletion());
    shadow.deletes(row.liveness().timestamp) && !row.liveness().is_empty()
        || !row.deletion().is_live() && !row.deletion().supersedes(&active)
        || row.complex_deletions().iter().any(|(_, d)| !d.supersedes(&shadow))
        || row.cells().any(|c| shadow.max(row.complex_deletion(c.column)).deletes(c.timestamp))
}

struct Cursor<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Cursor<'a> {
    fn cell(&self) -> Option<Cell<'a>> {
        self.row.cell_at(self.next)
    }
}

struct ComplexDeletions<'a> {
    rows: &'a [Row],
    seen: Vec<usize>,
}

impl ComplexDeletions<'_> {
    fn next_column(&self) -> Option<ColumnId> {
        let next =
            |(row, seen): (&Row, &usize)| row.complex_deletions().get(*seen).map(|(column, _)| *column);
        self.rows.iter().zip(&self.seen).filter_map(next).min()
    }

    /// Returns the greatest deletion of `column` and advances past it.
    fn take(&mut self, column: ColumnId) -> DeletionTime {
        let mut greatest = DeletionTime::LIVE;
        for (row, seen) in self.rows.iter().zip(&mut self.seen) {
            if let Some((c, deletion)) = row.complex_deletions().get(*seen)
                && *c == column
            {
                *seen += 1;
                greatest = greatest.max(*deletion);
            }
        }
        greatest
    }
}

fn next_column(cursors: &[Cursor<'_>], complex: &ComplexDeletions<'_>) -> Option<ColumnId> {
    let cells = cursors.iter().filter_map(|cursor| cursor.cell().map(|cell| cell.column)).min();
    match (cells, complex.next_column()) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Writes the winning cells of `column` among the cursors that `shadow` does not delete.
fn merge_cells(
    cursors: &mut [Cursor<'_>],
    column: ColumnId,
    data_type: Option<&DataType>,
    shadow: DeletionTime,
    out: &mut RowBuilder,
) {
    let path_type = data_type.and_then(DataType::path_type);
    let compare_paths = |a: Option<&[u8]>, b: Option<&[u8]>| match (a, b, path_type) {
        (Some(a), Some(b), Some(path_type)) => path_type.compare(a, b),
        (a, b, _) => a.cmp(&b),
    };
    let is_counter = data_type == Some(&DataType::Counter);
    loop {
        // The least path that is next in any cursor, with the winner among its versions so far.
        let mut winner: Option<Cell<'_>> = None;
        let mut counter: Option<Vec<u8>> = None;
        for cursor in cursors.iter() {
            let Some(cell) = cursor.cell().filter(|c| c.column == column) else { continue };
            let Some(best) = winner else {
                winner = Some(cell);
                continue;
            };
            match compare_paths(cell.path, best.path) {
                Ordering::Less => (winner, counter) = (Some(cell), None),
                Ordering::Greater => {}
                Ordering::Equal if is_counter => {
                    let current = counter.take();
                    let merged = merge_counters(&best, current.as_deref(), &cell);
                    (winner, counter) = (Some(merged.0), merged.1);
                }
                Ordering::Equal => {
                    if reconcile(&cell, &best).is_gt() {
                        winner = Some(cell);
                    }
                }
            }
        }
        let Some(mut cell) = winner else { return };
        for cursor in cursors.iter_mut() {
            if let Some(c) = cursor.cell()
                && c.column == column
                && compare_paths(c.path, cell.path).is_eq()
            {
                cursor.next += 1;
            }
        }
        if !shadow.deletes(cell.timestamp) {
            if let Some(context) = &counter {
                cell.value = context;
            }
            out.cell(cell);
        }
    }
}

/// Merges two versions of a counter cell: a tombstone wins over any counter regardless of
/// timestamps, the later tombstone over the other; two counters merge their contexts and keep the
/// later timestamp. `a_context`, if present, replaces `a`'s value.
fn merge_counters<'a>(a: &Cell<'a>, a_context: Option<&[u8]>, b: &Cell<'a>) -> (Cell<'a>, Option<Vec<u8>>) {
    match (a.is_tombstone(), b.is_tombstone()) {
        (true, true) => (if reconcile(a, b).is_ge() { *a } else { *b }, None),
        (true, false) => (*a, None),
        (false, true) => (*b, None),
        (false, false) => {
            let merged = counter::merge(a_context.unwrap_or(a.value), b.value);
            (Cell { timestamp: a.timestamp.max(b.timestamp), ..*a }, Some(merged))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{clustering, int, maybe_deletion, row, table};
    use super::*;
    use crate::deletion::NO_TTL;

    /// Returns the same row at another clustering.
    fn at_one_clustering(row: &Row) -> Row {
        let mut out = RowBuilder::new(clustering(0, 0));
        out.liveness(row.liveness()).deletion(row.deletion());
        row.complex_deletions().iter().for_each(|(column, deletion)| {
            out.complex_deletion(*column, *deletion);
        });
        row.cells().for_each(|cell| {
            out.cell(cell);
        });
        out.finish()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn a_row_that_survives_alone_is_what_a_new_row_would_be(
            a in row(table(), false),
            b in row(table(), false),
            active in maybe_deletion(),
        ) {
            let versions = [at_one_clustering(&a), at_one_clustering(&b)];
            let merged = merge_parts(&versions, active, &table());
            if let Some(only) = survivor(&versions[0], &versions[1], active, &table()) {
                prop_assert_eq!(Some(only), merged.as_ref());
            }
        }
    }

    fn version(timestamp: i64, columns: &[u16]) -> RowBuilder {
        let mut row = RowBuilder::new(clustering(0, 0));
        row.liveness(LivenessInfo::new(timestamp));
        for column in columns {
            row.cell(Cell {
                column: ColumnId(*column),
                path: None,
                value: &int(7),
                timestamp,
                ttl: NO_TTL,
                local_deletion_time: NO_DELETION_TIME,
            });
        }
        row
    }

    #[test]
    fn the_bytes_of_the_first_clustering_stay() {
        let cell = Cell {
            column: ColumnId(1),
            path: None,
            value: &int(7),
            timestamp: 2,
            ttl: NO_TTL,
            local_deletion_time: NO_DELETION_TIME,
        };
        let mut overwrite = RowBuilder::new(clustering(0, 1));
        overwrite.liveness(LivenessInfo::new(2)).cell(cell);
        let versions = [version(1, &[1]).finish(), overwrite.finish()];
        let merged = merge_rows(&versions, DeletionTime::LIVE, &table()).unwrap();
        assert_eq!(merged.clustering(), versions[0].clustering());
    }

    #[test]
    fn an_overwrite_of_all_cells_and_a_deletion_are_shared_and_an_update_is_not() {
        let old = version(1, &[1, 3]).finish();
        let overwrite = version(2, &[1, 2, 3]).finish();
        let mut deletion = RowBuilder::new(clustering(0, 0));
        deletion.deletion(DeletionTime::new(2, 0));
        for (new, shared) in
            [(overwrite, true), (deletion.finish(), true), (version(2, &[1, 2]).finish(), false)]
        {
            for versions in [[old.clone(), new.clone()], [new.clone(), old.clone()]] {
                let merged = merge_rows(&versions, DeletionTime::LIVE, &table()).unwrap();
                assert_eq!(merged.shares(&new), shared, "{new:?}");
            }
        }
    }
}
