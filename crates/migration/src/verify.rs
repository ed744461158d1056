//! Comparison of source and target: digests of token ranges, then rows.

use std::collections::{HashMap, HashSet};

use twox_hash::XxHash3_128;

use crate::cell::{Cell, Row};
use crate::copy::Scan;
use crate::endpoint::Session;
use crate::error::Result;
use crate::event::Difference;
use crate::plan::readable;
use crate::statements::Statements;
use crate::token_range::TokenRange;
use crate::writer::Writer;

/// Maximum number of rows of a range that are compared in memory, with 32 bytes for each.
const ROWS_MAX: u64 = 1 << 20;

/// A digest of rows that does not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest {
    sum: u128,
    pub rows: u64,
}

impl Digest {
    fn add(&mut self, row: &Row) {
        self.rows += 1;
        for (key, content) in parts(row) {
            // Both in one hash: a sum of separate ones would not notice exchanged contents.
            let mut bytes = key.to_le_bytes().to_vec();
            bytes.extend(content.to_le_bytes());
            self.sum = self.sum.wrapping_add(XxHash3_128::oneshot(&bytes));
        }
    }
}

/// Computes the digest of a token range.
pub fn digest(
    session: &mut Session<'_>,
    statements: &Statements,
    range: TokenRange,
    now: u32,
) -> Result<Digest> {
    let mut digest = Digest::default();
    let mut scan = Scan::new(statements, range, now);
    while let Some(rows) = scan.next_page(session)? {
        rows.iter().for_each(|row| digest.add(row));
    }
    Ok(digest)
}

/// Returns hashes of key and content of the row, and of the static cells that it has.
fn parts(row: &Row) -> impl Iterator<Item = (u128, u128)> {
    let mut key = Vec::new();
    row.key.iter().for_each(|value| put(value, &mut key));
    let statics = (!row.statics.is_empty()).then(|| {
        let mut key = key.clone();
        key.push(0);
        (XxHash3_128::oneshot(&key), content(&row.statics))
    });
    let regular = row.clustering.as_ref().map(|clustering| {
        key.push(1);
        clustering.iter().for_each(|value| put(value, &mut key));
        (XxHash3_128::oneshot(&key), content(&row.cells))
    });
    statics.into_iter().chain(regular)
}

fn content(cells: &[Cell]) -> u128 {
    let mut bytes = Vec::new();
    for cell in cells {
        bytes.extend((cell.column as u64).to_le_bytes());
        bytes.push(u8::from(cell.path.is_some()));
        put(cell.path.as_deref().unwrap_or_default(), &mut bytes);
        put(&cell.value, &mut bytes);
        bytes.extend(cell.timestamp.to_le_bytes());
        bytes.extend(u64::from(cell.expires.unwrap_or(u32::MAX)).to_le_bytes());
    }
    XxHash3_128::oneshot(&bytes)
}

fn put(value: &[u8], out: &mut Vec<u8>) {
    out.extend((value.len() as u64).to_le_bytes());
    out.extend_from_slice(value);
}

/// What to do with differences.
pub struct Comparison<'a> {
    pub statements: &'a Statements,
    pub now: u32,
    /// The write timestamp of rows without cells.
    pub marker: i64,
    pub repairs: bool,
}

impl Comparison<'_> {
    /// Compares the rows of a range whose digests differ, and repairs the target if requested.
    /// Calls `report` for each difference.
    pub fn compare(
        &self,
        source: &mut Session<'_>,
        target: &mut Session<'_>,
        writer: &mut Writer<'_>,
        range: TokenRange,
        rows: u64,
        report: &mut dyn FnMut(Difference),
    ) -> Result<()> {
        if rows > ROWS_MAX
            && let Some(halves) = range.halves()
        {
            for half in halves {
                let found = digest(source, self.statements, half, self.now)?;
                if found != digest(target, self.statements, half, self.now)? {
                    self.compare(source, target, writer, half, found.rows, report)?;
                }
            }
            return Ok(());
        }
        let mut contents: HashMap<u128, u128> = HashMap::new();
        let mut scan = Scan::new(self.statements, range, self.now);
        while let Some(rows) = scan.next_page(source)? {
            contents.extend(rows.iter().flat_map(parts));
        }
        let mut differing = HashSet::new();
        let mut scan = Scan::new(self.statements, range, self.now);
        while let Some(rows) = scan.next_page(target)? {
            for row in &rows {
                for (key, content) in parts(row) {
                    match contents.remove(&key) {
                        Some(expected) if expected == content => {}
                        Some(_) => _ = differing.insert(key),
                        None => report(self.difference(row, "target")),
                    }
                }
            }
        }
        if contents.is_empty() && differing.is_empty() {
            return Ok(());
        }
        // What is left is in the source only.
        let mut scan = Scan::new(self.statements, range, self.now);
        while let Some(rows) = scan.next_page(source)? {
            for row in rows {
                let keys: Vec<u128> = parts(&row).map(|(key, _)| key).collect();
                let is_missing = keys.iter().any(|key| contents.contains_key(key));
                if is_missing || keys.iter().any(|key| differing.contains(key)) {
                    let found = if is_missing { "source" } else { "both" };
                    let mut difference = self.difference(&row, found);
                    difference.repaired = self.repairs && self.repair(writer, row)?;
                    report(difference);
                }
            }
        }
        Ok(())
    }

    /// Writes a row again. Returns whether the target then has the same cells: not if its own are
    /// newer.
    fn repair(&self, writer: &mut Writer<'_>, row: Row) -> Result<bool> {
        writer.write(self.statements, vec![row.clone()], self.now, self.marker, true)?;
        let mut found = Vec::new();
        for is_static in [false, true] {
            let is_expected = if is_static { !row.statics.is_empty() } else { row.clustering.is_some() };
            if is_expected && let Some(read) = writer.read_row(self.statements, &row, is_static, self.now)? {
                found.extend(parts(&read));
            }
        }
        Ok(parts(&row).all(|part| found.contains(&part)))
    }

    fn difference(&self, row: &Row, found: &str) -> Difference {
        let table = &self.statements.table;
        Difference {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            key: row.key.iter().chain(row.clustering.iter().flatten()).map(readable).collect(),
            found: found.to_owned(),
            repaired: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

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
        let mut digest = Digest::default();
        rows.iter().for_each(|row| digest.add(row));
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
}
