//! VAR_LONG and VAR_SIGNED_LONG: order-preserving integers of 1 to 10 bytes.
//!
//! ```text
//! VAR_LONG, of u = the value as an unsigned number, n = max(1, bits(u) / 7 rounded up) bytes:
//!     n - 1 one bits | a zero bit | u in 7n bits, big-endian
//! VAR_SIGNED_LONG, of m = v, or !v if v is negative, n = length of VAR_LONG(2m) bytes:
//!     n one bits | a zero bit | m in 7n - 1 bits, big-endian; if v is negative, every bit complemented
//! ```
//!
//! VAR_LONG sorts as unsigned: negative values follow all others and use 10 bytes.

use super::DecodeError;

/// Maximum length of both encodings.
pub const LENGTH_MAX: usize = 10;

/// Returns the length of VAR_LONG of `value`.
pub fn length(value: i64) -> usize {
    let bits = (u64::BITS - value.cast_unsigned().leading_zeros()) as usize;
    bits.div_ceil(7).max(1)
}

/// Appends VAR_LONG of `value`.
pub fn encode_into(value: i64, out: &mut Vec<u8>) {
    let n = length(value);
    let marker = ((1u128 << (n - 1)) - 1) << (7 * n + 1);
    push(marker | u128::from(value.cast_unsigned()), n, out);
}

/// Encodes `value` as VAR_LONG.
pub fn encode(value: i64) -> Vec<u8> {
    let mut out = Vec::with_capacity(LENGTH_MAX);
    encode_into(value, &mut out);
    out
}

/// Decodes a VAR_LONG.
///
/// # Errors
/// If there are too few or too many bytes, more than the value needs, or more than nine leading one
/// bits.
pub fn decode(bytes: &[u8]) -> Result<i64, DecodeError> {
    let fail = |why: &str| Err(DecodeError::new("VAR_LONG", bytes, why));
    let (value, n) = match read(bytes, 1) {
        Ok(read) => read,
        Err(why) => return fail(why),
    };
    let value = match u64::try_from(value) {
        Ok(value) => value.cast_signed(),
        Err(_) => return fail("more than 64 bits"),
    };
    if length(value) == n { Ok(value) } else { fail("not the shortest encoding") }
}

/// As [`decode`], for places where negative values are invalid.
pub fn decode_non_negative(bytes: &[u8]) -> Result<i64, DecodeError> {
    match decode(bytes)? {
        value if value < 0 => {
            Err(DecodeError::new("VAR_LONG", bytes, format!("expected at least 0, found {value}")))
        }
        value => Ok(value),
    }
}

/// Encodes `value` as VAR_SIGNED_LONG.
pub fn encode_signed(value: i64) -> Vec<u8> {
    let m = magnitude(value);
    let n = length((m << 1).cast_signed());
    let marker = ((1u128 << n) - 1) << (7 * n);
    let mut out = Vec::with_capacity(n);
    push(marker | u128::from(m), n, &mut out);
    if value < 0 {
        out.iter_mut().for_each(|byte| *byte = !*byte);
    }
    out
}

/// Decodes a VAR_SIGNED_LONG.
///
/// # Errors
/// As [`decode`].
pub fn decode_signed(bytes: &[u8]) -> Result<i64, DecodeError> {
    let fail = |why: &str| Err(DecodeError::new("VAR_SIGNED_LONG", bytes, why));
    let negative = bytes.first().is_some_and(|first| first & 0x80 == 0);
    let upright: Vec<u8> =
        if negative { bytes.iter().take(LENGTH_MAX + 1).map(|byte| !byte).collect() } else { bytes.to_vec() };
    let (m, n) = match read(&upright, 0) {
        Ok(read) => read,
        Err(why) => return fail(why),
    };
    let Ok(m) = i64::try_from(m) else { return fail("more than 64 bits") };
    let value = if negative { !m } else { m };
    if encode_signed(value).len() == n { Ok(value) } else { fail("not the shortest encoding") }
}

fn magnitude(value: i64) -> u64 {
    (if value < 0 { !value } else { value }).cast_unsigned()
}

/// Appends the last `n` bytes of `bits`; `n` is at most [`LENGTH_MAX`].
fn push(bits: u128, n: usize, out: &mut Vec<u8>) {
    let bytes = bits.to_be_bytes();
    out.extend_from_slice(&bytes[bytes.len() - n..]);
}

/// Returns the payload and the length, which is the number of leading one bits plus `more`.
fn read(bytes: &[u8], more: usize) -> Result<(u128, usize), &'static str> {
    if bytes.len() > LENGTH_MAX {
        return Err("more than 10 bytes");
    }
    let mut padded = [0u8; 16];
    padded[..bytes.len()].copy_from_slice(bytes);
    let bits = u128::from_be_bytes(padded);
    let ones = bits.leading_ones() as usize;
    let n = ones + more;
    if n > LENGTH_MAX {
        return Err("too many leading one bits");
    }
    if bytes.is_empty() || bytes.len() < n {
        return Err("truncated");
    }
    if bytes.len() > n {
        return Err("bytes after the end");
    }
    // Without the ones and the zero; the shift is at most 11.
    let payload = (bits << (ones + 1)) >> (ones + 1);
    Ok((payload >> (128 - 8 * n), n))
}
