//! What a statement answers: rows pushed into a sink, and an outcome.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use cassette_rows::DataType;
use md5::{Digest, Md5};

use crate::basics::error::Result;

/// A column of a result, or a bind marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The keyspace of its table.
    pub keyspace: Arc<str>,
    /// Its table.
    pub table: Arc<str>,
    /// The column's name or alias, or the bind marker's.
    pub name: Arc<str>,
    /// The type of its values.
    pub data_type: DataType,
}

impl ColumnSpec {
    /// A value of the column or marker as a CQL literal.
    pub fn literal(&self, bytes: Option<&[u8]>) -> String {
        cassette_cql::values::text::to_literal(&self.data_type, bytes)
    }
}

/// The columns of a result in order. Made once a plan and shared by all its executions.
#[derive(Debug)]
pub struct ResultMetadata {
    /// The columns.
    pub columns: Vec<ColumnSpec>,
    id: OnceLock<[u8; 16]>,
    derived: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl ResultMetadata {
    /// Metadata of these columns.
    pub fn new(columns: Vec<ColumnSpec>) -> Arc<Self> {
        Arc::new(Self { columns, id: OnceLock::new(), derived: OnceLock::new() })
    }

    /// Changes whenever the columns do: what v5 clients compare. Made at the first call: conditional statements have columns made for each
    /// answer, whose id nobody asks for in v4.
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

    /// What the caller's protocol makes of the columns, made at the first call and kept: the encoded form.
    /// `None` if an earlier caller keeps another type here.
    pub fn derived<T: Any + Send + Sync>(&self, make: impl FnOnce(&Self) -> T) -> Option<&T> {
        self.derived.get_or_init(|| Box::new(make(self))).downcast_ref()
    }
}

/// Takes the rows of a result as they are read: the response buffer of a connection, or a set of rows in memory.
///
/// Calls come as `begin (value* end_row)*`, with as many values a row as there are columns. A statement that fails may have
/// pushed rows already; they are to be thrown away.
pub trait RowSink {
    /// Comes once, before the first row, also when there are no rows.
    fn begin(&mut self, metadata: &Arc<ResultMetadata>);

    /// The next value of the current row; `None` is null.
    fn value(&mut self, value: Option<&[u8]>);

    /// The next value of the current row, not null, appended to a buffer by `write`. For values that are put
    /// together: collections, results of functions.
    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>));

    /// The current row has all its values.
    ///
    /// # Errors
    /// If the sink takes no more, which ends the statement.
    fn end_row(&mut self) -> Result<()>;

    /// Whether a page should end here, though it has fewer rows than were asked for.
    fn is_full(&self) -> bool {
        false
    }
}

/// What an executed statement answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing.
    Void,
    /// Rows, which the sink has.
    Rows {
        /// Where the next page begins, if there is one.
        paging_state: Option<Bytes>,
    },
    /// USE chose this keyspace.
    SetKeyspace(String),
    /// The schema was changed.
    SchemaChange(SchemaChange),
}

/// An executed statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// The answer.
    pub outcome: Outcome,
    /// What Cassandra would warn the client of.
    pub warnings: Vec<String>,
}

impl From<Outcome> for Executed {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, warnings: Vec::new() }
    }
}

/// A change of the schema, as clients are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaChange {
    /// Created, altered or dropped.
    pub kind: SchemaChangeKind,
    /// What was.
    pub target: SchemaChangeTarget,
    /// The keyspace, or the one it is in.
    pub keyspace: String,
    /// The table's or type's name; empty for a keyspace.
    pub name: String,
}

/// How the schema changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants say it")]
pub enum SchemaChangeKind {
    Created,
    Updated,
    Dropped,
}

/// What part of the schema changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants say it")]
pub enum SchemaChangeTarget {
    Keyspace,
    Table,
    Type,
}
