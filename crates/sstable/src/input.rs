//! A cursor over bytes from disk: every length is checked before it is used.

use cassette_rows::vint;

use crate::error::{Malformed, Parsed};

/// Reads big-endian fields from the front of a slice; fails with the offset if they do not fit.
#[derive(Debug, Clone)]
pub struct Input<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Offset of `bytes[0]` in the file or stream, for errors.
    base: u64,
}

impl<'a> Input<'a> {
    /// Creates an empty cursor.
    pub(crate) const fn at_start() -> Self {
        Self { bytes: &[], position: 0, base: 0 }
    }

    /// Creates a cursor over a whole file.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0, base: 0 }
    }

    /// Creates a cursor over bytes that begin at offset `base`.
    pub fn at(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, position: 0, base }
    }

    /// Creates a cursor over bytes that begin at offset `base`, at `position`; positions count from
    /// the slice's start.
    #[inline]
    pub fn over(bytes: &'a [u8], position: usize, base: u64) -> Self {
        Self { bytes, position: position.min(bytes.len()), base }
    }

    /// Returns the position of the next field in the slice.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the offset of the next field in the file or stream.
    pub fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    /// Returns the number of remaining bytes.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Returns the remaining bytes.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    /// Returns the bytes read since [`position`](Self::position) was `start`.
    #[inline]
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.position).unwrap_or_default()
    }

    /// Creates an error at the next field.
    #[cold]
    pub fn malformed(&self, detail: impl Into<String>) -> Malformed {
        Malformed::new(self.offset(), detail)
    }

    #[cold]
    #[inline(never)]
    fn short(&self, wanted: u64) -> Malformed {
        Malformed::short(self.offset(), wanted, self.remaining() as u64)
    }

    /// Returns the next `length` bytes.
    #[inline]
    pub fn bytes(&mut self, length: usize) -> Parsed<&'a [u8]> {
        if self.remaining() < length {
            return Err(self.short(length as u64));
        }
        let start = self.position;
        self.position += length;
        Ok(&self.bytes[start..self.position])
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        match self.bytes[self.position..].first_chunk::<N>() {
            Some(array) => {
                self.position += N;
                Ok(*array)
            }
            None => Err(self.short(N as u64)),
        }
    }

    #[inline]
    #[expect(missing_docs, reason = "the name is sufficient")]
    pub fn u8(&mut self) -> Parsed<u8> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    #[expect(missing_docs, reason = "the name is sufficient")]
    pub fn u16(&mut self) -> Parsed<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    #[inline]
    #[expect(missing_docs, reason = "the name is sufficient")]
    pub fn u32(&mut self) -> Parsed<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    #[inline]
    #[expect(missing_docs, reason = "the name is sufficient")]
    pub fn i32(&mut self) -> Parsed<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    #[expect(missing_docs, reason = "the name is sufficient")]
    pub fn u32_le(&mut self) -> Parsed<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    #[expect(missing_docs, reason = "the name is sufficient")]
    pub fn u64_le(&mut self) -> Parsed<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    #[expect(missing_docs, reason = "the name is sufficient")]
    pub fn u64(&mut self) -> Parsed<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    #[inline]
    #[expect(missing_docs, reason = "the name is sufficient")]
    pub fn i64(&mut self) -> Parsed<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    #[expect(missing_docs, reason = "the name is sufficient")]
    pub fn f64(&mut self) -> Parsed<f64> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    /// An unsigned variable-length integer.
    #[inline]
    pub fn vint(&mut self) -> Parsed<u64> {
        let mut rest = &self.bytes[self.position..];
        match vint::read_unsigned(&mut rest) {
            Some(value) => {
                self.position = self.bytes.len() - rest.len();
                Ok(value)
            }
            None => Err(self.malformed("expected a complete variable-length integer, found the end")),
        }
    }

    /// A variable-length integer in zigzag form.
    pub fn svint(&mut self) -> Parsed<i64> {
        let value = self.vint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A variable-length integer written from a signed 32-bit number, which is in its low 32 bits.
    #[inline]
    pub fn vint32(&mut self) -> Parsed<i32> {
        Ok(self.vint()? as i32)
    }

    /// Reads a vint that is the length of bytes in this input; fails if there are fewer.
    #[inline]
    pub fn length(&mut self) -> Parsed<usize> {
        let length = self.vint()?;
        if length > self.remaining() as u64 {
            return Err(self.short(length));
        }
        Ok(length as usize)
    }

    /// Reads a vint that counts items of `least` bytes or more; fails if so many cannot follow.
    pub fn count(&mut self, least: usize) -> Parsed<usize> {
        let count = self.vint()?;
        self.check_count(count, least)
    }

    /// Reads an i32 that counts items of `least` bytes or more; fails if so many cannot follow.
    pub fn count32(&mut self, least: usize) -> Parsed<usize> {
        let count = self.u32()?;
        self.check_count(u64::from(count), least)
    }

    fn check_count(&self, count: u64, least: usize) -> Parsed<usize> {
        if count > (self.remaining() / least.max(1)) as u64 {
            return Err(self.malformed(format!(
                "{count} items of at least {least} bytes expected, {} bytes left",
                self.remaining()
            )));
        }
        Ok(count as usize)
    }

    /// vint length, bytes.
    #[inline]
    pub fn bytes_vint(&mut self) -> Parsed<&'a [u8]> {
        let length = self.length()?;
        self.bytes(length)
    }

    /// u16 length, bytes.
    #[inline]
    pub fn bytes16(&mut self) -> Parsed<&'a [u8]> {
        let length = self.u16()?;
        self.bytes(usize::from(length))
    }

    /// i32 length, bytes.
    pub fn bytes32(&mut self) -> Parsed<&'a [u8]> {
        let length = self.u32()?;
        self.bytes(length as usize)
    }

    /// u16 length, text. Java's modified UTF-8 equals UTF-8 for all text in these files (no NUL, no
    /// surrogate pairs).
    pub fn utf(&mut self) -> Parsed<&'a str> {
        let start = self.offset();
        std::str::from_utf8(self.bytes16()?).map_err(|e| Malformed::new(start, format!("text expected: {e}")))
    }

    /// Fails if bytes are left.
    pub fn end(&self) -> Parsed<()> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.malformed(format!("the end expected, {left} more bytes found"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_the_end_is_refused_where_it_stands() {
        let mut input = Input::at(&[0x05, 1, 2], 100);
        assert_eq!(input.bytes_vint().unwrap_err().to_string(), "at 101: 5 bytes expected, 2 left");
        let mut input = Input::new(&[0xff; 4]);
        assert_eq!(
            input.vint().unwrap_err().to_string(),
            "at 0: expected a complete variable-length integer, found the end"
        );
        assert_eq!(input.position(), 0);
    }
}
