//! Merging streams of partitions.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::deletion::DeletionTime;
use crate::error::Result;
use crate::row::Row;
use crate::schema::TableMetadata;
use crate::stream::{PartitionHeader, PartitionStream, RangeTombstoneMarker, Unfiltered};

use super::rows::merge_rows;

/// Many streams of one table as one, reconciled: each partition, row and cell once, without what is deleted.
///
/// Tombstones come out too, unless a greater one covers them; whoever answers a query passes over them.
pub struct MergedStream {
    sources: Vec<Source>,
    table: Arc<TableMetadata>,
    reversed: bool,
    /// Deletion of the current partition.
    partition_deletion: DeletionTime,
    /// The range deletion that is open in the output.
    open: DeletionTime,
    /// Versions of the row at hand; kept to save allocations.
    versions: Vec<Row>,
}

struct Source {
    stream: Box<dyn PartitionStream>,
    /// The partition the source stands at; `None` when it has ended or before the first.
    header: Option<PartitionHeader>,
    /// Whether `header` is the partition being merged, so that `head` is its next unfiltered.
    in_partition: bool,
    /// Read ahead; `None` while not read, or at the partition's end when `exhausted`.
    head: Option<Unfiltered>,
    exhausted: bool,
    /// The range deletion that is open in this source.
    open: DeletionTime,
    ended: bool,
}

impl MergedStream {
    /// `sources` must all be streams of `table` under the same selection; `reversed` says in which direction.
    pub fn new(sources: Vec<Box<dyn PartitionStream>>, table: Arc<TableMetadata>, reversed: bool) -> Self {
        let source = |stream| Source {
            stream,
            header: None,
            in_partition: true,
            head: None,
            exhausted: true,
            open: DeletionTime::LIVE,
            ended: false,
        };
        Self {
            sources: sources.into_iter().map(source).collect(),
            table,
            reversed,
            partition_deletion: DeletionTime::LIVE,
            open: DeletionTime::LIVE,
            versions: Vec::new(),
        }
    }

    /// Takes the versions of the row at the head of source `first` and of those after it, and merges them.
    fn merge_heads(&mut self, first: usize) -> Option<Row> {
        let active = self
            .sources
            .iter()
            .filter(|s| s.in_partition)
            .fold(self.partition_deletion, |active, source| active.max(source.open));
        self.versions.clear();
        let Some(Unfiltered::Row(row)) = self.sources[first].head.take() else { return None };
        for source in &mut self.sources[first + 1..] {
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

    /// Takes the markers at the bound of the source `first` and says what changes in the output.
    fn merge_markers(&mut self, first: usize) -> Option<RangeTombstoneMarker> {
        let Some(Unfiltered::Marker(marker)) = self.sources[first].head.take() else { return None };
        self.sources[first].open = marker.open.unwrap_or(DeletionTime::LIVE);
        for source in &mut self.sources[first + 1..] {
            if let Some(Unfiltered::Marker(other)) = &source.head
                && self.table.comparator.compare(other.bound.position(), marker.bound.position()).is_eq()
            {
                source.open = other.open.unwrap_or(DeletionTime::LIVE);
                source.head = None;
            }
        }
        let mut open = self
            .sources
            .iter()
            .filter(|s| s.in_partition)
            .fold(DeletionTime::LIVE, |open, source| open.max(source.open));
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

    /// The first source whose head no other source's precedes; fills the heads.
    fn least(&mut self) -> Result<Option<usize>> {
        let mut least: Option<usize> = None;
        for i in 0..self.sources.len() {
            let source = &mut self.sources[i];
            if !source.in_partition {
                continue;
            }
            if source.head.is_none() && !source.exhausted {
                source.head = source.stream.next_unfiltered()?;
                source.exhausted = source.head.is_none();
            }
            let Some(head) = &self.sources[i].head else { continue };
            let precedes = match least.and_then(|l| self.sources[l].head.as_ref()) {
                None => true,
                Some(best) => {
                    let order = self.table.comparator.compare(head.position(), best.position());
                    order == if self.reversed { Ordering::Greater } else { Ordering::Less }
                }
            };
            if precedes {
                least = Some(i);
            }
        }
        Ok(least)
    }
}

impl PartitionStream for MergedStream {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        for source in &mut self.sources {
            if source.in_partition && !source.ended {
                source.header = source.stream.next_partition()?;
                source.ended = source.header.is_none();
            }
            source.in_partition = false;
            source.head = None;
            source.exhausted = true;
            source.open = DeletionTime::LIVE;
        }
        self.open = DeletionTime::LIVE;
        self.partition_deletion = DeletionTime::LIVE;
        self.versions.clear();
        let Some(key) = self.sources.iter().filter_map(|s| s.header.as_ref()).map(|h| &h.key).min().cloned()
        else {
            return Ok(None);
        };
        for source in &mut self.sources {
            if let Some(header) = source.header.as_mut().filter(|h| h.key == key) {
                source.in_partition = true;
                source.exhausted = false;
                self.partition_deletion = self.partition_deletion.max(header.deletion);
                self.versions.extend(header.static_row.take());
            }
        }
        let static_row = merge_rows(&self.versions, self.partition_deletion, &self.table);
        Ok(Some(PartitionHeader { key, deletion: self.partition_deletion, static_row }))
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        while let Some(least) = self.least()? {
            let next = match self.sources[least].head {
                Some(Unfiltered::Row(_)) => self.merge_heads(least).map(Unfiltered::Row),
                _ => self.merge_markers(least).map(Unfiltered::Marker),
            };
            if next.is_some() {
                return Ok(next);
            }
        }
        Ok(None)
    }
}
