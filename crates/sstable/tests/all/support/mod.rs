//! Shared code of the integration tests: the golden tables on disk.

use std::path::{Path, PathBuf};

use std::sync::Arc;

use cassette_rows::{
    PartitionHeader, PartitionStream, PartitionUpdate, Selection, TableMetadata, Unfiltered,
};
use cassette_sstable::compression::CompressionInfo;
use cassette_sstable::{
    ChunkCache, Component, Descriptor, EncodingStats, FinishedSSTable, OpenOptions, SSTableReader,
    SSTableWriter, WriterOptions,
};
use cassette_vfs::{FileSystem, RealFileSystem};

/// The folder of the golden cases.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Every golden SSTable: 59 of them.
pub fn golden_sstables() -> Vec<Descriptor> {
    let mut found = Vec::new();
    for case in sorted(&golden()) {
        for table in sorted(&case.join("data")) {
            found.extend(sstables_in(&table));
        }
    }
    assert_eq!(found.len(), 59);
    found
}

/// The SSTables of one directory, by id.
pub fn sstables_in(directory: &Path) -> Vec<Descriptor> {
    let mut found: Vec<_> = sorted(directory)
        .iter()
        .filter_map(|path| Descriptor::from_path(path))
        .filter(|(_, component)| *component == Component::Data)
        .map(|(descriptor, _)| descriptor)
        .collect();
    found.sort_by_key(|descriptor| descriptor.id);
    found
}

/// The paths in a directory, sorted; none if it is not one.
pub fn sorted(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The bytes of a component, if there is one.
pub fn component(descriptor: &Descriptor, component: Component) -> Option<Vec<u8>> {
    std::fs::read(descriptor.path(component)).ok()
}

pub mod model;
pub mod random_table;
pub mod schema;
pub mod value_text;

/// Every golden table: case, table, SSTables.
pub struct GoldenTable {
    /// The folder of the case.
    pub case: PathBuf,
    /// The folder of the SSTables.
    pub directory: PathBuf,
    /// Its schema.
    pub table: Arc<TableMetadata>,
    /// Its SSTables, by id.
    pub sstables: Vec<Descriptor>,
}

/// All golden tables.
pub fn golden_tables() -> Vec<GoldenTable> {
    let mut tables = Vec::new();
    for case in sorted(&golden()) {
        for directory in sorted(&case.join("data")) {
            tables.push(GoldenTable {
                table: schema::table_of(&case.join("schema.cql"), &directory),
                sstables: sstables_in(&directory),
                directory,
                case: case.clone(),
            });
        }
    }
    tables
}

/// The golden tables as Cassandra 5.0 rewrites them in a newer version, `oa` or `da`: a part of the
/// cases.
pub fn newer_golden_tables(version: &str) -> Vec<GoldenTable> {
    let newer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden5").join(version);
    let mut tables = Vec::new();
    for case in sorted(&newer) {
        let original = golden().join(case.file_name().unwrap());
        for directory in sorted(&case) {
            tables.push(GoldenTable {
                table: schema::table_of(&original.join("schema.cql"), &directory),
                sstables: sstables_in(&directory),
                directory,
                case: original.clone(),
            });
        }
    }
    tables
}

impl GoldenTable {
    /// Opens all SSTables, verifying them.
    pub fn open(&self) -> Vec<SSTableReader> {
        let cache = Arc::new(ChunkCache::new(16 << 20));
        let open = |descriptor: &Descriptor| open(descriptor, &self.table, &cache).unwrap();
        self.sstables.iter().map(open).collect()
    }
}

/// Opens an SSTable of the real file system with default options.
pub fn open(
    descriptor: &Descriptor,
    table: &Arc<TableMetadata>,
    cache: &Arc<ChunkCache>,
) -> cassette_rows::Result<SSTableReader> {
    let file_system = Arc::new(RealFileSystem);
    SSTableReader::open(file_system, descriptor.clone(), table.clone(), cache.clone(), OpenOptions::default())
}

/// A partition read whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// Key, deletion, static row.
    pub header: PartitionHeader,
    /// Rows and markers in the order in which they came.
    pub rows: Vec<Unfiltered>,
}

/// All of a stream.
pub fn collect(stream: &mut dyn PartitionStream) -> cassette_rows::Result<Vec<Partition>> {
    let mut partitions = Vec::new();
    while let Some(header) = stream.next_partition()? {
        let mut rows = Vec::new();
        while let Some(unfiltered) = stream.next_unfiltered()? {
            rows.push(unfiltered);
        }
        partitions.push(Partition { header, rows });
    }
    Ok(partitions)
}

/// Writes partitions, which are in order, as an SSTable.
pub fn write(
    file_system: Arc<dyn FileSystem>,
    descriptor: &Descriptor,
    table: &Arc<TableMetadata>,
    partitions: &[PartitionUpdate],
    change: impl FnOnce(WriterOptions) -> WriterOptions,
) -> cassette_rows::Result<Option<FinishedSSTable>> {
    let mut stats = EncodingStats::default();
    for partition in partitions {
        stats.add_deletion(partition.deletion);
        partition.static_row.iter().chain(&partition.rows).for_each(|row| stats.add_row(row));
        partition.range_tombstones.as_slice().iter().for_each(|t| stats.add_deletion(t.deletion));
    }
    let options = WriterOptions::new(table, partitions.len() as u64).unwrap();
    let options = change(WriterOptions { encoding_stats: stats, ..options });
    let mut writer = SSTableWriter::create(file_system, descriptor.clone(), table.clone(), options)?;
    for partition in partitions {
        writer.write_all(&mut partition.clone().into_stream(table.clone(), &Selection::all()))?;
    }
    writer.finish()
}

/// Options with which the rows of an SSTable are written as they were.
pub fn rewrite_options(reader: &SSTableReader) -> WriterOptions {
    let table = reader.table();
    let header = reader.header();
    let columns = header.static_columns.iter().chain(&header.regular_columns);
    let info = component(reader.descriptor(), Component::CompressionInfo);
    let format = info.map(|bytes| CompressionInfo::decode(&bytes, u64::MAX).unwrap().format);
    WriterOptions {
        encoding_stats: EncodingStats::of_header(header),
        columns: columns.filter_map(|column| Some(table.column(&column.name)?.id)).collect(),
        compression: format,
        level: reader.stats().level,
        repaired_at: reader.stats().repaired_at,
        host_id: reader.stats().host_id,
        commit_log_intervals: reader.stats().commit_log_intervals.clone(),
        ..WriterOptions::new(table, reader.estimated_keys()).unwrap()
    }
}

/// Writes the rows of an SSTable again in another directory, and opens the result.
pub fn rewrite(reader: &SSTableReader, options: WriterOptions, directory: &Path) -> SSTableReader {
    let descriptor = Descriptor::new(directory, reader.descriptor().id);
    let table = reader.table();
    let file_system = Arc::new(RealFileSystem);
    let mut writer = SSTableWriter::create(file_system, descriptor.clone(), table.clone(), options).unwrap();
    writer.write_all(&mut reader.scan_all().unwrap()).unwrap();
    let finished = writer.finish().unwrap().unwrap();
    let written = open(&descriptor, table, &Arc::new(ChunkCache::new(1 << 20))).unwrap();
    assert_eq!(finished.bytes_on_disk, written.bytes_on_disk());
    assert_eq!(&finished.first_key, written.first_key());
    written
}
