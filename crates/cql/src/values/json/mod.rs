//! Values as JSON: what `SELECT JSON` and `to_json` write, what `INSERT JSON` and `from_json` read.

mod decode;
mod document;
mod encode;

pub use decode::{JsonColumn, decode_row, decode_value};
pub use document::Json;
pub use encode::{encode_row, encode_value, quote_name};
