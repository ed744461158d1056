//! Values of the library, which belong to the process that created them.

use std::mem;
use std::process;

use pyo3::prelude::*;

use crate::errors::interface_error;

/// A value that refers to a database. A fork copies neither the threads of the database nor the
/// states of its locks, and shares its files, so a forked process must not use or drop it.
pub struct Owned<T: Send> {
    /// Always present, until it is dropped.
    value: Option<T>,
    process: u32,
}

impl<T: Send> Owned<T> {
    pub fn new(value: T) -> Self {
        Self { value: Some(value), process: process::id() }
    }

    /// Returns the value. Raises InterfaceError in a forked process.
    pub fn get(&self, py: Python<'_>) -> PyResult<&T> {
        match &self.value {
            Some(value) if !self.is_inherited() => Ok(value),
            _ => Err(interface_error(
                py,
                "the process was forked after the database was opened: open the database in the new process",
            )),
        }
    }

    /// Whether this is a process that was forked after the value was created.
    pub fn is_inherited(&self) -> bool {
        self.process != process::id()
    }
}

impl<T: Send> Drop for Owned<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if self.is_inherited() {
            mem::forget(value);
            return;
        }
        // The last reference stops the threads of a database, which takes time. At the end of the
        // interpreter, there is no lock to release, and the closure drops it.
        Python::try_attach(|py| py.detach(|| drop(value)));
    }
}
