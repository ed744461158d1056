//! The input SSTables of a compaction, as streams.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use cassette_rows::{
    MergedStream, PartitionHeader, PartitionStream, Result, Selection, TableMetadata, Unfiltered,
};
use cassette_sstable::chunked_file::Caching;
use cassette_sstable::reader::Scan;
use parking_lot::Mutex;

use crate::store::progress::Running;
use crate::store::sstable_handle::{SSTable, Watched};

/// The number of partitions that were merged, by number of SSTables.
pub(super) type Merged = Arc<Mutex<BTreeMap<u32, u64>>>;

/// Merges the contents of SSTables. Those that share no keys are read sequentially: a compaction of
/// a level with the next one merges two streams, not dozens.
pub(super) fn merged(
    sstables: &[Arc<SSTable>],
    table: &Arc<TableMetadata>,
    running: &Arc<Running>,
) -> Result<(Tally, Merged)> {
    let selection = Arc::new(Selection::all());
    let mut by_start = sstables.to_vec();
    by_start.sort_by(|a, b| a.reader.first_key().cmp(b.reader.first_key()));
    let mut chains: Vec<(Arc<SSTable>, Vec<Counted>)> = Vec::new();
    for sstable in by_start {
        let stream = sstable.scan(Bound::Unbounded, Bound::Unbounded, &selection, Caching::LeaveAlone)?;
        let stored = sstable.reader.data_bytes_on_disk() as f64;
        let ratio = stored / sstable.reader.uncompressed_bytes().max(1) as f64;
        let counted = Counted { stream, at: 0, units: 0, ratio, running: running.clone() };
        let fits = |last: &SSTable| last.reader.last_key() < sstable.reader.first_key();
        match chains.iter_mut().find(|(last, _)| fits(last)) {
            Some((last, chain)) => {
                chain.push(counted);
                *last = sstable;
            }
            None => chains.push((sstable, vec![counted])),
        }
    }
    let chained = |(_, mut streams): (_, Vec<Counted>)| -> Box<dyn PartitionStream> {
        streams.reverse();
        Box::new(Chain { streams })
    };
    let merged = Merged::default();
    let sources = chains.into_iter().map(chained).collect();
    let stream = MergedStream::new(sources, table.clone(), false);
    Ok((Tally { stream, counts: BTreeMap::new(), merged: merged.clone() }, merged))
}

/// A scan that reports its progress.
struct Counted {
    stream: Watched<Scan>,
    /// The progress reported so far.
    at: u64,
    units: u32,
    /// Bytes on disk by bytes of rows.
    ratio: f64,
    running: Arc<Running>,
}

impl Counted {
    fn tell(&mut self) {
        let at = self.stream.inner().position();
        let plain = at.saturating_sub(self.at);
        self.at = at;
        self.running.advance(plain, (plain as f64 * self.ratio) as u64);
    }

    /// Reports the progress at intervals.
    fn count(&mut self) {
        self.units += 1;
        if self.units.is_multiple_of(64) {
            self.tell();
        }
    }
}

impl PartitionStream for Counted {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        let next = self.stream.next_partition()?;
        match next {
            Some(_) => self.count(),
            None => self.tell(),
        }
        Ok(next)
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        self.count();
        self.stream.next_unfiltered()
    }

    fn is_reconciled(&self) -> bool {
        self.stream.is_reconciled()
    }
}

/// Sequential streams, in reverse order.
struct Chain {
    streams: Vec<Counted>,
}

impl PartitionStream for Chain {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        while let Some(stream) = self.streams.last_mut() {
            if let Some(header) = stream.next_partition()? {
                return Ok(Some(header));
            }
            self.streams.pop();
        }
        Ok(None)
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        match self.streams.last_mut() {
            Some(stream) => stream.next_unfiltered(),
            None => Ok(None),
        }
    }

    fn is_reconciled(&self) -> bool {
        self.streams.iter().all(PartitionStream::is_reconciled)
    }
}

/// A merge that counts its sources.
pub(super) struct Tally {
    stream: MergedStream,
    counts: BTreeMap<u32, u64>,
    merged: Merged,
}

impl PartitionStream for Tally {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        let next = self.stream.next_partition()?;
        match next {
            Some(_) => *self.counts.entry(self.stream.sources_of_partition() as u32).or_default() += 1,
            None => *self.merged.lock() = std::mem::take(&mut self.counts),
        }
        Ok(next)
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        self.stream.next_unfiltered()
    }
}
