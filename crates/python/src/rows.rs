//! The rows of a statement.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cassette::convert::ColumnSpec;
use cassette::{OwnedRow, Row, RowIter, Value};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::call::call;
use crate::errors::interface_error;
use crate::owned::Owned;
use crate::to_python;
use crate::types;

/// Rows that are read page by page, or all rows and the index of the next one.
pub enum Source {
    Pages(Box<RowIter>),
    All(Box<cassette::Rows>, usize),
}

impl Source {
    pub fn pages(pages: RowIter) -> Self {
        Self::Pages(Box::new(pages))
    }

    pub fn all(rows: cassette::Rows) -> Self {
        Self::All(Box::new(rows), 0)
    }

    fn columns(&self) -> &[ColumnSpec] {
        match self {
            Self::Pages(pages) => pages.columns(),
            Self::All(rows, _) => rows.columns(),
        }
    }

    /// Reads the next rows: at most `count`, and less only at the end.
    fn read(&mut self, count: usize, columns: &[ColumnSpec]) -> cassette::Result<Vec<Vec<Value>>> {
        let mut read = Vec::new();
        match self {
            Self::Pages(pages) => {
                // The last row whose columns were compared. Rows of a page share theirs.
                let mut compared: Option<OwnedRow> = None;
                for row in pages.by_ref().take(count) {
                    let row = row?;
                    read.push(values(row.as_row())?);
                    let is_compared = |last: &OwnedRow| std::ptr::eq(last.columns(), row.columns());
                    if !compared.as_ref().is_some_and(is_compared) {
                        check_columns(row.columns(), columns)?;
                        compared = Some(row);
                    }
                }
            }
            Self::All(rows, next) => {
                while let Some(row) = rows.get(*next).filter(|_| read.len() < count) {
                    read.push(values(row)?);
                    *next += 1;
                }
            }
        }
        Ok(read)
    }
}

fn values(row: Row<'_>) -> cassette::Result<Vec<Value>> {
    (0..row.columns().len()).map(|index| row.get(index)).collect()
}

/// Compares the columns of a page with those of the first one.
fn check_columns(found: &[ColumnSpec], expected: &[ColumnSpec]) -> cassette::Result<()> {
    if found == expected {
        return Ok(());
    }
    let message =
        "cannot read the next page: a schema change has altered the columns; execute the statement again";
    Err(cassette::Error::Invalid(message.to_owned()))
}

/// The rows of a statement.
#[pyclass(frozen)]
pub struct Rows {
    columns: Vec<ColumnSpec>,
    source: Owned<Mutex<Source>>,
    /// Whether rows have been read and not returned: they are lost, so those that follow must not
    /// be taken for the rest.
    is_incomplete: AtomicBool,
}

impl Rows {
    pub fn new(source: Source) -> Self {
        let columns = source.columns().to_vec();
        Self { columns, source: Owned::new(Mutex::new(source)), is_incomplete: AtomicBool::new(false) }
    }
}

#[pymethods]
impl Rows {
    /// The names and the types of the columns; empty for statements without rows.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        let column = |column: &ColumnSpec| (column.name.to_string(), column.data_type.to_string());
        self.columns.iter().map(column).collect()
    }

    /// The types of the columns as tuples: a name, and the types within.
    #[getter]
    fn types<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        self.columns.iter().map(|column| types::structure(py, &column.data_type)).collect()
    }

    /// Returns the next rows as tuples: at most `count`, and less only at the end.
    fn fetch<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyList>> {
        if count == 0 {
            return Err(PyValueError::new_err("expected at least 1 row, found 0"));
        }
        let source = self.source.get(py)?;
        let read = call(py, || {
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_incomplete.swap(true, Ordering::AcqRel) {
                return Ok(None);
            }
            source.read(count, &self.columns).map(Some)
        })?;
        let Some(read) = read else {
            let message = "reading the rows has failed before, or another thread reads them: \
                           execute the statement again, with a cursor for each thread";
            return Err(interface_error(py, message));
        };
        let converted = self.converted(py, read)?;
        self.is_incomplete.store(false, Ordering::Release);
        Ok(converted)
    }
}

impl Rows {
    fn converted<'py>(&self, py: Python<'py>, rows: Vec<Vec<Value>>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for row in rows {
            let values = row.into_iter().zip(&self.columns);
            let values = values.map(|(value, column)| to_python::converted(py, &column.data_type, value));
            list.append(PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?)?;
        }
        Ok(list)
    }
}
