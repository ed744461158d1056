//! BATCH: several modifications that are applied together.

use cassette_cql::ast::BatchKind;
use cassette_rows::{TableMetadata, interrupt};

use super::conditional::{self, Part};
use super::execute::guard_disk_usage;
use super::question::Question;
use super::{Mutations, batch_limits};
use crate::basics::error::{DatabaseError, Result, WriteType, bail_invalid};
use crate::basics::request::{Consistency, ConsistencyRules};
use crate::basics::response::{Outcome, RowSink};
use crate::execution::Execution;
use crate::planning::modification::plan::validate;
use crate::planning::modification::{BatchPlan, ModificationPlan};

/// The cost of a batched statement, in steps of [`interrupt`].
const STATEMENT_STEPS: u32 = 8;

impl BatchPlan {
    /// Applies all changes or none.
    pub fn apply(&self, execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        let statements = self.statements.iter().map(|statement| (statement, execution)).collect();
        let timestamp = self.attributes.timestamp(execution)?;
        apply(self.kind, timestamp, statements, sink)
    }
}

/// Executes a batch of the protocol: planned modifications, each with an execution that has its
/// values. All changes are applied, or none.
///
/// # Errors
/// Those of the statements; Invalid for combinations that a batch cannot have.
pub(crate) fn apply_batch<P: AsRef<ModificationPlan>>(
    kind: BatchKind,
    statements: Vec<(P, &Execution<'_>)>,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    validate(kind, false, &statements.iter().map(|(plan, _)| plan.as_ref()).collect::<Vec<_>>())?;
    apply(kind, None, statements, sink)
}

fn apply<P: AsRef<ModificationPlan>>(
    kind: BatchKind,
    timestamp: Option<i64>,
    statements: Vec<(P, &Execution<'_>)>,
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let Some((_, first)) = statements.first() else { return Ok(Outcome::Void) };
    let first = *first;
    let options = first.options;
    for (plan, execution) in &statements {
        plan.as_ref().guard(execution)?;
    }
    first.guard().write_levels(options.consistency, options.serial_consistency)?;
    if statements.iter().any(|(plan, _)| plan.as_ref().has_conditions()) {
        options
            .consistency
            .validate_for_conditional(options.serial_consistency.unwrap_or(Consistency::Serial))?;
        if let Some((plan, _)) = statements.first() {
            first.require_replicas_of_conditional(plan.as_ref().table())?;
        }
        return apply_conditional(&statements, sink);
    }
    for (plan, _) in &statements {
        first.require_replicas(plan.as_ref().table(), options.consistency)?;
    }
    guard_disk_usage(first)?;
    // As in Cassandra, every consistency level is accepted, including those that single statements
    // reject.
    if kind == BatchKind::Logged {
        warn_of_gc_grace(&statements, first);
    }
    // All cells of a batch have the same timestamp, unless a statement specifies one.
    let timestamp = match timestamp {
        Some(timestamp) => timestamp,
        None => first.default_timestamp(statements.iter().map(|(plan, _)| &**plan.as_ref().table()))?,
    };
    let mut mutations = Mutations::default();
    // Drops each plan after use: a batch can have so many that they and the mutations together take
    // much memory.
    let mut rest = statements.into_iter();
    while let Some((plan, execution)) = rest.next() {
        let mut add = || {
            let plan = plan.as_ref();
            interrupt::charge(STATEMENT_STEPS)?;
            let rows = plan.rows_of(execution)?;
            let times = rows.times(execution, || Ok(timestamp))?;
            rows.add_to(&mut mutations, &times, execution)
        };
        // Cassandra binds all partition keys first: mistakes in those are reported before others.
        add().map_err(|error| {
            rest.find_map(|(plan, execution)| mistake_in_keys(&plan, execution)).unwrap_or(error)
        })?;
    }
    let write_type = match kind {
        BatchKind::Unlogged => WriteType::UnloggedBatch,
        _ => WriteType::Batch,
    };
    batch_limits::check(kind, &mutations.list, first)?;
    first.require_replicas_of_mutations(&mutations.list, options.consistency)?;
    let partitions = mutations.len();
    mutations.apply(first, write_type)?;
    first.store.metrics().record_batch(kind, partitions);
    Ok(Outcome::Void)
}

/// Returns the error of binding the partition keys of a statement.
fn mistake_in_keys(plan: &impl AsRef<ModificationPlan>, execution: &Execution<'_>) -> Option<DatabaseError> {
    let rows = plan.as_ref().rows_of(execution);
    rows.and_then(|rows| rows.restrictions.partition.keys(execution).map(drop)).err()
}

/// Issues Cassandra's warning about gc_grace_seconds and the batchlog, although no batchlog is
/// necessary.
fn warn_of_gc_grace<P: AsRef<ModificationPlan>>(
    statements: &[(P, &Execution<'_>)],
    execution: &Execution<'_>,
) {
    let mut tables: Vec<&TableMetadata> = Vec::new();
    for (plan, _) in statements {
        let plan = plan.as_ref();
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
        "Executing a LOGGED BATCH on table{} [{}], configured with a gc_grace_seconds of 0. The \
         gc_grace_seconds is used to TTL batchlog entries, so setting gc_grace_seconds too low on tables \
         involved in an atomic batch might cause batchlog entries to expire before being replayed.",
        if names.len() == 1 { "" } else { "s" },
        names.join(", ")
    ));
}

fn apply_conditional<P: AsRef<ModificationPlan>>(
    statements: &[(P, &Execution<'_>)],
    sink: &mut dyn RowSink,
) -> Result<Outcome> {
    let mut owned = Vec::with_capacity(statements.len());
    for (plan, execution) in statements {
        owned.push(plan.as_ref().rows_of(execution)?);
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
        conditional::refuse_several_rows(rows)?;
        let part = Part { plan: rows, execution };
        question.get_or_insert_with(|| Question::new(&rows.table)).add(&part)?;
        parts.push(part);
    }
    match key.zip(question) {
        Some((key, mut question)) => {
            question.finish()?;
            conditional::apply_parts_if(&parts, &question, key, true, sink)
        }
        None => Ok(Outcome::Void),
    }
}
