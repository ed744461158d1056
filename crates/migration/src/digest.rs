//! Digests of rows, which do not depend on their order.

use twox_hash::XxHash3_128;

use crate::cell::{Cell, CellRef, Row};
use crate::error::Result;
use crate::page::Values;
use crate::statements::Statements;

/// A digest of rows that does not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest {
    sum: u128,
    pub rows: u64,
}

impl Digest {
    pub fn add(&mut self, key: u128, content: u128) {
        // Both in one hash: a sum of separate ones would not notice exchanged contents.
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&key.to_le_bytes());
        bytes[16..].copy_from_slice(&content.to_le_bytes());
        self.sum = self.sum.wrapping_add(XxHash3_128::oneshot(&bytes));
    }
}

/// Computes the hashes of [`parts`] without the cells in between: a verification reads all rows.
#[derive(Default)]
pub struct RowHashes {
    /// Of the last row, without its clustering.
    key: Vec<u8>,
    has_key: bool,
    next_key: Vec<u8>,
    statics: Vec<u8>,
    cells: Vec<u8>,
}

impl RowHashes {
    /// Adds a selected row to the digest. Rows of a partition follow each other.
    ///
    /// # Errors
    /// If a value is malformed.
    pub fn add(
        &mut self,
        statements: &Statements,
        values: Values<'_>,
        now: u32,
        digest: &mut Digest,
    ) -> Result<()> {
        let row = statements.split(values);
        self.next_key.clear();
        row.key.iter().for_each(|value| put(value.unwrap_or_default(), &mut self.next_key));
        self.statics.clear();
        self.cells.clear();
        statements.visit_cells(&row, now, |is_static, cell| self.add_cell(is_static, cell))?;
        // The static cells belong to the first row of a partition.
        let is_first = !self.has_key || self.key != self.next_key;
        std::mem::swap(&mut self.key, &mut self.next_key);
        self.has_key = true;
        digest.rows += 1;
        if is_first {
            self.finish_statics(digest);
        }
        if let Some(clustering) = row.clustering {
            self.finish_row(clustering.iter().copied(), digest);
        }
        Ok(())
    }

    /// Begins a partition with the components of its key.
    pub fn begin_partition(&mut self, key: &[&[u8]]) {
        self.key.clear();
        key.iter().for_each(|value| put(value, &mut self.key));
    }

    /// Adds a cell of the partition's static row, or of the next row.
    pub fn add_cell(&mut self, is_static: bool, cell: CellRef<'_>) {
        put_cell(cell, if is_static { &mut self.statics } else { &mut self.cells });
    }

    /// Adds the static cells of the partition to the digest, if there are any.
    pub fn finish_statics(&mut self, digest: &mut Digest) {
        if !self.statics.is_empty() {
            let length = self.key.len();
            self.key.push(STATIC);
            digest.add(XxHash3_128::oneshot(&self.key), XxHash3_128::oneshot(&self.statics));
            self.key.truncate(length);
        }
        self.statics.clear();
    }

    /// Adds a row and its cells to the digest.
    pub fn finish_row<'v>(
        &mut self,
        clustering: impl Iterator<Item = Option<&'v [u8]>>,
        digest: &mut Digest,
    ) {
        let length = self.key.len();
        self.key.push(REGULAR);
        clustering.for_each(|value| put(value.unwrap_or_default(), &mut self.key));
        digest.add(XxHash3_128::oneshot(&self.key), XxHash3_128::oneshot(&self.cells));
        self.key.truncate(length);
        self.cells.clear();
    }
}

/// Follows the partition key in the hashed key of static cells, and of a row.
const STATIC: u8 = 0;
const REGULAR: u8 = 1;

/// Returns hashes of key and content of the row, and of the static cells that it has.
pub fn parts(row: &Row) -> impl Iterator<Item = (u128, u128)> {
    let mut key = Vec::new();
    row.key.iter().for_each(|value| put(value, &mut key));
    let statics = (!row.statics.is_empty()).then(|| {
        let mut key = key.clone();
        key.push(STATIC);
        (XxHash3_128::oneshot(&key), content(&row.statics))
    });
    let regular = row.clustering.as_ref().map(|clustering| {
        key.push(REGULAR);
        clustering.iter().for_each(|value| put(value, &mut key));
        (XxHash3_128::oneshot(&key), content(&row.cells))
    });
    statics.into_iter().chain(regular)
}

fn content(cells: &[Cell]) -> u128 {
    let mut bytes = Vec::new();
    cells.iter().for_each(|cell| put_cell(cell.borrowed(), &mut bytes));
    XxHash3_128::oneshot(&bytes)
}

/// Appends a cell. Its fields of fixed length are together, so that they are appended at once:
///
/// | bytes | content |
/// | ---: | --- |
/// | 4 | column |
/// | 8 | length of the path; all ones without a path |
/// | 8 | length of the value |
/// | 8 | write timestamp |
/// | 4 | expiration; all ones without one |
fn put_cell(cell: CellRef<'_>, out: &mut Vec<u8>) {
    let mut fixed = [0; 32];
    let path_length = cell.path.map_or(u64::MAX, |path| path.len() as u64);
    fixed[..4].copy_from_slice(&(cell.column as u32).to_le_bytes());
    fixed[4..12].copy_from_slice(&path_length.to_le_bytes());
    fixed[12..20].copy_from_slice(&(cell.value.len() as u64).to_le_bytes());
    fixed[20..28].copy_from_slice(&cell.timestamp.to_le_bytes());
    fixed[28..].copy_from_slice(&cell.expires.unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&fixed);
    out.extend_from_slice(cell.path.unwrap_or_default());
    out.extend_from_slice(cell.value);
}

fn put(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::cell::encode_list;
    use crate::schema::{Column, Kind, Shape, Table};

    fn row(key: &'static str, clustering: Option<&'static str>, value: &'static str, timestamp: i64) -> Row {
        let cell = Cell { column: 0, path: None, value: value.into(), timestamp, expires: None };
        Row {
            token: 0,
            key: vec![key.into()],
            clustering: clustering.map(|text| vec![Bytes::from(text)]),
            statics: Vec::new(),
            cells: vec![cell],
        }
    }

    fn digest_of(rows: &[Row]) -> Digest {
        let mut digest = Digest { rows: rows.len() as u64, ..Digest::default() };
        rows.iter().flat_map(parts).for_each(|(key, content)| digest.add(key, content));
        digest
    }

    #[test]
    fn digests_depend_on_cells_and_their_rows_but_not_on_the_order() {
        let (a, b) = (row("a", Some("x"), "1", 5), row("b", Some("x"), "2", 5));
        let whole = digest_of(&[a.clone(), b.clone()]);
        assert_eq!(whole, digest_of(&[b.clone(), a.clone()]));
        let exchanged = [row("a", Some("x"), "2", 5), row("b", Some("x"), "1", 5)];
        let mut expiring = a.clone();
        expiring.cells[0].expires = Some(9);
        let mut of_partition = a.clone();
        of_partition.statics = std::mem::take(&mut of_partition.cells);
        for other in [
            digest_of(&exchanged),
            digest_of(std::slice::from_ref(&a)),
            digest_of(&[row("a", Some("x"), "1", 6), b.clone()]),
            digest_of(&[expiring, b.clone()]),
            digest_of(&[of_partition, b.clone()]),
            digest_of(&[row("ax", Some(""), "1", 5), b]),
        ] {
            assert_ne!(whole, other);
        }
    }

    /// A table with the columns k, c, s (static) and the set r.
    fn statements() -> Statements {
        let column = |name: &str, kind, shape| Column {
            name: name.to_owned(),
            kind,
            position: 0,
            cql_type: "text".to_owned(),
            order: "none".to_owned(),
            shape,
        };
        let columns = vec![
            column("k", Kind::PartitionKey, Shape::Simple),
            column("c", Kind::Clustering, Shape::Simple),
            column("s", Kind::Static, Shape::Simple),
            column("r", Kind::Regular, Shape::Set),
        ];
        let (keyspace, name, id) = ("ks".to_owned(), "t".to_owned(), String::new());
        Statements::new(Table {
            keyspace,
            name,
            id,
            columns,
            is_counter: false,
            layout: cassette_rows::Layout::Cql,
            cdc: false,
            gc_grace_seconds: 0,
        })
    }

    #[test]
    fn digests_of_selected_values_are_those_of_their_rows() {
        let (now, written, ttl) = (1_000, 7_i64.to_be_bytes(), 5_i32.to_be_bytes());
        let set = encode_list([Bytes::from_static(b"x"), Bytes::from_static(b"y")].iter());
        let times = encode_list([written, written].map(|time| Bytes::copy_from_slice(&time)).iter());
        let (value, first) = (Some(&b"v"[..]), Some(&b"1"[..]));
        let statics = [value, Some(&written[..]), Some(&ttl[..])];
        let regulars = [Some(&set[..]), Some(&times[..]), None];
        let selected = |key, clustering, regulars: [Option<&'static [u8]>; 3]| -> Vec<Option<&[u8]>> {
            [vec![Some(key), clustering], statics.to_vec(), regulars.to_vec()].concat()
        };
        let regulars = regulars.map(|value| value.map(|value| &*value.to_vec().leak()));
        // Two rows of a partition, a row of another one, and a partition with static cells only.
        let rows = [
            selected(b"a", first, regulars),
            selected(b"a", Some(b"2"), [None; 3]),
            selected(b"b", first, regulars),
            selected(b"c", None, [None; 3]),
        ];
        let statements = statements();
        let (mut found, mut hashes, mut expected) = (Digest::default(), RowHashes::default(), Vec::new());
        for values in &rows {
            hashes.add(&statements, values, now, &mut found).unwrap();
            let mut row = statements.decode(values, now).unwrap();
            assert_eq!((row.statics.len(), row.statics[0].expires), (1, Some(1_005)));
            if expected.last().is_some_and(|last: &Row| last.key == row.key) {
                row.statics.clear();
            }
            expected.push(row);
        }
        assert_eq!((expected[0].cells.len(), &expected[3].clustering), (2, &None));
        assert_eq!(found, digest_of(&expected));
        let malformed = selected(b"a", first, [Some(b"\0"), Some(b"\0"), None]);
        assert!(hashes.add(&statements, &malformed, now, &mut found).is_err());
    }
}
