//! `to_json` and `from_json`.

use cassette_rows::types::DataType;

use super::ScalarFunction;
use super::resolve::{Argument, known_types};
use crate::values::ValueError;
use crate::values::json::{Json, decode_value, encode_value};
use crate::values::number::check_lengths;
use crate::values::text::encode_hex;

/// Returns the function called `name`, in the present naming or in that before 5.0.
pub(super) fn resolve(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&DataType>,
) -> Result<Option<ScalarFunction>, ValueError> {
    match name {
        "to_json" | "tojson" => {
            let types = known_types(&format!("system.{name}(any)"), arguments, 1..=1, &[])?;
            Ok(Some(ScalarFunction::new(name, types, DataType::Text, |function, values, _| {
                let from = &function.arguments[0];
                let has_empty = matches!(from, DataType::Text | DataType::Ascii | DataType::Blob);
                let value = values[0].filter(|bytes| !bytes.is_empty() || has_empty);
                if let Some(bytes) = value {
                    check_lengths(from, bytes)?;
                }
                Ok(Some(
                    value.map_or_else(|| "null".to_owned(), |bytes| encode_value(from, bytes)).into_bytes(),
                ))
            })))
        }
        "from_json" | "fromjson" => {
            known_types(&format!("system.{name}(text)"), arguments, 1..=1, &[Some(DataType::Text)])?;
            let Some(receiver) = receiver else {
                return Err(ValueError::invalid(format!(
                    "{name}() cannot be used in the selection clause of a SELECT statement"
                )));
            };
            Ok(Some(ScalarFunction::new(name, [DataType::Text], receiver.clone(), |function, values, _| {
                let Some(bytes) = values[0] else { return Ok(None) };
                let text = String::from_utf8_lossy(bytes);
                let json = Json::parse(&text).map_err(|reason| {
                    function.failure(format!(
                        "execution of 'system.{}[text]' failed: Could not decode JSON string '{text}': {reason}",
                        function.name
                    ))
                })?;
                if json == Json::Null {
                    return Ok(None);
                }
                let value = decode_value(&function.returns, &json).map_err(|reason| match reason {
                    ValueError::InvalidPart(_) => reason,
                    reason => function
                        .failure(format!("org.apache.cassandra.serializers.MarshalException: {reason}")),
                })?;
                // An empty text means an empty value, which durations do not have.
                match function.returns.validate(&value) {
                    Ok(()) => Ok(Some(value)),
                    Err(_) => Err(ValueError::invalid(format!(
                        "Return of function system.{0} : (text) -> {1} ({2}) is not a valid value for its \
                         declared return type {1}",
                        function.name,
                        function.returns,
                        encode_hex(&value),
                    ))),
                }
            })))
        }
        _ => Ok(None),
    }
}
