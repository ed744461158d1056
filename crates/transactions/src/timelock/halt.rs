//! The record by which a server halts the timestamps of a store until an operator clears it.
//!
//! A server that reads an older record than it knows of has found that the store lost acknowledged
//! writes. No other server may know that, so it replaces the older record by this one. Every server
//! that leads, stands by or starts later reads it and ends; versions that do not know the format
//! end as well.
//!
//! ```text
//! [1] format: 2
//! [8] term        those of the record that it replaced, or greater: no value recurs
//! [8] sequence
//! [8] bound       the greatest bound that was known: all timestamps issued are at most this
//! [.] reason, UTF-8
//! ```
//!
//! Numbers are big-endian.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::lease::{Record, Stored, number_at};
use super::timestamps::BoundCell;
use super::{FAST_FORWARD_MAX, TimeLockError};
use crate::store::{CheckOutcome, Store, StoreError};
use crate::timestamp::Timestamp;

/// Format of these records. Never change the meaning of a number.
pub(super) const FORMAT: u8 = 2;
const HEAD_LENGTH: usize = 1 + 8 + 8 + 8;
/// Maximum length of the reason, bytes.
const REASON_LENGTH_MAX: usize = 4096;
/// Number of attempts to clear a record that servers write at the same time.
const ATTEMPTS_MAX: usize = 10;

/// Halted timestamps, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Halt {
    pub term: u64,
    pub sequence: u64,
    pub bound: i64,
    pub reason: String,
}

impl Halt {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(HEAD_LENGTH + self.reason.len());
        out.put_u8(FORMAT);
        out.put_u64(self.term);
        out.put_u64(self.sequence);
        out.put_i64(self.bound);
        let cut = self.reason.char_indices().find(|(at, c)| at + c.len_utf8() > REASON_LENGTH_MAX);
        let end = cut.map_or(self.reason.len(), |(at, _)| at);
        out.put_slice(&self.reason.as_bytes()[..end]);
        out.freeze()
    }

    /// # Errors
    /// What is wrong with the bytes, which begin with [`FORMAT`].
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let Some((head, reason)) = bytes.split_at_checked(HEAD_LENGTH) else {
            return Err(format!(
                "halt record of format {FORMAT}: expected at least {HEAD_LENGTH} bytes, found {}",
                bytes.len()
            ));
        };
        if reason.len() > REASON_LENGTH_MAX {
            return Err(format!(
                "halt record: expected a reason of at most {REASON_LENGTH_MAX} bytes, found {}",
                reason.len()
            ));
        }
        let reason =
            std::str::from_utf8(reason).map_err(|_| "halt record: reason is not UTF-8".to_owned())?;
        let number = |at: usize| number_at(head, at);
        Ok(Self {
            term: number(1),
            sequence: number(9),
            bound: number(17).cast_signed(),
            reason: reason.to_owned(),
        })
    }

    /// Returns the error for callers that find the record.
    pub fn error(&self) -> TimeLockError {
        TimeLockError::Halted { reason: self.reason.clone(), bound: Timestamp(self.bound) }
    }
}

/// Result of [`clear_halt`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleared {
    /// Why the timestamps were halted.
    pub reason: String,
    /// Later timestamps are greater.
    pub bound: Timestamp,
}

/// Clears a halt, so that servers issue timestamps again. They continue above the greatest known
/// bound and above `above`. Servers that read the record have ended and must be started again.
///
/// # Errors
/// `NotHalted`, `OutOfRange`, or the store's error.
pub fn clear_halt(store: Arc<dyn Store>, above: Option<Timestamp>) -> Result<Cleared, TimeLockError> {
    if let Some(asked) = above.filter(|above| above.0 > FAST_FORWARD_MAX) {
        return Err(TimeLockError::OutOfRange { asked });
    }
    let cell = BoundCell::open(store)?;
    let mut found = cell.read()?;
    for _ in 0..ATTEMPTS_MAX {
        let Some(stored) = found else { return Err(TimeLockError::NotHalted) };
        let halt = match Stored::decode(&stored) {
            Ok(Stored::Halted(halt)) => halt,
            Ok(Stored::Plain(_) | Stored::Leased(_)) => return Err(TimeLockError::NotHalted),
            Err(what) => return Err(TimeLockError::BoundLost { what }),
        };
        let bound = above.map_or(halt.bound, |above| above.0.max(halt.bound));
        let record = Record {
            term: halt.term.saturating_add(1),
            sequence: 0,
            bound,
            holder: rand::random(),
            // No leader: the next server leads at once.
            lease: Duration::ZERO,
            address: "cassette timelock clear".to_owned(),
        };
        match cell.replace(&stored, &record.encode())? {
            CheckOutcome::Applied => {
                return Ok(Cleared { reason: halt.reason, bound: Timestamp(bound) });
            }
            CheckOutcome::Actual(actual) => found = actual,
        }
    }
    let cause = "other clients changed it at every attempt";
    Err(TimeLockError::Bound(StoreError::unavailable("clear the halted timestamps", cause)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halt_records_round_trip() {
        let halt = Halt { term: 7, sequence: 9, bound: -5, reason: "an older bound".to_owned() };
        let bytes = halt.encode();
        assert_eq!(bytes[..9], [2, 0, 0, 0, 0, 0, 0, 0, 7], "as drawn above");
        assert_eq!(Stored::decode(&bytes), Ok(Stored::Halted(halt.clone())));
        for length in (1..HEAD_LENGTH).filter(|length| *length != 8) {
            assert!(Stored::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        let long = Halt { reason: "ä".repeat(REASON_LENGTH_MAX), ..halt };
        assert!(Stored::decode(&long.encode()).is_ok());
        assert!(Stored::decode(&[&bytes[..], &[0xff]].concat()).is_err());
    }
}
