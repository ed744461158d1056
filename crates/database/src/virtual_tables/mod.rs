//! Virtual tables: read-only tables whose rows are computed from memory when they are read.

use std::fmt::Debug;
use std::sync::Arc;

use cassette_engine::KeyRange;
use cassette_rows::{DecoratedKey, PartitionStream, PartitionUpdate, Selection, TableMetadata};

use crate::database::Database;

/// Computes the rows of a virtual table.
pub(crate) trait VirtualTable: Debug + Send + Sync {
    /// All partitions as they are now, in any order.
    fn partitions(&self, table: &Arc<TableMetadata>, database: &Database) -> Vec<PartitionUpdate>;

    /// The partition with this key, if there is one. Tables that can find it without computing all others override it.
    fn partition(
        &self,
        table: &Arc<TableMetadata>,
        database: &Database,
        key: &DecoratedKey,
    ) -> Option<PartitionUpdate> {
        self.partitions(table, database).into_iter().find(|partition| partition.key == *key)
    }
}

/// The partitions of `source` within `range`, in the order of stored ones.
pub(crate) fn scan(
    source: &dyn VirtualTable,
    table: &Arc<TableMetadata>,
    database: &Database,
    range: &KeyRange,
    selection: &Selection,
) -> Box<dyn PartitionStream> {
    let mut partitions = source.partitions(table, database);
    partitions.retain(|partition| contains(range, &partition.key));
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    stream(partitions, table, selection)
}

/// The partition of `source` with this key.
pub(crate) fn read(
    source: &dyn VirtualTable,
    table: &Arc<TableMetadata>,
    database: &Database,
    key: &DecoratedKey,
    selection: &Selection,
) -> Box<dyn PartitionStream> {
    stream(Vec::from_iter(source.partition(table, database, key)), table, selection)
}

fn stream(
    partitions: Vec<PartitionUpdate>,
    table: &Arc<TableMetadata>,
    selection: &Selection,
) -> Box<dyn PartitionStream> {
    let streams =
        partitions.into_iter().map(|partition| partition.into_stream(table.clone(), selection)).collect();
    Box::new(Chain { streams, started: false })
}

fn contains(range: &KeyRange, key: &DecoratedKey) -> bool {
    use cassette_engine::PartitionPosition;
    use std::ops::Bound;
    let order = |position: &PartitionPosition| match position {
        PartitionPosition::Before(token) => key.token().cmp(token).then(std::cmp::Ordering::Greater),
        PartitionPosition::After(token) => key.token().cmp(token).then(std::cmp::Ordering::Less),
        PartitionPosition::At(other) => key.cmp(other),
    };
    let after_start = match &range.start {
        Bound::Unbounded => true,
        Bound::Included(start) => order(start).is_ge(),
        Bound::Excluded(start) => order(start).is_gt(),
    };
    let before_end = match &range.end {
        Bound::Unbounded => true,
        Bound::Included(end) => order(end).is_le(),
        Bound::Excluded(end) => order(end).is_lt(),
    };
    after_start && before_end
}

/// Streams of one partition each, one after the other.
struct Chain {
    streams: std::collections::VecDeque<cassette_rows::partition::UpdateStream>,
    started: bool,
}

impl PartitionStream for Chain {
    fn next_partition(&mut self) -> cassette_rows::Result<Option<cassette_rows::PartitionHeader>> {
        if self.started {
            self.streams.pop_front();
        }
        self.started = true;
        match self.streams.front_mut() {
            Some(stream) => stream.next_partition(),
            None => Ok(None),
        }
    }

    fn next_unfiltered(&mut self) -> cassette_rows::Result<Option<cassette_rows::Unfiltered>> {
        match self.streams.front_mut() {
            Some(stream) if self.started => stream.next_unfiltered(),
            _ => Ok(None),
        }
    }
}
