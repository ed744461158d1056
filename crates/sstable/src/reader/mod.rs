//! An SSTable opened for reading.
//!
//! Summary, Filter, Statistics and the chunks' offsets are in memory. Data and Index are read
//! through the [`ChunkCache`], and every chunk from the disk is verified.

mod deletions;
mod index_cursor;
mod open;
mod partition;
mod probe;
mod reverse;
mod rows;
mod salvage;
mod scan;
mod slicing;
mod stored;
mod trail;

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use cassette_rows::token::murmur3_hash;
use cassette_rows::{
    Clustering, DecoratedKey, DeletionTime, Result, Selection, Side, Slices, StorageError, TableMetadata,
};
use cassette_vfs::FileSystem;

pub use index_cursor::IndexCursor;
pub use open::{ForeignFiles, OpenOptions};
pub use partition::{Found, PartitionRead};
pub use probe::Probe;
pub use salvage::Salvage;
pub use scan::{Scan, WholeScan};
pub use stored::StoredComponent;

use crate::chunk_cache::ChunkCache;
use crate::chunked_file::{Caching, ChunkedFile, Layout};
use crate::data::{Cursor, RowFormat};
use crate::descriptor::{Component, Descriptor};
use crate::filter::BloomFilter;
use crate::key_cache::{KeyCache, Remembered};
use crate::large_partition::PartitionPlace;
use crate::statistics::{SerializationHeader, Statistics, Stats};
use crate::summary::Summary;

/// An open SSTable. Immutable and cheap to clone; files stay open until the last clone and stream
/// is dropped.
#[derive(Clone)]
pub struct SSTableReader {
    shared: Arc<Shared>,
    table: Arc<TableMetadata>,
    format: Arc<RowFormat>,
    keys: Option<RememberedKeys>,
}

/// The key cache, and the number of this SSTable in it.
#[derive(Debug, Clone)]
struct RememberedKeys {
    cache: Arc<KeyCache>,
    sstable: u64,
}

struct Shared {
    file_system: Arc<dyn FileSystem>,
    descriptor: Descriptor,
    components: Vec<Component>,
    data: Arc<ChunkedFile>,
    index: Arc<ChunkedFile>,
    summary: Summary,
    filter: Option<BloomFilter>,
    statistics: Statistics,
    /// The range of all rows and markers; `None` if there are none, or it is unknown.
    min_clustering: Clustering,
    max_clustering: Clustering,
    bytes_on_disk: u64,
    /// Whether Checksums.db covers the components without checksums.
    checksummed: bool,
    /// Whether filter and summary match the index.
    index_confirmed: bool,
}

/// Identifies an SSTable by its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// The CRC-32 of Data, from Digest.crc32.
    pub data_crc: u32,
    /// Bytes of Data before compression.
    pub data_length: u64,
    /// Bytes of Index.
    pub index_length: u64,
}

impl fmt::Debug for SSTableReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SSTableReader({})", self.shared.descriptor)
    }
}

impl SSTableReader {
    /// Returns its location and file names.
    pub fn descriptor(&self) -> &Descriptor {
        &self.shared.descriptor
    }

    /// Returns its components.
    pub fn components(&self) -> &[Component] {
        &self.shared.components
    }

    /// The table whose rows it reads.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// Returns the same SSTable for an altered table.
    pub fn with_table(&self, table: Arc<TableMetadata>) -> Result<Self> {
        let descriptor = &self.shared.descriptor;
        let format = RowFormat::of_version(self.header(), &table, descriptor.version);
        let format = format.map_err(|detail| StorageError::Unsupported {
            path: descriptor.path(Component::Statistics),
            detail,
        })?;
        Ok(Self { shared: self.shared.clone(), table, format: Arc::new(format), keys: self.keys.clone() })
    }

    /// Returns the same SSTable with a key cache, if its table enables that (`caching`, `keys`).
    pub fn with_key_cache(mut self, cache: Arc<KeyCache>) -> Self {
        self.keys = Some(RememberedKeys { sstable: cache.register(), cache });
        self
    }

    /// Returns the key cache, if it has one, for reads that fill caches, if its table enables that.
    #[inline]
    fn remembered_keys(&self, caching: Caching) -> Option<&RememberedKeys> {
        self.keys.as_ref().filter(|_| caching == Caching::Use && self.table.params.caching.keys)
    }

    /// Returns its number in the key cache, if it has one.
    pub fn key_cache_number(&self) -> Option<u64> {
        self.keys.as_ref().map(|keys| keys.sstable)
    }

    /// Adds a saved position of this very SSTable (see [`fingerprint`](Self::fingerprint)) to its
    /// key cache: returns whether it is valid, and the table caches keys.
    pub fn remember(&self, hash: (u64, u64), place: PartitionPlace) -> bool {
        let Some(keys) = self.keys.as_ref().filter(|_| self.table.params.caching.keys) else { return false };
        let promoted_end = place.promoted_start.checked_add(place.promoted_length.into());
        let fits = place.position < self.shared.data.data_length()
            && promoted_end.is_some_and(|end| end <= self.shared.index.data_length());
        if fits {
            keys.cache.insert(keys.sstable, hash, Remembered::at(place));
        }
        fits
    }

    /// Returns whether its key cache contains a key with this hash. Not counted as a request.
    #[inline]
    pub fn remembers(&self, hash: (u64, u64)) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.cache.knows(keys.sstable, hash))
    }

    /// Removes a position from its key cache.
    pub fn forget(&self, hash: (u64, u64)) {
        if let Some(keys) = &self.keys {
            keys.cache.remove(keys.sstable, hash);
        }
    }

    /// Returns a fingerprint that distinguishes it from another SSTable of the same name; `None`
    /// without Digest.crc32.
    pub fn fingerprint(&self) -> Result<Option<Fingerprint>> {
        if !self.shared.components.contains(&Component::Digest) {
            return Ok(None);
        }
        let path = self.shared.descriptor.path(Component::Digest);
        let text = self.shared.file_system.read(&path).map_err(|e| StorageError::io(&path, "read", e))?;
        let data_crc = crate::digest::decode(&text).map_err(|e| e.at(&path))?;
        let data_length = self.shared.data.data_length();
        Ok(Some(Fingerprint { data_crc, data_length, index_length: self.shared.index.data_length() }))
    }

    /// Returns the statistics of its rows.
    pub fn stats(&self) -> &Stats {
        &self.shared.statistics.stats
    }

    /// Returns the content of Statistics.db.
    pub fn statistics(&self) -> &Statistics {
        &self.shared.statistics
    }

    /// Returns the encoding of its rows.
    pub fn header(&self) -> &SerializationHeader {
        &self.shared.statistics.header
    }

    /// The smallest partition key.
    pub fn first_key(&self) -> &DecoratedKey {
        &self.shared.summary.first
    }

    /// The largest partition key.
    pub fn last_key(&self) -> &DecoratedKey {
        &self.shared.summary.last
    }

    /// Returns the sample of its index.
    pub fn summary(&self) -> &Summary {
        &self.shared.summary
    }

    /// Returns the approximate number of partitions: exact except for the last interval of the
    /// summary.
    pub fn estimated_keys(&self) -> u64 {
        let counted = self.stats().partition_sizes.count();
        match u64::try_from(counted) {
            Ok(counted) if counted > 0 => counted,
            _ => self.shared.summary.estimated_keys(),
        }
    }

    /// Bytes of all its files.
    pub fn bytes_on_disk(&self) -> u64 {
        self.shared.bytes_on_disk
    }

    /// Bytes of its Data file.
    pub fn data_bytes_on_disk(&self) -> u64 {
        self.shared.data.file_length()
    }

    /// Lets the operating system drop its Data file from memory: it has been replaced. Its bytes
    /// would otherwise stay as long as a snapshot or a backup links the file.
    pub fn drop_from_page_cache(&self) {
        self.shared.data.will_not_need();
    }

    /// Returns how many bytes of its Data file the operating system has in memory; `None` if that
    /// is unknown.
    pub fn data_bytes_cached(&self) -> Option<u64> {
        self.shared.data.cached_bytes()
    }

    /// Bytes of its rows before compression.
    pub fn uncompressed_bytes(&self) -> u64 {
        self.shared.data.data_length()
    }

    /// Bytes held in memory by its filter.
    pub fn filter_heap_size(&self) -> usize {
        self.shared.filter.as_ref().map_or(0, BloomFilter::heap_size)
    }

    /// Bytes held in memory by its summary.
    pub fn summary_heap_size(&self) -> usize {
        self.shared.summary.heap_size()
    }

    /// Returns the heap bytes of the offsets of its compressed chunks.
    pub fn compression_heap_size(&self) -> usize {
        match self.shared.data.layout() {
            Layout::Compressed(info) => info.heap_size(),
            Layout::Plain { .. } => 0,
        }
    }

    /// Returns the heap bytes of the checksums of its rows and of its index.
    pub fn checksums_heap_size(&self) -> usize {
        self.shared.data.checksums_heap_size() + self.shared.index.checksums_heap_size()
    }

    /// Returns whether checksums protect everything in its files. If not (it was written by
    /// Cassandra), see [`adopt`](Self::adopt).
    pub fn is_checksummed(&self) -> bool {
        self.shared.checksummed
    }

    /// Returns whether the filter and the summary match the index, or checksums protect them. If
    /// not, one of them is missing or damaged, and only [`verify`](Self::verify) shows which.
    pub fn is_index_confirmed(&self) -> bool {
        self.shared.index_confirmed
    }

    /// Returns itself if checksums protect it; otherwise adopts it and opens it again with the
    /// files written by that.
    pub fn adopted(self) -> Result<Self> {
        if self.is_checksummed() {
            return Ok(self);
        }
        self.adopt()?;
        if !self.shared.descriptor.version.is_of_cassandra_5() {
            return Ok(self);
        }
        let Shared { file_system, descriptor, .. } = &*self.shared;
        let (cache, options) =
            (self.shared.data.cache().clone(), OpenOptions { foreign: ForeignFiles::Trust });
        Self::open(file_system.clone(), descriptor.clone(), self.table.clone(), cache, options)
    }

    /// Returns whether it may contain the partition: the key is between the first and last one and
    /// passes the filter. `false` is certain.
    pub fn may_contain(&self, key: &DecoratedKey) -> bool {
        self.may_contain_hashed(key, murmur3_hash(key.key()))
    }

    /// Does [`Self::may_contain`] with the key's [`murmur3_hash`].
    #[inline]
    pub fn may_contain_hashed(&self, key: &DecoratedKey, hash: (u64, u64)) -> bool {
        self.spans(key) && self.passes_filter(hash)
    }

    /// Returns whether the key is between the first and the last one.
    #[inline]
    pub fn spans(&self, key: &DecoratedKey) -> bool {
        *key >= self.shared.summary.first && *key <= self.shared.summary.last
    }

    /// Returns whether a key with this [`murmur3_hash`] passes the filter. `false` is certain.
    #[inline]
    pub fn passes_filter(&self, hash: (u64, u64)) -> bool {
        self.shared.filter.as_ref().is_none_or(|filter| filter.may_contain_hash(hash))
    }

    /// Returns whether `slices` may contain some row, or a marker; by the smallest and largest
    /// clustering. Ignores the static row and partition deletions: see
    /// [`may_have_static`](Self::may_have_static).
    pub fn may_contain_rows_in(&self, slices: &Slices) -> bool {
        let edge = |prefix, side| cassette_rows::Position { prefix, side: Some(side) };
        let min = edge(&self.shared.min_clustering, Side::Before);
        let max = edge(&self.shared.max_clustering, Side::After);
        slices.intersects(min, max, &self.table.comparator)
    }

    /// Returns whether some partition may have a static row.
    pub fn may_have_static(&self) -> bool {
        !self.format.statics.is_empty()
    }

    /// Returns whether anything in it can be deleted or expire: `false` means no tombstone,
    /// deletion or TTL.
    pub fn may_have_deletions(&self) -> bool {
        self.stats().may_have_deletions()
    }

    /// Returns the partition's entry in Index.db, if it has one; does not use the filter.
    fn find(&self, key: &DecoratedKey, caching: Caching) -> Result<Option<IndexCursor>> {
        let Some((start, end)) = self.shared.summary.find(key) else { return Ok(None) };
        let end = end.unwrap_or(self.shared.index.data_length());
        let mut cursor = IndexCursor::new(self.shared.index.clone(), start, caching);
        Ok(cursor.find(key.key(), end)?.then_some(cursor))
    }

    /// Returns the partition's offset in the uncompressed Data; `None` if it is absent.
    pub fn position_of(&self, key: &DecoratedKey) -> Result<Option<u64>> {
        Ok(self.find(key, Caching::LeaveAlone)?.map(|entry| entry.position()))
    }

    /// Reads a partition; `None` if it is absent.
    pub fn partition(&self, key: &DecoratedKey, selection: &Arc<Selection>) -> Result<Option<PartitionRead>> {
        self.partition_hashed(key, murmur3_hash(key.key()), selection)
    }

    /// Does [`Self::partition`] with the key's [`murmur3_hash`], for a key that is read from many
    /// SSTables.
    pub fn partition_hashed(
        &self,
        key: &DecoratedKey,
        hash: (u64, u64),
        selection: &Arc<Selection>,
    ) -> Result<Option<PartitionRead>> {
        if !self.may_contain_hashed(key, hash) {
            return Ok(None);
        }
        Ok(match self.partition_unfiltered(key, hash, selection)? {
            Found::Nothing => None,
            Found::OnlyKey => Some(PartitionRead::of_no_rows(self, key, DeletionTime::LIVE)),
            Found::Partition(read) => Some(read),
        })
    }

    /// [`Self::partition_hashed`] for a key that has passed the filter.
    pub fn partition_unfiltered(
        &self,
        key: &DecoratedKey,
        hash: (u64, u64),
        selection: &Arc<Selection>,
    ) -> Result<Found> {
        let keys = self.remembered_keys(Caching::Use);
        if let Some(keys) = keys
            && let Some(remembered) = keys.cache.get(keys.sstable, hash)
        {
            match PartitionRead::at(self, key, &remembered, selection)? {
                Found::Nothing => {}
                found => return Ok(found),
            }
        }
        let Some(entry) = self.find(key, Caching::Use)? else { return Ok(Found::Nothing) };
        if let Some(keys) = keys {
            keys.cache.insert(keys.sstable, hash, Remembered::at(entry.place()));
        }
        PartitionRead::new(self, key, &entry, selection).map(Found::Partition)
    }

    /// Reads the partitions between two keys, in order.
    pub fn scan(
        &self,
        start: Bound<&DecoratedKey>,
        end: Bound<&DecoratedKey>,
        selection: &Arc<Selection>,
        caching: Caching,
    ) -> Result<Scan> {
        Scan::new(self, start, end, selection, caching)
    }

    /// Returns whether its rows are mapped into memory.
    pub fn is_mapped(&self) -> bool {
        self.shared.data.is_mapped()
    }

    /// Reads everything, in order, without filling the cache, for compactions.
    pub fn scan_all(&self) -> Result<Scan> {
        self.scan(Bound::Unbounded, Bound::Unbounded, &Arc::new(Selection::all()), Caching::LeaveAlone)
    }

    /// Reads the partitions at `start..end` of the uncompressed Data; one begins at `start`.
    pub fn scan_positions(&self, start: u64, end: u64) -> WholeScan {
        WholeScan::new(self, start, end, Caching::LeaveAlone)
    }

    /// Returns the keys of all partitions, in order, with each partition's offset in the
    /// uncompressed Data.
    pub fn keys(&self, caching: Caching) -> IndexCursor {
        IndexCursor::new(self.shared.index.clone(), 0, caching)
    }

    /// Returns the bytes of uncompressed rows in each chunk except the last.
    pub fn chunk_length(&self) -> u64 {
        self.shared.data.chunk_length()
    }

    /// Returns the verified bytes of chunk `index` of the uncompressed rows.
    pub fn chunk(&self, index: u64) -> Result<bytes::Bytes> {
        self.shared.data.read_ahead_of_copy(index);
        self.shared.data.chunk(index, Caching::LeaveAlone)
    }

    /// Returns the path of the file with the positions of partitions.
    pub(crate) fn index_path(&self) -> &std::path::Path {
        self.shared.index.path()
    }

    /// Compares the blocks of its rows with their checksums in Checksums.db, if there are any.
    pub(crate) fn verify_blocks(&self) -> Result<()> {
        self.shared.data.verify_blocks()
    }

    pub(crate) fn file_system(&self) -> &Arc<dyn FileSystem> {
        &self.shared.file_system
    }

    pub(crate) fn row_format(&self) -> &Arc<RowFormat> {
        &self.format
    }

    pub(crate) fn cache(&self) -> &Arc<ChunkCache> {
        self.shared.data.cache()
    }

    pub(crate) fn data_cursor(&self, caching: Caching) -> Cursor {
        self.cursor(caching)
    }

    fn partition_cursor(&self) -> Cursor {
        Cursor::of_partition(self.shared.data.clone(), self.format.clone())
    }

    fn cursor(&self, caching: Caching) -> Cursor {
        Cursor::new(self.shared.data.clone(), self.format.clone(), caching)
    }
}
