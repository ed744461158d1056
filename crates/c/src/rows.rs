//! Rows, read one after the other.

use std::ffi::{CString, c_char};
use std::ptr;

use cassette::convert::ColumnSpec;
use cassette::{OwnedRow, RowIter};

use crate::column_type::ColumnType;
use crate::error::{Error, call};
use crate::failure::{Failure, Status};
use crate::pointer::{c_text, free, get_mut, handle, out};

/// The rows of a statement, of which one page is in memory. One thread at a time may use them.
pub struct Rows {
    pages: RowIter,
    pub(crate) row: Option<OwnedRow>,
    is_ended: bool,
    names: Vec<CString>,
    type_names: Vec<CString>,
    /// The texts that were returned for values of the row.
    pub(crate) texts: Vec<CString>,
}

impl Rows {
    pub(crate) fn new(pages: RowIter) -> Self {
        let names = pages.columns().iter().map(|column| c_text(&column.name)).collect();
        let type_names = pages.columns().iter().map(|column| c_text(&column.data_type.to_string())).collect();
        Self { pages, row: None, is_ended: false, names, type_names, texts: Vec::new() }
    }

    /// Returns a column by its index, counted from 0.
    pub(crate) fn column(&self, index: usize) -> Result<&ColumnSpec, Failure> {
        let columns = self.pages.columns();
        let missing = || {
            Failure::misuse(format!("expected the index of one of {} columns, found {index}", columns.len()))
        };
        columns.get(index).ok_or_else(missing)
    }

    /// Returns the bytes of a value of the row; `None` for null.
    pub(crate) fn value(&self, index: usize) -> Result<Option<&[u8]>, Failure> {
        self.column(index)?;
        let missing = || Failure::misuse("there is no row: call cassette_step first, until it returns DONE");
        Ok(self.row.as_ref().ok_or_else(missing)?.as_row().bytes(index))
    }
}

/// Executes a statement, and stores its rows at `place`, which may be null if they are not needed.
///
/// # Safety
/// `place` is null or may be written to.
pub(crate) unsafe fn store(
    place: *mut *mut Rows,
    execute: impl FnOnce() -> Result<RowIter, Failure>,
) -> Result<Status, Failure> {
    // SAFETY: by the contract. The place is optional.
    let mut place = unsafe { out(place, "rows") }.ok();
    if let Some(place) = &mut place {
        place.set(ptr::null_mut());
    }
    let found = execute()?;
    if let Some(place) = &mut place {
        place.set(handle(Rows::new(found)));
    }
    Ok(Status::Ok)
}

/// Proceeds to the next row: `CASSETTE_STATUS_ROW` if there is one, `CASSETTE_STATUS_DONE` at the
/// end, or another code if it cannot be read, which also ends the rows. What was returned for the
/// row before is not valid any more.
///
/// # Safety
/// `rows` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_step(rows: *mut Rows, error: *mut *mut Error) -> Status {
    // SAFETY: by the contract.
    unsafe {
        call(error, || {
            let rows = get_mut(rows, "rows")?;
            rows.texts.clear();
            rows.row = None;
            if rows.is_ended {
                return Ok(Status::Done);
            }
            // A failure ends the rows, also if it is a panic.
            rows.is_ended = true;
            rows.row = rows.pages.next().transpose()?;
            rows.is_ended = rows.row.is_none();
            Ok(if rows.row.is_some() { Status::Row } else { Status::Done })
        })
    }
}

/// Returns the number of columns; 0 for null, and for statements without rows.
///
/// # Safety
/// `rows` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_count(rows: *const Rows) -> usize {
    // SAFETY: by the contract.
    unsafe { rows.as_ref() }.map_or(0, |rows| rows.names.len())
}

/// Returns the name of a column, which is valid until the rows are freed; null if there is no such
/// column.
///
/// # Safety
/// `rows` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_name(rows: *const Rows, index: usize) -> *const c_char {
    // SAFETY: by the contract.
    let name = unsafe { rows.as_ref() }.and_then(|rows| rows.names.get(index));
    name.map_or(ptr::null(), |name| name.as_ptr())
}

/// Returns the type of a column; `CASSETTE_TYPE_CUSTOM` if there is no such column.
///
/// # Safety
/// `rows` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_type(rows: *const Rows, index: usize) -> ColumnType {
    // SAFETY: by the contract.
    let column = unsafe { rows.as_ref() }.and_then(|rows| rows.pages.columns().get(index));
    column.map_or(ColumnType::Custom, |column| ColumnType::of(&column.data_type))
}

/// Returns the type of a column in CQL, such as `list<int>`, which is valid until the rows are
/// freed; null if there is no such column.
///
/// # Safety
/// `rows` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_column_type_name(rows: *const Rows, index: usize) -> *const c_char {
    // SAFETY: by the contract.
    let name = unsafe { rows.as_ref() }.and_then(|rows| rows.type_names.get(index));
    name.map_or(ptr::null(), |name| name.as_ptr())
}

/// Frees rows, also before their end. Does nothing for null.
///
/// # Safety
/// `rows` is null or of this library, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_rows_free(rows: *mut Rows) {
    // SAFETY: by the contract.
    unsafe { free(rows) }
}
