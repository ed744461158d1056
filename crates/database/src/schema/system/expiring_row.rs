//! Rows of system tables that expire.

use cassette_rows::row::Cell;
use cassette_rows::{Clustering, LivenessInfo, Row, RowBuilder, TableMetadata};

use super::encode::{Value, seconds};

/// A row whose cells have one TTL.
pub(crate) struct ExpiringRow<'t> {
    table: &'t TableMetadata,
    clustering: Clustering,
    timestamp: i64,
    ttl: u32,
    cells: Vec<NamedCell>,
}

/// Column name, path and value.
type NamedCell = (&'static str, Option<Vec<u8>>, Vec<u8>);

impl<'t> ExpiringRow<'t> {
    /// Returns a row written at `timestamp` (microseconds) with a TTL of `ttl` seconds.
    pub fn new(table: &'t TableMetadata, clustering: Clustering, timestamp: i64, ttl: u32) -> Self {
        Self { table, clustering, timestamp, ttl, cells: Vec::new() }
    }

    /// Sets the value of a column.
    pub fn put(&mut self, column: &'static str, value: Value) {
        if let Value::Bytes(bytes) = value {
            self.cells.push((column, None, bytes));
        }
    }

    /// Sets the entries of a map column, in the order of its keys.
    pub fn put_map(&mut self, column: &'static str, entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
        self.cells.extend(entries.into_iter().map(|(key, value)| (column, Some(key), value)));
    }

    /// Returns the row; columns that the table lacks are omitted.
    pub fn finish(mut self) -> Row {
        let expiration = seconds(self.timestamp).saturating_add(self.ttl);
        let mut row = RowBuilder::new(self.clustering);
        row.liveness(LivenessInfo::expiring(self.timestamp, self.ttl, expiration));
        // A stable sort keeps map entries in the order of their keys.
        self.cells.sort_by_key(|(column, ..)| self.table.column(column).map(|column| column.id));
        for (column, path, value) in &self.cells {
            let Some(column) = self.table.column(column) else { continue };
            row.cell(Cell {
                column: column.id,
                path: path.as_deref(),
                value,
                timestamp: self.timestamp,
                ttl: self.ttl,
                local_deletion_time: expiration,
            });
        }
        row.finish()
    }
}
