//! DDL: what a schema statement makes of the catalog.

use cassette_cql::ast;

use crate::error::{DatabaseError, Result};
use crate::execution::Execution;
use crate::plan::PlanContext;
use crate::response::Outcome;

/// A planned schema statement.
#[derive(Debug)]
pub(crate) struct SchemaStatement {
    #[expect(dead_code, reason = "until DDL is executed")]
    statement: ast::Statement,
    #[expect(dead_code, reason = "until DDL is executed")]
    keyspace: Option<String>,
}

impl SchemaStatement {
    /// Names are looked up when it runs, under the schema's lock.
    pub fn new(statement: &ast::Statement, cx: &mut PlanContext<'_>) -> Result<Self> {
        cx.used_session_keyspace = true;
        Ok(Self { statement: statement.clone(), keyspace: cx.session_keyspace.map(str::to_owned) })
    }
}

/// Changes the schema.
pub(crate) fn execute(_statement: &SchemaStatement, _execution: &Execution<'_>) -> Result<Outcome> {
    Err(DatabaseError::not_supported("DDL is"))
}
