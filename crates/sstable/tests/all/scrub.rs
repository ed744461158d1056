//! The readable content of a damaged SSTable is saved: no row is invented, and none is lost apart
//! from the damage.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::support::random_table::{Contents, tables};
use crate::support::{Partition, collect, model, write};
use cassette_rows::{Clustering, DecoratedKey, Row, TableMetadata, Unfiltered};
use cassette_sstable::compression::{ChunkFormat, CompressionInfo, Compressor};
use cassette_sstable::scrub::{Salvage, Scrub, ScrubOptions, ScrubReport};
use cassette_sstable::{
    ChunkCache, Component, Descriptor, OpenOptions, SSTableId, SSTableReader, WriterOptions,
};
use cassette_vfs::{FakeFileSystem, FileSystem};

struct Subject {
    files: Arc<FakeFileSystem>,
    descriptor: Descriptor,
    table: Arc<TableMetadata>,
    expected: Vec<Partition>,
    /// The offsets of the partitions in the uncompressed Data, and the end of the last one.
    starts: Vec<u64>,
}

const CHUNK: u32 = 256;

impl Subject {
    /// Partitions with this many rows, with row index blocks of about three rows.
    fn new(sizes: &[usize], compressed: bool, seed: u64) -> Self {
        let table = tables()[1].table.clone();
        let mut random = model::random(seed);
        let updates = Contents { random: &mut random, table: table.clone() }.partitions(sizes);
        let files = Arc::new(FakeFileSystem::new());
        let descriptor = Descriptor::new("/data", SSTableId::Sequence(1));
        files.create_dir_all(&descriptor.directory).unwrap();
        let compression = compressed.then(|| ChunkFormat {
            compressor: Compressor::Lz4 { high: None },
            options: Vec::new(),
            chunk_length: CHUNK,
            max_compressed_length: i32::MAX,
        });
        let change = |options| WriterOptions { compression, column_index_size: 150, ..options };
        write(files.clone(), &descriptor, &table, &updates, change).unwrap().unwrap();
        let cache = Arc::new(ChunkCache::new(1 << 20));
        let reader = SSTableReader::open(
            files.clone(),
            descriptor.clone(),
            table.clone(),
            cache,
            OpenOptions::default(),
        )
        .unwrap();
        let expected = collect(&mut reader.scan_all().unwrap()).unwrap();
        let position = |partition: &Partition| reader.position_of(&partition.header.key).unwrap().unwrap();
        let mut starts: Vec<u64> = expected.iter().map(position).collect();
        starts.push(reader.uncompressed_bytes());
        Self { files, descriptor, table, expected, starts }
    }

    fn scrub(&self) -> cassette_rows::Result<(Vec<Partition>, ScrubReport)> {
        let files: Arc<dyn FileSystem> = self.files.clone();
        let cache = Arc::new(ChunkCache::new(1 << 20));
        let salvage = Salvage::open(&files, self.descriptor.clone(), self.table.clone(), cache)?;
        let mut scrub = Scrub::new(Arc::new(salvage), ScrubOptions::default())?;
        let found = collect(&mut scrub)?;
        Ok((found, scrub.report()))
    }

    fn length(&self, component: Component) -> u64 {
        self.files.metadata(&self.descriptor.path(component)).map_or(0, |metadata| metadata.len)
    }

    fn bytes(&self, path: &Path) -> Vec<u8> {
        let files: &dyn FileSystem = &*self.files;
        files.read(path).unwrap()
    }

    fn flip(&self, component: Component, offset: u64, mask: u8) {
        self.files.corrupt(&self.descriptor.path(component), offset, mask);
    }

    /// Every row of `found` is one that was written, and markers pair up.
    fn check_nothing_is_invented(&self, found: &[Partition], what: &str) {
        for partition in found {
            let written = self.written(&partition.header.key).unwrap_or_else(|| panic!("{what}: a new key"));
            assert_eq!(partition.header.deletion, written.header.deletion, "{what}");
            let of_static = &partition.header.static_row;
            assert!(of_static.is_none() || *of_static == written.header.static_row, "{what}");
            let rows = rows(written);
            let mut open = None;
            for unfiltered in &partition.rows {
                match unfiltered {
                    Unfiltered::Row(row) => {
                        assert_eq!(rows.get(&key_of(row)), Some(&row), "{what}");
                    }
                    Unfiltered::Marker(marker) => {
                        assert_eq!(marker.close, open, "{what}");
                        open = marker.open;
                    }
                }
            }
            assert_eq!(open, None, "{what}");
            // The writer requires the order.
            let comparator = &self.table.comparator;
            for pair in partition.rows.windows(2) {
                assert!(comparator.compare(pair[0].position(), pair[1].position()).is_lt(), "{what}");
            }
        }
    }

    fn written(&self, key: &DecoratedKey) -> Option<&Partition> {
        self.expected.iter().find(|partition| partition.header.key == *key)
    }
}

fn key_of(row: &Row) -> Vec<Option<Vec<u8>>> {
    let values = |clustering: &Clustering| {
        clustering.values().map(|value| value.map(<[u8]>::to_vec)).collect::<Vec<_>>()
    };
    values(row.clustering())
}

fn rows(partition: &Partition) -> BTreeMap<Vec<Option<Vec<u8>>>, &Row> {
    let mut rows = BTreeMap::new();
    for unfiltered in &partition.rows {
        if let Unfiltered::Row(row) = unfiltered {
            rows.insert(key_of(row), row);
        }
    }
    rows
}

#[test]
fn an_undamaged_sstable_comes_through_as_it_is() {
    for compressed in [true, false] {
        let subject = Subject::new(&[5, 0, 90, 2], compressed, 1);
        let (found, report) = subject.scrub().unwrap();
        assert!(found == subject.expected);
        assert_eq!(report.good, subject.expected.len() as u64);
        assert!(report.is_whole() && report.messages.is_empty(), "{report:?}");
    }
}

#[test]
fn a_damaged_chunk_costs_the_rows_that_lie_in_it_and_the_block_around_them() {
    let subject = Subject::new(&[5, 9, 120, 2, 1, 60], true, 2);
    let path = subject.descriptor.path(Component::CompressionInfo);
    let length = subject.length(Component::Data);
    let info = CompressionInfo::decode(&subject.bytes(&path), length).unwrap();
    let mut saved_in_part = 0;
    for chunk in 0..info.chunks() {
        let stored = info.chunk(chunk, length).unwrap();
        subject.flip(Component::Data, stored.offset + 3, 0x10);
        let what = format!("chunk {chunk}");
        let (found, report) = subject.scrub().unwrap();
        subject.check_nothing_is_invented(&found, &what);
        assert!(!report.is_whole() && !report.messages.is_empty(), "{what}: {report:?}");
        let damage = chunk * u64::from(CHUNK)..(chunk + 1) * u64::from(CHUNK);
        for (partition, range) in subject.expected.iter().zip(subject.starts.windows(2)) {
            let (start, end) = (range[0], range[1]);
            let read = found.iter().find(|read| read.header.key == partition.header.key);
            if end <= damage.start || start >= damage.end {
                assert!(read == Some(partition), "{what}: {start}..{end} lies apart from the damage");
            } else if let Some(read) = read {
                let (all, left) = (rows(partition).len() as u64, rows(read).len() as u64);
                // The chunk, and the parts of a row and a block around it.
                if all > 30 && end - start > 12 * u64::from(CHUNK) {
                    assert!(left * 2 > all, "{what}: {left} of {all} rows are left");
                    saved_in_part += 1;
                }
            }
        }
        subject.flip(Component::Data, stored.offset + 3, 0x10);
    }
    assert!(saved_in_part > 10, "{saved_in_part} partitions were saved in part");
}

#[test]
fn damage_anywhere_else_costs_nothing() {
    let subject = Subject::new(&[5, 9, 30, 2, 1], true, 3);
    use Component::{Checksums, Digest, Filter, Index, Summary, Toc};
    for component in [Index, Summary, Filter, Digest, Toc, Checksums] {
        for offset in 0..subject.length(component) {
            for mask in [1 << (offset % 8), 0xff] {
                subject.flip(component, offset, mask);
                let (found, report) = subject.scrub().unwrap();
                assert!(found == subject.expected, "{component:?} at {offset}: {report:?}");
                assert!(report.is_whole(), "{component:?} at {offset}: {report:?}");
                subject.flip(component, offset, mask);
            }
        }
        let path = subject.descriptor.path(component);
        let bytes = subject.bytes(&path);
        subject.files.remove_file(&path).unwrap();
        let (found, _) = subject.scrub().unwrap();
        assert!(found == subject.expected, "without {component:?}");
        let files: &dyn FileSystem = &*subject.files;
        files.write_atomically(&path, &bytes).unwrap();
    }
}

#[test]
fn whatever_bit_flips_nothing_is_invented() {
    use Component::{CompressionInfo, Crc, Data, Index, Statistics};
    for compressed in [true, false] {
        let subject = Subject::new(&[3, 25, 1], compressed, 4);
        // The index has no checksums either.
        subject.files.remove_file(&subject.descriptor.path(Component::Checksums)).unwrap();
        for component in [Data, Index, CompressionInfo, Crc, Statistics] {
            // All bits of a byte, and not every byte.
            for offset in (0..subject.length(component)).step_by(5) {
                let mask = 1 << (offset % 8);
                subject.flip(component, offset, mask);
                // An error leaves everything unchanged.
                if let Ok((found, _)) = subject.scrub() {
                    subject.check_nothing_is_invented(&found, &format!("{component:?} at {offset}"));
                } else {
                    assert!(matches!(component, Statistics | CompressionInfo), "{component:?} at {offset}");
                }
                subject.flip(component, offset, mask);
            }
        }
        assert!(subject.scrub().unwrap().0 == subject.expected);
    }
}

#[test]
fn of_a_file_that_is_cut_off_what_is_there_is_saved() {
    for compressed in [true, false] {
        let subject = Subject::new(&[5, 40, 2, 7, 1], compressed, 5);
        let path = subject.descriptor.path(Component::Data);
        let whole = subject.bytes(&path);
        let files: &dyn FileSystem = &*subject.files;
        let mut most = 0;
        for length in (0..whole.len()).step_by(17) {
            files.write_atomically(&path, &whole[..length]).unwrap();
            let (found, report) = subject.scrub().unwrap();
            let what = format!("{length} of {} bytes", whole.len());
            subject.check_nothing_is_invented(&found, &what);
            assert!(compressed || length == 0 || !report.is_whole(), "{what}");
            let saved = found.iter().map(|partition| partition.rows.len()).sum::<usize>();
            assert!(saved + 40 >= most, "{what}: {saved} rows, {most} before");
            most = most.max(saved);
        }
        // One block of plain Data, with one checksum.
        assert!(most > 20 || !compressed, "{most} rows");
    }
}

#[test]
fn keys_that_are_out_of_order_come_at_the_end_in_order() {
    let subject = Subject::new(&[3, 4, 5], false, 6);
    let path = subject.descriptor.path(Component::Data);
    let bytes = subject.bytes(&path);
    let piece = |i: usize| &bytes[subject.starts[i] as usize..subject.starts[i + 1] as usize];
    let files: &dyn FileSystem = &*subject.files;
    files.write_atomically(&path, &[piece(1), piece(2), piece(0), piece(1)].concat()).unwrap();
    for component in [Component::Crc, Component::Index] {
        files.remove_file(&subject.descriptor.path(component)).unwrap();
    }
    let (found, report) = subject.scrub().unwrap();
    assert_eq!(report.out_of_order, 2);
    let keys: Vec<_> = found.iter().map(|partition| &partition.header.key).collect();
    let written: Vec<_> = subject.expected.iter().map(|partition| &partition.header.key).collect();
    assert_eq!(keys, [written[1], written[2], written[0], written[1]]);
    for partition in &found {
        assert!(Some(partition) == subject.written(&partition.header.key));
    }
}
