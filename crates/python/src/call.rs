//! Calls of the library.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;

use crate::errors::{exception, internal_error};
use crate::signals;

/// Runs work of the library without the lock of the interpreter. An error or a panic becomes an
/// exception; so does a signal whose handler raises one meanwhile.
pub fn call<T: Send>(py: Python<'_>, work: impl FnOnce() -> cassette::Result<T> + Send) -> PyResult<T> {
    match signals::detached(py, || catch_unwind(AssertUnwindSafe(work)))? {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(exception(py, &error)),
        Err(panic) => Err(internal_error(py, panic_text(&*panic))),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic")
}
