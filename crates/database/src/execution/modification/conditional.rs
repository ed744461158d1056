//! Conditional writes: lock the partition, read, check, write.
//!
//! A single node needs no Paxos. The partition's lock is held from the read to the write, and every
//! conditional write acquires it. Plain writes do not: as in Cassandra, the two should not be
//! mixed.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::iter::once;
use std::sync::Arc;

use cassette_engine::trace::trace;
use cassette_rows::{
    Clustering, ClusteringComparator, ColumnMetadata, DataType, DecoratedKey, Row, Selection, Slice, Slices,
    TableMetadata, Unfiltered, key,
};

use super::Mutations;
use super::question::Question;
use crate::basics::columns::{value_of, wildcard};
use crate::basics::error::{DatabaseError, Result, WriteType, bail_invalid};
use crate::basics::response::{ColumnSpec, Outcome, ResultMetadata, RowSink};
use crate::execution::Execution;
use crate::planning::context::Masks;
use crate::planning::modification::conditions::Conditions;
use crate::planning::modification::rows_plan::RowsPlan;
use crate::planning::restrictions::StatementKind;
use crate::planning::select::masked::MaskedColumn;

/// One statement of a conditional write, with its values.
pub(crate) struct Part<'p, 'e> {
    pub plan: &'p RowsPlan,
    pub execution: &'p Execution<'e>,
}

/// Executes a conditional statement.
pub(crate) fn apply_if(
    plan: &RowsPlan,
    execution: &Execution<'_>,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let mut keys = plan.restrictions.partition.keys(execution)?.into_iter();
    let (Some(key), false) = (keys.next(), plan.restrictions.partition.has_in()) else {
        return Err(in_is_unsupported("partition key", plan));
    };
    refuse_several_rows(plan)?;
    let part = Part { plan, execution };
    let mut question = Question::new(&plan.table);
    question.add(&part)?;
    question.finish()?;
    apply_parts_if(&[part], &question, key, false, sink)
}

/// Refuses IN on the clustering columns of a conditional write.
pub(crate) fn refuse_several_rows(plan: &RowsPlan) -> Result<()> {
    if plan.restrictions.clustering.has_in() {
        return Err(in_is_unsupported("clustering key columns", plan));
    }
    Ok(())
}

fn in_is_unsupported(columns: &str, plan: &RowsPlan) -> DatabaseError {
    let statements = if plan.kind == StatementKind::Delete { "deletions" } else { "updates" };
    DatabaseError::invalid(format!("IN on the {columns} is not supported with conditional {statements}"))
}

/// Executes statements on one partition, some of them conditional: all are applied if all
/// conditions hold, otherwise none. `question` contains their conditions.
pub(crate) fn apply_parts_if(
    parts: &[Part<'_, '_>],
    question: &Question<'_>,
    key: DecoratedKey,
    is_batch: bool,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let Some(Part { plan, execution }) = parts.first() else { return Ok(Outcome::Void) };
    let table = &plan.table;
    execution.require_replicas_of(table, &[key.token()], execution.serial_read_level())?;
    let refused = execution.store.admitted(execution, WriteType::Cas, |admission| {
        trace(|| "Reading existing values for CAS precondition");
        let _lock = execution.store.lock_for_condition(execution.started, table.id, &key)?;
        let current = Current::read(table, &key, question, execution)?;
        if !question.holds_for(&current, execution.now_seconds)? {
            trace(|| "CAS precondition does not match current values; aborting");
            return Ok(Some(current));
        }
        trace(|| "CAS precondition is met; applying client-requested updates");
        let timestamp = execution.store.write_timestamp(once(&**table), execution.now_micros)?;
        let mut mutations = Mutations::default();
        for part in parts {
            let times = part.plan.attributes.conditional_times(part.execution, timestamp, table)?;
            part.plan.add_to(&mut mutations, &times, part.execution)?;
        }
        mutations.apply_locked(execution, admission)?;
        Ok(None)
    })?;
    if let Some(current) = refused {
        return refuse(parts, &key, question, &current, is_batch, sink);
    }
    sink.begin(&ResultMetadata::new(vec![applied_spec(table)]));
    sink.value(Some(&[1]));
    sink.end_row()?;
    Ok(Outcome::Rows { paging_state: None })
}

fn applied_spec(table: &TableMetadata) -> ColumnSpec {
    spec(table, "[applied]", DataType::Boolean)
}

fn spec(table: &TableMetadata, name: &str, data_type: DataType) -> ColumnSpec {
    ColumnSpec {
        keyspace: table.keyspace.as_str().into(),
        table: table.name.as_str().into(),
        name: name.into(),
        data_type,
    }
}

/// The current rows that the conditions refer to. If only the static row is checked, its first row
/// is included for the result.
pub(crate) struct Current {
    pub static_row: Option<Row>,
    rows: Vec<Row>,
}

impl Current {
    fn read(
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        question: &Question<'_>,
        execution: &Execution<'_>,
    ) -> Result<Self> {
        let only_first = question.rows.is_empty();
        let slices = if only_first {
            Slices::all()
        } else {
            let slices =
                question.rows.iter().map(|(clustering, _)| Slice::prefix(clustering.clone())).collect();
            Slices::new(slices, &table.comparator)
        };
        let selection = Selection { slices, reversed: false };
        let failed = |error: cassette_rows::StorageError| {
            DatabaseError::read_failure(execution.options.consistency, error)
        };
        let now = execution.now_seconds;
        let mut stream = execution.store.read(execution, table, key, &selection)?;
        let mut current = Self { static_row: None, rows: Vec::new() };
        if let Some(header) = stream.next_partition().map_err(failed)? {
            current.static_row = header.static_row.filter(|row| question.sees_static_row(row, now));
            while let Some(next) = stream.next_unfiltered().map_err(failed)? {
                if let Unfiltered::Row(row) = next
                    && question.sees_row(&row, now)
                {
                    current.rows.push(row);
                    if only_first {
                        break;
                    }
                }
            }
        }
        Ok(current)
    }

    /// Finds rows for ascending clusterings.
    pub fn rows_in_order<'a>(&'a self, table: &'a TableMetadata) -> RowsInOrder<'a> {
        RowsInOrder { rows: &self.rows, comparator: &table.comparator }
    }
}

/// The remaining rows of [`Current`]. Rows and requested clusterings ascend, so all look-ups
/// together compare each row about once.
pub(crate) struct RowsInOrder<'a> {
    rows: &'a [Row],
    comparator: &'a ClusteringComparator,
}

impl<'a> RowsInOrder<'a> {
    /// Returns the row at `clustering`, which must be greater than that of the previous call.
    pub fn at(&mut self, clustering: &Clustering) -> Option<&'a Row> {
        while let Some((row, after)) = self.rows.split_first() {
            match self.comparator.compare_rows(row.clustering(), clustering) {
                Ordering::Less => self.rows = after,
                Ordering::Equal => return Some(row),
                Ordering::Greater => return None,
            }
        }
        None
    }
}

/// Returns `[applied]` false, with the current values.
fn refuse(
    parts: &[Part<'_, '_>],
    key: &DecoratedKey,
    question: &Question<'_>,
    current: &Current,
    is_batch: bool,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let Part { plan, execution } = &parts[0];
    let table = &plan.table;
    let conditional = || parts.iter().filter(|part| !part.plan.conditions.is_empty());
    let shows_all =
        conditional().any(|p| matches!(p.plan.conditions, Conditions::Exists | Conditions::NotExists));
    let mut columns: Vec<Arc<ColumnMetadata>> = Vec::new();
    if shows_all {
        columns.extend(wildcard(table));
    } else {
        if is_batch {
            columns.extend(table.partition_key.iter().chain(&table.clustering).cloned());
        }
        let mut shown: HashSet<String> = columns.iter().map(|column| column.name.clone()).collect();
        for column in conditional().flat_map(|part| part.plan.conditions.columns()) {
            if shown.insert(column.name.clone()) {
                columns.push(column);
            }
        }
    }

    let static_row = current.static_row.as_ref();
    let rows: Vec<Option<&Row>> = match (&current.rows[..], static_row) {
        ([], Some(_)) => vec![None],
        (rows, _) => rows.iter().map(Some).collect(),
    };
    let masks = masks_of(&columns, execution)?;
    let mut specs = vec![applied_spec(table)];
    if !rows.is_empty() {
        specs.extend(columns.iter().map(|c| spec(table, &c.name, c.data_type.clone())));
    }
    sink.begin(&ResultMetadata::new(specs));
    if rows.is_empty() {
        sink.value(Some(&[0]));
        sink.end_row()?;
    }
    let Some(key_values) = key::components(key.key(), table.partition_key.len()) else {
        bail_invalid!(
            "invalid partition key of {}: its components cannot be decoded",
            table.qualified_name()
        );
    };
    for row in rows {
        sink.value(Some(&[0]));
        for (column, mask) in columns.iter().zip(&masks) {
            if question.reads(column) {
                let value = current_value(column, row, static_row, &key_values, execution.now_seconds);
                match mask {
                    Some(mask) => sink.value(mask.apply(value.as_deref(), execution)?.as_deref()),
                    None => sink.value(value.as_deref()),
                }
            } else {
                sink.value(None)
            }
        }
        sink.end_row()?;
    }
    Ok(Outcome::Rows { paging_state: None })
}

/// Returns the masks that apply to the columns. Cassandra shows clear values here, so that any role
/// that may write a row can read it by a condition that is false.
fn masks_of(columns: &[Arc<ColumnMetadata>], execution: &Execution<'_>) -> Result<Vec<Option<MaskedColumn>>> {
    match execution.masks {
        Masks::Lifted => Ok(columns.iter().map(|_| None).collect()),
        Masks::Applied => columns.iter().map(MaskedColumn::new).collect(),
    }
}

fn current_value<'r>(
    column: &ColumnMetadata,
    row: Option<&'r Row>,
    static_row: Option<&'r Row>,
    key: &[&'r [u8]],
    now: u32,
) -> Option<Cow<'r, [u8]>> {
    use cassette_rows::ColumnKind::*;
    match column.kind {
        PartitionKey => key.get(column.position).copied().map(Cow::Borrowed),
        Clustering => row.and_then(|row| row.clustering().value(column.position)).map(Cow::Borrowed),
        Static => static_row.and_then(|row| value_of(row, column, now)),
        Regular => row.and_then(|row| value_of(row, column, now)),
    }
}
