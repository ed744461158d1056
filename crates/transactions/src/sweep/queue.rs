//! The sweep queue: records what each commit wrote (C4 of the protocol) for the sweeper.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use super::SweepStrategy;
use crate::encoding::DecodeError;
use crate::encoding::sweep::{self, COARSE, Entry, FINE, LAST_DONE, PROGRESS, QueuedWrite, Shard, WriteKind};
use crate::error::{Error, Result};
use crate::store::{
    Cell, CheckOutcome, ColumnRange, Put, PutOutcome, PutRow, Store, StoreResult, TableKind, Version,
};
use crate::timestamp::Timestamp;

const QUEUE: &str = "_sweep_queue";
const INDEX: &str = "_sweep_index";
/// Maximum number of index rows that one search covers: 2,000,000,000 start timestamps.
const INDEX_ROWS_MAX: i64 = 200;
/// Number of writes in dedicated rows that are read at once.
const PAGE: usize = 1_000;
/// Maximum number of cached index cells. Beyond it, the cache is cleared and cells are put again.
const INDEXED_MAX: usize = 4_096;

/// The sweep queue of a store. Any thread may use it.
pub(crate) struct Queue {
    store: Arc<dyn Store>,
    /// Fine partitions that are certainly in the index.
    indexed: RwLock<HashSet<(Shard, i64)>>,
    /// Last known completed start timestamp of each shard. Only grows.
    progress: Mutex<Vec<(Shard, i64)>>,
}

/// Queue entries of one transaction.
pub(crate) struct Additions {
    start: Timestamp,
    cells: Vec<(&'static str, Cell, Bytes)>,
    indexed: Vec<(Shard, i64)>,
}

/// Table, cell, and kind of a write.
type Write<'a> = (&'a str, &'a Cell, WriteKind);

/// Location of the next entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// In this fine partition, if anywhere up to it.
    Fine(i64),
    /// None up to this fine partition.
    NoneUpTo(i64),
}

impl Additions {
    /// Writes of the queue, which must be stored before any version is.
    pub fn puts(&self) -> impl Iterator<Item = Put<'_>> {
        self.cells.iter().map(|(table, cell, value)| Put {
            table,
            cell,
            timestamp: Timestamp::ATOMIC,
            value: value.clone(),
            write_time: self.start.0,
        })
    }

    /// Returns whether there is nothing to add.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}

impl Queue {
    /// Opens the queue in `store`, creating its tables if needed.
    pub fn open(store: Arc<dyn Store>) -> StoreResult<Self> {
        for table in [QUEUE, INDEX, PROGRESS] {
            store.create_table(table, TableKind::Data)?;
        }
        Ok(Self { store, indexed: RwLock::default(), progress: Mutex::default() })
    }

    /// Opens the queue in `store` if it exists.
    pub fn open_existing(store: Arc<dyn Store>) -> StoreResult<Option<Self>> {
        for table in [QUEUE, INDEX, PROGRESS] {
            if !store.open_table(table)? {
                return Ok(None);
            }
        }
        Ok(Some(Self { store, indexed: RwLock::default(), progress: Mutex::default() }))
    }

    /// Builds the entries (C4) of the transaction that began at `start` for its writes: table and
    /// its strategy, cell, kind. An entry longer than half of `version_max` keeps its writes in
    /// dedicated rows, as an entry with many writes does.
    pub fn additions<'a>(
        &self,
        start: Timestamp,
        writes: impl Iterator<Item = (&'a str, SweepStrategy, &'a Cell, WriteKind)>,
        version_max: Option<usize>,
    ) -> Additions {
        let mut by_shard: Vec<(Shard, Vec<Write<'_>>)> = Vec::new();
        for (table, strategy, cell, kind) in writes {
            let thorough = match strategy {
                SweepStrategy::Nothing => continue,
                SweepStrategy::Conservative => false,
                SweepStrategy::Thorough => true,
            };
            let shard = Shard { thorough, number: sweep::shard_of(table, cell) };
            match by_shard.iter_mut().find(|(known, _)| *known == shard) {
                Some((_, writes)) => writes.push((table, cell, kind)),
                None => by_shard.push((shard, vec![(table, cell, kind)])),
            }
        }
        let fine = start.0 / FINE;
        let mut cells = Vec::with_capacity(by_shard.len());
        let mut indexed = Vec::new();
        for (shard, writes) in by_shard {
            if !self.indexed.read().contains(&(shard, fine)) {
                let cell = Cell::new(shard.index(fine * FINE / COARSE), sweep::index_column(fine));
                cells.push((INDEX, cell, Bytes::from_static(&[1])));
                indexed.push((shard, fine));
            }
            let bytes: usize = writes.iter().map(|(table, cell, _)| table.len() + cell.name_length()).sum();
            let entry = match writes.len() {
                ..=sweep::INLINE_MAX if version_max.is_none_or(|max| bytes <= max / 2) => {
                    let mut entry = vec![sweep::INLINE];
                    writes.iter().for_each(|(table, cell, kind)| {
                        sweep::encode_write(table, cell, *kind, &mut entry);
                    });
                    entry.into()
                }
                _ => {
                    let mut rows = 0;
                    for (number, of_row) in writes.chunks(sweep::DEDICATED_MAX).enumerate() {
                        rows = number as u32 + 1;
                        let row = shard.dedicated(start, number as u32);
                        for (index, (table, cell, kind)) in of_row.iter().enumerate() {
                            let mut value = Vec::new();
                            sweep::encode_write(table, cell, *kind, &mut value);
                            let place = Cell::new(row.clone(), sweep::number_column(index as u32));
                            cells.push((QUEUE, place, value.into()));
                        }
                    }
                    sweep::dedicated_entry(rows)
                }
            };
            // After its rows: an entry implies that they exist.
            cells.push((QUEUE, Cell::new(shard.entries(fine), sweep::entry_column(start.0)), entry));
        }
        Additions { start, cells, indexed }
    }

    /// Called after the additions were stored.
    pub fn added(&self, additions: Additions) {
        if !additions.indexed.is_empty() {
            let mut indexed = self.indexed.write();
            if indexed.len() >= INDEXED_MAX {
                indexed.clear();
            }
            indexed.extend(additions.indexed);
        }
    }

    /// Returns the last completed start timestamp of a shard, as far as this process knows.
    pub(super) fn progress(&self, shard: Shard) -> Result<i64> {
        let known = |progress: &[(Shard, i64)]| {
            progress.iter().find(|(known, _)| *known == shard).map(|(_, last)| *last)
        };
        if let Some(last) = known(&self.progress.lock()) {
            return Ok(last);
        }
        let last = self.stored_progress(shard)?.map_or(Ok(0), |raw| decode_progress(&raw))?;
        self.know(shard, last);
        Ok(last)
    }

    fn know(&self, shard: Shard, last: i64) {
        let mut progress = self.progress.lock();
        match progress.iter_mut().find(|(known, _)| *known == shard) {
            Some((_, known)) => *known = last.max(*known),
            None => progress.push((shard, last)),
        }
    }

    /// Returns the stored last completed start timestamp of a shard.
    pub(super) fn stored_progress(&self, shard: Shard) -> Result<Option<Bytes>> {
        let column = Bytes::from_static(LAST_DONE);
        Ok(self.store.get_serial(PROGRESS, &shard.key(), &[column])?.pop().flatten())
    }

    /// Stores that all start timestamps up to `last` are completed, unless another sweeper got
    /// further.
    pub(super) fn advance(&self, shard: Shard, last: i64) -> Result<()> {
        let cell = Cell::new(shard.key(), LAST_DONE);
        let new = sweep::encode_progress(last);
        let mut raw = self.stored_progress(shard)?;
        loop {
            let standing = match raw {
                None => {
                    let columns = vec![(cell.column.clone(), new.clone())];
                    let put = PutRow { row: cell.row.clone(), columns };
                    match self.store.put_unless_exists(PROGRESS, &[put]).pop().transpose()? {
                        Some(PutOutcome::Exists(existing)) => existing.into_iter().next().map(|(_, v)| v),
                        Some(PutOutcome::Applied) | None => break,
                    }
                }
                Some(raw) if decode_progress(&raw)? >= last => {
                    self.know(shard, decode_progress(&raw)?);
                    return Ok(());
                }
                Some(raw) => match self.store.check_and_set(PROGRESS, &cell, &raw, &new)? {
                    CheckOutcome::Applied => break,
                    CheckOutcome::Actual(standing) => standing,
                },
            };
            raw = standing;
        }
        self.know(shard, last);
        Ok(())
    }

    /// Returns the first start timestamp with an entry, after `done` and up to `last`.
    pub(super) fn first_unswept(&self, shard: Shard, done: i64, last: i64) -> Result<Option<Timestamp>> {
        let mut first = done + 1;
        while first <= last {
            let fine = match self.next(shard, first / FINE, last / FINE)? {
                Next::Fine(fine) => fine,
                Next::NoneUpTo(fine) => {
                    first = (fine + 1) * FINE;
                    continue;
                }
            };
            let end = last.min((fine + 1) * FINE - 1);
            let found = self.entries(shard, first.max(fine * FINE), end, 1)?;
            if let Some((start, _)) = found.first() {
                return Ok(Some(*start));
            }
            first = (fine + 1) * FINE;
        }
        Ok(None)
    }

    /// Finds the next entries from fine partition `from` on, up to `until`.
    pub(super) fn next(&self, shard: Shard, from: i64, until: i64) -> Result<Next> {
        let coarse_of = |fine: i64| fine * FINE / COARSE;
        let last = coarse_of(until).min(coarse_of(from) + INDEX_ROWS_MAX - 1);
        let range = |coarse: i64| ColumnRange {
            row: shard.index(coarse),
            start: if coarse == coarse_of(from) { sweep::index_column(from) } else { Bytes::new() },
            end: None,
            limit: 1,
            is_reversed: false,
        };
        let ranges: Vec<_> = (coarse_of(from)..=last).map(range).collect();
        let found = self.store.columns(INDEX, &ranges, Timestamp::MAX)?;
        for (coarse, columns) in (coarse_of(from)..=last).zip(found) {
            if let Some((column, _)) = columns.first() {
                let fine = sweep::index_fine(coarse, column).map_err(Error::SweepQueue)?;
                return Ok(if fine <= until { Next::Fine(fine) } else { Next::NoneUpTo(until) });
            }
        }
        let end_of_last = (last + 1) * (COARSE / FINE) - 1;
        Ok(Next::NoneUpTo(end_of_last.min(until)))
    }

    /// Returns up to `limit` entries with start timestamps from `first` to `last` of one fine
    /// partition. Fewer mean that there are no more.
    pub(super) fn entries(
        &self,
        shard: Shard,
        first: i64,
        last: i64,
        limit: usize,
    ) -> Result<Vec<(Timestamp, Entry)>> {
        let fine = first / FINE;
        let end = (last % FINE + 1 < FINE).then(|| sweep::entry_column(last + 1));
        let start = sweep::entry_column(first);
        let range = ColumnRange { row: shard.entries(fine), start, end, limit, is_reversed: false };
        let page = self.store.columns(QUEUE, &[range], Timestamp::MAX)?.pop().unwrap_or_default();
        let decode = |(column, version): (Bytes, Version)| -> Result<_, DecodeError> {
            Ok((sweep::entry_start(fine, &column)?, sweep::decode_entry(&version.value)?))
        };
        page.into_iter().map(decode).collect::<Result<_, _>>().map_err(Error::SweepQueue)
    }

    /// Calls `each` for the writes in dedicated rows, page by page.
    pub(super) fn dedicated(
        &self,
        shard: Shard,
        start: Timestamp,
        rows: u32,
        mut each: impl FnMut(Vec<QueuedWrite>) -> Result<()>,
    ) -> Result<()> {
        for number in 0..rows {
            let mut from = Bytes::new();
            loop {
                let row = shard.dedicated(start, number);
                let range = ColumnRange { row, start: from, end: None, limit: PAGE, is_reversed: false };
                let page = self.store.columns(QUEUE, &[range], Timestamp::MAX)?.pop().unwrap_or_default();
                let next = page.last().map(|(column, _)| Bytes::from([column, &[0][..]].concat()));
                let is_last = page.len() < PAGE;
                let writes = page.iter().map(|(_, version)| sweep::decode_write(&version.value));
                each(writes.collect::<Result<_, _>>().map_err(Error::SweepQueue)?)?;
                match next {
                    Some(next) if !is_last => from = next,
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// Removes the dedicated rows of a completed entry.
    pub(super) fn remove_dedicated(
        &self,
        shard: Shard,
        start: Timestamp,
        rows: u32,
        now: Timestamp,
    ) -> Result<()> {
        let rows: Vec<_> = (0..rows).map(|number| shard.dedicated(start, number)).collect();
        Ok(self.store.delete_rows(QUEUE, &rows, now.0)?)
    }

    /// Removes a completed fine partition.
    pub(super) fn remove_fine(&self, shard: Shard, fine: i64, now: Timestamp) -> Result<()> {
        Ok(self.store.delete_rows(QUEUE, &[shard.entries(fine)], now.0)?)
    }

    /// Removes the index of a completed coarse partition.
    pub(super) fn remove_coarse(&self, shard: Shard, coarse: i64, now: Timestamp) -> Result<()> {
        Ok(self.store.delete_rows(INDEX, &[shard.index(coarse)], now.0)?)
    }
}

/// Decodes a stored progress.
pub(super) fn decode_progress(raw: &[u8]) -> Result<i64> {
    sweep::decode_progress(raw).map_err(Error::SweepQueue)
}
