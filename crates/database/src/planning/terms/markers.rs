//! The specifications of a statement's bind markers.

use std::sync::Arc;

use cassette_cql::ast::Identifier;
use cassette_rows::TableMetadata;

use crate::basics::error::{DatabaseError, Result};
use crate::basics::response::ColumnSpec;

/// The markers of one statement, in order. Their receivers are recorded during planning.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    names: Vec<Option<Identifier>>,
    receivers: Vec<Option<Arc<ColumnSpec>>>,
}

impl Markers {
    /// Returns markers with these names, as the parser found them.
    pub fn new(names: Vec<Option<Identifier>>) -> Self {
        let receivers = vec![None; names.len()];
        Self { names, receivers }
    }

    /// Records that marker `index` is bound to `receiver`.
    pub fn receive(&mut self, index: u32, receiver: &Arc<ColumnSpec>) {
        if let Some(slot) = self.receivers.get_mut(index as usize) {
            *slot = Some(receiver.clone());
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the specifications of PREPARE's response: each marker with its name, or its
    /// receiver's, and its type.
    ///
    /// # Errors
    /// Invalid, if a marker is in a place where no value can be bound.
    pub fn specs(&self) -> Result<Vec<ColumnSpec>> {
        let spec = |(index, receiver): (usize, &Option<Arc<ColumnSpec>>)| {
            let receiver = receiver.as_deref().ok_or_else(|| {
                DatabaseError::Invalid(format!("Cannot bind a value to marker {index} here"))
            })?;
            let name = self.names.get(index).and_then(Option::as_ref);
            Ok(ColumnSpec {
                name: name.map_or_else(|| receiver.name.clone(), |name| name.as_str().into()),
                ..receiver.clone()
            })
        };
        self.receivers.iter().enumerate().map(spec).collect()
    }

    /// Returns the index of the marker for each component of `table`'s partition key; empty if a
    /// component has no marker. Drivers compute tokens from these.
    pub fn partition_key_indexes(&self, table: &TableMetadata) -> Vec<u16> {
        let index_of = |name: &str| {
            let index = self.receivers.iter().rposition(|receiver| {
                receiver.as_deref().is_some_and(|r| {
                    *r.name == *name && *r.table == *table.name && *r.keyspace == *table.keyspace
                })
            })?;
            u16::try_from(index).ok()
        };
        let indexes: Option<Vec<u16>> =
            table.partition_key.iter().map(|column| index_of(&column.name)).collect();
        indexes.unwrap_or_default()
    }
}
