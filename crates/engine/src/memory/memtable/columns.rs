//! Rows without dropped columns.

use cassette_rows::{Row, RowBuilder, TableMetadata};

/// Returns the row as `table` defines it: without cells of columns that it lacks, and without those
/// written to a column before it was dropped and added again; `None` if nothing is left. Memtables
/// contain such cells if a column is dropped during writes to it, or was written with future
/// timestamps.
#[inline]
pub(super) fn visible(row: Row, table: &TableMetadata) -> Option<Row> {
    if table.dropped_columns.is_empty() { Some(row) } else { without_dropped(row, table) }
}

fn without_dropped(row: Row, table: &TableMetadata) -> Option<Row> {
    let stays = |column, timestamp| table.has_cells_of(column, timestamp);
    if row.cells().all(|cell| stays(cell.column, cell.timestamp))
        && row.complex_deletions().iter().all(|(column, deletion)| stays(*column, deletion.timestamp))
    {
        return Some(row);
    }
    let mut out = RowBuilder::with_capacity(row.clustering().clone(), row.cell_count(), row.data_size());
    out.liveness(row.liveness()).deletion(row.deletion());
    for (column, deletion) in row.complex_deletions() {
        if stays(*column, deletion.timestamp) {
            out.complex_deletion(*column, *deletion);
        }
    }
    for cell in row.cells().filter(|cell| stays(cell.column, cell.timestamp)) {
        out.cell(cell);
    }
    Some(out.finish()).filter(|row| !row.is_empty())
}
