//! Values of Python as values of CQL.

use std::net::IpAddr;

use cassette::convert::{ColumnSpec, DataType, ToCql, Written};
use cassette::{Unset, Value};
use num_bigint::BigInt;
use pyo3::exceptions::{PyArithmeticError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyString};
use uuid::Uuid;

use crate::errors::data_error;
use crate::helpers;

/// The value of a marker.
pub enum Parameter {
    Value(Value),
    Unset,
}

impl ToCql for Parameter {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> cassette::Result<Written> {
        match self {
            Self::Value(value) => value.write(data_type, out),
            Self::Unset => Unset.write(data_type, out),
        }
    }
}

/// Converts the value of a marker. Raises DataError if it is not a value of the marker's type.
pub fn parameter(marker: &ColumnSpec, value: &Bound<'_, PyAny>) -> PyResult<Parameter> {
    if helpers::is_unset(value)? {
        return Ok(Parameter::Unset);
    }
    let py = value.py();
    match converted(&marker.data_type, value) {
        Ok(value) => Ok(Parameter::Value(value)),
        // What conversions raise; anything else is not about the value.
        Err(error)
            if error.is_instance_of::<PyTypeError>(py)
                || error.is_instance_of::<PyValueError>(py)
                || error.is_instance_of::<PyArithmeticError>(py) =>
        {
            let (name, data_type) = (&marker.name, &marker.data_type);
            let found = value.get_type().name()?;
            let reason = error.value(py).str()?;
            let raised = data_error(py, format!("{name}: cannot convert {found} to {data_type}: {reason}"));
            raised.set_cause(py, Some(error));
            Err(raised)
        }
        Err(error) => Err(error),
    }
}

fn converted(data_type: &DataType, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    let py = value.py();
    Ok(match data_type {
        DataType::Ascii => Value::Text(text(value, str::is_ascii)?),
        DataType::Text => Value::Text(text(value, |_| true)?),
        DataType::TinyInt => Value::TinyInt(value.extract()?),
        DataType::SmallInt => Value::SmallInt(value.extract()?),
        DataType::Int => Value::Int(value.extract()?),
        DataType::BigInt | DataType::Counter => Value::BigInt(value.extract()?),
        DataType::VarInt => Value::VarInt(integer(&helpers::call(py, intern!(py, "to_varint"), (value,))?)?),
        DataType::Float => Value::Float(single(value.extract()?)?),
        DataType::Double => Value::Double(value.extract()?),
        DataType::Boolean => Value::Boolean(value.cast::<PyBool>()?.is_true()),
        DataType::Blob => Value::Blob(blob(value)?),
        DataType::Date => Value::Date(helpers::call(py, intern!(py, "to_date"), (value,))?.extract()?),
        DataType::Time => Value::Time(helpers::call(py, intern!(py, "to_time"), (value,))?.extract()?),
        DataType::Timestamp => {
            Value::Timestamp(helpers::call(py, intern!(py, "to_timestamp"), (value,))?.extract()?)
        }
        DataType::Decimal => {
            let parts = helpers::call(py, intern!(py, "to_decimal"), (value,))?;
            let (unscaled, scale): (Bound<'_, PyAny>, i32) = parts.extract()?;
            Value::Decimal { unscaled: integer(&unscaled)?, scale }
        }
        DataType::Duration => {
            let (months, days, nanoseconds) = value.extract()?;
            Value::Duration { months, days, nanoseconds }
        }
        DataType::Inet => {
            let address: Result<IpAddr, _> = value.str()?.extract::<String>()?.parse();
            Value::Inet(address.map_err(|error| PyValueError::new_err(error.to_string()))?)
        }
        DataType::Uuid | DataType::TimeUuid => {
            let bytes = helpers::call(py, intern!(py, "to_uuid"), (value,))?;
            let uuid = Uuid::from_slice(bytes.cast::<PyBytes>()?.as_bytes());
            Value::Uuid(uuid.map_err(|error| PyValueError::new_err(error.to_string()))?)
        }
        DataType::List { element, .. } | DataType::Vector { element, .. } => {
            Value::List(elements(element, value)?)
        }
        DataType::Set { element, .. } => Value::Set(elements(element, value)?),
        DataType::Map { key, value: values, .. } => Value::Map(entries(key, values, value)?),
        DataType::Tuple(types) => {
            let items = helpers::call(py, intern!(py, "to_items"), (value, types.len()))?;
            let items = types.iter().zip(items.try_iter()?);
            let items = items.map(|(data_type, item)| converted(data_type, &item?));
            Value::Tuple(items.collect::<PyResult<_>>()?)
        }
        DataType::Udt { definition, .. } => {
            let names: Vec<&str> = definition.fields.iter().map(|(name, _)| &**name).collect();
            let found = helpers::call(py, intern!(py, "to_fields"), (value, names))?;
            let fields = definition.fields.iter().zip(found.try_iter()?);
            let fields =
                fields.map(|((name, data_type), value)| Ok((name.clone(), converted(data_type, &value?)?)));
            Value::UserType(fields.collect::<PyResult<_>>()?)
        }
        DataType::Empty | DataType::Custom(_) => {
            return Err(PyTypeError::new_err("values of this type cannot be written"));
        }
    })
}

fn text(value: &Bound<'_, PyAny>, is_valid: impl FnOnce(&str) -> bool) -> PyResult<String> {
    let text: String = value.cast::<PyString>()?.extract()?;
    if is_valid(&text) { Ok(text) } else { Err(PyValueError::new_err("expected ASCII")) }
}

/// Rounds a number to single precision.
fn single(value: f64) -> PyResult<f32> {
    let rounded = value as f32;
    if rounded.is_infinite() && value.is_finite() {
        return Err(PyValueError::new_err(format!("{value:e} is out of the range")));
    }
    Ok(rounded)
}

fn elements(element: &DataType, values: &Bound<'_, PyAny>) -> PyResult<Vec<Value>> {
    if values.is_instance_of::<PyString>() || values.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err("expected a collection"));
    }
    values.try_iter()?.map(|value| converted(element, &value?)).collect()
}

fn entries(key: &DataType, value: &DataType, map: &Bound<'_, PyAny>) -> PyResult<Vec<(Value, Value)>> {
    let py = map.py();
    let entries = helpers::call(py, intern!(py, "to_entries"), (map,))?;
    let entries = entries.cast::<PyDict>()?.iter();
    entries.map(|(k, v)| Ok((converted(key, &k)?, converted(value, &v)?))).collect()
}

/// Returns an integer from its bytes.
fn integer(bytes: &Bound<'_, PyAny>) -> PyResult<BigInt> {
    Ok(BigInt::from_signed_bytes_be(bytes.cast::<PyBytes>()?.as_bytes()))
}

fn blob(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let py = value.py();
    Ok(helpers::call(py, intern!(py, "to_bytes"), (value,))?.cast::<PyBytes>()?.as_bytes().to_vec())
}
