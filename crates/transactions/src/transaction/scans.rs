//! Range reads: columns of a row, and rows.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use cassette_rows::DecoratedKey;

use super::Transaction;
use super::reads::Snapshot;
use super::table::Table;
use crate::error::Result;
use crate::store::{Cell, ColumnRange, Store, Version};

/// Maximum rows of one page, and maximum columns of one read of a whole row.
const PAGE_MAX: usize = 1_000;
/// Maximum rows of which one read loads a page of columns.
const ROWS_AT_ONCE: usize = 100;

/// A row and all of its columns with values, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOfCells {
    /// Name of the row.
    pub row: Bytes,
    /// Columns and their values.
    pub columns: Vec<(Bytes, Bytes)>,
}

/// Returns the smallest column name after `column`.
pub(super) fn successor(column: &[u8]) -> Bytes {
    [column, &[0]].concat().into()
}

/// A row with the visible versions of its columns, including deletions.
pub(super) type SeenRow = (Bytes, Vec<(Bytes, Version)>);

/// A page of a row in a snapshot.
pub(super) struct ColumnPage {
    /// Columns with their visible versions, including deletions.
    pub seen: Vec<(Bytes, Version)>,
    /// Start of the next page; `None` after the last one.
    pub next: Option<Bytes>,
}

impl Snapshot<'_> {
    /// Returns the visible versions of the columns from `start`, before `end`, about `limit` of
    /// them.
    pub fn columns(
        &self,
        table: &Table,
        row: &Bytes,
        start: &Bytes,
        end: Option<&Bytes>,
        limit: usize,
    ) -> Result<ColumnPage> {
        if end.is_some_and(|end| end <= start) {
            return Ok(ColumnPage { seen: Vec::new(), next: None });
        }
        let range = ColumnRange { row: row.clone(), start: start.clone(), end: end.cloned(), limit };
        let page = self.inner().store.columns(table.name(), &[range], self.at())?.pop().unwrap_or_default();
        let next = if page.len() < limit { None } else { page.last().map(|(column, _)| successor(column)) };
        let (cells, newest): (Vec<Cell>, Vec<Option<Version>>) =
            page.into_iter().map(|(column, version)| (Cell::new(row.clone(), column), Some(version))).unzip();
        let versions = self.resolve(table, &cells.iter().collect::<Vec<_>>(), newest)?;
        let seen = cells.into_iter().zip(versions);
        let seen = seen.filter_map(|(cell, version)| Some((cell.column, version?))).collect();
        Ok(ColumnPage { seen, next })
    }

    /// Returns the visible versions of whole rows, in order.
    pub fn whole_rows(&self, table: &Table, rows: &[Bytes]) -> Result<Vec<Vec<(Bytes, Version)>>> {
        let mut seen = vec![Vec::new(); rows.len()];
        // Rows that are not complete, each with the start of its next page.
        let mut open: Vec<(usize, Bytes)> = (0..rows.len()).map(|row| (row, Bytes::new())).collect();
        while !open.is_empty() {
            let ranges: Vec<ColumnRange> = open
                .iter()
                .take(ROWS_AT_ONCE)
                .map(|(row, start)| ColumnRange {
                    row: rows[*row].clone(),
                    start: start.clone(),
                    end: None,
                    limit: PAGE_MAX,
                })
                .collect();
            let pages = self.inner().store.columns(table.name(), &ranges, self.at())?;
            let rest = open.split_off(ranges.len().min(open.len()));
            let (mut cells, mut newest, mut owners) = (Vec::new(), Vec::new(), Vec::new());
            let mut next = Vec::new();
            for ((row, _), page) in open.into_iter().zip(pages) {
                if page.len() >= PAGE_MAX
                    && let Some((last, _)) = page.last()
                {
                    next.push((row, successor(last)));
                }
                for (column, version) in page {
                    cells.push(Cell::new(rows[row].clone(), column));
                    newest.push(Some(version));
                    owners.push(row);
                }
            }
            let versions = self.resolve(table, &cells.iter().collect::<Vec<_>>(), newest)?;
            for ((cell, version), row) in cells.into_iter().zip(versions).zip(owners) {
                seen[row].extend(version.map(|version| (cell.column, version)));
            }
            next.extend(rest);
            open = next;
        }
        Ok(seen)
    }

    /// Returns the visible versions of a whole row.
    pub fn row(&self, table: &Table, row: &Bytes) -> Result<Vec<(Bytes, Version)>> {
        let mut seen = Vec::new();
        let mut start = Bytes::new();
        loop {
            let page = self.columns(table, row, &start, None, PAGE_MAX)?;
            seen.extend(page.seen);
            match page.next {
                Some(next) => start = next,
                None => return Ok(seen),
            }
        }
    }

    /// Returns up to `limit` rows after `after` with their visible versions, which may be empty.
    /// Fewer rows mean that there are no more.
    pub fn rows(&self, table: &Table, after: Option<&[u8]>, limit: usize) -> Result<Vec<SeenRow>> {
        let rows = self.inner().store.rows(table.name(), after, limit)?;
        rows.into_iter().map(|row| Ok((row.clone(), self.row(table, &row)?))).collect()
    }
}

/// Returns the first column of a range and the column that ends it.
fn bounds<B: AsRef<[u8]>>(range: &impl RangeBounds<B>) -> (Bytes, Option<Bytes>) {
    let start = match range.start_bound() {
        Bound::Included(start) => Bytes::copy_from_slice(start.as_ref()),
        Bound::Excluded(before) => successor(before.as_ref()),
        Bound::Unbounded => Bytes::new(),
    };
    let end = match range.end_bound() {
        Bound::Included(last) => Some(successor(last.as_ref())),
        Bound::Excluded(end) => Some(Bytes::copy_from_slice(end.as_ref())),
        Bound::Unbounded => None,
    };
    (start, end)
}

pub(super) fn columns<B: AsRef<[u8]>>(
    transaction: &Transaction,
    table: &Table,
    row: Bytes,
    range: &impl RangeBounds<B>,
    limit: usize,
) -> Result<Vec<(Bytes, Bytes)>> {
    let (mut start, end) = bounds(range);
    let mut out = Vec::new();
    // A tenth more, for columns that turn out to be invisible.
    let page_size = limit.saturating_add(limit.div_ceil(10)).clamp(1, PAGE_MAX);
    while out.len() < limit {
        let page = transaction.snapshot().columns(table, &row, &start, end.as_ref(), page_size)?;
        let until = page.next.clone().or_else(|| end.clone());
        if table.handler().is_serializable() {
            transaction.reads.lock().columns(table, &row, &start, until.as_ref(), &page.seen);
        }
        let mut merged: BTreeMap<Bytes, Bytes> =
            page.seen.into_iter().map(|(column, version)| (column, version.value)).collect();
        // R1.
        merged.extend(transaction.writes.columns(table, &row, &start, until.as_ref()));
        out.extend(merged.into_iter().filter(|(_, value)| !value.is_empty()));
        match page.next {
            Some(next) => start = next,
            None => break,
        }
    }
    out.truncate(limit);
    Ok(out)
}

pub(super) fn whole_rows(
    transaction: &Transaction,
    table: &Table,
    rows: &[Bytes],
) -> Result<Vec<RowOfCells>> {
    let found = transaction.snapshot().whole_rows(table, rows)?;
    let merge = |(row, seen): (&Bytes, Vec<(Bytes, Version)>)| {
        if table.handler().is_serializable() {
            transaction.reads.lock().columns(table, row, &Bytes::new(), None, &seen);
        }
        let mut columns: BTreeMap<Bytes, Bytes> =
            seen.into_iter().map(|(column, version)| (column, version.value)).collect();
        // R1.
        columns.extend(transaction.writes.columns(table, row, &Bytes::new(), None));
        columns.retain(|_, value| !value.is_empty());
        RowOfCells { row: row.clone(), columns: columns.into_iter().collect() }
    };
    Ok(rows.iter().zip(found).map(merge).collect())
}

pub(super) fn rows(
    transaction: &Transaction,
    table: &Table,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<RowOfCells>> {
    let position = |row: &Bytes| DecoratedKey::new(row.clone());
    let mut written: Vec<DecoratedKey> =
        transaction.writes.rows(table).into_iter().map(DecoratedKey::new).collect();
    written.sort_unstable();
    let mut after = after.map(Bytes::copy_from_slice);
    let mut out: Vec<RowOfCells> = Vec::new();
    let page_size = limit.saturating_add(limit.div_ceil(10)).clamp(1, PAGE_MAX);
    while out.len() < limit {
        let page = transaction.snapshot().rows(table, after.as_deref(), page_size)?;
        let is_last = page.len() < page_size;
        let last = page.last().map(|(row, _)| row.clone()).filter(|_| !is_last);
        if table.handler().is_serializable() {
            transaction.reads.lock().rows(table, after.as_ref(), last.as_ref(), &page);
        }
        // Rows that only this transaction writes belong between those of the store.
        let (low, high) = (after.as_ref().map(position), last.as_ref().map(position));
        let mut merged: BTreeMap<DecoratedKey, BTreeMap<Bytes, Bytes>> = written
            .iter()
            .filter(|row| low.as_ref().is_none_or(|low| *row > low))
            .filter(|row| high.as_ref().is_none_or(|high| *row <= high))
            .map(|row| (row.clone(), BTreeMap::new()))
            .collect();
        for (row, seen) in page {
            let columns = seen.into_iter().map(|(column, version)| (column, version.value));
            merged.insert(DecoratedKey::new(row), columns.collect());
        }
        for (row, mut columns) in merged {
            let row = row.key_bytes().clone();
            // R1.
            columns.extend(transaction.writes.columns(table, &row, &Bytes::new(), None));
            columns.retain(|_, value| !value.is_empty());
            if !columns.is_empty() {
                out.push(RowOfCells { row, columns: columns.into_iter().collect() });
            }
        }
        match last {
            Some(last) => after = Some(last),
            None => break,
        }
    }
    out.truncate(limit);
    Ok(out)
}
