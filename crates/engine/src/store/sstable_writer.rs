//! Writing an SSTable and putting it in its place, for flushes and compactions alike.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cassette_rows::schema::{CompressionParams, Compressor};
use cassette_rows::token::murmur3_hash;
use cassette_rows::{
    ColumnId, DataType, DecoratedKey, PartitionHeader, PartitionStream, Row, StorageError, TableMetadata,
    Unfiltered,
};
use cassette_sstable::compression::ChunkFormat;
use cassette_sstable::reader::{OpenOptions, Salvage};
use cassette_sstable::writer::{EncodingStats, FinishedSSTable, SSTableWriter, WriterOptions};
use cassette_sstable::{Component, Descriptor, PartitionPlace, SSTableReader};
use hashbrown::HashSet;

use crate::basics::error::{EngineError, Result};
use crate::basics::options::FlushCompression;
use crate::basics::partition_observer::{PartitionObserver, WrittenPartition, WrittenRow};
use crate::memory::memtable::Memtable;
use crate::store::core::Core;
use crate::store::progress::Running;
use crate::store::sstable_handle::SSTable;
use crate::store::table::{Table, View};
use crate::store::transaction::{CommitError, Committed, OperationType, Transaction};
use crate::strategies::cut::Cutter;

/// What is known beforehand of the rows to be written.
pub(crate) struct Contents {
    /// Partitions, at most.
    pub expected_keys: u64,
    /// Bytes of Data on disk, at most; 0 if not known.
    pub bytes: u64,
    /// The tokens of the first and the last partition.
    pub tokens: (i64, i64),
    pub encoding_stats: EncodingStats,
    /// The columns that may occur.
    pub columns: Vec<ColumnId>,
}

impl Contents {
    pub fn of_memtable(memtable: &Memtable) -> Self {
        let stats = memtable.stats();
        let mut encoding_stats = EncodingStats::default();
        if stats.min_timestamp != i64::MAX {
            let ttl = if stats.min_ttl == u32::MAX { cassette_rows::NO_TTL } else { stats.min_ttl };
            encoding_stats.add(stats.min_timestamp, ttl, stats.min_local_deletion_time);
        }
        Self {
            expected_keys: memtable.partition_count() as u64,
            bytes: 0,
            tokens: (i64::MIN, i64::MAX),
            encoding_stats,
            columns: stats.columns().collect(),
        }
    }

    /// Of one SSTable, which may be damaged.
    pub fn of_salvage(salvage: &Salvage, table: &TableMetadata) -> Self {
        let header = &salvage.statistics().header;
        let columns = header.static_columns.iter().chain(&header.regular_columns);
        let known = columns.filter_map(|column| {
            table.columns.iter().flatten().find(|known| known.name == column.name).map(|known| known.id)
        });
        let keys = u64::try_from(salvage.statistics().stats.partition_sizes.count()).unwrap_or(0);
        Self {
            expected_keys: keys.max(u64::from(table.params.min_index_interval)),
            bytes: salvage.data_bytes_on_disk(),
            tokens: (i64::MIN, i64::MAX),
            encoding_stats: EncodingStats::of_header(header),
            columns: known.collect(),
        }
    }

    /// Of a compaction's inputs together.
    pub fn of_sstables(sstables: &[Arc<SSTable>], table: &TableMetadata) -> Self {
        let mut encoding_stats = EncodingStats::default();
        let mut columns = HashSet::new();
        for sstable in sstables {
            let header = sstable.reader.header();
            encoding_stats.merge(&EncodingStats::of_header(header));
            for column in header.static_columns.iter().chain(&header.regular_columns) {
                let known = table.columns.iter().flatten().find(|known| known.name == column.name);
                columns.extend(known.map(|known| known.id));
            }
        }
        Self {
            expected_keys: sstables.iter().map(|sstable| sstable.reader.estimated_keys()).sum(),
            bytes: sstables.iter().map(|sstable| sstable.reader.data_bytes_on_disk()).sum(),
            tokens: sstables
                .iter()
                .map(|sstable| sstable.tokens())
                .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
                .unwrap_or((i64::MIN, i64::MAX)),
            encoding_stats,
            columns: columns.into_iter().collect(),
        }
    }
}

/// How a table's first SSTables are compressed.
pub(crate) fn flush_compression(
    params: &CompressionParams,
    flush: FlushCompression,
) -> Cow<'_, CompressionParams> {
    match (flush, params.compressor) {
        (FlushCompression::None, Some(_)) => {
            Cow::Owned(CompressionParams { compressor: None, ..params.clone() })
        }
        (FlushCompression::Fast, Some(compressor)) if !is_fast(compressor, params) => {
            Cow::Owned(CompressionParams::default())
        }
        _ => Cow::Borrowed(params),
    }
}

/// Chunks that shrink by less are stored raw where the table does not say. What hardly compresses is then read without
/// being decompressed, for an eighth more on disk at most; LevelDB and RocksDB have the same rule.
const MIN_COMPRESS_RATIO: f64 = 8.0 / 7.0;

/// How the table's options have its SSTables compressed.
fn chunk_format(params: &CompressionParams) -> Result<Option<ChunkFormat>, String> {
    let min_compress_ratio = params.min_compress_ratio.or(Some(MIN_COMPRESS_RATIO));
    ChunkFormat::from_params(&CompressionParams { min_compress_ratio, ..params.clone() })
}

/// Whether Cassandra calls a compressor fast.
fn is_fast(compressor: Compressor, params: &CompressionParams) -> bool {
    match compressor {
        Compressor::Lz4 => params.options.get("lz4_compressor_type").is_none_or(|kind| kind != "high"),
        Compressor::Snappy | Compressor::Noop => true,
        Compressor::Zstd | Compressor::Deflate => false,
    }
}

/// SSTables to be made.
pub(crate) struct Job<'a> {
    pub operation: OperationType,
    pub contents: Contents,
    pub compression: Cow<'a, CompressionParams>,
    /// The SSTables whose place they take.
    pub removed: &'a [Descriptor],
    /// Those of them that are read, whose keys in the key cache are carried over.
    pub inputs: &'a [Arc<SSTable>],
    /// Where one ends and the next begins.
    pub cutter: Cutter,
    /// The compaction that this is, if it is one.
    pub running: Option<&'a Running>,
    /// Whether it gives up when compactions are paused.
    pub yields: bool,
    /// Whether nothing waits for it: it reads more slowly.
    pub is_gentle: bool,
}

/// An SSTable that was written, and is not seen yet.
struct Written {
    finished: FinishedSSTable,
    reader: SSTableReader,
    hot: Vec<HotKey>,
}

/// The hash of a key that the key cache holds for an input of a compaction, and where it lies in the output.
type HotKey = ((u64, u64), PartitionPlace);

impl Core {
    /// Writes `stream` to SSTables of `table`, which take the place of those that `job` names; none come if the stream is
    /// empty. `change` is made to the view at the same time. Gives what was written.
    ///
    /// After an error nothing has changed; [`EngineError::Cancelled`] if the table was dropped, or a compaction was stopped.
    pub fn replace_sstables(
        self: &Arc<Self>,
        table: &Arc<Table>,
        metadata: &Arc<TableMetadata>,
        job: Job<'_>,
        stream: &mut dyn PartitionStream,
        change: impl FnOnce(&mut View),
    ) -> Result<Vec<FinishedSSTable>> {
        let mut transaction =
            Transaction::begin(self.fs.clone(), &table.directory, job.operation, self.time_uuid())?;
        let operation = job.operation;
        let removed = job.removed;
        let inputs = job.inputs;
        let written = match self.write_sstables(table, metadata, job, &mut transaction, stream) {
            Ok(written) => written,
            Err(error) => {
                if let Err(left) = transaction.abort() {
                    tracing::warn!(error = %left, "files of a failed {operation:?} stay until the next start");
                }
                return Err(error);
            }
        };
        if written.is_empty() && removed.is_empty() {
            transaction.abort()?;
            table.rearrange_view(change);
            return Ok(Vec::new());
        }
        if operation == OperationType::Flush
            && let Some(log) = &*self.log.load()
            && let Err(error) = log.sync()
        {
            // A batch must not be durable in one table and lost in another. If the log has failed, this is all there is.
            tracing::error!(%error, "flushing although the commit log cannot be synced");
        }
        let committed = self.commit(table, transaction, removed)?;
        let mut finished = Vec::with_capacity(written.len());
        let mut readers = Vec::with_capacity(written.len());
        let mut hot = Vec::with_capacity(written.len());
        for written in written {
            finished.push(written.finished);
            readers.push(written.reader);
            hot.push(written.hot);
        }
        let added = table.try_rearrange_view(|view| {
            match operation {
                OperationType::Flush => {}
                OperationType::Compaction => view.purges += 1,
                OperationType::Truncate | OperationType::Import => view.contents += 1,
                // Rows may be gone, or come back, and tombstones with them.
                OperationType::Scrub => {
                    view.purges += 1;
                    view.contents += 1;
                }
            }
            let of_now = |reader: SSTableReader| match Arc::ptr_eq(&view.table, metadata) {
                true => Ok(reader),
                false => reader.with_table(view.table.clone()),
            };
            let added = readers
                .into_iter()
                .map(|reader| Ok(Arc::new(self.handle(of_now(reader)?))))
                .collect::<Result<Vec<_>, StorageError>>()?;
            let removed: HashSet<_> = removed.iter().map(|sstable| sstable.id).collect();
            view.replace_sstables(&removed, added.clone());
            change(view);
            Ok::<_, StorageError>(added)
        })?;
        for (sstable, hot) in added.iter().zip(hot) {
            for (hash, place) in hot {
                inputs.iter().for_each(|old| old.reader.forget(hash));
                sstable.reader.remember(hash, place);
            }
        }
        if let Err(error) = committed.finish() {
            tracing::warn!(%error, "files of replaced SSTables stay until the next start");
        }
        Ok(finished)
    }

    /// Commits a transaction of the table. If the outcome is unknown, compactions of the table end until the next start: an
    /// SSTable that nobody sees may come back then, and must find the tombstones that cover its data.
    pub fn commit(
        &self,
        table: &Table,
        transaction: Transaction,
        removed: &[Descriptor],
    ) -> Result<Committed> {
        transaction.commit(removed).map_err(|error| match error {
            CommitError::Undone(error) => error.into(),
            CommitError::Unknown(error) => {
                tracing::error!(
                    table = table.metadata().qualified_name(),
                    %error,
                    "whether new SSTables count is unknown until the next start; no compaction runs until then"
                );
                table.compaction.lock().forbidden = Some(error.to_string());
                error.into()
            }
        })
    }

    fn write_sstables(
        &self,
        table: &Table,
        metadata: &Arc<TableMetadata>,
        job: Job<'_>,
        transaction: &mut Transaction,
        stream: &mut dyn PartitionStream,
    ) -> Result<Vec<Written>> {
        let unsupported = |detail| StorageError::Unsupported { path: table.directory.clone(), detail };
        let mut options = WriterOptions::new(metadata, job.contents.expected_keys).map_err(unsupported)?;
        options.compression = chunk_format(&job.compression).map_err(unsupported)?;
        options.encoding_stats = job.contents.encoding_stats;
        options.columns = job.contents.columns.clone();
        options.column_index_size = self.options.column_index_size;
        options.now_seconds = self.now_seconds();
        // Compactions keep several processors busy as it is, by being several.
        options.pipelined = self.options.background_threads && job.operation == OperationType::Flush;
        let mut begin = |cutter: &Cutter| {
            let descriptor = table.next_descriptor();
            transaction.add(&descriptor)?;
            let mut options = options.clone();
            let (first, last) = job.contents.tokens;
            options.expected_keys =
                cutter.expected_keys(job.contents.expected_keys, job.contents.bytes, first, last);
            options.level = i32::try_from(cutter.level()).unwrap_or(0);
            SSTableWriter::create(self.fs.clone(), descriptor, metadata.clone(), options)
        };
        let mut pace = Pace {
            core: self,
            table,
            running: job.running,
            yields: job.yields,
            is_gentle: job.is_gentle,
            units: 0,
            taken: 0,
        };
        let scrubs = job.operation == OperationType::Scrub;
        let mut cutter = job.cutter;
        let mut written = Vec::new();
        let mut writer: Option<SSTableWriter> = None;
        let mut hot = Vec::new();
        let migrates = self.options.key_cache_migrate_during_compaction
            && metadata.params.caching.keys
            && !self.key_cache.is_empty();
        let inputs = if migrates { job.inputs } else { &[] };
        let mut last_token = 0;
        let row_observer =
            self.options.partition_observer.as_deref().filter(|_| has_multi_cell_collections(metadata));
        while let Some(header) = stream.next_partition()? {
            pace.step()?;
            let token = header.key.token().0;
            // What a scrub found out of order begins anew.
            let goes_back =
                |at: &SSTableWriter| scrubs && at.last_key().is_some_and(|last| *last >= header.key);
            let ended =
                writer.take_if(|at| cutter.ends(at.bytes_written(), last_token, token) || goes_back(at));
            if let Some(ended) = ended {
                written.extend(self.finish_sstable(ended, metadata, std::mem::take(&mut hot))?);
            }
            let key_hash = (!inputs.is_empty())
                .then(|| murmur3_hash(header.key.key()))
                .filter(|hash| inputs.iter().any(|input| input.reader.remembers(*hash)));
            last_token = token;
            let writer = match &mut writer {
                Some(writer) => writer,
                none => none.insert(begin(&cutter)?),
            };
            let rows = RowsOfPartition::new(row_observer, metadata, &header, options.now_seconds);
            writer.begin(header)?;
            while let Some(unfiltered) = stream.next_unfiltered()? {
                pace.step()?;
                if let (Some(rows), Unfiltered::Row(row)) = (&rows, &unfiltered) {
                    rows.pass_on(row);
                }
                writer.append(unfiltered)?;
            }
            writer.end()?;
            self.observe_partition(writer, metadata);
            if let (Some(hash), Some(place)) = (key_hash, writer.last_place()) {
                hot.push((hash, place));
            }
        }
        if let Some(writer) = writer {
            written.extend(self.finish_sstable(writer, metadata, hot)?);
        }
        Ok(written)
    }

    fn observe_partition(&self, writer: &SSTableWriter, metadata: &TableMetadata) {
        let (Some(observer), Some(key)) = (&self.options.partition_observer, writer.last_key()) else {
            return;
        };
        let size = writer.last_size();
        if observer.wants(size) {
            let path = &writer.descriptor().path(Component::Data);
            observer.written(WrittenPartition { table: metadata, key, size, path });
        }
    }

    fn finish_sstable(
        &self,
        writer: SSTableWriter,
        metadata: &Arc<TableMetadata>,
        hot: Vec<HotKey>,
    ) -> Result<Option<Written>> {
        let descriptor = writer.descriptor().clone();
        let Some(finished) = writer.finish()? else { return Ok(None) };
        let reader = SSTableReader::open(
            self.fs.clone(),
            descriptor,
            metadata.clone(),
            self.cache.clone(),
            OpenOptions::default(),
        )?;
        Ok(Some(Written { finished, reader, hot }))
    }
}

/// Whether a table has collections with a cell for each element.
fn has_multi_cell_collections(table: &TableMetadata) -> bool {
    table.columns.iter().flatten().any(|column| {
        let data_type = &column.data_type;
        let is_collection =
            matches!(data_type, DataType::List { .. } | DataType::Set { .. } | DataType::Map { .. });
        is_collection && data_type.is_multi_cell()
    })
}

/// Passes the rows of one partition to the observer.
struct RowsOfPartition<'a> {
    observer: &'a dyn PartitionObserver,
    table: &'a TableMetadata,
    key: DecoratedKey,
    now: u32,
}

impl<'a> RowsOfPartition<'a> {
    /// `None` if the rows are of no interest. The static row is passed on at once.
    fn new(
        observer: Option<&'a dyn PartitionObserver>,
        table: &'a TableMetadata,
        header: &PartitionHeader,
        now: u32,
    ) -> Option<Self> {
        let observer = observer.filter(|observer| observer.wants_rows(table))?;
        let rows = Self { observer, table, key: header.key.clone(), now };
        header.static_row.iter().for_each(|row| rows.pass_on(row));
        Some(rows)
    }

    fn pass_on(&self, row: &Row) {
        self.observer.row(WrittenRow { table: self.table, key: &self.key, row, now: self.now });
    }
}

/// Looks now and then whether writing is to go on, and slows compactions down to what they may read.
struct Pace<'a> {
    core: &'a Core,
    table: &'a Table,
    running: Option<&'a Running>,
    yields: bool,
    is_gentle: bool,
    units: u32,
    /// Bytes on disk that the throttle knows of.
    taken: u64,
}

impl Pace<'_> {
    /// To be called at each partition, row and marker.
    #[inline]
    fn step(&mut self) -> Result<()> {
        self.units += 1;
        if self.units.is_multiple_of(64) { self.look() } else { Ok(()) }
    }

    fn look(&mut self) -> Result<()> {
        if self.table.is_dropped() {
            return Err(EngineError::Cancelled);
        }
        let Some(running) = self.running else { return Ok(()) };
        let stop = &self.core.compaction_wanted;
        let read = running.disk_bytes.load(Ordering::Relaxed);
        let gives_up = || {
            let yields = self.yields && self.table.compactions_yield.load(Ordering::Relaxed) > 0;
            yields || stop.is_stopped() || self.table.is_dropped()
        };
        let stops = || running.is_stopped() || gives_up();
        self.core.throttle.take(read - self.taken, stops);
        if self.is_gentle {
            self.core.gentle_throttle.take(read - self.taken, stops);
        }
        if gives_up() {
            return Err(EngineError::Cancelled);
        }
        self.taken = read;
        if running.is_stopped() {
            return Err(EngineError::CompactionStopped { table: self.table.metadata().qualified_name() });
        }
        Ok(())
    }
}
