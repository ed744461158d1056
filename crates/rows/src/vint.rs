//! Variable-length integers of SSTables, vectors and durations.
//!
//! ```text
//! 0xxxxxxx                       7 bits
//! 10xxxxxx x8                   14 bits
//! 110xxxxx x8 x8                21 bits    the leading ones of the first byte count the bytes that follow it
//! …
//! 11111110 x8 × 7               56 bits
//! 11111111 x8 × 8               64 bits
//! ```
//!
//! Big-endian; writers use the shortest form, readers accept any form. A signed number is zigzagged
//! first: 0, -1, 1, -2 … are 0, 1, 2, 3 ….

use bytes::BufMut;

/// The longest encoding, in bytes.
pub const LEN_MAX: usize = 9;

/// Returns the length of `value` written by [`write_unsigned`]: 1 to 9.
#[inline]
pub fn unsigned_len(value: u64) -> usize {
    extra_bytes(value) + 1
}

/// Returns the length of `value` written by [`write_signed`]: 1 to 9.
#[inline]
pub fn signed_len(value: i64) -> usize {
    unsigned_len(zigzag(value))
}

/// Appends `value` in its shortest form.
#[inline]
pub fn write_unsigned(out: &mut impl BufMut, value: u64) {
    if value < 0x80 {
        out.put_u8(value as u8);
        return;
    }
    let extra = extra_bytes(value);
    if extra == 8 {
        out.put_u8(0xff);
        out.put_u64(value);
        return;
    }
    // The value ends at byte `extra`, so its top byte has at least `extra + 1` zero bits for the
    // prefix.
    let len_bits = 8 * (extra as u32 + 1);
    let prefix = !(0xff_u8 >> extra);
    let bytes = ((value << (64 - len_bits)) | u64::from(prefix) << 56).to_be_bytes();
    out.put_slice(&bytes[..=extra]);
}

/// Appends `value`, zigzagged.
#[inline]
pub fn write_signed(out: &mut impl BufMut, value: i64) {
    write_unsigned(out, zigzag(value));
}

/// Appends a field that Cassandra types "unsigned 32-bit vint" and fills from a signed `int`: a
/// negative number is extended to 64 bits first and takes nine bytes.
#[inline]
pub fn write_unsigned_32(out: &mut impl BufMut, value: i32) {
    write_unsigned(out, i64::from(value) as u64);
}

/// Removes one number from the front of `input`; `None`, with `input` unchanged, if it is
/// truncated.
#[inline]
pub fn read_unsigned(input: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = input.split_first()?;
    if first < 0x80 {
        *input = rest;
        return Some(u64::from(first));
    }
    read_long(first, rest, input)
}

/// Removes one zigzagged number from the front of `input`; `None`, with `input` unchanged, if it is
/// truncated.
#[inline]
pub fn read_signed(input: &mut &[u8]) -> Option<i64> {
    read_unsigned(input).map(unzigzag)
}

/// Reads a number of [`write_unsigned_32`]: the low 32 bits, as a signed number.
#[inline]
pub fn read_unsigned_32(input: &mut &[u8]) -> Option<i32> {
    read_unsigned(input).map(|value| value as i32)
}

/// Removes a vint length and that many bytes from the front of `input` (`bytesV` of the file
/// format); `None`, with `input` unchanged, if it is truncated.
#[inline]
pub fn read_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = *input;
    let len = usize::try_from(read_unsigned(&mut rest)?).ok()?;
    let (bytes, rest) = rest.split_at_checked(len)?;
    *input = rest;
    Some(bytes)
}

/// Appends `bytes` after their length as a vint.
#[inline]
pub fn write_bytes(out: &mut impl BufMut, bytes: &[u8]) {
    write_unsigned(out, bytes.len() as u64);
    out.put_slice(bytes);
}

fn read_long<'a>(first: u8, rest: &'a [u8], input: &mut &'a [u8]) -> Option<u64> {
    let extra = first.leading_ones() as usize;
    let (tail, after) = rest.split_at_checked(extra)?;
    let high = u64::from(first & 0xff_u8.checked_shr(extra as u32).unwrap_or(0));
    *input = after;
    Some(match rest.first_chunk::<8>() {
        Some(eight) => {
            let low = u64::from_be_bytes(*eight) >> (64 - 8 * extra);
            // Of eight bytes, the first has no bits of the value.
            high.checked_shl(8 * extra as u32).unwrap_or(0) | low
        }
        None => tail.iter().fold(high, |value, byte| value << 8 | u64::from(*byte)),
    })
}

/// Bytes after the first: one per started group of seven bits beyond the first group, and 8 from 57
/// bits on.
#[inline]
fn extra_bytes(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros();
    ((bits - 1) / 7).min(8) as usize
}

#[inline]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }

    /// `vints.csv` contains values and encodings from Cassandra's code, around every power of two.
    #[test]
    fn every_vector_of_cassandra_encodes_and_decodes() {
        let mut vectors = 0;
        for line in include_str!("../tests/data/vints.csv").lines().skip(1) {
            let mut fields = line.split(',');
            let (kind, value, hex) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
            let expected = unhex(hex);
            let mut written = Vec::new();
            let mut input = &expected[..];
            match kind {
                "unsigned" => {
                    let value: u64 = value.parse().unwrap();
                    write_unsigned(&mut written, value);
                    assert_eq!(read_unsigned(&mut input), Some(value), "{line}");
                    let followed = [&expected[..], &[0xa5; 9]].concat();
                    let mut input = &followed[..];
                    assert_eq!(read_unsigned(&mut input), Some(value), "{line}");
                    assert_eq!(input, [0xa5; 9], "{line}");
                    assert_eq!(unsigned_len(value), expected.len(), "{line}");
                }
                "signed" => {
                    let value: i64 = value.parse().unwrap();
                    write_signed(&mut written, value);
                    assert_eq!(read_signed(&mut input), Some(value), "{line}");
                    assert_eq!(signed_len(value), expected.len(), "{line}");
                }
                other => panic!("unknown kind {other}"),
            }
            assert_eq!(written, expected, "{line}");
            assert!(input.is_empty(), "{line}");
            vectors += 1;
        }
        assert_eq!(vectors, 752);
    }

    #[test]
    fn a_number_cut_short_is_none_and_leaves_the_input() {
        let mut whole = Vec::new();
        write_unsigned(&mut whole, u64::MAX);
        for len in 0..whole.len() {
            let mut input = &whole[..len];
            assert_eq!(read_unsigned(&mut input), None);
            assert_eq!(input.len(), len);
        }
        let mut input: &[u8] = &[3, 1, 2];
        assert_eq!(read_bytes(&mut input), None);
        assert_eq!(input.len(), 3);
    }

    #[test]
    fn a_negative_32_bit_field_takes_nine_bytes_and_comes_back() {
        let mut out = Vec::new();
        write_unsigned_32(&mut out, -2);
        assert_eq!(out, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(read_unsigned_32(&mut &out[..]), Some(-2));
    }
}
