//! The row at hand: its partition's key and static row, and itself.

use std::borrow::Cow;

use cassette_rows::{Cell, Clustering, ColumnKind, ColumnMetadata, DecoratedKey, PartitionHeader, Row};

use crate::basics::columns::value_of;

/// A row of a result before anything is selected from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CurrentRow<'r> {
    pub partition: &'r CurrentPartition,
    /// `None` when only the static row is there.
    pub row: Option<&'r Row>,
}

/// A [`CurrentRow`] that outlives the reading of its partition.
#[derive(Debug, Clone)]
pub(crate) struct KeptRow {
    partition: CurrentPartition,
    row: Option<Row>,
}

/// What all rows of a partition share.
#[derive(Debug, Clone)]
pub(crate) struct CurrentPartition {
    pub key: DecoratedKey,
    /// Whether the key is a composite.
    is_composite: bool,
    pub static_row: Option<Row>,
}

impl CurrentPartition {
    /// Of a table whose partition key has `key_columns` columns.
    pub fn new(header: PartitionHeader, key_columns: usize) -> Self {
        Self { key: header.key, is_composite: key_columns > 1, static_row: header.static_row }
    }

    /// A component of the partition key.
    pub fn key_component(&self, position: usize) -> Option<&[u8]> {
        let mut rest = self.key.key();
        if !self.is_composite {
            return Some(rest);
        }
        let mut left = position;
        loop {
            // Two bytes of length before each component, a byte of zero after it.
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
    /// The clustering; `None` when only the static row is there.
    pub fn clustering(&self) -> Option<&'r Clustering> {
        self.row.map(Row::clustering)
    }

    /// The value of a column at `now` (seconds); `None` if it has none.
    pub fn value(&self, column: &ColumnMetadata, now: u32) -> Option<Cow<'r, [u8]>> {
        match column.kind {
            ColumnKind::PartitionKey => self.partition.key_component(column.position).map(Cow::Borrowed),
            ColumnKind::Clustering => self.row?.clustering().value(column.position).map(Cow::Borrowed),
            ColumnKind::Static | ColumnKind::Regular => value_of(self.stored(column)?, column, now),
        }
    }

    /// The live cells of a static or regular column at `now` (seconds), in their order.
    pub fn cells(&self, column: &ColumnMetadata, now: u32) -> impl Iterator<Item = Cell<'r>> + use<'r> {
        let id = column.id;
        let cells = self.stored(column).into_iter().flat_map(move |row| row.cells_of(id));
        cells.filter(move |cell| cell.is_live(now))
    }

    /// The row that holds a static or regular column.
    fn stored(&self, column: &ColumnMetadata) -> Option<&'r Row> {
        match column.kind {
            ColumnKind::Static => self.partition.static_row.as_ref(),
            _ => self.row,
        }
    }

    /// The same row, to be kept.
    pub fn keep(&self) -> KeptRow {
        KeptRow { partition: self.partition.clone(), row: self.row.cloned() }
    }
}

impl KeptRow {
    pub fn get(&self) -> CurrentRow<'_> {
        CurrentRow { partition: &self.partition, row: self.row.as_ref() }
    }
}
