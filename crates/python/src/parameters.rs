//! The values of a statement.

use std::sync::{Mutex, PoisonError};

use cassette::convert::{BindValues, ColumnSpec, Encoded};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString, PyTuple};

use crate::from_python::{Parameter, parameter};

enum Values {
    ByPosition(Vec<Py<PyAny>>),
    ByName(Py<PyDict>),
}

/// Values of Python. They are converted when the statement is planned, to the types of its markers.
pub struct Parameters {
    values: Values,
    /// The exception of a conversion.
    raised: Mutex<Option<PyErr>>,
}

impl Parameters {
    pub fn new(parameters: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let values = match parameters {
            None => Values::ByPosition(Vec::new()),
            Some(values) if values.is_instance_of::<PyTuple>() || values.is_instance_of::<PyList>() => {
                Values::ByPosition(sequence(values)?)
            }
            Some(values) if values.cast::<PyMapping>().is_ok() => {
                let names = values.py().get_type::<PyDict>().call1((values,))?;
                Values::ByName(names.cast_into::<PyDict>()?.unbind())
            }
            // Their elements are values of other types than those that were meant.
            Some(text) if text.is_instance_of::<PyString>() || text.is_instance_of::<PyBytes>() => {
                let found = text.get_type();
                return Err(PyTypeError::new_err(format!(
                    "expected a sequence or a mapping of values, found {found}"
                )));
            }
            Some(values) => Values::ByPosition(sequence(values)?),
        };
        Ok(Self { values, raised: Mutex::new(None) })
    }

    /// Takes the exception of a conversion, whose statement fails.
    pub fn raised(self) -> Option<PyErr> {
        self.raised.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Converts the values to the types of the markers.
    fn converted(
        &self,
        py: Python<'_>,
        markers: &[ColumnSpec],
    ) -> PyResult<Result<Vec<Parameter>, Mismatch>> {
        let mut converted = Vec::with_capacity(markers.len());
        match &self.values {
            Values::ByPosition(values) => {
                if values.len() != markers.len() {
                    return Ok(Err(Mismatch::Count(values.len())));
                }
                for (marker, value) in markers.iter().zip(values) {
                    converted.push(parameter(marker, value.bind(py))?);
                }
            }
            Values::ByName(values) => {
                for marker in markers {
                    let Some(value) = values.bind(py).get_item(&*marker.name)? else {
                        return Ok(Err(Mismatch::Name(marker.name.to_string())));
                    };
                    converted.push(parameter(marker, &value)?);
                }
            }
        }
        Ok(Ok(converted))
    }
}

fn sequence(values: &Bound<'_, PyAny>) -> PyResult<Vec<Py<PyAny>>> {
    values.try_iter()?.map(|value| Ok(value?.unbind())).collect()
}

/// Why values are not those of the markers.
enum Mismatch {
    Count(usize),
    Name(String),
}

impl BindValues for Parameters {
    fn bind(&self, markers: &[ColumnSpec], out: &mut Encoded) -> cassette::Result<()> {
        match Python::attach(|py| self.converted(py, markers)) {
            Ok(Ok(values)) => values.bind(markers, out),
            // Cassandra's messages.
            Ok(Err(Mismatch::Count(found))) => Err(cassette::Error::Invalid(format!(
                "there were {} markers(?) in CQL but {found} bound variables",
                markers.len()
            ))),
            Ok(Err(Mismatch::Name(name))) => {
                Err(cassette::Error::Invalid(format!("Missing value for bind marker {name}")))
            }
            Err(raised) => {
                *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
                Err(cassette::Error::Invalid("cannot convert the values".to_owned()))
            }
        }
    }
}
