//! Reads and writes of tables, with their indexes and views.

use std::sync::{Arc, PoisonError, TryLockError};

use cassette_engine::{Durability, EngineError, KeyRange, Mutation, PartitionLock, may_wait};
use cassette_rows::interrupt;
use cassette_rows::{DecoratedKey, PartitionStream, Selection, TableId, TableMetadata};
use crossbeam_utils::sync::ShardedLockReadGuard;

use crate::basics::error::{DatabaseError, Result, WriteType};
use crate::basics::metrics::RequestKind;
use crate::planning::context::BindContext;
use crate::schema::catalog::Catalog;
use crate::schema::indexes::{Index, Wanted};
use crate::store::admission::{Admission, Need, Unapplied};
use crate::store::indexes::{self, Hits, Within};
use crate::store::views::{self, EntryBudget};
use crate::store::{Store, mutation_size};

/// What is to be done with a partition whose state is known.
pub(crate) enum Decision<T> {
    /// A mutation of it is applied.
    Apply(Mutation),
    /// Nothing is applied.
    Refuse(T),
}

/// A write that has begun: its partitions are locked, and changes of the schema wait for it. Fields
/// are dropped in order.
struct Writing<'s> {
    catalog: arc_swap::Guard<Arc<Catalog>>,
    _guard: ShardedLockReadGuard<'s, ()>,
    _locked: Vec<PartitionLock<'s>>,
}

impl Store {
    /// Reads one partition of a stored table, under `selection`.
    pub fn read(
        &self,
        cx: &BindContext<'_>,
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        self.read_first(cx, table, key, selection, None)
    }

    /// [`Self::read`] for a caller that reads at most `rows` live rows.
    pub fn read_first(
        &self,
        cx: &BindContext<'_>,
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        selection: &Selection,
        rows: Option<u32>,
    ) -> Result<Box<dyn PartitionStream>> {
        let read = self.engine.read_first(table.id, key, selection, rows);
        read.map_err(|error| read_error(error, cx))
    }

    /// Reads the partitions of a stored table within `range`, each under `selection`.
    pub fn scan(
        &self,
        cx: &BindContext<'_>,
        table: &Arc<TableMetadata>,
        range: &KeyRange,
        selection: &Selection,
    ) -> Result<Box<dyn PartitionStream>> {
        self.engine.scan(table.id, range, selection).map_err(|error| read_error(error, cx))
    }

    /// Checks that queries may use an index.
    ///
    /// # Errors
    /// ReadFailure, while the index is being built.
    pub fn require_built(&self, cx: &BindContext<'_>, index: &Index) -> Result<()> {
        if self.is_built(index) {
            return Ok(());
        }
        Err(DatabaseError::ReadFailure {
            consistency: cx.options.consistency,
            message: format!("The secondary index '{}' is not yet available", index.name),
            cause: None,
        })
    }

    /// Searches an index.
    ///
    /// # Errors
    /// ReadFailure, while the index is being built.
    pub fn search(
        &self,
        cx: &BindContext<'_>,
        index: &Arc<Index>,
        wanted: &Wanted<'_>,
        within: &Within<'_>,
    ) -> Result<Hits> {
        self.require_built(cx, index)?;
        Hits::new(&self.engine, index, wanted, within, cx.now_seconds).map_err(|error| read_error(error, cx))
    }

    /// Applies all mutations or none, together with those of the indexes and views of their tables.
    /// The caller must not hold a lock of a partition.
    ///
    /// # Errors
    /// Nothing is changed in these cases:
    /// - WriteFailure, for a mutation larger than half of a commit log segment, or if index entries
    ///   and view rows make the commit log record too large.
    /// - Invalid, for a deletion that covers too many rows of a table with views.
    /// - WouldBlock, if this thread must not wait and would have to: for old rows on disk, for a
    ///   lock whose holder may be waiting for a disk, or for the commit log.
    pub fn apply(
        &self,
        cx: &BindContext<'_>,
        write_type: WriteType,
        mut mutations: Vec<Mutation>,
        durability: Durability,
    ) -> Result<()> {
        self.admitted(cx, write_type, |admission| {
            self.try_apply(cx, write_type, &mut mutations, durability, admission)
        })
    }

    /// Attempts to [`apply`](Self::apply) mutations with the permits in `admission`. On failure the
    /// mutations are unchanged. For a conditional write, the caller has locked its partition.
    ///
    /// # Errors
    /// Those of [`apply`](Self::apply); MustWait, if the write has to be admitted first.
    pub fn try_apply<'s>(
        &'s self,
        cx: &BindContext<'_>,
        write_type: WriteType,
        mutations: &mut Vec<Mutation>,
        durability: Durability,
        admission: &mut Admission<'s>,
    ) -> Result<(), Unapplied> {
        let of_tables = mutations.len();
        let attempt = self.attempt(cx, write_type, mutations, durability, admission);
        mutations.truncate(of_tables);
        attempt
    }

    fn attempt<'s>(
        &'s self,
        cx: &BindContext<'_>,
        write_type: WriteType,
        mutations: &mut Vec<Mutation>,
        durability: Durability,
        admission: &mut Admission<'s>,
    ) -> Result<(), Unapplied> {
        self.check_sizes(cx, write_type, mutations)?;
        // The caller of a conditional write has locked its partition.
        let writing = self.begin_to_write_locked(mutations, write_type != WriteType::Cas, None)?;
        self.apply_begun(cx, write_type, mutations, durability, admission, &writing.catalog)
    }

    /// Attempts to apply mutations together with one that `decide` returns for a partition: with
    /// that partition and those of tables with views locked, all of them in one order. If `decide`
    /// returns a value instead, nothing is written. On failure the mutations are as they were.
    ///
    /// # Errors
    /// Those of [`try_apply`](Self::try_apply); those of `decide`.
    pub fn try_apply_if<'s, T>(
        &'s self,
        cx: &BindContext<'_>,
        mutations: &mut Vec<Mutation>,
        partition: (TableId, &DecoratedKey),
        decide: impl FnOnce() -> Result<Decision<T>>,
        admission: &mut Admission<'s>,
    ) -> Result<Option<T>, Unapplied> {
        self.check_sizes(cx, WriteType::Cas, mutations)?;
        let of_tables = mutations.len();
        let writing = self.begin_to_write_locked(mutations, true, Some(partition))?;
        match decide()? {
            Decision::Refuse(standing) => return Ok(Some(standing)),
            Decision::Apply(mutation) => mutations.push(mutation),
        }
        let durability = Durability::Configured;
        let applied =
            self.apply_begun(cx, WriteType::Cas, mutations, durability, admission, &writing.catalog);
        mutations.truncate(of_tables);
        applied.map(|()| None)
    }

    fn check_sizes(
        &self,
        cx: &BindContext<'_>,
        write_type: WriteType,
        mutations: &[Mutation],
    ) -> Result<(), DatabaseError> {
        mutation_size::check(mutations, self.engine.options().mutation_size_max()).map_err(|message| {
            let consistency = cx.options.consistency;
            DatabaseError::WriteFailure { consistency, write_type, message, cause: None }
        })
    }

    /// Lets a write begin with the partitions locked that it needs: those of tables with views if
    /// `locks_views`, and `also` another one.
    fn begin_to_write_locked(
        &self,
        mutations: &[Mutation],
        locks_views: bool,
        also: Option<(TableId, &DecoratedKey)>,
    ) -> Result<Writing<'_>> {
        loop {
            let catalog = self.catalog.load();
            let has_views = locks_views && catalog.has_views();
            // Partitions are locked before everything else, so writers that wait for them hold no
            // other lock.
            let locked = if has_views || also.is_some() {
                views::lock_partitions(&self.engine, &catalog, mutations, also)?
            } else {
                Vec::new()
            };
            let guard = self.begin_to_write()?;
            let now = self.catalog.load();
            if has_views || !locks_views || !now.has_views() {
                let same = !has_views || Arc::ptr_eq(&catalog, &now);
                if same {
                    return Ok(Writing { _guard: guard, _locked: locked, catalog: now });
                }
            }
        }
    }

    /// Applies the mutations of a write that has begun, with those of the `catalog`'s views and
    /// indexes, which are added to them.
    fn apply_begun<'s>(
        &'s self,
        cx: &BindContext<'_>,
        write_type: WriteType,
        mutations: &mut Vec<Mutation>,
        durability: Durability,
        admission: &mut Admission<'s>,
        catalog: &Arc<Catalog>,
    ) -> Result<(), Unapplied> {
        let mut writes_views_since = None;
        if catalog.has_views() {
            let (began, of_tables) = (self.clock.monotonic(), mutations.len());
            let mut budget = self.entry_budget(admission, cx, write_type);
            views::add_view_mutations(&self.engine, catalog, mutations, cx, &mut budget)?;
            writes_views_since = (mutations.len() > of_tables).then_some(began);
        }
        let has_vectors = indexes::add_index_mutations(&self.engine, catalog, mutations, cx, write_type)?;
        if has_vectors && !may_wait() && self.graphs_are_behind(mutations) {
            return Err(DatabaseError::WouldBlock.into());
        }
        if !may_wait() && self.engine.apply_would_wait() {
            return Err(DatabaseError::WouldBlock.into());
        }
        interrupt::charge(u32::try_from(mutations.len()).unwrap_or(u32::MAX))?;
        let permit = self.engine.try_admit(mutations, admission.permit.take());
        let permit = permit.map_err(|demand| Unapplied::must_wait(Need::Permit(demand)))?;
        admission.is_written = true;
        // From here on the write must not be interrupted halfway.
        let applied = interrupt::shielded(|| self.engine.apply_admitted(mutations, durability, permit));
        if has_vectors {
            // After a failure too: a part may have been applied.
            self.record_vectors(mutations);
        }
        let applied = applied.map_err(|error| match error {
            EngineError::UnknownTable(_) => DatabaseError::Refused(error.into()),
            error => DatabaseError::write_failure(cx.options.consistency, write_type, error),
        });
        if let Some(began) = writes_views_since {
            let time = self.clock.monotonic().saturating_sub(began);
            self.metrics.record(RequestKind::ViewWrite, time, &applied);
        }
        Ok(applied?)
    }

    /// Whether a write of these entries of indexes has to connect vectors.
    fn graphs_are_behind(&self, mutations: &[Mutation]) -> bool {
        let graphs = mutations.iter().filter(|mutation| mutation.table.index_of.is_some());
        { graphs }
            .flat_map(|mutation| self.build_states.graphs.recording(mutation.table.id))
            .any(|graph| graph.is_behind())
    }

    /// Records the vectors of applied entries in the graphs of their indexes.
    fn record_vectors(&self, mutations: &[Mutation]) {
        for mutation in mutations.iter().filter(|mutation| mutation.table.index_of.is_some()) {
            let is_removal = mutation.update.rows.iter().all(|row| row.liveness().is_empty());
            for graph in self.build_states.graphs.recording(mutation.table.id) {
                if is_removal {
                    graph.count_removal();
                    continue;
                }
                // The first byte of a key is a prefix.
                graph.record(mutation.update.key.key().get(1..).unwrap_or_default());
                if !self.settings.background_threads || graph.is_behind() {
                    graph.connect_batch();
                } else {
                    graph.connect_in_background();
                }
            }
        }
    }

    /// Returns the budget of one write's view rows, which stores its permits in `admission`.
    pub fn entry_budget<'b, 's>(
        &'s self,
        admission: &'b mut Admission<'s>,
        cx: &BindContext<'_>,
        write_type: WriteType,
    ) -> EntryBudget<'b, 's> {
        let limit = self.engine.options().record_size_max();
        EntryBudget::new(&self.large_view_writes, admission, limit, cx.options.consistency, write_type)
    }

    /// Locks out [`wait_for_writers`](Self::wait_for_writers) and
    /// [`stop_writers`](Self::stop_writers) while the guard is held.
    pub fn begin_to_write(&self) -> Result<ShardedLockReadGuard<'_, ()>> {
        // A writer that panicked has left no visible state behind.
        if may_wait() {
            return Ok(self.writers.read().unwrap_or_else(PoisonError::into_inner));
        }
        match self.writers.try_read() {
            Ok(writing) => Ok(writing),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(DatabaseError::WouldBlock),
        }
    }

    /// Removes index entries that were found stale. This is optional: on errors, and instead of
    /// waiting, it is left to the next reader.
    pub fn remove_stale(&self, removals: &[Mutation]) {
        if removals.is_empty() || self.engine.apply_would_wait() {
            return;
        }
        if let Err(error) = interrupt::shielded(|| self.engine.apply(removals)) {
            tracing::debug!(%error, "stale index entries stay");
        }
    }
}

fn read_error(error: EngineError, cx: &BindContext<'_>) -> DatabaseError {
    DatabaseError::of_read(cx.options.consistency, error)
}
