//! Errors with their messages, and the calls that return them.

use std::any::Any;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::failure::{Failure, Status};
use crate::pointer::{c_text, free, handle};

/// What failed. Freed with `cassette_error_free`.
pub struct Error {
    status: Status,
    message: CString,
    line: u32,
    column: u32,
}

/// Returns the error of a failure.
fn error_of(failure: Failure) -> Error {
    let status = failure.status();
    let (message, place) = match failure {
        Failure::Misuse(message) => (message, None),
        Failure::Database(error) => (error.to_string(), error.position()),
    };
    // The line counts from 1, the column from 0.
    let (line, column) = place.map_or((0, 0), |(line, column)| (line, column.saturating_add(1)));
    Error { status, message: c_text(&message), line, column }
}

/// Runs a call. Its failure, or panic, becomes a code, and an error in `error` unless that is null.
///
/// # Safety
/// `error` is null, or may be written to.
pub(crate) unsafe fn call(error: *mut *mut Error, work: impl FnOnce() -> Result<Status, Failure>) -> Status {
    if !error.is_null() {
        // SAFETY: not null.
        unsafe { error.write(ptr::null_mut()) };
    }
    let failed = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(status)) => return status,
        Ok(Err(failure)) => error_of(failure),
        Err(panic) => {
            let message = c_text(&format!("internal error: {}", panic_text(&*panic)));
            Error { status: Status::Internal, message, line: 0, column: 0 }
        }
    };
    let status = failed.status;
    if !error.is_null() {
        // SAFETY: not null.
        unsafe { error.write(handle(failed)) };
    }
    status
}

/// Runs a call without an error: a failure or a panic has the result `otherwise`.
pub(crate) fn call_or<T>(otherwise: T, work: impl FnOnce() -> Result<T, Failure>) -> T {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => value,
        _ => otherwise,
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic")
}

/// Returns the code of an error; `CASSETTE_STATUS_OK` for null.
///
/// # Safety
/// `error` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_error_status(error: *const Error) -> Status {
    // SAFETY: valid, by the contract.
    unsafe { error.as_ref() }.map_or(Status::Ok, |error| error.status)
}

/// Returns the message of an error in UTF-8, which is valid until the error is freed; an empty text
/// for null.
///
/// # Safety
/// `error` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_error_message(error: *const Error) -> *const c_char {
    // SAFETY: valid, by the contract.
    unsafe { error.as_ref() }.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// Returns the line of a syntax error in the statement, from 1; 0 if there is none.
///
/// # Safety
/// `error` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_error_line(error: *const Error) -> u32 {
    // SAFETY: valid, by the contract.
    unsafe { error.as_ref() }.map_or(0, |error| error.line)
}

/// Returns the column of a syntax error in its line, from 1; 0 if there is none.
///
/// # Safety
/// `error` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_error_column(error: *const Error) -> u32 {
    // SAFETY: valid, by the contract.
    unsafe { error.as_ref() }.map_or(0, |error| error.column)
}

/// Frees an error. Does nothing for null.
///
/// # Safety
/// `error` is null or of this library, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_error_free(error: *mut Error) {
    // SAFETY: by the contract.
    unsafe { free(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_internal_error_with_its_message() {
        let mut error = ptr::null_mut();
        // SAFETY: of this stack.
        let status = unsafe { call(&raw mut error, || panic!("the reason {}", 7)) };
        assert_eq!(status, Status::Internal);
        // SAFETY: an error of this library.
        let message = unsafe { std::ffi::CStr::from_ptr(cassette_error_message(error)) };
        assert_eq!(message.to_str().unwrap(), "internal error: the reason 7");
        // SAFETY: the last use.
        unsafe { cassette_error_free(error) };
        // SAFETY: null is permitted.
        assert_eq!(unsafe { call(ptr::null_mut(), || panic!("unseen")) }, Status::Internal);
        assert_eq!(call_or(3, || panic!("unseen")), 3);
    }
}
