//! Errors of the library as exceptions of the DB-API.

use cassette::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Returns the exception for an error, with its code in the native protocol and its kind.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let kind = error.kind();
    let class = match kind {
        ErrorKind::Syntax
        | ErrorKind::Invalid
        | ErrorKind::AlreadyExists
        | ErrorKind::Unauthorized
        | ErrorKind::ReadOnly
        | ErrorKind::Config => "ProgrammingError",
        ErrorKind::Closed => "InterfaceError",
        ErrorKind::Internal => "InternalError",
        _ => "OperationalError",
    };
    // The line counts from 1, the column from 0.
    let line = error.position().map(|(line, _)| line);
    let column = error.position().map(|(_, column)| column.saturating_add(1));
    let arguments = (error.to_string(), error.code(), format!("{kind:?}"), line, column);
    match class_of(py, class) {
        Ok(class) => PyErr::from_type(class, arguments),
        Err(error) => error,
    }
}

/// Returns the exception for a value that does not fit its type.
pub fn data_error(py: Python<'_>, message: String) -> PyErr {
    with_message(py, "DataError", message)
}

/// Returns the exception for a wrong call.
pub fn interface_error(py: Python<'_>, message: impl Into<String>) -> PyErr {
    with_message(py, "InterfaceError", message.into())
}

/// Returns the exception for a panic of the library.
pub fn internal_error(py: Python<'_>, message: &str) -> PyErr {
    with_message(py, "InternalError", format!("internal error: {message}"))
}

fn with_message(py: Python<'_>, class: &str, message: String) -> PyErr {
    match class_of(py, class) {
        Ok(class) => PyErr::from_type(class, (message,)),
        Err(error) => error,
    }
}

fn class_of<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(py.import("cassette._errors")?.getattr(name)?.cast_into::<PyType>()?)
}
