//! Truncation without a snapshot, which does not flush: atomic across crashes and failures, also on
//! a full disk and beside writes.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use cassette_vfs::OperationKind;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::engine_tests::testing::{Drained, insert, simple_table};

/// The keys of the table that is truncated in [`filled`].
const ALL: [i32; 4] = [1, 2, 3, 4];
const NONE: [i32; 0] = [];

/// The truncated table has rows in an SSTable, in a memtable whose flush failed, and in the active
/// memtable. The batch of the last one has a row of the other table.
fn filled() -> (World, Engine, [Arc<TableMetadata>; 2]) {
    let tables = ["t", "other"].map(|name| simple_table(name, Default::default()));
    let world = World::new(tables.to_vec());
    let engine = world.open().unwrap();
    let [table, other] = &tables;
    put(&engine, table, 1);
    put(&engine, table, 2);
    engine.flush(Some(table.id)).unwrap();
    put(&engine, table, 3);
    world.fs.fail_when(|operation| {
        (operation.kind == OperationKind::Create && operation.path.to_string_lossy().contains("-big-"))
            .then_some(ErrorKind::Other)
    });
    engine.flush(Some(table.id)).unwrap_err();
    world.fs.heal();
    engine.apply(&[mutation(table, insert(4, b"x", 1)), mutation(other, insert(4, b"x", 1))]).unwrap();
    (world, engine, tables)
}

fn put(engine: &Engine, table: &Arc<TableMetadata>, k: i32) {
    engine.apply(&[mutation(table, insert(k, b"x", 1))]).unwrap();
}

/// The keys of a table, in ascending order.
fn keys(engine: &Engine, table: &TableMetadata) -> Vec<i32> {
    let partitions = drain(engine.scan(table.id, &KeyRange::ALL, &Selection::all()).unwrap());
    let key = |partition: &Drained| i32::from_be_bytes(partition.header.key.key()[..].try_into().unwrap());
    let mut keys: Vec<i32> = partitions.iter().map(key).collect();
    keys.sort_unstable();
    keys
}

/// Returns the number of operations of a truncation.
fn operations() -> u64 {
    let (world, engine, [table, _]) = filled();
    let before = world.fs.operations();
    engine.truncate(table.id).unwrap();
    world.fs.operations() - before
}

#[test]
fn a_truncation_without_a_snapshot_writes_no_sstable_and_releases_the_memory() {
    let (world, engine, [table, other]) = filled();
    engine.truncate(table.id).unwrap();
    assert_eq!(keys(&engine, &table), NONE);
    assert_eq!(world.files(&table), Vec::<String>::new());
    let stats = engine.table_stats(table.id).unwrap();
    assert_eq!((stats.flushes, stats.pending_flushes, stats.memtable_bytes), (1, 0, 0));
    engine.flush(None).unwrap();
    assert_eq!(engine.stats().memtable_bytes, 0);
    assert_eq!(keys(&engine, &other), [4]);
}

#[test]
fn a_crash_during_a_truncation_leaves_all_rows_or_none() {
    let (mut truncated, mut kept) = (0, 0);
    for step in 1..=operations() {
        for seed in 0..12 {
            let what = format!("step {step}, seed {seed}");
            let (mut world, engine, [table, other]) = filled();
            world.fs.fail_from(world.fs.operations() + step);
            let acknowledged = engine.truncate(table.id).is_ok();
            drop(engine);
            world.fs = if seed == 0 { world.fs.kill() } else { world.fs.crash(seed) };
            if seed % 3 == 2 {
                // Crashes again during recovery.
                world.fs.fail_from(world.fs.operations() + seed * 2);
                drop(world.open());
                world.fs = world.fs.crash(seed + 100);
            }
            let engine = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
            let left = keys(&engine, &table);
            match &left[..] {
                [] => truncated += 1,
                _ => {
                    assert_eq!(left, ALL, "{what}");
                    assert!(!acknowledged, "{what}: truncated rows returned");
                    kept += 1;
                }
            }
            assert_eq!(keys(&engine, &other), [4], "{what}");
            // Later writes neither vanish nor bring back what was truncated.
            put(&engine, &table, 9);
            if seed % 2 == 0 {
                engine.flush(Some(table.id)).unwrap();
            }
            drop(engine);
            world.fs = world.fs.crash(seed + 200);
            let engine = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(keys(&engine, &table), [&left[..], &[9]].concat(), "{what}");
        }
    }
    assert!(truncated > 0 && kept > 0, "{truncated} truncated, {kept} kept");
}

#[test]
fn rows_written_after_a_truncation_survive_whatever_fails_in_it() {
    let (mut truncated_later, mut kept_later) = (0, 0);
    for step in 1..=operations() {
        for times in [1, 2, 1000] {
            let what = format!("{times} operations from {step} on");
            let (mut world, engine, [table, other]) = filled();
            let first = world.fs.operations() + step;
            world.fs.fail_when(move |operation| {
                (first..first + times).contains(&operation.number).then_some(ErrorKind::Other)
            });
            let truncated = engine.truncate(table.id).is_ok();
            world.fs.heal();
            let seen = keys(&engine, &table);
            assert_eq!(seen, if truncated { &[][..] } else { &ALL[..] }, "{what}");
            let written = engine.apply(&[mutation(&table, insert(9, b"x", 1))]).is_ok();
            assert!(written || !truncated, "{what}: the log has failed although the outcome is known");
            // Neither may make half of an unknown outcome durable.
            let _ = engine.flush(Some(table.id));
            let _ = engine.compact(table.id);
            let _ = engine.close();
            drop(engine);
            world.fs = world.fs.kill();
            let engine = world.open().unwrap_or_else(|error| panic!("{what}: {error}"));
            let found = keys(&engine, &table);
            if written {
                assert_eq!(found, [&seen[..], &[9]].concat(), "{what}");
            } else {
                assert!(found.is_empty() || found == ALL, "{what}: {found:?}");
                *(if found.is_empty() { &mut truncated_later } else { &mut kept_later }) += 1;
            }
            assert_eq!(keys(&engine, &other), [4], "{what}");
        }
    }
    assert!(truncated_later > 0 && kept_later > 0, "unknown: {truncated_later} truncated, {kept_later} kept");
}

#[test]
fn a_full_disk_can_be_freed_by_a_truncation() {
    let table = simple_table("t", Default::default());
    let mut world = World::new(vec![table.clone()]);
    let engine = world.open().unwrap();
    let mut random = SmallRng::seed_from_u64(1);
    let mut write = |k| {
        // Not compressible.
        let value: Vec<u8> = (0..1000).map(|_| random.random()).collect();
        engine.apply(&[mutation(&table, insert(k, &value, 1))]).unwrap();
    };
    write(0);
    engine.flush(None).unwrap();
    (1..100).for_each(&mut write);
    // Enough for the records of the truncation alone.
    world.fs.set_capacity(world.fs.used() + 4096);
    for failed in [engine.flush(None), engine.truncate_with_snapshot(table.id, "schema")] {
        let error = failed.unwrap_err();
        assert!(error.is_disk_full(), "{error}");
    }
    assert_eq!(keys(&engine, &table).len(), 100);
    engine.truncate(table.id).unwrap();
    assert_eq!(keys(&engine, &table), NONE);
    (0..90).for_each(&mut write);
    drop(engine);
    world.fs = world.fs.crash(1);
    let engine = world.open().unwrap();
    assert_eq!(keys(&engine, &table), (0..90).collect::<Vec<_>>());
}

#[test]
fn a_truncation_for_which_there_is_no_space_at_all_changes_nothing() {
    let (mut world, engine, [table, _]) = filled();
    world.fs.set_capacity(world.fs.used());
    let error = engine.truncate(table.id).unwrap_err();
    assert!(error.is_disk_full(), "{error}");
    assert_eq!(keys(&engine, &table), ALL);
    world.fs.set_capacity(u64::MAX);
    put(&engine, &table, 9);
    drop(engine);
    world.fs = world.fs.crash(1);
    assert_eq!(keys(&world.open().unwrap(), &table), [1, 2, 3, 4, 9]);
}

/// The position of the truncation must be saved before its transaction is removed.
#[test]
fn a_position_for_which_there_is_space_only_after_the_truncation_is_saved() {
    let (mut world, engine, [table, _]) = filled();
    // The first attempt to replace the file fails.
    let mut has_failed = false;
    world.fs.fail_when(move |operation| {
        let fails = !has_failed && operation.path.to_string_lossy().contains("replay_positions");
        has_failed |= fails;
        fails.then_some(ErrorKind::StorageFull)
    });
    engine.truncate(table.id).unwrap();
    world.fs.heal();
    assert_eq!(world.files(&table), Vec::<String>::new());
    drop(engine);
    world.fs = world.fs.crash(1);
    assert_eq!(keys(&world.open().unwrap(), &table), NONE);
}

#[test]
fn a_truncation_cuts_concurrent_writes_at_one_point_which_a_crash_preserves() {
    const WRITES: i32 = 1500;
    for seed in 0..4 {
        let table = simple_table("t", Default::default());
        let mut world = World::new(vec![table.clone()]);
        world.options.background_threads = true;
        world.options.memtable_heap_space = 64 << 10;
        let engine = world.open().unwrap();
        let (written, stop) = (AtomicI32::new(0), AtomicBool::new(false));
        let wait_for = |k| {
            while written.load(Ordering::Acquire) < k {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for k in 0..WRITES {
                    put(&engine, &table, k);
                    written.store(k + 1, Ordering::Release);
                }
            });
            scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    engine.flush(Some(table.id)).unwrap();
                    // A truncation ends compactions.
                    let _ = engine.compact(table.id);
                }
            });
            for round in 1..=5 {
                wait_for(round * WRITES / 8);
                engine.truncate(table.id).unwrap();
            }
            wait_for(WRITES);
            stop.store(true, Ordering::Release);
        });
        let kept = keys(&engine, &table);
        let first = kept.first().copied().unwrap_or(WRITES);
        assert!(first >= 5 * WRITES / 8, "row {first} precedes the truncation");
        assert_eq!(kept, (first..WRITES).collect::<Vec<_>>());
        drop(engine);
        world.fs = world.fs.crash(seed);
        assert_eq!(keys(&world.open().unwrap(), &table), kept, "seed {seed}");
    }
}

#[test]
fn rows_that_are_not_logged_are_truncated_too() {
    let table = simple_table("t", Default::default());
    let mut world = World::new(vec![table.clone()]);
    let engine = world.open().unwrap();
    engine.set_durable_writes(table.id, false).unwrap();
    put(&engine, &table, 1);
    engine.flush(None).unwrap();
    put(&engine, &table, 2);
    engine.truncate(table.id).unwrap();
    put(&engine, &table, 3);
    assert_eq!(keys(&engine, &table), [3]);
    engine.close().unwrap();
    drop(engine);
    world.fs = world.fs.crash(1);
    assert_eq!(keys(&world.open().unwrap(), &table), [3]);
}
