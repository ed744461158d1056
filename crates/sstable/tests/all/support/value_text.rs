//! Values as sstabledump shows them, of the few types that the random tables have.

use cassette_rows::DataType;
use cassette_sstable::dump::{Hex, ValueText};

/// Shows integers, text, blobs and time UUIDs.
pub struct Simple;

impl ValueText for Simple {
    fn json(&self, data_type: &DataType, value: &[u8]) -> String {
        match data_type {
            DataType::Int | DataType::BigInt | DataType::TinyInt if !value.is_empty() => {
                integer(value).to_string()
            }
            DataType::Blob => Hex.json(data_type, value),
            _ => serde_json::Value::from(self.text(data_type, value)).to_string(),
        }
    }

    fn literal(&self, data_type: &DataType, value: &[u8]) -> String {
        self.text(data_type, value)
    }

    fn text(&self, data_type: &DataType, value: &[u8]) -> String {
        match data_type {
            _ if value.is_empty() => String::new(),
            DataType::Int | DataType::BigInt | DataType::TinyInt => integer(value).to_string(),
            DataType::Text => String::from_utf8(value.to_vec()).unwrap(),
            DataType::TimeUuid => uuid::Uuid::from_slice(value).unwrap().to_string(),
            // As text, blobs go without the prefix that they have in JSON.
            _ => Hex.text(data_type, value).split_off(2),
        }
    }
}

fn integer(value: &[u8]) -> i64 {
    let negative = value[0] >= 0x80;
    value.iter().fold(if negative { -1 } else { 0 }, |number, byte| number << 8 | i64::from(*byte))
}
