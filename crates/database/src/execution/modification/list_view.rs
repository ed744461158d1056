//! A list as seen by the operations of one statement.

use cassette_rows::merge::reconcile;
use cassette_rows::{Cell, ColumnId, DataType, Row};

/// The stored list, overlaid by the statement's previous operations.
#[derive(Debug)]
pub(crate) struct ListView {
    column: ColumnId,
    /// Seconds since 1970.
    now: u32,
    /// Whether the row exists. If not, Cassandra also counts elements deleted by previous
    /// operations.
    row_exists: bool,
    /// Ascending by path.
    elements: Vec<ListElement>,
}

#[derive(Debug)]
struct ListElement {
    path: Vec<u8>,
    value: Vec<u8>,
    timestamp: i64,
    ttl: u32,
    local_deletion_time: u32,
}

impl ListElement {
    fn new(cell: &Cell<'_>) -> Self {
        Self {
            path: cell.path.unwrap_or_default().to_vec(),
            value: cell.value.to_vec(),
            timestamp: cell.timestamp,
            ttl: cell.ttl,
            local_deletion_time: cell.local_deletion_time,
        }
    }

    fn cell(&self, column: ColumnId) -> Cell<'_> {
        Cell {
            column,
            path: Some(&self.path),
            value: &self.value,
            timestamp: self.timestamp,
            ttl: self.ttl,
            local_deletion_time: self.local_deletion_time,
        }
    }
}

impl ListView {
    /// Returns the stored list of `row`; `None` if the row does not exist.
    pub fn new(row: Option<&Row>, column: ColumnId, now: u32) -> Self {
        let row = row.filter(|row| row.is_live(now));
        let live = row.into_iter().flat_map(|row| row.cells_of(column)).filter(|cell| cell.is_live(now));
        Self {
            column,
            now,
            row_exists: row.is_some(),
            elements: live.map(|cell| ListElement::new(&cell)).collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Returns the path of the element at `index`.
    pub fn path(&self, index: usize) -> Option<&[u8]> {
        self.elements.get(index).map(|element| &element.path[..])
    }

    /// Returns the paths of elements with one of these values.
    pub fn paths_of(&self, values: &[&[u8]]) -> Vec<Vec<u8>> {
        let found = self.elements.iter().filter(|element| values.contains(&&element.value[..]));
        found.map(|element| element.path.clone()).collect()
    }

    /// Applies a cell of the statement, or its tombstone; the later timestamp wins.
    pub fn write(&mut self, cell: &Cell<'_>) {
        let path = cell.path.unwrap_or_default();
        let at = self.elements.binary_search_by(|element| DataType::TimeUuid.compare(&element.path, path));
        let at = match at {
            Ok(at) => {
                if reconcile(cell, &self.elements[at].cell(self.column)).is_gt() {
                    self.elements[at] = ListElement::new(cell);
                }
                at
            }
            Err(at) => {
                self.elements.insert(at, ListElement::new(cell));
                at
            }
        };
        if self.row_exists && !self.elements[at].cell(self.column).is_live(self.now) {
            self.elements.remove(at);
        }
    }

    /// Deletes the whole list at a timestamp.
    pub fn clear(&mut self, timestamp: i64) {
        self.elements.retain(|element| element.timestamp > timestamp);
    }
}
