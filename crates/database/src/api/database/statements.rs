//! Execution of CQL statements: as text, prepared and in batches, each within its time limit.

use std::collections::HashMap;
use std::sync::Arc;

use cassette_cql::ast::BatchKind;
use cassette_rows::interrupt;
use parking_lot::MutexGuard;

use crate::api::prepared::{Prepared, ResolvedStatement};
use crate::basics::error::{Result, WriteType, bail_invalid};
use crate::basics::metrics::RequestKind;
use crate::basics::request::{BoundValue, StatementOptions, Values};
use crate::basics::response::{Executed, RowSink};
use crate::basics::timeouts::Limited;
use crate::execution::Execution;
use crate::planning::context::Masks;
use crate::schema::catalog::Catalog;
use crate::statements::plan::{Plan, Planned};
use crate::statements::required::authorize;

use super::Database;

/// The maximum number of distinct texts in a batch while other large batches run. The plan of each
/// takes about 2 KiB, so the 65,535 texts that a batch can have take as much as many requests.
const TEXTS_TOGETHER: usize = 4096;

/// The cost of parsing and planning a batched statement, in steps of [`interrupt`].
const PARSING_STEPS: u32 = 64;

/// One statement of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchStatement<'a> {
    /// The statement.
    pub source: BatchSource<'a>,
    /// Its values by position; statements in batches have no named values.
    pub values: &'a [BoundValue<'a>],
}

/// The source of a batched statement.
#[derive(Debug, Clone, Copy)]
pub enum BatchSource<'a> {
    /// A text.
    Query(&'a str),
    /// A prepared statement.
    Prepared(&'a Prepared),
}

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
            self.0.prepared.prepare(cql, &self.catalog(), keyspace)
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
        self.0.prepared.get(id, &self.present_catalog())
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
        let planned = prepared.planned(&self.present_catalog())?;
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

    fn execute_prepared(
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

    /// Returns the plans of a batch's statements. `large` is locked if it has very many texts.
    fn plan_batch<'a>(
        &'a self,
        statements: &[BatchStatement<'_>],
        catalog: &Arc<Catalog>,
        keyspace: Option<&str>,
        large: &mut Option<MutexGuard<'a, ()>>,
    ) -> Result<Vec<Arc<Planned>>> {
        // A plan takes far more memory than its text, and most batches repeat one text with other
        // values.
        let mut texts: HashMap<&str, Arc<Planned>> = HashMap::new();
        let mut planned = Vec::with_capacity(statements.len());
        for statement in statements {
            let cql = match statement.source {
                BatchSource::Prepared(prepared) => {
                    planned.push(prepared.planned(catalog)?);
                    continue;
                }
                BatchSource::Query(cql) => cql,
            };
            if let Some(known) = texts.get(cql) {
                planned.push(Arc::clone(known));
                continue;
            }
            if texts.len() >= TEXTS_TOGETHER && large.is_none() {
                *large = Some(self.store().lock_large_batches()?);
            }
            // Parsing takes at least some microseconds.
            interrupt::charge(PARSING_STEPS)?;
            // The request has the text.
            let new = Arc::new(Planned { cql: Box::default(), ..Planned::new(cql, catalog, keyspace)? });
            texts.insert(cql, Arc::clone(&new));
            planned.push(new);
        }
        Ok(planned)
    }

    /// Executes a batch; the rows of a conditional one are pushed into `sink`. All changes are
    /// applied, or none.
    #[doc(hidden)]
    pub fn batch(
        &self,
        keyspace: Option<&str>,
        kind: BatchKind,
        statements: &[BatchStatement<'_>],
        options: &StatementOptions,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        self.check_writable()?;
        let catalog = self.catalog();
        let keyspace = options.keyspace.as_deref().or(keyspace);
        // Released after the plans.
        let mut large = None;
        let planned = self.store().limit(Limited::Other, self.store().clock().monotonic(), || {
            self.plan_batch(statements, &catalog, keyspace, &mut large)
        })?;
        let texts = |(_, statement): &(&Arc<Planned>, &BatchStatement<'_>)| {
            matches!(statement.source, BatchSource::Query(_))
        };
        let of_texts = planned.iter().zip(statements).filter(texts);
        let mut warnings: Vec<String> =
            of_texts.flat_map(|(planned, _)| planned.warnings.iter().cloned()).collect();
        let mut executions = Vec::with_capacity(statements.len());
        let mut authorized: Option<(&Arc<Planned>, Masks)> = None;
        for (statement, planned) in statements.iter().zip(&planned) {
            let Plan::Modification(modification) = &planned.plan else {
                bail_invalid!(
                    "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."
                );
            };
            // Most batches repeat one statement.
            let masks = match authorized {
                Some((other, masks)) if Arc::ptr_eq(other, planned) => masks,
                _ => authorize(self.store(), &planned.plan, &catalog, options)?,
            };
            authorized = Some((planned, masks));
            let values = statement.values;
            if values.len() != planned.markers.len() {
                bail_invalid!(
                    "There were {} markers(?) in CQL but {} bound variables",
                    planned.markers.len(),
                    values.len()
                );
            }
            let execution = Execution::new(self.store(), &catalog, values, options, keyspace);
            executions.push((modification, execution.with_masks(masks)));
        }
        let prepared =
            statements.iter().filter(|s| matches!(s.source, BatchSource::Prepared(_))).count() as u64;
        self.metrics().prepared_executed.add(prepared);
        self.metrics().regular_executed.add(statements.len() as u64 - prepared);
        let conditional = executions.iter().any(|(modification, _)| modification.has_conditions());
        let has_counters = executions.iter().any(|(modification, _)| modification.table().is_counter);
        let mut execute = || crate::execution::modification::apply_batch(kind, &executions, sink);
        let outcome = match executions.first() {
            Some((_, first)) => {
                let write_type = WriteType::of_batch(kind, conditional, has_counters);
                self.store().limit(Limited::write(write_type, options), first.started, execute)
            }
            None => execute(),
        };
        if let Some((_, first)) = executions.first() {
            let request = if conditional { RequestKind::CasWrite } else { RequestKind::Write };
            let elapsed = self.store().clock().monotonic() - first.started;
            self.metrics().record(request, elapsed, &outcome);
            self.store().note_if_slow(elapsed, || {
                let first = statements.first().map_or("", |statement| match statement.source {
                    BatchSource::Prepared(prepared) => prepared.cql(),
                    BatchSource::Query(cql) => cql,
                });
                format!("BATCH of {} statements, the first: {first}", planned.len())
            });
        }
        let outcome = outcome?;
        for (_, execution) in executions {
            warnings.append(&mut execution.bound.warnings.into_inner());
        }
        Ok(Executed { outcome, warnings })
    }

    /// Parses and plans one statement, within its time limit.
    pub(crate) fn plan(&self, keyspace: Option<&str>, cql: &str) -> Result<Planned> {
        self.store().limit(Limited::Other, self.store().clock().monotonic(), || {
            Planned::new(cql, &self.catalog(), keyspace)
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
        let masks = authorize(self.store(), &planned.plan, &planned.catalog, options)?;
        if planned.plan.writes() {
            self.check_writable()?;
        }
        let mut scratch = Vec::new();
        let values =
            values.in_marker_order(planned.markers.iter().map(|marker| &*marker.name), &mut scratch)?;
        let execution = Execution::new(self.store(), &planned.catalog, values, options, keyspace);
        let execution = execution.with_masks(masks);
        let request = planned.plan.limited(options);
        let outcome = self.store().limit(request, execution.started, || planned.execute(&execution, sink));
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::api::embedded::Rows;

    #[test]
    fn a_batch_of_many_different_texts_waits_for_another_and_others_do_not() {
        let database = Database::in_memory().unwrap();
        let session = database.session();
        for cql in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int, c int, PRIMARY KEY (k, c))",
        ] {
            session.execute(cql, ()).unwrap();
        }
        let texts = |from: usize, count: usize| -> Vec<String> {
            (from..from + count).map(|c| format!("INSERT INTO ks.t (k, c) VALUES (1, {c})")).collect()
        };
        let batch = |texts: &[String]| {
            let statement = |cql| BatchStatement { source: BatchSource::Query(cql), values: &[] };
            let statements: Vec<_> = texts.iter().map(|cql| statement(cql.as_str())).collect();
            let options = StatementOptions::default();
            database.batch(None, BatchKind::Unlogged, &statements, &options, &mut Rows::default()).unwrap();
        };
        let rows = || session.execute("SELECT c FROM ks.t", ()).unwrap().len();
        let large = &database.store().large_batches;
        let other = large.lock().unwrap();
        let waits = || large.waits.load(Ordering::SeqCst);
        let before = waits();
        std::thread::scope(|scope| {
            let stalled = scope.spawn(|| batch(&texts(10_000, TEXTS_TOGETHER + 1)));
            while waits() == before && !stalled.is_finished() {
                std::thread::yield_now();
            }
            assert!(!stalled.is_finished(), "it did not wait");
            batch(&texts(0, TEXTS_TOGETHER));
            batch(&vec![texts(0, 1).concat(); 2 * TEXTS_TOGETHER]);
            assert_eq!(rows(), TEXTS_TOGETHER);
            drop(other);
            stalled.join().unwrap();
        });
        assert_eq!(rows(), 2 * TEXTS_TOGETHER + 1);
    }
}
