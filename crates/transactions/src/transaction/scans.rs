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

/// Part of a row: from column `start`, before `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub start: Bytes,
    pub end: Option<Bytes>,
}

impl Span {
    /// All columns of a row.
    pub const ALL: Self = Self { start: Bytes::new(), end: None };

    /// Returns the columns within bounds.
    pub fn of<B: AsRef<[u8]>>(range: &impl RangeBounds<B>) -> Self {
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
        Self { start, end }
    }

    /// Returns the columns whose names begin with `prefix`.
    pub fn of_prefix(prefix: &[u8]) -> Self {
        // The end is the prefix with its last byte raised, without trailing bytes that are
        // greatest.
        let kept = prefix.iter().rposition(|byte| *byte < u8::MAX);
        let end = kept.map(|last| [&prefix[..last], &[prefix[last] + 1]].concat().into());
        Self { start: Bytes::copy_from_slice(prefix), end }
    }

    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// A page of a row in a snapshot.
pub(super) struct ColumnPage {
    /// Columns with their visible versions, including deletions, in ascending order.
    pub seen: Vec<(Bytes, Version)>,
    /// What the page covers: all columns in it are in `seen`.
    pub covered: Span,
    /// What is left.
    pub rest: Option<Span>,
}

impl Snapshot<'_> {
    /// Returns the visible versions of about `limit` columns of `span`: of the first ones, or of
    /// the last ones if `is_reversed`.
    pub fn columns(
        &self,
        table: &Table,
        row: &Bytes,
        span: &Span,
        limit: usize,
        is_reversed: bool,
    ) -> Result<ColumnPage> {
        if span.is_empty() {
            return Ok(ColumnPage { seen: Vec::new(), covered: span.clone(), rest: None });
        }
        let (start, end) = (span.start.clone(), span.end.clone());
        let range = ColumnRange { row: row.clone(), start, end, limit, is_reversed };
        let page = self.inner().store.columns(table.name(), &[range], self.at())?.pop().unwrap_or_default();
        let last = page.last().map(|(column, _)| column.clone()).filter(|_| page.len() >= limit);
        let Span { start, end } = span.clone();
        let (covered, rest) = match last {
            None => (Span { start, end }, None),
            Some(last) if is_reversed => {
                (Span { start: last.clone(), end }, Some(Span { start, end: Some(last) }))
            }
            Some(last) => {
                let next = successor(&last);
                (Span { start, end: Some(next.clone()) }, Some(Span { start: next, end }))
            }
        };
        let (cells, newest): (Vec<Cell>, Vec<Option<Version>>) =
            page.into_iter().map(|(column, version)| (Cell::new(row.clone(), column), Some(version))).unzip();
        let versions = self.resolve(table, &cells.iter().collect::<Vec<_>>(), newest)?;
        let seen = cells.into_iter().zip(versions);
        let mut seen: Vec<_> = seen.filter_map(|(cell, version)| Some((cell.column, version?))).collect();
        if is_reversed {
            seen.reverse();
        }
        Ok(ColumnPage { seen, covered, rest })
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
                    is_reversed: false,
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
        let mut rest = Some(Span::ALL);
        while let Some(span) = rest {
            let page = self.columns(table, row, &span, PAGE_MAX, false)?;
            seen.extend(page.seen);
            rest = page.rest;
        }
        Ok(seen)
    }

    /// Returns up to `limit` rows after `after` with their visible versions, which may be empty.
    /// Fewer rows mean that there are no more.
    pub fn rows(&self, table: &Table, after: Option<&[u8]>, limit: usize) -> Result<Vec<SeenRow>> {
        let rows = self.inner().store.rows(table.name(), after, limit)?;
        rows.into_iter().map(|row| Ok((row.clone(), self.row(table, &row)?))).collect()
    }
}

/// A page of a row as a transaction sees it.
pub(super) struct MergedPage {
    /// Columns and their values, in ascending or, reversed, in descending order.
    pub columns: Vec<(Bytes, Bytes)>,
    /// What is left.
    pub rest: Option<Span>,
}

/// Reads a page of about `limit` columns of `span`, from its beginning or from its end, with the
/// transaction's own writes. It may be empty although there are further ones.
pub(super) fn page(
    transaction: &Transaction,
    table: &Table,
    row: &Bytes,
    span: &Span,
    limit: usize,
    is_reversed: bool,
) -> Result<MergedPage> {
    let ColumnPage { seen, covered, rest } =
        transaction.snapshot().columns(table, row, span, limit, is_reversed)?;
    if transaction.validates_reads(table) {
        transaction.reads.lock().columns(table, row, &covered, &seen);
    }
    let mut merged: BTreeMap<Bytes, Bytes> =
        seen.into_iter().map(|(column, version)| (column, version.value)).collect();
    // R1.
    merged.extend(transaction.writes.columns(table, row, &covered));
    let mut columns: Vec<_> = merged.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    if is_reversed {
        columns.reverse();
    }
    Ok(MergedPage { columns, rest })
}

pub(super) fn columns(
    transaction: &Transaction,
    table: &Table,
    row: &Bytes,
    span: Span,
    limit: usize,
) -> Result<Vec<(Bytes, Bytes)>> {
    let mut out = Vec::new();
    // A tenth more, for columns that turn out to be invisible.
    let page_size = limit.saturating_add(limit.div_ceil(10)).clamp(1, PAGE_MAX);
    let mut rest = Some(span).filter(|_| limit > 0);
    while let Some(span) = rest.filter(|_| out.len() < limit) {
        let page = page(transaction, table, row, &span, page_size, false)?;
        out.extend(page.columns);
        rest = page.rest;
    }
    out.truncate(limit);
    Ok(out)
}

/// Returns the names of up to `limit` rows of the store after `after`, and those that only the
/// transaction writes in between, in the store's order. The rows may turn out to be empty. Also
/// returns where to continue; `None` at the end.
pub(super) fn row_names(
    transaction: &Transaction,
    table: &Table,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<(Vec<Bytes>, Option<Bytes>)> {
    let stored = transaction.inner.store.rows(table.name(), after, limit)?;
    let next = stored.last().filter(|_| stored.len() >= limit).cloned();
    let key = |row: &Bytes| DecoratedKey::new(row.clone());
    let (low, high) = (after.map(|after| key(&Bytes::copy_from_slice(after))), next.as_ref().map(key));
    let mut keys: Vec<DecoratedKey> = transaction.writes.rows(table).iter().map(key).collect();
    keys.retain(|row| {
        low.as_ref().is_none_or(|low| row > low) && high.as_ref().is_none_or(|high| row <= high)
    });
    keys.extend(stored.iter().map(key));
    keys.sort_unstable();
    keys.dedup();
    Ok((keys.into_iter().map(|row| row.key_bytes().clone()).collect(), next))
}

pub(super) fn whole_rows(
    transaction: &Transaction,
    table: &Table,
    rows: &[Bytes],
) -> Result<Vec<RowOfCells>> {
    let found = transaction.snapshot().whole_rows(table, rows)?;
    let merge = |(row, seen): (&Bytes, Vec<(Bytes, Version)>)| {
        if transaction.validates_reads(table) {
            transaction.reads.lock().columns(table, row, &Span::ALL, &seen);
        }
        let mut columns: BTreeMap<Bytes, Bytes> =
            seen.into_iter().map(|(column, version)| (column, version.value)).collect();
        // R1.
        columns.extend(transaction.writes.columns(table, row, &Span::ALL));
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
        if transaction.validates_reads(table) {
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
            columns.extend(transaction.writes.columns(table, &row, &Span::ALL));
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
