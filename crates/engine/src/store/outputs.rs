//! New SSTables of a table, from their first partition until they are published in its view.

use std::sync::Arc;

use cassette_rows::schema::CompressionParams;
use cassette_rows::token::murmur3_hash;
use cassette_rows::{
    DecoratedKey, PartitionHeader, PartitionStream, StorageError, TableMetadata, Unfiltered,
};
use cassette_sstable::reader::OpenOptions;
use cassette_sstable::writer::{FinishedSSTable, SSTableWriter, WriterOptions};
use cassette_sstable::{Component, Descriptor, PartitionPlace, SSTableReader};
use hashbrown::HashSet;

use super::compression::chunk_format;
use super::contents::Contents;
use super::core::Core;
use super::observed_rows::ObservedRows;
use super::sstable_handle::SSTable;
use super::table::{Table, View};
use super::transaction::{CommitError, Committed, OperationType, Transaction};
use crate::basics::error::Result;
use crate::basics::partition_observer::WrittenPartition;
use crate::strategies::cut::Cutter;

/// New SSTables of a table: written in one transaction, and then published together in place of
/// others.
///
/// Dropping it before [`publish`](Self::publish) removes the written files; nothing has changed
/// then.
pub(crate) struct OutputSet<'a> {
    core: &'a Arc<Core>,
    table: &'a Arc<Table>,
    /// The version of the table by which rows are written.
    metadata: Arc<TableMetadata>,
    /// `None` once it has been committed or aborted.
    transaction: Option<Transaction>,
    contents: Contents,
    options: WriterOptions,
    cutter: Cutter,
    /// SSTables whose cached keys move to the outputs.
    migrated: &'a [Arc<SSTable>],
    writer: Option<SSTableWriter>,
    rows: ObservedRows<'a>,
    /// The hash of the current partition's key if a cached key moves to the current output.
    hash: Option<(u64, u64)>,
    hot: Vec<HotKey>,
    last_token: i64,
    written: Vec<Output>,
}

/// An SSTable that is complete, but not in the view.
struct Output {
    finished: FinishedSSTable,
    reader: SSTableReader,
    hot: Vec<HotKey>,
}

/// The hash of a key that the key cache has for an input, and its position in the output.
type HotKey = ((u64, u64), PartitionPlace);

impl<'a> OutputSet<'a> {
    /// Begins a transaction for SSTables of `table` that have rows by `metadata`. `cutter` decides
    /// where one ends and the next begins.
    pub fn begin(
        core: &'a Arc<Core>,
        table: &'a Arc<Table>,
        metadata: &Arc<TableMetadata>,
        operation: OperationType,
        compression: &CompressionParams,
        contents: Contents,
        cutter: Cutter,
    ) -> Result<Self> {
        let unsupported = |detail| StorageError::Unsupported { path: table.directory.clone(), detail };
        let mut options = WriterOptions::new(metadata, contents.expected_keys).map_err(unsupported)?;
        options.compression = chunk_format(compression).map_err(unsupported)?;
        options.encoding_stats = contents.encoding_stats;
        options.columns = contents.columns.clone();
        options.column_index_size = core.options.column_index_size;
        options.now_seconds = core.now_seconds();
        let observer = core.options.partition_observer.as_deref();
        let rows = ObservedRows::new(observer, metadata, options.now_seconds);
        let transaction = Transaction::begin(core.fs.clone(), &table.directory, operation, core.time_uuid())?;
        Ok(Self {
            core,
            table,
            metadata: metadata.clone(),
            transaction: Some(transaction),
            contents,
            options,
            cutter,
            migrated: &[],
            writer: None,
            rows,
            hash: None,
            hot: Vec::new(),
            last_token: 0,
            written: Vec::new(),
        })
    }

    /// Compresses and writes in a second thread, if the engine has background threads.
    pub fn pipelined(mut self) -> Self {
        self.options.pipelined = self.core.options.background_threads;
        self
    }

    /// Leaves the outputs in the operating system's memory only if most of the `inputs` are there:
    /// then they are read often, and the outputs will be. Otherwise outputs of a large compaction
    /// would evict what is read.
    pub fn match_page_cache_of(mut self, inputs: &[Arc<SSTable>]) -> Self {
        let cached: Option<u64> = inputs.iter().map(|input| input.reader.data_bytes_cached()).sum();
        let all: u64 = inputs.iter().map(|input| input.reader.data_bytes_on_disk()).sum();
        self.options.is_cold = cached.is_some_and(|cached| cached < all / 2);
        self
    }

    /// Moves the keys that the key cache has for `inputs` to the outputs, if that is enabled.
    pub fn migrate_keys_of(mut self, inputs: &'a [Arc<SSTable>]) -> Self {
        let migrates = self.core.options.key_cache_migrate_during_compaction
            && self.metadata.params.caching.keys
            && !self.core.key_cache.is_empty();
        if migrates {
            self.migrated = inputs;
        }
        self
    }

    /// Returns whether no row was written.
    pub fn is_empty(&self) -> bool {
        self.writer.is_none() && self.written.is_empty()
    }

    /// Returns the last key of the current output; `None` if the next partition begins one.
    pub fn last_key(&self) -> Option<&DecoratedKey> {
        self.writer.as_ref()?.last_key()
    }

    /// Writes a stream to its end. Calls `checkpoint` before each partition, row and marker; its
    /// error ends the writing.
    pub fn write(
        &mut self,
        stream: &mut dyn PartitionStream,
        mut checkpoint: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        while let Some(header) = stream.next_partition()? {
            checkpoint()?;
            self.begin_partition(header)?;
            while let Some(unfiltered) = stream.next_unfiltered()? {
                checkpoint()?;
                self.append(unfiltered)?;
            }
            self.end_partition()?;
        }
        self.end_output()
    }

    /// Begins a partition, in a new output if the current one ends before it.
    pub fn begin_partition(&mut self, header: PartitionHeader) -> Result<()> {
        let token = header.key.token().0;
        let written = self.writer.as_ref().map(SSTableWriter::bytes_written);
        if written.is_some_and(|written| self.cutter.ends(written, self.last_token, token)) {
            self.end_output()?;
        }
        self.last_token = token;
        self.hash = (!self.migrated.is_empty())
            .then(|| murmur3_hash(header.key.key()))
            .filter(|hash| self.migrated.iter().any(|input| input.reader.remembers(*hash)));
        self.rows.begin(&self.metadata, &header);
        self.begin_output()?.begin(header)?;
        Ok(())
    }

    /// The current output, which is created if there is none.
    fn begin_output(&mut self) -> Result<&mut SSTableWriter> {
        let none = match &mut self.writer {
            Some(writer) => return Ok(writer),
            none => none,
        };
        let descriptor = self.table.next_descriptor();
        if let Some(transaction) = &mut self.transaction {
            transaction.add(&descriptor)?;
        }
        let mut options = self.options.clone();
        let Contents { expected_keys, bytes, tokens: (first, last), .. } = self.contents;
        options.expected_keys = self.cutter.expected_keys(expected_keys, bytes, first, last);
        options.level = i32::try_from(self.cutter.level()).unwrap_or(0);
        let writer = SSTableWriter::create(self.core.fs.clone(), descriptor, self.metadata.clone(), options)?;
        Ok(none.insert(writer))
    }

    /// Appends a row or marker to the current partition.
    #[inline]
    pub fn append(&mut self, unfiltered: Unfiltered) -> Result<()> {
        self.rows.append(&self.metadata, &unfiltered);
        Ok(self.begin_output()?.append(unfiltered)?)
    }

    /// Ends the current partition.
    pub fn end_partition(&mut self) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.end()?;
        if let (Some(hash), Some(place)) = (self.hash, writer.last_place()) {
            self.hot.push((hash, place));
        }
        if let (Some(observer), Some(key)) = (&self.core.options.partition_observer, writer.last_key())
            && observer.wants(writer.last_size())
        {
            let (size, path) = (writer.last_size(), &writer.descriptor().path(Component::Data));
            observer.written(WrittenPartition { table: &self.metadata, key, size, path });
        }
        Ok(())
    }

    /// Completes the current output; the next partition begins another.
    pub fn end_output(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let hot = std::mem::take(&mut self.hot);
        let descriptor = writer.descriptor().clone();
        let Some(finished) = writer.finish()? else { return Ok(()) };
        let core = self.core;
        let reader = SSTableReader::open(
            core.fs.clone(),
            descriptor,
            self.metadata.clone(),
            core.cache.clone(),
            OpenOptions::default(),
        )
        .map_err(unreadable_output)?;
        self.written.push(Output { finished, reader, hot });
        Ok(())
    }

    /// Commits the transaction, and replaces `removed` in the view by what was written; `change` is
    /// made to the view at the same time. Returns what was written.
    ///
    /// After an error the view has not changed, and unless compactions of the table are forbidden
    /// by then, nothing else has.
    pub fn publish(
        mut self,
        removed: &[Descriptor],
        change: impl FnOnce(&mut View),
    ) -> Result<Vec<FinishedSSTable>> {
        self.end_output()?;
        let Some(transaction) = self.transaction.take() else { return Ok(Vec::new()) };
        if self.written.is_empty() && removed.is_empty() {
            transaction.abort()?;
            self.table.rearrange_view(change);
            return Ok(Vec::new());
        }
        let committed = self.core.commit(self.table, transaction, removed)?;
        let mut finished = Vec::with_capacity(self.written.len());
        let mut readers = Vec::with_capacity(self.written.len());
        let mut hot = Vec::with_capacity(self.written.len());
        for output in std::mem::take(&mut self.written) {
            finished.push(output.finished);
            readers.push(output.reader);
            hot.push(output.hot);
        }
        let added = self.table.try_rearrange_view(|view| {
            // The table may have been altered since.
            let altered = !Arc::ptr_eq(&view.table, &self.metadata);
            let current = |reader: SSTableReader| {
                if altered { reader.with_table(view.table.clone()) } else { Ok(reader) }
            };
            let added = readers
                .into_iter()
                .map(|reader| Ok(Arc::new(self.core.handle(current(reader)?))))
                .collect::<Result<Vec<_>, StorageError>>()?;
            let removed: HashSet<_> = removed.iter().map(|sstable| sstable.id).collect();
            view.replace_sstables(&removed, added.clone());
            change(view);
            Ok::<_, StorageError>(added)
        });
        // The files of the outputs count, although no view has them.
        let added = added.inspect_err(|error| self.core.forbid_compactions(self.table, error))?;
        for (sstable, hot) in added.iter().zip(hot) {
            for (hash, place) in hot {
                self.migrated.iter().for_each(|old| old.reader.forget(hash));
                sstable.reader.remember(hash, place);
            }
        }
        if let Err(error) = committed.finish() {
            tracing::warn!(%error, "files of replaced SSTables stay until the next start");
        }
        Ok(finished)
    }
}

/// A new SSTable that cannot be opened is not damage of an existing one.
fn unreadable_output(error: StorageError) -> StorageError {
    match error {
        StorageError::Corrupt { path, detail } => StorageError::Unwritable {
            path,
            detail: format!("it is corrupt when it is read again: {detail}"),
        },
        error => error,
    }
}

impl Drop for OutputSet<'_> {
    fn drop(&mut self) {
        // Files are closed before they are removed.
        self.writer = None;
        self.written.clear();
        // After a panic the engine stops, and the next start removes the files.
        if let Some(transaction) = self.transaction.take().filter(|_| !std::thread::panicking())
            && let Err(error) = transaction.abort()
        {
            tracing::warn!(%error, "files of SSTables that were given up stay until the next start");
        }
    }
}

impl Core {
    /// Commits a transaction of the table. If the outcome is unknown, compactions of the table are
    /// forbidden.
    pub fn commit(
        &self,
        table: &Table,
        transaction: Transaction,
        removed: &[Descriptor],
    ) -> Result<Committed> {
        transaction.commit(removed).map_err(|error| match error {
            CommitError::Undone(error) => error.into(),
            CommitError::Unknown(error) => {
                self.forbid_compactions(table, &error);
                error.into()
            }
        })
    }

    /// Forbids compactions of the table until the next start: SSTables that no view has may be
    /// loaded then, and must find the tombstones that cover their data.
    pub fn forbid_compactions(&self, table: &Table, cause: &StorageError) {
        tracing::error!(
            table = table.metadata().qualified_name(),
            error = %cause,
            "the next start determines which SSTables the table has; no compaction runs until then"
        );
        table.compaction.lock().forbidden = Some(cause.to_string());
    }
}
