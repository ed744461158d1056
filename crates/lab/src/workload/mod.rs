//! What is executed: the operations of each worker, their values, and checks of the rows that they
//! return.
//!
//! [`stream`] turns YCSB's core workloads, or [`statements`] of any schema, into operations.

mod failure;
pub mod rows;
pub mod spec;
pub mod statements;
pub mod stream;
pub mod template;
pub mod types;
pub mod values;

use std::sync::Arc;

pub use failure::Failure;
pub use rows::RowSink;
pub use spec::StatementSpec;
pub use statements::{Expect, StatementWorkload};
pub use stream::{KeyBounds, KeySpace, Operation, OperationKind, OperationStream, StreamFactory};
pub use template::Template;
pub use values::{Value, ValueSpec};

/// The table of a workload: a text key and text fields.
#[derive(Debug, Clone)]
pub struct TableShape {
    /// Name of the table.
    pub table: String,
    /// Names of its fields; operations use their index.
    pub field_names: Vec<String>,
    /// Schema and statements of a workload of statements instead.
    pub statements: Option<Arc<StatementWorkload>>,
}
