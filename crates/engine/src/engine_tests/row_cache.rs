//! Reads through the row cache: their results, the avoided reads, and the cached rows.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use cassette_rows::schema::{CachingParams, RowsPerPartition};
use cassette_rows::{Bound, ColumnId, DeletionTime, LivenessInfo, RowBuilder, Slice, Slices, TableParams};

use super::*;
use crate::engine_tests::testing::{clustering, insert, key, simple_table, table_with};

fn params(rows_per_partition: RowsPerPartition) -> TableParams {
    let caching = CachingParams { keys: true, rows_per_partition };
    TableParams { caching, gc_grace_seconds: 0, ..TableParams::default() }
}

fn world(table: &Arc<TableMetadata>, row_cache_size: u64) -> World {
    let mut world = World::new(vec![table.clone()]);
    world.options.row_cache_size = row_cache_size;
    world
}

/// The values of column 0 of the live rows of a partition.
fn values(engine: &Engine, world: &World, table: &TableMetadata, k: i32) -> Vec<Vec<u8>> {
    let read = visible(drain(engine.read(table.id, &key(k), &Selection::all()).unwrap()), world.now());
    let rows = read.into_iter().flat_map(|partition| partition.rows);
    rows.flat_map(|row| row.cells).map(|cell| cell.value).collect()
}

fn hits(engine: &Engine) -> (u64, u64) {
    let stats = engine.stats().row_cache;
    (stats.hits, stats.misses)
}

fn delete(k: i32, timestamp: i64, now: u32) -> PartitionUpdate {
    PartitionUpdate { deletion: DeletionTime::new(timestamp, now), ..PartitionUpdate::new(key(k)) }
}

#[test]
fn a_write_changes_what_is_cached_and_the_next_read_is_a_hit() {
    let table = simple_table("t", params(RowsPerPartition::All));
    let world = world(&table, 1 << 20);
    let engine = world.open().unwrap();
    engine.apply(&[mutation(&table, insert(1, b"one", 1))]).unwrap();
    engine.flush(None).unwrap();
    assert_eq!(values(&engine, &world, &table, 1), [b"one"]);
    assert_eq!(hits(&engine), (0, 1));
    engine.apply(&[mutation(&table, insert(1, b"two", 2))]).unwrap();
    assert_eq!(values(&engine, &world, &table, 1), [b"two"]);
    engine.flush(None).unwrap();
    engine.compact(table.id).unwrap();
    assert_eq!(values(&engine, &world, &table, 1), [b"two"]);
    assert_eq!(hits(&engine), (2, 1));
    assert!(values(&engine, &world, &table, 2).is_empty() && values(&engine, &world, &table, 2).is_empty());
    assert_eq!(hits(&engine), (3, 2), "that there is nothing is known too");
    engine.apply(&[mutation(&table, insert(2, b"new", 1))]).unwrap();
    assert_eq!(values(&engine, &world, &table, 2), [b"new"]);
    assert_eq!(hits(&engine), (4, 2));
}

#[test]
fn scans_leave_the_cache_as_it_is_and_its_bytes_stay_within_its_size() {
    let table = simple_table("t", params(RowsPerPartition::All));
    let world = world(&table, 256 << 10);
    let engine = world.open().unwrap();
    for k in 0..400 {
        engine.apply(&[mutation(&table, insert(k, &[b'x'; 3000], 1))]).unwrap();
    }
    assert_eq!(world.seen(&engine, table.id, &Selection::all()).len(), 400);
    assert_eq!((engine.stats().row_cache.entries, hits(&engine)), (0, (0, 0)));
    for k in 0..400 {
        assert_eq!(values(&engine, &world, &table, k).len(), 1);
        let stats = engine.stats().row_cache;
        assert!(stats.bytes <= stats.capacity, "{stats:?}");
    }
    let stats = engine.stats().row_cache;
    assert!(stats.bytes > 128 << 10 && stats.bytes >= stats.entries as u64 * 3000, "{stats:?}");
    engine.invalidate_row_cache();
    assert_eq!((engine.stats().row_cache.entries, engine.stats().row_cache.bytes), (0, 0));
}

/// Once a tombstone is purged, a write that it would have covered becomes visible.
#[test]
fn a_tombstone_covers_older_writes_until_it_is_purged() {
    let table = simple_table("t", params(RowsPerPartition::All));
    let world = world(&table, 1 << 20);
    let engine = world.open().unwrap();
    engine.apply(&[mutation(&table, delete(1, 100, world.now()))]).unwrap();
    engine.flush(None).unwrap();
    assert!(values(&engine, &world, &table, 1).is_empty());
    engine.apply(&[mutation(&table, insert(1, b"old", 50))]).unwrap();
    assert!(values(&engine, &world, &table, 1).is_empty());
    world.pass(10);
    engine.flush(None).unwrap();
    engine.compact(table.id).unwrap();
    engine.apply(&[mutation(&table, insert(1, b"older", 40))]).unwrap();
    let cached = values(&engine, &world, &table, 1);
    engine.invalidate_row_cache();
    assert_eq!(cached, values(&engine, &world, &table, 1));
    assert_eq!(cached, [b"older"]);
}

#[test]
fn what_is_truncated_or_altered_is_not_answered_from_the_cache() {
    let table = simple_table("t", params(RowsPerPartition::All));
    let world = world(&table, 1 << 20);
    let engine = world.open().unwrap();
    for flushed in [false, true] {
        engine.apply(&[mutation(&table, insert(1, b"one", 1))]).unwrap();
        if flushed {
            engine.flush(None).unwrap();
        }
        assert_eq!(values(&engine, &world, &table, 1).len(), 1);
        engine.truncate(table.id).unwrap();
        assert!(values(&engine, &world, &table, 1).is_empty());
    }
    engine.apply(&[mutation(&table, insert(1, b"one", 1))]).unwrap();
    assert_eq!(values(&engine, &world, &table, 1).len(), 1);
    let mut altered = TableMetadata::clone(&table);
    altered.params.caching.rows_per_partition = RowsPerPartition::None;
    engine.alter_table(Arc::new(altered)).unwrap();
    assert_eq!(engine.stats().row_cache.entries, 0);
    engine.apply(&[mutation(&table, insert(1, b"two", 2))]).unwrap();
    engine.alter_table(table.clone()).unwrap();
    assert_eq!(values(&engine, &world, &table, 1), [b"two"]);
}

/// A table whose newest rows come first: each write is at the head of its partition.
#[test]
fn the_head_of_a_partition_stays_as_short_as_was_asked_for() {
    let table = table_with("t", params(RowsPerPartition::Head(3)));
    let world = world(&table, 1 << 20);
    let engine = world.open().unwrap();
    let v = table.column("v").unwrap().id;
    let write = |c1: i32| {
        let mut update = PartitionUpdate::new(key(1));
        let mut row = RowBuilder::new(clustering(c1, 0));
        row.liveness(LivenessInfo::new(1)).live_cell(v, &[1; 4], 1);
        update.rows.push(row.finish());
        engine.apply(&[mutation(&table, update)]).unwrap();
    };
    let order = table.comparator.compare_rows(&clustering(1, 0), &clustering(2, 0));
    let nth = |n: i32| if order.is_lt() { 1000 - n } else { n };
    (0..5).for_each(|n| write(nth(n)));
    engine.flush(None).unwrap();
    let first = |rows| {
        let mut stream = engine.read_first(table.id, &key(1), &Selection::all(), Some(rows)).unwrap();
        stream.next_partition().unwrap().unwrap();
        let mut found = Vec::new();
        while found.len() < rows as usize
            && let Some(cassette_rows::Unfiltered::Row(row)) = stream.next_unfiltered().unwrap()
        {
            found.push(row.clustering().clone());
        }
        found
    };
    let newest = |from: i32, rows: i32| (0..rows).map(|n| clustering(nth(from - n), 0)).collect::<Vec<_>>();
    assert_eq!(first(3), newest(4, 3));
    assert_eq!(hits(&engine), (0, 1));
    for n in 5..200 {
        write(nth(n));
        assert_eq!(first(3), newest(n, 3));
        assert!(engine.stats().row_cache.bytes < 5_000, "{:?}", engine.stats().row_cache);
    }
    assert_eq!(hits(&engine), (195, 1));
    assert_eq!(first(9), newest(199, 9), "more than are cached");
    let beyond = Slices::new(
        vec![Slice { start: Bound::before(clustering(nth(2), 0)), end: Bound::top() }],
        &table.comparator,
    );
    let beyond = Selection { slices: beyond, reversed: false };
    let read = visible(drain(engine.read(table.id, &key(1), &beyond).unwrap()), world.now());
    assert_eq!(read[0].rows.len(), 3);
}

/// Each reader sees at least the writes acknowledged before it began, through evictions, flushes
/// and compactions.
#[test]
fn what_was_acknowledged_is_read_whoever_caches_what_meanwhile() {
    const KEYS: i32 = 8;
    let table = simple_table("t", params(RowsPerPartition::All));
    let mut world = world(&table, 1 << 20);
    world.options.background_threads = true;
    world.options.commitlog_sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    world.options.commitlog_segment_size = 1 << 20;
    world.options.memtable_heap_space = 2 << 20;
    let engine = world.open().unwrap();
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<AtomicI64> = (0..KEYS).map(|_| AtomicI64::new(0)).collect();
    let value = |n: i64| n.to_be_bytes();
    for k in 0..KEYS {
        engine.apply(&[mutation(&table, insert(k, &value(0), 0))]).unwrap();
    }
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (engine, table, acknowledged, stop) = (&engine, &table, &acknowledged, &stop);
            scope.spawn(move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    for k in (writer..KEYS).step_by(2) {
                        engine.apply(&[mutation(table, insert(k, &value(n), n))]).unwrap();
                        acknowledged[k as usize].store(n, Ordering::SeqCst);
                    }
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                engine.flush(None).unwrap();
                engine.compact(table.id).unwrap();
                engine.invalidate_row_cache();
            }
        });
        scope.spawn(|| {
            for n in 0..3000 {
                let k = n % KEYS;
                let least = acknowledged[k as usize].load(Ordering::SeqCst);
                let read = drain(engine.read(table.id, &key(k), &Selection::all()).unwrap());
                let [cassette_rows::Unfiltered::Row(row)] = &read[0].unfiltereds[..] else {
                    panic!("{read:?}")
                };
                let seen = row.cell(ColumnId(0)).unwrap().timestamp;
                assert!(seen >= least, "{seen} read after {least} was acknowledged");
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    let stats = engine.stats().row_cache;
    assert!(stats.hits > 0 && stats.misses > 0, "{stats:?}");
    for k in 0..KEYS {
        let cached = values(&engine, &world, &table, k);
        engine.invalidate_row_cache();
        assert_eq!(cached, values(&engine, &world, &table, k));
    }
}
