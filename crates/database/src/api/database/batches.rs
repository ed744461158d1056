//! Execution of the protocol's batches: statements as text and prepared ones, applied together.

use std::collections::HashMap;
use std::sync::Arc;

use cassette_cql::ast::BatchKind;
use cassette_engine::may_wait;
use cassette_rows::interrupt;
use parking_lot::MutexGuard;

use crate::api::prepared::Prepared;
use crate::basics::error::{DatabaseError, Result, WriteType, bail_invalid};
use crate::basics::metrics::RequestKind;
use crate::basics::request::{BoundValue, StatementOptions};
use crate::basics::response::{Executed, RowSink};
use crate::basics::timeouts::Limited;
use crate::execution::Execution;
use crate::execution::modification::apply_batch;
use crate::planning::context::Masks;
use crate::schema::catalog::Catalog;
use crate::statements::plan::{Planned, PlannedModification};
use crate::statements::required::authorize;

use super::Database;

/// The maximum number of distinct texts in a batch while other large batches run. The plan of each
/// takes more than 1 KiB, so the 65,535 texts that a batch can have take as much as many requests.
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

impl BatchStatement<'_> {
    fn is_text(&self) -> bool {
        matches!(self.source, BatchSource::Query(_))
    }

    fn cql(&self) -> &str {
        match self.source {
            BatchSource::Prepared(prepared) => prepared.cql(),
            BatchSource::Query(cql) => cql,
        }
    }
}

/// The executions of a batch: one for each statement with values, and one for adjacent statements
/// without, of which a batch can have very many.
#[derive(Default)]
struct Executions<'a> {
    list: Vec<Execution<'a>>,
    /// The index in `list` of each statement's execution.
    places: Vec<usize>,
}

impl<'a> Executions<'a> {
    /// Adds a statement, with the execution that `new` returns if it cannot share the last one.
    fn add(&mut self, values: &[BoundValue<'_>], masks: Masks, new: impl FnOnce() -> Execution<'a>) {
        let shares = |last: &Execution<'_>| {
            values.is_empty() && last.bound.values.is_empty() && last.bound.masks == masks
        };
        if !self.list.last().is_some_and(shares) {
            self.list.push(new().with_masks(masks));
        }
        self.places.push(self.list.len() - 1);
    }

    fn iter(&self) -> impl Iterator<Item = &Execution<'a>> {
        self.places.iter().map(|place| &self.list[*place])
    }
}

impl Database {
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
            self.store().at_present(|| self.plan_batch(statements, &catalog, keyspace, &mut large))
        })?;
        let of_texts = planned.iter().zip(statements).filter(|(_, statement)| statement.is_text());
        let mut warnings: Vec<String> =
            of_texts.flat_map(|(planned, _)| planned.warnings.iter().cloned()).collect();
        let mut modifications = Vec::with_capacity(planned.len());
        for planned in planned {
            let Some(modification) = PlannedModification::new(planned) else {
                bail_invalid!(
                    "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."
                );
            };
            modifications.push(modification);
        }
        let writes_rows = |each: &PlannedModification| each.planned().plan.writes_rows_of_users();
        self.store().begin_request(|| modifications.iter().any(writes_rows))?;
        let executions = self.executions(statements, &modifications, &catalog, keyspace, options)?;
        let prepared = statements.iter().filter(|statement| !statement.is_text()).count() as u64;
        self.metrics().prepared_executed.add(prepared);
        self.metrics().regular_executed.add(statements.len() as u64 - prepared);
        let conditional = modifications.iter().any(|each| each.as_ref().has_conditions());
        let has_counters = modifications.iter().any(|each| each.as_ref().table().is_counter);
        let parts = modifications.into_iter().zip(executions.iter()).collect();
        let execute = || self.store().at_present(|| apply_batch(kind, parts, sink));
        let outcome = match executions.list.first() {
            Some(first) => {
                let write_type = WriteType::of_batch(kind, conditional, has_counters);
                let outcome = self.store().limit(Limited::write(write_type, options), first.started, execute);
                first.count_for_node(matches!(outcome, Err(DatabaseError::WouldBlock)));
                let request = if conditional { RequestKind::CasWrite } else { RequestKind::Write };
                let elapsed = self.store().clock().monotonic() - first.started;
                self.metrics().record(request, elapsed, &outcome);
                self.store().note_if_slow(elapsed, || {
                    let first = statements.first().map_or("", BatchStatement::cql);
                    format!("BATCH of {} statements, the first: {first}", statements.len())
                });
                outcome
            }
            None => execute(),
        };
        let outcome = outcome?;
        for execution in executions.list {
            warnings.append(&mut execution.bound.warnings.into_inner());
        }
        Ok(Executed { outcome, warnings })
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

    /// Checks permissions and the number of values of each statement, and returns the executions.
    fn executions<'a>(
        &'a self,
        statements: &[BatchStatement<'a>],
        modifications: &[PlannedModification],
        catalog: &'a Catalog,
        keyspace: Option<&'a str>,
        options: &'a StatementOptions,
    ) -> Result<Executions<'a>> {
        let mut executions = Executions::default();
        let mut authorized: Option<(&PlannedModification, Masks)> = None;
        for (statement, modification) in statements.iter().zip(modifications) {
            let planned = modification.planned();
            // A function may run for long.
            if !planned.functions.is_empty() && !may_wait() {
                return Err(DatabaseError::WouldBlock);
            }
            // Most batches repeat one statement.
            let masks = match authorized {
                Some((other, masks)) if other.is_same(modification) => masks,
                _ => authorize(self.store(), planned, catalog, options)?,
            };
            authorized = Some((modification, masks));
            let values = statement.values;
            if values.len() != planned.markers.len() {
                bail_invalid!(
                    "There were {} markers(?) in CQL but {} bound variables",
                    planned.markers.len(),
                    values.len()
                );
            }
            executions
                .add(values, masks, || Execution::new(self.store(), catalog, values, options, keyspace));
        }
        Ok(executions)
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
