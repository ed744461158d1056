//! The encoding of deletion times outside of rows in Data.db and Index.db, and of local deletion
//! times in nb.
//!
//! ```text
//! i32 ldt; 7fffffff if there is none
//! i64 ts;  8000000000000000 if there is none
//! ```
//! In oa and da the order is reversed, and a single first byte 80 means that there is none:
//!
//! ```text
//! u8 80 | i64 ts, not negative, u32 ldt
//! ```

use bytes::BufMut;
use cassette_rows::{DeletionTime, NO_DELETION_TIME};

use crate::error::{Malformed, Parsed};
use crate::input::Input;

/// "None" among the local deletion times of nb.
pub const NONE: i32 = i32::MAX;

/// Returns a local deletion time as stored in nb: in 31 bits, larger ones are cut (2038-01-19).
#[inline]
pub fn to_stored(local_deletion_time: u32) -> i32 {
    match local_deletion_time {
        NO_DELETION_TIME => NONE,
        time => i32::try_from(time).unwrap_or(NONE).min(NONE - 1),
    }
}

/// Decodes a stored local deletion time; `None` if it is negative, which no writer produces.
#[inline]
pub fn from_stored(stored: i32) -> Option<u32> {
    match stored {
        NONE => Some(NO_DELETION_TIME),
        time => u32::try_from(time).ok(),
    }
}

/// Writes 12 bytes.
pub fn encode_plain(deletion: DeletionTime, out: &mut Vec<u8>) {
    if deletion.is_live() {
        out.put_i32(NONE)
    } else {
        out.put_i32(to_stored(deletion.local_deletion_time))
    }
    out.put_i64(deletion.timestamp);
}

/// No deletion, as [`encode_plain`] writes it.
pub const PLAIN_NONE: [u8; 12] = [0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0];

/// No deletion in the form of [`decode_short`]: the sign bit of a timestamp, which is never set
/// there.
pub const SHORT_NONE: u8 = 0x80;

/// Decodes the form of oa and da that replaces [`decode_plain`]'s 12 bytes.
pub fn decode_short(input: &mut Input<'_>) -> Parsed<DeletionTime> {
    let at = input.offset();
    let first = input.u8()?;
    if first == SHORT_NONE {
        return Ok(DeletionTime::LIVE);
    }
    if first & SHORT_NONE != 0 {
        return Err(Malformed::new(
            at,
            format!("a deletion time or none expected, flags {first:#04x} found"),
        ));
    }
    let rest = input.bytes(7)?;
    let timestamp = rest.iter().fold(i64::from(first), |high, byte| high << 8 | i64::from(*byte));
    Ok(DeletionTime::new(timestamp, input.u32()?))
}

/// Reads 12 bytes.
pub fn decode_plain(input: &mut Input<'_>) -> Parsed<DeletionTime> {
    let at = input.offset();
    let (stored, timestamp) = (input.i32()?, input.i64()?);
    match from_stored(stored) {
        _ if timestamp == DeletionTime::LIVE.timestamp => Ok(DeletionTime::LIVE),
        Some(time) => Ok(DeletionTime::new(timestamp, time)),
        None => Err(Malformed::new(at, format!("a local deletion time expected, {stored} found"))),
    }
}
