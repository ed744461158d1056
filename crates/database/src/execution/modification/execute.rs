//! Execution of INSERT, UPDATE and DELETE.

use std::iter::once;

use super::{Mutations, conditional};
use crate::basics::error::{Result, WriteType};
use crate::basics::request::{Consistency, ConsistencyRules};
use crate::basics::response::{Outcome, RowSink};
use crate::execution::Execution;
use crate::execution::virtual_tables;
use crate::planning::modification::ModificationPlan;
use crate::schema::testing::WritableTable;

impl ModificationPlan {
    /// Applies the guardrails on the statement.
    pub(crate) fn guard(&self, execution: &Execution<'_>) -> Result<()> {
        if self.has_timestamp() { execution.guard().user_timestamp() } else { Ok(()) }
    }

    /// Applies the change; a conditional one returns rows.
    pub fn apply(&self, execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        let options = execution.options;
        self.guard(execution)?;
        execution.guard().write_levels(options.consistency, options.serial_consistency)?;
        if self.has_conditions() {
            options
                .consistency
                .validate_for_conditional(options.serial_consistency.unwrap_or(Consistency::Serial))?;
            execution.require_replicas_of_conditional(&self.table)?;
            let rows = self.rows_of(execution)?;
            return conditional::apply_if(&rows, execution, sink);
        }
        if self.table.is_counter {
            options.consistency.validate_for_counters(&self.table.name)?
        } else {
            options.consistency.validate_for_write()?
        }
        execution.require_replicas(&self.table, options.consistency)?;
        guard_disk_usage(execution)?;
        let mut mutations = Mutations::default();
        let rows = self.rows_of(execution)?;
        let timestamp = || execution.default_timestamp(once(&*self.table));
        let times = rows.times(execution, timestamp)?;
        rows.add_to(&mut mutations, &times, execution)?;
        if let Some(virtual_table) = WritableTable::of(&self.table) {
            virtual_tables::apply(virtual_table, &mutations.list, execution.store)?;
            return Ok(Outcome::Void);
        }
        execution.require_replicas_of_mutations(&mutations.list, options.consistency)?;
        mutations.apply(execution, WriteType::Simple)?;
        Ok(Outcome::Void)
    }
}

/// Applies the guardrail on disk usage.
pub(crate) fn guard_disk_usage(execution: &Execution<'_>) -> Result<()> {
    let engine = execution.store.engine();
    execution.store.disk_usage().guard_write(execution.guard(), execution.started, || {
        Some((engine.bytes_in_use(), engine.available_space().ok()?))
    })
}
