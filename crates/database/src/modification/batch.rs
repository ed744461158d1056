//! BATCH: several modifications applied whole.

use std::sync::Arc;

use cassette_cql::ast::{self, BatchKind};
use cassette_rows::{TableMetadata, interrupt};

use super::ModificationPlan;
use super::attributes::Attributes;
use super::batch_limits;
use super::conditional::{self, Part};
use super::mutations::Mutations;
use super::question::Question;
use crate::error::{DatabaseError, Result, WriteType, bail_invalid};
use crate::execution::Execution;
use crate::plan::PlanContext;
use crate::request::{Consistency, ConsistencyRules};
use crate::response::{Outcome, RowSink};
use crate::restrictions::StatementKind;

/// What one statement of a batch counts for, in steps of [`interrupt`].
const STATEMENT_STEPS: u32 = 8;

/// A planned `BEGIN BATCH … APPLY BATCH`.
#[derive(Debug)]
pub(crate) struct BatchPlan {
    kind: BatchKind,
    attributes: Attributes,
    statements: Vec<ModificationPlan>,
}

impl BatchPlan {
    /// Resolves `batch` against the catalog.
    pub fn new(batch: &ast::Batch, cx: &mut PlanContext<'_>) -> Result<Self> {
        let statements = batch
            .statements
            .iter()
            .map(|statement| ModificationPlan::new(statement, cx))
            .collect::<Result<Vec<_>>>()?;
        if batch.using.ttl.is_some() {
            bail_invalid!("Global TTL on the BATCH statement is not supported.");
        }
        let attributes = match statements.first() {
            Some(first) => Attributes::new(batch.using.timestamp.as_ref(), None, first.table(), cx)?,
            None => Attributes::default(),
        };
        let plan = Self { kind: batch.kind, attributes, statements };
        validate(plan.kind, plan.attributes.has_timestamp(), &plan.statements.iter().collect::<Vec<_>>())?;
        Ok(plan)
    }

    /// The table that its first statement changes.
    pub fn first_table(&self) -> Option<&Arc<TableMetadata>> {
        self.statements.first().map(ModificationPlan::table)
    }

    /// Whether some statement has an IF.
    pub fn has_conditions(&self) -> bool {
        self.statements.iter().any(ModificationPlan::has_conditions)
    }

    /// What kind of write it is.
    pub fn write_type(&self) -> WriteType {
        let has_counters = self.statements.iter().any(|statement| statement.table().is_counter);
        WriteType::of_batch(self.kind, self.has_conditions(), has_counters)
    }

    /// Makes all changes or none.
    pub fn execute(&self, execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        let statements: Vec<_> = self.statements.iter().map(|statement| (statement, execution)).collect();
        let timestamp = self.attributes.timestamp(execution)?;
        apply(self.kind, timestamp, &statements, sink)
    }
}

/// Executes a batch that came over the protocol: planned modifications, each with an execution that has its values.
/// All changes are made, or none.
///
/// # Errors
/// Those of the statements; Invalid for what a batch cannot hold.
pub(crate) fn execute_batch(
    kind: BatchKind,
    statements: &[(&ModificationPlan, Execution<'_>)],
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let statements: Vec<_> = statements.iter().map(|(plan, execution)| (*plan, execution)).collect();
    validate(kind, false, &statements.iter().map(|(plan, _)| *plan).collect::<Vec<_>>())?;
    apply(kind, None, &statements, sink)
}

fn validate(kind: BatchKind, has_timestamp: bool, statements: &[&ModificationPlan]) -> Result<()> {
    let counters = statements.iter().filter(|s| s.table().is_counter).count();
    let is_conditional = statements.iter().any(|s| s.has_conditions());
    if has_timestamp {
        if is_conditional {
            bail_invalid!("Cannot provide custom timestamp for conditional BATCH");
        }
        if kind == BatchKind::Counter {
            bail_invalid!("Cannot provide custom timestamp for counter BATCH");
        }
        if statements.iter().any(|s| s.has_timestamp()) {
            bail_invalid!("Timestamp must be set either on BATCH or individual statements");
        }
        if counters > 0 {
            bail_invalid!("Cannot provide custom timestamp for a BATCH containing counters");
        }
    }
    if kind == BatchKind::Counter && counters < statements.len() {
        bail_invalid!("Cannot include non-counter statement in a counter batch");
    }
    if counters > 0 && counters < statements.len() {
        bail_invalid!("Counter and non-counter mutations cannot exist in the same batch");
    }
    if kind == BatchKind::Logged && counters > 0 {
        bail_invalid!("Cannot include a counter statement in a logged batch");
    }
    if is_conditional
        && let [first, rest @ ..] = statements
        && rest.iter().any(|s| s.table().id != first.table().id)
    {
        bail_invalid!("Batch with conditions cannot span multiple tables");
    }
    Ok(())
}

fn apply(
    kind: BatchKind,
    timestamp: Option<i64>,
    statements: &[(&ModificationPlan, &Execution<'_>)],
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let Some((_, first)) = statements.first() else { return Ok(Outcome::Void) };
    let options = first.options;
    for (plan, execution) in statements {
        plan.guard(execution)?;
    }
    first.guard().write_levels(options.consistency, options.serial_consistency)?;
    if statements.iter().any(|(plan, _)| plan.has_conditions()) {
        options
            .consistency
            .validate_for_conditional(options.serial_consistency.unwrap_or(Consistency::Serial))?;
        return apply_conditional(statements, sink);
    }
    super::guard_disk_usage(first)?;
    // As in Cassandra, every level will do, also those that single statements are refused with.
    if kind == BatchKind::Logged {
        warn_of_gc_grace(statements, first);
    }
    // Cells of one batch have one time, unless a statement says its own.
    let timestamp = match timestamp {
        Some(timestamp) => timestamp,
        None => first.default_timestamp()?,
    };
    let mut mutations = Mutations::default();
    for (plan, execution) in statements {
        interrupt::charge(STATEMENT_STEPS)?;
        let rows = plan.rows_of(execution)?;
        let times = rows.attributes.times(execution, Some(timestamp), plan.table())?;
        rows.add_to(&mut mutations, &times, execution)?;
    }
    let write_type = match kind {
        BatchKind::Unlogged => WriteType::UnloggedBatch,
        _ => WriteType::Batch,
    };
    batch_limits::check(kind, &mutations.list, first)?;
    let partitions = mutations.len();
    mutations.apply(first, write_type)?;
    first.database.metrics().record_batch(kind, partitions);
    Ok(Outcome::Void)
}

/// Warns of what Cassandra warns of, though no batchlog is needed here.
fn warn_of_gc_grace(statements: &[(&ModificationPlan, &Execution<'_>)], execution: &Execution<'_>) {
    let mut tables: Vec<&TableMetadata> = Vec::new();
    for (plan, _) in statements {
        if plan.table().params.gc_grace_seconds == 0 && tables.iter().all(|table| table.id != plan.table().id)
        {
            tables.push(plan.table());
        }
    }
    if tables.is_empty() {
        return;
    }
    let names: Vec<String> = tables.iter().map(|table| table.qualified_name()).collect();
    execution.warn(format!(
        "Executing a LOGGED BATCH on table{} [{}], configured with a gc_grace_seconds of 0. The gc_grace_seconds is used to \
         TTL batchlog entries, so setting gc_grace_seconds too low on tables involved in an atomic batch might cause \
         batchlog entries to expire before being replayed.",
        if names.len() == 1 { "" } else { "s" },
        names.join(", ")
    ));
}

fn apply_conditional(
    statements: &[(&ModificationPlan, &Execution<'_>)],
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let mut owned = Vec::with_capacity(statements.len());
    for (plan, execution) in statements {
        owned.push(plan.rows_of(execution)?);
    }
    let (mut key, mut question) = (None, None);
    let mut parts = Vec::with_capacity(statements.len());
    for (rows, (_, execution)) in owned.iter().zip(statements) {
        let mut keys = rows.restrictions.partition.keys(execution)?.into_iter();
        let (Some(this), None) = (keys.next(), keys.next()) else {
            return Err(DatabaseError::invalid(
                "Batch with conditions cannot span multiple partitions (you cannot use IN on the partition key)",
            ));
        };
        if key.get_or_insert_with(|| this.clone()) != &this {
            bail_invalid!("Batch with conditions cannot span multiple partitions");
        }
        if rows.restrictions.clustering.has_in() {
            let statements = if rows.kind == StatementKind::Delete { "deletions" } else { "updates" };
            bail_invalid!("IN on the clustering key columns is not supported with conditional {statements}");
        }
        let part = Part { plan: rows, execution };
        question.get_or_insert_with(|| Question::new(&rows.table)).add(&part)?;
        parts.push(part);
    }
    match key.zip(question) {
        Some((key, mut question)) => {
            question.finish()?;
            conditional::execute_parts(&parts, &question, key, true, sink)
        }
        None => Ok(Outcome::Void),
    }
}
