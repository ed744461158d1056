//! Nested values: frozen collections, tuples and UDTs, as bytes.
//!
//! ```text
//! list, set   i32 count, count × item
//! map         i32 count, count × (item key, item value)
//! tuple, UDT  item…      as many as were written: trailing ones may be missing
//! item        i32 length, bytes;  a negative length is null
//! ```
//!
//! Readers never allocate and stop at malformed bytes;
//! [`DataType::validate`](super::DataType::validate) detects invalid values, and every value is
//! validated when it is received.

use bytes::BufMut;

/// The items of a list, set, map (keys and values alternately), tuple or UDT; ends early if the
/// bytes are truncated.
#[derive(Debug, Clone)]
pub struct Items<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Items<'a> {
    /// Returns the bytes after the items read so far: none at the end of a well-formed value.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of remaining items by the value's count, which must not determine the
    /// size of an allocation. Tuples and UDTs have no count.
    pub fn claimed(&self) -> usize {
        self.left
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let item = split_item(&mut self.rest)?;
        self.left -= 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Every item has at least the four bytes of its length.
        (0, Some(self.left.min(self.rest.len() / 4)))
    }
}

/// Returns the elements of a list or set. No valid value contains a null element.
#[inline]
pub fn read_list(bytes: &[u8]) -> Items<'_> {
    let (count, rest) = split_count(bytes);
    Items { rest, left: count }
}

/// Returns the entries of a map; ends early at a null, which no valid value contains.
pub fn read_map(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    let mut items = read_map_items(bytes);
    std::iter::from_fn(move || Some((items.next()??, items.next()??)))
}

/// The keys and values of a map in turn.
pub(super) fn read_map_items(bytes: &[u8]) -> Items<'_> {
    let (count, rest) = split_count(bytes);
    Items { rest, left: count.saturating_mul(2) }
}

/// Returns the items of a tuple, or the fields of a UDT, that are present; missing trailing ones
/// are null.
#[inline]
pub fn read_tuple(bytes: &[u8]) -> Items<'_> {
    Items { rest: bytes, left: usize::MAX }
}

/// Returns the count of elements or entries that a list, set or map declares; 0 for bytes that are
/// none.
pub fn count(bytes: &[u8]) -> usize {
    split_count(bytes).0
}

/// Removes the first item: `None` if it is truncated, `Some(None)` if it is null.
#[inline]
pub(super) fn split_item<'a>(input: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (len, rest) = input.split_first_chunk::<4>()?;
    let Ok(len) = usize::try_from(i32::from_be_bytes(*len)) else {
        *input = rest;
        return Some(None);
    };
    let (item, rest) = rest.split_at_checked(len)?;
    *input = rest;
    Some(Some(item))
}

fn split_count(bytes: &[u8]) -> (usize, &[u8]) {
    match bytes.split_first_chunk::<4>() {
        Some((count, rest)) => (usize::try_from(i32::from_be_bytes(*count)).unwrap_or(0), rest),
        None => (0, bytes),
    }
}

/// Appends a collection's count. Cassandra's limit on values, 2 GiB, keeps counts within an `i32`.
#[inline]
pub fn write_count(out: &mut impl BufMut, count: usize) {
    out.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
}

/// Appends one item: an element, key, value, tuple item or UDT field.
#[inline]
pub fn write_item(out: &mut impl BufMut, item: Option<&[u8]>) {
    match item {
        Some(bytes) => {
            out.put_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
            out.put_slice(bytes);
        }
        None => out.put_i32(-1),
    }
}

/// Appends a list or set; a set's elements must be in the order of their type, each once.
pub fn write_list<'a>(out: &mut impl BufMut, elements: impl ExactSizeIterator<Item = &'a [u8]>) {
    write_count(out, elements.len());
    elements.for_each(|element| write_item(out, Some(element)));
}

/// Appends a map, whose keys must be in the order of their type, each once.
pub fn write_map<'a>(out: &mut impl BufMut, entries: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])>) {
    write_count(out, entries.len());
    for (key, value) in entries {
        write_item(out, Some(key));
        write_item(out, Some(value));
    }
}

/// Appends a tuple or UDT: one item per item of its type, nulls included.
pub fn write_tuple<'a>(out: &mut impl BufMut, items: impl IntoIterator<Item = Option<&'a [u8]>>) {
    items.into_iter().for_each(|item| write_item(out, item));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_maps_and_tuples_come_back_as_written() {
        let mut list = Vec::new();
        write_list(&mut list, [b"ab".as_slice(), b""].into_iter());
        assert_eq!(list, [0, 0, 0, 2, 0, 0, 0, 2, b'a', b'b', 0, 0, 0, 0]);
        assert!(read_list(&list).eq([Some(b"ab".as_slice()), Some(b"")]));

        let mut map = Vec::new();
        write_map(&mut map, [(b"k".as_slice(), b"v".as_slice())].into_iter());
        assert!(read_map(&map).eq([(b"k".as_slice(), b"v".as_slice())]));
        assert_eq!(count(&map), 1);

        let mut tuple = Vec::new();
        write_tuple(&mut tuple, [None, Some(b"x".as_slice())]);
        assert_eq!(tuple, [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, b'x']);
        assert!(read_tuple(&tuple).eq([None, Some(b"x".as_slice())]));
    }

    #[test]
    fn a_count_beyond_the_bytes_ends_with_them() {
        let claim = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 7, 0, 0, 0, 9];
        let mut items = read_list(&claim);
        assert_eq!(items.size_hint().1, Some(2));
        assert_eq!(items.next(), Some(Some([7].as_slice())));
        assert_eq!(items.next(), None);
        assert_eq!(items.rest(), [0, 0, 0, 9]);
        assert_eq!(read_list(&[1, 2]).next(), None);
        assert_eq!(read_map(&claim).next(), None);
    }
}
