//! From operations to cells.

use std::borrow::Cow;

use cassette_rows::merge::counter;
use cassette_rows::types::collection;
use cassette_rows::{
    Cell, ColumnId, ColumnMetadata, DataType, DeletionTime, NO_DELETION_TIME, NO_TTL, Row, RowBuilder,
};

use super::list_view::ListView;
use crate::basics::error::{Result, bail_invalid};
use crate::execution::Execution;
use crate::planning::modification::attributes::Times;
use crate::planning::modification::operation::{ColumnOperations, Operation};
use crate::planning::terms::Bound;
use crate::schema::conditions::Term;
use crate::schema::guardrails::collections::CELL_SIZE;
use crate::schema::guardrails::{Guard, ListOperation};

/// Returns the increment of a counter by an operation; `None` if its value is unset.
fn increment(operation: &Operation, execution: &Execution<'_>) -> Result<Option<i64>> {
    let (Operation::Increment(term) | Operation::Decrement(term)) = operation else { return Ok(None) };
    let by = match term.bind(execution)? {
        Bound::Unset => return Ok(None),
        Bound::Null => bail_invalid!("Invalid null value for counter increment"),
        Bound::Value(value) => match <[u8; 8]>::try_from(&*value) {
            Ok(bytes) => i64::from_be_bytes(bytes),
            Err(_) => bail_invalid!("Invalid null value for counter increment"),
        },
    };
    match operation {
        Operation::Decrement(_) => match by.checked_neg() {
            Some(by) => Ok(Some(by)),
            None => bail_invalid!(
                "The negation of {by} overflows supported counter precision (signed 8 bytes integer)"
            ),
        },
        _ => Ok(Some(by)),
    }
}

fn sum(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.wrapping_add(b)),
        (one, other) => one.or(other),
    }
}

/// The changes of one column in one row.
#[derive(Debug)]
pub(crate) enum Change<'a> {
    /// No change: the value is unset.
    None,
    /// The value of a simple column, or its deletion.
    Simple(ColumnId, Option<Cow<'a, [u8]>>),
    /// The changes of a complex column.
    Complex {
        column: ColumnId,
        /// The deletion that precedes the elements.
        deletion: ComplexDeletion,
        /// Ascending by path, without repetitions.
        elements: Vec<Element<'a>>,
    },
}

/// The deletion of a whole complex column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComplexDeletion {
    No,
    /// A microsecond before the write timestamp, so that it does not cover the written elements.
    Overwrite,
    /// At the write timestamp.
    Delete,
}

/// A cell of a complex column.
#[derive(Debug)]
pub(crate) struct Element<'a> {
    path: Cow<'a, [u8]>,
    /// `None` deletes the cell.
    value: Option<Cow<'a, [u8]>>,
}

impl<'a> Change<'a> {
    /// Binds the values of a column's operations. `current` is the current row, for operations that
    /// depend on it.
    pub fn bind(
        column: &'a ColumnOperations,
        current: Option<&Row>,
        times: &Times,
        execution: &Execution<'a>,
    ) -> Result<Self> {
        let id = column.column.id;
        let data_type = &column.column.data_type;
        if !data_type.is_multi_cell() {
            return Ok(match column.operations.first() {
                Some(Operation::Set(term)) => match term.bind(execution)? {
                    Bound::Unset => Self::None,
                    Bound::Null => Self::Simple(id, None),
                    Bound::Value(value) => {
                        guard_value(&column.column, &value, execution)?;
                        Self::Simple(id, Some(value))
                    }
                },
                Some(Operation::Delete) => Self::Simple(id, None),
                Some(Operation::Increment(_) | Operation::Decrement(_)) => {
                    let mut by = None;
                    for operation in &column.operations {
                        by = sum(by, increment(operation, execution)?);
                    }
                    match by {
                        Some(by) => Self::Simple(id, Some(Cow::Owned(counter::increment(by)))),
                        None => Self::None,
                    }
                }
                _ => Self::None,
            });
        }
        let requires_read = column.operations.iter().any(|operation| operation.requires_read(data_type));
        let mut writer = ComplexWriter {
            guard: execution.guard(),
            name: &column.column.name,
            data_type,
            column: id,
            times,
            list: requires_read.then(|| ListView::new(current, id, execution.now_seconds)),
            deletion: ComplexDeletion::No,
            elements: Vec::new(),
        };
        for operation in &column.operations {
            writer.apply(operation, execution)?;
        }
        let (deletion, elements) = writer.finish();
        if deletion == ComplexDeletion::No && elements.is_empty() {
            return Ok(Self::None);
        }
        Ok(Self::Complex { column: id, deletion, elements })
    }

    /// Returns the bytes of values and paths.
    pub fn size(&self) -> usize {
        let length = |value: &Option<Cow<'_, [u8]>>| value.as_ref().map_or(0, |v| v.len());
        match self {
            Self::None => 0,
            Self::Simple(_, value) => length(value),
            Self::Complex { elements, .. } => elements.iter().map(|e| e.path.len() + length(&e.value)).sum(),
        }
    }

    /// Returns the number of cells.
    pub fn cell_count(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Simple(..) => 1,
            Self::Complex { elements, .. } => elements.len(),
        }
    }

    /// Adds the cells to `row`.
    pub fn write(self, row: &mut RowBuilder, times: &Times) {
        match self {
            Self::None => {}
            Self::Simple(column, value) => {
                row.cell(cell(column, None, value.as_deref(), times));
            }
            Self::Complex { column, deletion, elements } => {
                let at = match deletion {
                    ComplexDeletion::No => DeletionTime::LIVE,
                    ComplexDeletion::Overwrite => {
                        DeletionTime::new(times.timestamp.saturating_sub(1), times.now)
                    }
                    ComplexDeletion::Delete => DeletionTime::new(times.timestamp, times.now),
                };
                row.complex_deletion(column, at);
                for element in &elements {
                    row.cell(cell(column, Some(&element.path), element.value.as_deref(), times));
                }
            }
        }
    }
}

/// Returns a cell with a value, or a tombstone.
pub(super) fn cell<'a>(
    column: ColumnId,
    path: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    times: &Times,
) -> Cell<'a> {
    let (ttl, local_deletion_time) = match (value, times.ttl) {
        (None, _) => (NO_TTL, times.now),
        (Some(_), NO_TTL) => (NO_TTL, NO_DELETION_TIME),
        (Some(_), ttl) => (ttl, times.expiration()),
    };
    Cell {
        column,
        path,
        value: value.unwrap_or_default(),
        timestamp: times.timestamp,
        ttl,
        local_deletion_time,
    }
}

/// Applies the guardrails to the value of a simple column.
fn guard_value(column: &ColumnMetadata, value: &[u8], execution: &Execution<'_>) -> Result<()> {
    let guard = execution.guard();
    let items = match &column.data_type {
        DataType::List { .. } | DataType::Set { .. } => collection::read_list(value).count(),
        DataType::Map { .. } => collection::read_map(value).count(),
        _ => return guard.value_size(&column.name, value.len()),
    };
    guard.collection(&column.name, items, || CELL_SIZE + value.len())?;
    guard.value_size(&column.name, value.len())
}

struct ComplexWriter<'a, 't> {
    guard: Guard<'t>,
    name: &'a str,
    data_type: &'a DataType,
    column: ColumnId,
    times: &'t Times,
    /// The list that an operation depends on, after the previous operations.
    list: Option<ListView>,
    deletion: ComplexDeletion,
    elements: Vec<Element<'a>>,
}

impl<'a> ComplexWriter<'a, '_> {
    fn apply(&mut self, operation: &'a Operation, execution: &Execution<'a>) -> Result<()> {
        if operation.requires_read(self.data_type) {
            self.guard.list_operation(match operation {
                Operation::SetElement(..) => ListOperation::SetByIndex,
                Operation::DeleteElement(_) => ListOperation::RemoveByIndex,
                _ => ListOperation::RemoveByValue,
            })?;
        }
        match operation {
            Operation::Set(term) => match term.bind(execution)? {
                Bound::Unset => {}
                Bound::Null => self.deletion = ComplexDeletion::Overwrite,
                Bound::Value(value) => {
                    self.deletion = ComplexDeletion::Overwrite;
                    self.put_all(&value, execution)?;
                }
            },
            Operation::Append(term) => {
                if let Bound::Value(value) = term.bind(execution)? {
                    self.put_all(&value, execution)?;
                }
            }
            Operation::Prepend(term) => {
                if let Bound::Value(value) = term.bind(execution)? {
                    let values: Vec<&[u8]> = collection::read_list(&value).flatten().collect();
                    let paths = execution.store.list_prepend_ids(values.len())?;
                    for (path, value) in paths.zip(values) {
                        self.put(path.to_vec(), value.to_vec())?;
                    }
                }
            }
            Operation::Discard(term) => {
                if let Bound::Value(value) = term.bind(execution)? {
                    self.discard(&value)?;
                }
            }
            Operation::SetElement(key, value) => self.set_element(key, value, execution)?,
            Operation::SetField(index, term) => match term.bind(execution)? {
                Bound::Unset => {}
                Bound::Null => self.delete(index.to_be_bytes().to_vec())?,
                Bound::Value(value) => self.put(index.to_be_bytes().to_vec(), value)?,
            },
            Operation::Increment(_) | Operation::Decrement(_) => {
                bail_invalid!("{} is no counter", self.data_type)
            }
            Operation::Delete => {
                self.deletion = ComplexDeletion::Delete;
                if let Some(list) = &mut self.list {
                    list.clear(self.times.timestamp);
                }
            }
            Operation::DeleteElement(key) => self.delete_element(key, execution)?,
            Operation::DeleteField(index) => self.delete(index.to_be_bytes().to_vec())?,
        }
        Ok(())
    }

    /// Adds all elements of a collection or UDT.
    fn put_all(&mut self, value: &[u8], execution: &Execution<'_>) -> Result<()> {
        let before = self.elements.len();
        self.put_elements(value, execution)?;
        if matches!(self.data_type, DataType::Udt { .. }) {
            return Ok(());
        }
        // As in Cassandra, previous elements of the collection are not read and do not count.
        let added = &self.elements[before..];
        let length =
            |element: &Element<'_>| element.path.len() + element.value.as_ref().map_or(0, |v| v.len());
        self.guard.collection(self.name, added.len(), || added.iter().map(|e| CELL_SIZE + length(e)).sum())
    }

    fn put_elements(&mut self, value: &[u8], execution: &Execution<'_>) -> Result<()> {
        match self.data_type {
            DataType::List { .. } => {
                let values: Vec<&[u8]> = collection::read_list(value).flatten().collect();
                for value in values {
                    let path = execution.store.list_append_id()?;
                    self.put(path.as_bytes().to_vec(), value.to_vec())?;
                }
            }
            DataType::Set { .. } => {
                for element in collection::read_list(value).flatten() {
                    self.put(element.to_vec(), Vec::new())?;
                }
            }
            DataType::Map { .. } => {
                for (key, value) in collection::read_map(value) {
                    self.put(key.to_vec(), value.to_vec())?;
                }
            }
            DataType::Udt { definition, .. } => {
                let fields = collection::read_tuple(value);
                for (index, field) in (0u16..).zip(fields.take(definition.fields.len())) {
                    let path = index.to_be_bytes().to_vec();
                    // The whole column was deleted just before, so a null field needs no tombstone.
                    if let Some(field) = field {
                        self.put(path, field.to_vec())?;
                    }
                }
            }
            other => bail_invalid!("{other} has no elements"),
        }
        Ok(())
    }

    /// Removes list elements by value, set elements, or map keys.
    fn discard(&mut self, value: &[u8]) -> Result<()> {
        let removed = collection::read_list(value).flatten();
        match self.data_type {
            DataType::List { .. } => {
                let removed: Vec<&[u8]> = removed.collect();
                let paths = self.list.as_ref().map(|list| list.paths_of(&removed)).unwrap_or_default();
                paths.into_iter().try_for_each(|path| self.delete(path))
            }
            _ => removed.into_iter().try_for_each(|path| self.delete(path.to_vec())),
        }
    }

    fn set_element(&mut self, key: &'a Term, value: &'a Term, execution: &Execution<'a>) -> Result<()> {
        let path = match self.data_type {
            DataType::List { .. } => self.path_at(key, "set", execution)?,
            _ => match key.bind(execution)? {
                Bound::Null => bail_invalid!("Invalid null map key"),
                Bound::Unset => bail_invalid!("Invalid unset map key"),
                Bound::Value(key) => key.into_owned(),
            },
        };
        match value.bind(execution)? {
            Bound::Unset => Ok(()),
            Bound::Null => self.delete(path),
            Bound::Value(value) => self.put(path, value),
        }
    }

    fn delete_element(&mut self, key: &'a Term, execution: &Execution<'a>) -> Result<()> {
        let path = match self.data_type {
            // Cassandra accepts an unset index here, but not where an element is set.
            DataType::List { .. } if key.bind(execution)?.is_unset() => return Ok(()),
            DataType::List { .. } => self.path_at(key, "delete", execution)?,
            data_type => match key.bind(execution)? {
                Bound::Value(key) => key.into_owned(),
                bound => match (data_type, bound) {
                    (DataType::Set { .. }, _) => bail_invalid!("Invalid null set element"),
                    (_, Bound::Unset) => bail_invalid!("Invalid unset map key"),
                    _ => bail_invalid!("Invalid null map key"),
                },
            },
        };
        self.delete(path)
    }

    /// Returns the path of the list element at an index.
    fn path_at(&self, index: &Term, act: &str, execution: &Execution<'_>) -> Result<Vec<u8>> {
        let index = match index.bind(execution)? {
            Bound::Null => bail_invalid!("Invalid null value for list index"),
            Bound::Unset => bail_invalid!("Invalid unset value for list index"),
            Bound::Value(value) => match <[u8; 4]>::try_from(&*value) {
                Ok(bytes) => i32::from_be_bytes(bytes),
                Err(_) => bail_invalid!("Invalid list index"),
            },
        };
        let size = self.list.as_ref().map_or(0, ListView::len);
        if size == 0 {
            match act {
                "set" => bail_invalid!("Attempted to set an element on a list which is null"),
                _ => bail_invalid!("Attempted to delete an element from a list which is null"),
            }
        }
        let at = usize::try_from(index).ok();
        match at.and_then(|at| self.list.as_ref()?.path(at)) {
            Some(path) => Ok(path.to_vec()),
            None => bail_invalid!("List index {index} out of bound, list has size {size}"),
        }
    }

    fn put(&mut self, path: impl Into<Cow<'a, [u8]>>, value: impl Into<Cow<'a, [u8]>>) -> Result<()> {
        self.write(Element { path: path.into(), value: Some(value.into()) })
    }

    /// The deletion of a set's element or a map's key stores its path, so that is checked, too.
    fn delete(&mut self, path: Vec<u8>) -> Result<()> {
        self.write(Element { path: path.into(), value: None })
    }

    fn write(&mut self, element: Element<'a>) -> Result<()> {
        if let Some(value) = &element.value {
            self.guard.value_size(self.name, value.len())?;
        }
        if matches!(self.data_type, DataType::Set { .. } | DataType::Map { .. }) {
            self.guard.value_size(self.name, element.path.len())?;
        }
        if let Some(list) = &mut self.list {
            list.write(&cell(self.column, Some(&element.path), element.value.as_deref(), self.times));
        }
        self.elements.push(element);
        Ok(())
    }

    /// Sorts the elements by path. Of several changes of one element with one timestamp, a deletion
    /// wins, then the greater value, as with several statements of a batch.
    fn finish(mut self) -> (ComplexDeletion, Vec<Element<'a>>) {
        if let Some(path_type) = self.data_type.path_type() {
            let rank = |e: &Element<'_>| {
                (e.value.is_some(), std::cmp::Reverse(e.value.as_deref().map(<[u8]>::to_vec)))
            };
            self.elements
                .sort_by(|a, b| path_type.compare(&a.path, &b.path).then_with(|| rank(a).cmp(&rank(b))));
            self.elements.dedup_by(|later, earlier| path_type.compare(&later.path, &earlier.path).is_eq());
        }
        (self.deletion, self.elements)
    }
}
