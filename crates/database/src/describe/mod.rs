//! DESCRIBE: the schema as CQL text.

use cassette_cql::ast;

use crate::error::{DatabaseError, Result};
use crate::execution::Execution;
use crate::plan::PlanContext;
use crate::response::{Outcome, RowSink};

/// A planned DESCRIBE.
#[derive(Debug)]
pub(crate) struct DescribePlan {
    statement: ast::Describe,
}

impl DescribePlan {
    /// Names are looked up when it runs.
    pub fn new(describe: &ast::Describe, _cx: &mut PlanContext<'_>) -> Result<Self> {
        Ok(Self { statement: describe.clone() })
    }

    /// Gives a row for each element.
    pub fn execute(&self, _execution: &Execution<'_>, _sink: &mut dyn RowSink) -> Result<Outcome> {
        let _ = &self.statement;
        Err(DatabaseError::not_supported("DESCRIBE is"))
    }
}
