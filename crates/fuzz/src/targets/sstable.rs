//! SSTables with one component replaced: opened, scanned, searched, verified, scrubbed.
//!
//! ```text
//! u8 the SSTable (see `subjects`)
//! u8 the component, by its place in `Component::ALL`; bit 7: checksums are corrected, so that what they protect is parsed
//! the component's content
//! ```
//! Where checksums are not corrected and protect the component, the answer is an error or the rows
//! that were written.

use std::path::Path;
use std::sync::Arc;

use cassette_rows::{PartitionHeader, PartitionStream, Result, Selection, Slices, TableMetadata, Unfiltered};
use cassette_sstable::checksums::{FileChecksum, FileChecksums, INDEX_BLOCK, ROWS_BLOCK, RowsChecksums};
use cassette_sstable::crc::{BLOCK_SIZE, Checksums};
use cassette_sstable::scrub::{Salvage, Scrub, ScrubOptions};
use cassette_sstable::{ChunkCache, Component, Descriptor, OpenOptions, SSTableReader, digest};
use cassette_vfs::{FakeFileSystem, FileSystem};

use super::components::with_checksums;
use crate::Target;
use crate::golden;
use crate::subjects::{DATA, World, put};

pub const TARGET: Target = Target { name: "sstable", run, seeds, words: &[], inputs: 800 };

const RESEALED: u8 = 0x80;

/// A partition read whole.
#[derive(Debug, Clone, PartialEq)]
struct Partition {
    header: PartitionHeader,
    rows: Vec<Unfiltered>,
}

/// An SSTable and what it holds.
struct Subject {
    table: Arc<TableMetadata>,
    descriptor: Descriptor,
    files: Files,
    /// Whether Checksums.db protects everything.
    is_ours: bool,
    expected: Vec<Partition>,
    /// What Deletions.db, or Data in its place, has of them.
    deletions: Vec<Partition>,
}

/// What was read of an SSTable, by every way.
struct Answer {
    scanned: Vec<Partition>,
    by_key: Vec<Partition>,
    deletions: Vec<Partition>,
}

impl Subject {
    fn new(table: Arc<TableMetadata>, descriptor: Descriptor, files: Files) -> Self {
        let is_ours = files.iter().any(|(component, _)| *component == Component::Checksums);
        let (expected, deletions) = (Vec::new(), Vec::new());
        let mut subject = Self { table, descriptor, files, is_ours, expected, deletions };
        let written = subject.written(None);
        subject.expected = scan(&open(&subject, &written).unwrap()).unwrap();
        subject.deletions = read(&subject, &written).unwrap().deletions;
        subject
    }

    fn content(&self, component: Component) -> Option<&[u8]> {
        self.files.iter().find(|(of, _)| *of == component).map(|(_, content)| content.as_slice())
    }

    /// A file system that holds it, with these files instead of the original ones.
    fn written(&self, replaced: Option<&[(Component, Vec<u8>)]>) -> Arc<FakeFileSystem> {
        let files = Arc::new(FakeFileSystem::new());
        let replaced = replaced.unwrap_or_default();
        for (component, content) in self.files.iter().chain(replaced) {
            put(&files, &self.descriptor.path(*component), content);
        }
        files
    }

    /// The component's new content, and the checksums that go with it.
    fn resealed(&self, component: Component, content: &[u8]) -> Vec<(Component, Vec<u8>)> {
        let mut changed = match component {
            Component::Data => match self.content(Component::CompressionInfo) {
                Some(info) => vec![(component, with_chunk_checksums(content, info))],
                None => {
                    let crcs = content.chunks(BLOCK_SIZE as usize).map(crc32fast::hash).collect();
                    let checksums = Checksums { block_size: BLOCK_SIZE, crcs };
                    vec![(component, content.to_vec()), (Component::Crc, checksums.encode())]
                }
            },
            Component::Statistics => vec![(component, with_checksums(content))],
            _ => vec![(component, content.to_vec())],
        };
        if component == Component::Data {
            changed.push((Component::Digest, digest::encode(crc32fast::hash(&changed[0].1))));
        }
        let checksums = self.content(Component::Checksums).map(|bytes| FileChecksums::decode(bytes).unwrap());
        if let Some(mut checksums) = checksums {
            for (component, content) in &changed {
                for (of, checksum) in &mut checksums.files {
                    if of == component {
                        *checksum = FileChecksum::of(content);
                    }
                }
                if *component == Component::Index {
                    checksums.index_length = content.len() as u64;
                    let blocks = content.chunks(INDEX_BLOCK as usize);
                    checksums.index_crcs = blocks.map(crc32fast::hash).collect();
                }
            }
            // Whether rows are read in blocks depends on the file, too.
            if component == Component::Data {
                let is_plain = self.content(Component::CompressionInfo).is_none();
                checksums.rows = checksums.rows.filter(|_| is_plain).map(|_| RowsChecksums {
                    length: content.len() as u64,
                    block_length: ROWS_BLOCK,
                    crcs: content.chunks(ROWS_BLOCK as usize).map(crc32fast::hash).collect(),
                });
            }
            changed.push((Component::Checksums, checksums.encode()));
        }
        changed
    }
}

/// Data with a right checksum behind every chunk, wherever CompressionInfo says that chunks begin.
fn with_chunk_checksums(content: &[u8], info: &[u8]) -> Vec<u8> {
    let count = info
        .windows(4)
        .enumerate()
        .rev()
        .find_map(|(at, count)| {
            let count = u32::from_be_bytes(count.try_into().unwrap()) as usize;
            (count > 0 && at + 4 + 8 * count == info.len()).then_some(count)
        })
        .expect("the number of chunks before their places");
    let mut starts: Vec<usize> = info[info.len() - 8 * count..]
        .chunks_exact(8)
        .map(|offset| u64::from_be_bytes(offset.try_into().unwrap()) as usize)
        .collect();
    starts.push(content.len().max(starts.last().copied().unwrap_or(0)));
    let mut out = content.to_vec();
    for pair in starts.windows(2) {
        if let Some(end) = pair[1].checked_sub(4)
            && let Some(body) = out.get(pair[0]..end)
            && pair[1] <= out.len()
        {
            let crc = crc32fast::hash(body).to_be_bytes();
            out[end..end + 4].copy_from_slice(&crc);
        }
    }
    out
}

fn open(subject: &Subject, files: &Arc<FakeFileSystem>) -> Result<SSTableReader> {
    let cache = Arc::new(ChunkCache::new(1 << 20));
    let (descriptor, table) = (subject.descriptor.clone(), subject.table.clone());
    SSTableReader::open(files.clone(), descriptor, table, cache, OpenOptions::default())
}

fn collect(stream: &mut dyn PartitionStream) -> Result<Vec<Partition>> {
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

fn scan(reader: &SSTableReader) -> Result<Vec<Partition>> {
    collect(&mut reader.scan_all()?)
}

/// Reads everything by every way.
fn read(subject: &Subject, files: &Arc<FakeFileSystem>) -> Result<Answer> {
    let reader = open(subject, files)?;
    let scanned = scan(&reader)?;
    let mut by_key = Vec::new();
    for partition in &subject.expected {
        let key = &partition.header.key;
        let reversed = Arc::new(Selection { slices: Slices::all(), reversed: true });
        if let Some(mut read) = reader.partition(key, &reversed)? {
            drop(collect(&mut read)?);
        }
        if let Some(mut read) = reader.partition(key, &Arc::new(Selection::all()))? {
            by_key.extend(collect(&mut read)?);
        }
    }
    reader.fingerprint()?;
    Ok(Answer { scanned, by_key, deletions: read_deletions(&reader, &subject.expected)? })
}

/// What compactions learn of the deletions in an SSTable outside of them.
fn read_deletions(reader: &SSTableReader, partitions: &[Partition]) -> Result<Vec<Partition>> {
    let mut probe = reader.probe(true)?;
    let mut found = Vec::new();
    for key in partitions.iter().map(|partition| &partition.header.key) {
        if let Some(header) = probe.open(key)? {
            let mut rows = Vec::new();
            while let Some(unfiltered) = probe.next_unfiltered()? {
                rows.push(unfiltered);
            }
            found.push(Partition { header, rows });
        }
    }
    Ok(found)
}

fn run(input: &[u8]) {
    let [number, component, content @ ..] = input else { return };
    SUBJECTS.with(|subjects| {
        let subject = &subjects[usize::from(*number) % subjects.len()];
        let is_resealed = component & RESEALED != 0;
        let component = Component::ALL[usize::from(component & !RESEALED) % Component::ALL.len()];
        let changed = if is_resealed {
            subject.resealed(component, content)
        } else {
            vec![(component, content.to_vec())]
        };
        let files = subject.written(Some(&changed));
        let answer = read(subject, &files);
        if let Ok(reader) = open(subject, &files) {
            drop(reader.verify());
        }
        scrub(subject, &files);
        // Of an SSTable without Checksums.db only Data has checksums for all of its bytes.
        let is_protected = !is_resealed && (subject.is_ours || component == Component::Data);
        if let Ok(answer) = answer
            && is_protected
        {
            assert_eq!(answer.scanned, subject.expected, "{}: a scan", subject.descriptor);
            assert_eq!(answer.by_key, subject.expected, "{}: reads by key", subject.descriptor);
            // Where TOC.txt does not name Deletions.db, Data is read instead, with more than the
            // deletions.
            if component != Component::Toc {
                assert_eq!(answer.deletions, subject.deletions, "{}: deletions", subject.descriptor);
            }
        }
    });
}

fn scrub(subject: &Subject, files: &Arc<FakeFileSystem>) {
    let files: Arc<dyn FileSystem> = files.clone();
    let cache = Arc::new(ChunkCache::new(1 << 20));
    let source = Salvage::open(&files, subject.descriptor.clone(), subject.table.clone(), cache);
    if let Ok(source) = source
        && let Ok(mut scrub) = Scrub::new(Arc::new(source), ScrubOptions::default())
    {
        drop(collect(&mut scrub));
    }
}

thread_local! {
    static SUBJECTS: Vec<Subject> = subjects();
}

/// SSTables that this program writes, of every layout, and some that Cassandra wrote.
fn subjects() -> Vec<Subject> {
    let mut world = World::new();
    for (name, options) in [
        ("plain", "compression = {'enabled': 'false'}"),
        ("snappy", "compression = {'class': 'SnappyCompressor', 'chunk_length_in_kb': 4}"),
        ("deflate", "compression = {'class': 'DeflateCompressor', 'chunk_length_in_kb': 4}"),
        ("zstd", "compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 4}"),
    ] {
        world.run(&format!(
            "CREATE TABLE {name} (p int, c int, v text, s int STATIC, m map<text, int>, PRIMARY KEY (p, c)) \
             WITH {options}"
        ));
        for (p, c) in (0..2).flat_map(|p| (0..40).map(move |c| (p, c))) {
            let text = "long ".repeat(8);
            world.run(&format!(
                "INSERT INTO {name} (p, c, v, m) VALUES ({p}, {c}, '{text}{c}', {{'a': {c}}}) USING TTL 1000"
            ));
        }
        world.run(&format!("UPDATE {name} SET s = 1 WHERE p = 0"));
        world.run(&format!("DELETE FROM {name} WHERE p = 0 AND c > 3 AND c < 9"));
        world.run(&format!("DELETE FROM {name} WHERE p = 5"));
        world.run(&format!("DELETE m['a'], v FROM {name} WHERE p = 1 AND c = 1"));
    }
    world.run("UPDATE n SET n = n + 5 WHERE p = 'a' AND c = 2fe56d00-0d4b-11ef-8000-010203040506");
    world
        .run("INSERT INTO v (k, c19, c21, c23, c24) VALUES (1, [1, 2], {'a': 1}, {a: 1, b: 'x'}, [1, 2, 3])");
    world.database.engine().flush(None).unwrap();
    let mut subjects = Vec::new();
    for (_, table) in world.database.engine().tables().iter().filter(|(_, table)| table.keyspace == "ks") {
        let directory = Path::new(DATA).join("data/ks").join(table.directory_name());
        if let Some((descriptor, files)) = first_sstable(&world.files, &directory) {
            subjects.push(Subject::new(table.clone(), descriptor, files));
        }
    }
    assert!(subjects.len() >= 7, "{} tables were flushed", subjects.len());
    for table in golden::tables() {
        let metadata = table.metadata(&mut world);
        let Some((descriptor, ..)) = table.files.first() else { continue };
        let of_first = table.files.iter().filter(|file| file.0 == *descriptor);
        let files = of_first.map(|(_, component, content)| (*component, content.clone())).collect();
        let subject = Subject::new(metadata, descriptor.clone(), files);
        // As an import leaves it.
        let written = subject.written(None);
        open(&subject, &written).unwrap().adopted().unwrap();
        let (descriptor, files) = first_sstable(&written, &descriptor.directory).unwrap();
        let adopted = Subject::new(subject.table.clone(), descriptor, files);
        assert!(adopted.is_ours, "{} is protected once it is adopted", adopted.descriptor);
        subjects.extend([subject, adopted]);
    }
    for component in Component::ALL {
        assert!(subjects.iter().any(|subject| subject.content(component).is_some()), "no {component:?}");
    }
    subjects
}

/// The components of an SSTable with their contents.
type Files = Vec<(Component, Vec<u8>)>;

/// The files of the first SSTable in a directory.
fn first_sstable(files: &FakeFileSystem, directory: &Path) -> Option<(Descriptor, Files)> {
    let mut first = None;
    let mut found = Vec::new();
    for entry in files.read_dir(directory).unwrap_or_default() {
        let path = directory.join(&entry.name);
        let Some((descriptor, component)) = Descriptor::from_path(&path) else { continue };
        if *first.get_or_insert_with(|| descriptor.clone()) == descriptor {
            let files: &dyn FileSystem = files;
            found.push((component, files.read(&path).unwrap()));
        }
    }
    Some((first?, found))
}

fn seeds() -> Vec<Vec<u8>> {
    SUBJECTS.with(|subjects| {
        let mut seeds = Vec::new();
        for (number, subject) in subjects.iter().enumerate() {
            for (component, content) in &subject.files {
                let component = Component::ALL.iter().position(|of| of == component).unwrap() as u8;
                seeds.push([&[number as u8, component], content.as_slice()].concat());
                seeds.push([&[number as u8, component | RESEALED], content.as_slice()].concat());
            }
        }
        seeds
    })
}
