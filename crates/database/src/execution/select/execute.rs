//! Execution of SELECT: rows are read, grouped, aggregated or sorted, and pushed into the sink.

use std::cell::{Cell, RefCell};

use cassette_rows::{Clustering, DecoratedKey};

use super::aggregation::{AggregatedColumns, Aggregation, Group};
use super::reader::{Flow, Reader};
use super::result_size::MeasuredSink;
use crate::basics::error::{Result, bail_invalid};
use crate::basics::request::{Consistency, ConsistencyRules};
use crate::basics::response::{Outcome, RowSink};
use crate::execution::Execution;
use crate::execution::replicas::read_level;
use crate::planning::select::expression::Input;
use crate::planning::select::group_by::GroupBy;
use crate::planning::select::limits::Limits;
use crate::planning::select::paging::{PagingState, Seal};
use crate::planning::select::row::KeptRow;
use crate::planning::select::{CurrentRow, SelectPlan};
use crate::planning::terms::Bound;
use crate::schema::guardrails::Key;

/// One execution.
#[derive(Clone, Copy)]
pub(super) struct Run<'r, 'e> {
    pub execution: &'r Execution<'e>,
    /// The bound terms of the outputs.
    pub terms: &'r [Bound<'r>],
    /// Rows of a page; `None` without paging.
    page_size: Option<u32>,
    resume: Option<&'r PagingState>,
}

impl SelectPlan {
    /// Reads a page.
    pub fn read_page(&self, execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        execution.options.consistency.validate_for_read()?;
        self.guard(execution)?;
        let seal = Seal { key: execution.store.paging_key(), scope: self.paging_scope };
        let resume = match &execution.options.paging_state {
            Some(bytes) => Some(PagingState::decode(bytes, &self.table, &seal)?),
            None => None,
        };
        let resume = resume.as_ref();
        let page_size =
            execution.options.page_size.and_then(|size| u32::try_from(size).ok()).filter(|n| *n > 0);
        let limits = self.limits.bind(execution, resume)?;
        if self.restrictions.ann.is_some() {
            self.check_similarity_search(execution, &limits, page_size)?;
        } else if let Some(size) = page_size
            && limits.rows_max() > size as usize
        {
            execution.guard().page_size(&self.table.name, size)?;
        }
        let terms = self.outputs.bind(execution)?;
        self.outputs.check_constants(&terms, execution)?;
        let run = Run { execution, terms: &terms, page_size, resume };
        if self.group_by.is_some() || self.outputs.has_aggregates() {
            self.warn_of_aggregation(execution);
        }
        if self.order.sorts_rows() && page_size.is_some() && !self.restrictions.exclude_all(execution)? {
            bail_invalid!(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must \
                 either remove the ORDER BY or the IN and sort client side, or disable paging for this query"
            );
        }
        let mut level = execution.options.consistency;
        if level.is_serial() {
            self.refuse_serial(run, limits)?;
            if self.restrictions.partition.names_keys() {
                level = read_level(level);
            }
        }
        execution.require_replicas(&self.table, level)?;
        if execution.store.virtual_nodes().is_some() {
            self.require_virtual_replicas(execution, level)?;
        }
        sink.begin(&self.metadata);
        let next = if execution.guard().is_set(Key::ReadThresholdsEnabled) {
            let mut sink = MeasuredSink::new(sink, self, execution);
            let next = self.push(run, limits, &mut sink)?;
            sink.finish();
            next
        } else {
            self.push(run, limits, sink)?
        };
        Ok(Outcome::Rows { paging_state: next.map(|state| state.encode(&seal)) })
    }

    /// Reads the rows of a page. Returns the position of the next page.
    fn push(&self, run: Run<'_, '_>, limits: Limits, sink: &mut dyn RowSink) -> Result<Option<PagingState>> {
        if let Some(ann) = &self.restrictions.ann {
            self.push_similar(ann, run, &limits, sink)?;
            return Ok(None);
        }
        match &self.group_by {
            Some(group_by) => self.push_groups(group_by, run, limits, sink),
            None if self.outputs.has_aggregates() => self.push_aggregates(run, sink),
            None if self.order.sorts_rows() => self.push_sorted(run, limits, sink),
            None => self.push_rows(run, limits, sink),
        }
    }

    /// Compares a level with the virtual nodes that are up and have replicas of what is read.
    fn require_virtual_replicas(&self, execution: &Execution<'_>, level: Consistency) -> Result<()> {
        if !self.restrictions.partition.names_keys() {
            return execution.require_all_replicas_of(&self.table, level);
        }
        let keys = self.restrictions.partition.keys(execution)?;
        let tokens: Vec<_> = keys.iter().map(DecoratedKey::token).collect();
        execution.require_replicas_of(&self.table, &tokens, level)
    }

    /// Applies the guardrails on the statement and its consistency level.
    fn guard(&self, execution: &Execution<'_>) -> Result<()> {
        let guard = execution.guard();
        if self.group_by.is_some() {
            guard.group_by()?;
        }
        if self.allows_filtering {
            guard.allow_filtering()?;
        }
        if !self.restrictions.searches.is_empty() && !self.restrictions.partition.names_keys() {
            guard.search_of_all_partitions()?;
        }
        guard.read_level(execution.options.consistency)
    }

    /// Rejects SERIAL reads of several partitions at once. Pages and aggregates read one at a time.
    fn refuse_serial(&self, run: Run<'_, '_>, limits: Limits) -> Result<()> {
        let pages = run.page_size.is_some_and(|size| limits.rows_max() > size as usize);
        let goes_through = pages || self.group_by.is_some() || self.outputs.has_aggregates();
        if !goes_through
            && self.restrictions.partition.names_keys()
            && self.restrictions.partition.keys(run.execution)?.len() > 1
        {
            bail_invalid!(
                "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time"
            );
        }
        Ok(())
    }

    fn warn_of_aggregation(&self, execution: &Execution<'_>) {
        if !self.restrictions.restrict_partition_key() {
            execution.warn("Aggregation query used without partition key");
        } else if self.restrictions.have_partition_in() {
            execution.warn("Aggregation query used on multiple partition keys (IN restriction)");
        }
    }

    /// Pushes rows in stored order. Returns the position of the next page.
    fn push_rows(
        &self,
        run: Run<'_, '_>,
        mut limits: Limits,
        sink: &mut dyn RowSink,
    ) -> Result<Option<PagingState>> {
        let mut left = run.page_size;
        let mut next = None;
        let mut reader = Reader::new(self, run.execution, run.resume)?;
        reader.skim_filtered();
        reader.for_each(&mut limits, &mut |row, limits| {
            let input = Input { row: Some(row), terms: run.terms, aggregates: &[], cx: run.execution };
            self.outputs.push(input, sink)?;
            if let Some(left) = &mut left {
                // A page of large rows ends before it becomes too large to send.
                *left = if sink.is_full() { 0 } else { *left - 1 };
                if *left == 0 {
                    next = self.next_page(run, &row.partition.key, row.clustering(), limits)?;
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        })?;
        Ok(next)
    }

    /// Returns the position of the page after a full page that ends with a row; `None` if no row
    /// can follow.
    ///
    /// As in Cassandra, the next page may be empty: clients that stop at the first page that is not
    /// full would never stop if a full page were the last one.
    fn next_page(
        &self,
        run: Run<'_, '_>,
        key: &DecoratedKey,
        clustering: Option<&Clustering>,
        limits: &Limits,
    ) -> Result<Option<PagingState>> {
        if limits.is_reached() {
            return Ok(None);
        }
        // DISTINCT shows one row for each partition, so the next page begins after it.
        let clustering = clustering.filter(|_| !self.distinct && !self.table.clustering.is_empty());
        let partition_ends = clustering.is_none() || limits.is_reached_in_partition();
        if partition_ends && self.restrictions.partition.names_keys() {
            let keys = self.restrictions.partition.keys(run.execution)?;
            if keys.last() == Some(key) {
                return Ok(None);
            }
        }
        Ok(Some(PagingState::after(key, clustering, limits)))
    }

    /// Aggregates all rows into one. LIMIT applies to the rows of the result.
    fn push_aggregates(&self, run: Run<'_, '_>, sink: &mut dyn RowSink) -> Result<Option<PagingState>> {
        let aggregation = RefCell::new(Aggregation::new(&self.outputs, run.terms, run.execution));
        let counted = Cell::new(0);
        let columns = AggregatedColumns::new(&self.outputs).filter(|_| self.outputs.are_aggregates_only());
        let receive = |values: &[Option<&[u8]>]| match &columns {
            Some(columns) => aggregation.borrow_mut().add_values(values, columns),
            None => Ok(()),
        };
        let mut reader = Reader::new(self, run.execution, None)?;
        if let Some(columns) = &columns {
            reader.skim_values(&columns.ids, &receive, &counted);
        }
        reader.for_each(&mut Limits::NONE.clone(), &mut |row, _| {
            aggregation.borrow_mut().add(row, false)?;
            Ok(Flow::Continue)
        })?;
        let mut aggregation = aggregation.borrow_mut();
        if counted.get() > 0 {
            aggregation.add_rows(counted.get());
        }
        let group = aggregation.finish()?;
        aggregation.push(&group, sink)?;
        Ok(None)
    }

    /// Reads all rows, then sorts them.
    fn push_sorted(
        &self,
        run: Run<'_, '_>,
        limits: Limits,
        sink: &mut dyn RowSink,
    ) -> Result<Option<PagingState>> {
        let mut rows: Vec<KeptRow> = Vec::new();
        let mut reader = Reader::new(self, run.execution, None)?;
        reader.skim_filtered();
        reader.for_each(&mut limits.without_total(), &mut |row, _| {
            rows.push(row.keep());
            Ok(Flow::Continue)
        })?;
        rows.sort_by(|a, b| self.order.compare(a.get().clustering(), b.get().clustering()));
        for row in rows.iter().take(limits.rows_max()) {
            let input = Input { row: Some(row.get()), terms: run.terms, aggregates: &[], cx: run.execution };
            self.outputs.push(input, sink)?;
        }
        Ok(None)
    }

    /// Pushes a row for each group. Limits and pages count groups. Returns the position of the next
    /// page, which is always between groups.
    fn push_groups(
        &self,
        group_by: &GroupBy,
        run: Run<'_, '_>,
        limits: Limits,
        sink: &mut dyn RowSink,
    ) -> Result<Option<PagingState>> {
        let sorts = self.order.sorts_rows();
        let aggregation = RefCell::new(Aggregation::new(&self.outputs, run.terms, run.execution));
        let mut groups = group_by.bind(run.execution)?;
        // The rows of a partition after the first belong to its group.
        let columns = AggregatedColumns::new(&self.outputs).filter(|_| group_by.is_by_partition());
        let (counted, skimmed) = (Cell::new(0), Cell::new(false));
        let receive = |values: &[Option<&[u8]>]| {
            skimmed.set(true);
            match &columns {
                Some(columns) => aggregation.borrow_mut().add_values(values, columns),
                None => Ok(()),
            }
        };
        let mut reader = Reader::new(self, run.execution, run.resume)?;
        if let Some(columns) = &columns {
            reader.skim_values(&columns.ids, &receive, &counted);
            reader.visit_first_rows();
        }
        let mut page = GroupPage {
            plan: self,
            run,
            aggregation: &aggregation,
            sink,
            sorts,
            left: run.page_size,
            limits: if sorts { limits.without_total() } else { limits },
            sorted: Vec::new(),
            last: None,
            next: None,
        };
        reader.for_each(&mut Limits::NONE.clone(), &mut |row, _| {
            page.add_skimmed(counted.take(), skimmed.take());
            page.visit(row, groups.begins(row)?)
        })?;
        page.add_skimmed(counted.take(), skimmed.take());
        page.end()?;
        let GroupPage { sorted, next, sink, .. } = page;
        self.push_sorted_groups(sorted, limits, &aggregation.borrow(), sink)?;
        Ok(next)
    }

    /// Pushes groups that were read in another order.
    fn push_sorted_groups(
        &self,
        mut groups: Vec<Group>,
        limits: Limits,
        aggregation: &Aggregation<'_, '_>,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        groups.sort_by(|a, b| {
            let clustering = |group: &Group| group.row().and_then(|row| row.clustering().cloned());
            self.order.compare(clustering(a).as_ref(), clustering(b).as_ref())
        });
        groups.iter().take(limits.rows_max()).try_for_each(|group| aggregation.push(group, sink))
    }
}

/// The groups of a page while their rows are read.
struct GroupPage<'p, 'r, 'e, 'a, 'b> {
    plan: &'p SelectPlan,
    run: Run<'r, 'e>,
    aggregation: &'p RefCell<Aggregation<'a, 'b>>,
    sink: &'p mut dyn RowSink,
    sorts: bool,
    /// Groups until the page is full; `None` without paging.
    left: Option<u32>,
    /// Limits of groups.
    limits: Limits,
    /// The groups, if they are sorted.
    sorted: Vec<Group>,
    /// The position of the last row read; without a clustering, the end of its partition.
    last: Option<(DecoratedKey, Option<Clustering>)>,
    next: Option<PagingState>,
}

impl GroupPage<'_, '_, '_, '_, '_> {
    /// Adds the rows that were skimmed after the last row: `counted` ones without values, and
    /// others, if there are any, whose values have been added.
    fn add_skimmed(&mut self, counted: u64, any: bool) {
        if counted > 0 {
            self.aggregation.borrow_mut().add_rows(counted);
        }
        if (any || counted > 0)
            && let Some((_, clustering)) = &mut self.last
        {
            *clustering = None;
        }
    }

    /// Adds a row, which may begin a group.
    fn visit(&mut self, row: CurrentRow<'_>, begins: bool) -> Result<Flow> {
        if !begins {
            self.aggregation.borrow_mut().add(row, self.sorts)?;
            if let Some((_, clustering)) = &mut self.last {
                *clustering = row.clustering().cloned();
            }
            return Ok(Flow::Continue);
        }
        self.end_group()?;
        if let Some((key, clustering)) = &self.last {
            let same_partition = *key == row.partition.key;
            if self.limits.is_reached() {
                return Ok(Flow::Stop);
            }
            if same_partition && self.limits.is_reached_in_partition() {
                return Ok(Flow::NextPartition);
            }
            if self.left == Some(0) {
                self.next = self.plan.next_page(self.run, key, clustering.as_ref(), &self.limits)?;
                return Ok(Flow::Stop);
            }
            if !same_partition {
                self.limits.next_partition();
            }
        } else if self.run.resume.is_some_and(|state| state.key != row.partition.key.key()) {
            self.limits.next_partition();
        }
        self.last = Some((row.partition.key.clone(), row.clustering().cloned()));
        self.aggregation.borrow_mut().add(row, self.sorts)?;
        Ok(Flow::Continue)
    }

    /// Ends the group, if it has rows.
    fn end_group(&mut self) -> Result<()> {
        let mut aggregation = self.aggregation.borrow_mut();
        if !aggregation.is_open() {
            return Ok(());
        }
        let group = aggregation.finish()?;
        if self.sorts {
            self.sorted.push(group);
        } else {
            aggregation.push(&group, self.sink)?;
        }
        self.limits.take();
        self.left = self.left.map(|left| left - 1);
        Ok(())
    }

    /// Ends the page after the last row.
    fn end(&mut self) -> Result<()> {
        self.end_group()?;
        // The data may have ended with the last group.
        if self.left == Some(0)
            && self.next.is_none()
            && let Some((key, clustering)) = &self.last
        {
            self.next = self.plan.next_page(self.run, key, clustering.as_ref(), &self.limits)?;
        }
        Ok(())
    }
}
