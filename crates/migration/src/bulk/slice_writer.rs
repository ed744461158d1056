//! Writes the rows of a slice into parts.

use std::sync::atomic::{AtomicU64, Ordering};

use cassette_rows::{PartitionHeader, StorageError, Unfiltered};
use cassette_sstable::{SSTableReader, SSTableWriter, WriterOptions};

use super::partitions::Partitions;
use super::parts::{PartFiles, PartsDirectory, failed};
use super::source::SourceTable;
use crate::copy::now;
use crate::error::{MoveError, Result};
use crate::throttle::Throttle;
use crate::token_range::TokenRange;

/// Partitions of a part before the density of a table is known.
const KEYS_FIRST: u64 = 100_000;
/// Smallest number of partitions that a part's filter is made for.
const KEYS_MIN: u64 = 128;
/// Rows between two waits for the rate, and two checks whether the move ends.
const ROWS_AT_ONCE: usize = 64;

/// Bytes and partitions of a table: an estimate at first, then those of its parts.
#[derive(Debug, Default)]
pub struct Density {
    bytes: AtomicU64,
    keys: AtomicU64,
}

impl Density {
    pub fn of_table(table: &SourceTable<'_>) -> Self {
        Self { bytes: table.bytes.into(), keys: table.keys.into() }
    }

    /// Returns the partitions that a part of `part_bytes` in a slice of this fraction of the ring
    /// has at most, with a reserve.
    fn keys(&self, part_bytes: u64, fraction: f64) -> u64 {
        let (bytes, keys) = (self.bytes.load(Ordering::Relaxed), self.keys.load(Ordering::Relaxed));
        if keys == 0 || bytes == 0 {
            return KEYS_FIRST;
        }
        let (bytes, keys) = (bytes as f64, keys as f64);
        let expected = (keys / bytes * part_bytes as f64).min(keys * fraction);
        (expected * 1.2) as u64 + KEYS_MIN
    }

    /// Adds those of a complete part of a table without an estimate.
    fn add(&self, table: &SourceTable<'_>, part: &Written) {
        if table.bytes == 0 {
            self.bytes.fetch_add(part.reader.data_bytes_on_disk(), Ordering::Relaxed);
            self.keys.fetch_add(part.reader.estimated_keys(), Ordering::Relaxed);
        }
    }
}

/// What the writers of all slices share.
pub struct Writing<'w> {
    pub directory: &'w PartsDirectory,
    pub part_bytes: u64,
    /// On rows per second.
    pub throttle: Throttle,
    /// Rows written by this run.
    pub rows: AtomicU64,
    /// Returns whether the move ends.
    pub is_stopped: &'w (dyn Fn() -> bool + Sync),
}

/// A complete part.
pub struct Written {
    // Closed before its files are removed.
    pub reader: SSTableReader,
    pub files: PartFiles,
    /// The part of the slice that it has all partitions of.
    pub range: TokenRange,
    pub rows: u64,
}

/// Writes a slice, part by part.
pub struct SliceWriter<'w> {
    writing: &'w Writing<'w>,
    table: &'w SourceTable<'w>,
    density: &'w Density,
    partitions: Box<dyn Partitions + 'w>,
    /// What no part has yet.
    left: TokenRange,
    next: Option<PartitionHeader>,
}

impl<'w> SliceWriter<'w> {
    /// Starts a slice. Its first partition is read.
    pub fn new(
        writing: &'w Writing<'w>,
        table: &'w SourceTable<'w>,
        density: &'w Density,
        mut partitions: Box<dyn Partitions + 'w>,
        range: TokenRange,
    ) -> Result<Self> {
        let next = partitions.next_partition()?;
        Ok(Self { writing, table, density, partitions, left: range, next })
    }

    /// Returns whether all of the slice is written.
    pub fn is_complete(&self) -> bool {
        self.next.is_none()
    }

    /// Writes the next part; `None` if nothing was left, or the move ends.
    ///
    /// # Errors
    /// If the source cannot be read, or the part cannot be written.
    pub fn next_part(&mut self) -> Result<Option<Written>> {
        if self.next.is_none() {
            return Ok(None);
        }
        let files = self.writing.directory.create()?;
        let write_failed = |error: StorageError| failed(&files.descriptor.directory, &error);
        let keys = self.density.keys(self.writing.part_bytes, self.left.width());
        let mut writer = self.writer(&files, keys)?;
        let mut rows = Rows { writing: self.writing, count: 0, waiting: 0 };
        let mut last_token = self.left.0;
        while let Some(header) = self.next.take() {
            let token = header.key.token().0;
            let is_full = writer.bytes_written() >= self.writing.part_bytes || writer.partitions() >= keys;
            // Partitions with the same token stay together, so that ranges divide parts.
            if is_full && token != last_token && writer.partitions() > 0 {
                self.next = Some(header);
                break;
            }
            last_token = token;
            let has_static = header.static_row.is_some();
            let before = rows.count;
            writer.begin(header).map_err(write_failed)?;
            while let Some(unfiltered) = self.partitions.next_unfiltered()? {
                let is_row = matches!(unfiltered, Unfiltered::Row(_));
                writer.append(unfiltered).map_err(write_failed)?;
                if is_row && !rows.add() {
                    return Ok(None);
                }
            }
            writer.end().map_err(write_failed)?;
            if rows.count == before && has_static && !rows.add() {
                return Ok(None);
            }
            self.next = self.partitions.next_partition()?;
        }
        rows.wait();
        let end = if self.next.is_none() { self.left.1 } else { last_token };
        let range = TokenRange(self.left.0, end);
        self.left.0 = end;
        if writer.finish().map_err(write_failed)?.is_none() {
            return Ok(None);
        }
        let reader = self.writing.directory.open(&files, &self.table.metadata)?;
        let written = Written { reader, files, range, rows: rows.count };
        self.density.add(self.table, &written);
        Ok(Some(written))
    }

    fn writer(&self, files: &PartFiles, expected_keys: u64) -> Result<SSTableWriter> {
        let metadata = &self.table.metadata;
        let options = WriterOptions::new(metadata, expected_keys).map_err(|reason| {
            MoveError::Unsuitable(format!("compression of table {}: {reason}", self.table.table.quoted()))
        })?;
        let encoding_stats = self.partitions.times().unwrap_or(self.table.times);
        let options = WriterOptions { encoding_stats, now_seconds: now(), ..options };
        let (file_system, descriptor) = (self.writing.directory.files.clone(), files.descriptor.clone());
        SSTableWriter::create(file_system, descriptor, metadata.clone(), options)
            .map_err(|error| failed(&files.descriptor.directory, &error))
    }
}

/// Counts rows, at the rate.
struct Rows<'w> {
    writing: &'w Writing<'w>,
    count: u64,
    waiting: usize,
}

impl Rows<'_> {
    /// Counts a row. Returns `false` if the move ends.
    fn add(&mut self) -> bool {
        self.count += 1;
        self.waiting += 1;
        if self.waiting < ROWS_AT_ONCE {
            return true;
        }
        self.wait();
        !(self.writing.is_stopped)()
    }

    fn wait(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.writing.throttle.wait(waiting);
        self.writing.rows.fetch_add(waiting as u64, Ordering::Relaxed);
    }
}
