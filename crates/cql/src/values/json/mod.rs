//! Values as JSON, for `SELECT JSON`, `to_json`, `INSERT JSON` and `from_json`.

mod decode;
mod document;
mod encode;

pub use decode::{JsonColumn, decode_row, decode_value};
pub use document::Json;
pub use encode::{encode_row, encode_value, quote_name};
