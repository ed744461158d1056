//! Views: planning of their WHERE, and its evaluation on rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use cassette_cql::ast::{Relation, WhereClause};
use cassette_rows::types::UserType;
use cassette_rows::{ColumnKind, PartitionHeader, Row, TableMetadata};

use crate::basics::error::Result;
use crate::planning::context::{BindContext, PlanContext};
use crate::planning::restrictions::view_filters;
use crate::planning::select::{BoundFilter, CurrentPartition, CurrentRow};
use crate::schema::catalog::{Catalog, Keyspace, KeyspaceKind, KeyspaceParams, Replication};
use crate::schema::views::View;

impl View {
    /// Returns a view with this WHERE; `types` are the user-defined types of its keyspace.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, for a WHERE that a view cannot have.
    pub(crate) fn new(
        base: Arc<TableMetadata>,
        table: Arc<TableMetadata>,
        include_all: bool,
        where_clause: WhereClause,
        types: &BTreeMap<String, Arc<UserType>>,
    ) -> Result<Self> {
        let catalog = catalog_of_types(&where_clause, &base.keyspace, types);
        let mut cx =
            PlanContext { session_keyspace: Some(&base.keyspace), ..PlanContext::of_schema(&catalog) };
        let filters = view_filters(&where_clause, &base, &mut cx)?;
        let extra_key = table.partition_key.iter().chain(&table.clustering).find_map(|column| {
            let of_base = base.column(&column.name)?;
            (of_base.kind == ColumnKind::Regular).then(|| of_base.clone())
        });
        Ok(Self { base, table, include_all, where_clause, filters, extra_key })
    }

    /// Returns the view adapted to altered tables.
    pub(crate) fn rebased(
        &self,
        base: &Arc<TableMetadata>,
        table: &Arc<TableMetadata>,
        types: &BTreeMap<String, Arc<UserType>>,
    ) -> Result<Self> {
        let (base, table) = (base.clone(), table.clone());
        Self::new(base, table, self.include_all, self.where_clause.clone(), types)
    }

    /// Binds the values of the WHERE, for evaluation on many rows.
    pub(crate) fn bind<'e>(&'e self, cx: &BindContext<'e>) -> Result<Vec<BoundFilter<'e>>> {
        self.filters.iter().map(|filter| BoundFilter::new(filter, cx)).collect()
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
}

/// Returns a catalog that contains nothing but the types that casts in a WHERE can name.
fn catalog_of_types(
    where_clause: &WhereClause,
    keyspace: &str,
    types: &BTreeMap<String, Arc<UserType>>,
) -> Catalog {
    if where_clause.relations.iter().all(|relation| matches!(relation, Relation::IsNotNull { .. })) {
        return Catalog::default();
    }
    let params = KeyspaceParams { durable_writes: true, replication: Replication::local() };
    let mut only_types = Keyspace::new(keyspace, KeyspaceKind::User, params);
    only_types.types = types.clone();
    Catalog::new([Arc::new(only_types)])
}

impl Keyspace {
    /// Returns the keyspace with views adapted to its tables, and without those whose table was
    /// dropped.
    pub(crate) fn with_views_of_tables(mut self) -> Result<Self> {
        let mut views = BTreeMap::new();
        for (name, view) in std::mem::take(&mut self.views) {
            let base = self.tables.get(&view.base.name).filter(|base| base.id == view.base.id);
            let table = self.tables.get(&name).filter(|table| table.id == view.table.id);
            if let (Some(base), Some(table)) = (base, table) {
                let same = Arc::ptr_eq(base, &view.base) && Arc::ptr_eq(table, &view.table);
                views.insert(
                    name,
                    if same { view } else { Arc::new(view.rebased(base, table, &self.types)?) },
                );
            }
        }
        self.views = views;
        Ok(self)
    }
}
