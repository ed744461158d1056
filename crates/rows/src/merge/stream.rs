//! Merging streams of partitions.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::deletion::DeletionTime;
use crate::error::Result;
use crate::interrupt;
use crate::row::Row;
use crate::schema::TableMetadata;
use crate::stream::{PartitionHeader, PartitionStream, RangeTombstoneMarker, RowProbe, Unfiltered};
use crate::token::Token;

use super::rows::merge_rows;
use super::tokens::Tokens;

/// Merges many streams of one table: returns each partition, row and cell once, without deleted
/// data.
///
/// Tombstones are returned too, unless a greater one covers them; queries skip them.
///
/// Most partitions exist in one source only. Their tokens, apart from the sources, determine the
/// next one; its rows are then passed on without access to the other sources. A source with a known
/// [`first_token`](PartitionStream::first_token) is not read before the merge reaches it.
pub struct MergedStream {
    sources: Vec<Source>,
    /// The token of the current partition of each source, or the first token of one that has not
    /// been read; the greatest one for a source that has ended.
    tokens: Tokens,
    /// The sources that hold the current partition, ascending.
    active: Vec<usize>,
    /// The single source whose rows need no merging.
    alone: Option<usize>,
    table: Arc<TableMetadata>,
    reversed: bool,
    /// Deletion of the current partition.
    partition_deletion: DeletionTime,
    /// The range deletion that is open in the output.
    open: DeletionTime,
    /// Versions of the current row; kept to save allocations.
    versions: Vec<Row>,
}

struct Source {
    stream: Box<dyn PartitionStream>,
    /// See [`PartitionStream::is_reconciled`].
    is_reconciled: bool,
    /// Whether nothing has been read, and the token is that of
    /// [`first_token`](PartitionStream::first_token).
    unread: bool,
    /// The current partition of the source, if another source's comes first; `None` when it has
    /// ended or is being read.
    header: Option<PartitionHeader>,
    /// Read ahead; `None` before the read, or at the partition's end if `exhausted`.
    head: Option<Unfiltered>,
    exhausted: bool,
    /// The range deletion that is open in this source.
    open: DeletionTime,
}

impl MergedStream {
    /// Creates the merge. `sources` must all be streams of `table` under the same selection, in the
    /// direction of `reversed`.
    pub fn new(sources: Vec<Box<dyn PartitionStream>>, table: Arc<TableMetadata>, reversed: bool) -> Self {
        let first_tokens: Vec<_> = sources.iter().map(PartitionStream::first_token).collect();
        let source = |stream: Box<dyn PartitionStream>| Source {
            is_reconciled: stream.is_reconciled(),
            unread: stream.first_token().is_some(),
            stream,
            header: None,
            head: None,
            exhausted: true,
            open: DeletionTime::LIVE,
        };
        Self {
            tokens: Tokens::new(
                first_tokens.iter().map(|token| token.map_or(ENDED, |token| token.0)).collect(),
            ),
            // These must be advanced first.
            active: (0..sources.len()).filter(|i| first_tokens[*i].is_none()).collect(),
            alone: None,
            sources: sources.into_iter().map(source).collect(),
            table,
            reversed,
            partition_deletion: DeletionTime::LIVE,
            open: DeletionTime::LIVE,
            versions: Vec::new(),
        }
    }

    /// Returns the number of sources that contain the current partition.
    pub fn sources_of_partition(&self) -> usize {
        self.active.len()
    }

    /// Reads the next partition of source `i`.
    fn advance(&mut self, i: usize) -> Result<()> {
        let source = &mut self.sources[i];
        source.header = source.stream.next_partition()?;
        source.unread = false;
        source.head = None;
        source.exhausted = false;
        source.open = DeletionTime::LIVE;
        self.tokens.set(i, source.header.as_ref().map_or(ENDED, |header| header.key.token().0));
        Ok(())
    }

    /// Fills `active` with the sources whose partition is the least.
    fn activate_least(&mut self) -> Result<()> {
        self.active.clear();
        let Some(least) = self.read_to_least()? else { return Ok(()) };
        for i in self.tokens.with(least) {
            let Some(header) = &self.sources[i].header else { continue };
            let best = self.active.first().and_then(|first| self.sources[*first].header.as_ref());
            match best.map_or(Ordering::Equal, |best| header.key.cmp(&best.key)) {
                Ordering::Less => {
                    self.active.clear();
                    self.active.push(i);
                }
                Ordering::Equal => self.active.push(i),
                Ordering::Greater => {}
            }
        }
        Ok(())
    }

    /// Returns the least token, after reading the sources that may begin with it.
    fn read_to_least(&mut self) -> Result<Option<i64>> {
        loop {
            let Some(least) = self.tokens.least() else { return Ok(None) };
            let unread = self.tokens.with(least).find(|i| self.sources[*i].unread);
            let Some(unread) = unread else { return Ok(Some(least)) };
            self.advance(unread)?;
        }
    }

    /// Returns the greatest of the open deletions of the sources, and of `least`.
    fn greatest_open(&self, least: DeletionTime) -> DeletionTime {
        self.active.iter().fold(least, |open, i| open.max(self.sources[*i].open))
    }

    /// Merges the versions of the row at the head of the active source number `first` and of those
    /// after it.
    fn merge_heads(&mut self, first: usize) -> Option<Row> {
        let active = self.greatest_open(self.partition_deletion);
        self.versions.clear();
        let Some(Unfiltered::Row(row)) = self.sources[self.active[first]].head.take() else { return None };
        for i in &self.active[first + 1..] {
            let source = &mut self.sources[*i];
            let same = match &source.head {
                Some(Unfiltered::Row(other)) => {
                    self.table.comparator.compare_rows(other.clustering(), row.clustering()).is_eq()
                }
                _ => false,
            };
            if same && let Some(Unfiltered::Row(other)) = source.head.take() {
                self.versions.push(other);
            }
        }
        self.versions.push(row);
        merge_rows(&self.versions, active, &self.table)
    }

    /// Consumes the markers at the bound of the active source number `first` and returns the change
    /// in the output.
    fn merge_markers(&mut self, first: usize) -> Option<RangeTombstoneMarker> {
        let source = &mut self.sources[self.active[first]];
        let Some(Unfiltered::Marker(marker)) = source.head.take() else { return None };
        source.open = marker.open.unwrap_or(DeletionTime::LIVE);
        for i in &self.active[first + 1..] {
            let source = &mut self.sources[*i];
            if let Some(Unfiltered::Marker(other)) = &source.head
                && self.table.comparator.compare(other.bound.position(), marker.bound.position()).is_eq()
            {
                source.open = other.open.unwrap_or(DeletionTime::LIVE);
                source.head = None;
            }
        }
        let mut open = self.greatest_open(DeletionTime::LIVE);
        if !open.supersedes(&self.partition_deletion) {
            open = DeletionTime::LIVE;
        }
        if open == self.open {
            return None;
        }
        let closed = std::mem::replace(&mut self.open, open);
        Some(RangeTombstoneMarker {
            bound: marker.bound,
            close: (!closed.is_live()).then_some(closed),
            open: (!open.is_live()).then_some(open),
        })
    }

    /// Returns the number of the first active source with the least head; fills the heads.
    fn least(&mut self) -> Result<Option<usize>> {
        let mut least: Option<usize> = None;
        for n in 0..self.active.len() {
            let source = &mut self.sources[self.active[n]];
            if source.head.is_none() && !source.exhausted {
                source.head = source.stream.next_unfiltered()?;
                source.exhausted = source.head.is_none();
            }
            let Some(head) = &self.sources[self.active[n]].head else { continue };
            let best = least.and_then(|l| self.sources[self.active[l]].head.as_ref());
            let precedes = match best {
                None => true,
                Some(best) => {
                    let order = self.table.comparator.compare(head.position(), best.position());
                    order == if self.reversed { Ordering::Greater } else { Ordering::Less }
                }
            };
            if precedes {
                least = Some(n);
            }
        }
        Ok(least)
    }
}

/// The token of a source that has ended. Keys can have it too, but those have a header.
const ENDED: i64 = i64::MAX;

impl PartitionStream for MergedStream {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        for n in 0..self.active.len() {
            self.advance(self.active[n])?;
        }
        self.activate_least()?;
        self.alone = match self.active[..] {
            [only] if self.sources[only].is_reconciled => Some(only),
            _ => None,
        };
        if let Some(only) = self.alone {
            return Ok(self.sources[only].header.take());
        }
        self.open = DeletionTime::LIVE;
        self.partition_deletion = DeletionTime::LIVE;
        self.versions.clear();
        let mut key = None;
        for i in &self.active {
            if let Some(header) = self.sources[*i].header.take() {
                self.partition_deletion = self.partition_deletion.max(header.deletion);
                self.versions.extend(header.static_row);
                key.get_or_insert(header.key);
            }
        }
        let Some(key) = key else { return Ok(None) };
        let static_row = merge_rows(&self.versions, self.partition_deletion, &self.table);
        Ok(Some(PartitionHeader { key, deletion: self.partition_deletion, static_row }))
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        if let Some(only) = self.alone {
            return self.sources[only].stream.next_unfiltered();
        }
        while let Some(least) = self.least()? {
            // Deleted rows are not returned, so the loop can be long.
            interrupt::check()?;
            let next = match self.sources[self.active[least]].head {
                Some(Unfiltered::Row(_)) => self.merge_heads(least).map(Unfiltered::Row),
                _ => self.merge_markers(least).map(Unfiltered::from),
            };
            if next.is_some() {
                return Ok(next);
            }
        }
        Ok(None)
    }

    fn pass_live_rows(&mut self, limit: u64, probe: &mut dyn RowProbe) -> Result<u64> {
        // Other sources may have deletions of the rows, and other versions, which count once.
        match self.alone {
            Some(only) => self.sources[only].stream.pass_live_rows(limit, probe),
            None => Ok(0),
        }
    }

    fn pass_live_partitions(
        &mut self,
        before: Option<Token>,
        limit: u64,
        probe: &mut dyn RowProbe,
    ) -> Result<u64> {
        // What precedes the next partitions of the other sources is in this one alone.
        let Some(only) = self.alone else { return Ok(0) };
        let next = Token(self.tokens.least_besides(only).unwrap_or(ENDED));
        let before = before.map_or(next, |before| before.min(next));
        self.sources[only].stream.pass_live_partitions(Some(before), limit, probe)
    }

    fn is_reconciled(&self) -> bool {
        true
    }
}
