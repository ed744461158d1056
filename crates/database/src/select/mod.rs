//! SELECT: planning and execution.

use std::sync::Arc;

use cassette_cql::ast;
use cassette_rows::TableMetadata;

use crate::error::{DatabaseError, Result};
use crate::execution::Execution;
use crate::plan::PlanContext;
use crate::response::{Outcome, ResultMetadata, RowSink};

/// A planned SELECT.
#[derive(Debug)]
pub(crate) struct SelectPlan {
    table: Arc<TableMetadata>,
    metadata: Arc<ResultMetadata>,
}

impl SelectPlan {
    /// Resolves `select` against the catalog.
    pub fn new(select: &ast::Select, cx: &mut PlanContext<'_>) -> Result<Self> {
        let table = cx.table(&select.table)?;
        let _ = table;
        Err(DatabaseError::not_supported("SELECT is"))
    }

    /// The table it reads.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// The columns of its rows.
    pub fn result_metadata(&self) -> &Arc<ResultMetadata> {
        &self.metadata
    }

    /// Reads a page.
    pub fn execute(&self, _execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        sink.begin(&self.metadata);
        Ok(Outcome::Rows { paging_state: None })
    }
}
