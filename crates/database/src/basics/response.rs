//! The response to a statement: rows pushed into a sink, and an outcome.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use cassette_rows::DataType;
use md5::{Digest, Md5};

use crate::basics::error::Result;

/// A column of a result, or a bind marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The keyspace of the table.
    pub keyspace: Arc<str>,
    /// The name of the table.
    pub table: Arc<str>,
    /// The name or alias of the column, or the name of the bind marker.
    pub name: Arc<str>,
    /// The type of the values.
    pub data_type: DataType,
}

impl ColumnSpec {
    /// Returns a value of the column or marker as a CQL literal.
    pub fn literal(&self, bytes: Option<&[u8]>) -> String {
        cassette_cql::values::text::to_literal(&self.data_type, bytes)
    }
}

/// The columns of a result in order. Created once for each plan and shared by its executions.
#[derive(Debug)]
pub struct ResultMetadata {
    /// The columns.
    pub columns: Vec<ColumnSpec>,
    id: OnceLock<[u8; 16]>,
    derived: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl ResultMetadata {
    /// Returns the metadata of these columns.
    pub fn new(columns: Vec<ColumnSpec>) -> Arc<Self> {
        Arc::new(Self { columns, id: OnceLock::new(), derived: OnceLock::new() })
    }

    /// Returns the result metadata id of protocol v5, which changes whenever the columns do.
    /// Computed at the first call: conditional statements create metadata for each response, and v4
    /// does not use the id.
    pub fn id(&self) -> &[u8; 16] {
        self.id.get_or_init(|| {
            let mut digest = Md5::new();
            for column in &self.columns {
                digest.update(column.name.as_bytes());
                digest.update([0]);
                digest.update(column.data_type.class_name().as_bytes());
                digest.update([0, 0]);
            }
            digest.finalize().into()
        })
    }

    /// Returns a value computed from the columns, such as their encoding in a protocol. It is
    /// computed at the first call and cached. Returns `None` if an earlier caller cached a value of
    /// another type.
    pub fn derived<T: Any + Send + Sync>(&self, make: impl FnOnce(&Self) -> T) -> Option<&T> {
        self.derived.get_or_init(|| Box::new(make(self))).downcast_ref()
    }
}

/// Receives the rows of a result while they are read: the response buffer of a connection, or a set
/// of rows in memory.
///
/// The calls are `begin (value* end_row)*`, with one value for each column. A statement that fails
/// may have pushed rows; the caller discards them.
pub trait RowSink {
    /// Called once, before the first row, also for results without rows.
    fn begin(&mut self, metadata: &Arc<ResultMetadata>);

    /// Appends the next value of the current row; `None` is null.
    fn value(&mut self, value: Option<&[u8]>);

    /// Appends the next, non-null value of the current row, which `write` serializes into a buffer.
    /// Used for computed values: collections, results of functions.
    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>));

    /// Ends the current row.
    ///
    /// # Errors
    /// If the sink accepts no more rows, which ends the statement.
    fn end_row(&mut self) -> Result<()>;

    /// Returns whether the page should end although it has fewer rows than requested.
    fn is_full(&self) -> bool {
        false
    }
}

/// The outcome of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No result.
    Void,
    /// Rows, which were pushed into the sink.
    Rows {
        /// The position of the next page, if there is one.
        paging_state: Option<Bytes>,
    },
    /// USE set this keyspace.
    SetKeyspace(String),
    /// The schema was changed.
    SchemaChange(SchemaChange),
}

/// An executed statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// The outcome.
    pub outcome: Outcome,
    /// Warnings for the client, with Cassandra's texts.
    pub warnings: Vec<String>,
}

impl From<Outcome> for Executed {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, warnings: Vec::new() }
    }
}

/// A schema change as reported to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaChange {
    /// Created, altered or dropped.
    pub kind: SchemaChangeKind,
    /// The kind of object that changed.
    pub target: SchemaChangeTarget,
    /// The keyspace that changed, or the keyspace of the object.
    pub keyspace: String,
    /// The name of the table, type, function or aggregate; empty for a keyspace.
    pub name: String,
    /// The types of the arguments of a function or aggregate.
    pub arguments: Vec<String>,
}

/// How the schema changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants say it")]
pub enum SchemaChangeKind {
    Created,
    Updated,
    Dropped,
}

/// The kind of object that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants say it")]
pub enum SchemaChangeTarget {
    Keyspace,
    Table,
    Type,
    Function,
    Aggregate,
}
