//! Pointers of callers.

use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::slice;

use crate::failure::Failure;

/// Returns what a required pointer points to.
///
/// # Safety
/// The pointer is null, or valid and not written to for `'a`.
pub unsafe fn get<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: valid, as the caller of the library guarantees.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::null(name))
}

/// Does the same for something that changes.
///
/// # Safety
/// The pointer is null, or valid and not used otherwise for `'a`.
pub unsafe fn get_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: valid and not aliased, as the caller of the library guarantees.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::null(name))
}

/// A place for a result, which need not be initialized.
pub struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// Stores the result.
    pub fn set(&mut self, value: T) {
        // SAFETY: may be written to, by the contract of `out`.
        unsafe { self.0.write(value) };
    }
}

/// Returns a required place for a result.
///
/// # Safety
/// The pointer is null, or aligned and may be written to as long as the place is used.
pub unsafe fn out<T>(pointer: *mut T, name: &str) -> Result<Out<T>, Failure> {
    NonNull::new(pointer).map(Out).ok_or_else(|| Failure::null(name))
}

/// Returns a text in UTF-8 that ends with a zero byte.
///
/// # Safety
/// As [`get`].
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: a text that ends, as the caller of the library guarantees.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::misuse(format!("{name}: expected UTF-8")))
}

/// Returns `length` bytes; the pointer may be null if there are none.
///
/// # Safety
/// As [`get`].
pub unsafe fn bytes<'a>(pointer: *const u8, length: usize, name: &str) -> Result<&'a [u8], Failure> {
    match (pointer.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::null(name)),
        // No object is larger: a negative number that was converted.
        (false, length) if isize::try_from(length).is_err() => Err(Failure::misuse(format!(
            "{name}: expected a length of at most {}, found {length}",
            isize::MAX
        ))),
        // SAFETY: of this length, as the caller of the library guarantees.
        (false, _) => Ok(unsafe { slice::from_raw_parts(pointer, length) }),
    }
}

/// Moves a value into a handle, which [`free`] frees.
pub fn handle<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Frees a handle; null is no handle. A panic ends here; the process has reported it.
///
/// # Safety
/// The handle is of [`handle`], and is not used again.
pub unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: from `handle`, and the last use.
        let freed = unsafe { Box::from_raw(handle) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(freed)));
    }
}

/// Returns a text that ends with a zero byte. Zero bytes within are replaced.
pub fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}
