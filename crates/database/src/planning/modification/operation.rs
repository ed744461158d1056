//! Operations on columns: SET, DELETE and the values of an INSERT, checked against the column's
//! type.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cassette_cql::ast::{self, AssignmentOperation, DeleteTarget};
use cassette_rows::types::UserType;
use cassette_rows::{ColumnId, ColumnKind, ColumnMetadata, DataType, TableMetadata};

use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::planning::context::PlanContext;
use crate::planning::restrictions::{named_receiver, receiver};
use crate::schema::conditions::Term;

/// One change of one column.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    /// `c = value`: the whole column.
    Set(Term),
    /// `c = c + value`, on a list, set or map.
    Append(Term),
    /// `c = value + c`, on a list.
    Prepend(Term),
    /// `c = c + value`, on a counter.
    Increment(Term),
    /// `c = c - value`, on a counter.
    Decrement(Term),
    /// `c = c - value`: removes list elements by value, set elements, or map keys.
    Discard(Term),
    /// `c[key] = value`: a list element by index, or a map value by key.
    SetElement(Box<Term>, Term),
    /// `c.field = value`, with the index of the field.
    SetField(u16, Term),
    /// `DELETE c`
    Delete,
    /// `DELETE c[key]`
    DeleteElement(Term),
    /// `DELETE c.field`
    DeleteField(u16),
}

impl Operation {
    /// Whether the operation depends on the current elements of a list.
    pub fn requires_read(&self, data_type: &DataType) -> bool {
        matches!(data_type, DataType::List { .. })
            && matches!(self, Self::Discard(_) | Self::SetElement(..) | Self::DeleteElement(_))
    }

    /// Whether the operation replaces the whole column, and so excludes other operations on it.
    fn sets_all(&self) -> bool {
        matches!(self, Self::Set(_))
    }
}

/// The operations on one column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnOperations {
    pub column: Arc<ColumnMetadata>,
    /// In the order of the statement.
    pub operations: Vec<Operation>,
}

/// The operations of a statement, each list ascending by column id. Created by a
/// [builder](OperationsBuilder).
#[derive(Debug, Clone, Default)]
pub(crate) struct Operations {
    pub statics: Vec<ColumnOperations>,
    pub regulars: Vec<ColumnOperations>,
}

/// Collects the operations of a statement, in constant time for each.
#[derive(Default)]
pub(crate) struct OperationsBuilder {
    /// In the order of first use.
    columns: Vec<ColumnOperations>,
    /// The index in `columns` of each column.
    places: HashMap<ColumnId, usize>,
    /// The fields with an operation.
    fields: HashSet<(ColumnId, u16)>,
}

impl OperationsBuilder {
    /// Adds an operation on `column`, a static or regular one.
    ///
    /// # Errors
    /// Invalid, if it is incompatible with another operation on that column.
    pub fn add(&mut self, column: Arc<ColumnMetadata>, operation: Operation) -> Result<()> {
        let is_field_set_again =
            matches!(operation, Operation::SetField(field, _) if !self.fields.insert((column.id, field)));
        let place = *self.places.entry(column.id).or_insert(self.columns.len());
        let Some(ColumnOperations { operations, .. }) = self.columns.get_mut(place) else {
            self.columns.push(ColumnOperations { column, operations: vec![operation] });
            return Ok(());
        };
        // An operation that replaces the column is the only one, so the first operation represents
        // the others.
        if is_field_set_again || operation.sets_all() || operations.first().is_some_and(Operation::sets_all) {
            bail_invalid!("Multiple incompatible setting of column {}", column.name);
        }
        operations.push(operation);
        Ok(())
    }

    /// Returns the operations in order.
    pub fn finish(self) -> Operations {
        let is_static = |of: &ColumnOperations| of.column.kind == ColumnKind::Static;
        let (mut statics, mut regulars): (Vec<_>, Vec<_>) = self.columns.into_iter().partition(is_static);
        statics.sort_unstable_by_key(|of| of.column.id);
        regulars.sort_unstable_by_key(|of| of.column.id);
        regulars.shrink_to_fit();
        Operations { statics, regulars }
    }
}

impl Operations {
    pub fn is_empty(&self) -> bool {
        self.statics.is_empty() && self.regulars.is_empty()
    }

    /// Whether all operations are on static columns.
    pub fn only_statics(&self) -> bool {
        !self.statics.is_empty() && self.regulars.is_empty()
    }
}

/// Plans `SET column …`.
pub(crate) fn assignment(
    column: &ColumnMetadata,
    operation: &AssignmentOperation,
    table: &TableMetadata,
    cx: &mut PlanContext<'_>,
) -> Result<Operation> {
    let name = &column.name;
    let data_type = &column.data_type;
    let whole = receiver(table, column);
    match operation {
        AssignmentOperation::Set(value) => {
            let term = Term::prepare(value, &whole, cx)?;
            if *data_type == DataType::Counter {
                bail_invalid!(
                    "Cannot set the value of counter column {name} (counters can only be \
                     incremented/decremented, not set)"
                );
            }
            Ok(Operation::Set(term))
        }
        AssignmentOperation::Add(value) if *data_type == DataType::Counter => {
            Ok(Operation::Increment(Term::prepare(value, &whole, cx)?))
        }
        AssignmentOperation::Subtract(value) if *data_type == DataType::Counter => {
            Ok(Operation::Decrement(Term::prepare(value, &whole, cx)?))
        }
        AssignmentOperation::Add(value) => {
            require_collection(column, &format!("{name} = {name} + {}", value.shown(None)))?;
            let term = Term::prepare(value, &whole, cx);
            if let (DataType::Map { .. }, Err(DatabaseError::Invalid(_))) = (data_type, &term) {
                let value = value.shown(Some(&table.keyspace));
                bail_invalid!("Value for a map addition has to be a map, but was: '{value}'");
            }
            Ok(Operation::Append(term?))
        }
        AssignmentOperation::Prepend(value) => {
            let text = format!("{name} = {} - {name}", value.shown(Some(&table.keyspace)));
            // As in Cassandra, mistakes of the value are reported before those of the column.
            let term = Term::prepare(value, &whole, cx)?;
            match data_type {
                DataType::List { frozen: false, .. } => {}
                DataType::List { .. } => {
                    bail_invalid!("Invalid operation ({text}) for frozen list column {name}")
                }
                _ => bail_invalid!("Invalid operation ({text}) for non list column {name}"),
            }
            Ok(Operation::Prepend(term))
        }
        AssignmentOperation::Subtract(value) => {
            require_collection(column, &format!("{name} = {name} - {}", value.shown(None)))?;
            let removed = match data_type {
                // Subtracting from a map removes keys.
                DataType::Map { key, .. } => {
                    named_receiver(table, name, DataType::Set { element: key.clone(), frozen: true })
                }
                _ => whole,
            };
            let term = Term::prepare(value, &removed, cx);
            if let (DataType::Map { .. }, Err(DatabaseError::Invalid(_))) = (data_type, &term) {
                let value = value.shown(Some(&table.keyspace));
                bail_invalid!("Value for a map substraction has to be a set, but was: '{value}'");
            }
            Ok(Operation::Discard(term?))
        }
        AssignmentOperation::SetElement(key, value) => set_element(column, key, value, table, cx),
        AssignmentOperation::SetField(field, value) => set_field(column, field, value, table, cx),
    }
}

/// Plans `SET column[key] = value`.
fn set_element(
    column: &ColumnMetadata,
    key: &ast::Term,
    value: &ast::Term,
    table: &TableMetadata,
    cx: &mut PlanContext<'_>,
) -> Result<Operation> {
    let name = &column.name;
    let text = format!("{name}[{}] = {}", key.shown(None), value.shown(None));
    let part = |what: &str, data_type: &DataType| {
        named_receiver(table, &format!("{what}({name})"), data_type.clone())
    };
    let (key_to, value_to) = match &column.data_type {
        DataType::List { element, frozen: false } => (part("idx", &DataType::Int), part("value", element)),
        DataType::Map { key, value, frozen: false } => (part("key", key), part("value", value)),
        DataType::Set { frozen: false, .. } => {
            bail_invalid!("Invalid operation ({text}) for set column {name}")
        }
        DataType::List { .. } | DataType::Map { .. } | DataType::Set { .. } => {
            bail_invalid!("Invalid operation ({text}) for frozen collection column {name}")
        }
        _ => bail_invalid!("Invalid operation ({text}) for non collection column {name}"),
    };
    let key = Term::prepare(key, &key_to, cx)?;
    Ok(Operation::SetElement(Box::new(key), Term::prepare(value, &value_to, cx)?))
}

/// Plans `SET column.field = value`.
fn set_field(
    column: &ColumnMetadata,
    field: &ast::Identifier,
    value: &ast::Term,
    table: &TableMetadata,
    cx: &mut PlanContext<'_>,
) -> Result<Operation> {
    let name = &column.name;
    let text = format!("{name}.{field} = {}", value.shown(None));
    let definition = match &column.data_type {
        DataType::Udt { definition, frozen: false } => definition,
        DataType::Udt { .. } => bail_invalid!("Invalid operation ({text}) for frozen UDT column {name}"),
        _ => bail_invalid!("Invalid operation ({text}) for non-UDT column {name}"),
    };
    let (index, data_type) = field_of(definition, field, name)?;
    let to = named_receiver(table, &format!("{name}.{field}"), data_type.clone());
    Ok(Operation::SetField(index, Term::prepare(value, &to, cx)?))
}

/// Rejects `+` and `-` for columns other than non-frozen collections.
fn require_collection(column: &ColumnMetadata, text: &str) -> Result<()> {
    let name = &column.name;
    match &column.data_type {
        DataType::List { frozen, .. } | DataType::Set { frozen, .. } | DataType::Map { frozen, .. } => {
            match frozen {
                false => Ok(()),
                true => bail_invalid!("Invalid operation ({text}) for frozen collection column {name}"),
            }
        }
        DataType::Tuple(_) => bail_invalid!("Invalid operation ({text}) for tuple column {name}"),
        _ => bail_invalid!("Invalid operation ({text}) for non counter column {name}"),
    }
}

fn field_of<'t>(definition: &'t UserType, field: &str, column: &str) -> Result<(u16, &'t DataType)> {
    match definition.field(field) {
        Some((index, data_type)) => Ok((u16::try_from(index).unwrap_or(u16::MAX), data_type)),
        None => bail_invalid!("UDT column {column} does not have a field named {field}"),
    }
}

/// Plans `DELETE target`, a static or regular column or part of one.
pub(crate) fn deletion(
    column: &ColumnMetadata,
    target: &DeleteTarget,
    table: &TableMetadata,
    cx: &mut PlanContext<'_>,
) -> Result<Operation> {
    let name = &column.name;
    match target {
        DeleteTarget::Column(_) => Ok(Operation::Delete),
        DeleteTarget::Element(_, key) => {
            let (what, key_type) = match &column.data_type {
                DataType::List { frozen: false, .. } => ("idx", &DataType::Int),
                DataType::Set { element, frozen: false } => ("value", &**element),
                DataType::Map { key, frozen: false, .. } => ("key", &**key),
                DataType::List { .. } | DataType::Set { .. } | DataType::Map { .. } => {
                    bail_invalid!("Invalid deletion operation for frozen collection column {name}")
                }
                _ => bail_invalid!("Invalid deletion operation for non collection column {name}"),
            };
            let to = named_receiver(table, &format!("{what}({name})"), key_type.clone());
            Ok(Operation::DeleteElement(Term::prepare(key, &to, cx)?))
        }
        DeleteTarget::Field(_, field) => match &column.data_type {
            DataType::Udt { definition, frozen: false } => {
                Ok(Operation::DeleteField(field_of(definition, field, name)?.0))
            }
            DataType::Udt { .. } => {
                bail_invalid!("Frozen UDT column {name} does not support field deletions")
            }
            _ => bail_invalid!("Invalid field deletion operation for non-UDT column {name}"),
        },
    }
}
