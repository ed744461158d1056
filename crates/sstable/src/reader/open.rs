//! Opens an SSTable: reads and checks everything that reads of a table need.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use cassette_rows::token::{murmur3_hash, token_of_hash};
use cassette_rows::{Clustering, DecoratedKey, Result, StorageError, TableMetadata};
use cassette_vfs::{FileSystem, RandomAccessFile};

use super::{IndexCursor, SSTableReader, Shared};
use crate::checksums::{FileChecksum, FileChecksums, INDEX_BLOCK, RowsChecksums};
use crate::chunk_cache::{ChunkCache, DiskAccessMode};
use crate::chunked_file::{Caching, ChunkedFile, Layout};
use crate::compression::CompressionInfo;
use crate::crc::Checksums;
use crate::data::RowFormat;
use crate::derived_index;
use crate::descriptor::{Component, Descriptor, Version};
use crate::error::Parsed;
use crate::filter::BloomFilter;
use crate::statistics::{self, Statistics};
use crate::summary::{Summary, SummaryBuilder};
use crate::toc;

/// The treatment of an SSTable without Checksums.db, in which a flipped bit in Index or Filter
/// could hide rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignFiles {
    /// Read all of it once and compare all components. Takes as long as reading it does.
    Verify,
    /// Read Index completely, and trust it: its order, Summary and Filter are checked.
    Trust,
}

/// Options for opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// For SSTables that this program did not write.
    pub foreign: ForeignFiles,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { foreign: ForeignFiles::Verify }
    }
}

/// The location of the files.
pub(super) type Files<'a> = (&'a Arc<dyn FileSystem>, &'a Descriptor);

impl SSTableReader {
    /// Opens the SSTable for reading rows of `table`.
    ///
    /// Statistics must exist, and CompressionInfo or CRC; Summary and Filter are rebuilt from Index
    /// if they are missing or damaged. Nothing is written.
    pub fn open(
        file_system: Arc<dyn FileSystem>,
        descriptor: Descriptor,
        table: Arc<TableMetadata>,
        cache: Arc<ChunkCache>,
        options: OpenOptions,
    ) -> Result<Self> {
        let files = (&file_system, &descriptor);
        let (components, bytes_on_disk) = components(files)?;
        let has = |component| components.contains(&component);

        let version = descriptor.version;
        let decode = |bytes: &[u8]| Statistics::decode_version(bytes, version);
        let statistics = parse(files, Component::Statistics, decode)?;
        let unsupported =
            |detail| StorageError::Unsupported { path: descriptor.path(Component::Statistics), detail };
        let format = RowFormat::of_version(&statistics.header, &table, version).map_err(unsupported)?;
        let format = Arc::new(format);

        let mut checksums = if has(Component::Checksums) {
            Some(parse(files, Component::Checksums, FileChecksums::decode)?)
        } else {
            None
        };
        let data = open_data(files, has(Component::CompressionInfo), checksums.as_ref(), &cache)?;
        let rows = checksums.as_mut().and_then(|checksums| checksums.rows.take());
        let data = Arc::new(with_blocks(data, rows, &statistics)?);
        let index = match (index_of(version), has(Component::DerivedIndex) && checksums.is_some()) {
            (Component::DerivedIndex, false) => derive_index(files, &data, &format, &cache)?,
            (component, _) => open_index(files, component, checksums.as_ref(), &cache)?,
        };
        let index = Arc::new(index);

        let fp_chance = statistics.validation.bloom_filter_fp_chance;
        // The summary must be one of the index that is read.
        let summary = if version.is_of_cassandra_5() {
            None
        } else {
            read_vouched(files, &components, Component::Summary, checksums.as_ref())?
                .and_then(|bytes| Summary::decode(&bytes, index.data_length()).ok())
        };
        let filter = read_vouched(files, &components, Component::Filter, checksums.as_ref())?
            .and_then(|bytes| BloomFilter::decode_version(&bytes, version).ok());
        let must_rebuild = summary.is_none() || filter.is_none() && fp_chance < 1.0 || checksums.is_none();
        let (summary, filter, is_confirmed) = match (must_rebuild, summary) {
            (false, Some(summary)) => (summary, filter, true),
            (_, summary) => rebuild(&index, summary, filter, fp_chance, table.params.min_index_interval)?,
        };
        // A derived index was just made from Data.
        let index_confirmed = is_confirmed || index_of(version) == Component::DerivedIndex;

        let stats = &statistics.stats;
        let clustering = |values: &[Vec<u8>]| {
            if values.len() <= format.clustering.columns() {
                Clustering::new(values.iter().map(|value| Some(value.as_slice())))
            } else {
                Clustering::empty()
            }
        };
        let shared = Shared {
            min_clustering: clustering(&stats.min_clustering),
            max_clustering: clustering(&stats.max_clustering),
            file_system,
            descriptor,
            components,
            data,
            index,
            summary,
            filter,
            statistics,
            bytes_on_disk,
            checksummed: checksums.is_some(),
            index_confirmed,
        };
        let reader = Self { shared: Arc::new(shared), table, format, keys: None };
        if !reader.is_checksummed() && options.foreign == ForeignFiles::Verify {
            reader.verify_rows()?;
        }
        Ok(reader)
    }

    /// Writes Checksums.db for an SSTable without it, and lists it in TOC.txt. Must be called only
    /// after the SSTable has been verified ([`ForeignFiles::Verify`]). From the next opening on it
    /// is checked like our own SSTables.
    ///
    /// Also writes the derived index of an oa or da SSTable; readers opened later do not keep it in
    /// memory.
    pub fn adopt(&self) -> Result<()> {
        let shared = &self.shared;
        let files = (&shared.file_system, &shared.descriptor);
        let write = |component, content: &[u8]| {
            let path = shared.descriptor.path(component);
            let written = shared.file_system.write_atomically(&path, content);
            written.map_err(|e| StorageError::io(&path, "write the file", e))
        };
        let mut checksums = FileChecksums { index_length: shared.index.data_length(), ..Default::default() };
        for component in [Component::CompressionInfo, Component::Filter, Component::Summary] {
            if shared.components.contains(&component) {
                checksums.files.push((component, FileChecksum::of(&read(files, component)?)));
            }
        }
        if let Layout::Plain { crcs: Some(crcs), .. } = shared.index.layout() {
            checksums.index_crcs = crcs.to_vec();
        }
        let mut components = shared.components.clone();
        components.push(Component::Checksums);
        if index_of(shared.descriptor.version) == Component::DerivedIndex {
            components.push(Component::DerivedIndex);
            let length = shared.index.data_length();
            write(Component::DerivedIndex, &shared.index.range(0, length, Caching::LeaveAlone)?)?;
        }
        // The list is written last: unlisted files need not exist.
        write(Component::Checksums, &checksums.encode())?;
        write(Component::Toc, &toc::encode(&components))?;
        Ok(())
    }
}

impl SSTableReader {
    /// Atomically writes another level of leveled compaction into Statistics.db. Open readers,
    /// including this one, keep the old one.
    pub fn write_level(&self, level: i32) -> Result<()> {
        let shared = &self.shared;
        let path = shared.descriptor.path(Component::Statistics);
        let bytes = read((&shared.file_system, &shared.descriptor), Component::Statistics)?;
        let version = shared.descriptor.version;
        let changed = statistics::with_level_and_repair(&bytes, version, Some(level), None);
        let written = shared.file_system.write_atomically(&path, &changed.map_err(|e| e.at(&path))?);
        written.map_err(|e| StorageError::io(&path, "write the file", e))
    }
}

/// Returns the existing components, and the bytes of their files. TOC.txt must not list missing
/// ones, except those that can be rebuilt.
fn components((file_system, descriptor): Files<'_>) -> Result<(Vec<Component>, u64)> {
    let mut found = Vec::new();
    let mut bytes = 0;
    for component in Component::ALL {
        let path = descriptor.path(component);
        match file_system.metadata(&path) {
            Ok(metadata) => {
                bytes += metadata.len;
                found.push(component);
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(StorageError::io(path, "look at the file", e)),
        }
    }
    let mut has_deletions = false;
    if found.contains(&Component::Toc) {
        let listed = parse((file_system, descriptor), Component::Toc, toc::decode)?;
        has_deletions = listed.contains(&Component::Deletions);
        let needed = |c: &&Component| {
            use Component::{Deletions, Digest, Filter, Summary};
            !matches!(c, Summary | Filter | Digest | Deletions)
        };
        if let Some(missing) = listed.iter().filter(needed).find(|component| !found.contains(component)) {
            return Err(StorageError::corrupt(
                descriptor.path(*missing),
                "the file is listed in TOC.txt but missing",
            ));
        }
    }
    // A file of deletions that its writer gave up is ignored.
    found.retain(|c| *c != Component::Toc && (has_deletions || *c != Component::Deletions));
    Ok((found, bytes))
}

pub(super) fn read((file_system, descriptor): Files<'_>, component: Component) -> Result<Vec<u8>> {
    let path = descriptor.path(component);
    file_system.read(&path).map_err(|e| StorageError::io(&path, "read the file", e))
}

pub(super) fn parse<T>(
    files: Files<'_>,
    component: Component,
    parse: impl Fn(&[u8]) -> Parsed<T>,
) -> Result<T> {
    let bytes = read(files, component)?;
    parse(&bytes).map_err(|e| e.at(&files.1.path(component)))
}

/// Returns the content of a component that can be rebuilt; `None` if it is missing or does not
/// match Checksums.db.
fn read_vouched(
    files: Files<'_>,
    components: &[Component],
    component: Component,
    checksums: Option<&FileChecksums>,
) -> Result<Option<Bytes>> {
    if !components.contains(&component) {
        return Ok(None);
    }
    let bytes = read(files, component)?;
    let vouched = checksums.is_none_or(|c| c.of(component) == Some(FileChecksum::of(&bytes)));
    Ok(vouched.then(|| bytes.into()))
}

pub(super) fn open_file(files: Files<'_>, component: Component) -> Result<(Arc<dyn RandomAccessFile>, u64)> {
    let path = files.1.path(component);
    let file = files.0.open(&path).map_err(|e| StorageError::io(&path, "open the file", e))?;
    let length = file.len().map_err(|e| StorageError::io(&path, "find the file's length", e))?;
    Ok((file, length))
}

fn open_data(
    files: Files<'_>,
    compressed: bool,
    checksums: Option<&FileChecksums>,
    cache: &Arc<ChunkCache>,
) -> Result<ChunkedFile> {
    let (file, length) = open_file(files, Component::Data)?;
    let layout = if compressed {
        let bytes = read(files, Component::CompressionInfo)?;
        let path = files.1.path(Component::CompressionInfo);
        if let Some(expected) = checksums.and_then(|c| c.of(Component::CompressionInfo)) {
            check(&path, expected, FileChecksum::of(&bytes))?;
        }
        Layout::Compressed(
            CompressionInfo::decode_version(&bytes, length, files.1.version).map_err(|e| e.at(&path))?,
        )
    } else {
        let crcs = parse(files, Component::Crc, |bytes| Checksums::decode(bytes, length))?;
        Layout::Plain { chunk_length: crcs.block_size, crcs: Some(crcs.crcs.into()) }
    };
    let data = ChunkedFile::new(files.1.path(Component::Data), file, length, layout, cache.clone());
    if cache.disk_access() == DiskAccessMode::Mmap { data.mapped() } else { Ok(data) }
}

/// Makes the partitions readable in blocks if the SSTable has their checksums (see
/// [`ChunkedFile::with_blocks`]).
fn with_blocks(
    data: ChunkedFile,
    rows: Option<RowsChecksums>,
    statistics: &Statistics,
) -> Result<ChunkedFile> {
    let Some(rows) = rows else { return Ok(data) };
    let partitions = statistics.stats.partition_sizes.count().try_into().unwrap_or(0).max(1);
    let partition_length = rows.length / partitions;
    data.with_blocks(rows, partition_length)
}

fn check(path: &Path, expected: FileChecksum, found: FileChecksum) -> Result<()> {
    if expected == found {
        Ok(())
    } else {
        Err(StorageError::corrupt(
            path,
            format!(
                "{} bytes with checksum {:#010x} expected by Checksums.db, {} with {:#010x} found",
                expected.length, expected.crc, found.length, found.crc
            ),
        ))
    }
}

/// Returns the component with the positions of partitions.
fn index_of(version: Version) -> Component {
    if version.is_of_cassandra_5() { Component::DerivedIndex } else { Component::Index }
}

/// Builds the index of an SSTable of another version from its rows, in memory.
fn derive_index(
    files: Files<'_>,
    data: &Arc<ChunkedFile>,
    format: &Arc<RowFormat>,
    cache: &Arc<ChunkCache>,
) -> Result<ChunkedFile> {
    let index = derived_index::derive(data, format)?;
    let crcs = index.chunks(INDEX_BLOCK as usize).map(crc32fast::hash).collect();
    let length = index.len() as u64;
    let layout = Layout::Plain { chunk_length: INDEX_BLOCK, crcs: Some(crcs) };
    let file = Arc::new(derived_index::InMemory(index.into()));
    Ok(ChunkedFile::new(files.1.path(Component::DerivedIndex), file, length, layout, cache.clone()))
}

/// Opens Index; computes the checksums of a foreign SSTable's Index, so that later changes are
/// detected.
pub(super) fn open_index(
    files: Files<'_>,
    component: Component,
    checksums: Option<&FileChecksums>,
    cache: &Arc<ChunkCache>,
) -> Result<ChunkedFile> {
    let path = files.1.path(component);
    let (file, length) = open_file(files, component)?;
    if length == 0 {
        return Err(StorageError::corrupt(path, "at least one partition expected, the file is empty"));
    }
    let plain = |crcs| Layout::Plain { chunk_length: INDEX_BLOCK, crcs };
    let crcs = match checksums {
        Some(checksums) if checksums.index_length != length => {
            let expected = checksums.index_length;
            return Err(StorageError::corrupt(
                path,
                format!("{expected} bytes expected by Checksums.db, {length} found"),
            ));
        }
        Some(checksums) => checksums.index_crcs.clone(),
        None => {
            let blocks = ChunkedFile::new(path.clone(), file.clone(), length, plain(None), cache.clone());
            (0..length.div_ceil(u64::from(INDEX_BLOCK)))
                .map(|block| {
                    blocks.read_ahead_of_copy(block);
                    Ok(crc32fast::hash(&blocks.read_chunk(block)?))
                })
                .collect::<Result<_>>()?
        }
    };
    let index = ChunkedFile::new(path, file, length, plain(Some(crcs.into())), cache.clone());
    if cache.disk_access() == DiskAccessMode::Standard { Ok(index) } else { index.mapped() }
}

/// Whether a filter contains all keys that are added. Looks up many at once: each lookup of a large
/// filter waits for memory, and the processor makes those of a loop at the same time.
struct ContainedKeys<'a> {
    filter: &'a BloomFilter,
    hashes: Vec<(u64, u64)>,
    all: bool,
}

impl<'a> ContainedKeys<'a> {
    const AT_ONCE: usize = 256;

    fn new(filter: &'a BloomFilter) -> Self {
        Self { filter, hashes: Vec::with_capacity(Self::AT_ONCE), all: true }
    }

    fn add(&mut self, hash: (u64, u64)) {
        self.hashes.push(hash);
        if self.hashes.len() == Self::AT_ONCE {
            self.look_up();
        }
    }

    fn look_up(&mut self) {
        self.all = self.all && self.filter.may_contain_all(&self.hashes);
        self.hashes.clear();
    }

    fn finish(mut self) -> bool {
        self.look_up();
        self.all
    }
}

/// Reads Index completely: its keys and positions must ascend. Returns `summary` and `filter` if
/// they match it, else new ones, and whether both match.
fn rebuild(
    index: &Arc<ChunkedFile>,
    summary: Option<Summary>,
    filter: Option<BloomFilter>,
    fp_chance: f64,
    min_index_interval: u32,
) -> Result<(Summary, Option<BloomFilter>, bool)> {
    let interval = summary.as_ref().map_or(min_index_interval, |summary| summary.min_index_interval);
    let mut builder = SummaryBuilder::new(interval);
    let mut last: Option<(DecoratedKey, u64)> = None;
    let mut cursor = IndexCursor::new(index.clone(), 0, Caching::LeaveAlone);
    let mut contained = filter.as_ref().map(ContainedKeys::new);
    while cursor.advance()? {
        let hash = murmur3_hash(cursor.key());
        let key = DecoratedKey::with_token(token_of_hash(cursor.key(), hash), cursor.shared_key());
        let position = cursor.position();
        let ascends = match &last {
            Some(last) => last.0 < key && last.1 < position,
            None => position == 0,
        };
        if !ascends {
            return Err(StorageError::corrupt(
                index.path(),
                format!("at {}: a key and position after the previous expected", cursor.entry_start()),
            ));
        }
        builder.add(&key, cursor.entry_start());
        if let Some(contained) = &mut contained {
            contained.add(hash);
        }
        last = Some((key, position));
    }
    let complete = contained.is_some_and(ContainedKeys::finish);
    let keys = builder.keys();
    let Some(rebuilt) = builder.finish() else {
        return Err(StorageError::corrupt(index.path(), "at least one partition expected"));
    };
    // A downsampled summary has fewer entries; each must be one of Index.
    let (summary, agrees) = match summary {
        Some(summary) if summary.agrees_with(&rebuilt) => (summary, true),
        _ => (rebuilt, false),
    };
    if complete {
        return Ok((summary, filter, agrees));
    }
    // Without a filter by the table's choice, the summary alone confirms the index.
    let confirmed = agrees && filter.is_none() && fp_chance >= 1.0;
    let mut filter = BloomFilter::with_chance(keys, fp_chance);
    if let Some(filter) = &mut filter {
        let mut cursor = IndexCursor::new(index.clone(), 0, Caching::LeaveAlone);
        while cursor.advance()? {
            filter.add(cursor.key());
        }
    }
    Ok((summary, filter, confirmed))
}
