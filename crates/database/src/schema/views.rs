//! What a view is.

use std::sync::Arc;

use cassette_cql::ast::{Statement, WhereClause};
use cassette_rows::{ColumnId, ColumnKind, ColumnMetadata, TableMetadata};

use crate::basics::error::{DatabaseError, Result};
use crate::schema::conditions::Filter;

/// A materialized view.
#[derive(Debug)]
pub struct View {
    /// The table whose rows it shows.
    pub base: Arc<TableMetadata>,
    /// The table that it is.
    pub table: Arc<TableMetadata>,
    /// `SELECT *`: columns that are added to the base are added to it.
    pub include_all: bool,
    /// Which rows it shows.
    pub(crate) where_clause: WhereClause,
    /// What the WHERE says but for IS NOT NULL.
    pub(crate) filters: Vec<Filter>,
    /// The column of the view's key that is none of the base's: without it a row has no entry.
    pub(crate) extra_key: Option<Arc<ColumnMetadata>>,
}

impl View {
    /// The name.
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// The view's column that shows a regular column of the base; `None` if none does, but as part of the key.
    pub(crate) fn column_of(&self, base: ColumnId) -> Option<ColumnId> {
        let column = self.table.column(&self.base.column_by_id(base)?.name)?;
        (column.kind == ColumnKind::Regular).then_some(column.id)
    }

    /// Whether the view shows a regular column of the base, as a value or in its key.
    pub(crate) fn selects(&self, base: ColumnId) -> bool {
        self.base.column_by_id(base).is_some_and(|column| self.table.column(&column.name).is_some())
    }

    /// The WHERE as the schema stores it.
    pub(crate) fn where_text(&self) -> String {
        self.where_clause.relations.iter().map(ToString::to_string).collect::<Vec<_>>().join(" AND ")
    }

    /// The WHERE that the schema stores as `text`.
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
