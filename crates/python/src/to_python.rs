//! Values of CQL as values of Python.

use cassette::Value;
use cassette::convert::DataType;
use num_bigint::BigInt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyList, PySet, PyTuple};
use pyo3::{IntoPyObjectExt, intern};

use crate::errors::exception;
use crate::helpers;

/// Whether a value is an element of a set or a key of a map, which Python has to hash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hashed {
    Yes,
    No,
}

/// Converts the value of a column.
pub fn converted<'py>(py: Python<'py>, data_type: &DataType, value: Value) -> PyResult<Bound<'py, PyAny>> {
    within(py, data_type, value, Hashed::No)
}

fn within<'py>(
    py: Python<'py>,
    data_type: &DataType,
    value: Value,
    hashed: Hashed,
) -> PyResult<Bound<'py, PyAny>> {
    let integer = |value: &BigInt| PyBytes::new(py, &value.to_signed_bytes_be());
    match (value, data_type) {
        (Value::Null, _) => Ok(py.None().into_bound(py)),
        (Value::Text(text), _) => text.into_bound_py_any(py),
        (Value::TinyInt(value), _) => value.into_bound_py_any(py),
        (Value::SmallInt(value), _) => value.into_bound_py_any(py),
        (Value::Int(value), _) => value.into_bound_py_any(py),
        (Value::BigInt(value), _) => value.into_bound_py_any(py),
        (Value::Float(value), _) => value.into_bound_py_any(py),
        (Value::Double(value), _) => value.into_bound_py_any(py),
        (Value::Boolean(value), _) => value.into_bound_py_any(py),
        (Value::Blob(bytes), _) => Ok(PyBytes::new(py, &bytes).into_any()),
        (Value::VarInt(value), _) => helpers::call(py, intern!(py, "varint"), (integer(&value),)),
        (Value::Decimal { unscaled, scale }, _) => {
            helpers::call(py, intern!(py, "decimal"), (integer(&unscaled), scale))
        }
        (Value::Date(days), _) => helpers::call(py, intern!(py, "date"), (days,)),
        (Value::Time(nanoseconds), _) => helpers::call(py, intern!(py, "Time"), (nanoseconds,)),
        (Value::Timestamp(millis), _) => helpers::call(py, intern!(py, "timestamp"), (millis,)),
        (Value::Duration { months, days, nanoseconds }, _) => {
            helpers::call(py, intern!(py, "Duration"), (months, days, nanoseconds))
        }
        (Value::Inet(address), _) => address.to_string().into_bound_py_any(py),
        (Value::Uuid(uuid), _) => {
            helpers::call(py, intern!(py, "uuid"), (PyBytes::new(py, uuid.as_bytes()),))
        }
        (Value::List(values), DataType::List { element, .. } | DataType::Vector { element, .. }) => {
            let values = elements(py, element, values, hashed)?;
            match hashed {
                Hashed::Yes => Ok(PyTuple::new(py, values)?.into_any()),
                Hashed::No => Ok(PyList::new(py, values)?.into_any()),
            }
        }
        (Value::Set(values), DataType::Set { element, .. }) => {
            let values = elements(py, element, values, Hashed::Yes)?;
            match hashed {
                Hashed::Yes => Ok(PyFrozenSet::new(py, values)?.into_any()),
                Hashed::No => Ok(PySet::new(py, values)?.into_any()),
            }
        }
        (Value::Map(entries), DataType::Map { key, value, .. }) => map(py, (key, value), entries, hashed),
        (Value::Tuple(values), DataType::Tuple(types)) => {
            let values = values.into_iter().zip(types.iter());
            let values = values.map(|(value, data_type)| within(py, data_type, value, hashed));
            Ok(PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        (Value::UserType(fields), DataType::Udt { definition, .. }) => {
            let names: Vec<&str> = definition.fields.iter().map(|(name, _)| &**name).collect();
            let values = fields.into_iter().zip(&definition.fields);
            let values = values.map(|((_, value), (_, data_type))| within(py, data_type, value, hashed));
            let values = PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?;
            let arguments = (&definition.name, PyTuple::new(py, names)?, values);
            helpers::call(py, intern!(py, "user_type"), arguments)
        }
        (other, data_type) => {
            let message = format!("cannot convert a value of {data_type} to Python: {other:?}");
            Err(exception(py, &cassette::Error::Server(message)))
        }
    }
}

fn map<'py>(
    py: Python<'py>,
    (key_type, value_type): (&DataType, &DataType),
    entries: Vec<(Value, Value)>,
    hashed: Hashed,
) -> PyResult<Bound<'py, PyAny>> {
    let mut items = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        items.push((within(py, key_type, key, Hashed::Yes)?, within(py, value_type, value, hashed)?));
    }
    if hashed == Hashed::Yes {
        return Ok(PyTuple::new(py, items)?.into_any());
    }
    let map = PyDict::new(py);
    for (key, value) in items {
        map.set_item(key, value)?;
    }
    Ok(map.into_any())
}

fn elements<'py>(
    py: Python<'py>,
    element: &DataType,
    values: Vec<Value>,
    hashed: Hashed,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    values.into_iter().map(|value| within(py, element, value, hashed)).collect()
}
