//! Reading the rows that an index finds.
//!
//! Hits come in the order of the table, so pages, limits and groups are as without an index. Hits of one partition are read
//! together. Every row is looked at again: an index may have entries that are stale, which are removed when all is read.

use std::collections::VecDeque;
use std::time::Duration;

use cassette_engine::{Mutation, may_wait};
use cassette_rows::{DecoratedKey, PartitionStream, Row, Selection, Slice, Slices, Unfiltered, interrupt};

use super::read_limits::Extent;
use super::reader::{Flow, Reader, Seen, Visit, size_of_row};
use crate::basics::error::{DatabaseError, Result};
use crate::planning::restrictions::{Partitions, Search};
use crate::planning::select::limits::Limits;
use crate::planning::select::{CurrentPartition, CurrentRow};
use crate::schema::indexes::IndexKind;
use crate::store::indexes::{Hit, Hits, Intersection, SearchMetrics, Within};

/// Hits of a partition that are read together: the first few alone, since a LIMIT may be small, then more.
const FIRST_BATCH: usize = 8;
const BATCH_MAX: usize = 256;

/// Stale entries that one query removes at most.
const REMOVALS_MAX: usize = 1000;

/// Hits that a query may have on a thread that serves others, too: reading their rows takes up to some 100 us.
const AT_ONCE_MAX: usize = 32;

/// A search while it runs.
struct Found<'s> {
    hits: Intersection,
    /// Hits so far.
    count: usize,
    /// Read from `hits` already.
    next: Option<Hit>,
    /// The rows that the indexes lead to, for the guardrails on tombstones: those of the whole search.
    seen: Seen,
    removals: &'s mut Vec<Mutation>,
}

impl<'p, 'e: 'p> Reader<'p, 'e> {
    /// Calls `visit` with each row that the indexes find and all other restrictions let pass, until it says stop.
    pub(crate) fn for_each_found(&mut self, limits: &mut Limits, visit: &mut Visit<'_>) -> Result<()> {
        let mut removals = Vec::new();
        let began = self.monotonic();
        let within_partition = matches!(self.partitions, Partitions::Keys(_));
        let result = self.find(limits, visit, &mut removals);
        // One that would block comes again.
        if !matches!(result, Err(DatabaseError::WouldBlock)) {
            self.execution.lap();
            let (time, tally) = (self.monotonic().saturating_sub(began), &self.tally);
            if let Some(metrics) = self.search_metrics() {
                metrics.record(tally, time);
            }
            if let Some(metrics) = &self.metrics {
                metrics.record_search(within_partition, time, tally.rows.get(), tally.tombstones.get());
            }
        }
        self.execution.store.remove_stale(&removals);
        result
    }

    /// Where the query is counted; `None` if no index that answers is storage-attached.
    fn search_metrics(&self) -> Option<&SearchMetrics> {
        let find = || {
            let mut searches = self.searches();
            let attached = searches.find(|search| search.index.kind == IndexKind::StorageAttached)?;
            Some(self.execution.store.build_states().searches(attached.index.base.id))
        };
        self.search_metrics.get_or_init(find).as_deref()
    }

    /// The searches of indexes that are built; all of them, if none is.
    fn searches(&self) -> impl Iterator<Item = &'p Search> {
        let store = self.execution.store;
        self.plan.restrictions.searches_of_built_indexes(|index| store.is_built(index))
    }

    fn monotonic(&self) -> Duration {
        self.execution.store.clock().monotonic()
    }

    /// Reads rows that were found, and looks at them: times it.
    fn filtering(&self, read: impl FnOnce() -> Result<Flow>) -> Result<Flow> {
        let Some(metrics) = self.search_metrics() else { return read() };
        let began = self.monotonic();
        let flow = read();
        if flow.is_ok() {
            metrics.filtering_latency.record_latency(self.monotonic().saturating_sub(began));
        }
        flow
    }

    fn find(
        &mut self,
        limits: &mut Limits,
        visit: &mut Visit<'_>,
        removals: &mut Vec<Mutation>,
    ) -> Result<()> {
        if let Some((key, selection)) = self.resumed.take() {
            let within = Within::Partition(&key, &selection.slices);
            if self.search(&within, &selection, false, limits, visit, removals)? == Flow::Stop {
                return Ok(());
            }
            limits.next_partition();
        }
        let selection = self.selection.clone();
        let shows = self.shows_static_rows;
        match std::mem::replace(&mut self.partitions, Partitions::Keys(Vec::new())) {
            Partitions::Keys(keys) => {
                for key in keys {
                    let within = Within::Partition(&key, &selection.slices);
                    if self.search(&within, &selection, shows, limits, visit, removals)? == Flow::Stop {
                        return Ok(());
                    }
                }
            }
            Partitions::Range(range) => {
                let within = Within::Range(&range);
                self.search(&within, &selection, shows, limits, visit, removals)?;
            }
        }
        Ok(())
    }

    fn search(
        &self,
        within: &Within<'_>,
        selection: &Selection,
        shows_static_rows: bool,
        limits: &mut Limits,
        visit: &mut Visit<'_>,
        removals: &mut Vec<Mutation>,
    ) -> Result<Flow> {
        let store = self.execution.store;
        let mut contenders = Vec::new();
        let mut sstables = 0;
        for search in self.searches() {
            let hits = search.with_value(self.execution, |wanted| {
                store.search(self.execution, &search.index, wanted, within)
            })?;
            // No row holds a null.
            let Some(hits) = hits else { return Ok(Flow::Continue) };
            self.tally.add_sstables(hits.sstables());
            if search.index.kind == IndexKind::StorageAttached {
                sstables = sstables.max(hits.sstables());
            }
            contenders.push(hits);
        }
        if let Within::Range(_) = within {
            self.limit_indexes(sstables, extent_of(within))?;
        }
        // Those of a range have to be read and sorted first, and those of partitions lead to all rows of each.
        let lead_to_few = |hits: &Hits| hits.are_in_order() && hits.is_of_rows();
        if !may_wait() && !contenders.iter().all(lead_to_few) {
            return Err(DatabaseError::WouldBlock);
        }
        let hits = Intersection::new(contenders, within, &self.plan.table);
        let hits = hits.map_err(|error| self.failed(error))?;
        let Some(hits) = hits else {
            // The filters hold all that the search is for.
            return self.filtering(|| match within {
                Within::Partition(key, _) => {
                    self.drain_partition(key, selection, shows_static_rows, limits, visit)
                }
                Within::Range(range) => self.drain_range(range, shows_static_rows, limits, visit),
            });
        };
        let mut found = Found { hits, count: 0, next: None, seen: Seen::default(), removals };
        let extent = extent_of(within);
        let flow = self.visit_found(&mut found, extent, selection, shows_static_rows, limits, visit);
        self.warn_of_read(&found.seen, extent);
        flow
    }

    /// Visits the rows that the hits lead to.
    fn visit_found(
        &self,
        found: &mut Found<'_>,
        extent: Extent<'_>,
        selection: &Selection,
        shows_static_rows: bool,
        limits: &mut Limits,
        visit: &mut Visit<'_>,
    ) -> Result<Flow> {
        found.next = self.next(found)?;
        while let Some(first) = &found.next {
            let key = first.key.clone();
            let flow = if found.hits.hits.is_of_rows() {
                self.rows_of(&key, selection, (extent, found), limits, visit)?
            } else {
                self.partition_of(&key, selection, shows_static_rows, (extent, found), limits, visit)?
            };
            if flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
            limits.next_partition();
            // What is left of the partition is not wanted.
            while found.next.as_ref().is_some_and(|hit| hit.key == key) {
                found.next = self.next(found)?;
            }
        }
        Ok(Flow::Continue)
    }

    /// The next hit; WouldBlock, after many on a thread that may not wait.
    fn next(&self, found: &mut Found<'_>) -> Result<Option<Hit>> {
        found.count += 1;
        interrupt::check()?;
        if found.count > AT_ONCE_MAX && !may_wait() {
            return Err(DatabaseError::WouldBlock);
        }
        found.hits.next().map_err(|error| self.failed(error))
    }

    /// Visits the rows of a partition that have hits.
    fn rows_of(
        &self,
        key: &DecoratedKey,
        selection: &Selection,
        (extent, found): (Extent<'_>, &mut Found<'_>),
        limits: &mut Limits,
        visit: &mut Visit<'_>,
    ) -> Result<Flow> {
        let comparator = &self.plan.table.comparator;
        let mut size = FIRST_BATCH;
        loop {
            let mut batch: VecDeque<Hit> = VecDeque::new();
            let mut slices = Vec::new();
            while let Some(hit) = found.next.take_if(|hit| hit.key == *key) {
                // Elements of one row may hold the value several times.
                let same_row = batch.back().is_some_and(|last| last.clustering == hit.clustering);
                if !same_row && batch.len() >= size {
                    found.next = Some(hit);
                    break;
                }
                if selection.slices.contains((&hit.clustering).into(), comparator) {
                    if !same_row {
                        slices.push(Slice::prefix(hit.clustering.clone()));
                    }
                    batch.push_back(hit);
                }
                found.next = self.next(found)?;
            }
            if batch.is_empty() {
                return Ok(Flow::Continue);
            }
            let rows = Selection { slices: Slices::new(slices, comparator), reversed: false };
            let mut seen = Seen::default();
            let drained = self.filtering(|| {
                let stream = self.read(key, &rows)?;
                self.drain_hits(stream, batch, (extent, found), limits, visit, &mut seen)
            });
            self.record_partition_read(key, &seen);
            match drained? {
                Flow::Continue => {}
                flow => return Ok(flow),
            }
            size = (size * 4).min(BATCH_MAX);
        }
    }

    /// Visits the rows that hits of one partition lead to.
    fn drain_hits(
        &self,
        mut stream: Box<dyn PartitionStream>,
        mut batch: VecDeque<Hit>,
        (extent, found): (Extent<'_>, &mut Found<'_>),
        limits: &mut Limits,
        visit: &mut Visit<'_>,
        seen: &mut Seen,
    ) -> Result<Flow> {
        let now = self.execution.now_seconds;
        let comparator = &self.plan.table.comparator;
        // A storage-attached index filters before it returns rows, others leave that to the reader.
        let counts_filtered = self.search_metrics().is_none();
        if let Some(mut header) = stream.next_partition().map_err(|e| self.failed(e))? {
            let token = header.key.token();
            found.seen.last = Some(token);
            self.note_row_index(&mut found.seen);
            header.static_row = header.static_row.filter(|row| row.has_live_cell(now));
            let partition = CurrentPartition::new(header, self.plan.table.partition_key.len());
            while let Some(next) = stream.next_unfiltered().map_err(|e| self.failed(e))? {
                let Unfiltered::Row(row) = next else {
                    seen.tombstones += 1;
                    continue;
                };
                if !seen.is_live(&row, &self.plan.table, now) {
                    continue;
                }
                let mut is_hit = false;
                while let Some(hit) = batch.front()
                    && comparator.compare_rows(&hit.clustering, row.clustering()).is_le()
                {
                    if hit.clustering == *row.clustering() && !found.hits.hits.is_stale(hit, &row, false) {
                        is_hit = true;
                    } else {
                        found.stale(hit);
                    }
                    batch.pop_front();
                }
                if !is_hit {
                    continue;
                }
                let current = CurrentRow { partition: &partition, row: Some(&row) };
                let passes = self.passes(current);
                if passes || counts_filtered {
                    found.seen.is_live(&row, &self.plan.table, now);
                    if self.read_limits.measures {
                        found.seen.bytes += size_of_row(&row);
                    }
                    self.check_limits(&found.seen, extent, token)?;
                }
                if !passes {
                    continue;
                }
                match self.take(current, limits, visit)? {
                    Flow::Continue if limits.is_reached_in_partition() => return Ok(Flow::NextPartition),
                    Flow::Continue => {}
                    flow => return Ok(flow),
                }
            }
        }
        batch.iter().for_each(|hit| found.stale(hit));
        Ok(Flow::Continue)
    }

    /// Visits all rows of a partition that has a hit.
    fn partition_of(
        &self,
        key: &DecoratedKey,
        selection: &Selection,
        shows_static_rows: bool,
        (extent, found): (Extent<'_>, &mut Found<'_>),
        limits: &mut Limits,
        visit: &mut Visit<'_>,
    ) -> Result<Flow> {
        self.filtering(|| {
            if found.hits.hits.is_of_static_column() && !self.holds_static_value(key, found)? {
                return Ok(Flow::Continue);
            }
            self.drain_partition_into(
                key,
                selection,
                shows_static_rows,
                limits,
                visit,
                (extent, &mut found.seen),
            )
        })
    }

    /// Whether the partition's static row holds what one of its hits says; those before that are passed over.
    fn holds_static_value(&self, key: &DecoratedKey, found: &mut Found<'_>) -> Result<bool> {
        let selection = Selection { slices: Slices::none(), reversed: false };
        let mut stream = self.read(key, &selection)?;
        let header = stream.next_partition().map_err(|e| self.failed(e))?;
        let static_row: Option<Row> = header.and_then(|header| header.static_row);
        while let Some(hit) = found.next.take_if(|hit| hit.key == *key) {
            if static_row.as_ref().is_some_and(|row| !found.hits.hits.is_stale(&hit, row, true)) {
                found.next = Some(hit);
                return Ok(true);
            }
            found.stale(&hit);
            found.next = self.next(found)?;
        }
        Ok(false)
    }
}

fn extent_of<'w>(within: &'w Within<'_>) -> Extent<'w> {
    match within {
        Within::Partition(key, _) => Extent::Partition(key),
        Within::Range(range) => Extent::Range(range),
    }
}

impl Found<'_> {
    fn stale(&mut self, hit: &Hit) {
        if self.removals.len() < REMOVALS_MAX {
            self.removals.extend(self.hits.hits.removal(hit));
        }
    }
}
