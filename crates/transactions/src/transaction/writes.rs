//! Buffered writes of a transaction, and its savepoints.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cassette_database::DeferredWrite;

use super::scans::Span;
use super::table::Table;
use crate::store::Cell;

/// A point of a transaction to which its writes can be rolled back:
/// [`Transaction::savepoint`](super::Transaction::savepoint).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Savepoint(u64);

/// Writes by table and cell; the last write of a cell counts. Empty values are deletions. And
/// writes to CQL tables.
#[derive(Default)]
pub(super) struct Writes {
    tables: Vec<(Table, BTreeMap<Cell, Bytes>)>,
    /// What the writes since the oldest savepoint replaced, oldest first.
    undo: Vec<Undo>,
    /// Writes to CQL tables, in order.
    cql: Vec<DeferredWrite>,
    /// Savepoints, and the lengths of `undo` and `cql` at each.
    savepoints: Vec<(Savepoint, usize, usize)>,
}

struct Undo {
    /// Index in `tables`.
    table: usize,
    cell: Cell,
    before: Option<Bytes>,
}

impl Writes {
    pub fn put(&mut self, table: &Table, cell: Cell, value: Bytes) {
        let known = self.tables.iter().position(|(known, _)| known.name() == table.name());
        let index = known.unwrap_or_else(|| {
            self.tables.push((table.clone(), BTreeMap::new()));
            self.tables.len() - 1
        });
        let cells = &mut self.tables[index].1;
        if self.savepoints.is_empty() {
            cells.insert(cell, value);
        } else {
            let before = cells.insert(cell.clone(), value);
            self.undo.push(Undo { table: index, cell, before });
        }
    }

    pub fn savepoint(&mut self) -> Savepoint {
        // Unique in the process, so that a savepoint of another transaction is detected.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let savepoint = Savepoint(NEXT.fetch_add(1, Ordering::Relaxed));
        self.savepoints.push((savepoint, self.undo.len(), self.cql.len()));
        savepoint
    }

    /// Undoes all writes since a savepoint, which stays, and ends later savepoints. Returns false
    /// if there is no such savepoint.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> bool {
        let Some(index) = self.position(savepoint) else { return false };
        let (_, length, cql) = self.savepoints[index];
        self.savepoints.truncate(index + 1);
        self.cql.truncate(cql);
        for Undo { table, cell, before } in self.undo.drain(length..).rev() {
            match (self.tables[table].1.entry(cell), before) {
                (Entry::Occupied(mut entry), Some(before)) => drop(entry.insert(before)),
                (Entry::Occupied(entry), None) => drop(entry.remove()),
                (Entry::Vacant(entry), Some(before)) => drop(entry.insert(before)),
                (Entry::Vacant(_), None) => {}
            }
        }
        true
    }

    /// Ends a savepoint and later ones, and keeps the writes. Returns false if there is no such
    /// savepoint.
    pub fn release(&mut self, savepoint: Savepoint) -> bool {
        let Some(index) = self.position(savepoint) else { return false };
        self.savepoints.truncate(index);
        if self.savepoints.is_empty() {
            self.undo.clear();
        }
        true
    }

    fn position(&self, savepoint: Savepoint) -> Option<usize> {
        self.savepoints.iter().position(|(known, ..)| *known == savepoint)
    }

    pub fn is_empty(&self) -> bool {
        self.cql.is_empty() && self.tables.iter().all(|(_, cells)| cells.is_empty())
    }

    /// Adds a write to CQL tables.
    pub fn execute(&mut self, write: DeferredWrite) {
        self.cql.push(write);
    }

    /// Returns the writes to CQL tables, in order.
    pub fn cql(&self) -> &[DeferredWrite] {
        &self.cql
    }

    /// Returns the bytes that they write.
    pub fn cql_bytes(&self) -> usize {
        self.cql.iter().map(DeferredWrite::bytes).sum()
    }

    fn of(&self, table: &Table) -> Option<&BTreeMap<Cell, Bytes>> {
        self.tables.iter().find(|(known, _)| known.name() == table.name()).map(|(_, cells)| cells)
    }

    pub fn get(&self, table: &Table, cell: &Cell) -> Option<&Bytes> {
        self.of(table)?.get(cell)
    }

    /// Returns the tables with their cells, in order.
    pub fn tables(&self) -> impl Iterator<Item = (&Table, &BTreeMap<Cell, Bytes>)> {
        self.tables.iter().map(|(table, cells)| (table, cells))
    }

    /// Returns the writes to columns of a row in order.
    pub fn columns(&self, table: &Table, row: &Bytes, span: &Span) -> impl Iterator<Item = (Bytes, Bytes)> {
        let from = Cell { row: row.clone(), column: span.start.clone() };
        let to = match &span.end {
            Some(end) => Bound::Excluded(Cell { row: row.clone(), column: end.clone() }),
            None => Bound::Unbounded,
        };
        let cells =
            self.of(table).filter(|_| !span.is_empty()).map(|cells| cells.range((Bound::Included(from), to)));
        let row = row.clone();
        cells
            .into_iter()
            .flatten()
            .take_while(move |(cell, _)| cell.row == row)
            .map(|(cell, value)| (cell.column.clone(), value.clone()))
    }

    /// Returns the rows of a table that are written.
    pub fn rows(&self, table: &Table) -> Vec<Bytes> {
        let mut rows: Vec<Bytes> =
            self.of(table).into_iter().flatten().map(|(cell, _)| cell.row.clone()).collect();
        rows.dedup();
        rows
    }
}
