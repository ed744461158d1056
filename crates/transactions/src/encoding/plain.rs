//! Layout 1: a partition per start timestamp. Key VAR_LONG(start), column `t`, value
//! VAR_LONG(commit), or VAR_LONG(-1) if aborted.

use super::{DecodeError, var_long};
use crate::timestamp::{Timestamp, TransactionStatus};

/// The only column.
pub const COLUMN: &[u8] = b"t";

/// Returns the key of a start timestamp's partition.
pub fn row(start: Timestamp) -> Vec<u8> {
    var_long::encode(start.0)
}

/// Returns the start timestamp of a partition key.
pub fn start(row: &[u8]) -> Result<Timestamp, DecodeError> {
    var_long::decode_non_negative(row).map(Timestamp)
}

/// Encodes a status.
pub fn value(status: TransactionStatus) -> Vec<u8> {
    var_long::encode(match status {
        TransactionStatus::Committed(commit) => commit.0,
        TransactionStatus::Aborted => -1,
    })
}

/// Decodes a status.
pub fn status(value: &[u8]) -> Result<TransactionStatus, DecodeError> {
    match var_long::decode(value)? {
        -1 => Ok(TransactionStatus::Aborted),
        commit if commit >= 0 => Ok(TransactionStatus::Committed(Timestamp(commit))),
        other => Err(DecodeError::new(
            "commit timestamp",
            value,
            format!("expected a commit timestamp of at least 0, or -1, found {other}"),
        )),
    }
}
