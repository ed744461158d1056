//! The bytes of constants, with this floor's errors.

use cassette_cql::ast::Literal;
use cassette_cql::values;
use cassette_rows::DataType;

use crate::error::{DatabaseError, Result};

/// The bytes that `literal` stands for in a value of type `wanted`, to which it is assignable.
pub(super) fn literal_bytes(literal: &Literal, wanted: &DataType) -> Result<Vec<u8>> {
    values::literal_bytes(literal, wanted).map_err(|error| DatabaseError::Invalid(error.to_string()))
}
