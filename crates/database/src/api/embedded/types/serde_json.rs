//! `serde_json`: a `Value` is a value of any type, in the JSON of CQL's `INSERT JSON` and `SELECT
//! JSON`.

use cassette_cql::values::json;
use cassette_rows::DataType;
use serde_json::Value;

use crate::api::embedded::{FromCql, ToCql, Written};
use crate::basics::error::{DatabaseError, Result};

impl ToCql for Value {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        if self.is_null() {
            return Ok(Written::Null);
        }
        let document = json::Json::parse(&self.to_string()).map_err(DatabaseError::Invalid)?;
        out.extend_from_slice(&json::decode_value(data_type, &document)?);
        Ok(Written::Bytes)
    }
}

impl FromCql for Value {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        let Some(bytes) = bytes else { return Ok(Self::Null) };
        let text = json::encode_value(data_type, bytes);
        serde_json::from_str(&text)
            .map_err(|error| DatabaseError::Invalid(format!("cannot convert {data_type} to JSON: {error}")))
    }
}
