//! What a view is.

use std::sync::Arc;

use cassette_cql::ast::{Statement, WhereClause};
use cassette_rows::{ColumnId, ColumnKind, ColumnMetadata, PartitionHeader, Row, TableMetadata};

use super::build::BuildState;
use crate::catalog::Catalog;
use crate::error::{DatabaseError, Result};
use crate::execution::Execution;
use crate::plan::PlanContext;
use crate::restrictions::{Filter, view_filters};
use crate::select::{BoundFilter, CurrentPartition, CurrentRow};
use crate::terms::Markers;

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
    filters: Vec<Filter>,
    /// The column of the view's key that is none of the base's: without it a row has no entry.
    pub(crate) extra_key: Option<Arc<ColumnMetadata>>,
    pub(crate) state: Arc<BuildState>,
}

impl View {
    /// A view with this WHERE.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, for a WHERE that a view cannot have.
    pub(crate) fn new(
        base: Arc<TableMetadata>,
        table: Arc<TableMetadata>,
        include_all: bool,
        where_clause: WhereClause,
        state: Arc<BuildState>,
    ) -> Result<Self> {
        let catalog = Catalog::default();
        let mut cx = PlanContext {
            catalog: &catalog,
            session_keyspace: Some(&base.keyspace),
            used_session_keyspace: false,
            digest: Default::default(),
            markers: Markers::default(),
            warnings: Vec::new(),
        };
        let filters = view_filters(&where_clause, &base, &mut cx)?;
        let extra_key = table.partition_key.iter().chain(&table.clustering).find_map(|column| {
            let of_base = base.column(&column.name)?;
            (of_base.kind == ColumnKind::Regular).then(|| of_base.clone())
        });
        Ok(Self { base, table, include_all, where_clause, filters, extra_key, state })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// What the WHERE restricts but for IS NOT NULL.
    pub(crate) fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// The same view of tables that have changed.
    pub(crate) fn rebased(&self, base: &Arc<TableMetadata>, table: &Arc<TableMetadata>) -> Result<Self> {
        let (base, table) = (base.clone(), table.clone());
        Self::new(base, table, self.include_all, self.where_clause.clone(), self.state.clone())
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

    /// Binds the WHERE's values, to ask of many rows.
    pub(crate) fn bind<'e>(&'e self, execution: &Execution<'e>) -> Result<Vec<BoundFilter<'e>>> {
        self.filters.iter().map(|filter| BoundFilter::new(filter, execution)).collect()
    }

    /// Whether the WHERE holds for a row of a partition at `now` (seconds).
    pub(crate) fn shows(
        &self,
        header: &PartitionHeader,
        row: &Row,
        filters: &[BoundFilter<'_>],
        now: u32,
    ) -> bool {
        if filters.is_empty() {
            return true;
        }
        let partition = CurrentPartition::new(header.clone(), self.base.partition_key.len());
        let row = CurrentRow { partition: &partition, row: Some(row) };
        filters.iter().all(|filter| filter.matches(row, now))
    }

    /// The WHERE as the schema stores it.
    pub(crate) fn where_text(&self) -> String {
        self.where_clause.relations.iter().map(ToString::to_string).collect::<Vec<_>>().join(" AND ")
    }

    /// The WHERE that the schema stores as `text`.
    pub(crate) fn parse_where(text: &str) -> Result<WhereClause> {
        let cql = format!("SELECT * FROM base WHERE {text} ALLOW FILTERING");
        let wrong = |detail: String| DatabaseError::Server(format!("the WHERE of a view, {text}: {detail}"));
        let parsed = cassette_cql::parse(&cql).map_err(|error| wrong(error.to_string()))?;
        match parsed.statement {
            Statement::Select(select) => Ok(select.where_clause),
            _ => Err(wrong("no WHERE".into())),
        }
    }
}
