//! From the syntax tree of a SELECT to a plan.

use std::sync::Arc;

use cassette_cql::ast::{self, Selector};
use cassette_rows::{ColumnKind, DataType, TableMetadata};

use super::limits::LimitTerms;
use super::outputs::{Output, Outputs};
use super::{SelectPlan, order};
use crate::columns::wildcard;
use crate::error::{DatabaseError, Result, bail_invalid};
use crate::plan::PlanContext;
use crate::response::{ColumnSpec, ResultMetadata};
use crate::restrictions::{Restrictions, Rules, StatementKind, existing};

impl SelectPlan {
    /// Resolves `select` against the catalog.
    pub fn new(select: &ast::Select, cx: &mut PlanContext<'_>) -> Result<Self> {
        let table = cx.table(&select.table)?;
        if select.json {
            return Err(DatabaseError::not_supported("SELECT JSON is"));
        }
        if !select.group_by.is_empty() {
            return Err(DatabaseError::not_supported("GROUP BY is"));
        }
        let (outputs, specs) = outputs(select, &table)?;
        let only_static_columns = !select.selections.is_empty()
            && select.selections.iter().all(|selection| match &selection.selector {
                Selector::Column(name) => table
                    .column(name)
                    .is_some_and(|c| matches!(c.kind, ColumnKind::Static | ColumnKind::PartitionKey)),
                _ => false,
            })
            && select.selections.iter().any(|selection| match &selection.selector {
                Selector::Column(name) => table.column(name).is_some_and(|c| c.kind == ColumnKind::Static),
                _ => false,
            });
        let rules = Rules {
            kind: StatementKind::Select,
            only_static_columns,
            allow_filtering: select.allow_filtering || cx.catalog.virtual_table(&table).is_some(),
            allow_clustering_slices: true,
        };
        let restrictions = Restrictions::new(&select.where_clause, &table, rules, cx)?;
        if select.distinct {
            validate_distinct(select, &table)?;
        }
        let reversed = order::is_reversed(select, &table, &restrictions)?;
        let sorts_rows = !select.order_by.is_empty() && restrictions.partition.has_in();
        let limits = LimitTerms::new(select, &table, cx)?;
        if select.distinct && limits.has_per_partition() {
            bail_invalid!("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries");
        }
        Ok(Self {
            restrictions,
            outputs,
            metadata: ResultMetadata::new(specs),
            distinct: select.distinct,
            reversed,
            sorts_rows,
            limits,
            table,
        })
    }
}

fn validate_distinct(select: &ast::Select, table: &TableMetadata) -> Result<()> {
    for selection in &select.selections {
        if let Selector::Column(name) = &selection.selector {
            let column = existing(table, name)?;
            if !matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static) {
                bail_invalid!(
                    "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {})",
                    column.name
                );
            }
        }
    }
    for key in &table.partition_key {
        let selected = select
            .selections
            .iter()
            .any(|s| matches!(&s.selector, Selector::Column(name) if name.as_str() == key.name));
        if !selected && !select.selections.is_empty() {
            bail_invalid!(
                "SELECT DISTINCT queries must request all the partition key columns (missing {})",
                key.name
            );
        }
    }
    Ok(())
}

fn outputs(select: &ast::Select, table: &Arc<TableMetadata>) -> Result<(Outputs, Vec<ColumnSpec>)> {
    let spec = |name: &str, data_type: DataType| ColumnSpec {
        keyspace: table.keyspace.as_str().into(),
        table: table.name.as_str().into(),
        name: name.into(),
        data_type,
    };
    let mut outputs = Vec::new();
    let mut specs = Vec::new();
    if select.selections.is_empty() {
        for column in wildcard(table) {
            specs.push(spec(&column.name, column.data_type.clone()));
            outputs.push(Output::Column(column));
        }
    }
    for selection in &select.selections {
        let alias = selection.alias.as_ref().map(|alias| alias.as_str());
        match &selection.selector {
            Selector::Column(name) => {
                let column = existing(table, name)?;
                specs.push(spec(alias.unwrap_or(&column.name), column.data_type.clone()));
                outputs.push(Output::Column(column));
            }
            Selector::CountRows => {
                specs.push(spec(alias.unwrap_or("count"), DataType::BigInt));
                outputs.push(Output::CountRows);
            }
            other => return Err(DatabaseError::not_supported(format!("Selecting {other} is"))),
        }
    }
    Ok((Outputs::new(outputs), specs))
}
