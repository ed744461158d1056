//! Definitions of materialized views.

use std::sync::Arc;

use cassette_cql::ast::{Statement, WhereClause};
use cassette_rows::{ColumnId, ColumnKind, ColumnMetadata, TableMetadata};

use crate::basics::error::{DatabaseError, Result};
use crate::schema::conditions::Filter;

/// A materialized view.
#[derive(Debug)]
pub struct View {
    /// The base table.
    pub base: Arc<TableMetadata>,
    /// The view's table.
    pub table: Arc<TableMetadata>,
    /// `SELECT *`: columns added to the base table are added to the view.
    pub include_all: bool,
    /// The WHERE that selects the rows of the view.
    pub(crate) where_clause: WhereClause,
    /// The restrictions of the WHERE except IS NOT NULL.
    pub(crate) filters: Vec<Filter>,
    /// The column of the view's primary key that is not part of the base table's. A row in which it
    /// is null is not in the view.
    pub(crate) extra_key: Option<Arc<ColumnMetadata>>,
}

impl View {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// Returns the view's column for a regular column of the base table; `None` if the view lacks
    /// it or has it in its key.
    pub(crate) fn column_of(&self, base: ColumnId) -> Option<ColumnId> {
        let column = self.table.column(&self.base.column_by_id(base)?.name)?;
        (column.kind == ColumnKind::Regular).then_some(column.id)
    }

    /// Whether the view contains a regular column of the base table, as a value or in its key.
    pub(crate) fn selects(&self, base: ColumnId) -> bool {
        self.base.column_by_id(base).is_some_and(|column| self.table.column(&column.name).is_some())
    }

    /// Returns the WHERE as stored in the schema.
    pub(crate) fn where_text(&self) -> String {
        self.where_clause.relations.iter().map(ToString::to_string).collect::<Vec<_>>().join(" AND ")
    }

    /// Parses a WHERE from its stored form.
    pub(crate) fn parse_where(text: &str) -> Result<WhereClause> {
        let cql = format!("SELECT * FROM base WHERE {text} ALLOW FILTERING");
        let definition = format!("the WHERE of a view, {text}");
        let parsed = cassette_cql::parse(&cql);
        let parsed = parsed.map_err(|error| DatabaseError::schema_corrupt_in(&definition, error))?;
        match parsed.statement {
            Statement::Select(select) => Ok(select.where_clause),
            _ => {
                Err(DatabaseError::SchemaCorrupt { message: format!("{definition}: no WHERE"), cause: None })
            }
        }
    }
}
