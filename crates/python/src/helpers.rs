//! Functions in Python that convert values.

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyModule, PyString};

/// The module with the conversions.
const MODULE: &str = "cassette._values";

fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static CACHED: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    Ok(CACHED.get_or_try_init(py, || py.import(MODULE).map(Bound::unbind))?.bind(py))
}

/// Calls the function of this name.
pub fn call<'py, A>(py: Python<'py>, name: &Bound<'py, PyString>, arguments: A) -> PyResult<Bound<'py, PyAny>>
where
    A: PyCallArgs<'py>,
{
    module(py)?.getattr(name)?.call1(arguments)
}

/// Returns whether a value is the one that omits a column.
pub fn is_unset(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    static UNSET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let unset = UNSET.get_or_try_init(py, || Ok::<_, PyErr>(module(py)?.getattr("UNSET")?.unbind()))?;
    Ok(value.is(unset))
}
