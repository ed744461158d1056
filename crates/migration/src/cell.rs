//! Rows as cells, and the serialization of collections.

use bytes::{Buf, BufMut, Bytes};

/// A live cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Index in the columns of the row's part: static or regular.
    pub column: usize,
    /// Of one element of a multi-cell column: a set's element, a map's key, or the index of an
    /// element or a field. `None` for other columns.
    pub path: Option<Bytes>,
    /// Empty for elements of sets.
    pub value: Bytes,
    /// Write timestamp in microseconds; 0 for counters.
    pub timestamp: i64,
    /// Seconds since 1970.
    pub expires: Option<u32>,
}

/// A cell whose values are elsewhere; the fields are those of [`Cell`].
#[derive(Debug, Clone, Copy)]
pub struct CellRef<'a> {
    pub column: usize,
    pub path: Option<&'a [u8]>,
    pub value: &'a [u8],
    pub timestamp: i64,
    pub expires: Option<u32>,
}

impl Cell {
    pub fn borrowed(&self) -> CellRef<'_> {
        let Self { column, path, value, timestamp, expires } = self;
        let (column, timestamp, expires) = (*column, *timestamp, *expires);
        CellRef { column, path: path.as_deref(), value, timestamp, expires }
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub token: i64,
    pub key: Vec<Bytes>,
    /// `None` if the partition has static cells only.
    pub clustering: Option<Vec<Bytes>>,
    /// Of the first row of a partition: its static cells.
    pub statics: Vec<Cell>,
    pub cells: Vec<Cell>,
}

impl Row {
    /// Returns the length of its values.
    pub fn length(&self) -> usize {
        let keys = self.key.iter().chain(self.clustering.iter().flatten()).map(Bytes::len).sum::<usize>();
        let cells = self.statics.iter().chain(&self.cells);
        keys + cells.map(|cell| cell.value.len() + cell.path.as_ref().map_or(0, Bytes::len)).sum::<usize>()
    }
}

/// Returns the UTF-8 text of a value.
pub fn text(bytes: &Bytes) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// Returns the address of an `inet` value.
pub fn address(bytes: &[u8]) -> Option<std::net::IpAddr> {
    match bytes.len() {
        4 => Some(<[u8; 4]>::try_from(bytes).ok()?.into()),
        16 => Some(<[u8; 16]>::try_from(bytes).ok()?.into()),
        _ => None,
    }
}

fn int(input: &mut Bytes) -> Option<i32> {
    input.try_get_i32().ok()
}

fn item(input: &mut Bytes) -> Option<Option<Bytes>> {
    let Ok(length) = usize::try_from(int(input)?) else { return Some(None) };
    (length <= input.len()).then(|| Some(input.split_to(length)))
}

/// Decodes a list or set. `None` if it is malformed.
pub fn list(bytes: &Bytes) -> Option<Vec<Option<Bytes>>> {
    let mut input = bytes.clone();
    if input.is_empty() {
        return Some(Vec::new());
    }
    let count = usize::try_from(int(&mut input)?).ok()?;
    // An item has at least four bytes.
    (count <= input.len() / 4).then_some(())?;
    (0..count).map(|_| item(&mut input)).collect()
}

/// Decodes a map.
pub fn map(bytes: &Bytes) -> Option<Vec<(Bytes, Bytes)>> {
    let mut input = bytes.clone();
    if input.is_empty() {
        return Some(Vec::new());
    }
    let count = usize::try_from(int(&mut input)?).ok()?;
    (count <= input.len() / 8).then_some(())?;
    (0..count).map(|_| Some((item(&mut input)??, item(&mut input)??))).collect()
}

/// Decodes the fields of a tuple or user-defined type; missing ones at the end are null.
pub fn fields(bytes: &Bytes, count: usize) -> Option<Vec<Option<Bytes>>> {
    let mut input = bytes.clone();
    (0..count).map(|_| if input.is_empty() { Some(None) } else { item(&mut input) }).collect()
}

fn put_item(item: &[u8], out: &mut Vec<u8>) {
    out.put_i32(i32::try_from(item.len()).unwrap_or(i32::MAX));
    out.extend_from_slice(item);
}

/// Encodes a list or set.
pub fn encode_list<'a>(items: impl ExactSizeIterator<Item = &'a Bytes>) -> Bytes {
    let mut out = Vec::new();
    out.put_i32(i32::try_from(items.len()).unwrap_or(i32::MAX));
    items.for_each(|item| put_item(item, &mut out));
    out.into()
}

/// Encodes a map.
pub fn encode_map<'a>(items: impl ExactSizeIterator<Item = (&'a Bytes, &'a Bytes)>) -> Bytes {
    let mut out = Vec::new();
    out.put_i32(i32::try_from(items.len()).unwrap_or(i32::MAX));
    for (key, value) in items {
        put_item(key, &mut out);
        put_item(value, &mut out);
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_are_decoded_as_they_were_encoded() {
        let items = [Bytes::from_static(b"a"), Bytes::new(), Bytes::from_static(b"long")];
        let decoded = list(&encode_list(items.iter())).unwrap();
        assert_eq!(decoded, items.clone().map(Some));
        let pairs = [(items[0].clone(), items[1].clone()), (items[2].clone(), items[0].clone())];
        assert_eq!(map(&encode_map(pairs.iter().map(|(k, v)| (k, v)))).unwrap(), pairs);
        let two = Bytes::from_static(&[0, 0, 0, 1, 7, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(fields(&two, 3).unwrap(), [Some(Bytes::from_static(&[7])), None, None]);
    }

    #[test]
    fn malformed_collections_are_rejected() {
        for bytes in [&[0, 0, 0, 9][..], &[0, 0], &[0, 0, 0, 1, 0, 0, 0, 9, 1], &[0xff, 0xff, 0xff, 0xff]] {
            let bytes = Bytes::copy_from_slice(bytes);
            assert!(list(&bytes).is_none() && map(&bytes).is_none(), "{bytes:?}");
        }
        assert!(fields(&Bytes::from_static(&[0, 0, 0, 9, 1]), 1).is_none());
    }
}
