//! Writing an SSTable and putting it in its place, for flushes and compactions alike.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cassette_rows::schema::{CompressionParams, Compressor};
use cassette_rows::{
    ColumnId, PartitionHeader, PartitionStream, Row, RowBuilder, StorageError, TableMetadata, Unfiltered,
};
use cassette_sstable::compression::ChunkFormat;
use cassette_sstable::reader::OpenOptions;
use cassette_sstable::writer::{EncodingStats, FinishedSSTable, SSTableWriter, WriterOptions};
use cassette_sstable::{Descriptor, SSTableReader};
use hashbrown::HashSet;

use crate::core::Core;
use crate::error::{EngineError, Result};
use crate::memtable::Memtable;
use crate::options::FlushCompression;
use crate::sstable_handle::SSTable;
use crate::table::{Table, View};
use crate::transaction::{CommitError, Committed, OperationType, Transaction};

/// What is known beforehand of the rows to be written.
pub(crate) struct Contents {
    /// Partitions, at most.
    pub expected_keys: u64,
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
            encoding_stats,
            columns: stats.columns().collect(),
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
        (FlushCompression::Fast, Some(Compressor::Zstd | Compressor::Deflate)) => {
            Cow::Owned(CompressionParams {
                compressor: Some(Compressor::Lz4),
                options: Default::default(),
                ..params.clone()
            })
        }
        _ => Cow::Borrowed(params),
    }
}

/// An SSTable to be made.
pub(crate) struct Job<'a> {
    pub operation: OperationType,
    pub contents: Contents,
    pub compression: Cow<'a, CompressionParams>,
    /// The SSTables whose place it takes.
    pub removed: &'a [Arc<SSTable>],
    /// Whether it gives up when compactions are paused.
    pub yields: bool,
}

impl Core {
    /// Writes `stream` to an SSTable of `table`, which takes the place of those that `job` names; none comes if the stream is
    /// empty. `change` is made to the view at the same time. Gives the bytes written.
    ///
    /// After an error nothing has changed; [`EngineError::Cancelled`] if the table was dropped, or a compaction's engine
    /// stopped.
    pub fn replace_sstables(
        self: &Arc<Self>,
        table: &Arc<Table>,
        metadata: &Arc<TableMetadata>,
        job: Job<'_>,
        stream: &mut dyn PartitionStream,
        change: impl FnOnce(&mut View),
    ) -> Result<u64> {
        let descriptor = table.next_descriptor();
        let mut transaction =
            Transaction::begin(self.fs.clone(), &table.directory, job.operation, self.time_uuid())?;
        let operation = job.operation;
        let removed = job.removed;
        let written = transaction
            .add(&descriptor)
            .map_err(EngineError::from)
            .and_then(|()| self.write_sstable(table, metadata, job, descriptor, stream));
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                if let Err(left) = transaction.abort() {
                    tracing::warn!(error = %left, "files of a failed {operation:?} stay until the next start");
                }
                return Err(error);
            }
        };
        if written.is_none() && removed.is_empty() {
            transaction.abort()?;
            table.change_view(change);
            return Ok(0);
        }
        if operation == OperationType::Flush
            && let Some(log) = &*self.log.load()
            && let Err(error) = log.sync()
        {
            // A batch must not be durable in one table and lost in another. If the log has failed, this is all there is.
            tracing::error!(%error, "flushing although the commit log cannot be synced");
        }
        let bytes = written.as_ref().map_or(0, |(finished, _)| finished.bytes_on_disk);
        let descriptors: Vec<_> = removed.iter().map(|sstable| sstable.reader.descriptor().clone()).collect();
        let committed = self.commit(table, transaction, &descriptors)?;
        table.try_change_view(|view| {
            let added = match written {
                Some((_, reader)) if !Arc::ptr_eq(&view.table, metadata) => {
                    vec![Arc::new(self.handle(reader.with_table(view.table.clone())?))]
                }
                Some((_, reader)) => vec![Arc::new(self.handle(reader))],
                None => Vec::new(),
            };
            let removed: HashSet<_> = removed.iter().map(|sstable| sstable.id()).collect();
            view.replace_sstables(&removed, added);
            change(view);
            Ok::<_, StorageError>(())
        })?;
        if let Err(error) = committed.finish() {
            tracing::warn!(%error, "files of replaced SSTables stay until the next start");
        }
        Ok(bytes)
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

    fn write_sstable(
        &self,
        table: &Table,
        metadata: &Arc<TableMetadata>,
        job: Job<'_>,
        descriptor: Descriptor,
        stream: &mut dyn PartitionStream,
    ) -> Result<Option<(FinishedSSTable, SSTableReader)>> {
        let unsupported = |detail| StorageError::Unsupported { path: table.directory.clone(), detail };
        let mut options = WriterOptions::new(metadata, job.contents.expected_keys).map_err(unsupported)?;
        options.compression = ChunkFormat::from_params(&job.compression).map_err(unsupported)?;
        options.encoding_stats = job.contents.encoding_stats;
        options.columns = job.contents.columns;
        let is_compaction = job.operation == OperationType::Compaction;
        let mut writer =
            SSTableWriter::create(self.fs.clone(), descriptor.clone(), metadata.clone(), options)?;
        // Cells of columns that were dropped since they were written have no name to be written under.
        let has_dropped = metadata.columns.iter().any(Option::is_none);
        let mut throttled = 0;
        let mut units = 0u32;
        let mut pace = |writer: &SSTableWriter| {
            units += 1;
            if !units.is_multiple_of(64) {
                return Ok(());
            }
            let stops = is_compaction && self.compaction_wanted.is_stopped();
            let yields = job.yields && table.compactions_yield.load(Ordering::Relaxed) > 0;
            if table.is_dropped() || stops || yields {
                return Err(EngineError::Cancelled);
            }
            if is_compaction {
                let written = writer.bytes_written();
                self.throttle.take(written - throttled, &self.compaction_wanted);
                throttled = written;
            }
            Ok(())
        };
        while let Some(header) = stream.next_partition()? {
            pace(&writer)?;
            writer.begin(if has_dropped { known_header(header, metadata) } else { header })?;
            while let Some(unfiltered) = stream.next_unfiltered()? {
                pace(&writer)?;
                match unfiltered {
                    Unfiltered::Row(row) if has_dropped => {
                        writer.append(&Unfiltered::Row(known_cells(row, metadata)))?;
                    }
                    other => writer.append(&other)?,
                }
            }
            writer.end()?;
        }
        let Some(finished) = writer.finish()? else { return Ok(None) };
        let reader = SSTableReader::open(
            self.fs.clone(),
            descriptor,
            metadata.clone(),
            self.cache.clone(),
            OpenOptions::default(),
        )?;
        Ok(Some((finished, reader)))
    }
}

fn known_header(header: PartitionHeader, table: &TableMetadata) -> PartitionHeader {
    PartitionHeader { static_row: header.static_row.map(|row| known_cells(row, table)), ..header }
}

/// The row without cells of columns that the table has no more; maybe empty.
fn known_cells(row: Row, table: &TableMetadata) -> Row {
    let is_known = |column| table.column_by_id(column).is_some();
    if row.cells().all(|cell| is_known(cell.column))
        && row.complex_deletions().iter().all(|(column, _)| is_known(*column))
    {
        return row;
    }
    let mut out = RowBuilder::with_capacity(row.clustering().clone(), row.cell_count(), row.data_size());
    out.liveness(row.liveness()).deletion(row.deletion());
    for (column, deletion) in row.complex_deletions().iter().filter(|(column, _)| is_known(*column)) {
        out.complex_deletion(*column, *deletion);
    }
    for cell in row.cells().filter(|cell| is_known(cell.column)) {
        out.cell(cell);
    }
    out.finish()
}
