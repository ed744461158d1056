//! Writes an SSTable from partitions in order.
//!
//! # Visibility
//!
//! The files have their final names from the start. [`SSTableWriter::finish`] writes and syncs all
//! of them except TOC.txt, syncs the directory, and only then writes TOC.txt, syncs it and the
//! directory. So after a crash an SSTable with a TOC.txt is complete and durable, and files without
//! one are left-overs of an incomplete write: no caller was notified of them, and they can be
//! removed. The engine decides whether a complete SSTable belongs to its table.

mod chunk_writer;
mod collector;
mod data_file;
mod deletions_file;
mod encoding_stats;
mod index_file;
mod options;
mod pipeline;

use std::sync::Arc;

use cassette_rows::key::MAX_KEY_LENGTH;
use cassette_rows::{
    DecoratedKey, DeletionTime, PartitionHeader, PartitionStream, Result, StorageError, TableMetadata,
    Unfiltered,
};
use cassette_vfs::FileSystem;

pub use encoding_stats::EncodingStats;
pub use options::{DEFAULT_COLUMN_INDEX_SIZE, WriterOptions};

use self::chunk_writer::{ChunkWriter, Chunks, FinishedFile};
use self::collector::Collector;
use self::data_file::DataFile;
use self::deletions_file::DeletionsFile;
use self::index_file::IndexFile;
use crate::checksums::{FileChecksum, FileChecksums};
use crate::data::row_format::{RowFormat, header_for};
use crate::data::{RowEncoder, WrongWidth, deletion_codec};
use crate::deletions::Belongs;
use crate::descriptor::{Component, Descriptor};
use crate::filter::BloomFilter;
use crate::index::PromotedIndexBuilder;
use crate::large_partition::PartitionPlace;
use crate::output::Output;
use crate::statistics::{MURMUR3_PARTITIONER, SerializationHeader, Statistics, Stats, Validation};
use crate::summary::SummaryBuilder;
use crate::{digest, toc};

/// Description of a written SSTable.
#[derive(Debug, Clone)]
pub struct FinishedSSTable {
    /// The descriptor.
    pub descriptor: Descriptor,
    /// Number of partitions.
    pub partitions: u64,
    /// Bytes of all files.
    pub bytes_on_disk: u64,
    /// Bytes of its Data file.
    pub data_bytes_on_disk: u64,
    /// The smallest key.
    pub first_key: DecoratedKey,
    /// The largest key.
    pub last_key: DecoratedKey,
}

/// The size of a partition of an SSTable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartitionSize {
    /// Bytes in Data.db, before compression.
    pub bytes: u64,
    /// Deletions of any kind, each side of a range separately, and expired data.
    pub tombstones: u64,
}

/// An incomplete SSTable. Dropped before [`finish`](Self::finish) has returned, it removes its
/// files.
pub struct SSTableWriter {
    file_system: Arc<dyn FileSystem>,
    descriptor: Descriptor,
    table: Arc<TableMetadata>,
    header: SerializationHeader,
    encoder: RowEncoder,
    column_index_size: u64,
    data: Option<DataFile>,
    index: Option<IndexFile>,
    deletions: Option<DeletionsFile>,
    filter: Option<BloomFilter>,
    summary: SummaryBuilder,
    collector: Option<Collector>,
    has_static: bool,
    partition: Partition,
    last_key: Option<DecoratedKey>,
    last_place: Option<PartitionPlace>,
    last_size: PartitionSize,
    finished: bool,
}

/// The current partition.
#[derive(Debug)]
struct Partition {
    /// Its key, once its header is written.
    key: Option<DecoratedKey>,
    deletion: DeletionTime,
    /// Whether it has been started and not ended.
    begun: bool,
    /// Its header is written with the first content: an empty partition is not written at all.
    header: Option<PartitionHeader>,
    /// Its offset in the stream.
    start: u64,
    /// The distance to its first row or marker.
    header_length: u64,
    /// The offset of the previous row or marker; of the partition before the first.
    previous: u64,
    /// The offset of the current block.
    block_start: u64,
    /// The first position of the current block; `None` before its first row.
    block_first: Option<Unfiltered>,
    /// The range tombstone that is open.
    open: Option<DeletionTime>,
    promoted: PromotedIndexBuilder,
    /// The first row or marker of the partition, and the last one so far.
    first: Option<Unfiltered>,
    last: Option<Unfiltered>,
}

impl SSTableWriter {
    /// Creates the files. The directory must exist, and the id be unused.
    pub fn create(
        file_system: Arc<dyn FileSystem>,
        descriptor: Descriptor,
        table: Arc<TableMetadata>,
        options: WriterOptions,
    ) -> Result<Self> {
        let header =
            header_for(&table, options.columns.iter().copied(), options.encoding_stats.base_values());
        let format = RowFormat::new(&header, &table)
            .map_err(|detail| StorageError::Unsupported { path: descriptor.path(Component::Data), detail })?;
        let create = |component| {
            let path = descriptor.path(component);
            let file =
                file_system.create(&path).map_err(|e| StorageError::io(&path, "create the file", e))?;
            Ok::<_, StorageError>((path, file))
        };
        let (path, mut file) = create(Component::Data)?;
        if options.is_cold {
            file.expect_no_reads();
        }
        let chunks = ChunkWriter::new(path.clone(), file, options.compression);
        let block_length = options.rows_block.clamp(64, 64 << 10).next_power_of_two();
        let data = DataFile::new(path, chunks.with_blocks(block_length), options.pipelined);
        let (path, file) = create(Component::Index)?;
        let stats = Stats {
            level: options.level,
            repaired_at: options.repaired_at,
            host_id: options.host_id,
            commit_log_intervals: options.commit_log_intervals,
            ..Stats::default()
        };
        Ok(Self {
            has_static: !format.statics.is_empty(),
            deletions: Some(DeletionsFile::new(
                file_system.clone(),
                descriptor.path(Component::Deletions),
                format.clone(),
            )),
            encoder: RowEncoder::new(format),
            header,
            column_index_size: u64::from(options.column_index_size.max(1)),
            data: Some(data),
            index: Some(IndexFile::new(path, file)),
            filter: BloomFilter::with_chance(
                options.expected_keys.max(1),
                table.params.bloom_filter_fp_chance(),
            ),
            summary: SummaryBuilder::new(table.params.min_index_interval),
            collector: Some(Collector::new(stats, options.now_seconds)),
            partition: Partition::none(),
            last_key: None,
            last_place: None,
            last_size: PartitionSize::default(),
            finished: false,
            file_system,
            descriptor,
            table,
        })
    }

    /// Returns the descriptor of the SSTable being written.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns the approximate bytes of Data stored so far, for splitting a compaction's output.
    pub fn bytes_written(&self) -> u64 {
        self.data.as_ref().map_or(0, DataFile::stored_bytes)
    }

    /// The last partition written.
    pub fn last_key(&self) -> Option<&DecoratedKey> {
        self.last_key.as_ref()
    }

    /// Partitions written so far.
    pub fn partitions(&self) -> u64 {
        self.summary.keys()
    }

    /// Returns the position of the partition started last; `None` if nothing of it was written.
    pub fn last_place(&self) -> Option<PartitionPlace> {
        self.last_place
    }

    /// Returns the size of the partition written last.
    pub fn last_size(&self) -> PartitionSize {
        self.last_size
    }

    /// Writes all partitions of a stream, which must sort after those written before.
    pub fn write_all(&mut self, stream: &mut dyn PartitionStream) -> Result<()> {
        while let Some(header) = stream.next_partition()? {
            self.begin(header)?;
            while let Some(unfiltered) = stream.next_unfiltered()? {
                self.append(unfiltered)?;
            }
            self.end()?;
        }
        Ok(())
    }

    /// Starts a partition. It must sort after the one before.
    pub fn begin(&mut self, header: PartitionHeader) -> Result<()> {
        if self.last_key.as_ref().is_some_and(|last| *last >= header.key) {
            return Err(self.misused(format!("partition {:02x?} after a later one", header.key.key())));
        }
        if header.key.key().len() > MAX_KEY_LENGTH {
            return Err(self.misused(format!("a partition key of {} bytes", header.key.key().len())));
        }
        if self.data.is_none() || self.partition.begun {
            return Err(self.misused("a partition before the end of another, or after that of all".into()));
        }
        let has_static_row = header.static_row.as_ref().is_some_and(|row| !row.is_empty());
        let has_content = has_static_row || !header.deletion.is_live();
        self.last_place = None;
        self.partition.begun = true;
        self.partition.header = Some(header);
        if has_content { self.write_header() } else { Ok(()) }
    }

    /// Writes the pending header, if there is one.
    fn write_header(&mut self) -> Result<()> {
        let partition = &mut self.partition;
        let Some(header) = partition.header.take() else { return Ok(()) };
        let (Some(data), Some(collector)) = (&mut self.data, &mut self.collector) else {
            return Err(self.misused("a partition after the end".into()));
        };
        partition.start = data.position();
        let out = &mut data.stream;
        out.put_bytes16(header.key.key());
        deletion_codec::encode_plain(header.deletion, out);
        collector.deletion(header.deletion);
        let static_row = header.static_row.filter(|row| !row.is_empty());
        if let Some(row) = &static_row {
            // Omitting the row would lose it.
            assert!(self.has_static, "a static row of columns that the header lists");
            collector.row(row);
        }
        if self.has_static {
            let encoded = self.encoder.encode_static_row(static_row.as_ref(), out);
            encoded.map_err(|wrong| wrong_width(&self.descriptor, &self.table, wrong))?;
        }
        if let Some(deletions) = &mut self.deletions {
            deletions.begin(&header.key, header.deletion, static_row.as_ref())?;
        }
        partition.header_length = data.position() - partition.start;
        partition.previous = partition.start;
        partition.open = None;
        (partition.first, partition.last, partition.block_first) = (None, None, None);
        partition.key = Some(header.key);
        partition.deletion = header.deletion;
        data.advance()
    }

    /// Appends a row or marker to the partition, after those before.
    pub fn append(&mut self, unfiltered: Unfiltered) -> Result<()> {
        // An empty row is never written.
        if matches!(&unfiltered, Unfiltered::Row(row) if row.is_empty()) {
            return Ok(());
        }
        if self.partition.header.is_some() {
            self.write_header()?;
        }
        let (Some(data), Some(collector), true) = (&mut self.data, &mut self.collector, self.partition.begun)
        else {
            return Err(self.misused("a row outside of a partition".into()));
        };
        let partition = &mut self.partition;
        let start = data.position();
        let previous = start - partition.previous;
        match &unfiltered {
            Unfiltered::Row(row) => {
                let encoded = self.encoder.encode_row(row, previous, &mut data.stream);
                encoded.map_err(|wrong| wrong_width(&self.descriptor, &self.table, wrong))?;
                collector.row(row);
                if !row.deletion().is_live()
                    && let (Some(deletions), Some(key)) = (&mut self.deletions, &partition.key)
                {
                    deletions.row(key, row)?;
                }
            }
            Unfiltered::Marker(marker) => {
                let encoded = self.encoder.encode_marker(marker, previous, &mut data.stream);
                encoded.map_err(|wrong| wrong_width(&self.descriptor, &self.table, wrong))?;
                if let (Some(deletions), Some(key)) = (&mut self.deletions, &partition.key) {
                    deletions.marker(key, marker)?;
                }
                collector.marker(marker);
                partition.open = marker.open;
            }
        }
        partition.previous = start;
        if partition.block_first.is_none() {
            partition.block_first = Some(unfiltered.clone());
            partition.block_start = start;
        }
        if partition.first.is_none() {
            partition.first = Some(unfiltered.clone());
        }
        partition.last = Some(unfiltered);
        if data.position() - partition.block_start >= self.column_index_size {
            partition.end_block(data.position(), &self.encoder);
        }
        data.advance()
    }

    /// Ends the partition. An empty one is not written.
    pub fn end(&mut self) -> Result<()> {
        self.last_size = PartitionSize::default();
        let partition = &mut self.partition;
        if !std::mem::take(&mut partition.begun) {
            return Err(self.misused("the end of a partition that has not begun".into()));
        }
        let (None, Some(key)) = (partition.header.take(), partition.key.take()) else { return Ok(()) };
        let (Some(data), Some(index), Some(collector)) =
            (&mut self.data, &mut self.index, &mut self.collector)
        else {
            return Err(self.misused("the end of a partition after that of all".into()));
        };
        data.stream.push(END_OF_PARTITION);
        let end = data.position();
        if let Some(deletions) = &mut self.deletions
            && !deletions.end(end)?
        {
            self.deletions = None;
        }
        // The last block includes the end of the partition. A single block is not written.
        if partition.promoted.is_empty() {
            partition.block_first = None;
        } else if partition.block_first.is_some() {
            partition.end_block(end, &self.encoder);
        }
        let ends = partition.first.as_ref().zip(partition.last.as_ref());
        let bytes = end - partition.start;
        let tombstones = collector.partition(key.key(), bytes, ends, &self.table.comparator);
        self.last_size = PartitionSize { bytes, tombstones };
        if let Some(filter) = &mut self.filter {
            filter.add(key.key());
        }
        self.summary.add(&key, index.position());
        let (header_length, deletion) = (partition.header_length, partition.deletion);
        let place = index.append(&key, partition.start, &mut partition.promoted, header_length, deletion)?;
        self.last_place = Some(place);
        self.last_key = Some(key);
        data.advance()
    }

    /// Writes the other files and makes everything durable. Returns `None`, without files, if no
    /// partition was written.
    pub fn finish(mut self) -> Result<Option<FinishedSSTable>> {
        let (Some(data), Some(index), Some(collector)) =
            (self.data.take(), self.index.take(), self.collector.take())
        else {
            return Err(self.misused("a second end".into()));
        };
        let summary = std::mem::replace(&mut self.summary, SummaryBuilder::new(1));
        let partitions = summary.keys();
        let Some(summary) = summary.finish() else { return Ok(None) };

        let data_length = data.position();
        let FinishedFile { chunks, digest: crc, ratio, blocks } = data.finish(|_| Vec::new())?;
        let (index_length, index_crcs) = index.finish()?;
        let (stats, cardinality) = collector.finish(ratio);
        let may_have_deletions = stats.may_have_deletions();
        let statistics = Statistics {
            validation: Validation {
                partitioner: MURMUR3_PARTITIONER.into(),
                bloom_filter_fp_chance: self.table.params.bloom_filter_fp_chance(),
            },
            cardinality: cardinality.into(),
            stats,
            header: self.header.clone(),
        };
        let mut files = vec![match chunks {
            Chunks::Compressed(info) => (Component::CompressionInfo, info.encode()),
            Chunks::Plain(checksums) => (Component::Crc, checksums.encode()),
        }];
        files.extend(self.filter.take().map(|filter| (Component::Filter, filter.encode())));
        files.push((Component::Summary, summary.encode()));
        let vouched = files.iter().filter(|(component, _)| *component != Component::Crc);
        let checksums = FileChecksums {
            files: vouched.map(|(component, bytes)| (*component, FileChecksum::of(bytes))).collect(),
            index_length,
            index_crcs,
            rows: blocks,
        };
        files.push((Component::Statistics, statistics.encode()));
        files.push((Component::Digest, digest::encode(crc)));
        files.push((Component::Checksums, checksums.encode()));
        let mut components = vec![Component::Data, Component::Index];
        if let Some(deletions) = self.deletions.take()
            && deletions.finish(Belongs { data_length, digest: crc }, may_have_deletions)?
        {
            components.push(Component::Deletions);
        }
        for (component, content) in &files {
            self.write_file(*component, content)?;
            components.push(*component);
        }
        self.sync_directory()?;
        self.write_file(Component::Toc, &toc::encode(&components))?;
        self.sync_directory()?;
        self.finished = true;

        let sizes = components.iter().chain([&Component::Toc]).map(|component| {
            let path = self.descriptor.path(*component);
            let metadata = self.file_system.metadata(&path);
            metadata.map(|metadata| metadata.len).map_err(|e| StorageError::io(&path, "look at the file", e))
        });
        let sizes = sizes.collect::<Result<Vec<_>>>()?;
        Ok(Some(FinishedSSTable {
            bytes_on_disk: sizes.iter().sum(),
            data_bytes_on_disk: sizes.first().copied().unwrap_or(0),
            descriptor: self.descriptor.clone(),
            partitions,
            first_key: summary.first,
            last_key: summary.last,
        }))
    }

    fn write_file(&self, component: Component, content: &[u8]) -> Result<()> {
        let path = self.descriptor.path(component);
        let write = || {
            let mut file = self.file_system.create(&path)?;
            file.write_all(content)?;
            file.sync()
        };
        write().map_err(|e| StorageError::io(&path, "write the file", e))
    }

    fn sync_directory(&self) -> Result<()> {
        let directory = &self.descriptor.directory;
        self.file_system.sync_dir(directory).map_err(|e| StorageError::io(directory, "sync the directory", e))
    }

    #[cold]
    fn misused(&self, detail: String) -> StorageError {
        StorageError::Unwritable { path: self.descriptor.path(Component::Data), detail }
    }
}

#[cold]
fn wrong_width(written: &Descriptor, table: &TableMetadata, wrong: WrongWidth) -> StorageError {
    StorageError::Unwritable { path: written.path(Component::Data), detail: wrong.describe(table) }
}

impl Drop for SSTableWriter {
    fn drop(&mut self) {
        if !self.finished {
            // First close the files, so that nothing writes to them any more.
            (self.data, self.index, self.deletions) = (None, None, None);
            for component in Component::ALL {
                // The files may not exist, and files without a TOC.txt are ignored.
                let _ = self.file_system.remove_file(&self.descriptor.path(component));
            }
        }
    }
}

/// What ends a partition in the stream.
const END_OF_PARTITION: u8 = 1;

impl Partition {
    fn none() -> Self {
        Self {
            key: None,
            deletion: DeletionTime::LIVE,
            begun: false,
            header: None,
            start: 0,
            header_length: 0,
            previous: 0,
            block_start: 0,
            block_first: None,
            open: None,
            promoted: PromotedIndexBuilder::default(),
            first: None,
            last: None,
        }
    }

    /// Ends the current block at `end` of the stream.
    fn end_block(&mut self, end: u64, encoder: &RowEncoder) {
        let (Some(first), Some(last)) = (self.block_first.take(), &self.last) else { return };
        let (offset, width) = (self.block_start - self.start, end - self.block_start);
        let open = self.open.unwrap_or(DeletionTime::LIVE);
        let prefix = |of: &Unfiltered, out: &mut Vec<u8>| encoder.encode_prefix(of, out);
        self.promoted.add(|out| prefix(&first, out), |out| prefix(last, out), offset, width, open);
    }
}
