//! Prepared statements and their execution.

use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::Arc;

use cassette::Statement as Prepared;
use cassette::convert::{BindValues, ColumnSpec, DataType, Encoded, ToCql, Written};

use crate::column_type::ColumnType;
use crate::error::{Error, call, call_or};
use crate::failure::{Failure, Status};
use crate::pointer::{c_text, free, get, handle, out, text};
use crate::rows::{Rows, store};
use crate::session::Session;

/// A prepared statement with the values of its markers. One thread at a time may use it.
pub struct Statement {
    session: Arc<cassette::Session>,
    prepared: Prepared,
    pub(crate) markers: Vec<ColumnSpec>,
    names: Vec<CString>,
    pub(crate) values: Vec<Bound>,
}

/// The value of a marker.
#[derive(Clone)]
pub(crate) enum Bound {
    Missing,
    Null,
    Unset,
    Bytes(Vec<u8>),
}

impl ToCql for Bound {
    fn write(&self, _: &DataType, out: &mut Vec<u8>) -> cassette::Result<Written> {
        Ok(match self {
            Self::Bytes(bytes) => {
                out.extend_from_slice(bytes);
                Written::Bytes
            }
            Self::Unset => Written::Unset,
            Self::Null | Self::Missing => Written::Null,
        })
    }
}

/// The values of a statement, in the order of its markers.
struct Values<'a>(&'a Statement);

impl BindValues for Values<'_> {
    fn bind(&self, markers: &[ColumnSpec], out: &mut Encoded) -> cassette::Result<()> {
        let own = &self.0.markers;
        let is_same = |(own, present): (&ColumnSpec, &ColumnSpec)| own.data_type == present.data_type;
        if own.len() != markers.len() || !own.iter().zip(markers).all(is_same) {
            let text = "the schema has changed since the statement was prepared: prepare it again";
            return Err(cassette::Error::Invalid(text.into()));
        }
        self.0.values.as_slice().bind(markers, out)
    }
}

impl Statement {
    /// Returns the marker at `index`, counted from 0.
    pub(crate) fn marker(&self, index: usize) -> Result<&ColumnSpec, Failure> {
        let count = self.markers.len();
        let missing =
            || Failure::misuse(format!("expected the index of one of {count} markers, found {index}"));
        self.markers.get(index).ok_or_else(missing)
    }
}

/// Prepares a statement, with `?` or `:name` as markers. Free it with `cassette_statement_free`.
///
/// # Safety
/// `session` is null or of this library; `cql` is null or ends with a zero byte; `statement` is
/// null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_prepare(
    session: *const Session,
    cql: *const c_char,
    statement: *mut *mut Statement,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        call(error, || {
            let mut statement = out(statement, "statement")?;
            statement.set(ptr::null_mut());
            let (session, cql) = (get(session, "session")?, text(cql, "cql")?);
            let prepared = session.0.prepare(cql)?;
            let markers = prepared.prepared().description().markers().to_vec();
            statement.set(handle(Statement {
                session: Arc::clone(&session.0),
                names: markers.iter().map(|marker| c_text(&marker.name)).collect(),
                values: vec![Bound::Missing; markers.len()],
                markers,
                prepared,
            }));
            Ok(Status::Ok)
        })
    }
}

/// Executes a statement. All of its markers must have a value, which they keep. The rows are read
/// with `cassette_step`, and freed with `cassette_rows_free`; they do not depend on the statement,
/// and `rows` may be null if they are not needed.
///
/// # Safety
/// `statement` is null or of this library; `rows` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_statement_execute(
    statement: *const Statement,
    rows: *mut *mut Rows,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        call(error, || {
            store(rows, || {
                let statement = get(statement, "statement")?;
                let is_missing = |value: &Bound| matches!(value, Bound::Missing);
                if let Some(index) = statement.values.iter().position(is_missing) {
                    let name = &statement.markers[index].name;
                    return Err(Failure::misuse(format!(
                        "marker {index} ({name}): expected a value, found none"
                    )));
                }
                Ok(statement.session.query_iter(&statement.prepared, Values(statement))?)
            })
        })
    }
}

/// Removes the values of all markers.
///
/// # Safety
/// `statement` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_statement_clear(statement: *mut Statement) {
    // SAFETY: by the contract.
    if let Some(statement) = unsafe { statement.as_mut() } {
        statement.values.fill(Bound::Missing);
    }
}

/// Returns the number of markers; 0 for null.
///
/// # Safety
/// `statement` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_marker_count(statement: *const Statement) -> usize {
    // SAFETY: by the contract.
    unsafe { statement.as_ref() }.map_or(0, |statement| statement.markers.len())
}

/// Returns the index of the first marker of this name, counted from 0; -1 if there is none. The
/// marker `?` has the name of its column.
///
/// # Safety
/// `statement` is null or of this library; `name` is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_marker_index(statement: *const Statement, name: *const c_char) -> i64 {
    call_or(-1, || {
        // SAFETY: by the contract.
        let (statement, name) = unsafe { (get(statement, "statement")?, text(name, "name")?) };
        let index = statement.markers.iter().position(|marker| &*marker.name == name);
        Ok(index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1))
    })
}

/// Returns the name of a marker, which is valid until the statement is freed; null if there is no
/// such marker.
///
/// # Safety
/// `statement` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_marker_name(statement: *const Statement, index: usize) -> *const c_char {
    // SAFETY: by the contract.
    let name = unsafe { statement.as_ref() }.and_then(|statement| statement.names.get(index));
    name.map_or(ptr::null(), |name| name.as_ptr())
}

/// Returns the type of a marker; `CASSETTE_TYPE_CUSTOM` if there is no such marker.
///
/// # Safety
/// `statement` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_marker_type(statement: *const Statement, index: usize) -> ColumnType {
    // SAFETY: by the contract.
    let marker = unsafe { statement.as_ref() }.and_then(|statement| statement.markers.get(index));
    marker.map_or(ColumnType::Custom, |marker| ColumnType::of(&marker.data_type))
}

/// Frees a statement. Its rows stay valid. Does nothing for null.
///
/// # Safety
/// `statement` is null or of this library, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_statement_free(statement: *mut Statement) {
    // SAFETY: by the contract.
    unsafe { free(statement) }
}
