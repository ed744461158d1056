//! The module `cassette._embedded` of the Python package `cassette-db`: databases in the process.
//!
//! It has what needs the library: databases, sessions, rows, and values by type. The connections
//! and cursors of the DB-API are in Python, in `kits/python/src/cassette`, as are the conversions
//! of dates, numbers and identifiers, which need Python's classes.
//!
//! Calls of the library release the lock of the interpreter, and their panics become exceptions.

use pyo3::prelude::*;

mod call;
mod database;
mod errors;
mod from_python;
mod helpers;
mod owned;
mod parameters;
mod rows;
mod signals;
mod to_python;
mod types;

/// Databases in the process of the interpreter.
#[pymodule]
mod _embedded {
    #[pymodule_export]
    use crate::database::{Database, Session};
    #[pymodule_export]
    use crate::rows::Rows;
}
