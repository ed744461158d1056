//! The current row: its partition's key and static row, and the row itself.

use std::borrow::Cow;

use cassette_rows::{Cell, Clustering, ColumnKind, ColumnMetadata, DecoratedKey, PartitionHeader, Row};

use crate::basics::columns::value_of;

/// A row to which selectors are applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CurrentRow<'r> {
    pub partition: &'r CurrentPartition,
    /// `None` if the partition has only a static row.
    pub row: Option<&'r Row>,
}

/// A copy of a [`CurrentRow`] that outlives the reading of its partition.
#[derive(Debug, Clone)]
pub(crate) struct KeptRow {
    partition: CurrentPartition,
    row: Option<Row>,
}

/// The data shared by all rows of a partition.
#[derive(Debug, Clone)]
pub(crate) struct CurrentPartition {
    pub key: DecoratedKey,
    /// Whether the key is a composite.
    is_composite: bool,
    pub static_row: Option<Row>,
}

impl CurrentPartition {
    /// Returns the partition of a table whose partition key has `key_columns` columns.
    pub fn new(header: PartitionHeader, key_columns: usize) -> Self {
        Self { key: header.key, is_composite: key_columns > 1, static_row: header.static_row }
    }

    /// Returns a component of the partition key.
    pub fn key_component(&self, position: usize) -> Option<&[u8]> {
        let mut rest = self.key.key();
        if !self.is_composite {
            return Some(rest);
        }
        let mut left = position;
        loop {
            // Each component is preceded by its length of two bytes, and followed by a zero byte.
            let (length, after) = rest.split_first_chunk::<2>()?;
            let (component, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
            if left == 0 {
                return Some(component);
            }
            left -= 1;
            rest = after.get(1..)?;
        }
    }
}

impl<'r> CurrentRow<'r> {
    /// Returns the clustering; `None` if the partition has only a static row.
    pub fn clustering(&self) -> Option<&'r Clustering> {
        self.row.map(Row::clustering)
    }

    /// Returns the value of a column at `now` (seconds); `None` if it has none.
    pub fn value(&self, column: &ColumnMetadata, now: u32) -> Option<Cow<'r, [u8]>> {
        match column.kind {
            ColumnKind::PartitionKey => self.partition.key_component(column.position).map(Cow::Borrowed),
            ColumnKind::Clustering => self.row?.clustering().value(column.position).map(Cow::Borrowed),
            ColumnKind::Static | ColumnKind::Regular => value_of(self.stored(column)?, column, now),
        }
    }

    /// Returns the live cells of a static or regular column at `now` (seconds), in their order.
    pub fn cells(&self, column: &ColumnMetadata, now: u32) -> impl Iterator<Item = Cell<'r>> + use<'r> {
        let id = column.id;
        let cells = self.stored(column).into_iter().flat_map(move |row| row.cells_of(id));
        cells.filter(move |cell| cell.is_live(now))
    }

    /// Returns the cell of a static or regular column that has one, if it is live at `now`.
    pub fn cell(&self, column: &ColumnMetadata, now: u32) -> Option<Cell<'r>> {
        self.stored(column)?.cells_of(column.id).next().filter(|cell| cell.is_live(now))
    }

    /// Returns the row that contains a static or regular column.
    fn stored(&self, column: &ColumnMetadata) -> Option<&'r Row> {
        match column.kind {
            ColumnKind::Static => self.partition.static_row.as_ref(),
            _ => self.row,
        }
    }

    /// Returns a copy of the row that can be kept.
    pub fn keep(&self) -> KeptRow {
        KeptRow { partition: self.partition.clone(), row: self.row.cloned() }
    }
}

impl KeptRow {
    pub fn get(&self) -> CurrentRow<'_> {
        CurrentRow { partition: &self.partition, row: self.row.as_ref() }
    }
}
