//! Compactions of real SSTables on a fake file system.

mod options;
mod overlap;
mod split;
mod strategies;
mod suspects;

use std::sync::Arc;
use std::time::Duration;

use cassette_rows::schema::CompactionParams;
use cassette_rows::{
    Cell, Clustering, ColumnId, DeletionTime, LivenessInfo, PartitionUpdate, RowBuilder, Selection,
    TableMetadata, TableParams,
};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::Engine;
use crate::engine_tests::testing::{clustering, drain, insert, key, simple_table, table_with};
use crate::engine_tests::{World, mutation};

/// Seconds on the clock when a world begins.
const START: u32 = 1000;

fn world(gc_grace_seconds: u32, options: &[(&str, &str)]) -> (World, Arc<TableMetadata>) {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let compaction = CompactionParams { class: "SizeTieredCompactionStrategy".into(), options };
    let table = simple_table("t", TableParams { gc_grace_seconds, compaction, ..TableParams::default() });
    (World::new(vec![table.clone()]), table)
}

fn put(engine: &Engine, table: &Arc<TableMetadata>, update: PartitionUpdate) {
    engine.apply(&[mutation(table, update)]).unwrap();
}

fn delete(k: i32, timestamp: i64, seconds: u32) -> PartitionUpdate {
    PartitionUpdate { deletion: DeletionTime::new(timestamp, seconds), ..PartitionUpdate::new(key(k)) }
}

/// A row that expires ten seconds after the start.
fn expiring(k: i32) -> PartitionUpdate {
    let mut row = RowBuilder::new(Clustering::empty());
    row.liveness(LivenessInfo::expiring(1, 10, START + 10)).cell(Cell {
        column: ColumnId(0),
        path: None,
        value: b"x",
        timestamp: 1,
        ttl: 10,
        local_deletion_time: START + 10,
    });
    let mut update = PartitionUpdate::new(key(k));
    update.rows.push(row.finish());
    update
}

/// The number of partitions of a table, including tombstones.
fn partitions(engine: &Engine, table: &TableMetadata) -> usize {
    drain(engine.scan(table.id, &crate::KeyRange::ALL, &Selection::all()).unwrap()).len()
}

#[test]
fn a_tombstone_goes_after_gc_grace_and_not_before() {
    let (world, table) = world(100, &[]);
    let engine = world.open().unwrap();
    put(&engine, &table, insert(1, b"x", 1));
    put(&engine, &table, delete(1, 2, START));
    put(&engine, &table, insert(2, b"y", 1));
    engine.flush(None).unwrap();
    world.pass(100);
    engine.compact(table.id).unwrap();
    assert_eq!(partitions(&engine, &table), 2, "the tombstone and the row");
    world.pass(1);
    engine.compact(table.id).unwrap();
    assert_eq!(partitions(&engine, &table), 1);
    assert_eq!(world.sstables(&table), 1);
}

#[test]
fn a_tombstone_stays_while_data_that_it_covers_may_be_elsewhere() {
    let (world, table) = world(0, &[("min_threshold", "2"), ("min_sstable_size", "0")]);
    let engine = world.open().unwrap();
    // The old data is in a large SSTable, the tombstone is compacted among small ones.
    let mut incompressible = [0; 4000];
    SmallRng::seed_from_u64(1).fill_bytes(&mut incompressible);
    put(&engine, &table, insert(1, &incompressible, 1));
    engine.flush(None).unwrap();
    for k in [7, 8] {
        put(&engine, &table, delete(1, 2, START));
        put(&engine, &table, insert(k, b"small", 3));
        engine.flush(None).unwrap();
    }
    world.pass(10);
    engine.run_pending_compactions();
    assert_eq!(world.sstables(&table), 2, "the small ones were compacted");
    assert_eq!(partitions(&engine, &table), 3, "the tombstone stays, or the old row would be seen again");
    engine.compact(table.id).unwrap();
    assert_eq!(partitions(&engine, &table), 2);
}

#[test]
fn a_tombstone_stays_while_a_memtable_has_older_data_of_its_partition() {
    let (world, table) = world(0, &[]);
    let engine = world.open().unwrap();
    put(&engine, &table, delete(1, 20, START));
    put(&engine, &table, delete(2, 20, START));
    engine.flush(None).unwrap();
    put(&engine, &table, insert(1, b"late", 10));
    world.pass(10);
    engine.compact(table.id).unwrap();
    let tombstones = drain(engine.scan(table.id, &crate::KeyRange::ALL, &Selection::all()).unwrap());
    assert_eq!(tombstones.len(), 1);
    assert_eq!((&tombstones[0].header.key, tombstones[0].unfiltereds.len()), (&key(1), 0));
}

#[test]
fn an_sstable_that_expired_whole_goes_unread() {
    let (world, table) = world(0, &[("min_threshold", "2"), ("min_sstable_size", "1000000")]);
    let engine = world.open().unwrap();
    put(&engine, &table, delete(1, 2, START));
    engine.flush(None).unwrap();
    put(&engine, &table, delete(2, 3, START));
    engine.flush(None).unwrap();
    world.pass(10);
    // Unreadable bytes: reading them would fail.
    let directory = std::path::Path::new("db/data/ks").join(table.directory_name());
    for name in world.files(&table).into_iter().filter(|name| name.ends_with("-Data.db")) {
        world.fs.corrupt(&directory.join(name), 10, 0xff);
    }
    engine.run_pending_compactions();
    assert_eq!(world.files(&table), Vec::<String>::new());
    assert_eq!(engine.table_stats(table.id).unwrap().sstables, 0);
}

#[test]
fn an_sstable_full_of_droppable_tombstones_is_compacted_alone() {
    let (world, table) = world(0, &[("tombstone_compaction_interval", "50")]);
    let engine = world.open().unwrap();
    for k in 0..20 {
        put(&engine, &table, insert(k, b"", 1));
    }
    // Cells that expire after ten seconds count as future tombstones.
    for k in 20..40 {
        put(&engine, &table, expiring(k));
    }
    engine.flush(None).unwrap();
    world.pass(49);
    engine.run_pending_compactions();
    assert_eq!(partitions(&engine, &table), 40, "not yet old enough");
    world.pass(2);
    engine.run_pending_compactions();
    assert_eq!(partitions(&engine, &table), 20);
}

#[test]
fn sstables_of_a_size_are_compacted_by_the_threshold_and_reads_go_on_over_removed_files() {
    let (world, table) = world(0, &[]);
    let engine = world.open().unwrap();
    let mut streams = Vec::new();
    for k in 0..4 {
        put(&engine, &table, insert(k, b"value", 1));
        engine.flush(None).unwrap();
        engine.run_pending_compactions();
        streams.push((k, engine.scan(table.id, &crate::KeyRange::ALL, &Selection::all()).unwrap()));
        assert_eq!(world.sstables(&table), if k == 3 { 1 } else { k as usize + 1 });
    }
    for (k, stream) in streams {
        assert_eq!(drain(stream).len(), k as usize + 1);
    }
}

#[test]
fn a_table_with_compaction_switched_off_is_left_alone_but_for_the_command() {
    let (world, table) = world(0, &[("enabled", "false")]);
    let engine = world.open().unwrap();
    for k in 0..5 {
        put(&engine, &table, insert(k, b"value", 1));
        engine.flush(None).unwrap();
    }
    engine.run_pending_compactions();
    assert_eq!(world.sstables(&table), 5);
    engine.compact(table.id).unwrap();
    assert_eq!(world.sstables(&table), 1);
}

#[test]
fn a_command_compacts_nothing_while_another_pauses_compactions() {
    let (world, table) = world(0, &[("enabled", "false")]);
    let engine = world.open().unwrap();
    for k in 0..3 {
        put(&engine, &table, insert(k, b"value", 1));
        engine.flush(None).unwrap();
    }
    let open = engine.core().table(table.id).unwrap();
    // What a truncation holds while it removes SSTables.
    let pause = engine.core().pause_compactions(&open);
    std::thread::scope(|scope| {
        let command = scope.spawn(|| engine.compact(table.id));
        // A compaction of three rows takes less.
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(world.sstables(&table), 3);
        }
        drop(pause);
        command.join().unwrap().unwrap();
    });
    assert_eq!(world.sstables(&table), 1);
}

#[test]
fn dropping_a_table_during_a_compaction_leaves_nothing() {
    let (mut world, table) = world(0, &[]);
    world.options.background_threads = true;
    // A few hundred bytes a second: the compaction is still running when the table is dropped.
    world.options.compaction_throughput = 500;
    world.options.commitlog_segment_size = 1 << 20;
    let engine = world.open().unwrap();
    for sstable in 0..4 {
        for k in 0..300 {
            put(&engine, &table, insert(sstable * 1000 + k, &[k as u8; 100], 1));
        }
        engine.flush(None).unwrap();
    }
    engine.drop_table(table.id).unwrap();
    assert!(engine.scan(table.id, &crate::KeyRange::ALL, &Selection::all()).is_err());
    engine.close().unwrap();
    let left = cassette_vfs::FileSystem::read_dir(&world.fs, std::path::Path::new("db/data/ks")).unwrap();
    assert!(left.is_empty(), "{left:?}");
}
