//! `int_as_blob`, `blob_as_int` and similar functions, which change only the type.

use cassette_rows::types::DataType;

use super::ScalarFunction;
use crate::ast::NativeType;
use crate::values::ValueError;
use crate::values::text::encode_hex;

/// Returns the functions called `name`, in the present naming or in that before 5.0.
pub(super) fn functions(name: &str) -> Vec<ScalarFunction> {
    let from_blob = name.strip_prefix("blob_as_").or_else(|| name.strip_prefix("blobas"));
    if let Some(data_type) = from_blob.and_then(named_type) {
        return vec![ScalarFunction::new(name, [DataType::Blob], data_type, |function, values, _| {
            let Some(bytes) = values[0] else { return Ok(None) };
            match function.returns.validate(bytes) {
                Ok(()) => Ok(Some(bytes.to_vec())),
                Err(_) => Err(ValueError::invalid(format!(
                    "In call to function system.{}, value 0x{} is not a valid binary representation for type {}",
                    function.name,
                    encode_hex(bytes),
                    function.returns
                ))),
            }
        })];
    }
    let to_blob = name.strip_suffix("_as_blob").or_else(|| name.strip_suffix("asblob"));
    match to_blob.and_then(named_type) {
        Some(data_type) => vec![ScalarFunction::new(name, [data_type], DataType::Blob, |_, values, _| {
            Ok(values[0].map(<[u8]>::to_vec))
        })],
        None => Vec::new(),
    }
}

/// Returns the native type of this name, except `blob`.
fn named_type(name: &str) -> Option<DataType> {
    if name == "empty" {
        return Some(DataType::Empty);
    }
    let native = NativeType::ALL.iter().find(|native| native.name() == name)?;
    Some(native.data_type()).filter(|data_type| *data_type != DataType::Blob)
}
