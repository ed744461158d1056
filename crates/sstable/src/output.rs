//! Extends `BufMut` by the fields of the components; the counterpart of [`crate::input`].

use bytes::BufMut;
use cassette_rows::vint;

/// Appends the fields of components. All are big-endian.
pub trait Output: BufMut + Sized {
    /// An unsigned variable-length integer.
    #[inline]
    fn put_vint(&mut self, value: u64) {
        vint::write_unsigned(self, value);
    }

    /// A variable-length integer in zigzag form.
    fn put_svint(&mut self, value: i64) {
        vint::write_signed(self, value);
    }

    /// A signed 32-bit number in Cassandra's encoding of unsigned fields: extended to 64 bits.
    #[inline]
    fn put_vint32(&mut self, value: i32) {
        vint::write_unsigned_32(self, value);
    }

    /// vint length, bytes.
    #[inline]
    fn put_bytes_vint(&mut self, bytes: &[u8]) {
        vint::write_bytes(self, bytes);
    }

    /// u16 length, bytes. The caller guarantees fewer than 64 Ki.
    fn put_bytes16(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= usize::from(u16::MAX));
        self.put_u16(bytes.len() as u16);
        self.put_slice(bytes);
    }

    /// i32 length, bytes. The caller guarantees fewer than 2 Gi.
    fn put_bytes32(&mut self, bytes: &[u8]) {
        self.put_i32(bytes.len() as i32);
        self.put_slice(bytes);
    }
}

impl<T: BufMut> Output for T {}
