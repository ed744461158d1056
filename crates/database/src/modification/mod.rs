//! INSERT, UPDATE, DELETE and BATCH: planning and execution.
//!
//! ```text
//! ast --plan--> RowsPlan: restrictions (which partitions and rows), operations (what becomes of which column),
//!               attributes (write time, TTL), conditions
//! plan + values --> PartitionUpdates --> one Engine::apply, after the conditions, if any, were found to hold
//! ```

mod attributes;
mod batch;
mod batch_limits;
mod cells;
mod conditional;
mod conditions;
mod counters;
mod json;
mod list_view;
mod mutations;
mod operation;
mod plan;
mod question;
mod rows;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use cassette_cql::ast;
use cassette_rows::TableMetadata;

use crate::error::{Result, WriteType};
use crate::execution::Execution;
use crate::plan::PlanContext;
use crate::request::ConsistencyRules;
use crate::response::{Outcome, RowSink};

pub(crate) use batch::{BatchPlan, execute_batch};
use json::JsonInsert;
pub(crate) use mutations::Mutations;
use rows::RowsPlan;

/// A planned INSERT, UPDATE or DELETE.
#[derive(Debug)]
pub(crate) struct ModificationPlan {
    table: Arc<TableMetadata>,
    what: What,
}

#[derive(Debug)]
enum What {
    Rows(Box<RowsPlan>),
    Json(JsonInsert),
}

impl ModificationPlan {
    /// Resolves `modification` against the catalog.
    pub fn new(modification: &ast::Modification, cx: &mut PlanContext<'_>) -> Result<Self> {
        let table = cx.writable_table(modification.table())?;
        let what = match modification {
            ast::Modification::Insert(insert) => match &insert.source {
                ast::InsertSource::Values { columns, values } => {
                    What::Rows(Box::new(plan::insert(insert, columns, values, &table, cx)?))
                }
                ast::InsertSource::Json { value, default_unset } => {
                    What::Json(JsonInsert::new(insert, value, *default_unset, &table, cx)?)
                }
            },
            ast::Modification::Update(update) => What::Rows(Box::new(plan::update(update, &table, cx)?)),
            ast::Modification::Delete(delete) => What::Rows(Box::new(plan::delete(delete, &table, cx)?)),
        };
        Ok(Self { table, what })
    }

    /// The table it changes.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// Whether it has an IF.
    pub fn has_conditions(&self) -> bool {
        match &self.what {
            What::Rows(rows) => !rows.conditions.is_empty(),
            What::Json(json) => json.if_not_exists,
        }
    }

    /// What kind of write it is.
    pub fn write_type(&self) -> WriteType {
        match (self.has_conditions(), self.table.is_counter) {
            (true, _) => WriteType::Cas,
            (false, true) => WriteType::Counter,
            (false, false) => WriteType::Simple,
        }
    }

    /// Whether it says its write time itself.
    fn has_timestamp(&self) -> bool {
        match &self.what {
            What::Rows(rows) => rows.attributes.has_timestamp(),
            What::Json(json) => json.attributes.has_timestamp(),
        }
    }

    /// The rows that it changes in this execution: those planned, or those that a JSON text names.
    fn rows_of(&self, execution: &Execution<'_>) -> Result<MaybeOwned<'_, RowsPlan>> {
        Ok(match &self.what {
            What::Rows(rows) => MaybeOwned::Borrowed(rows),
            What::Json(json) => MaybeOwned::Owned(Box::new(json.rows(&self.table, execution)?)),
        })
    }

    /// Applies the guardrails that follow from the statement.
    fn guard(&self, execution: &Execution<'_>) -> Result<()> {
        match self.has_timestamp() {
            true => execution.guard().user_timestamp(),
            false => Ok(()),
        }
    }

    /// Makes the change; a conditional one gives rows.
    pub fn execute(&self, execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        let options = execution.options;
        self.guard(execution)?;
        execution.guard().write_levels(options.consistency, options.serial_consistency)?;
        if self.has_conditions() {
            options
                .consistency
                .validate_for_conditional(options.serial_consistency.unwrap_or(crate::Consistency::Serial))?;
            let rows = self.rows_of(execution)?;
            return conditional::execute(&rows, execution, sink);
        }
        match self.table.is_counter {
            true => options.consistency.validate_for_counters(&self.table.name)?,
            false => options.consistency.validate_for_write()?,
        }
        guard_disk_usage(execution)?;
        let mut mutations = Mutations::default();
        let rows = self.rows_of(execution)?;
        let times = rows.attributes.times(execution, None, &self.table)?;
        rows.add_to(&mut mutations, &times, execution)?;
        mutations.apply(execution, WriteType::Simple)?;
        Ok(Outcome::Void)
    }
}

/// Applies the guardrail on how full the disk is.
fn guard_disk_usage(execution: &Execution<'_>) -> Result<()> {
    let database = execution.database;
    let engine = database.engine();
    database.disk_usage().guard_write(execution.guard(), execution.started, || {
        Some((engine.bytes_in_use(), engine.available_space().ok()?))
    })
}

/// What was planned, or was made for one execution.
enum MaybeOwned<'a, T> {
    Borrowed(&'a T),
    Owned(Box<T>),
}

impl<T> std::ops::Deref for MaybeOwned<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(value) => value,
            Self::Owned(value) => value,
        }
    }
}
