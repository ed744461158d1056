//! Updates with the columns of one version of a table as updates of another.

use std::sync::Arc;

use cassette_rows::{Cell, ColumnId, ColumnMetadata, PartitionUpdate, Row, RowBuilder, TableMetadata};

/// The columns of a version of a table in another one, by id.
#[derive(Debug)]
pub(super) struct ColumnMap(Vec<Option<ColumnId>>);

impl ColumnMap {
    /// Returns the map from the columns of `from` to those of `to` with the same names and kinds.
    pub fn new(from: &TableMetadata, to: &TableMetadata) -> Self {
        let same = |column: &Arc<ColumnMetadata>| {
            let is_same = |other: &&Arc<ColumnMetadata>| {
                other.kind == column.kind
                    && other.data_type.is_multi_cell() == column.data_type.is_multi_cell()
            };
            to.column(&column.name).filter(is_same).map(|column| column.id)
        };
        Self(from.columns.iter().map(|column| column.as_ref().and_then(same)).collect())
    }

    fn get(&self, id: ColumnId) -> Option<ColumnId> {
        self.0.get(usize::from(id.0)).copied().flatten()
    }

    /// Returns the update with the ids of the other version.
    pub fn update(&self, update: &PartitionUpdate) -> PartitionUpdate {
        PartitionUpdate {
            key: update.key.clone(),
            deletion: update.deletion,
            static_row: update.static_row.as_ref().map(|row| self.row(row)),
            rows: update.rows.iter().map(|row| self.row(row)).collect(),
            range_tombstones: update.range_tombstones.clone(),
        }
    }

    /// Returns the row with the ids of the other version. Cells of columns that it lacks are left
    /// out.
    pub fn row(&self, row: &Row) -> Row {
        let mut deletions: Vec<_> = row.complex_deletions().to_vec();
        deletions.retain_mut(|(id, _)| self.get(*id).map(|to| *id = to).is_some());
        deletions.sort_by_key(|(id, _)| *id);
        let mut cells: Vec<(ColumnId, Cell<'_>)> =
            row.cells().filter_map(|cell| Some((self.get(cell.column)?, cell))).collect();
        // Stable: the cells of a complex column stay in the order of their paths.
        cells.sort_by_key(|(column, _)| *column);
        let mut out = RowBuilder::with_capacity(row.clustering().clone(), cells.len(), row.data_size());
        out.liveness(row.liveness()).deletion(row.deletion());
        for (column, deletion) in deletions {
            out.complex_deletion(column, deletion);
        }
        for (column, cell) in cells {
            out.cell(Cell { column, ..cell });
        }
        out.finish()
    }
}
