//! Iterators over a row's columns, in both directions, and over the cells of a table. They read
//! page by page.

use std::iter::FusedIterator;
use std::vec::IntoIter;

use bytes::Bytes;

use super::Transaction;
use super::scans::{self, RowOfCells, Span};
use super::table::Table;
use crate::error::Result;
use crate::store::Cell;

/// Number of columns in the first page.
const FIRST_PAGE: usize = 32;
/// Maximum number of columns in a page.
const PAGE_MAX: usize = 1_000;
/// Target size of a page in bytes of names and values, by the average of the previous page.
const PAGE_BYTES: usize = 1 << 20;
/// Rows of a serializable table that are read together.
const ROWS: usize = 16;
/// Names of rows that are read together.
const ROW_NAMES: usize = 1_000;

/// The columns of a row with their values, in order: [`Transaction::range`] and
/// [`Transaction::prefix`]. [`rev`](Iterator::rev) reverses the order; both ends can be consumed.
///
/// Reads a page when it is needed: 32 columns, then as many as amount to about 1 MiB, at most
/// 1,000. Both ends keep one page in memory. An error ends the iterator.
pub struct Range<'t> {
    transaction: &'t Transaction,
    table: Table,
    row: Bytes,
    /// The columns between `front` and `back`, which have not been read.
    rest: Option<Span>,
    front: IntoIter<(Bytes, Bytes)>,
    /// In descending order.
    back: IntoIter<(Bytes, Bytes)>,
    page_size: usize,
}

impl<'t> Range<'t> {
    pub(super) fn new(transaction: &'t Transaction, table: &Table, row: Bytes, span: Span) -> Self {
        Self {
            transaction,
            table: table.clone(),
            row,
            rest: Some(span),
            front: Vec::new().into_iter(),
            back: Vec::new().into_iter(),
            page_size: FIRST_PAGE,
        }
    }

    /// Reads the next page of `span` from its beginning or, reversed, from its end.
    fn read(&mut self, span: &Span, is_reversed: bool) -> Result<IntoIter<(Bytes, Bytes)>> {
        let transaction = self.transaction;
        transaction.check_age()?;
        let page = scans::page(transaction, &self.table, &self.row, span, self.page_size, is_reversed)?;
        transaction.check_hold(&self.table)?;
        self.rest = page.rest;
        if !page.columns.is_empty() {
            let bytes: usize = page.columns.iter().map(|(column, value)| column.len() + value.len()).sum();
            let average = bytes.div_ceil(page.columns.len()).max(1);
            self.page_size = (PAGE_BYTES / average).clamp(1, PAGE_MAX);
        }
        Ok(page.columns.into_iter())
    }

    fn fail<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.rest = None;
            self.front = Vec::new().into_iter();
            self.back = Vec::new().into_iter();
        }
        result
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(column) = self.front.next() {
                return Some(Ok(column));
            }
            let Some(span) = self.rest.take() else {
                return self.back.next_back().map(Ok);
            };
            let page = self.read(&span, false);
            match self.fail(page) {
                Ok(page) => self.front = page,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(column) = self.back.next() {
                return Some(Ok(column));
            }
            let Some(span) = self.rest.take() else {
                return self.front.next_back().map(Ok);
            };
            let page = self.read(&span, true);
            match self.fail(page) {
                Ok(page) => self.back = page,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl FusedIterator for Range<'_> {}

/// All cells of a table with their values: [`Transaction::cells`]. Rows are in the order of the
/// store, columns in their own.
///
/// Reads a page when it is needed, as [`Range`] does, and keeps it in memory with the names of up
/// to 1,000 rows. Of a serializable table, it reads 16 whole rows at once. An error ends the
/// iterator.
pub struct Cells<'t> {
    transaction: &'t Transaction,
    table: Table,
    /// Rows that have been found and not read.
    names: IntoIter<Bytes>,
    /// Whole rows of a serializable table.
    rows: IntoIter<RowOfCells>,
    current: Option<(Bytes, Columns<'t>)>,
    after: Option<Bytes>,
    is_last: bool,
}

/// The columns of the current row.
enum Columns<'t> {
    Lazy(Range<'t>),
    Whole(IntoIter<(Bytes, Bytes)>),
}

impl<'t> Cells<'t> {
    pub(super) fn new(transaction: &'t Transaction, table: &Table) -> Self {
        Self {
            transaction,
            table: table.clone(),
            names: Vec::new().into_iter(),
            rows: Vec::new().into_iter(),
            current: None,
            after: None,
            is_last: false,
        }
    }

    /// Proceeds to the next row. Returns false if there is none.
    fn next_row(&mut self) -> Result<bool> {
        loop {
            if let Some(RowOfCells { row, columns }) = self.rows.next() {
                self.current = Some((row, Columns::Whole(columns.into_iter())));
                return Ok(true);
            }
            if let Some(row) = self.names.next() {
                let range = Range::new(self.transaction, &self.table, row.clone(), Span::ALL);
                self.current = Some((row, Columns::Lazy(range)));
                return Ok(true);
            }
            if self.is_last {
                return Ok(false);
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> Result<()> {
        let transaction = self.transaction;
        if transaction.validates_reads(&self.table) {
            // Whole rows: which rows there are is validated together with their columns.
            let rows = transaction.rows(&self.table, self.after.as_deref(), ROWS)?;
            self.is_last = rows.len() < ROWS;
            self.after = rows.last().map(|last| last.row.clone());
            self.rows = rows.into_iter();
        } else {
            transaction.check_age()?;
            let (names, next) = scans::row_names(transaction, &self.table, self.after.as_deref(), ROW_NAMES)?;
            transaction.check_hold(&self.table)?;
            self.is_last = next.is_none();
            self.after = next;
            self.names = names.into_iter();
        }
        Ok(())
    }
}

impl Iterator for Cells<'_> {
    type Item = Result<(Cell, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((row, columns)) = &mut self.current {
                let next = match columns {
                    Columns::Lazy(range) => range.next(),
                    Columns::Whole(columns) => columns.next().map(Ok),
                };
                match next {
                    Some(Ok((column, value))) => return Some(Ok((Cell::new(row.clone(), column), value))),
                    Some(Err(error)) => {
                        self.end();
                        return Some(Err(error));
                    }
                    None => self.current = None,
                }
            }
            match self.next_row() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.end();
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Cells<'_> {
    fn end(&mut self) {
        self.current = None;
        self.names = Vec::new().into_iter();
        self.rows = Vec::new().into_iter();
        self.is_last = true;
    }
}

impl FusedIterator for Cells<'_> {}
