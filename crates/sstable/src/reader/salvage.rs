//! Opens an SSTable that may be damaged, to read its intact parts.

use std::sync::Arc;

use cassette_rows::{Result, StorageError, TableMetadata};
use cassette_vfs::FileSystem;

use super::IndexCursor;
use super::open::{Files, open_file, open_index, parse, read};
use crate::checksums::FileChecksums;
use crate::chunk_cache::ChunkCache;
use crate::chunked_file::{Caching, ChunkedFile, Layout};
use crate::compression::CompressionInfo;
use crate::crc::Checksums;
use crate::data::{Cursor, RowFormat};
use crate::descriptor::{Component, Descriptor};
use crate::statistics::Statistics;
use crate::summary::Summary;

/// The block size for plain Data without checksums.
const UNCHECKED_CHUNK: u32 = 64 << 10;

/// The usable parts of a damaged SSTable. Requires only the statistics, without which no row can be
/// decoded, and data protected by checksums.
#[derive(Debug)]
pub struct Salvage {
    descriptor: Descriptor,
    table: Arc<TableMetadata>,
    statistics: Statistics,
    format: Arc<RowFormat>,
    data: Arc<ChunkedFile>,
    index: Option<Arc<ChunkedFile>>,
    samples: Vec<u64>,
    warnings: Vec<String>,
}

impl Salvage {
    /// Opens the existing components.
    ///
    /// # Errors
    /// If Statistics, Data or, of a compressed table, CompressionInfo cannot be read or decoded:
    /// nothing can be saved then.
    pub fn open(
        file_system: &Arc<dyn FileSystem>,
        descriptor: Descriptor,
        table: Arc<TableMetadata>,
        cache: Arc<ChunkCache>,
    ) -> Result<Self> {
        let files: Files<'_> = (file_system, &descriptor);
        let version = descriptor.version;
        let exists = |component| {
            let path = descriptor.path(component);
            file_system.exists(&path).map_err(|e| StorageError::io(path, "look at the file", e))
        };
        let decode = |bytes: &[u8]| Statistics::decode_version(bytes, version);
        let statistics = parse(files, Component::Statistics, decode)?;
        let format = RowFormat::of_version(&statistics.header, &table, version).map_err(|detail| {
            StorageError::Unsupported { path: descriptor.path(Component::Statistics), detail }
        })?;
        let format = Arc::new(format);
        let mut warnings = Vec::new();
        let (file, length) = open_file(files, Component::Data)?;
        let layout = if exists(Component::CompressionInfo)? {
            Layout::Compressed(compression_info(files, length, &mut warnings)?)
        } else {
            match parse(files, Component::Crc, |bytes| Checksums::decode_first(bytes, length)) {
                Ok(crcs) => Layout::Plain { chunk_length: crcs.block_size, crcs: Some(crcs.crcs.into()) },
                Err(error) => {
                    warnings.push(format!("Data is read without its checksums: {error}"));
                    Layout::Plain { chunk_length: UNCHECKED_CHUNK, crcs: None }
                }
            }
        };
        let data = ChunkedFile::new(descriptor.path(Component::Data), file, length, layout, cache.clone());
        let checksums = if exists(Component::Checksums)? {
            parse(files, Component::Checksums, FileChecksums::decode).ok()
        } else {
            None
        };
        // The others have no index of this kind: Data is read from its start to its end.
        let index = if version.is_of_cassandra_5() {
            None
        } else if exists(Component::Index)? {
            // A truncated or extended index is usable up to the damage.
            open_index(files, Component::Index, checksums.as_ref(), &cache)
                .or_else(|_| open_index(files, Component::Index, None, &cache))
                .map_err(|error| warnings.push(format!("Error reading index file: {error}")))
                .ok()
        } else {
            warnings.push(format!("Missing component: {}", descriptor.path(Component::Index).display()));
            None
        };
        let samples = match &index {
            Some(index) => read(files, Component::Summary)
                .ok()
                .and_then(|bytes| Summary::decode(&bytes.into(), index.data_length()).ok())
                .map(|summary| summary.entries().map(|(_, position)| position).collect())
                .unwrap_or_default(),
            None => Vec::new(),
        };
        Ok(Self {
            data: Arc::new(data),
            index: index.map(Arc::new),
            descriptor,
            table,
            statistics,
            format,
            samples,
            warnings,
        })
    }

    /// Returns its location and file names.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The table whose rows it has.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// All that Statistics.db says.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the damage found on opening.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Bytes of its Data file.
    pub fn data_bytes_on_disk(&self) -> u64 {
        self.data.file_length()
    }

    /// Bytes of its rows before compression.
    pub fn uncompressed_bytes(&self) -> u64 {
        self.data.data_length()
    }

    /// Returns whether checksums protect the data read.
    pub(crate) fn is_checksummed(&self) -> bool {
        !matches!(self.data.layout(), Layout::Plain { crcs: None, .. })
    }

    pub(crate) fn format(&self) -> &RowFormat {
        &self.format
    }

    pub(crate) fn cursor(&self) -> Cursor {
        Cursor::new(self.data.clone(), self.format.clone(), Caching::LeaveAlone)
    }

    /// Returns the entries of Index from `start` on, if it exists.
    pub(crate) fn index_from(&self, start: u64) -> Option<IndexCursor> {
        let index = self.index.clone()?;
        Some(IndexCursor::new(index, start, Caching::LeaveAlone))
    }

    /// Returns the offset of the first entry in Summary after `position` of Index.
    pub(crate) fn sample_after(&self, position: u64) -> Option<u64> {
        self.samples.iter().copied().find(|sample| *sample > position)
    }
}

/// Reads the offsets of the chunks, without those beyond the end of a Data file of `length` bytes.
/// Each chunk has a checksum, so the offsets need not be trusted.
fn compression_info(files: Files<'_>, length: u64, warnings: &mut Vec<String>) -> Result<CompressionInfo> {
    let whole = parse(files, Component::CompressionInfo, |bytes| {
        CompressionInfo::decode_version(bytes, length, files.1.version)
    });
    let Err(error) = whole else { return whole };
    let anywhere = |bytes: &[u8]| CompressionInfo::decode_version(bytes, u64::MAX, files.1.version);
    let Ok(info) = parse(files, Component::CompressionInfo, anywhere) else { return Err(error) };
    warnings.push(format!("Data is cut off: {error}"));
    Ok(info.within(length))
}
