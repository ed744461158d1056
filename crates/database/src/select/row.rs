//! The row at hand: its partition's key and static row, and itself.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use cassette_rows::{
    Clustering, ColumnKind, ColumnMetadata, DecoratedKey, PartitionHeader, Row, TableMetadata,
};

use crate::columns::value_of;

/// A row of a result before anything is selected from it. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct CurrentRow {
    pub partition: Arc<CurrentPartition>,
    /// `None` when only the static row is there.
    pub row: Option<Row>,
}

/// What all rows of a partition share.
#[derive(Debug)]
pub(super) struct CurrentPartition {
    pub key: DecoratedKey,
    /// Where the key's components are; empty when there is just one.
    components: Vec<Range<usize>>,
    pub static_row: Option<Row>,
}

impl CurrentPartition {
    pub fn new(header: PartitionHeader, table: &TableMetadata) -> Self {
        let mut components = Vec::new();
        if table.partition_key.len() > 1 {
            let mut at = 0;
            for component in cassette_rows::key::components(header.key.key(), table.partition_key.len())
                .unwrap_or_default()
            {
                // Two bytes of length before each, a byte of zero after.
                components.push(at + 2..at + 2 + component.len());
                at += component.len() + 3;
            }
        }
        Self { key: header.key, components, static_row: header.static_row }
    }

    /// A component of the partition key.
    pub fn key_component(&self, position: usize) -> Option<&[u8]> {
        if self.components.is_empty() {
            return Some(self.key.key());
        }
        self.key.key().get(self.components.get(position)?.clone())
    }
}

impl CurrentRow {
    /// The clustering; empty when only the static row is there.
    pub fn clustering(&self) -> &Clustering {
        static EMPTY: std::sync::OnceLock<Clustering> = std::sync::OnceLock::new();
        match &self.row {
            Some(row) => row.clustering(),
            None => EMPTY.get_or_init(Clustering::empty),
        }
    }

    /// The value of a column at `now` (seconds); `None` if it has none.
    pub fn value(&self, column: &ColumnMetadata, now: u32) -> Option<Cow<'_, [u8]>> {
        match column.kind {
            ColumnKind::PartitionKey => self.partition.key_component(column.position).map(Cow::Borrowed),
            ColumnKind::Clustering => {
                self.row.as_ref()?.clustering().value(column.position).map(Cow::Borrowed)
            }
            ColumnKind::Static => value_of(self.partition.static_row.as_ref()?, column, now),
            ColumnKind::Regular => value_of(self.row.as_ref()?, column, now),
        }
    }
}
