//! The rows of a result, in memory.

use std::sync::Arc;

use bytes::Bytes;

use super::{FromCql, FromRow};
use crate::basics::error::{Result, bail_invalid};
use crate::basics::response::{ColumnSpec, ResultMetadata, RowSink};

/// The rows returned by a statement; none for statements without rows.
#[derive(Debug, Default)]
pub struct Rows {
    metadata: Option<Arc<ResultMetadata>>,
    /// For each value, row by row: its end in `bytes`, and whether it is null.
    ends: Vec<(usize, bool)>,
    bytes: Vec<u8>,
    count: usize,
    pub(crate) paging_state: Option<Bytes>,
    pub(crate) warnings: Vec<String>,
}

impl Rows {
    /// Returns the columns.
    pub fn columns(&self) -> &[ColumnSpec] {
        self.metadata.as_ref().map_or(&[], |metadata| &metadata.columns)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns row number `index`.
    pub fn get(&self, index: usize) -> Option<Row<'_>> {
        (index < self.count).then_some(Row { rows: self, index, first: 0 })
    }

    /// Returns the first row.
    pub fn first(&self) -> Option<Row<'_>> {
        self.get(0)
    }

    /// Iterates over the rows in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { rows: self, indexes: 0..self.count }
    }

    /// Converts the rows to tuples, in order: `rows.typed::<(i32, String)>()`.
    pub fn typed<T: FromRow>(&self) -> impl ExactSizeIterator<Item = Result<T>> {
        self.iter().map(|row| T::from_row(&row))
    }

    /// Returns the only row.
    ///
    /// # Errors
    /// Invalid, if there is no row or more than one, or it does not convert to `T`.
    pub fn one<T: FromRow>(&self) -> Result<T> {
        match self.at_most_one()? {
            Some(row) => Ok(row),
            None => bail_invalid!("cannot return one row: expected exactly one, found none"),
        }
    }

    /// Returns the only row, or `None`.
    ///
    /// # Errors
    /// Invalid, if there is more than one row, or it does not convert to `T`.
    pub fn at_most_one<T: FromRow>(&self) -> Result<Option<T>> {
        if self.count > 1 {
            bail_invalid!("cannot return one row: expected at most one, found {}", self.count);
        }
        self.first().map(|row| T::from_row(&row)).transpose()
    }

    /// Returns the position of the next page, if the statement was executed with paging and this
    /// was not the last page.
    pub fn paging_state(&self) -> Option<&Bytes> {
        self.paging_state.as_ref()
    }

    /// Returns the warnings of the database.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl<'a> IntoIterator for &'a Rows {
    type Item = Row<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Iterates over the rows of a result in order.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    rows: &'a Rows,
    indexes: std::ops::Range<usize>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        self.indexes.next().map(|index| Row { rows: self.rows, index, first: 0 })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.indexes.size_hint()
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// The rows of one page, which ends when it has [`PAGE_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct Page(pub Rows);

/// The bytes of values after which a page ends.
const PAGE_BYTES: usize = 1 << 20;

impl RowSink for Page {
    fn begin(&mut self, metadata: &Arc<ResultMetadata>) {
        self.0.begin(metadata);
    }

    fn value(&mut self, value: Option<&[u8]>) {
        self.0.value(value);
    }

    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        self.0.value_with(write);
    }

    fn end_row(&mut self) -> Result<()> {
        self.0.end_row()
    }

    fn is_full(&self) -> bool {
        self.0.bytes.len() >= PAGE_BYTES
    }
}

impl RowSink for Rows {
    fn begin(&mut self, metadata: &Arc<ResultMetadata>) {
        self.metadata = Some(metadata.clone());
    }

    fn value(&mut self, value: Option<&[u8]>) {
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.ends.push((self.bytes.len(), value.is_none()));
    }

    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push((self.bytes.len(), false));
    }

    fn end_row(&mut self) -> Result<()> {
        self.count += 1;
        Ok(())
    }
}

/// One row of a result.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    rows: &'a Rows,
    index: usize,
    /// The index of its first value's column.
    first: usize,
}

impl<'a> Row<'a> {
    /// Converts the value of a column, by name or by index.
    ///
    /// # Errors
    /// Invalid, if the column does not exist or has another type.
    pub fn get<T: FromCql>(&self, column: impl ColumnIndex) -> Result<T> {
        let index = column.find(self.columns())?;
        let spec = &self.columns()[index];
        T::read(&spec.data_type, self.bytes(index)).map_err(|error| error.in_value(&spec.name))
    }

    /// Returns the columns of the row.
    pub fn columns(&self) -> &'a [ColumnSpec] {
        self.rows.columns().get(self.first..).unwrap_or_default()
    }

    /// Returns the bytes of the value at `index`; `None` if it is null or does not exist.
    pub fn bytes(&self, index: usize) -> Option<&'a [u8]> {
        if index >= self.columns().len() {
            return None;
        }
        let value = self.index * self.rows.columns().len() + self.first + index;
        let (end, is_null) = *self.rows.ends.get(value)?;
        let start = value.checked_sub(1).map_or(0, |before| self.rows.ends[before].0);
        (!is_null).then(|| &self.rows.bytes[start..end])
    }

    /// Returns the row without its first column.
    pub(crate) fn without_first(self) -> Self {
        Self { first: self.first + 1, ..self }
    }
}

/// One row of a result that is read page by page. It keeps its page in memory.
#[derive(Debug, Clone)]
pub struct OwnedRow {
    page: Arc<Rows>,
    index: usize,
}

impl OwnedRow {
    pub(crate) fn new(page: Arc<Rows>, index: usize) -> Self {
        Self { page, index }
    }

    /// Borrows the row.
    pub fn as_row(&self) -> Row<'_> {
        Row { rows: &self.page, index: self.index, first: 0 }
    }

    /// Converts the value of a column, by name or by index.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn get<T: FromCql>(&self, column: impl ColumnIndex) -> Result<T> {
        self.as_row().get(column)
    }

    /// Returns the columns of the row.
    pub fn columns(&self) -> &[ColumnSpec] {
        self.page.columns()
    }
}

/// The identification of a column: its name, or its index from 0.
pub trait ColumnIndex {
    /// Returns the column's index.
    fn find(&self, columns: &[ColumnSpec]) -> Result<usize>;
}

impl ColumnIndex for usize {
    fn find(&self, columns: &[ColumnSpec]) -> Result<usize> {
        if *self < columns.len() {
            Ok(*self)
        } else {
            bail_invalid!("no column {self}: the result has {}", columns.len())
        }
    }
}

impl ColumnIndex for &str {
    fn find(&self, columns: &[ColumnSpec]) -> Result<usize> {
        match columns.iter().position(|column| *column.name == **self) {
            Some(index) => Ok(index),
            None => bail_invalid!("the result has no column {self}"),
        }
    }
}
