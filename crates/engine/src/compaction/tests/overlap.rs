//! Single SSTables compacted for what newer ones shadow.

use super::strategies::{flush, strategy, world_of};
use super::*;
use crate::CompactionKind;

/// The number of partitions of the SSTable with the lowest maximum timestamp.
fn partitions_of_the_oldest(engine: &Engine, table: &TableMetadata) -> u64 {
    let sstables = engine.sstables(table.id).unwrap();
    sstables.into_iter().min_by_key(|sstable| sstable.max_timestamp).unwrap().partitions
}

#[test]
fn with_nothing_else_to_do_an_sstable_is_rid_of_what_newer_ones_shadow() {
    let cell = ("provide_overlapping_tombstones", "cell");
    let row = ("provide_overlapping_tombstones", "row");
    let threshold = |share| ("overlapping_tombstones_threshold", share);
    // Of 20 partitions 3 are deleted and 6 are written again.
    for (options, left) in [
        (&[][..], 20),
        (&[("provide_overlapping_tombstones", "none")], 20),
        (&[row], 17),
        (&[cell], 11),
        (&[row, threshold("0.2")], 20),
        (&[cell, threshold("0.4")], 11),
        (&[cell, threshold("0.5")], 20),
        (&[cell, ("enabled", "false")], 20),
    ] {
        for class in ["SizeTiered", "Unified", "TimeWindow"] {
            if class == "Unified" && options.iter().any(|(name, _)| *name == "enabled") {
                continue;
            }
            let (world, table) = world_of(strategy(class, options));
            let engine = world.open().unwrap();
            flush(&engine, &table, 0..20, 1);
            (0..3).for_each(|k| put(&engine, &table, delete(k, 5, START)));
            flush(&engine, &table, 3..9, 6);
            let seen = world.seen(&engine, table.id, &Selection::all());
            engine.run_pending_compactions();
            assert_eq!(world.seen(&engine, table.id, &Selection::all()), seen);
            assert_eq!(partitions_of_the_oldest(&engine, &table), left, "{class} {options:?}");
            let history = engine.compaction_history();
            assert_eq!(history.len(), usize::from(left < 20));
            assert!(history.iter().all(|done| done.kind == CompactionKind::Tombstone));
            // The remaining data is not sampled repeatedly.
            let asked = engine.overlap_metrics();
            engine.run_pending_compactions();
            assert_eq!(engine.overlap_metrics(), asked);
        }
    }
}

#[test]
fn an_sstable_is_looked_at_again_when_more_was_written_above_it_or_the_setting_is_another() {
    let with = |by: &str| strategy("SizeTiered", &[("provide_overlapping_tombstones", by)]);
    let (world, table) = world_of(with("row"));
    let engine = world.open().unwrap();
    flush(&engine, &table, 0..20, 1);
    flush(&engine, &table, 0..4, 2);
    engine.run_pending_compactions();
    assert_eq!(partitions_of_the_oldest(&engine, &table), 20);
    engine.alter_table(Arc::new(table.with_params(with("cell")))).unwrap();
    engine.run_pending_compactions();
    assert_eq!(partitions_of_the_oldest(&engine, &table), 16);
    // A twentieth more is not enough, a tenth is.
    flush(&engine, &table, 4..5, 3);
    engine.run_pending_compactions();
    assert_eq!(partitions_of_the_oldest(&engine, &table), 16);
    engine.set_autocompaction(table.id, false).unwrap();
    flush(&engine, &table, 5..7, 4);
    engine
        .alter_table(Arc::new(table.with_params(strategy(
            "SizeTiered",
            &[("provide_overlapping_tombstones", "cell"), ("min_threshold", "8")],
        ))))
        .unwrap();
    engine.set_autocompaction(table.id, true).unwrap();
    engine.run_pending_compactions();
    assert_eq!(partitions_of_the_oldest(&engine, &table), 13);
}

#[test]
fn leveled_compaction_leaves_l0_to_its_next_compaction() {
    let options = [("sstable_size_in_mb", "1"), ("provide_overlapping_tombstones", "cell")];
    let (world, table) = world_of(strategy("Leveled", &options));
    let engine = world.open().unwrap();
    // 1.5 MB go to L1.
    flush(&engine, &table, 0..8, 1);
    flush(&engine, &table, 8..15, 1);
    engine.run_pending_compactions();
    assert!(engine.sstable_levels(table.id).unwrap().iter().all(|level| *level == 1));
    let compacted = engine.compaction_totals().completed;
    // A single SSTable of L0 waits for another, and shadows a third of L1.
    flush(&engine, &table, 0..5, 2);
    let before = partitions_in_all(&engine, &table);
    engine.run_pending_compactions();
    assert_eq!(partitions_in_all(&engine, &table), before - 5);
    let levels = engine.sstable_levels(table.id).unwrap();
    assert_eq!(levels.iter().filter(|level| **level == 0).count(), 1, "{levels:?}");
    assert!(engine.compaction_totals().completed > compacted);
    let history = engine.compaction_history();
    assert!(history.iter().skip(1).all(|done| done.kind == CompactionKind::Tombstone));
}

fn partitions_in_all(engine: &Engine, table: &TableMetadata) -> u64 {
    engine.sstables(table.id).unwrap().iter().map(|sstable| sstable.partitions).sum()
}

/// A sample of 64 partitions represents all: here 200 of 400 are shadowed, every second one.
#[test]
fn a_sample_says_what_share_is_shadowed() {
    for (threshold, left) in [("0.35", 200), ("0.65", 400)] {
        let options =
            [("provide_overlapping_tombstones", "cell"), ("overlapping_tombstones_threshold", threshold)];
        let (world, table) = world_of(strategy("SizeTiered", &options));
        let engine = world.open().unwrap();
        (0..400).for_each(|k| put(&engine, &table, insert(k, &[1; 100], 1)));
        engine.flush(None).unwrap();
        (0..400).step_by(2).for_each(|k| put(&engine, &table, insert(k, &[2; 1000], 2)));
        (1000..1200).for_each(|k| put(&engine, &table, insert(k, &[2; 1000], 2)));
        engine.flush(None).unwrap();
        engine.run_pending_compactions();
        assert_eq!(partitions_of_the_oldest(&engine, &table), left, "{threshold}");
        let asked = engine.overlap_metrics();
        assert!(left < 400 || asked.partitions_checked <= 64, "{asked:?}");
        assert_eq!(asked.rows_dropped, 400 - left);
    }
}

#[test]
fn deletions_that_are_still_needed_are_no_reason_to_rewrite_those_that_newer_ones_replace_are() {
    for (newer, left) in
        [(insert as fn(i32, &[u8], i64) -> _, 20), (|k, _: &[u8], at| delete(k, at, START), 15)]
    {
        let cell = strategy("SizeTiered", &[("provide_overlapping_tombstones", "cell")]);
        let (world, table) = world_of(TableParams { gc_grace_seconds: 1_000_000, ..cell });
        let engine = world.open().unwrap();
        (0..20).for_each(|k| put(&engine, &table, delete(k, 5, START)));
        engine.flush(None).unwrap();
        (0..5).for_each(|k| put(&engine, &table, newer(k, &[1; 100], 6)));
        engine.flush(None).unwrap();
        engine.run_pending_compactions();
        assert_eq!(partitions_of_the_oldest(&engine, &table), left);
        assert_eq!(engine.compaction_history().len(), usize::from(left < 20));
    }
}

#[test]
fn a_look_reads_how_large_partitions_begin_and_goes_on_to_the_next() {
    let params = strategy("SizeTiered", &[("provide_overlapping_tombstones", "cell")]);
    let table = table_with("t", params);
    let mut world = World::new(vec![table.clone()]);
    world.options.memtable_heap_space = 100 << 20;
    world.options.commitlog_segment_size = 4 << 20;
    world.options.commitlog_total_space = 1 << 30;
    let engine = world.open().unwrap();
    let v = table.column("v").unwrap().id;
    let row = |c: i32, timestamp| {
        let mut row = cassette_rows::RowBuilder::new(clustering(c, 0));
        row.liveness(cassette_rows::LivenessInfo::new(timestamp)).live_cell(v, &c.to_be_bytes(), timestamp);
        row.finish()
    };
    let rows = |keys: std::ops::Range<i32>, rows: i32, timestamp| {
        for k in keys {
            let mut update = PartitionUpdate::new(key(k));
            update.rows = (0..rows).map(|c| row(c, timestamp)).collect();
            put(&engine, &table, update);
        }
        engine.flush(None).unwrap();
    };
    rows(0..6, 2000, 1);
    rows(3..6, 2000, 2);
    let seen = world.seen(&engine, table.id, &Selection::all());
    engine.run_pending_compactions();
    assert_eq!(world.seen(&engine, table.id, &Selection::all()), seen);
    assert_eq!(partitions_of_the_oldest(&engine, &table), 3);
}

#[test]
fn one_that_could_not_be_compacted_is_looked_at_again_at_the_next_occasion() {
    let (world, table) = world_of(strategy("SizeTiered", &[("provide_overlapping_tombstones", "cell")]));
    let engine = world.open().unwrap();
    flush(&engine, &table, 0..20, 1);
    flush(&engine, &table, 0..5, 2);
    world.fs.set_capacity(world.fs.used());
    engine.run_pending_compactions();
    assert_eq!(partitions_of_the_oldest(&engine, &table), 20, "there is no room for it");
    world.fs.set_capacity(u64::MAX);
    engine.run_pending_compactions();
    assert_eq!(partitions_of_the_oldest(&engine, &table), 15);
}
