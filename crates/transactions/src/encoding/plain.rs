//! Layout 1: a partition for each start. Key VAR_LONG(start), column `t`, value VAR_LONG(commit), or VAR_LONG(-1) when aborted.

use super::{DecodeError, var_long};
use crate::timestamp::{Conclusion, Timestamp};

/// The one column.
pub const COLUMN: &[u8] = b"t";

/// The key of a start's partition.
pub fn row(start: Timestamp) -> Vec<u8> {
    var_long::encode(start.0)
}

/// The start whose partition has this key.
pub fn start(row: &[u8]) -> Result<Timestamp, DecodeError> {
    var_long::decode_non_negative(row).map(Timestamp)
}

/// The value of a conclusion.
pub fn value(conclusion: Conclusion) -> Vec<u8> {
    var_long::encode(match conclusion {
        Conclusion::Committed(commit) => commit.0,
        Conclusion::Aborted => -1,
    })
}

/// The conclusion that a value says.
pub fn conclusion(value: &[u8]) -> Result<Conclusion, DecodeError> {
    match var_long::decode(value)? {
        -1 => Ok(Conclusion::Aborted),
        commit if commit >= 0 => Ok(Conclusion::Committed(Timestamp(commit))),
        other => Err(DecodeError::new("commit timestamp", value, format!("{other} is below 0"))),
    }
}
