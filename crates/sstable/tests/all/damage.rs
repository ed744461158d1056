//! Decay of the disk: whatever bit flips in whatever file, the answer is an error that names the
//! file, or the rows that were written. Never other rows, and never a panic.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use crate::support::random_table::{Contents, tables};
use crate::support::{Partition, collect, component, golden_tables, model, newer_golden_tables, write};
use cassette_rows::{Result, Selection, TableMetadata};
use cassette_sstable::chunk_cache::DiskAccessMode;
use cassette_sstable::chunked_file::Caching;
use cassette_sstable::compression::{ChunkFormat, Compressor};
use cassette_sstable::{
    ChunkCache, Component, Descriptor, OpenOptions, SSTableId, SSTableReader, WriterOptions, toc,
};
use cassette_vfs::{FakeFileSystem, FileSystem};

/// An SSTable on a decaying disk, and its expected content.
struct Subject {
    name: String,
    files: Arc<FakeFileSystem>,
    descriptor: Descriptor,
    table: Arc<TableMetadata>,
    expected: Vec<Partition>,
    /// Partial reads, and their expected results.
    parts: Vec<(Arc<Selection>, Partition)>,
}

impl Subject {
    fn new(
        name: &str,
        files: Arc<FakeFileSystem>,
        descriptor: Descriptor,
        table: Arc<TableMetadata>,
    ) -> Self {
        let mut subject =
            Self { name: name.into(), files, descriptor, table, expected: Vec::new(), parts: Vec::new() };
        subject.expected =
            collect(&mut subject.open(DiskAccessMode::Standard).unwrap().scan_all().unwrap()).unwrap();
        let mut random = model::random(7);
        for partition in &subject.expected {
            for selection in model::selections(partition, &subject.table, &mut random) {
                let expected = model::expected(partition, &subject.table, &selection);
                subject.parts.push((Arc::new(selection), expected));
            }
        }
        subject
    }

    fn open(&self, access: DiskAccessMode) -> Result<SSTableReader> {
        self.open_with(Arc::new(ChunkCache::new(1 << 20).with_disk_access(access)))
    }

    fn open_with(&self, cache: Arc<ChunkCache>) -> Result<SSTableReader> {
        let files = self.files.clone();
        SSTableReader::open(files, self.descriptor.clone(), self.table.clone(), cache, OpenOptions::default())
    }

    /// Reads everything in every way; `false` if the answer is wrong.
    fn read(&self, access: DiskAccessMode) -> Result<bool> {
        let reader = self.open(access)?;
        for (selection, expected) in &self.parts {
            let Some(mut read) = reader.partition(&expected.header.key, selection)? else { return Ok(false) };
            if collect(&mut read)? != std::slice::from_ref(expected) {
                return Ok(false);
            }
        }
        Ok(collect(&mut reader.scan_all()?)? == self.expected)
    }

    /// Flips bits everywhere; returns how many were detected and how many were harmless.
    fn decay(&self) -> (usize, usize) {
        let (mut noticed, mut harmless) = (0, 0);
        for component in Component::ALL {
            let path = self.descriptor.path(component);
            let Ok(metadata) = self.files.metadata(&path) else { continue };
            for offset in 0..metadata.len {
                let one_bit = (1 << (offset % 8), DiskAccessMode::Standard);
                for (mask, access) in [one_bit, (0xff, DiskAccessMode::Mmap)] {
                    self.files.corrupt(&path, offset, mask);
                    let what = || format!("{}: {} at {offset} xor {mask:#04x}", self.name, path.display());
                    match self.read(access) {
                        Ok(true) => harmless += 1,
                        Ok(false) => panic!("{}: a wrong answer", what()),
                        Err(error) => {
                            // The error names a file of this SSTable.
                            let own = ["/nb-", "/oa-", "/da-"];
                            let error = error.to_string();
                            assert!(own.iter().any(|name| error.contains(name)), "{}: {error}", what());
                            noticed += 1;
                        }
                    }
                    self.files.corrupt(&path, offset, mask);
                }
            }
        }
        assert!(self.read(DiskAccessMode::Mmap).unwrap(), "{}: what was undamaged again reads", self.name);
        (noticed, harmless)
    }
}

fn random_subject(name: &str, table: usize, sizes: &[usize], compression: Option<Compressor>) -> Subject {
    let table = tables()[table].table.clone();
    let mut random = model::random(sizes.len() as u64);
    let updates = Contents { random: &mut random, table: table.clone() }.partitions(sizes);
    let files = Arc::new(FakeFileSystem::new());
    let descriptor = Descriptor::new("/data", SSTableId::Sequence(1));
    files.create_dir_all(&descriptor.directory).unwrap();
    let max_compressed_length = if compression == Some(Compressor::Noop) { 500 } else { i32::MAX };
    let compression = compression.map(|compressor| ChunkFormat {
        compressor,
        options: Vec::new(),
        chunk_length: 512,
        max_compressed_length,
    });
    let change = |options| WriterOptions { compression, column_index_size: 150, rows_block: 256, ..options };
    write(files.clone(), &descriptor, &table, &updates, change).unwrap().unwrap();
    Subject::new(name, files, descriptor, table)
}

#[test]
fn our_tables_never_answer_wrongly() {
    for (compressor, name) in [
        (None, "plain"),
        (Some(Compressor::Lz4 { high: None }), "LZ4"),
        (Some(Compressor::Snappy), "Snappy"),
        (Some(Compressor::Zstd { level: 3 }), "Zstd"),
        (Some(Compressor::Deflate), "Deflate"),
        (Some(Compressor::Noop), "Noop"),
    ] {
        let (noticed, harmless) = random_subject(name, 3, &[5, 1, 0, 2, 1], compressor).decay();
        // Summary and Filter are rebuilt, Digest is not read, and TOC.txt may name an unknown
        // component.
        assert!(noticed > harmless, "{name}: {noticed} noticed, {harmless} harmless");
    }
}

#[test]
fn a_table_with_an_index_of_rows_and_without_our_checksums_never_answers_wrongly() {
    let subject = random_subject("foreign", 3, &[12, 1], Some(Compressor::Lz4 { high: None }));
    let components = [Component::Data, Component::Index, Component::Summary, Component::Filter];
    let listed = [&components[..], &[Component::Statistics, Component::CompressionInfo]].concat();
    subject.files.remove_file(&subject.descriptor.path(Component::Checksums)).unwrap();
    subject.files.write_atomically_at(&subject.descriptor.path(Component::Toc), &toc::encode(&listed));
    let (noticed, harmless) = subject.decay();
    assert!(noticed > 0 && harmless > 0, "{noticed} noticed, {harmless} harmless");
}

#[test]
fn chunks_that_are_mapped_as_they_are_stay_out_of_the_cache() {
    let subject = random_subject("raw", 3, &[5, 9, 0, 2, 1], Some(Compressor::Noop));
    for (access, cached) in [
        (DiskAccessMode::Standard, true),
        (DiskAccessMode::MmapIndexOnly, true),
        (DiskAccessMode::Mmap, false),
    ] {
        let cache = Arc::new(ChunkCache::new(1 << 20).with_disk_access(access));
        let reader = subject.open_with(cache.clone()).unwrap();
        for (selection, expected) in &subject.parts {
            let mut read = reader.partition(&expected.header.key, selection).unwrap().unwrap();
            assert_eq!(collect(&mut read).unwrap(), std::slice::from_ref(expected));
        }
        // The last chunk is too short to be stored uncompressed.
        assert_eq!(cache.stats().entries > 1, cached, "{access:?}");
    }
}

#[test]
fn rows_that_are_not_compressed_are_read_in_blocks_of_their_own() {
    for (compressor, name) in [(None, "plain"), (Some(Compressor::Noop), "raw")] {
        let subject = random_subject(name, 3, &[1; 12], compressor);
        let cache = Arc::new(ChunkCache::new(1 << 20));
        let reader = subject.open_with(cache.clone()).unwrap();
        reader.verify().unwrap();
        let all = Arc::new(Selection::all());
        let read = |expected: &Partition| {
            let mut read = reader.partition(&expected.header.key, &all).unwrap().unwrap();
            assert_eq!(collect(&mut read).unwrap(), std::slice::from_ref(expected), "{name}");
        };
        // This also caches the index, which is one block.
        read(&subject.expected[0]);
        let before = cache.stats();
        // The last chunk is too short to be stored uncompressed.
        read(&subject.expected[6]);
        let after = cache.stats();
        let (entries, bytes) = (after.entries - before.entries, after.bytes - before.bytes);
        assert!(entries > 0 && bytes / entries as u64 <= 256 + 96, "{name}: {entries} of {bytes} bytes");
    }
}

#[test]
fn rows_in_chunks_that_a_scan_has_cached_are_not_read_again() {
    let subject = random_subject("plain", 3, &[1; 12], None);
    let cache = Arc::new(ChunkCache::new(1 << 20));
    let reader = subject.open_with(cache.clone()).unwrap();
    let all = Arc::new(Selection::all());
    let read = |expected: &Partition| {
        let mut read = reader.partition(&expected.header.key, &all).unwrap().unwrap();
        assert_eq!(collect(&mut read).unwrap(), std::slice::from_ref(expected));
    };
    // This also caches the index, which is one block.
    read(&subject.expected[0]);
    let mut scan = reader.scan(Bound::Unbounded, Bound::Unbounded, &all, Caching::Use).unwrap();
    assert_eq!(collect(&mut scan).unwrap(), subject.expected);
    let before = cache.stats();
    subject.expected.iter().for_each(read);
    let after = cache.stats();
    assert_eq!((after.entries, after.misses), (before.entries, before.misses));
    assert!(after.hits > before.hits);
}

#[test]
fn a_damaged_block_of_a_chunk_leaves_the_rows_of_others_readable() {
    let subject = random_subject("plain", 3, &[3; 40], None);
    let data = subject.descriptor.path(Component::Data);
    let wholes: Vec<_> = subject.expected.iter().map(|partition| partition.header.key.clone()).collect();
    let readable = |subject: &Subject| {
        let reader = subject.open(DiskAccessMode::Standard).unwrap();
        let all = Arc::new(Selection::all());
        let read = |key| reader.partition(key, &all).and_then(|read| collect(&mut read.unwrap()));
        wholes.iter().filter(|key| read(key).is_ok()).count()
    };
    assert_eq!(readable(&subject), 40);
    let middle = subject.files.metadata(&data).unwrap().len / 2;
    subject.files.corrupt(&data, middle, 1);
    let left = readable(&subject);
    assert!((20..40).contains(&left), "{left} of 40 partitions, all of which are in one chunk");
    let reader = subject.open(DiskAccessMode::Standard).unwrap();
    assert!(reader.verify().unwrap_err().to_string().contains("Data.db"));
}

trait WriteAt {
    fn write_atomically_at(&self, path: &Path, content: &[u8]);
}

impl WriteAt for FakeFileSystem {
    fn write_atomically_at(&self, path: &Path, content: &[u8]) {
        (self as &dyn FileSystem).write_atomically(path, content).unwrap();
    }
}

#[test]
fn small_golden_tables_never_answer_wrongly() {
    let mut tested = 0;
    for golden in golden_tables() {
        // The smallest tables of each kind; every byte of a larger one would take minutes.
        if !["keyonly", "pkonly", "tuple_short", "quoted", "timestamps"].contains(&golden.table.name.as_str())
        {
            continue;
        }
        for descriptor in &golden.sstables {
            let files = Arc::new(FakeFileSystem::new());
            let copy = Descriptor::new("/golden", descriptor.id);
            files.create_dir_all(&copy.directory).unwrap();
            for part in Component::ALL {
                if let Some(bytes) = component(descriptor, part) {
                    files.write_atomically_at(&copy.path(part), &bytes);
                }
            }
            let subject = Subject::new(&golden.table.name, files, copy, golden.table.clone());
            let (noticed, harmless) = subject.decay();
            assert!(noticed > harmless, "{}: {noticed} noticed, {harmless} harmless", golden.table.name);
            tested += 1;
        }
    }
    assert_eq!(tested, 5);
}

#[test]
fn small_tables_of_newer_versions_never_answer_wrongly() {
    for version in ["oa", "da"] {
        let mut tested = 0;
        for golden in newer_golden_tables(version) {
            if !["keyonly", "quoted", "pkonly"].contains(&golden.table.name.as_str()) {
                continue;
            }
            for descriptor in &golden.sstables {
                let files = Arc::new(FakeFileSystem::new());
                let copy = Descriptor { directory: "/golden".into(), ..descriptor.clone() };
                files.create_dir_all(&copy.directory).unwrap();
                for part in Component::ALL {
                    if let Some(bytes) = component(descriptor, part) {
                        files.write_atomically_at(&copy.path(part), &bytes);
                    }
                }
                let subject = Subject::new(&golden.table.name, files, copy, golden.table.clone());
                // Damage in the unused indexes has no effect.
                let (noticed, _) = subject.decay();
                assert!(noticed > 1000, "{}: {noticed} noticed", golden.table.name);
                // The same with our derived index.
                subject.open(DiskAccessMode::Standard).unwrap().adopt().unwrap();
                let (noticed, _) = subject.decay();
                assert!(noticed > 1000, "{}: {noticed} noticed", golden.table.name);
                tested += 1;
            }
        }
        assert_eq!(tested, 3);
    }
}

/// A truncated file is an error that names it, or is not needed: never a panic, never other rows.
#[test]
fn files_that_are_cut_off_never_answer_wrongly() {
    let newer = ["oa", "da"].map(newer_golden_tables).into_iter().flatten();
    for golden in golden_tables().into_iter().chain(newer) {
        if !["keyonly", "tombstones"].contains(&golden.table.name.as_str()) {
            continue;
        }
        let descriptor = &golden.sstables[0];
        let files = Arc::new(FakeFileSystem::new());
        let copy = Descriptor { directory: "/golden".into(), ..descriptor.clone() };
        files.create_dir_all(&copy.directory).unwrap();
        let parts: Vec<_> = Component::ALL
            .into_iter()
            .filter_map(|part| Some((part, component(descriptor, part)?)))
            .collect();
        for (part, bytes) in &parts {
            files.write_atomically_at(&copy.path(*part), bytes);
        }
        let subject = Subject::new(&golden.table.name, files, copy, golden.table.clone());
        for (part, bytes) in &parts {
            let path = subject.descriptor.path(*part);
            for length in (0..bytes.len()).step_by(1 + bytes.len() / 97) {
                subject.files.write_atomically_at(&path, &bytes[..length]);
                if let Ok(answer) = subject.read(DiskAccessMode::Standard) {
                    assert!(answer, "{} cut to {length}: a wrong answer", path.display());
                }
            }
            subject.files.write_atomically_at(&path, bytes);
        }
        assert!(subject.read(DiskAccessMode::Standard).unwrap());
    }
}
