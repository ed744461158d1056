//! Reads of the rows of a query, partition by partition.

use std::cell::OnceCell;
use std::sync::Arc;

use cassette_engine::metrics::TableMetrics;
use cassette_engine::trace::trace;
use cassette_engine::{KeyRange, row_index_reads};
use cassette_rows::{
    Bound, ColumnKind, DecoratedKey, Layout, PartitionStream, Result as StorageResult, Row, RowProbe,
    Selection, Slice, Slices, StorageError, TableMetadata, Token, Unfiltered, interrupt,
};

use super::read_limits::{Extent, ReadLimits};
use super::skim::Skim;
use crate::basics::error::{DatabaseError, Result};
use crate::execution::{Execution, virtual_tables};
use crate::planning::restrictions::Partitions;
use crate::planning::restrictions::partition::refuse_empty;
use crate::planning::select::limits::Limits;
use crate::planning::select::paging::{self, PagingState};
use crate::planning::select::{BoundFilter, CurrentPartition, CurrentRow, SelectPlan};
use crate::store::indexes::{SearchMetrics, SearchTally};

/// The cost of opening a partition, in steps of [`interrupt`]: it may need the disk.
const PARTITION_READ_STEPS: u32 = 32;

/// Whether and where to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// With the next row.
    Continue,
    /// With the next partition.
    NextPartition,
    /// The read ends.
    Stop,
}

/// Receives a row, and the limits after it.
pub(crate) type Visit<'v> = dyn FnMut(CurrentRow<'_>, &Limits) -> Result<Flow> + 'v;

/// The reads of one execution.
pub(crate) struct Reader<'p, 'e> {
    pub(crate) plan: &'p SelectPlan,
    pub(crate) execution: &'p Execution<'e>,
    pub(crate) selection: Selection,
    pub(crate) partitions: Partitions,
    pub(super) filters: Vec<BoundFilter<'p>>,
    /// The metrics of the table; `None` if it is virtual.
    pub(crate) metrics: Option<Arc<TableMetrics>>,
    /// The metrics of a search by indexes, once it has begun.
    pub(crate) search_metrics: OnceCell<Option<Arc<SearchMetrics>>>,
    /// The rest of the partition in which the previous page ended.
    pub(crate) resumed: Option<(DecoratedKey, Selection)>,
    /// Whether a partition without rows shows its static row.
    pub(crate) shows_static_rows: bool,
    /// The counts of a search by indexes.
    pub(crate) tally: SearchTally,
    /// The guardrails on what it scans.
    pub(crate) read_limits: ReadLimits,
    /// `None` if all rows are visited.
    pub(super) skim: Option<Skim<'p>>,
}

impl<'p, 'e: 'p> Reader<'p, 'e> {
    /// Returns a reader of the plan's restrictions, or of the remainder after an earlier page.
    pub fn new(
        plan: &'p SelectPlan,
        execution: &'p Execution<'e>,
        resume: Option<&PagingState>,
    ) -> Result<Self> {
        let restrictions = &plan.restrictions;
        let filters =
            restrictions.filters.iter().map(|f| BoundFilter::new(f, execution)).collect::<Result<_>>()?;
        for answered in &restrictions.answered {
            BoundFilter::new(answered, execution)?;
        }
        let mut partitions = restrictions.partition.partitions(execution)?;
        if let Partitions::Keys(keys) = &partitions
            && keys.len() > 1
        {
            execution.guard().partition_keys(&plan.table.name, keys.len())?;
        }
        let slices = match plan.table.layout {
            // Its rows, which statements cannot name, are not read.
            Layout::StaticCompact => Slices::none(),
            // As in Cassandra, values of clustering columns are not bound where no key is read.
            _ if matches!(&partitions, Partitions::Keys(keys) if keys.is_empty()) => Slices::none(),
            _ => restrictions.clustering.slices(execution)?,
        };
        if let Partitions::Keys(keys) = &mut partitions {
            if slices.as_slice().is_empty() && plan.table.layout != Layout::StaticCompact {
                // Nothing is read, so an empty key is no mistake.
                keys.retain(|key| !key.key().is_empty());
            }
            refuse_empty(keys)?;
        }
        let selection = Selection { slices, reversed: plan.order.reversed };
        let mut resumed = None;
        if let Some(state) = resume {
            let key = DecoratedKey::new(state.key.clone());
            if let Some(clustering) = &state.clustering {
                resumed = Some((key.clone(), after(&selection, clustering.clone(), plan)));
            }
            partitions = match partitions {
                Partitions::Keys(mut keys) => {
                    let last = keys.iter().position(|k| *k == key).ok_or_else(paging::invalid)?;
                    Partitions::Keys(keys.split_off(last + 1))
                }
                Partitions::Range(range) if range.contains(&key) => Partitions::Range(range.after(key)),
                // The paging state is authentic, but of other values of the bind markers.
                Partitions::Range(_) => return Err(paging::invalid()),
            };
        }
        // As in Cassandra, a SASI index of a static column finds rows, and no static row alone.
        let has_sasi = restrictions.searches.iter().any(|search| search.index.sasi.is_some());
        let shows_static_rows = !has_sasi
            && restrictions.clustering.is_empty()
            && !restrictions
                .filters
                .iter()
                .any(|f| matches!(f.column.kind, ColumnKind::Regular | ColumnKind::Clustering));
        let keyspace = execution.catalog.keyspace(&plan.table.keyspace);
        let read_limits = ReadLimits::new(execution.guard(), keyspace.map(|keyspace| keyspace.kind));
        if read_limits.tracks {
            // Discards the counts of other requests on this thread.
            row_index_reads::take();
        }
        let metrics =
            if plan.is_virtual { None } else { execution.store.engine().table_metrics(plan.table.id).ok() };
        Ok(Self {
            plan,
            execution,
            selection,
            partitions,
            filters,
            metrics,
            search_metrics: OnceCell::new(),
            resumed,
            shows_static_rows,
            tally: SearchTally::default(),
            read_limits,
            skim: None,
        })
    }

    /// Calls `visit` with each row within the limits, until it returns stop.
    pub fn for_each(&mut self, limits: &mut Limits, visit: &mut Visit<'_>) -> Result<()> {
        if !self.plan.restrictions.searches.is_empty() {
            return self.for_each_found(limits, visit);
        }
        if let Some((key, selection)) = self.resumed.take() {
            if self.drain_partition(&key, &selection, false, limits, visit)? == Flow::Stop {
                return Ok(());
            }
            limits.next_partition();
        }
        match std::mem::replace(&mut self.partitions, Partitions::Keys(Vec::new())) {
            Partitions::Keys(keys) => {
                for key in keys {
                    let flow =
                        self.drain_partition(&key, &self.selection, self.shows_static_rows, limits, visit)?;
                    if flow == Flow::Stop {
                        return Ok(());
                    }
                }
            }
            Partitions::Range(range) => {
                self.drain_range(&range, self.shows_static_rows, limits, visit)?;
            }
        }
        Ok(())
    }

    /// Visits the rows of one partition.
    pub(crate) fn drain_partition(
        &self,
        key: &DecoratedKey,
        selection: &Selection,
        shows_static_rows: bool,
        limits: &mut Limits,
        visit: &mut Visit<'_>,
    ) -> Result<Flow> {
        let mut seen = Seen::default();
        let extent = Extent::Partition(key);
        let drained =
            self.drain_partition_into(key, selection, shows_static_rows, limits, visit, (extent, &mut seen));
        seen.trace();
        self.warn_of_read(&seen, extent);
        drained
    }

    /// [`Self::drain_partition`] as part of a read of an extent, whose guardrails apply to all its
    /// counts.
    pub(crate) fn drain_partition_into(
        &self,
        key: &DecoratedKey,
        selection: &Selection,
        shows_static_rows: bool,
        limits: &mut Limits,
        visit: &mut Visit<'_>,
        (extent, seen): (Extent<'_>, &mut Seen),
    ) -> Result<Flow> {
        interrupt::charge(PARTITION_READ_STEPS)?;
        let stream = self.read_first(key, selection, limits)?;
        let before = seen.clone();
        let drained = self.drain(stream, shows_static_rows, limits, visit, (extent, seen));
        self.record_partition_read(key, &seen.since(&before));
        drained
    }

    /// Records a read of one partition; one that is part of a search is recorded with the search.
    pub(crate) fn record_partition_read(&self, key: &DecoratedKey, seen: &Seen) {
        let Some(metrics) = &self.metrics else { return };
        let (key, time) = (key.key(), self.execution.lap());
        if self.plan.restrictions.searches.is_empty() && self.plan.restrictions.ann.is_none() {
            metrics.record_partition_read(key, time, seen.live_rows, seen.tombstones);
        } else {
            self.tally.add_rows(seen.live_rows, seen.tombstones);
            metrics.sample_partition_read(key, time, seen.live_rows, seen.tombstones);
        }
    }

    /// Visits the rows of the partitions of a range.
    pub(crate) fn drain_range(
        &self,
        range: &KeyRange,
        shows_static_rows: bool,
        limits: &mut Limits,
        visit: &mut Visit<'_>,
    ) -> Result<Flow> {
        let stream = self.scan(range)?;
        let mut seen = Seen::default();
        let extent = Extent::Range(range);
        let drained = self.drain(stream, shows_static_rows, limits, visit, (extent, &mut seen));
        seen.trace();
        self.warn_of_read(&seen, extent);
        if !self.plan.restrictions.searches.is_empty() {
            self.tally.add_rows(seen.live_rows, seen.tombstones);
        } else if let Some(metrics) = &self.metrics {
            metrics.record_scan(self.execution.lap(), seen.live_rows, seen.tombstones);
        }
        drained
    }

    pub(crate) fn read(&self, key: &DecoratedKey, selection: &Selection) -> Result<Box<dyn PartitionStream>> {
        self.read_rows(key, selection, None)
    }

    /// Reads a partition of a stored or virtual table, of which at most `rows` live rows will be
    /// read.
    fn read_rows(
        &self,
        key: &DecoratedKey,
        selection: &Selection,
        rows: Option<u32>,
    ) -> Result<Box<dyn PartitionStream>> {
        let (store, table) = (self.execution.store, &self.plan.table);
        if store.virtual_nodes().is_some()
            && let Some(read) =
                virtual_tables::read_cluster(table, store, self.execution.options.node, key, selection)
        {
            return Ok(read);
        }
        if self.execution.catalog.is_virtual(table) {
            return Ok(virtual_tables::read(table, store, key, selection));
        }
        store.read_first(self.execution, table, key, selection, rows)
    }

    /// [`Self::read`] with the number of rows that will be read, if it is certain.
    fn read_first(
        &self,
        key: &DecoratedKey,
        selection: &Selection,
        limits: &Limits,
    ) -> Result<Box<dyn PartitionStream>> {
        let rows = if self.filters.is_empty() {
            limits.total().into_iter().chain(limits.in_partition()).min()
        } else {
            None
        };
        self.read_rows(key, selection, rows)
    }

    fn scan(&self, range: &KeyRange) -> Result<Box<dyn PartitionStream>> {
        let (store, table) = (self.execution.store, &self.plan.table);
        if store.virtual_nodes().is_some()
            && let Some(scan) = virtual_tables::scan_cluster(
                table,
                store,
                self.execution.options.node,
                range,
                &self.selection,
            )
        {
            return Ok(scan);
        }
        if self.execution.catalog.is_virtual(table) {
            return Ok(virtual_tables::scan(table, store, range, &self.selection));
        }
        store.scan(self.execution, table, range, &self.selection)
    }

    /// Visits the rows of all partitions of `stream`.
    fn drain(
        &self,
        mut stream: Box<dyn PartitionStream>,
        shows_static_rows: bool,
        limits: &mut Limits,
        visit: &mut Visit<'_>,
        (extent, seen): (Extent<'_>, &mut Seen),
    ) -> Result<Flow> {
        let now = self.execution.now_seconds;
        let key_columns = self.plan.table.partition_key.len();
        let measures = self.read_limits.measures;
        let skim = self.skim.as_ref();
        // A partition whose first row is visited cannot be skipped as a whole.
        let skim_partitions = skim.filter(|skim| !skim.visits_first_rows);
        self.skim(skim_partitions, seen, |limit, probe| stream.pass_live_partitions(None, limit, probe))?;
        while let Some(mut header) = stream.next_partition().map_err(|e| self.failed(e))? {
            interrupt::check()?;
            header.static_row = header.static_row.filter(|row| row.has_live_cell(now));
            let token = header.key.token();
            seen.last = Some(token);
            self.note_row_index(seen);
            if measures {
                seen.bytes +=
                    header.key.key().len() as u64 + header.static_row.as_ref().map_or(0, size_of_row);
            }
            self.check_limits(seen, extent, token)?;
            let partition = CurrentPartition::new(header, key_columns);
            let mut any =
                self.skim(skim_partitions, seen, |limit, probe| stream.pass_live_rows(limit, probe))?;
            while let Some(next) = stream.next_unfiltered().map_err(|e| self.failed(e))? {
                interrupt::check()?;
                let is_live = match &next {
                    Unfiltered::Row(row) => {
                        if measures {
                            seen.bytes += size_of_row(row);
                        }
                        seen.is_live(row, &self.plan.table, now)
                    }
                    _ => {
                        seen.tombstones += 1;
                        false
                    }
                };
                self.check_limits(seen, extent, token)?;
                let (Unfiltered::Row(row), true) = (next, is_live) else { continue };
                any = true;
                let current = CurrentRow { partition: &partition, row: Some(&row) };
                match self.visit(current, limits, visit)? {
                    Flow::Stop => return Ok(Flow::Stop),
                    Flow::NextPartition => break,
                    Flow::Continue if self.plan.distinct || limits.is_reached_in_partition() => break,
                    Flow::Continue => {}
                }
                self.skim(skim, seen, |limit, probe| stream.pass_live_rows(limit, probe))?;
            }
            if !any && shows_static_rows && partition.static_row.is_some() {
                let current = CurrentRow { partition: &partition, row: None };
                if self.visit(current, limits, visit)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            limits.next_partition();
            self.skim(skim_partitions, seen, |limit, probe| stream.pass_live_partitions(None, limit, probe))?;
        }
        Ok(Flow::Continue)
    }

    /// Skims rows that `pass` skips, up to a limit, until it skips none. Returns whether there were
    /// any.
    #[inline]
    fn skim(
        &self,
        skim: Option<&Skim<'p>>,
        seen: &mut Seen,
        mut pass: impl FnMut(u64, &mut dyn RowProbe) -> StorageResult<u64>,
    ) -> Result<bool> {
        let Some(skim) = skim.filter(|skim| skim.is_due()) else { return Ok(false) };
        let mut any = false;
        loop {
            let mut probe = self.probe(skim);
            let passed = pass(skim.rows_together(), &mut probe).map_err(|e| self.failed(e))?;
            if let Some(error) = probe.error.take() {
                return Err(error);
            }
            if passed == 0 {
                if !any {
                    skim.record_fruitless();
                }
                return Ok(any);
            }
            any = true;
            skim.record(passed);
            seen.live_rows += passed;
            interrupt::charge(skim.steps(passed).saturating_add(1))?;
            if probe.found {
                return Ok(any);
            }
        }
    }

    /// Visits one row if it satisfies the filters and the limits.
    pub(crate) fn visit(
        &self,
        current: CurrentRow<'_>,
        limits: &mut Limits,
        visit: &mut Visit<'_>,
    ) -> Result<Flow> {
        if !self.passes(current) {
            return Ok(Flow::Continue);
        }
        self.take(current, limits, visit)
    }

    /// Whether a row satisfies all filters.
    pub(crate) fn passes(&self, current: CurrentRow<'_>) -> bool {
        let now = self.execution.now_seconds;
        self.filters.iter().all(|filter| filter.matches(current, now))
    }

    /// Visits one row that satisfies the filters, if it is within the limits.
    pub(crate) fn take(
        &self,
        current: CurrentRow<'_>,
        limits: &mut Limits,
        visit: &mut Visit<'_>,
    ) -> Result<Flow> {
        if limits.is_reached() {
            return Ok(Flow::Stop);
        }
        limits.take();
        let flow = visit(current, limits)?;
        // If a page may end here, the reader has to check whether a row follows, except after the
        // last row of a LIMIT.
        Ok(if limits.is_reached() { Flow::Stop } else { flow })
    }

    pub(crate) fn failed(&self, error: StorageError) -> DatabaseError {
        DatabaseError::read_failure(self.execution.options.consistency, error)
    }
}

/// The counts of a read.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    pub live_rows: u64,
    /// The partition that was read last.
    pub last: Option<Token>,
    /// Deletion markers, dead cells, and deleted rows without any.
    pub tombstones: u64,
    /// Bytes of keys and rows in memory; counted only if a guardrail limits them.
    pub bytes: u64,
    /// The size of the largest row index that was read, in bytes; recorded only if a guardrail
    /// limits it.
    pub row_index: u64,
}

/// Returns the bytes of a row that count for a read.
pub(crate) fn size_of_row(row: &Row) -> u64 {
    row.heap_size() as u64
}

impl Seen {
    fn trace(&self) {
        trace(|| format!("Read {} live rows and {} tombstone cells", self.live_rows, self.tombstones));
    }

    /// Returns the counts since `earlier`.
    fn since(&self, earlier: &Self) -> Self {
        Self {
            live_rows: self.live_rows - earlier.live_rows,
            tombstones: self.tombstones - earlier.tombstones,
            ..self.clone()
        }
    }

    /// Counts a row, and returns whether it is live at `now`.
    #[inline]
    pub fn is_live(&mut self, row: &Row, table: &TableMetadata, now: u32) -> bool {
        let is_live = row.is_live_in(table, now);
        self.live_rows += u64::from(is_live);
        if row.has_deletions() {
            let dead = row.cells().filter(|cell| !cell.is_live(now)).count() as u64;
            let is_deleted = !row.deletion().is_live() || !row.complex_deletions().is_empty();
            self.tombstones += dead + u64::from(!is_live && dead == 0 && is_deleted);
        }
        is_live
    }
}

/// Returns the part of `selection` after the row at `clustering`.
fn after(selection: &Selection, clustering: cassette_rows::Clustering, plan: &SelectPlan) -> Selection {
    let comparator = &plan.table.comparator;
    let rest = if !selection.reversed {
        Slice { start: Bound::after(clustering), end: Bound::top() }
    } else {
        Slice { start: Bound::bottom(), end: Bound::before(clustering) }
    };
    Selection {
        slices: selection.slices.intersection(&Slices::new(vec![rest], comparator), comparator),
        ..*selection
    }
}
