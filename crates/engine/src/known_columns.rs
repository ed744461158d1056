//! A stream without the columns that its table has no more.

use std::sync::Arc;

use cassette_rows::{PartitionHeader, PartitionStream, Result, Row, RowBuilder, TableMetadata, Unfiltered};

/// Passes over cells of columns that were dropped since they were written: there is no name to write them under.
pub(crate) struct KnownColumns<S> {
    inner: S,
    table: Arc<TableMetadata>,
    has_dropped: bool,
}

impl<S: PartitionStream> KnownColumns<S> {
    pub fn new(inner: S, table: Arc<TableMetadata>) -> Self {
        let has_dropped = table.columns.iter().any(Option::is_none);
        Self { inner, table, has_dropped }
    }
}

impl<S: PartitionStream> PartitionStream for KnownColumns<S> {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        let Some(header) = self.inner.next_partition()? else { return Ok(None) };
        if !self.has_dropped {
            return Ok(Some(header));
        }
        let static_row = header.static_row.map(|row| known_cells(row, &self.table));
        Ok(Some(PartitionHeader { static_row, ..header }))
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        match self.inner.next_unfiltered()? {
            Some(Unfiltered::Row(row)) if self.has_dropped => {
                Ok(Some(Unfiltered::Row(known_cells(row, &self.table))))
            }
            other => Ok(other),
        }
    }
}

/// The row without cells of columns that the table has no more; maybe empty.
fn known_cells(row: Row, table: &TableMetadata) -> Row {
    let is_known = |column| table.column_by_id(column).is_some();
    if row.cells().all(|cell| is_known(cell.column))
        && row.complex_deletions().iter().all(|(column, _)| is_known(*column))
    {
        return row;
    }
    let mut out = RowBuilder::with_capacity(row.clustering().clone(), row.cell_count(), row.data_size());
    out.liveness(row.liveness()).deletion(row.deletion());
    for (column, deletion) in row.complex_deletions().iter().filter(|(column, _)| is_known(*column)) {
        out.complex_deletion(*column, *deletion);
    }
    for cell in row.cells().filter(|cell| is_known(cell.column)) {
        out.cell(cell);
    }
    out.finish()
}
