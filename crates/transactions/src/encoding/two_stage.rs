//! Layout 3: values of tickets, followed by one byte for their stage.
//!
//! ```text
//! value = tickets value | 0x00 staging, or 0x01 committed
//! ```

use super::{DecodeError, tickets};
use crate::timestamp::{Timestamp, TransactionStatus};

/// Stage of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Written by a conditional write. Not reliable until another conditional write has touched it.
    Staging,
    /// Final.
    Committed,
}

/// Encodes the status of `start` in a stage.
pub fn value(start: Timestamp, status: TransactionStatus, stage: Stage) -> Vec<u8> {
    let mut value = tickets::value(start, status);
    value.push(match stage {
        Stage::Staging => 0,
        Stage::Committed => 1,
    });
    value
}

/// Decodes the status of `start` and its stage.
///
/// # Errors
/// If the value is empty, its last byte is no stage, or the rest is no value of tickets.
pub fn status(start: Timestamp, value: &[u8]) -> Result<(TransactionStatus, Stage), DecodeError> {
    let (stage, rest) = match value.split_last() {
        Some((0, rest)) => (Stage::Staging, rest),
        Some((1, rest)) => (Stage::Committed, rest),
        Some((other, _)) => {
            return Err(DecodeError::new("two-stage value", value, format!("unknown stage {other}")));
        }
        None => return Err(DecodeError::new("two-stage value", value, "the stage is missing")),
    };
    Ok((tickets::status(start, rest)?, stage))
}
