//! Rows of large partitions are located by marks of earlier reads, and excluded by filters: the
//! answers are the same, and fewer rows are read.

use std::sync::Arc;

use crate::support::random_table::column;
use crate::support::{Partition, collect, model, write};
use bytes::Bytes;
use cassette_rows::schema::CachingParams;
use cassette_rows::{
    Bound, Clustering, ColumnKind, ColumnMetadata, DataType, DecoratedKey, DeletionTime, LivenessInfo,
    PartitionUpdate, RangeTombstone, RowBuilder, Selection, Side, Slice, Slices, TableId, TableMetadata,
    TableParams, Unfiltered,
};
use cassette_sstable::compression::{ChunkFormat, Compressor};
use cassette_sstable::crc::{BLOCK_SIZE, Checksums};
use cassette_sstable::{
    Caching, ChunkCache, Component, Descriptor, KeyCache, OpenOptions, SSTableId, SSTableReader,
    WriterOptions,
};
use cassette_vfs::{FakeFileSystem, FileSystem};
use proptest::prelude::*;

const NOW: i64 = 1_700_000_000_000_000;

fn table(columns: Vec<ColumnMetadata>, params: TableParams) -> Arc<TableMetadata> {
    Arc::new(TableMetadata::new(TableId(uuid::Uuid::from_u128(7)), "marks", "t", columns, params))
}

/// Clustering columns of fixed and variable width, one of them descending; static rows, or none.
fn random_table(statics: bool) -> Arc<TableMetadata> {
    use ColumnKind::{Clustering as C, PartitionKey as K, Regular as R, Static as S};
    let mut columns = vec![
        column("k", K, 0, DataType::Blob, false),
        column("c1", C, 0, DataType::Int, false),
        column("c2", C, 1, DataType::Text, true),
        column("c3", C, 2, DataType::Blob, false),
        column("v", R, 0, DataType::Blob, false),
    ];
    columns.extend(statics.then(|| column("s", S, 0, DataType::Blob, false)));
    table(columns, TableParams::default())
}

fn value(row: &mut RowBuilder, table: &TableMetadata, name: &str, bytes: &[u8]) {
    row.live_cell(table.column(name).unwrap().id, bytes, NOW);
}

/// A partition of up to `rows` rows, some of them deleted, and of some range tombstones.
fn random_partition(
    number: u8,
    rows: usize,
    tombstones: usize,
    table: &TableMetadata,
    random: &mut impl FnMut() -> usize,
) -> PartitionUpdate {
    let mut clustering = || {
        let first = (random() % 12) as i32 - 3;
        let second = &"dcbaddccbbaa"[random() % 6..][..random() % 6];
        let third = [None, Some(&b""[..]), Some(b"x"), Some(b"xx"), Some(&[b'y'; 60])][random() % 5];
        let first = first.to_be_bytes();
        // A value of a fixed width can be empty as well.
        let first = if random().is_multiple_of(20) { &[][..] } else { &first };
        Clustering::new([Some(first), Some(second.as_bytes()), third])
    };
    let mut places: Vec<_> = (0..rows).map(|_| clustering()).collect();
    let bounds: Vec<_> = (0..2 * tombstones).map(|_| clustering()).collect();
    places.sort_by(|a, b| table.comparator.compare_rows(a, b));
    places.dedup_by(|a, b| table.comparator.compare_rows(a, b).is_eq());
    let mut update = PartitionUpdate::new(DecoratedKey::new(Bytes::from(vec![number])));
    for place in places {
        let mut row = RowBuilder::new(place);
        row.liveness(LivenessInfo::new(NOW));
        match random() % 12 {
            0 => _ = row.deletion(DeletionTime::new(NOW - 1, 1_700_000_000)),
            1 => value(&mut row, table, "v", &[7; 900]),
            length => value(&mut row, table, "v", &[7; 12][..length]),
        }
        update.rows.push(row.finish());
    }
    if number.is_multiple_of(2) && table.has_static_columns() {
        let mut row = RowBuilder::new(Clustering::empty());
        value(&mut row, table, "s", &[1; 700]);
        update.static_row = Some(row.finish());
    }
    for pair in bounds.chunks(2) {
        let mut bound = |prefix: &Clustering| Bound {
            prefix: prefix.prefix(1 + random() % 3),
            side: if random().is_multiple_of(2) { Side::Before } else { Side::After },
        };
        let (start, end) = (bound(&pair[0]), bound(&pair[1]));
        let deletion = DeletionTime::new(NOW - 10, 1_700_000_000);
        update.range_tombstones.add(RangeTombstone { start, end, deletion }, &table.comparator);
    }
    update
}

fn written(
    table: &Arc<TableMetadata>,
    updates: &[PartitionUpdate],
    block: u32,
    chunk: u32,
) -> (SSTableReader, Arc<ChunkCache>) {
    let descriptor = Descriptor::new("/data", SSTableId::Sequence(1));
    let files: Arc<dyn FileSystem> = Arc::new(FakeFileSystem::new());
    files.create_dir_all(&descriptor.directory).unwrap();
    let compressor = Compressor::Lz4 { high: None };
    let format =
        ChunkFormat { compressor, options: Vec::new(), chunk_length: chunk, max_compressed_length: i32::MAX };
    write(files.clone(), &descriptor, table, updates, |options| WriterOptions {
        compression: Some(format),
        column_index_size: block,
        ..options
    })
    .unwrap();
    let cache = Arc::new(ChunkCache::new(16 << 20));
    let reader =
        SSTableReader::open(files, descriptor, table.clone(), cache.clone(), OpenOptions::default()).unwrap();
    (reader, cache)
}

fn read(reader: &SSTableReader, key: &DecoratedKey, selection: &Arc<Selection>) -> Partition {
    collect(&mut reader.partition(key, selection).unwrap().unwrap()).unwrap().remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn reads_that_begin_at_marks_give_what_reads_without_marks_give(
        seed in any::<u64>(),
        sizes in prop::collection::vec((50..500usize, prop_oneof![Just(0usize), Just(0), Just(1), 1..6usize]), 1..4),
        block in prop_oneof![Just(700u32), Just(3000), Just(16 << 10), Just(64 << 10)],
        chunk in prop_oneof![Just(128u32), Just(1024), Just(16 << 10)],
        capacity in prop_oneof![Just(1u64 << 20), Just(1 << 20), Just(20 << 10)],
        statics in any::<bool>(),
    ) {
        let mut random = model::random(seed);
        let table = random_table(statics);
        let mut updates: Vec<_> = (0..).zip(&sizes)
            .map(|(number, (rows, tombstones))| random_partition(number, *rows, *tombstones, &table, &mut random))
            .collect();
        updates.sort_by(|a, b| a.key.cmp(&b.key));
        let (plain, _) = written(&table, &updates, block, chunk);
        let keys = Arc::new(KeyCache::new(capacity));
        let marked = plain.clone().with_key_cache(keys.clone());
        let whole = collect(&mut plain.scan_all().unwrap()).unwrap();
        let mut reads = Vec::new();
        for partition in &whole {
            for selection in (0..3).flat_map(|_| model::selections(partition, &table, &mut random)) {
                let selection = Arc::new(selection);
                let expected = read(&plain, &partition.header.key, &selection);
                reads.push((selection, expected));
            }
        }
        for _ in 0..2 {
            for turn in (1..reads.len()).rev() {
                reads.swap(turn, random() % (turn + 1));
            }
            for (selection, expected) in &reads {
                let found = read(&marked, &expected.header.key, selection);
                prop_assert_eq!(&found, expected, "{:?}", selection);
            }
        }
        let stats = keys.stats();
        prop_assert!(stats.bytes <= stats.capacity, "{:?}", stats);
    }
}

/// Rows of 20 bytes or so: `c` is a number.
struct Small {
    table: Arc<TableMetadata>,
    key: DecoratedKey,
    reader: SSTableReader,
    chunks: Arc<ChunkCache>,
}

/// Bytes of rows per chunk: the requests of a read to the chunk cache show how much it read.
const CHUNK: u32 = 512;

impl Small {
    /// Rows with the numbers up to `rows`.
    fn of(rows: u32, params: TableParams, tombstone: Option<u32>) -> Self {
        Self::with_rows(0..rows, params, tombstone)
    }

    fn with_rows(rows: impl Iterator<Item = u32>, params: TableParams, tombstone: Option<u32>) -> Self {
        use ColumnKind::{Clustering as C, PartitionKey as K, Regular as R};
        let columns = vec![
            column("k", K, 0, DataType::Blob, false),
            column("c", C, 0, DataType::Int, false),
            column("v", R, 0, DataType::Blob, false),
        ];
        let table = table(columns, params);
        let mut update = PartitionUpdate::new(DecoratedKey::new(Bytes::from("key")));
        for number in rows {
            let mut row = RowBuilder::new(place(number));
            row.liveness(LivenessInfo::new(NOW));
            value(&mut row, &table, "v", &number.to_be_bytes());
            update.rows.push(row.finish());
        }
        if let Some(number) = tombstone {
            let (start, end) = (Bound::before(place(number)), Bound::after(place(number + 3)));
            let deletion = DeletionTime::new(NOW - 10, 1_700_000_000);
            update.range_tombstones.add(RangeTombstone { start, end, deletion }, &table.comparator);
        }
        let (reader, chunks) = written(&table, std::slice::from_ref(&update), 64 << 10, CHUNK);
        Self { table, key: update.key, reader, chunks }
    }

    fn with_keys(mut self, capacity: u64) -> (Self, Arc<KeyCache>) {
        let keys = Arc::new(KeyCache::new(capacity));
        self.reader = self.reader.with_key_cache(keys.clone());
        (self, keys)
    }

    /// Reads rows, and counts the chunks read.
    fn chunks_of(&self, numbers: &[u32]) -> u64 {
        let slices = numbers.iter().map(|number| Slice::prefix(place(*number))).collect();
        let slices = Slices::new(slices, &self.table.comparator);
        let before = self.chunks.stats().requests();
        let found = read(&self.reader, &self.key, &Arc::new(Selection { slices, reversed: false }));
        let value = self.table.column("v").unwrap().id;
        let values: Vec<_> = found
            .rows
            .iter()
            .filter_map(|unfiltered| match unfiltered {
                Unfiltered::Row(row) => Some(row.cell(value).unwrap().value.to_vec()),
                Unfiltered::Marker(_) => None,
            })
            .collect();
        let expected: Vec<_> = numbers.iter().map(|number| number.to_be_bytes().to_vec()).collect();
        assert_eq!(values, expected);
        self.chunks.stats().requests() - before
    }

    /// Reads the last `rows` rows before a number in descending order, and counts the chunks read.
    fn chunks_of_descending(&self, before: u32, rows: u32) -> u64 {
        let slice = Slice { start: Bound::before(place(before - rows)), end: Bound::before(place(before)) };
        let slices = Slices::new(vec![slice], &self.table.comparator);
        let requests = self.chunks.stats().requests();
        let found = read(&self.reader, &self.key, &Arc::new(Selection { slices, reversed: true }));
        let found: Vec<_> = { found.rows.iter() }
            .map(|unfiltered| match unfiltered {
                Unfiltered::Row(row) => row.clustering().clone(),
                Unfiltered::Marker(marker) => panic!("{marker:?}"),
            })
            .collect();
        let expected: Vec<_> = (before - rows..before).rev().map(place).collect();
        assert_eq!(found, expected);
        self.chunks.stats().requests() - requests
    }

    /// Reads an absent row, and counts the chunks read.
    fn chunks_of_missing(&self, number: u32) -> u64 {
        let slices = Slices::new(vec![Slice::prefix(place(number))], &self.table.comparator);
        let before = self.chunks.stats().requests();
        let found = read(&self.reader, &self.key, &Arc::new(Selection { slices, reversed: false }));
        assert_eq!(found.rows, []);
        self.chunks.stats().requests() - before
    }
}

fn place(number: u32) -> Clustering {
    Clustering::of(&[&number.to_be_bytes()])
}

/// Chunks of the index, of the partition's beginning, of the mark and of the rows up to the target.
const FEW: u64 = 6;

#[test]
fn a_second_read_of_a_block_begins_near_its_row() {
    // Some 50 KiB without a row index; and one with several blocks, whose rows are in the second.
    for (rows, far, middle) in [(2000, 1900, 1000), (12_500, 7000, 6000)] {
        let (small, keys) = Small::of(rows, TableParams::default(), None).with_keys(1 << 20);
        assert!(small.chunks_of(&[far]) > 40);
        assert!(small.chunks_of(&[far]) <= FEW);
        assert!(small.chunks_of(&[middle]) <= FEW);
        // Rows after all marks, and those of one more read in between.
        assert!(small.chunks_of(&[middle - 500, middle, far + 5]) <= 3 * FEW);
        let stats = keys.stats();
        assert!(stats.entries >= 2 && stats.bytes > 500, "{stats:?}");
        // A scan leaves no marks and uses none.
        let slices = Slices::new(vec![Slice::prefix(place(far + 50))], &small.table.comparator);
        let selection = Arc::new(Selection { slices, reversed: false });
        let all = std::ops::Bound::Unbounded;
        assert_eq!(
            collect(&mut small.reader.scan(all, all, &selection, Caching::Use).unwrap()).unwrap().len(),
            1
        );
        assert_eq!(keys.stats(), stats);
        keys.clear();
        assert_eq!(keys.stats().bytes, 0);
        assert!(small.chunks_of(&[far]) > 40);
    }
}

#[test]
fn a_descending_read_begins_near_its_last_row_and_reads_no_others() {
    for (rows, far) in [(2000, 1900), (12_500, 7000)] {
        let (small, _) = Small::of(rows, TableParams::default(), None).with_keys(1 << 20);
        // Up to the last row, which leaves marks for both directions.
        assert!(small.chunks_of_descending(far, 10) > 40);
        assert!(small.chunks_of_descending(far, 10) <= 2 * FEW);
        assert!(small.chunks_of_descending(far - 50, 10) <= 2 * FEW);
        assert!(small.chunks_of(&[far - 40]) <= FEW);
        // The last rows of the partition, and across blocks.
        assert!(small.chunks_of_descending(rows, 5) > 0);
        assert!(small.chunks_of_descending(rows, 5) <= 2 * FEW);
        small.chunks_of_descending(rows, rows);
    }
}

#[test]
fn a_descending_read_continues_across_range_tombstones() {
    let (small, _) = Small::of(2000, TableParams::default(), Some(1000)).with_keys(1 << 20);
    for reads in 0..2 {
        for (before, rows) in [(1500, 100), (990, 100)] {
            small.chunks_of_descending(before, rows);
        }
        let all = Arc::new(Selection { reversed: true, ..Selection::all() });
        let mut descending = read(&small.reader, &small.key, &all).rows;
        descending.reverse();
        let ascending = read(&small.reader, &small.key, &Arc::new(Selection::all())).rows;
        assert_eq!(descending.len(), ascending.len(), "read {reads}");
    }
}

/// Cassandra writes these lengths, and reads none of them.
#[test]
fn wrong_lengths_of_previous_rows_do_not_change_descending_reads() {
    let small = Small::of(9000, TableParams::default(), None);
    let ascending = read(&small.reader, &small.key, &Arc::new(Selection::all()));
    let mut update = PartitionUpdate::new(small.key.clone());
    update.rows = { ascending.rows.iter() }
        .filter_map(|unfiltered| match unfiltered {
            Unfiltered::Row(row) => Some(row.clone()),
            Unfiltered::Marker(_) => None,
        })
        .collect();
    let descriptor = Descriptor::new("/data", SSTableId::Sequence(1));
    for (wrong, every) in [(0u8, 1), (1, 1), (0x7f, 1), (1, 700), (40, 2500)] {
        let files: Arc<dyn FileSystem> = Arc::new(FakeFileSystem::new());
        files.create_dir_all(&descriptor.directory).unwrap();
        write(files.clone(), &descriptor, &small.table, std::slice::from_ref(&update), |options| {
            // Data is changed below with its checksums, which are those of CRC.db alone.
            WriterOptions { compression: None, rows_block: BLOCK_SIZE, ..options }
        })
        .unwrap();
        let path = descriptor.path(Component::Data);
        let mut data = files.read(&path).unwrap();
        let mut at = 0;
        for number in 0..9000u32 {
            // Flags, the header of the clustering values, and one value; the length of the row, and
            // that of the one before it.
            let wanted = [&[0x24, 0][..], &number.to_be_bytes()].concat();
            at += data[at..].windows(6).position(|bytes| bytes == wanted).unwrap() + 7;
            if number % every == 0 {
                data[at] = wrong;
            }
        }
        files.create(&path).unwrap().write_all(&data).unwrap();
        let crcs = data.chunks(BLOCK_SIZE as usize).map(crc32fast::hash).collect();
        let checksums = Checksums { block_size: BLOCK_SIZE, crcs }.encode();
        files.create(&descriptor.path(Component::Crc)).unwrap().write_all(&checksums).unwrap();
        let cache = Arc::new(ChunkCache::new(16 << 20));
        let options = OpenOptions::default();
        let reader =
            SSTableReader::open(files, descriptor.clone(), small.table.clone(), cache, options).unwrap();
        for reader in [reader.clone(), reader.with_key_cache(Arc::new(KeyCache::new(1 << 20)))] {
            let reread = Small {
                reader,
                table: small.table.clone(),
                key: small.key.clone(),
                chunks: small.chunks.clone(),
            };
            for (before, rows) in [(9000, 9000), (7001, 7001), (5000, 3000), (2501, 2), (1, 1)] {
                reread.chunks_of_descending(before, rows);
            }
        }
    }
}

#[test]
fn several_rows_of_one_read_leave_marks_up_to_the_last_of_them() {
    let (small, _) = Small::of(12_500, TableParams::default(), None).with_keys(1 << 20);
    assert!(small.chunks_of(&[5000, 5001, 5600, 6900]) > 40);
    for number in [5300, 6000, 6900] {
        assert!(small.chunks_of(&[number]) <= FEW);
    }
}

#[test]
fn behind_a_range_tombstone_there_are_no_marks() {
    let (small, _) = Small::of(2000, TableParams::default(), Some(1000)).with_keys(1 << 20);
    let all = small.chunks_of(&[1900]);
    let behind = small.chunks_of(&[1900]);
    assert!(all > 60 && (30..all - 20).contains(&behind), "{all}, {behind}");
    assert!(small.chunks_of(&[990]) <= FEW);
}

#[test]
fn a_cache_of_no_bytes_and_a_table_without_cached_keys_have_no_marks() {
    let caching = CachingParams { keys: false, ..TableParams::default().caching };
    let params = TableParams { caching, ..TableParams::default() };
    for (capacity, params) in [(0, TableParams::default()), (1 << 20, params)] {
        let (small, keys) = Small::of(2000, params, None).with_keys(capacity);
        for _ in 0..2 {
            assert!(small.chunks_of(&[1900]) > 40);
        }
        assert_eq!(keys.stats().entries, 0);
    }
    let (small, keys) = Small::of(2000, TableParams::default(), None).with_keys(1 << 20);
    small.chunks_of(&[1900]);
    keys.set_capacity(0);
    assert_eq!(keys.stats().bytes, 0);
    keys.set_capacity(1 << 20);
    assert!(small.chunks_of(&[1900]) > 40);
    assert!(small.chunks_of(&[1900]) <= FEW);
}

#[test]
fn a_row_that_is_not_there_is_missed_without_a_look_at_rows_once_others_were_missed() {
    let (small, keys) =
        Small::with_rows((0..25_000).step_by(2), TableParams::default(), None).with_keys(1 << 20);
    assert!(small.chunks_of_missing(14_001) > 40);
    let before = keys.stats().bytes;
    // The 32nd miss scans the block.
    for _ in 2..32 {
        assert!((1..=FEW).contains(&small.chunks_of_missing(14_001)));
    }
    assert!(small.chunks_of_missing(14_001) > 100);
    assert!(keys.stats().bytes > before + 3000, "{before} {:?}", keys.stats());
    assert_eq!(small.chunks_of_missing(14_001), 0);
    let missed =
        (0..200).map(|n| small.chunks_of_missing(13_001 + 2 * n)).filter(|chunks| *chunks > 0).count();
    assert!(missed < 25, "{missed} of 200 passed the filter");
    // Existing rows are found, among absent ones as well.
    for number in (12_000..16_000).step_by(2) {
        assert!(small.chunks_of(&[number]) <= FEW);
    }
    // After all rows.
    let behind: Vec<_> = (0..40).map(|_| small.chunks_of_missing(30_000)).collect();
    assert_eq!((behind[1] > 0, behind[39]), (true, 0));
}

#[test]
fn a_block_with_range_tombstones_gets_no_filter_and_is_gone_through_once_for_it() {
    let rows = (0..25_000).step_by(2);
    let (small, _) = Small::with_rows(rows, TableParams::default(), Some(14_501)).with_keys(1 << 20);
    assert!(small.chunks_of_missing(14_001) > 40);
    let through = (0..100).filter(|_| small.chunks_of_missing(14_001) > FEW).count();
    assert_eq!(through, 1);
    assert!((1..=FEW).contains(&small.chunks_of_missing(14_001)));
    let slices = Slices::new(vec![Slice::prefix(place(14_503))], &small.table.comparator);
    let selection = Arc::new(Selection { slices, reversed: false });
    for _ in 0..3 {
        let found = read(&small.reader, &small.key, &selection).rows;
        assert!(matches!(&found[..], [Unfiltered::Marker(_), Unfiltered::Marker(_)]), "{found:?}");
    }
}

#[test]
fn a_large_partition_is_entered_at_a_block_once_its_beginning_was_read() {
    let (small, _) = Small::of(12_500, TableParams::default(), None).with_keys(1 << 20);
    let first = small.chunks_of(&[7000]);
    let second = small.chunks_of(&[7000]);
    let third = small.chunks_of(&[7000]);
    assert!(first > 40 && second > third && third <= 2, "{first}, {second}, {third}");
    // Rows from the first on, the last ones, and all of them.
    assert!(small.chunks_of(&[0]) <= 2);
    assert_eq!(read(&small.reader, &small.key, &Arc::new(Selection::all())).rows.len(), 12_500);
    let reversed = Arc::new(Selection { reversed: true, ..Selection::all() });
    assert_eq!(read(&small.reader, &small.key, &reversed).rows.len(), 12_500);
}
