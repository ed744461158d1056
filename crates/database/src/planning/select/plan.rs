//! From the syntax tree of a SELECT to a plan.

use std::collections::HashSet;
use std::sync::Arc;

use cassette_cql::ast;
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, Layout, TableMetadata};

use super::builder::{Builder, Built};
use super::group_by::GroupBy;
use super::limits::LimitTerms;
use super::order::Order;
use super::outputs::Outputs;
use super::selectable::{Scope, Selectable};
use crate::basics::columns::wildcard;
use crate::basics::error::{Result, bail_invalid};
use crate::basics::metrics::RequestKind;
use crate::basics::paging_key::PagingScope;
use crate::basics::request::StatementOptions;
use crate::basics::response::{ColumnSpec, ResultMetadata};
use crate::planning::context::PlanContext;
use crate::planning::restrictions::{
    ALLOW_FILTERING_MESSAGE, Ann, AnnOrderings, Restrictions, Rules, StatementKind, existing,
};
use crate::schema::catalog::KeyspaceKind;

/// A planned SELECT.
#[derive(Debug)]
pub(crate) struct SelectPlan {
    pub table: Arc<TableMetadata>,
    pub restrictions: Restrictions,
    /// The columns that its outputs use; `None` for `*`.
    pub queried: Option<Vec<Arc<ColumnMetadata>>>,
    pub outputs: Outputs,
    pub metadata: Arc<ResultMetadata>,
    /// DISTINCT: one row for each partition, with key and static columns.
    pub distinct: bool,
    /// ALLOW FILTERING on a user table.
    pub allows_filtering: bool,
    pub group_by: Option<GroupBy>,
    pub order: Order,
    pub limits: LimitTerms,
    /// The scope of its paging states.
    pub paging_scope: PagingScope,
    /// Whether the rows of the table are computed when they are read.
    pub is_virtual: bool,
    /// The columns with a mask that determine which rows it reads, in the table's order.
    pub masked_restrictions: Vec<String>,
}

impl SelectPlan {
    /// Returns the table.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// Whether it reads named partitions.
    pub fn names_keys(&self) -> bool {
        self.restrictions.partition.names_keys()
    }

    /// Returns the restrictions of its rows.
    #[cfg(test)]
    pub fn restrictions(&self) -> &Restrictions {
        &self.restrictions
    }

    /// Returns the result columns.
    pub fn result_metadata(&self) -> &Arc<ResultMetadata> {
        &self.metadata
    }

    /// Whether its rows are those of one value in one index.
    pub fn asks_one_index_for_a_value(&self) -> bool {
        self.restrictions.ask_one_index_for_a_value()
    }

    /// Returns the kind of request for metrics; `None` if its table is virtual.
    pub fn request_kind(&self, options: &StatementOptions) -> Option<RequestKind> {
        if self.is_virtual {
            return None;
        }
        Some(match self.restrictions.partition.names_keys() {
            true if options.consistency.is_serial() => RequestKind::CasRead,
            true => RequestKind::Read,
            false => RequestKind::Range,
        })
    }

    /// Resolves `select` against the catalog.
    pub fn new(select: &ast::Select, cx: &mut PlanContext<'_>) -> Result<Self> {
        let table = cx.table(&select.table)?;
        // Selectors are resolved before WHERE only if it matters that they are of static columns.
        let mut resolved = Vec::new();
        let only_static_columns = table.static_columns().next().is_some()
            && selects_only_static_columns(select, &mut resolved, Scope { table: &table, cx })?;
        let orderings = AnnOrderings::new(select, &table, cx)?;
        let rules = Rules {
            kind: StatementKind::Select,
            only_static_columns,
            allow_filtering: select.allow_filtering || cx.catalog.is_virtual(&table),
            allow_clustering_slices: true,
        };
        let restrictions = Restrictions::ordered(&select.where_clause, orderings, &table, rules, cx)?;
        let mut builder = Builder::new(&table);
        let built = build_outputs(select, &resolved, &table, &mut builder, cx)?;
        if select.distinct {
            if select.per_partition_limit.is_some() {
                bail_invalid!("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries");
            }
            // Rows of several partitions are sorted by these columns, so they count as selected.
            let sorted_by = if restrictions.have_partition_in() { &select.order_by[..] } else { &[] };
            let sorted_by = sorted_by.iter().map(|ordering| existing(&table, &ordering.column));
            let selected = builder.columns.iter().cloned().map(Ok).chain(sorted_by);
            validate_distinct(&selected.collect::<Result<Vec<_>>>()?, &table, &restrictions)?;
        }
        let group_by = GroupBy::new(&select.group_by, &table, &restrictions, select.distinct, cx)?;
        if group_by.is_none() && !builder.aggregates.is_empty() && select.per_partition_limit.is_some() {
            bail_invalid!("PER PARTITION LIMIT is not allowed with aggregate queries.");
        }
        let order = Order::new(select, &table, &restrictions)?;
        if let Some(refusal) = restrictions.refusal {
            bail_invalid!("{refusal}");
        }
        if !rules.allow_filtering
            && restrictions.searches.is_empty()
            && !restrictions.partition.names_keys()
            && !restrictions.clustering.is_empty()
        {
            bail_invalid!("{ALLOW_FILTERING_MESSAGE}");
        }
        let keyspace = cx.catalog.require_keyspace(&table.keyspace)?;
        let is_users = !matches!(keyspace.kind, KeyspaceKind::Local | KeyspaceKind::Virtual);
        let limits = LimitTerms::new(select, &table, cx)?;
        let metadata = metadata(&built, select.json, &table);
        let queried = (!select.selections.is_empty()).then(|| builder.columns.clone());
        let outputs = Outputs::new(built, builder, select.json);
        Ok(Self {
            restrictions,
            queried,
            outputs,
            metadata,
            distinct: select.distinct,
            allows_filtering: select.allow_filtering && is_users,
            group_by,
            order,
            limits,
            paging_scope: PagingScope { table: table.id.0, statement: cx.digest },
            is_virtual: keyspace.kind == KeyspaceKind::Virtual,
            masked_restrictions: masked_restrictions(select, &table),
            table,
        })
    }
}

/// Builds the columns of the result: those selected, or all columns of the table. Selectors
/// that are not `resolved` yet are resolved one by one, so the first invalid one is reported.
fn build_outputs(
    select: &ast::Select,
    resolved: &[Selectable],
    table: &TableMetadata,
    builder: &mut Builder<'_>,
    cx: &mut PlanContext<'_>,
) -> Result<Vec<Built>> {
    if select.selections.is_empty() {
        let columns = wildcard(table).into_iter().map(Selectable::Column);
        return columns.map(|column| builder.build(&column, None, cx)).collect();
    }
    let mut built = Vec::with_capacity(select.selections.len());
    for (index, selection) in select.selections.iter().enumerate() {
        let output = match resolved.get(index) {
            Some(selectable) => builder.build(selectable, None, cx)?,
            None => {
                let selectable = Selectable::resolve(&selection.selector, Scope { table, cx })?;
                builder.build(&selectable, None, cx)?
            }
        };
        built.push(match &selection.alias {
            Some(alias) => Built { name: alias.as_str().to_owned(), ..output },
            None => output,
        });
    }
    Ok(built)
}

/// Returns the columns with a mask that a SELECT restricts, or orders by similarity.
fn masked_restrictions(select: &ast::Select, table: &TableMetadata) -> Vec<String> {
    if !table.has_masks() {
        return Vec::new();
    }
    let relations = select.where_clause.relations.iter().flat_map(ast::Relation::columns);
    let similar = select.order_by.iter().filter(|ordering| ordering.ann_of.is_some());
    let restricted: HashSet<&str> =
        relations.chain(similar.map(|ordering| &ordering.column)).map(ast::Identifier::as_str).collect();
    let masked = table.all_columns().filter(|column| column.mask.is_some());
    let masked = masked.filter(|column| restricted.contains(column.name.as_str()));
    masked.map(|column| column.name.clone()).collect()
}

fn metadata(built: &[Built], json: bool, table: &TableMetadata) -> Arc<ResultMetadata> {
    let keyspace: Arc<str> = table.keyspace.as_str().into();
    let table: Arc<str> = table.name.as_str().into();
    let spec = |name: &str, data_type: DataType| ColumnSpec {
        keyspace: keyspace.clone(),
        table: table.clone(),
        name: name.into(),
        data_type,
    };
    ResultMetadata::new(if json {
        vec![spec("[json]", DataType::Text)]
    } else {
        built.iter().map(|built| spec(&built.name, built.data_type.clone())).collect()
    })
}

/// Whether selectors of a table with static columns are only of these, and of the partition key.
/// As in Cassandra, selectors are resolved as far as that depends on them.
fn selects_only_static_columns<'s>(
    select: &'s ast::Select,
    resolved: &mut Vec<Selectable<'s>>,
    scope: Scope<'_, '_>,
) -> Result<bool> {
    let mut any = |predicate: &dyn Fn(&ColumnMetadata) -> bool| -> Result<bool> {
        for (index, selection) in select.selections.iter().enumerate() {
            if index == resolved.len() {
                resolved.push(Selectable::resolve(&selection.selector, scope)?);
            }
            if resolved[index].selects(predicate) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    // The columns of COMPACT STORAGE without clustering columns are static ones only in storage.
    Ok(scope.table.layout != Layout::StaticCompact
        && any(&|column| column.kind == ColumnKind::Static)?
        && !any(&|column| matches!(column.kind, ColumnKind::Regular | ColumnKind::Clustering))?)
}

fn validate_distinct(
    selected: &[Arc<ColumnMetadata>],
    table: &TableMetadata,
    restrictions: &Restrictions,
) -> Result<()> {
    let of_rows =
        |column: &ColumnMetadata| matches!(column.kind, ColumnKind::Regular | ColumnKind::Clustering);
    let is_of_rows = restrictions.filters.iter().any(|f| of_rows(&f.column))
        || restrictions.ann.as_ref().is_some_and(Ann::is_of_rows);
    if !restrictions.clustering.is_empty() || is_of_rows {
        bail_invalid!(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns."
        );
    }
    if let Some(column) = selected.iter().find(|column| of_rows(column)) {
        bail_invalid!(
            "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {})",
            column.name
        );
    }
    if restrictions.partition.names_keys() {
        return Ok(());
    }
    for key in &table.partition_key {
        if !selected.iter().any(|column| column.name == key.name) {
            bail_invalid!(
                "SELECT DISTINCT queries must request all the partition key columns (missing {})",
                key.name
            );
        }
    }
    Ok(())
}
