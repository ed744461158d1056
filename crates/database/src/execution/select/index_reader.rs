//! Reads of the rows that an index finds.
//!
//! Hits are in the order of the table, so pages, limits and groups work as without an index. Hits
//! of one partition are read together. Every row is checked, because index entries may be stale;
//! stale entries are removed at the end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cassette_engine::{KeyRange, Mutation, may_wait};
use cassette_rows::{DecoratedKey, PartitionStream, Row, Selection, Slice, Slices, Unfiltered, interrupt};

use super::read_limits::Extent;
use super::reader::{Flow, Reader, Seen, Visit, size_of_row};
use crate::basics::error::{DatabaseError, Result};
use crate::planning::restrictions::{Partitions, Search};
use crate::planning::select::limits::Limits;
use crate::planning::select::{CurrentPartition, CurrentRow};
use crate::schema::indexes::{Index, IndexKind, Wanted};
use crate::store::indexes::{Hit, Hits, Intersection, SearchMetrics, Within};

/// The number of hits of a partition that are read together: a few at first, since a LIMIT may be
/// small, then more.
const FIRST_BATCH: usize = 8;
const BATCH_MAX: usize = 256;

/// The maximum number of stale entries that one query removes.
const REMOVALS_MAX: usize = 1000;

/// The maximum number of hits of a query on a thread that also serves other clients: reading their
/// rows takes up to about 100 us.
const AT_ONCE_MAX: usize = 32;

/// The state of a search.
struct Found<'s> {
    hits: Intersection,
    /// The number of hits so far.
    count: usize,
    /// The hit that was read from `hits` last.
    next: Option<Hit>,
    /// Counts of the whole search, for the guardrails on tombstones.
    seen: Seen,
    removals: &'s mut Vec<Mutation>,
}

impl<'p, 'e: 'p> Reader<'p, 'e> {
    /// Calls `visit` with each row that the indexes find and that satisfies all other restrictions,
    /// until it returns stop.
    pub(crate) fn for_each_found(&mut self, limits: &mut Limits, visit: &mut Visit<'_>) -> Result<()> {
        let mut removals = Vec::new();
        let began = self.monotonic();
        let within_partition = matches!(self.partitions, Partitions::Keys(_));
        let result = self.find(limits, visit, &mut removals);
        // A search that would block is repeated on another thread.
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

    /// Returns the metrics of the query; `None` if no storage-attached index is used.
    fn search_metrics(&self) -> Option<&SearchMetrics> {
        let find = || {
            let mut searches = self.searches();
            let attached = searches.find(|search| search.index.kind == IndexKind::StorageAttached);
            let ann = self.plan.restrictions.ann.as_ref();
            let index = attached.map(|search| &search.index).or(ann.map(|ann| &ann.index))?;
            Some(self.execution.store.build_states().searches(index.base.id))
        };
        self.search_metrics.get_or_init(find).as_deref()
    }

    /// Returns the searches of built indexes; all of them if none is built.
    fn searches(&self) -> impl Iterator<Item = &'p Search> {
        let store = self.execution.store;
        self.plan.restrictions.searches_of_built_indexes(|index| store.is_built(index))
    }

    fn monotonic(&self) -> Duration {
        self.execution.store.clock().monotonic()
    }

    /// Times the reading and filtering of found rows.
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
            let hits = search.with_value(self.execution, |index, wanted| {
                store.search(self.execution, index, wanted, within)
            })?;
            // Null matches no row.
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
        // Hits of ranges have to be read and sorted first, and hits of partitions refer to all
        // their rows.
        let lead_to_few = |hits: &Hits| hits.are_in_order() && hits.is_of_rows();
        if !may_wait() && !contenders.iter().all(lead_to_few) {
            return Err(DatabaseError::WouldBlock);
        }
        let hits = Intersection::new(contenders, within, &self.plan.table);
        let hits = hits.map_err(|error| self.failed(error))?;
        let Some(hits) = hits else {
            // The filters contain the restrictions of the search.
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

    /// Calls `visit` with each row within `range` that has a vector in an index and satisfies all
    /// restrictions, until it returns stop. Returns whether the vector has entries there.
    pub(crate) fn for_each_with_vector(
        &self,
        index: &Arc<Index>,
        vector: &[u8],
        range: &KeyRange,
        removals: &mut Vec<Mutation>,
        visit: &mut Visit<'_>,
    ) -> Result<bool> {
        let within = Within::Range(range);
        let hits = self.execution.store.search(self.execution, index, &Wanted::Value(vector), &within)?;
        self.tally.add_sstables(hits.sstables());
        let hits = Intersection::new(vec![hits], &within, &self.plan.table);
        let Some(hits) = hits.map_err(|error| self.failed(error))? else { return Ok(false) };
        let mut found = Found { hits, count: 0, next: None, seen: Seen::default(), removals };
        let (extent, shows) = (Extent::Range(range), self.shows_static_rows);
        self.visit_found(&mut found, extent, &self.selection, shows, &mut Limits::NONE.clone(), visit)?;
        // The last read of an entry finds that there are no more.
        Ok(found.count > 1)
    }

    /// Visits the rows of the hits.
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
            // The rest of the partition is skipped.
            while found.next.as_ref().is_some_and(|hit| hit.key == key) {
                found.next = self.next(found)?;
            }
        }
        Ok(Flow::Continue)
    }

    /// Returns the next hit; WouldBlock after many on a thread that must not wait.
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
                // Several elements of one row may have the value.
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

    /// Visits the rows of hits of one partition.
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
        // Searches of storage-attached indexes count filtered rows; others leave that to the
        // reader.
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

    /// Whether the partition's static row has the value of one of its hits; hits before that are
    /// skipped.
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
