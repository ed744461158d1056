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
/// Maximum bytes of values in a batch of several rows of a partition.
const BYTES_MAX: usize = 128 << 10;
/// Maximum number of partitions in a batch, and their bytes as Cassandra counts them. Both are
/// below its default thresholds for warnings, which exclude batches of one partition:
/// `unlogged_batch_across_partitions_warn_threshold`, and `batch_size_warn_threshold` of 5 KiB.
const PARTITIONS_MAX: usize = 10;
const PARTITIONS_BYTES_MAX: usize = 5_000;
/// The bytes that Cassandra counts for a cell beside its values, and for a row beside its cells.
const CELL_OVERHEAD: usize = 20;

/// Some rows of one partition, or of partitions of one node, and their statements.
struct RowBatch<'r> {
    rows: Vec<&'r Row>,
    statements: Vec<BoundStatement>,
    partitions: usize,
    /// Of the values, and as Cassandra counts them.
    bytes: usize,
    counted: usize,
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
            let node = |row: &Row| self.client.node_of(row.token);
            let batches = batches(statements, &rows, now, marker, &node);
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
        let text = match &row.clustering {
            _ if is_static => &statements.select_static,
            Some(clustering) => statements.select_of(clustering),
            None => &statements.select_row,
        };
        let request =
            PageRequest { text, values: &values, token: row.token, page_size: 1, paging_state: None, now };
        let rows = self.client.rows(&request)?;
        let found = rows.as_ref().and_then(|rows| rows.iter().next());
        let found = found.map(|found| statements.decode(&found.collect::<Vec<_>>(), now)).transpose()?;
        // A select of a prefix finds another row if none has null after it.
        Ok(found.filter(|found| is_static || found.clustering == row.clustering))
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

/// Groups the statements of neighbouring rows: of a partition, and of small partitions that have
/// the same node, which saves requests. Increments of counters are only grouped by partition: a
/// failed one is repeated with all of its batch, after a read of each row.
fn batches<'r>(
    statements: &Statements,
    rows: &'r [Row],
    now: u32,
    marker: i64,
    node: &dyn Fn(&Row) -> usize,
) -> Vec<RowBatch<'r>> {
    let mut batches: Vec<RowBatch<'r>> = Vec::new();
    for row in rows {
        let of_row = statements.writes(row, now, marker);
        if of_row.is_empty() {
            continue;
        }
        let (length, count) = (row.length(), of_row.len());
        let counted = length + CELL_OVERHEAD * (1 + row.cells.len() + row.statics.len());
        let is_same = |batch: &RowBatch<'_>| batch.rows.last().is_some_and(|last| last.key == row.key);
        let fits = |batch: &&mut RowBatch<'_>| {
            let of_partition = batch.partitions == 1 && batch.bytes + length <= BYTES_MAX;
            let of_node = !statements.table.is_counter
                && batch.partitions + usize::from(!is_same(batch)) <= PARTITIONS_MAX
                && batch.counted + counted <= PARTITIONS_BYTES_MAX
                && node(batch.rows[0]) == node(row);
            batch.statements.len() + count <= STATEMENTS_MAX && (is_same(batch) && of_partition || of_node)
        };
        match batches.last_mut().filter(fits) {
            Some(batch) => {
                batch.partitions += usize::from(!is_same(batch));
                batch.rows.push(row);
                batch.statements.extend(of_row);
                batch.bytes += length;
                batch.counted += counted;
            }
            None => {
                batches.push(RowBatch {
                    rows: vec![row],
                    statements: of_row,
                    partitions: 1,
                    bytes: length,
                    counted,
                });
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Column, Kind, Shape, Table};

    fn statements(is_counter: bool) -> Statements {
        let column = |name: &str, kind, shape| Column {
            name: name.to_owned(),
            kind,
            position: 0,
            cql_type: "blob".to_owned(),
            order: "none".to_owned(),
            shape,
        };
        let of_value = if is_counter { Shape::Counter } else { Shape::Simple };
        let columns = vec![
            column("k", Kind::PartitionKey, Shape::Simple),
            column("c", Kind::Clustering, Shape::Simple),
            column("v", Kind::Regular, of_value),
        ];
        let (keyspace, name, id) = ("ks".to_owned(), "t".to_owned(), String::new());
        let layout = cassette_rows::Layout::Cql;
        Statements::new(Table {
            keyspace,
            name,
            id,
            columns,
            is_counter,
            layout,
            cdc: false,
            gc_grace_seconds: 0,
        })
    }

    /// A row of partition `key`, whose number is also its token.
    fn row(key: u8, length: usize) -> Row {
        let value = Bytes::from(vec![7; length]);
        let cell = Cell { column: 0, path: None, value, timestamp: 1, expires: None };
        Row {
            token: key.into(),
            key: vec![Bytes::copy_from_slice(&[key])],
            clustering: Some(vec![Bytes::from_static(b"c")]),
            statics: Vec::new(),
            cells: vec![cell],
        }
    }

    /// The number of rows in each batch; keys below 100 belong to one node.
    fn grouped(is_counter: bool, rows: &[Row]) -> Vec<usize> {
        let node = |row: &Row| usize::from(row.token >= 100);
        let statements = statements(is_counter);
        batches(&statements, rows, 0, 0, &node).iter().map(|batch| batch.rows.len()).collect()
    }

    #[test]
    fn small_partitions_of_a_node_share_batches_below_the_thresholds_of_warnings() {
        let small: Vec<Row> = (0..25).map(|key| row(key, 10)).collect();
        assert_eq!(grouped(false, &small), [10, 10, 5]);
        let kilobytes: Vec<Row> = (0..9).map(|key| row(key, 1_000)).collect();
        assert_eq!(grouped(false, &kilobytes), [4, 4, 1]);
        let nodes: Vec<Row> = [1, 2, 100, 101, 3].map(|key| row(key, 10)).into();
        assert_eq!(grouped(false, &nodes), [2, 2, 1]);
    }

    #[test]
    fn rows_of_a_partition_share_batches_up_to_their_limits() {
        let rows: Vec<Row> = (0..100).map(|_| row(1, 1_000)).collect();
        assert_eq!(grouped(false, &rows), [64, 36]);
        let long: Vec<Row> = (0..3).map(|_| row(1, 60 << 10)).collect();
        assert_eq!(grouped(false, &long), [2, 1]);
        // A partition that exceeds what several ones may have together starts a batch.
        let mixed: Vec<Row> =
            [(1, 10), (2, 4_000), (2, 4_000), (3, 10)].map(|(key, length)| row(key, length)).into();
        assert_eq!(grouped(false, &mixed), [2, 2]);
    }

    #[test]
    fn increments_of_counters_are_grouped_by_partition_only() {
        let rows: Vec<Row> = [1, 1, 2, 3].map(|key| row(key, 8)).into();
        assert_eq!(grouped(true, &rows), [2, 1, 1]);
    }
}
