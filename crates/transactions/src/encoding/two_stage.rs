//! Layout 3: the values of tickets with one byte behind them, which says how certain they are.
//!
//! ```text
//! value = tickets value | 0x00 staging, or 0x01 committed
//! ```

use super::{DecodeError, tickets};
use crate::timestamp::{Conclusion, Timestamp};

/// How certain a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Some conditional write put it; it is no answer until another one has touched it.
    Staging,
    /// It is the answer, for ever.
    Committed,
}

/// The value of a conclusion of `start` in a stage.
pub fn value(start: Timestamp, conclusion: Conclusion, stage: Stage) -> Vec<u8> {
    let mut value = tickets::value(start, conclusion);
    value.push(match stage {
        Stage::Staging => 0,
        Stage::Committed => 1,
    });
    value
}

/// What a value says of `start`.
///
/// # Errors
/// If it is empty, its last byte is no stage, or the rest no value of tickets.
pub fn conclusion(start: Timestamp, value: &[u8]) -> Result<(Conclusion, Stage), DecodeError> {
    let (stage, rest) = match value.split_last() {
        Some((0, rest)) => (Stage::Staging, rest),
        Some((1, rest)) => (Stage::Committed, rest),
        Some((other, _)) => {
            return Err(DecodeError::new("two-stage value", value, format!("{other} is no stage")));
        }
        None => return Err(DecodeError::new("two-stage value", value, "has no stage")),
    };
    Ok((tickets::conclusion(start, rest)?, stage))
}
