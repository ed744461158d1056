//! From the syntax trees of INSERT, UPDATE and DELETE to plans.

use std::collections::HashSet;
use std::sync::Arc;

use cassette_cql::ast::{self, Identifier};
use cassette_rows::{ColumnKind, ColumnMetadata, TableMetadata};

use super::attributes::Attributes;
use super::conditions::Conditions;
use super::operation::{self, ColumnOperations, Operation, Operations, OperationsBuilder};
use crate::basics::error::{Result, bail_invalid};
use crate::planning::context::PlanContext;
use crate::planning::restrictions::{Restrictions, Rules, StatementKind, existing, receiver};
use crate::schema::conditions::Term;

/// A planned INSERT, UPDATE or DELETE of rows.
#[derive(Debug)]
pub(crate) struct RowsPlan {
    pub table: Arc<TableMetadata>,
    pub kind: StatementKind,
    pub restrictions: Restrictions,
    /// Empty for a DELETE of whole rows, and for an INSERT of key columns alone.
    pub operations: Operations,
    pub attributes: Attributes,
    pub conditions: Conditions,
    /// The statement modifies only static columns, has no conditions on others, and names no row.
    pub only_statics: bool,
    /// The statement is an INSERT JSON, which sets every column in Cassandra, possibly to its
    /// previous value.
    pub sets_all_columns: bool,
    /// Whether columns of ranges of rows would be deleted, which executions reject, as in
    /// Cassandra, unless no range is left by an empty IN.
    pub deletes_cells_of_ranges: bool,
}

/// Plans `INSERT … (columns) VALUES (values)`.
pub(crate) fn insert(
    insert: &ast::Insert,
    names: &[Identifier],
    values: &[ast::Term],
    table: &Arc<TableMetadata>,
    cx: &mut PlanContext<'_>,
) -> Result<RowsPlan> {
    refuse_insert_of_counters(table)?;
    if names.len() != values.len() {
        bail_invalid!("Unmatched column names/values");
    }
    let mut distinct = HashSet::with_capacity(names.len());
    if !names.iter().all(|name| distinct.insert(name.as_str())) {
        bail_invalid!("The column names contains duplicates");
    }
    let mut columns = Vec::with_capacity(names.len());
    let is_key =
        |column: &ColumnMetadata| matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
    // As in Cassandra, which prepares key columns as a WHERE, after all others.
    let mut keys = Vec::new();
    for (name, value) in names.iter().zip(values) {
        let column = existing(table, name)?;
        if is_key(&column) {
            keys.push((columns.len() + keys.len(), column, value));
            continue;
        }
        let term = Term::prepare(value, &receiver(table, &column), cx)?;
        columns.push((column, term));
    }
    for (at, column, value) in keys {
        let term = Term::prepare(value, &receiver(table, &column), cx)?;
        columns.insert(at, (column, term));
    }
    let attributes = Attributes::new(insert.using.timestamp.as_ref(), insert.using.ttl.as_ref(), table, cx)?;
    insert_of(columns, attributes, insert.if_not_exists, table)
}

/// Plans an INSERT of these columns.
pub(crate) fn insert_of(
    columns: Vec<(Arc<ColumnMetadata>, Term)>,
    attributes: Attributes,
    if_not_exists: bool,
    table: &Arc<TableMetadata>,
) -> Result<RowsPlan> {
    let mut operations = OperationsBuilder::default();
    let mut keys = Vec::with_capacity(table.partition_key.len() + table.clustering.len());
    for (column, term) in columns {
        match column.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => keys.push((column, term)),
            ColumnKind::Static | ColumnKind::Regular => operations.add(column, Operation::Set(term))?,
        }
    }
    let names_clustering = keys.iter().any(|(column, _)| column.kind == ColumnKind::Clustering);
    let mut operations = operations.finish();
    if names_clustering
        && operations.regulars.is_empty()
        && let Some(value) = table.compact_value()
        && table.is_hidden(value)
    {
        // Without liveness, the hidden cell makes the row exist.
        let empty = Operation::Set(Term::Value(Vec::new().into()));
        operations.regulars.push(ColumnOperations { column: value.clone(), operations: vec![empty] });
    }
    let only_statics = operations.only_statics() && !names_clustering && !table.clustering.is_empty();
    let restrictions = Restrictions::of_insert(keys, table, only_statics)?;
    refuse_timestamp(if_not_exists, &attributes)?;
    let conditions = if if_not_exists { Conditions::NotExists } else { Conditions::None };
    Ok(RowsPlan {
        table: table.clone(),
        kind: StatementKind::Insert,
        restrictions,
        operations,
        attributes,
        conditions,
        only_statics,
        sets_all_columns: false,
        deletes_cells_of_ranges: false,
    })
}

/// Plans an UPDATE.
pub(crate) fn update(
    update: &ast::Update,
    table: &Arc<TableMetadata>,
    cx: &mut PlanContext<'_>,
) -> Result<RowsPlan> {
    let attributes = Attributes::new(update.using.timestamp.as_ref(), update.using.ttl.as_ref(), table, cx)?;
    refuse_timestamp_beside_columns(&update.conditions, &attributes)?;
    let conditions = Conditions::new(&update.conditions, table, cx)?;
    let mut operations = OperationsBuilder::default();
    for assignment in &update.assignments {
        let column = existing(table, &assignment.column)?;
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            bail_invalid!("PRIMARY KEY part {} found in SET part", column.name);
        }
        let operation = operation::assignment(&column, &assignment.operation, table, cx)?;
        operations.add(column, operation)?;
    }
    let operations = operations.finish();
    let changes = (operations, attributes, conditions);
    restricted(StatementKind::Update, &update.where_clause, table, changes, cx)
}

/// Plans a DELETE.
pub(crate) fn delete(
    delete: &ast::Delete,
    table: &Arc<TableMetadata>,
    cx: &mut PlanContext<'_>,
) -> Result<RowsPlan> {
    let attributes = Attributes::new(delete.timestamp.as_ref(), None, table, cx)?;
    refuse_timestamp_beside_columns(&delete.conditions, &attributes)?;
    let conditions = Conditions::new(&delete.conditions, table, cx)?;
    let mut operations = OperationsBuilder::default();
    for target in &delete.targets {
        let name = match target {
            ast::DeleteTarget::Column(name)
            | ast::DeleteTarget::Element(name, _)
            | ast::DeleteTarget::Field(name, _) => name,
        };
        let column = existing(table, name)?;
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            bail_invalid!(
                "Invalid identifier {} for deletion (should not be a PRIMARY KEY part)",
                column.name
            );
        }
        let operation = operation::deletion(&column, target, table, cx)?;
        operations.add(column, operation)?;
    }
    let operations = operations.finish();
    let changes = (operations, attributes, conditions);
    let plan = restricted(StatementKind::Delete, &delete.where_clause, table, changes, cx)?;
    let names_rows = plan.restrictions.clustering.names_rows();
    if !plan.conditions.is_empty() && !names_rows {
        const NEEDED: &str =
            "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to";
        if !plan.operations.only_statics() {
            bail_invalid!("{NEEDED} delete non static columns");
        }
        if plan.conditions.touch(ColumnKind::Regular) {
            bail_invalid!("{NEEDED} use IF condition on non static columns");
        }
    }
    let deletes_cells_of_ranges = !plan.operations.regulars.is_empty() && !names_rows;
    Ok(RowsPlan { deletes_cells_of_ranges, ..plan })
}

/// Refuses a timestamp beside conditions on columns. Beside other conditions, as in Cassandra,
/// mistakes of the restrictions are reported first.
fn refuse_timestamp_beside_columns(conditions: &ast::Conditions, attributes: &Attributes) -> Result<()> {
    refuse_timestamp(matches!(conditions, ast::Conditions::Columns(_)), attributes)
}

/// Refuses a timestamp of a statement with conditions.
pub(crate) fn refuse_timestamp(has_conditions: bool, attributes: &Attributes) -> Result<()> {
    if has_conditions && attributes.has_timestamp() {
        bail_invalid!("Cannot provide custom timestamp for conditional updates");
    }
    Ok(())
}

/// Plans an UPDATE or DELETE with its WHERE. The rows may still be ranges.
fn restricted(
    kind: StatementKind,
    where_clause: &ast::WhereClause,
    table: &Arc<TableMetadata>,
    (operations, attributes, conditions): (Operations, Attributes, Conditions),
    cx: &mut PlanContext<'_>,
) -> Result<RowsPlan> {
    let only_statics = operations.only_statics() && !conditions.touch(ColumnKind::Regular);
    let rules = Rules {
        kind,
        only_static_columns: only_statics,
        allow_filtering: false,
        allow_clustering_slices: kind == StatementKind::Delete,
    };
    let restrictions = Restrictions::new(where_clause, table, rules, cx)?;
    if table.is_counter && !conditions.is_empty() {
        bail_invalid!("Conditional updates are not supported on counter tables");
    }
    refuse_timestamp(!conditions.is_empty(), &attributes)?;
    let table = table.clone();
    let sets_all_columns = false;
    Ok(RowsPlan {
        table,
        kind,
        restrictions,
        operations,
        attributes,
        conditions,
        only_statics,
        sets_all_columns,
        deletes_cells_of_ranges: false,
    })
}

pub(crate) fn refuse_insert_of_counters(table: &TableMetadata) -> Result<()> {
    if table.is_counter {
        bail_invalid!("INSERT statements are not allowed on counter tables, use UPDATE instead")
    } else {
        Ok(())
    }
}
