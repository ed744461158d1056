//! Execution of CQL statements, as text and prepared, each within its time limit.

use std::sync::Arc;

use crate::api::prepared::{Prepared, ResolvedStatement};
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::metrics::RequestKind;
use crate::basics::request::{StatementOptions, Values};
use crate::basics::response::{Executed, RowSink};
use crate::basics::timeouts::Limited;
use crate::execution::Execution;
use crate::statements::plan::Planned;
use crate::statements::required::authorize;

use super::Database;

impl Database {
    /// Parses, plans and executes one statement; rows are pushed into `sink`.
    #[doc(hidden)]
    pub fn query(
        &self,
        keyspace: Option<&str>,
        cql: &str,
        values: Values<'_>,
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        let keyspace = options.keyspace.as_deref().or(keyspace);
        let planned = self.plan(keyspace, cql)?;
        self.execute_text(&planned, keyspace, values, options, sink)
    }

    /// Executes a statement that a client sent as text, and adds the warnings of its planning.
    pub(crate) fn execute_text(
        &self,
        planned: &Planned,
        keyspace: Option<&str>,
        values: Values<'_>,
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        if values.names.is_none() && values.values.len() != planned.markers.len() {
            bail_invalid!("Invalid amount of bind variables");
        }
        if planned.plan.is_request() {
            self.metrics().regular_executed.add(1);
        }
        let mut executed = self.execute_planned(planned, keyspace, values, options, sink)?;
        executed.warnings.splice(0..0, planned.warnings.iter().cloned());
        Ok(executed)
    }

    /// Plans a statement that is executed by its id. The same text in the same keyspace always has
    /// the same id.
    #[doc(hidden)]
    pub fn prepare(&self, keyspace: Option<&str>, cql: &str) -> Result<Arc<Prepared>> {
        self.store().limit(Limited::Other, self.store().clock().monotonic(), || {
            self.store().at_present(|| self.0.prepared.prepare(cql, &self.catalog(), keyspace))
        })
    }

    /// Returns the statement with this id, with a current plan.
    ///
    /// # Errors
    /// Unprepared, if it does not exist.
    #[doc(hidden)]
    pub fn prepared(&self, id: &[u8]) -> Result<Arc<Prepared>> {
        self.resolve(id).map(ResolvedStatement::into_prepared)
    }

    /// Returns the statement with this id and its plan, for
    /// [`execute_resolved`](Self::execute_resolved).
    ///
    /// # Errors
    /// Unprepared, if it does not exist.
    pub fn resolve(&self, id: &[u8]) -> Result<ResolvedStatement> {
        self.store().at_present(|| self.0.prepared.get(id, &self.present_catalog()))
    }

    /// Executes a prepared statement; rows are pushed into `sink`.
    #[doc(hidden)]
    pub fn execute(
        &self,
        keyspace: Option<&str>,
        prepared: &Prepared,
        values: Values<'_>,
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        let planned = self.store().at_present(|| prepared.planned(&self.present_catalog()))?;
        self.execute_prepared(&planned, keyspace, values, options, sink)
    }

    /// Executes a statement that was resolved just before; rows are pushed into `sink`.
    pub fn execute_resolved(
        &self,
        keyspace: Option<&str>,
        statement: &ResolvedStatement,
        values: Values<'_>,
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        self.execute_prepared(statement.planned(), keyspace, values, options, sink)
    }

    pub(crate) fn execute_prepared(
        &self,
        planned: &Planned,
        keyspace: Option<&str>,
        values: Values<'_>,
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        self.metrics().prepared_executed.add(1);
        let keyspace = options.keyspace.as_deref().or(keyspace);
        self.execute_planned(planned, keyspace, values, options, sink)
    }

    /// Parses and plans one statement, within its time limit.
    pub(crate) fn plan(&self, keyspace: Option<&str>, cql: &str) -> Result<Planned> {
        self.store().limit(Limited::Other, self.store().clock().monotonic(), || {
            self.store().at_present(|| Planned::new(cql, &self.catalog(), keyspace))
        })
    }

    pub(crate) fn execute_planned(
        &self,
        planned: &Planned,
        keyspace: Option<&str>,
        values: Values<'_>,
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        let masks = authorize(self.store(), planned, &planned.catalog, options)?;
        if planned.plan.writes() {
            self.check_writable()?;
        }
        self.store().begin_request(|| planned.plan.writes_rows_of_users())?;
        let mut scratch = Vec::new();
        let values =
            values.in_marker_order(planned.markers.iter().map(|marker| &*marker.name), &mut scratch)?;
        let execution = Execution::new(self.store(), &planned.catalog, values, options, keyspace);
        let execution = execution.with_masks(masks);
        let request = planned.plan.limited(options);
        let execute = || self.store().at_present(|| planned.execute(&execution, sink));
        let outcome = self.store().limit(request, execution.started, execute);
        execution.count_for_node(matches!(outcome, Err(DatabaseError::WouldBlock)));
        if let Some(kind) = planned.plan.request_kind(options) {
            let ended = match kind {
                // Its rows were just read to the end.
                RequestKind::Read | RequestKind::Range if outcome.is_ok() => execution.read_until.get(),
                _ => self.store().clock().monotonic(),
            };
            let elapsed = ended.saturating_sub(execution.started);
            self.metrics().record(kind, elapsed, &outcome);
            self.store().note_if_slow(elapsed, || planned.cql.to_string());
        }
        Ok(Executed { outcome: outcome?, warnings: execution.bound.warnings.into_inner() })
    }
}
