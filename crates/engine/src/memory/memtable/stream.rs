//! Memtables as partition streams.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use cassette_rows::{
    DecoratedKey, DeletionTime, PartitionHeader, PartitionStream, Result, RowProbe, Selection, TableMetadata,
    Token, Unfiltered,
};

use super::Memtable;
use super::columns::visible;
use super::cursor::{Cursor, is_skipped};
use super::partition::Partition;
use crate::basics::key_range::KeyBounds;

/// A snapshot of one partition.
pub(crate) struct PartitionRead {
    header: Option<PartitionHeader>,
    cursor: Cursor,
    started: bool,
    finished: bool,
}

impl PartitionRead {
    /// Reads a snapshot.
    pub fn new(
        key: DecoratedKey,
        partition: Partition,
        table: Arc<TableMetadata>,
        selection: Arc<Selection>,
    ) -> Self {
        Self {
            header: Some(header(key, &partition, &table)),
            cursor: Cursor::new(partition, table, selection),
            started: false,
            finished: false,
        }
    }
}

impl PartitionRead {
    /// Returns the deletion of the whole partition.
    pub fn deletion(&self) -> DeletionTime {
        self.header.as_ref().map_or(DeletionTime::LIVE, |header| header.deletion)
    }
}

fn header(key: DecoratedKey, partition: &Partition, table: &TableMetadata) -> PartitionHeader {
    let static_row = partition.static_row().and_then(|row| visible(row.clone(), table));
    PartitionHeader { key, deletion: partition.deletion(), static_row }
}

impl PartitionStream for PartitionRead {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        self.finished = self.started;
        self.started = true;
        Ok(self.header.take())
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        Ok(if self.started && !self.finished { self.cursor.next() } else { None })
    }

    fn pass_live_rows(&mut self, limit: u64, probe: &mut dyn RowProbe) -> Result<u64> {
        Ok(if self.started && !self.finished { self.cursor.pass_live_rows(limit, probe) } else { 0 })
    }

    fn is_reconciled(&self) -> bool {
        true
    }
}

/// The partitions of a range, each as of when the scan reaches its batch. The memtable is locked,
/// one shard at a time, only to copy the next few partitions.
pub(crate) struct MemtableScan {
    memtable: Arc<Memtable>,
    table: Arc<TableMetadata>,
    selection: Arc<Selection>,
    /// The remaining range after `batch`.
    rest: KeyBounds,
    shard: usize,
    batch: VecDeque<(DecoratedKey, Partition)>,
    batch_size: usize,
    cursor: Option<Cursor>,
    /// Whether rows are prefetched a batch at a time.
    warms: bool,
}

/// A scan begins with small batches, since most scans end early, and doubles them up to the limit.
const FIRST_BATCH: usize = 4;
const LARGEST_BATCH: usize = 256;

impl MemtableScan {
    pub fn new(
        memtable: Arc<Memtable>,
        table: Arc<TableMetadata>,
        range: KeyBounds,
        selection: Arc<Selection>,
    ) -> Self {
        let shard = match &range.start {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => Memtable::shard_of(key.token()),
        };
        Self {
            memtable,
            table,
            selection,
            rest: range,
            shard,
            batch: VecDeque::new(),
            batch_size: FIRST_BATCH,
            cursor: None,
            warms: false,
        }
    }

    /// Returns the scan for a caller that reads all rows completely.
    pub fn of_whole_rows(self) -> Self {
        Self { warms: true, ..self }
    }

    fn fill(&mut self) {
        if self.rest.is_empty() {
            return;
        }
        while self.batch.is_empty() && self.shard < self.memtable.shard_count() {
            let more =
                self.memtable.copy_partitions(self.shard, &self.rest, self.batch_size, &mut self.batch);
            if let Some((last, _)) = self.batch.back() {
                self.rest.start = Bound::Excluded(last.clone());
            }
            if !more {
                self.shard += 1;
            }
        }
        if self.warms {
            self.batch.iter().for_each(|(_, partition)| partition.warm_only_row());
        }
        self.batch_size = (2 * self.batch_size).min(LARGEST_BATCH);
    }
}

impl PartitionStream for MemtableScan {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        if self.batch.is_empty() {
            self.fill();
        }
        let Some((key, partition)) = self.batch.pop_front() else {
            self.cursor = None;
            return Ok(None);
        };
        let header = header(key, &partition, &self.table);
        let mut cursor = Cursor::new(partition, self.table.clone(), self.selection.clone());
        cursor.warms = self.warms;
        self.cursor = Some(cursor);
        Ok(Some(header))
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        Ok(self.cursor.as_mut().and_then(Cursor::next))
    }

    fn pass_live_rows(&mut self, limit: u64, probe: &mut dyn RowProbe) -> Result<u64> {
        Ok(self.cursor.as_mut().map_or(0, |cursor| cursor.pass_live_rows(limit, probe)))
    }

    /// Skips partitions of one row. Of a larger one, rows are skipped.
    fn pass_live_partitions(
        &mut self,
        before: Option<Token>,
        limit: u64,
        probe: &mut dyn RowProbe,
    ) -> Result<u64> {
        if !self.selection.slices.is_all()
            || self.selection.reversed
            || !self.table.dropped_columns.is_empty()
        {
            return Ok(0);
        }
        let mut passed = 0;
        while passed < limit {
            if self.batch.is_empty() {
                self.fill();
            }
            let Some((key, partition)) = self.batch.front() else { break };
            let is_before = before.is_none_or(|before| key.token() < before);
            let Some(row) = partition.only_row().filter(|_| is_before) else { break };
            if !is_skipped(row, probe) {
                break;
            }
            self.batch.pop_front();
            self.cursor = None;
            passed += 1;
        }
        Ok(passed)
    }

    fn is_reconciled(&self) -> bool {
        true
    }
}
