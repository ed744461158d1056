//! An open SSTable with the engine's state of it.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use cassette_rows::{
    DecoratedKey, PartitionHeader, PartitionStream, Result, RowProbe, Selection, StorageError, TableMetadata,
    Token, Unfiltered,
};
use cassette_sstable::chunked_file::Caching;
use cassette_sstable::reader::Found;
use cassette_sstable::{Descriptor, SSTableId, SSTableReader};
use parking_lot::Mutex;

use crate::basics::options::OverlappingTombstones;
use crate::metrics::ReadTally;

/// An SSTable of a view. Its files remain open and readable until the last view and stream that use
/// it are dropped.
pub(crate) struct SSTable {
    pub reader: SSTableReader,
    /// When it was written, seconds since 1970.
    pub created: u32,
    shared: Arc<Shared>,
}

/// Called for an SSTable that a read found corrupt.
pub(crate) type OnCorruption = Arc<dyn Fn(&Descriptor, &StorageError) + Send + Sync>;

/// The state that is kept when the table is altered.
struct Shared {
    reads: ReadMeter,
    /// Found corrupt: never compacted again.
    suspect: AtomicBool,
    /// The level in leveled compaction, equal to that in Statistics.
    level: AtomicU32,
    /// Its last overlap sample.
    overlap_sample: Mutex<Option<OverlapSample>>,
    /// Called when a read finds it corrupt.
    on_corruption: OnCorruption,
}

/// The conditions of an SSTable's last overlap sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OverlapSample {
    /// The data that could shadow it.
    pub by: OverlappingTombstones,
    /// The rows of newer overlapping SSTables.
    pub rows_above: f64,
}

impl SSTable {
    pub fn new(reader: SSTableReader, created: u32, on_corruption: OnCorruption) -> Self {
        let level = u32::try_from(reader.stats().level).unwrap_or(0);
        let shared = Shared {
            reads: ReadMeter::default(),
            suspect: AtomicBool::new(false),
            level: AtomicU32::new(level),
            overlap_sample: Mutex::new(None),
            on_corruption,
        };
        Self { reader, created, shared: Arc::new(shared) }
    }

    /// Returns the SSTable for an altered table.
    pub fn with_table(&self, table: Arc<TableMetadata>) -> Result<Self> {
        Ok(Self {
            reader: self.reader.with_table(table)?,
            created: self.created,
            shared: self.shared.clone(),
        })
    }

    pub fn id(&self) -> SSTableId {
        self.reader.descriptor().id
    }

    /// Returns its maximum write timestamp.
    pub fn max_timestamp(&self) -> i64 {
        self.reader.stats().max_timestamp
    }

    /// Returns its minimum write timestamp.
    pub fn min_timestamp(&self) -> i64 {
        self.reader.stats().min_timestamp
    }

    /// Whether its key range overlaps that of another.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.reader.first_key() <= other.reader.last_key()
            && other.reader.first_key() <= self.reader.last_key()
    }

    /// Returns the level in leveled compaction.
    pub fn level(&self) -> u32 {
        self.shared.level.load(Ordering::Relaxed)
    }

    /// Atomically writes another level into its Statistics.
    pub fn set_level(&self, level: u32) -> Result<()> {
        self.reader.write_level(i32::try_from(level).unwrap_or(i32::MAX))?;
        self.shared.level.store(level, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the tokens of its first and last key.
    pub fn tokens(&self) -> (i64, i64) {
        (self.reader.first_key().token().0, self.reader.last_key().token().0)
    }

    /// Records its last sample of what newer SSTables shadow; with `None` it will be sampled again.
    pub fn set_overlap_sample(&self, sample: Option<OverlapSample>) {
        *self.shared.overlap_sample.lock() = sample;
    }

    /// Returns the rows above it when it was last sampled with this setting, or `rows_above` if
    /// there are fewer now, which is recorded; 0 if it never was.
    pub fn rows_above_last_sample(&self, by: OverlappingTombstones, rows_above: f64) -> f64 {
        let mut sample = self.shared.overlap_sample.lock();
        *sample = sample.filter(|sample| sample.by == by);
        match &mut *sample {
            Some(sample) => {
                sample.rows_above = sample.rows_above.min(rows_above);
                sample.rows_above
            }
            None => 0.0,
        }
    }

    pub fn is_suspect(&self) -> bool {
        self.shared.suspect.load(Ordering::Relaxed)
    }

    pub fn mark_suspect(&self) {
        self.shared.suspect.store(true, Ordering::Relaxed);
    }

    /// Returns the reads a second for each key.
    pub fn hotness(&self, now: Duration) -> f64 {
        self.shared.reads.rate(now) / self.reader.estimated_keys().max(1) as f64
    }

    /// Reads a partition, whose key has this [`murmur3_hash`](cassette_rows::token::murmur3_hash);
    /// `None` if the SSTable does not contain it, or contains nothing of the selection and no
    /// deletion of the partition.
    pub fn read(
        self: &Arc<Self>,
        key: &DecoratedKey,
        hash: (u64, u64),
        selection: &Arc<Selection>,
        tally: &mut ReadTally,
    ) -> Result<Option<Watched<cassette_sstable::reader::PartitionRead>>> {
        if !self.reader.spans(key) {
            return Ok(None);
        }
        if !self.reader.passes_filter(hash) {
            tally.filter.true_negatives += 1;
            return Ok(None);
        }
        let found =
            self.reader.partition_unfiltered(key, hash, selection).map_err(|error| self.failed(error))?;
        let stream = match found {
            Found::Nothing => {
                tally.filter.false_positives += 1;
                return Ok(None);
            }
            Found::OnlyKey => None,
            Found::Partition(stream) => Some(stream),
        };
        tally.filter.true_positives += 1;
        tally.sstables += 1;
        self.shared.reads.count();
        Ok(stream.map(|stream| Watched { stream, sstable: self.clone() }))
    }

    /// Reads the partitions of a range.
    pub fn scan(
        self: &Arc<Self>,
        start: Bound<&DecoratedKey>,
        end: Bound<&DecoratedKey>,
        selection: &Arc<Selection>,
        caching: Caching,
    ) -> Result<Watched<cassette_sstable::reader::Scan>> {
        let stream = self.reader.scan(start, end, selection, caching).map_err(|error| self.failed(error))?;
        Ok(Watched { stream, sstable: self.clone() })
    }

    #[cold]
    fn failed(&self, error: StorageError) -> StorageError {
        if matches!(error, StorageError::Corrupt { .. }) {
            (self.shared.on_corruption)(self.reader.descriptor(), &error);
        }
        error
    }
}

/// A stream over an SSTable that keeps it open and reports corruption.
pub(crate) struct Watched<S> {
    stream: S,
    sstable: Arc<SSTable>,
}

impl<S> Watched<S> {
    /// Returns the stream itself.
    pub fn inner(&self) -> &S {
        &self.stream
    }

    /// Returns the SSTable.
    pub fn sstable(&self) -> &SSTable {
        &self.sstable
    }
}

impl Watched<cassette_sstable::reader::Scan> {
    /// See [`Scan::load`](cassette_sstable::reader::Scan::load).
    pub fn load(&mut self) -> Result<()> {
        self.stream.load().map_err(|error| self.sstable.failed(error))
    }
}

impl<S: PartitionStream> PartitionStream for Watched<S> {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        self.stream.next_partition().map_err(|error| self.sstable.failed(error))
    }

    #[inline]
    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        self.stream.next_unfiltered().map_err(|error| self.sstable.failed(error))
    }

    fn pass_live_rows(&mut self, limit: u64, probe: &mut dyn RowProbe) -> Result<u64> {
        self.stream.pass_live_rows(limit, probe).map_err(|error| self.sstable.failed(error))
    }

    fn pass_live_partitions(
        &mut self,
        before: Option<Token>,
        limit: u64,
        probe: &mut dyn RowProbe,
    ) -> Result<u64> {
        let passed = self.stream.pass_live_partitions(before, limit, probe);
        passed.map_err(|error| self.sstable.failed(error))
    }

    fn is_reconciled(&self) -> bool {
        self.stream.is_reconciled()
    }

    fn first_token(&self) -> Option<Token> {
        self.stream.first_token()
    }
}

/// A moving average of reads a second.
#[derive(Default)]
struct ReadMeter {
    reads: AtomicU64,
    state: Mutex<MeterState>,
}

#[derive(Default, Clone, Copy)]
struct MeterState {
    rate: f64,
    at: Option<Duration>,
}

/// As in Cassandra: the weight of a read is halved after about an hour and a half.
const AVERAGED_SECONDS: f64 = 2.0 * 3600.0;

impl ReadMeter {
    #[inline]
    fn count(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    fn rate(&self, now: Duration) -> f64 {
        let mut state = self.state.lock();
        let Some(last) = state.at else {
            state.at = Some(now);
            return 0.0;
        };
        let elapsed = now.saturating_sub(last).as_secs_f64();
        if elapsed >= 1.0 {
            let current = self.reads.swap(0, Ordering::Relaxed) as f64 / elapsed;
            state.rate += (current - state.rate) * (1.0 - (-elapsed / AVERAGED_SECONDS).exp());
            state.at = Some(now);
        }
        state.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_read_rate_follows_the_reads() {
        let meter = ReadMeter::default();
        assert_eq!(meter.rate(Duration::ZERO), 0.0);
        for hour in 1..=20 {
            meter.reads.fetch_add(36_000, Ordering::Relaxed);
            meter.rate(Duration::from_secs(3600 * hour));
        }
        assert!((meter.rate(Duration::from_secs(3600 * 20)) - 10.0).abs() < 0.01);
        assert!(meter.rate(Duration::from_secs(3600 * 60)) < 0.01);
    }
}
