//! Modifications that are planned and validated now, and applied later: all of them or none,
//! together with a row that is put unless it exists.

use std::cell::Cell;
use std::iter::once;
use std::sync::Arc;

use cassette_rows::{Clustering, DecoratedKey, PartitionUpdate, Row, Slice, TableMetadata};

use crate::api::database::Database;
use crate::api::embedded::{BoundStatement, ErrorKind};
use crate::basics::error::{DatabaseError, Result, WriteType};
use crate::basics::metrics::RequestKind;
use crate::execution::Execution;
use crate::execution::modification::{Mutations, guard_disk_usage};
use crate::planning::modification::ModificationPlan;
use crate::schema::catalog::Catalog;
use crate::schema::testing::WritableTable;
use crate::statements::plan::Plan;
use crate::statements::required::authorize;
use crate::store::data::Decision;
use crate::store::mutation_size;

/// A modification that is to be applied later: [`Database::defer`].
#[derive(Debug)]
#[doc(hidden)]
pub struct DeferredWrite {
    bound: BoundStatement,
    /// Keys and values that it writes, without index entries and view rows.
    bytes: usize,
}

impl DeferredWrite {
    /// Returns the bytes of the keys and values that it writes to tables.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Statements that cannot be deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Undeferrable {
    /// It reads.
    #[error("a SELECT")]
    Select,
    /// It changes the schema.
    #[error("a schema change")]
    Schema,
    /// It changes or lists roles or permissions.
    #[error("a statement on roles")]
    Roles,
    /// It removes a whole table.
    #[error("TRUNCATE")]
    Truncate,
    /// USE or DESCRIBE, or a write of a virtual table.
    #[error("a statement without data")]
    NoData,
    /// It has an IF.
    #[error("a conditional statement")]
    Conditional,
    /// It changes counters, which are not idempotent.
    #[error("a change of counters")]
    Counter,
    /// It specifies its write time.
    #[error("USING TIMESTAMP")]
    Timestamp,
    /// Its table is not in the commit log, so a crash may lose its part.
    #[error("a write to a keyspace without durable_writes")]
    NotDurable,
}

/// Why a statement was not deferred.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[doc(hidden)]
pub enum DeferError {
    /// Its kind cannot be deferred.
    #[error("{0} cannot be deferred")]
    Refused(Undeferrable),
    /// It changes a table that the caller does not allow.
    #[error("table {0} cannot be written by a deferred statement")]
    Table(String),
    /// It would fail.
    #[error(transparent)]
    Failed(#[from] DatabaseError),
}

/// Why deferred writes were not applied.
#[derive(Debug)]
#[doc(hidden)]
pub struct NotApplied {
    /// The error.
    pub error: DatabaseError,
    /// Whether they may have been applied, now or after a restart.
    pub may_be_applied: bool,
}

/// Returns the modifications of a plan.
fn modifications(plan: &Plan) -> std::result::Result<&[ModificationPlan], Undeferrable> {
    match plan {
        Plan::Modification(modification) => Ok(std::slice::from_ref(modification)),
        Plan::Batch(batch) if batch.attributes.has_timestamp() => Err(Undeferrable::Timestamp),
        Plan::Batch(batch) => Ok(&batch.statements),
        Plan::Select(_) => Err(Undeferrable::Select),
        Plan::Schema(_) => Err(Undeferrable::Schema),
        Plan::Roles(_) => Err(Undeferrable::Roles),
        Plan::Truncate(_) => Err(Undeferrable::Truncate),
        Plan::Use(_) | Plan::Describe(_) => Err(Undeferrable::NoData),
    }
}

fn check_deferrable(
    modification: &ModificationPlan,
    catalog: &Catalog,
) -> std::result::Result<(), DeferError> {
    let table = modification.table();
    let refused = if WritableTable::of(table).is_some() {
        Undeferrable::NoData
    } else if modification.has_conditions() {
        Undeferrable::Conditional
    } else if table.is_counter {
        Undeferrable::Counter
    } else if modification.has_timestamp() {
        Undeferrable::Timestamp
    } else if !catalog.require_keyspace(&table.keyspace)?.params.durable_writes {
        Undeferrable::NotDurable
    } else {
        return Ok(());
    };
    Err(DeferError::Refused(refused))
}

impl Database {
    /// Plans an INSERT, an UPDATE, a DELETE or a batch of them, and validates its values, to be
    /// applied by [`put_row_with`](Self::put_row_with). `is_allowed` accepts the tables that it
    /// changes.
    ///
    /// # Errors
    /// `Refused` for other statements, and for what cannot be applied together with others;
    /// `Table`; the error that executing it now would have, except for those of views, indexes and
    /// storage.
    #[doc(hidden)]
    pub fn defer(
        &self,
        bound: BoundStatement,
        is_allowed: impl Fn(&TableMetadata) -> bool,
    ) -> std::result::Result<DeferredWrite, DeferError> {
        self.check_writable()?;
        let catalog = self.catalog();
        let planned = bound.planned(&catalog)?;
        for modification in modifications(&planned.plan).map_err(DeferError::Refused)? {
            check_deferrable(modification, &catalog)?;
            if !is_allowed(modification.table()) {
                return Err(DeferError::Table(modification.table().qualified_name()));
            }
        }
        let mut mutations = Mutations::default();
        // Any time: it is chosen when the write is applied.
        self.add_deferred(&bound, &catalog, |execution, _| Ok(execution.now_micros), &mut mutations)?;
        let limit = self.engine().options().mutation_size_max();
        mutation_size::check(&mutations.list, limit).map_err(|message| DatabaseError::WriteFailure {
            consistency: bound.options().consistency,
            write_type: WriteType::Batch,
            message,
            cause: None,
        })?;
        let bytes = mutations.list.iter().map(|mutation| mutation_size::size(&mutation.update)).sum();
        Ok(DeferredWrite { bound, bytes })
    }

    fn add_deferred(
        &self,
        bound: &BoundStatement,
        catalog: &Arc<Catalog>,
        timestamp: impl FnOnce(&Execution<'_>, &[ModificationPlan]) -> Result<i64>,
        mutations: &mut Mutations,
    ) -> Result<()> {
        let planned = bound.planned(catalog)?;
        authorize(self.store(), &planned, catalog, bound.options())?;
        let values = bound.values().values();
        let execution = Execution::new(self.store(), catalog, &values, bound.options(), bound.keyspace());
        let refused = |refused: Undeferrable| DatabaseError::invalid(format!("{refused} cannot be deferred"));
        let modifications = modifications(&planned.plan).map_err(refused)?;
        let timestamp = timestamp(&execution, modifications)?;
        for modification in modifications {
            // The schema may have changed since it was deferred.
            check_deferrable(modification, catalog).map_err(|error| match error {
                DeferError::Failed(error) => error,
                error => DatabaseError::invalid(error.to_string()),
            })?;
            modification.guard(&execution)?;
            guard_disk_usage(&execution)?;
            let rows = modification.rows_of(&execution)?;
            let times = rows.attributes.times(&execution, modification.table(), || Ok(timestamp))?;
            rows.add_to(mutations, &times, &execution)?;
        }
        Ok(())
    }

    /// Puts the row that `make` makes for a write time, as
    /// [`put_row_unless_exists`](Self::put_row_unless_exists), and applies `writes`, in order, with
    /// their views and indexes: all of it as one record of the commit log, or nothing if the row
    /// exists.
    ///
    /// Write times are taken now, a later one for each write. Locks the partition of the row and
    /// those of tables with views together.
    ///
    /// # Errors
    /// Those of the writes; `NotApplied::may_be_applied` after a failure of the commit log.
    #[doc(hidden)]
    pub fn put_row_with(
        &self,
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        clustering: &Clustering,
        make: impl Fn(Clustering, i64) -> Row,
        writes: &[DeferredWrite],
    ) -> std::result::Result<Option<(Row, u32)>, NotApplied> {
        let may_be_applied = Cell::new(false);
        let result = self.directly(RequestKind::CasWrite, |execution| {
            self.check_writable()?;
            let catalog = self.catalog();
            let mut mutations = Mutations::default();
            for write in writes {
                let timestamp = |execution: &Execution<'_>, modifications: &[ModificationPlan]| {
                    execution.default_timestamp(modifications.iter().map(|each| &**each.table()))
                };
                self.add_deferred(&write.bound, &catalog, timestamp, &mut mutations)?;
            }
            let mut mutations = mutations.list;
            execution.store.admitted(execution, WriteType::Cas, |admission| {
                let decide = || {
                    let slice = Slice::prefix(clustering.clone());
                    if let Some(row) = self.first_row_of(execution, table, key, slice)? {
                        return Ok(Decision::Refuse((row, execution.now_seconds)));
                    }
                    let mut update = PartitionUpdate::new(key.clone());
                    let timestamp = execution.default_timestamp(once(&**table))?;
                    update.rows.push(make(clustering.clone(), timestamp));
                    Ok(Decision::Apply(cassette_engine::Mutation { table: table.clone(), update }))
                };
                let partition = (table.id, key);
                let done =
                    execution.store.try_apply_if(execution, &mut mutations, partition, decide, admission);
                may_be_applied.set(admission.is_written);
                done
            })
        });
        result.map_err(|error| NotApplied {
            // Unknown tables, long keys and records above the limit of the commit log are refused
            // before anything is written.
            may_be_applied: may_be_applied.get() && error.kind() != ErrorKind::Invalid,
            error,
        })
    }
}
