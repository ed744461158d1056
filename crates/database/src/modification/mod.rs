//! INSERT, UPDATE, DELETE and BATCH: planning and execution.

use std::sync::Arc;

use cassette_cql::ast;
use cassette_rows::TableMetadata;

use crate::error::{DatabaseError, Result};
use crate::execution::Execution;
use crate::plan::PlanContext;
use crate::response::{Outcome, RowSink};

/// A planned INSERT, UPDATE or DELETE.
#[derive(Debug)]
pub(crate) struct ModificationPlan {
    table: Arc<TableMetadata>,
}

impl ModificationPlan {
    /// Resolves `modification` against the catalog.
    pub fn new(modification: &ast::Modification, cx: &mut PlanContext<'_>) -> Result<Self> {
        let _table = cx.writable_table(modification.table())?;
        Err(DatabaseError::not_supported("INSERT, UPDATE and DELETE are"))
    }

    /// The table it changes.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// Makes the change; a conditional one gives rows.
    pub fn execute(&self, _execution: &Execution<'_>, _sink: &mut dyn RowSink) -> Result<Outcome> {
        Ok(Outcome::Void)
    }
}

/// A planned `BEGIN BATCH … APPLY BATCH`.
#[derive(Debug)]
pub(crate) struct BatchPlan {
    statements: Vec<ModificationPlan>,
}

impl BatchPlan {
    /// Resolves `batch` against the catalog.
    pub fn new(_batch: &ast::Batch, _cx: &mut PlanContext<'_>) -> Result<Self> {
        Err(DatabaseError::not_supported("BATCH is"))
    }

    /// The table that its first statement changes.
    pub fn first_table(&self) -> Option<&Arc<TableMetadata>> {
        self.statements.first().map(ModificationPlan::table)
    }

    /// Makes all changes or none.
    pub fn execute(&self, _execution: &Execution<'_>, _sink: &mut dyn RowSink) -> Result<Outcome> {
        Ok(Outcome::Void)
    }
}

/// Executes a batch that came over the protocol: planned modifications, each with an execution that has its values.
/// All changes are made, or none.
///
/// # Errors
/// Those of the statements; Invalid for what a batch cannot hold.
pub(crate) fn execute_batch(
    _kind: ast::BatchKind,
    _statements: &[(&ModificationPlan, Execution<'_>)],
    _sink: &mut dyn RowSink,
) -> Result<Outcome> {
    Err(DatabaseError::not_supported("BATCH is"))
}
