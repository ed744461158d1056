//! Comparison of source and target: digests of token ranges, then rows.

use std::collections::{HashMap, HashSet};

use crate::cell::Row;
use crate::copy::Scan;
use crate::digest::{Digest, RowHashes, parts};
use crate::endpoint::Session;
use crate::error::Result;
use crate::event::Difference;
use crate::plan::readable;
use crate::statements::Statements;
use crate::stored::StoredTable;
use crate::token_range::TokenRange;
use crate::writer::Writer;

/// Maximum number of rows of a range that are compared in memory, with 32 bytes for each.
const ROWS_MAX: u64 = 1 << 20;

/// Computes the digest of a token range: of a directory from its rows, which is twice as fast as
/// selecting the write timestamp and the expiration of every cell.
pub fn digest(
    session: &mut Session<'_>,
    statements: &Statements,
    range: TokenRange,
    now: u32,
) -> Result<Digest> {
    if let Session::Directory { database, path } = session
        && let Some(table) = StoredTable::find(database, path, statements)
    {
        return table.digest(range, now);
    }
    selected(session, statements, range, now)
}

/// Returns whether source and target are directories that share the files with the rows of a token
/// range. What is read of one then is the digest of both.
pub fn shares_files(
    source: &Session<'_>,
    target: &Session<'_>,
    statements: &Statements,
    range: TokenRange,
) -> Result<bool> {
    let table = |session| match session {
        &Session::Directory { database, path } => StoredTable::find(database, path, statements),
        Session::Cluster(_) => None,
    };
    match (table(source), table(target)) {
        (Some(source), Some(target)) => source.shares_files(&target, range),
        _ => Ok(false),
    }
}

/// Computes the digest of a token range from the rows that a SELECT returns.
pub fn selected(
    session: &mut Session<'_>,
    statements: &Statements,
    range: TokenRange,
    now: u32,
) -> Result<Digest> {
    let mut digest = Digest::default();
    let mut rows = RowHashes::default();
    let mut scan = Scan::new(statements, range, now);
    while scan.visit_page(session, &mut |values| rows.add(statements, values, now, &mut digest))? {}
    Ok(digest)
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
