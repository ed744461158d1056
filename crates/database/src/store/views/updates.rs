//! From a base row before and after a write to the changes of its entry in a view.
//!
//! The rules are Cassandra's (`ViewUpdateGenerator`). A row has at most one entry. If the view's
//! key has a column that the base table's key lacks, the row's cell in it decides: without it there
//! is no entry, and another value means another entry. The entry then exists exactly as long as
//! that cell: its liveness has the cell's timestamp, and only the liveness makes it exist (strict
//! liveness). Otherwise it exists as long as the row.
//!
//! An entry is deleted by an expired liveness with the timestamp of what made it exist, and not by
//! a row deletion: if the same value is written again, its cells, which may be older, become
//! visible again.

use cassette_rows::deletion::EXPIRED_TTL;
use cassette_rows::{
    Cell, Clustering, ColumnKind, ColumnMetadata, DecoratedKey, DeletionTime, LivenessInfo, PartitionUpdate,
    Row, RowBuilder, key,
};

use crate::schema::views::View;

/// A row before and after a write.
pub(crate) struct Change<'a> {
    pub view: &'a View,
    /// The values of the partition key.
    pub key: &'a [&'a [u8]],
    /// The row before; `None` if it did not exist.
    pub before: Option<&'a Row>,
    /// The row after the write, with its deletion.
    pub after: &'a Row,
    /// Whether the WHERE held before, and holds after.
    pub shown_before: bool,
    pub shown_after: bool,
    /// Seconds since 1970.
    pub now: u32,
}

impl Change<'_> {
    /// Returns the changes of entries: none, one, or a deleted and a new one.
    pub fn entries(&self) -> Vec<PartitionUpdate> {
        let mut out = Vec::new();
        let live = |row: Option<&Row>| row.is_some_and(|row| self.has_entry(row));
        match (live(self.before), live(Some(self.after))) {
            (false, false) => {}
            (false, true) => self.create(&mut out),
            (true, false) => self.delete(&mut out),
            (true, true) if self.has_moved() => {
                self.create(&mut out);
                self.delete(&mut out);
            }
            (true, true) => match (self.shown_before, self.shown_after) {
                (false, _) => self.create(&mut out),
                (true, false) => self.delete(&mut out),
                (true, true) => {
                    let liveness = self.liveness(self.after);
                    out.extend(self.entry(self.after, liveness, Cells::Changed));
                }
            },
        }
        out
    }

    /// Whether a row has an entry, apart from the WHERE.
    fn has_entry(&self, row: &Row) -> bool {
        match &self.view.extra_key {
            Some(column) => row.cell(column.id).is_some_and(|cell| cell.is_live(self.now)),
            None => row.is_live(self.now),
        }
    }

    fn has_moved(&self) -> bool {
        let Some(column) = &self.view.extra_key else { return false };
        let value = |row: Option<&Row>| row?.cell(column.id).map(|cell| cell.value.to_vec());
        match (value(self.before), value(Some(self.after))) {
            (Some(before), Some(after)) => column.data_type.compare(&before, &after).is_ne(),
            _ => true,
        }
    }

    fn create(&self, out: &mut Vec<PartitionUpdate>) {
        if self.shown_after {
            out.extend(self.entry(self.after, self.liveness(self.after), Cells::All));
        }
    }

    fn delete(&self, out: &mut Vec<PartitionUpdate>) {
        let Some(before) = self.before.filter(|_| self.shown_before) else { return };
        let deletion = self.after.deletion();
        let timestamp = self.deletion_timestamp(before, deletion);
        // A row without liveness and without deletion ends when its cells do: there is no timestamp
        // to delete it at.
        let of_deletion = if deletion.is_live() { i64::MIN } else { deletion.timestamp };
        let liveness = if timestamp > of_deletion {
            LivenessInfo::expiring(timestamp, EXPIRED_TTL, self.now)
        } else {
            LivenessInfo::EMPTY
        };
        out.extend(self.entry(before, liveness, Cells::Changed));
    }

    /// Returns the timestamp of what made the entry exist, which its deletion uses.
    fn deletion_timestamp(&self, before: &Row, deletion: DeletionTime) -> i64 {
        let of_deletion = if deletion.is_live() { i64::MIN } else { deletion.timestamp };
        if let Some(column) = &self.view.extra_key {
            let Some(cell) = before.cell(column.id) else { return of_deletion };
            return if deletion.deletes(cell.timestamp) { deletion.timestamp } else { cell.timestamp };
        }
        let of_liveness = if before.liveness().is_empty() { i64::MIN } else { before.liveness().timestamp };
        // Columns that are not shown may have made the row exist, whether or not they still do.
        let hidden = before.cells().filter(|cell| !self.view.selects(cell.column)).map(|cell| cell.timestamp);
        hidden.fold(of_deletion.max(of_liveness), i64::max)
    }

    /// Returns the liveness that makes the entry exist as long as its row, or the cell of its key,
    /// does.
    fn liveness(&self, row: &Row) -> LivenessInfo {
        let of_cell = |cell: &Cell<'_>, timestamp: i64| {
            if cell.is_expiring() {
                LivenessInfo::expiring(timestamp, cell.ttl, cell.local_deletion_time)
            } else {
                LivenessInfo::new(timestamp)
            }
        };
        if let Some(column) = &self.view.extra_key {
            return match row.cell(column.id) {
                Some(cell) => of_cell(&cell, cell.timestamp),
                None => LivenessInfo::EMPTY,
            };
        }
        let own = row.liveness();
        if self.view.include_all {
            return own;
        }
        // Columns that are not shown make the row exist, too.
        let hidden = row.cells().filter(|cell| !self.view.selects(cell.column) && cell.is_live(self.now));
        let hidden: Vec<Cell<'_>> = hidden.collect();
        let timestamp = hidden.iter().map(|cell| cell.timestamp).fold(own.timestamp, i64::max);
        if own.is_live(self.now) && !own.is_expiring() || hidden.iter().any(|cell| !cell.is_expiring()) {
            return LivenessInfo::new(timestamp);
        }
        match hidden.iter().max_by_key(|cell| cell.local_deletion_time) {
            Some(last) if !own.is_live(self.now) || last.local_deletion_time > own.local_expiration => {
                of_cell(last, timestamp)
            }
            _ => own,
        }
    }

    /// Returns the change of the entry with the key of `of`.
    fn entry(&self, of: &Row, liveness: LivenessInfo, cells: Cells) -> Option<PartitionUpdate> {
        let (key, clustering) = self.entry_key(of)?;
        let after = self.after;
        let mut row = RowBuilder::with_capacity(clustering, after.cell_count(), after.data_size());
        row.liveness(liveness).deletion(after.deletion());
        let before = self.before.filter(|_| cells == Cells::Changed);
        let mut deletions: Vec<_> = after
            .complex_deletions()
            .iter()
            .filter(|(column, deletion)| {
                before.is_none_or(|before| deletion.supersedes(&before.complex_deletion(*column)))
            })
            .filter_map(|(column, deletion)| Some((self.view.column_of(*column)?, *deletion)))
            .collect();
        deletions.sort_by_key(|(column, _)| *column);
        for (column, deletion) in deletions {
            row.complex_deletion(column, deletion);
        }
        for cell in after.cells() {
            let is_new = before.is_none_or(|before| !has_cell(before, &cell));
            if let Some(column) = self.view.column_of(cell.column).filter(|_| is_new) {
                row.cell(Cell { column, ..cell });
            }
        }
        row.sort_columns();
        if row.is_empty() {
            return None;
        }
        let mut update = PartitionUpdate::new(key);
        update.rows.push(row.finish());
        Some(update)
    }

    fn entry_key(&self, row: &Row) -> Option<(DecoratedKey, Clustering)> {
        let value = |column: &ColumnMetadata| -> Option<Vec<u8>> {
            let of_base = self.view.base.column(&column.name)?;
            match of_base.kind {
                ColumnKind::PartitionKey => self.key.get(of_base.position).map(|value| value.to_vec()),
                ColumnKind::Clustering => row.clustering().value(of_base.position).map(<[u8]>::to_vec),
                ColumnKind::Static | ColumnKind::Regular => {
                    row.cell(of_base.id).map(|cell| cell.value.to_vec())
                }
            }
        };
        let table = &self.view.table;
        let components =
            table.partition_key.iter().map(|column| value(column)).collect::<Option<Vec<_>>>()?;
        let clustering = table.clustering.iter().map(|column| value(column)).collect::<Option<Vec<_>>>()?;
        let key = key::compose(components.iter().map(Vec::as_slice))?;
        Some((DecoratedKey::new(key), Clustering::new(clustering.iter().map(|value| Some(&value[..])))))
    }
}

/// The cells of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cells {
    All,
    /// Cells that the entry lacks.
    Changed,
}

/// Whether a row has exactly this cell.
fn has_cell(row: &Row, cell: &Cell<'_>) -> bool {
    row.cells_of(cell.column).any(|other| other == *cell)
}
