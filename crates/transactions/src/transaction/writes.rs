//! Buffered writes of a transaction.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use super::table::Table;
use crate::store::Cell;

/// Writes by table and cell; the last write of a cell counts. Empty values are deletions.
#[derive(Default)]
pub(super) struct Writes {
    tables: Vec<(Table, BTreeMap<Cell, Bytes>)>,
}

impl Writes {
    pub fn put(&mut self, table: &Table, cell: Cell, value: Bytes) {
        match self.tables.iter_mut().find(|(known, _)| known.name() == table.name()) {
            Some((_, cells)) => drop(cells.insert(cell, value)),
            None => self.tables.push((table.clone(), BTreeMap::from([(cell, value)]))),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
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

    /// Returns the writes to columns of a row from `start`, before `end`, in order.
    pub fn columns(
        &self,
        table: &Table,
        row: &Bytes,
        start: &Bytes,
        end: Option<&Bytes>,
    ) -> impl Iterator<Item = (Bytes, Bytes)> {
        let from = Cell { row: row.clone(), column: start.clone() };
        let to = match end {
            Some(end) => Bound::Excluded(Cell { row: row.clone(), column: end.clone() }),
            None => Bound::Unbounded,
        };
        let empty = end.is_some_and(|end| end <= start);
        let cells = self.of(table).filter(|_| !empty).map(|cells| cells.range((Bound::Included(from), to)));
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
