//! Conditional writes: lock the partition, read, decide, write.
//!
//! One machine needs no Paxos. The partition's lock is held from the read to the write, and every conditional write
//! takes it; plain writes do not, as in Cassandra, where the two are not to be mixed either.

use std::sync::Arc;

use cassette_engine::may_wait;
use cassette_engine::trace::trace;
use cassette_rows::{
    Clustering, ColumnKind, ColumnMetadata, DataType, DecoratedKey, Row, Selection, Slice, Slices,
    TableMetadata, Unfiltered, key,
};

use super::conditions::Conditions;
use super::mutations::Mutations;
use super::rows::RowsPlan;
use crate::columns::{value_of, wildcard};
use crate::error::{DatabaseError, Result, WriteType, bail_invalid};
use crate::execution::Execution;
use crate::response::{ColumnSpec, Outcome, ResultMetadata, RowSink};

/// One statement of a conditional write, with its values.
pub(super) struct Part<'p, 'e> {
    pub plan: &'p RowsPlan,
    pub execution: &'p Execution<'e>,
}

/// Executes a conditional statement.
pub(super) fn execute(plan: &RowsPlan, execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
    let [key] =
        <[DecoratedKey; 1]>::try_from(plan.restrictions.partition.keys(execution)?).map_err(|_| {
            DatabaseError::invalid("IN on the partition key is not supported with conditional updates")
        })?;
    execute_parts(&[Part { plan, execution }], key, false, sink)
}

/// Executes statements on one partition, some of them conditional: all are applied if all conditions hold, else none.
pub(super) fn execute_parts(
    parts: &[Part<'_, '_>],
    key: DecoratedKey,
    is_batch: bool,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let Some(Part { plan, execution }) = parts.first() else { return Ok(Outcome::Void) };
    let (table, database) = (&plan.table, execution.database);
    let targets = targets(parts)?;
    refuse_conflicts(parts, &targets, table)?;

    trace(|| "Reading existing values for CAS precondition");
    let engine = database.engine();
    let _lock = match may_wait() {
        true => engine.lock_partition(table.id, &key),
        false => engine.try_lock_partition(table.id, &key).ok_or(DatabaseError::WouldBlock)?,
    };
    let current = Current::read(table, &key, &targets, execution)?;
    let mut applied = true;
    for (part, target) in parts.iter().zip(&targets) {
        let conditions = &part.plan.conditions;
        let row = target.as_ref().and_then(|clustering| current.row(clustering, table));
        let exists = match target {
            Some(_) => row,
            None => current.static_row.as_ref(),
        };
        applied &= conditions.hold(exists, row, current.static_row.as_ref(), part.execution)?;
    }
    if !applied {
        trace(|| "CAS precondition does not match current values; aborting");
        return refuse(parts, &key, &current, is_batch, sink);
    }
    trace(|| "CAS precondition is met; applying client-requested updates");
    let timestamp = execution.database.next_timestamp(execution.now_micros);
    let mut mutations = Mutations::default();
    for part in parts {
        let times = part.plan.attributes.times(part.execution, Some(timestamp), table)?;
        part.plan.add_to(&mut mutations, &times, part.execution)?;
    }
    mutations.apply(execution, WriteType::Cas)?;
    sink.begin(&ResultMetadata::new(vec![applied_spec(table)]));
    sink.value(Some(&[1]));
    sink.end_row();
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

/// The row that each part's conditions are about; `None` for the static row.
fn targets(parts: &[Part<'_, '_>]) -> Result<Vec<Option<Clustering>>> {
    let target = |part: &Part<'_, '_>| {
        let plan = part.plan;
        if plan.only_statics || plan.conditions.is_empty() && !plan.restrictions.clustering.names_rows() {
            return Ok(None);
        }
        let rows = plan.restrictions.clustering.clusterings(part.execution)?;
        Ok(rows.into_iter().next())
    };
    parts.iter().map(target).collect()
}

/// Refuses conditions on one row that cannot stand side by side.
fn refuse_conflicts(
    parts: &[Part<'_, '_>],
    targets: &[Option<Clustering>],
    table: &TableMetadata,
) -> Result<()> {
    let conditions = parts.iter().map(|part| &part.plan.conditions);
    let mut on_rows: Vec<_> =
        conditions.zip(targets).enumerate().filter(|(_, (conditions, _))| !conditions.is_empty()).collect();
    let compare = |a: &Option<Clustering>, b: &Option<Clustering>| match (a, b) {
        (Some(a), Some(b)) => table.comparator.compare_rows(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    // Stable: of one row, the statements stay in their order.
    on_rows.sort_by(|(_, (_, a)), (_, (_, b))| compare(a, b));
    let conflicts = on_rows.chunk_by(|(_, (_, a)), (_, (_, b))| compare(a, b).is_eq()).flat_map(|of_row| {
        let (_, (first, _)) = of_row[0];
        of_row.iter().filter_map(move |(at, (later, _))| Some((*at, later.conflict_with(first)?)))
    });
    match conflicts.min_by_key(|(at, _)| *at) {
        Some((_, conflict)) => bail_invalid!("{conflict}"),
        None => Ok(()),
    }
}

/// What the partition holds of the rows in question.
struct Current {
    static_row: Option<Row>,
    rows: Vec<Row>,
}

impl Current {
    fn read(
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        targets: &[Option<Clustering>],
        execution: &Execution<'_>,
    ) -> Result<Self> {
        let mut rows = targets.iter().flatten().peekable();
        // Where only the static row is in question, Cassandra shows the first row beside it.
        let only_first = rows.peek().is_none();
        let slices = match only_first {
            true => Slices::all(),
            false => {
                let slices = rows.map(|clustering| Slice::prefix(clustering.clone())).collect();
                Slices::new(slices, &table.comparator)
            }
        };
        let selection = Selection { slices, reversed: false };
        let failed = |error: cassette_rows::StorageError| {
            DatabaseError::read_failure(execution.options.consistency, &error)
        };
        let now = execution.now_seconds;
        let mut stream = execution.database.read(execution, table, key, &selection)?;
        let mut current = Self { static_row: None, rows: Vec::new() };
        if let Some(header) = stream.next_partition().map_err(failed)? {
            current.static_row = header.static_row.filter(|row| row.has_live_cell(now));
            while let Some(next) = stream.next_unfiltered().map_err(failed)? {
                if let Unfiltered::Row(row) = next
                    && row.is_live(now)
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

    fn row(&self, clustering: &Clustering, table: &TableMetadata) -> Option<&Row> {
        self.rows.iter().find(|row| table.comparator.compare_rows(row.clustering(), clustering).is_eq())
    }
}

/// Answers `[applied]` false, with the values that stood in the way.
fn refuse(
    parts: &[Part<'_, '_>],
    key: &DecoratedKey,
    current: &Current,
    is_batch: bool,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let Part { plan, execution } = &parts[0];
    let table = &plan.table;
    // Cassandra does not read columns of a kind that nothing is said of, and shows them as null; of static columns that
    // do not change it reads those in the conditions.
    let reads_of = |static_row: &Row, part: &Part<'_, '_>| {
        let is_there = |column: &ColumnMetadata| {
            static_row.cells_of(column.id).any(|cell| cell.is_live(execution.now_seconds))
        };
        let mut asked = part.plan.conditions.columns().into_iter();
        !part.plan.operations.statics.is_empty()
            || asked.any(|column| column.kind == ColumnKind::Static && is_there(&column))
    };
    let reads_regulars =
        |part: &Part<'_, '_>| !part.plan.only_statics || part.plan.conditions.touch(ColumnKind::Regular);
    let static_row = current.static_row.as_ref().filter(|row| parts.iter().any(|part| reads_of(row, part)));
    let shows_regulars = parts.iter().any(reads_regulars);
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
        for column in conditional().flat_map(|part| part.plan.conditions.columns()) {
            if !columns.iter().any(|c| c.name == column.name) {
                columns.push(column);
            }
        }
    }

    let rows: Vec<Option<&Row>> = match (&current.rows[..], static_row) {
        ([], Some(_)) => vec![None],
        (rows, _) => rows.iter().map(Some).collect(),
    };
    let mut specs = vec![applied_spec(table)];
    if !rows.is_empty() {
        specs.extend(columns.iter().map(|c| spec(table, &c.name, c.data_type.clone())));
    }
    sink.begin(&ResultMetadata::new(specs));
    if rows.is_empty() {
        sink.value(Some(&[0]));
        sink.end_row();
    }
    let Some(key_values) = key::components(key.key(), table.partition_key.len()) else {
        bail_invalid!("the partition key of {} cannot be taken apart", table.qualified_name());
    };
    for row in rows {
        sink.value(Some(&[0]));
        for column in &columns {
            if column.kind == ColumnKind::Regular && !shows_regulars {
                sink.value(None);
                continue;
            }
            push(column, row, static_row, &key_values, execution.now_seconds, sink);
        }
        sink.end_row();
    }
    Ok(Outcome::Rows { paging_state: None })
}

fn push(
    column: &ColumnMetadata,
    row: Option<&Row>,
    static_row: Option<&Row>,
    key: &[&[u8]],
    now: u32,
    sink: &mut dyn RowSink,
) {
    use cassette_rows::ColumnKind::*;
    match column.kind {
        PartitionKey => sink.value(key.get(column.position).copied()),
        Clustering => sink.value(row.and_then(|row| row.clustering().value(column.position))),
        Static => sink.value(static_row.and_then(|row| value_of(row, column, now)).as_deref()),
        Regular => sink.value(row.and_then(|row| value_of(row, column, now)).as_deref()),
    }
}
