//! Random partitions, written and read by every access path.

use std::ops::Bound;
use std::sync::Arc;

use crate::support::random_table::{Contents, tables};
use crate::support::{Partition, collect, model, write};
use cassette_rows::token::murmur3_hash;
use cassette_rows::{PartitionStream, Selection};
use cassette_sstable::compression::{ChunkFormat, Compressor};
use cassette_sstable::{
    Caching, ChunkCache, Descriptor, KeyCache, OpenOptions, SSTableId, SSTableReader, WriterOptions,
};
use cassette_vfs::{FakeFileSystem, FileSystem};
use proptest::prelude::*;

fn format(number: usize, chunk_length: u32) -> Option<ChunkFormat> {
    let compressor = [
        Compressor::Lz4 { high: None },
        Compressor::Snappy,
        Compressor::Zstd { level: 3 },
        Compressor::Deflate,
        Compressor::Noop,
    ]
    .get(number)?
    .clone();
    // Every other format stores chunks that do not shrink to three quarters uncompressed.
    let max_compressed_length = if number.is_multiple_of(2) { i32::MAX } else { chunk_length as i32 * 3 / 4 };
    Some(ChunkFormat { compressor, options: Vec::new(), chunk_length, max_compressed_length })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_reads_back(
        seed in any::<u64>(),
        number in 0..6usize,
        sizes in prop::collection::vec(prop_oneof![Just(0usize), 1..5usize, 1..200usize], 1..12),
        block in prop_oneof![Just(1u32), Just(200), Just(4096), Just(65536)],
        chunk in prop_oneof![Just(64u32), Just(1024), Just(16384)],
        rows_block in prop_oneof![Just(64u32), Just(512), Just(4096)],
        cache_size in prop_oneof![Just(1u64), Just(1 << 20)],
    ) {
        let mut random = model::random(seed);
        let tables = tables();
        let table = tables[random() % tables.len()].table.clone();
        let updates = Contents { random: &mut random, table: table.clone() }.partitions(&sizes);
        let descriptor = Descriptor::new("/data", SSTableId::Sequence(1));
        let files: Arc<dyn FileSystem> = Arc::new(FakeFileSystem::new());
        files.create_dir_all(&descriptor.directory).unwrap();
        let finished = write(files.clone(), &descriptor, &table, &updates, |options| WriterOptions {
            compression: format(number, chunk),
            column_index_size: block,
            rows_block,
            ..options
        }).unwrap();
        if updates.is_empty() {
            prop_assert!(finished.is_none());
            prop_assert!(files.read_dir(&descriptor.directory).unwrap().is_empty());
            return Ok(());
        }
        let expected: Vec<Partition> = updates
            .iter()
            .flat_map(|update| collect(&mut update.clone().into_stream(table.clone(), &Selection::all())).unwrap())
            .collect();
        let cache = Arc::new(ChunkCache::new(cache_size));
        let reader =
            SSTableReader::open(files, descriptor, table.clone(), cache, OpenOptions::default()).unwrap();
        let keys = Arc::new(KeyCache::new(16 << 10));
        let reader = reader.with_key_cache(keys.clone());
        prop_assert_eq!(reader.verify().unwrap().partitions, expected.len() as u64);
        let found = collect(&mut reader.scan_all().unwrap()).unwrap();
        prop_assert!(found == expected);
        for partition in &expected {
            let key = &partition.header.key;
            for selection in model::selections(partition, &table, &mut random) {
                let expected = model::expected(partition, &table, &selection);
                let selection = Arc::new(selection);
                let found = collect(&mut reader.partition(key, &selection).unwrap().unwrap()).unwrap();
                prop_assert_eq!(&found, &[expected], "{:?}", selection);
            }
            // As if both keys had the same hash.
            let all = Arc::new(Selection::all());
            let other = &updates[random() % updates.len()].key;
            let found = reader.partition_hashed(key, murmur3_hash(other.key()), &all).unwrap();
            let found = collect(&mut found.unwrap()).unwrap();
            prop_assert_eq!(&found, std::slice::from_ref(partition));
            // Rows excluded by statistics do not exist.
            for selection in model::selections(partition, &table, &mut random) {
                if !reader.may_contain_rows_in(&selection.slices) {
                    let selection = Arc::new(Selection { reversed: false, ..selection });
                    let found = collect(&mut reader.partition(key, &selection).unwrap().unwrap()).unwrap();
                    prop_assert!(found[0].rows.is_empty());
                }
            }
        }
        for _ in 0..3 {
            let at = random() % expected.len();
            let selection = model::selections(&expected[at], &table, &mut random).pop().unwrap();
            let length = random() % (expected.len() - at);
            let wanted = expected[at + 1..].iter().take(length);
            let wanted: Vec<_> = wanted.map(|p| model::expected(p, &table, &selection)).collect();
            let start = Bound::Excluded(&expected[at].header.key);
            let mut scan = reader.scan(start, Bound::Unbounded, &Arc::new(selection), Caching::Use).unwrap();
            let next = expected.get(at + 1).map(|partition| partition.header.key.token());
            prop_assert_eq!(scan.first_token(), next);
            let mut found = Vec::new();
            for _ in 0..length {
                let header = scan.next_partition().unwrap().unwrap();
                let mut rows = Vec::new();
                while let Some(row) = scan.next_unfiltered().unwrap() {
                    rows.push(row);
                }
                found.push(Partition { header, rows });
            }
            prop_assert!(found == wanted);
        }
    }
}
