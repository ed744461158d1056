//! Types of CQL as tuples of Python, which the conversions to Arrow and pandas read.

use cassette::convert::DataType;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Returns the type as a tuple: its name, and the types within. Tuples and user-defined types are
/// `struct` with pairs of names and types.
pub fn structure<'py>(py: Python<'py>, data_type: &DataType) -> PyResult<Bound<'py, PyTuple>> {
    let within = |data_type: &DataType| structure(py, data_type);
    match data_type {
        DataType::List { element, .. } => ("list", within(element)?).into_pyobject(py),
        DataType::Set { element, .. } => ("set", within(element)?).into_pyobject(py),
        DataType::Vector { element, dimension } => ("vector", within(element)?, *dimension).into_pyobject(py),
        DataType::Map { key, value, .. } => ("map", within(key)?, within(value)?).into_pyobject(py),
        DataType::Tuple(types) => {
            let fields =
                types.iter().enumerate().map(|(index, field)| Ok((index.to_string(), within(field)?)));
            let fields = fields.collect::<PyResult<Vec<_>>>()?;
            ("struct", PyTuple::new(py, fields)?).into_pyobject(py)
        }
        DataType::Udt { definition, .. } => {
            let fields = definition.fields.iter().map(|(name, field)| Ok((name.as_str(), within(field)?)));
            let fields = fields.collect::<PyResult<Vec<_>>>()?;
            ("struct", PyTuple::new(py, fields)?).into_pyobject(py)
        }
        DataType::Empty | DataType::Custom(_) => ("custom",).into_pyobject(py),
        other => (other.to_string(),).into_pyobject(py),
    }
}
