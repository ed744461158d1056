//! Writes rows to the target, and repeats what fails.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::cell::{Cell, Row};
use crate::client::{Client, Failure, Statement, Write};
use crate::error::Result;
use crate::page::PageRequest;
use crate::statements::{BoundStatement, Statements};

/// Maximum number of statements in a batch; those of one row are never split.
const STATEMENTS_MAX: usize = 64;
/// Maximum bytes of values in a batch of several rows.
const BYTES_MAX: usize = 128 << 10;

/// Some rows of one partition and their statements.
struct RowBatch<'r> {
    rows: Vec<&'r Row>,
    statements: Vec<BoundStatement>,
    bytes: usize,
}

/// Writes rows of a table.
pub struct Writer<'e> {
    pub client: Client<'e>,
}

impl Writer<'_> {
    /// Writes rows that were read at `now`. Blocks until all are acknowledged.
    ///
    /// Two kinds of writes have an effect each time: appended elements of lists, and increments of
    /// counters. If `is_careful`, or after a failure, the target's values are read first, and only
    /// what is missing is written.
    pub fn write(
        &mut self,
        statements: &Statements,
        mut rows: Vec<Row>,
        now: u32,
        marker: i64,
        is_careful: bool,
    ) -> Result<()> {
        let accumulates = statements.table.is_counter || statements.table.has_lists();
        let mut is_careful = is_careful && accumulates;
        let mut repeats = self.client.repeats();
        while !rows.is_empty() {
            if is_careful {
                for row in &mut rows {
                    self.leave_missing(statements, row, now)?;
                }
            }
            let batches = batches(statements, &rows, now, marker);
            let writes: Vec<Write<'_>> = batches
                .iter()
                .map(|batch| Write {
                    token: batch.rows[0].token,
                    statements: batch.statements.iter().map(|bound| statement(statements, bound)).collect(),
                    is_counter: statements.table.is_counter,
                    now,
                })
                .collect();
            let failures = self.client.write(&writes, repeats.count);
            let mut failed = Vec::new();
            let mut last = None;
            for (batch, failure) in batches.iter().zip(failures) {
                if let Some(failure) = failure {
                    failed.extend(batch.rows.iter().map(|row| (*row).clone()));
                    if !matches!(last, Some(Failure::Refused(_))) {
                        last = Some(failure);
                    }
                }
            }
            if let Some(failure) = last {
                repeats.after(&statements.writes.join("; "), failure)?;
                is_careful = accumulates;
            }
            rows = failed;
        }
        Ok(())
    }

    /// Removes from a row what the target has: of lists all elements if it has any, of counters the
    /// present count.
    fn leave_missing(&mut self, statements: &Statements, row: &mut Row, now: u32) -> Result<()> {
        let is_list = |is_static: bool, cell: &Cell| statements.is_list(is_static, cell.column);
        if statements.table.is_counter {
            if let Some(found) = self.read_row(statements, row, false, now)? {
                subtract(&mut row.cells, &found.cells);
            }
            // The static counters of a row that does not exist may exist.
            if !row.statics.is_empty()
                && let Some(found) = self.read_row(statements, row, true, now)?
            {
                subtract(&mut row.statics, &found.statics);
            }
            return Ok(());
        }
        if row.cells.iter().any(|cell| is_list(false, cell))
            && let Some(found) = self.read_row(statements, row, false, now)?
        {
            let has = |column: usize| found.cells.iter().any(|cell| cell.column == column);
            row.cells.retain(|cell| !is_list(false, cell) || !has(cell.column));
        }
        if row.statics.iter().any(|cell| is_list(true, cell))
            && let Some(found) = self.read_row(statements, row, true, now)?
        {
            let has = |column: usize| found.statics.iter().any(|cell| cell.column == column);
            row.statics.retain(|cell| !is_list(true, cell) || !has(cell.column));
        }
        Ok(())
    }

    /// Reads a row of the target, or the static cells of its partition.
    pub fn read_row(
        &mut self,
        statements: &Statements,
        row: &Row,
        is_static: bool,
        now: u32,
    ) -> Result<Option<Row>> {
        let clustering = row.clustering.iter().flatten().filter(|_| !is_static);
        let values: Vec<Vec<u8>> = row.key.iter().chain(clustering).map(|value| value.to_vec()).collect();
        let text = if is_static { &statements.select_static } else { &statements.select_row };
        let request =
            PageRequest { text, values: &values, token: row.token, page_size: 1, paging_state: None, now };
        let mut page = self.client.page(&request)?;
        page.rows.pop().map(|row| statements.decode(row, now)).transpose()
    }
}

fn subtract(cells: &mut Vec<Cell>, found: &[Cell]) {
    let count = |value: &Bytes| value.as_ref().try_into().map_or(0, i64::from_be_bytes);
    let counts: BTreeMap<usize, i64> = found.iter().map(|cell| (cell.column, count(&cell.value))).collect();
    for cell in cells.iter_mut() {
        let rest = count(&cell.value).wrapping_sub(counts.get(&cell.column).copied().unwrap_or(0));
        cell.value = Bytes::copy_from_slice(&rest.to_be_bytes());
    }
    cells.retain(|cell| count(&cell.value) != 0);
}

fn statement<'a>(statements: &'a Statements, bound: &'a BoundStatement) -> Statement<'a> {
    Statement {
        text: &statements.writes[bound.text],
        values: bound.values.iter().map(|value| value.value()).collect(),
    }
}

/// Groups the statements of neighbouring rows of a partition.
fn batches<'r>(statements: &Statements, rows: &'r [Row], now: u32, marker: i64) -> Vec<RowBatch<'r>> {
    let mut batches: Vec<RowBatch<'r>> = Vec::new();
    for row in rows {
        let of_row = statements.writes(row, now, marker);
        if of_row.is_empty() {
            continue;
        }
        let (length, count) = (row.length(), of_row.len());
        let fits = |batch: &&mut RowBatch<'_>| {
            batch.rows[0].key == row.key
                && batch.statements.len() + count <= STATEMENTS_MAX
                && batch.bytes + length <= BYTES_MAX
        };
        match batches.last_mut().filter(fits) {
            Some(batch) => {
                batch.rows.push(row);
                batch.statements.extend(of_row);
                batch.bytes += length;
            }
            None => batches.push(RowBatch { rows: vec![row], statements: of_row, bytes: length }),
        }
    }
    batches
}
