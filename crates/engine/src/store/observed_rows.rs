//! Passes rows that are about to be written to the [`PartitionObserver`].

use cassette_rows::{DataType, DecoratedKey, PartitionHeader, Row, TableMetadata, Unfiltered};

use crate::basics::partition_observer::{PartitionObserver, WrittenRow};

/// The observer of a table's rows, and the partition that is being written.
pub(super) struct ObservedRows<'a> {
    /// `None` if the table has no non-frozen collections.
    observer: Option<&'a dyn PartitionObserver>,
    /// The key of the current partition if its rows are reported.
    key: Option<DecoratedKey>,
    now: u32,
}

impl<'a> ObservedRows<'a> {
    pub fn new(observer: Option<&'a dyn PartitionObserver>, table: &TableMetadata, now: u32) -> Self {
        Self { observer: observer.filter(|_| has_multi_cell_collections(table)), key: None, now }
    }

    /// Begins a partition, and reports its static row.
    pub fn begin(&mut self, table: &TableMetadata, header: &PartitionHeader) {
        let is_wanted = self.observer.is_some_and(|observer| observer.wants_rows(table));
        self.key = is_wanted.then(|| header.key.clone());
        header.static_row.iter().for_each(|row| self.pass_on(table, row));
    }

    /// Reports a row of the current partition.
    #[inline]
    pub fn append(&self, table: &TableMetadata, unfiltered: &Unfiltered) {
        if let Unfiltered::Row(row) = unfiltered {
            self.pass_on(table, row);
        }
    }

    #[inline]
    fn pass_on(&self, table: &TableMetadata, row: &Row) {
        if let (Some(observer), Some(key)) = (self.observer, &self.key) {
            observer.row(WrittenRow { table, key, row, now: self.now });
        }
    }
}

/// Returns whether a table has non-frozen collections.
fn has_multi_cell_collections(table: &TableMetadata) -> bool {
    table.columns.iter().flatten().any(|column| {
        let data_type = &column.data_type;
        let is_collection =
            matches!(data_type, DataType::List { .. } | DataType::Set { .. } | DataType::Map { .. });
        is_collection && data_type.is_multi_cell()
    })
}
