//! Drops data that newer data elsewhere already deletes or overwrites (CASSANDRA-7019).
//!
//! Invariant: the output merged with the sources answers as the input merged with the sources. It
//! holds for each source separately, so any subset of them can be used. Nothing of a source is
//! copied.
//!
//! A deletion is dropped only if a source has a *greater* one, a cell only if a source has one that
//! wins over it: two compactions can be each other's sources at the same time, and of two equal
//! things one has to stay.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::clustering::{Bound, Position};
use crate::deletion::DeletionTime;
use crate::error::Result;
use crate::key::DecoratedKey;
use crate::row::{Cell, Row, RowBuilder};
use crate::schema::TableMetadata;
use crate::stream::{PartitionHeader, PartitionStream, RangeTombstoneMarker, Unfiltered};
use crate::types::DataType;

use super::rows::reconcile;

/// The kinds of data in sources that can remove data of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShadowedBy {
    /// Deletions of partitions, ranges and rows.
    Deletions,
    /// Also cells, and deletions of cells and complex columns.
    Cells,
}

/// The sources of newer data.
pub trait ShadowSources: Send {
    /// Moves to a partition; partitions ascend. Returns the number of sources that may contain it,
    /// those with the greatest timestamps first. With 0 the partition passes unchanged.
    fn begin(&mut self, key: &DecoratedKey) -> usize;

    /// Returns the greatest timestamp in source number `index`.
    fn max_timestamp(&self, index: usize) -> i64;

    /// Opens the partition in source number `index`; `None` if it is absent. Only `wanted` can
    /// still remove data of the partition: if these are deletions, a source need not return
    /// anything else, and may report a partition without any as absent.
    fn open(&mut self, index: usize, wanted: ShadowedBy) -> Result<Option<PartitionHeader>>;

    /// Returns the next row or marker of the partition in source number `index`, which must be
    /// open.
    fn next_unfiltered(&mut self, index: usize) -> Result<Option<Unfiltered>>;

    /// Ends the partition and reports what was dropped from it. Not called without sources.
    fn end(&mut self, dropped: &Dropped);
}

/// What was dropped from a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Complete rows.
    pub rows: u64,
    /// Cells, of these rows and of others.
    pub cells: u64,
    /// Bytes of their values, paths and clusterings.
    pub bytes: u64,
}

/// A stream without the data that its sources shadow. Requires a forward, merged stream. Can return
/// empty partitions.
pub struct ShadowingStream<S, P> {
    inner: S,
    sources: P,
    by: ShadowedBy,
    table: Arc<TableMetadata>,
    /// Rows and markers read ahead, in order.
    buffer: VecDeque<Unfiltered>,
    /// Whether the partition continues after `buffer`.
    more: bool,
    /// The steps for a partition that is too large to be buffered: each reads the output of the one
    /// before it.
    stages: Vec<Stage>,
    /// Whether the current partition uses sources and its end was not reported yet.
    looking: bool,
    dropped: Dropped,
    held_items: usize,
}

/// Rows and markers of a partition that are buffered, so that sources are opened only while
/// something is left.
const HELD_ITEMS: usize = 256;
/// Bytes of them.
const HELD_BYTES: usize = 256 << 10;

impl<S: PartitionStream, P: ShadowSources> ShadowingStream<S, P> {
    /// Creates the stream of `inner` without shadowed data.
    pub fn new(inner: S, sources: P, by: ShadowedBy, table: Arc<TableMetadata>) -> Self {
        Self {
            inner,
            sources,
            by,
            table,
            buffer: VecDeque::new(),
            more: false,
            stages: Vec::new(),
            looking: false,
            dropped: Dropped::default(),
            held_items: HELD_ITEMS,
        }
    }

    /// Returns the sources, for their metrics.
    pub fn sources(&self) -> &P {
        &self.sources
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.looking) {
            self.sources.end(&std::mem::take(&mut self.dropped));
        }
    }

    fn fill(&mut self) -> Result<()> {
        let mut bytes = 0;
        while self.buffer.len() < self.held_items && bytes < HELD_BYTES {
            let Some(next) = self.inner.next_unfiltered()? else {
                self.more = false;
                return Ok(());
            };
            if let Unfiltered::Row(row) = &next {
                bytes += row.data_size();
            }
            self.buffer.push_back(next);
        }
        Ok(())
    }

    /// Applies one source after the other to the header and the buffer, while anything is left to
    /// remove.
    fn shadow_held(&mut self, header: &mut PartitionHeader, sources: usize) -> Result<()> {
        for index in 0..sources {
            let Some(left) = Left::of(header, &self.buffer) else { return Ok(()) };
            // Neither this source nor the following ones contain anything as new.
            if self.sources.max_timestamp(index) < left.least_timestamp {
                return Ok(());
            }
            let wanted = if left.only_deletions { ShadowedBy::Deletions } else { self.by };
            let Some(other) = self.sources.open(index, wanted)? else { continue };
            let mut stage = self.stage(index, header, other);
            let mut held = std::mem::take(&mut self.buffer);
            let mut context = Context {
                sources: &mut self.sources,
                by: self.by,
                table: &self.table,
                dropped: &mut self.dropped,
            };
            while let Some(next) = stage.next(&mut context, &mut |_| Ok(held.pop_front()))? {
                self.buffer.push_back(next);
            }
        }
        Ok(())
    }

    /// Opens all sources at once and reads the partition from all of them side by side.
    fn shadow_streaming(&mut self, header: &mut PartitionHeader, sources: usize) -> Result<()> {
        for index in 0..sources {
            if let Some(other) = self.sources.open(index, self.by)? {
                let stage = self.stage(index, header, other);
                self.stages.push(stage);
            }
        }
        Ok(())
    }

    /// Applies a source to the header and appends a stage for the rows.
    fn stage(&mut self, index: usize, header: &mut PartitionHeader, other: PartitionHeader) -> Stage {
        if other.deletion.supersedes(&header.deletion) {
            header.deletion = DeletionTime::LIVE;
        }
        if let Some(row) = header.static_row.take() {
            header.static_row = match shadow_row(
                &row,
                other.static_row.as_ref(),
                other.deletion,
                self.by,
                &self.table,
                &mut self.dropped,
            ) {
                Shadowed::Untouched => Some(row),
                Shadowed::Left(row) => row,
            };
        }
        Stage::new(index, other.deletion)
    }
}

impl<S: PartitionStream, P: ShadowSources> PartitionStream for ShadowingStream<S, P> {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        self.end();
        self.buffer.clear();
        self.stages.clear();
        self.more = false;
        let Some(mut header) = self.inner.next_partition()? else { return Ok(None) };
        self.more = true;
        let sources = self.sources.begin(&header.key);
        if sources == 0 {
            return Ok(Some(header));
        }
        self.looking = true;
        self.fill()?;
        if self.more {
            self.shadow_streaming(&mut header, sources)?
        } else {
            self.shadow_held(&mut header, sources)?;
            self.end();
        }
        Ok(Some(header))
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        if self.stages.is_empty() {
            let held = self.buffer.pop_front();
            return if held.is_none() && self.more { self.inner.next_unfiltered() } else { Ok(held) };
        }
        let mut context = Context {
            sources: &mut self.sources,
            by: self.by,
            table: &self.table,
            dropped: &mut self.dropped,
        };
        let (inner, buffer) = (&mut self.inner, &mut self.buffer);
        let mut input = || match buffer.pop_front() {
            Some(held) => Ok(Some(held)),
            None => inner.next_unfiltered(),
        };
        pull(&mut self.stages, &mut context, &mut input)
    }

    fn is_reconciled(&self) -> bool {
        self.inner.is_reconciled()
    }
}

type Input<'a> = dyn FnMut() -> Result<Option<Unfiltered>> + 'a;

/// Returns the next item of the last of some stages.
fn pull<P: ShadowSources>(
    stages: &mut [Stage],
    context: &mut Context<'_, P>,
    input: &mut Input<'_>,
) -> Result<Option<Unfiltered>> {
    match stages.split_last_mut() {
        None => input(),
        Some((last, before)) => last.next(context, &mut |context| pull(before, context, input)),
    }
}

/// State that the stages of a partition share.
struct Context<'a, P> {
    sources: &'a mut P,
    by: ShadowedBy,
    table: &'a TableMetadata,
    dropped: &'a mut Dropped,
}

/// The part of a partition that one source affects.
///
/// Data and source advance together. A range of the data that the source covers is not closed where
/// the cover begins, only opened later or again where it ends: so the number of markers never
/// grows.
struct Stage {
    source: usize,
    /// The source's deletion of the partition.
    partition: DeletionTime,
    /// The open range deletion of the source.
    theirs: DeletionTime,
    /// The open range deletion of the data, and that of the output.
    ours: DeletionTime,
    left: DeletionTime,
    their_head: Option<Unfiltered>,
    our_head: Option<Unfiltered>,
    their_end: bool,
    our_end: bool,
}

impl Stage {
    fn new(source: usize, partition: DeletionTime) -> Self {
        Self {
            source,
            partition,
            theirs: DeletionTime::LIVE,
            ours: DeletionTime::LIVE,
            left: DeletionTime::LIVE,
            their_head: None,
            our_head: None,
            their_end: false,
            our_end: false,
        }
    }

    /// Returns the next row or marker that is left of those in `ours`.
    fn next<P: ShadowSources>(
        &mut self,
        context: &mut Context<'_, P>,
        ours: &mut dyn FnMut(&mut Context<'_, P>) -> Result<Option<Unfiltered>>,
    ) -> Result<Option<Unfiltered>> {
        loop {
            if self.our_head.is_none() && !self.our_end {
                self.our_head = ours(context)?;
                self.our_end = self.our_head.is_none();
            }
            let Some(our_head) = &self.our_head else { return Ok(None) };
            if self.their_head.is_none() && !self.their_end {
                self.their_head = context.sources.next_unfiltered(self.source)?;
                self.their_end = self.their_head.is_none();
            }
            let order = self.their_head.as_ref().map(|theirs| {
                let compare = |a: Position<'_>, b: Position<'_>| context.table.comparator.compare(a, b);
                compare(theirs.position(), our_head.position())
            });
            let next = match order {
                Some(std::cmp::Ordering::Less) => match self.their_head.take() {
                    Some(Unfiltered::Marker(marker)) => self.their_marker(*marker),
                    _ => None,
                },
                Some(std::cmp::Ordering::Equal) => match (self.their_head.take(), self.our_head.take()) {
                    (Some(Unfiltered::Row(theirs)), Some(Unfiltered::Row(ours))) => {
                        self.row(ours, Some(&theirs), context)
                    }
                    (Some(Unfiltered::Marker(theirs)), Some(Unfiltered::Marker(ours))) => {
                        self.theirs = theirs.open.unwrap_or(DeletionTime::LIVE);
                        self.our_marker(*ours)
                    }
                    // Rows and bounds never have equal positions.
                    (_, ours) => ours,
                },
                _ => match self.our_head.take() {
                    Some(Unfiltered::Row(ours)) => self.row(ours, None, context),
                    Some(Unfiltered::Marker(ours)) => self.our_marker(*ours),
                    None => None,
                },
            };
            if next.is_some() {
                return Ok(next);
            }
        }
    }

    fn active(&self) -> DeletionTime {
        self.partition.max(self.theirs)
    }

    /// Returns the range deletion of the data if it must be open here.
    fn wanted(&self) -> Option<DeletionTime> {
        let covered = self.active().supersedes(&self.ours);
        (!self.ours.is_live() && !covered).then_some(self.ours)
    }

    fn row<P>(
        &mut self,
        ours: Row,
        theirs: Option<&Row>,
        context: &mut Context<'_, P>,
    ) -> Option<Unfiltered> {
        match shadow_row(&ours, theirs, self.active(), context.by, context.table, context.dropped) {
            Shadowed::Untouched => Some(Unfiltered::Row(ours)),
            Shadowed::Left(row) => row.map(Unfiltered::Row),
        }
    }

    /// After a change of the source's deletion, one of the data may be needed again.
    fn their_marker(&mut self, marker: RangeTombstoneMarker) -> Option<Unfiltered> {
        self.theirs = marker.open.unwrap_or(DeletionTime::LIVE);
        match self.wanted() {
            Some(wanted) if self.left.is_live() => self.marker(marker.bound, Some(wanted)),
            _ => None,
        }
    }

    fn our_marker(&mut self, marker: RangeTombstoneMarker) -> Option<Unfiltered> {
        self.ours = marker.open.unwrap_or(DeletionTime::LIVE);
        let wanted = self.wanted();
        match (self.left.is_live(), wanted) {
            (true, None) => None,
            _ => self.marker(marker.bound, wanted),
        }
    }

    fn marker(&mut self, bound: Bound, open: Option<DeletionTime>) -> Option<Unfiltered> {
        let close = std::mem::replace(&mut self.left, open.unwrap_or(DeletionTime::LIVE));
        let close = (!close.is_live()).then_some(close);
        Some(RangeTombstoneMarker { bound, close, open }.into())
    }
}

/// Summary of the remaining data of a partition.
struct Left {
    /// The least timestamp of anything in it.
    least_timestamp: i64,
    /// Only deletions of the partition, of rows and ranges remain: only a greater deletion can
    /// remove these.
    only_deletions: bool,
}

impl Left {
    /// Returns `None` if nothing remains.
    fn of(header: &PartitionHeader, rest: &VecDeque<Unfiltered>) -> Option<Self> {
        let mut left = Self { least_timestamp: i64::MAX, only_deletions: true };
        let mut any = left.take_deletion(header.deletion);
        if let Some(row) = &header.static_row {
            any |= left.take_row(row);
        }
        for unfiltered in rest {
            match unfiltered {
                Unfiltered::Row(row) => any |= left.take_row(row),
                Unfiltered::Marker(marker) => {
                    for deletion in [marker.open, marker.close].into_iter().flatten() {
                        any |= left.take_deletion(deletion);
                    }
                }
            }
        }
        any.then_some(left)
    }

    /// Returns whether it is a deletion.
    fn take_deletion(&mut self, deletion: DeletionTime) -> bool {
        if !deletion.is_live() {
            self.least_timestamp = self.least_timestamp.min(deletion.timestamp);
        }
        !deletion.is_live()
    }

    /// Returns whether the row contains anything.
    fn take_row(&mut self, row: &Row) -> bool {
        let mut any = self.take_deletion(row.deletion());
        let liveness = Some(row.liveness()).filter(|liveness| !liveness.is_empty());
        let others = liveness
            .map(|liveness| liveness.timestamp)
            .into_iter()
            .chain(row.complex_deletions().iter().map(|(_, deletion)| deletion.timestamp))
            .chain(row.cells().map(|cell| cell.timestamp));
        for timestamp in others {
            self.least_timestamp = self.least_timestamp.min(timestamp);
            self.only_deletions = false;
            any = true;
        }
        any
    }
}

/// The remainder of a row.
enum Shadowed {
    Untouched,
    /// The remainder; `None` for nothing.
    Left(Option<Row>),
}

/// Returns the remainder of a row under a source's deletion `active` and, if the source has the row
/// too, its version `theirs`.
fn shadow_row(
    row: &Row,
    theirs: Option<&Row>,
    active: DeletionTime,
    by: ShadowedBy,
    table: &TableMetadata,
    dropped: &mut Dropped,
) -> Shadowed {
    let deletion = theirs.map_or(active, |theirs| active.max(theirs.deletion()));
    let theirs = theirs.filter(|theirs| by == ShadowedBy::Cells && !theirs.is_empty());
    if deletion.is_live() && theirs.is_none() {
        return Shadowed::Untouched;
    }
    let liveness = row.liveness();
    let liveness_goes = !liveness.is_empty()
        && (deletion.deletes(liveness.timestamp)
            || theirs.is_some_and(|theirs| {
                !theirs.liveness().is_empty() && theirs.liveness().supersedes(&liveness)
            }));
    let deletion_goes = deletion.supersedes(&row.deletion()) && !row.deletion().is_live();
    let mut cover = Cover { theirs, deletion, table, column: None };
    let goes: Vec<bool> = row.cells().map(|cell| cover.covers(&cell)).collect();
    let complex_goes = |(column, deletion): &(_, DeletionTime)| {
        let greatest =
            theirs.map_or(cover.deletion, |theirs| cover.deletion.max(theirs.complex_deletion(*column)));
        greatest.supersedes(deletion)
    };
    let any_complex_goes = row.complex_deletions().iter().any(complex_goes);
    if !liveness_goes && !deletion_goes && !any_complex_goes && !goes.contains(&true) {
        return Shadowed::Untouched;
    }
    let cells_gone = goes.iter().filter(|goes| **goes).count();
    let mut out = RowBuilder::with_capacity(
        row.clustering().clone(),
        row.cell_count() - cells_gone,
        if cells_gone == row.cell_count() { 0 } else { row.data_size() },
    );
    if !liveness_goes {
        out.liveness(liveness);
    }
    if !deletion_goes {
        out.deletion(row.deletion());
    }
    for complex in row.complex_deletions().iter().filter(|complex| !complex_goes(complex)) {
        out.complex_deletion(complex.0, complex.1);
    }
    let mut bytes = 0;
    for (cell, goes) in row.cells().zip(goes) {
        if goes {
            bytes += cell.value.len() + cell.path.map_or(0, <[u8]>::len)
        } else {
            out.cell(cell);
        }
    }
    dropped.cells += cells_gone as u64;
    if out.is_empty() {
        dropped.rows += 1;
        dropped.bytes += row.data_size() as u64;
        return Shadowed::Left(None);
    }
    dropped.bytes += bytes as u64;
    Shadowed::Left(Some(out.finish()))
}

/// Checks whether a source's version of a row covers its cells.
struct Cover<'a> {
    theirs: Option<&'a Row>,
    deletion: DeletionTime,
    table: &'a TableMetadata,
    /// The last complex column: its type, the deletion that covers it, the source's cells.
    column: Option<(crate::schema::ColumnId, DeletionTime, Vec<Cell<'a>>)>,
}

impl Cover<'_> {
    fn covers(&mut self, cell: &Cell<'_>) -> bool {
        if self.deletion.deletes(cell.timestamp) {
            return true;
        }
        let Some(theirs) = self.theirs else { return false };
        let data_type = self.table.column_by_id(cell.column).map(|column| &column.data_type);
        // The newer of two counters does not contain the other's count.
        if data_type == Some(&DataType::Counter) {
            return false;
        }
        let Some(path) = cell.path else {
            return theirs.cell(cell.column).is_some_and(|theirs| reconcile(&theirs, cell).is_gt());
        };
        if self.column.as_ref().is_none_or(|(column, ..)| *column != cell.column) {
            let deletion = theirs.complex_deletion(cell.column);
            self.column = Some((cell.column, deletion, theirs.cells_of(cell.column).collect()));
        }
        let Some((_, deletion, cells)) = &self.column else { return false };
        if deletion.deletes(cell.timestamp) {
            return true;
        }
        let Some(path_type) = data_type.and_then(DataType::path_type) else { return false };
        let found = cells.binary_search_by(|other| path_type.compare(other.path.unwrap_or_default(), path));
        found.is_ok_and(|i| reconcile(&cells[i], cell).is_gt())
    }
}

#[cfg(test)]
mod tests;
