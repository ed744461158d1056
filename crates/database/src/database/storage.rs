//! Reads and writes of tables, with their indexes and views, on behalf of statements.

use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

use cassette_engine::{EngineError, KeyRange, Mutation, Promise, may_wait};
use cassette_rows::interrupt;
use cassette_rows::{DecoratedKey, PartitionStream, Selection, TableMetadata};
use crossbeam_utils::sync::ShardedLockReadGuard;

use crate::error::{DatabaseError, Result, WriteType};
use crate::execution::Execution;
use crate::indexes::{self, Hits, Index, Wanted, Within};
use crate::metrics::RequestKind;
use crate::response::Outcome;
use crate::views::{self, EntryBudget};

use super::{Database, mutation_size};

impl Database {
    /// One partition of a table, stored or virtual, under `selection`.
    pub(crate) fn read(
        &self,
        execution: &Execution<'_>,
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        self.read_first(execution, table, key, selection, None)
    }

    /// [`Self::read`] by somebody who stops pulling after so many live rows.
    pub(crate) fn read_first(
        &self,
        execution: &Execution<'_>,
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        selection: &Selection,
        rows: Option<u32>,
    ) -> Result<Box<dyn PartitionStream>> {
        if let Some(source) = execution.catalog.virtual_table(table) {
            return Ok(crate::virtual_tables::read(&**source, table, self, key, selection));
        }
        let read = self.0.engine.read_first(table.id, key, selection, rows);
        read.map_err(|error| read_error(error, execution))
    }

    /// The partitions of a table, stored or virtual, within `range`, each under `selection`.
    pub(crate) fn scan(
        &self,
        execution: &Execution<'_>,
        table: &Arc<TableMetadata>,
        range: &KeyRange,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        if let Some(source) = execution.catalog.virtual_table(table) {
            return Ok(crate::virtual_tables::scan(&**source, table, self, range, selection));
        }
        self.0.engine.scan(table.id, range, selection).map_err(|error| read_error(error, execution))
    }

    /// The entries of a value, or of several, in an index.
    ///
    /// # Errors
    /// ReadFailure, while the index is being built.
    pub(crate) fn search(
        &self,
        execution: &Execution<'_>,
        index: &Arc<Index>,
        wanted: &Wanted<'_>,
        within: &Within<'_>,
    ) -> Result<Hits> {
        if !index.state.is_built() {
            return Err(DatabaseError::ReadFailure {
                consistency: execution.options.consistency,
                message: format!("The secondary index '{}' is not yet available", index.name),
            });
        }
        Hits::new(&self.0.engine, index, wanted, within, execution.now_seconds)
            .map_err(|error| read_error(error, execution))
    }

    /// Applies all mutations or none, and with them those of the indexes and views of their tables.
    ///
    /// # Errors
    /// WriteFailure, without an effect, for a mutation of more bytes than half of a commit log segment, or more in all with
    /// index entries and view rows than the commit log accepts.
    /// WouldBlock, without an effect, where this thread may not wait and would have to: for a disk that old rows are to be read
    /// from, for somebody else's lock, who may be waiting for a disk, or for the commit log.
    pub(crate) fn apply(
        &self,
        execution: &Execution<'_>,
        write_type: WriteType,
        mut mutations: Vec<Mutation>,
        promise: Promise,
    ) -> Result<()> {
        let options = self.0.engine.options();
        if let Err(message) = mutation_size::check(&mutations, options.mutation_size_max()) {
            let consistency = execution.options.consistency;
            return Err(DatabaseError::WriteFailure { consistency, write_type, message });
        }
        // Of a conditional write the one partition is locked.
        let locks_itself = write_type != WriteType::Cas;
        let (_locked, _writing, catalog) = loop {
            let catalog = self.0.catalog.load();
            let has_views = locks_itself && catalog.has_views();
            // Partitions before anything else: who waits for them holds nothing that others wait for.
            let locked = if has_views {
                views::lock_partitions(&self.0.engine, &catalog, &mutations)?
            } else {
                Vec::new()
            };
            let writing = self.begin_to_write()?;
            let now = self.0.catalog.load();
            if has_views || !locks_itself || !now.has_views() {
                let same = !has_views || Arc::ptr_eq(&catalog, &now);
                if same {
                    break (locked, writing, now);
                }
            }
        };
        let mut writes_views_since = None;
        // Holds what it was admitted to until the rows are in memtables.
        let mut budget = self.entry_budget(execution, write_type);
        if catalog.has_views() {
            let (began, of_tables) = (self.0.clock.monotonic(), mutations.len());
            views::add_view_mutations(&self.0.engine, &catalog, &mut mutations, execution, &mut budget)?;
            writes_views_since = (mutations.len() > of_tables).then_some(began);
        }
        indexes::add_index_mutations(&self.0.engine, &catalog, &mut mutations, execution)?;
        if !may_wait() && self.0.engine.apply_would_wait() {
            return Err(DatabaseError::WouldBlock);
        }
        interrupt::charge(u32::try_from(mutations.len()).unwrap_or(u32::MAX))?;
        // From here on the write must not stop halfway.
        let applied = interrupt::shielded(|| self.0.engine.apply_promised(&mutations, promise));
        let applied = applied.map_err(|error| match error {
            EngineError::UnknownTable(_) => DatabaseError::Invalid(error.to_string()),
            error => DatabaseError::WriteFailure {
                consistency: execution.options.consistency,
                write_type,
                message: error.to_string(),
            },
        });
        if let Some(began) = writes_views_since {
            let time = self.0.clock.monotonic().saturating_sub(began);
            self.0.metrics.record(RequestKind::ViewWrite, time, &applied);
        }
        applied
    }

    /// The budget of one write's view rows.
    pub(crate) fn entry_budget(&self, execution: &Execution<'_>, write_type: WriteType) -> EntryBudget<'_> {
        let limit = self.0.engine.options().record_size_max();
        EntryBudget::new(&self.0.large_view_writes, limit, execution.options.consistency, write_type)
    }

    /// Keeps those waiting who wait for writers, while it is held.
    fn begin_to_write(&self) -> Result<ShardedLockReadGuard<'_, ()>> {
        // A writer that panicked has left nothing behind that others could see.
        if may_wait() {
            return Ok(self.0.writers.read().unwrap_or_else(PoisonError::into_inner));
        }
        match self.0.writers.try_read() {
            Ok(writing) => Ok(writing),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(DatabaseError::WouldBlock),
        }
    }

    /// Removes all of a table's rows, and the entries of its indexes. These go first: what is written between the two keeps
    /// its entries, and so does what is left of the table by a crash, since its indexes are built again after that.
    /// Waits no longer than `patience` for others that change the schema.
    pub(crate) fn truncate(&self, table: &Arc<TableMetadata>, patience: Option<Duration>) -> Result<Outcome> {
        let failed = |error: EngineError| {
            DatabaseError::Truncate(format!("Error during truncate: {}: {error}", table.qualified_name()))
        };
        // No index comes or goes meanwhile.
        let _changing = self.lock_schema_within(patience)?;
        let catalog = self.catalog();
        let indexes: Vec<_> =
            catalog.indexes_of(table.id).iter().filter(|index| index.state.is_built()).collect();
        for index in &indexes {
            indexes::unbuild(self, index)?;
        }
        let views = catalog.views_of(table.id);
        for view in views {
            views::unbuild(self, view)?;
        }
        // What is written between the truncation of a table and that of its views would be in one of them alone.
        let _alone = match views.is_empty() {
            true => None,
            false => Some(self.0.writers.write().unwrap_or_else(PoisonError::into_inner)),
        };
        let indexes_and_views = catalog.indexes_of(table.id).iter().map(|index| index.storage.id);
        let indexes_and_views = indexes_and_views.chain(views.iter().map(|view| view.table.id));
        let tables = indexes_and_views.chain([table.id]);
        let truncate = |id| match id == table.id && self.leaves_snapshot(table) {
            true => self.0.engine.truncate_with_snapshot(id, &self.schema_cql(table)),
            false => self.0.engine.truncate(id),
        };
        if let Err(error) = { tables }.try_for_each(truncate) {
            for index in &indexes {
                index.state.start_over();
                self.build_index(index);
            }
            for view in views {
                view.state.start_over();
                self.build_view(view);
            }
            return Err(failed(error));
        }
        for index in indexes {
            indexes::mark_built(self, index)?;
        }
        for view in views {
            views::truncated(self, view)?;
        }
        Ok(Outcome::Void)
    }

    /// Removes index entries that were found stale. Nothing depends on it: what fails or would have to wait is left for
    /// the next reader.
    pub(crate) fn remove_stale(&self, removals: &[Mutation]) {
        if removals.is_empty() || self.0.engine.apply_would_wait() {
            return;
        }
        if let Err(error) = interrupt::shielded(|| self.0.engine.apply(removals)) {
            tracing::debug!(%error, "stale index entries stay");
        }
    }
}

fn read_error(error: EngineError, execution: &Execution<'_>) -> DatabaseError {
    DatabaseError::of_read(execution.options.consistency, error)
}
