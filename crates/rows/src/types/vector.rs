//! Vectors as bytes: elements of a fixed width are adjacent, others follow their length as a vint.

use bytes::BufMut;

use super::DataType;
use crate::vint;

/// The elements of a vector; ends early if the bytes are truncated.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
    left: u32,
    width: Option<usize>,
}

impl<'a> Elements<'a> {
    /// Returns the bytes after the elements read so far: none at the end of a well-formed vector.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        match self.width {
            Some(width) => {
                let (element, rest) = self.rest.split_at_checked(width)?;
                self.rest = rest;
                Some(element)
            }
            None => vint::read_bytes(&mut self.rest),
        }
    }
}

/// The elements of a vector of `dimension` values of type `element`.
pub fn read_vector<'a>(element: &DataType, dimension: u32, bytes: &'a [u8]) -> Elements<'a> {
    Elements { rest: bytes, left: dimension, width: element.fixed_width() }
}

/// Appends one element of a vector with elements of type `element`. An element of a fixed width
/// must have it.
pub fn write_element(out: &mut impl BufMut, element: &DataType, bytes: &[u8]) {
    match element.fixed_width() {
        Some(_) => out.put_slice(bytes),
        None => vint::write_bytes(out, bytes),
    }
}
