//! Each setting of the node affects the metrics.

use cassette_rows::TableParams;
use cassette_rows::schema::{CachingParams, CompressionParams, Compressor, RowsPerPartition};
use cassette_sstable::chunk_cache::DiskAccessMode;

use super::settings::scattered;
use super::*;
use crate::basics::options::FlushCompression;
use crate::engine_tests::testing::{insert, key, simple_table};
use crate::{CacheStats, TableStats};

/// An engine with some options, and a table of 300 partitions of about 1000 bytes of hexadecimal
/// digits.
fn filled(params: TableParams, change: impl FnOnce(&mut Options)) -> (World, Engine, Arc<TableMetadata>) {
    let table = simple_table("t", params);
    let mut world = World::new(vec![table.clone()]);
    world.options.memtable_heap_space = 64 << 20;
    world.options.commitlog_total_space = 64 << 20;
    change(&mut world.options);
    let engine = world.open().unwrap();
    for k in 0..300 {
        let value: String = (0..32).map(|i| format!("{:032x}", scattered(k * 32 + i))).collect();
        engine.apply(&[mutation(&table, insert(k, value.as_bytes(), 1))]).unwrap();
    }
    (world, engine, table)
}

fn stats(engine: &Engine, table: &TableMetadata) -> TableStats {
    engine.table_stats(table.id).unwrap()
}

fn read_all(engine: &Engine, table: &TableMetadata) {
    for k in 0..300 {
        assert_eq!(drain(engine.read(table.id, &key(k), &Selection::all()).unwrap()).len(), 1);
    }
}

#[test]
fn memtables_are_flushed_when_they_hold_more_than_their_settings_allow() {
    let flushes = |change: &dyn Fn(&mut Options)| {
        let (_, engine, table) = filled(TableParams::default(), change);
        stats(&engine, &table).flushes
    };
    assert_eq!(flushes(&|_| {}), 0);
    // At least 300 kB are in memory.
    assert!(flushes(&|options| options.memtable_heap_space = 200_000) >= 2);
    let space = 2_000_000;
    let with_threshold = |threshold| {
        flushes(&move |options: &mut Options| {
            options.memtable_heap_space = space;
            options.memtable_cleanup_threshold = Some(threshold);
        })
    };
    assert_eq!(with_threshold(0.9), 0);
    assert!(with_threshold(0.05) >= 2);
    // The threshold depends on the number of flushing threads.
    let with_writers = |writers| {
        flushes(&move |options: &mut Options| {
            options.memtable_heap_space = space;
            options.memtable_flush_writers = writers;
        })
    };
    assert_eq!(with_writers(1), 0);
    assert!(with_writers(19) >= 2);
}

#[test]
fn flush_compression_decides_how_first_sstables_are_compressed() {
    let zstd = || TableParams {
        compression: CompressionParams { compressor: Some(Compressor::Zstd), ..CompressionParams::default() },
        ..TableParams::default()
    };
    let ratio = |flush| {
        let (_, engine, table) = filled(zstd(), |options| options.flush_compression = flush);
        engine.flush(None).unwrap();
        stats(&engine, &table).compression_ratio
    };
    let (none, fast, table) =
        (ratio(FlushCompression::None), ratio(FlushCompression::Fast), ratio(FlushCompression::Table));
    assert_eq!(none, None);
    assert!(table.unwrap() < fast.unwrap(), "{table:?} and, with LZ4, {fast:?}");
}

#[test]
fn commit_log_segments_are_as_large_as_they_are_set() {
    let segments = |size| {
        let (_, engine, _) = filled(TableParams::default(), |options| options.commitlog_segment_size = size);
        engine.stats().commit_log.unwrap().segments
    };
    assert_eq!(segments(4 << 20), 1);
    assert!(segments(16 << 10) > 15);
}

#[test]
fn a_write_is_durable_when_its_sync_mode_says_so() {
    // Whether the log reported everything as synced, and the maximum loss in several crashes.
    let in_a_crash = |sync| {
        let (mut world, engine, table) =
            filled(TableParams::default(), |options| options.commitlog_sync = sync);
        let log = engine.stats().commit_log.unwrap();
        let crashes: Vec<_> = (0..8).map(|seed| world.fs.crash(seed)).collect();
        drop(engine);
        let lost = crashes.into_iter().map(|crashed| {
            world.fs = crashed;
            300 - world.seen(&world.open().unwrap(), table.id, &Selection::all()).len()
        });
        (log.synced == log.end, lost.max().unwrap_or(0))
    };
    assert_eq!(in_a_crash(SyncMode::Batch), (true, 0));
    let (all_synced, lost) = in_a_crash(SyncMode::Periodic { period: Duration::from_secs(3600) });
    assert!(!all_synced && lost > 0, "{all_synced}, {lost}");
}

/// The contents of caches after reading everything twice.
fn caches(params: TableParams, change: impl FnOnce(&mut Options)) -> (CacheStats, CacheStats, CacheStats) {
    let (_, engine, table) = filled(params, change);
    engine.flush(None).unwrap();
    read_all(&engine, &table);
    read_all(&engine, &table);
    let stats = engine.stats();
    (stats.chunk_cache, stats.key_cache, stats.row_cache)
}

#[test]
fn caches_hold_what_their_sizes_allow() {
    let (chunks, keys, rows) = caches(TableParams::default(), |_| {});
    assert_eq!((keys.entries, keys.hits, keys.misses), (300, 300, 300));
    assert_eq!((rows.entries, rows.requests()), (0, 0));
    let (small, ..) = caches(TableParams::default(), |options| options.file_cache_size = 64 << 10);
    assert!(small.bytes <= 64 << 10 && small.capacity == 64 << 10, "{small:?}");
    assert!(small.misses > chunks.misses, "{small:?} and {chunks:?}");
    let (_, none, _) = caches(TableParams::default(), |options| options.key_cache_size = 0);
    assert_eq!((none.entries, none.hits), (0, 0));
    let (_, few, _) = caches(TableParams::default(), |options| options.key_cache_size = 4 << 10);
    assert!(few.bytes <= 4 << 10 && few.entries < 300, "{few:?}");
    let cached = || {
        let caching = CachingParams { keys: true, rows_per_partition: RowsPerPartition::All };
        TableParams { caching, ..TableParams::default() }
    };
    let (_, _, off) = caches(cached(), |_| {});
    assert_eq!((off.entries, off.hits), (0, 0));
    let (_, _, on) = caches(cached(), |options| options.row_cache_size = 16 << 20);
    assert_eq!((on.entries, on.hits), (300, 300));
}

#[test]
fn a_scan_of_the_only_reader_leaves_the_chunk_cache_alone() {
    let (_, engine, table) = filled(TableParams::default(), |_| {});
    engine.flush(None).unwrap();
    let before = engine.stats().chunk_cache.entries;
    let once = drain(engine.scan_once(table.id, &KeyRange::ALL, &Selection::all()).unwrap());
    assert_eq!(engine.stats().chunk_cache.entries, before);
    let usual = drain(engine.scan(table.id, &KeyRange::ALL, &Selection::all()).unwrap());
    assert!(engine.stats().chunk_cache.entries > before);
    assert_eq!((once.len(), usual.len()), (300, 300));
}

#[test]
fn a_table_without_cached_keys_leaves_the_key_cache_alone() {
    let caching = CachingParams { keys: false, rows_per_partition: RowsPerPartition::None };
    let (_, keys, _) = caches(TableParams { caching, ..TableParams::default() }, |_| {});
    assert_eq!((keys.entries, keys.hits), (0, 0));
}

#[test]
fn mapped_files_leave_the_chunk_cache_to_those_that_are_not() {
    let chunks = |mode| {
        let compression = CompressionParams { compressor: None, ..CompressionParams::default() };
        let params = TableParams { compression, ..TableParams::default() };
        caches(params, |options| options.disk_access_mode = mode).0
    };
    let (standard, index, all) = (
        chunks(DiskAccessMode::Standard),
        chunks(DiskAccessMode::MmapIndexOnly),
        chunks(DiskAccessMode::Mmap),
    );
    assert!(
        standard.entries > index.entries && index.entries > all.entries,
        "{standard:?} {index:?} {all:?}"
    );
}

#[test]
fn checksums_are_looked_at_whatever_crc_check_chance_says() {
    let params = TableParams { crc_check_chance: 0.0, ..TableParams::default() };
    let (world, engine, table) = filled(params, |_| {});
    engine.flush(None).unwrap();
    let directory = Path::new("db/data/ks").join(table.directory_name());
    let data = world.files(&table).into_iter().find(|name| name.ends_with("-Data.db")).unwrap();
    world.fs.corrupt(&directory.join(data), 1000, 0xff);
    let read = engine.scan(table.id, &KeyRange::ALL, &Selection::all()).and_then(|mut stream| {
        while stream.next_partition()?.is_some() {}
        Ok(())
    });
    assert!(read.is_err());
}

#[test]
fn as_many_compactions_run_at_once_as_there_are_threads_for_them() {
    let running = |compactors: usize| {
        let tables = ["a", "b", "c"].map(|name| simple_table(name, TableParams::default()));
        let mut world = World::new(tables.to_vec());
        world.options.background_threads = true;
        world.options.concurrent_compactors = compactors;
        // None of them ends during the test.
        world.options.compaction_throughput = 1;
        let engine = world.open().unwrap();
        for round in 0..4 {
            for table in &tables {
                for k in 0..100 {
                    engine.apply(&[mutation(table, insert(k, &[7; 100], round))]).unwrap();
                }
            }
            engine.flush(None).unwrap();
        }
        for _ in 0..3000 {
            if engine.running_compactions().len() >= compactors {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!((engine.concurrent_compactors(), engine.compaction_totals().completed), (compactors, 0));
        engine.running_compactions().len()
    };
    assert_eq!(running(1), 1);
    assert_eq!(running(3), 3);
}
