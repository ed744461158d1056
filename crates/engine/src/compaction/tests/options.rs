//! Each option of a strategy, as text, changes the compactions of the same SSTables.

use super::strategies::{flush, strategy, world_of};
use super::*;
use crate::OverlappingTombstones;
use crate::basics::options::OverlappingOptions;

/// The metrics after flushes and the compactions that were due: SSTables, and completed
/// compactions.
type Counts = (usize, usize);

/// Options, the partitions of each flush, and the resulting metrics.
type Case = (&'static [(&'static str, &'static str)], &'static [i32], Counts);

/// Flushes `count` partitions of 100,000 bytes each, the same ones every time, and runs due
/// compactions.
fn after(class: &str, options: &[(&str, &str)], flushes: &[i32]) -> Counts {
    let (world, table) = world_of(strategy(class, options));
    let engine = world.open().unwrap();
    for (count, timestamp) in flushes.iter().zip(1..) {
        flush(&engine, &table, 0..*count, timestamp);
    }
    engine.run_pending_compactions();
    let stats = engine.table_stats(table.id).unwrap();
    assert_eq!(stats.sstables as usize, world.sstables(&table));
    (world.sstables(&table), engine.compaction_history().len())
}

/// The number of SSTables after a major compaction of 40 partitions of 100,000 bytes.
fn after_major(class: &str, options: &[(&str, &str)]) -> usize {
    let (world, table) = world_of(strategy(class, options));
    let engine = world.open().unwrap();
    flush(&engine, &table, 0..40, 1);
    flush(&engine, &table, 0..40, 2);
    engine.compact(table.id).unwrap();
    world.sstables(&table)
}

#[test]
fn size_tiered_options_show_in_what_is_compacted() {
    let cases: &[Case] = &[
        (&[], &[1, 1], (2, 0)),
        (&[("min_threshold", "2")], &[1, 1], (1, 1)),
        (&[], &[1; 6], (1, 1)),
        (&[("max_threshold", "4")], &[1; 6], (3, 1)),
        // All below 50 MiB are in one bucket, unless that limit is lower.
        (&[], &[1, 10, 1, 10], (1, 1)),
        (&[("min_sstable_size", "0")], &[1, 10, 1, 10], (4, 0)),
        (&[("min_sstable_size", "0")], &[10, 10, 10, 16], (4, 0)),
        (&[("min_sstable_size", "0"), ("bucket_high", "2")], &[10, 10, 10, 16], (1, 1)),
        (&[("min_sstable_size", "0")], &[10; 4], (1, 1)),
        (&[("min_sstable_size", "0"), ("bucket_low", "1.2")], &[10; 4], (4, 0)),
        (&[("enabled", "false")], &[1; 4], (4, 0)),
    ];
    for (options, flushes, expected) in cases {
        assert_eq!(after("SizeTiered", options, flushes), *expected, "{options:?} {flushes:?}");
    }
}

#[test]
fn leveled_options_show_in_the_number_of_sstables() {
    assert_eq!(after_major("Leveled", &[]), 1);
    let small = after_major("Leveled", &[("sstable_size_in_mb", "1")]);
    assert!((4..=5).contains(&small), "{small} SSTables of 4 MB");
    assert_eq!(after_major("Leveled", &[("sstable_size_in_mb", "2")]), 2);
}

#[test]
fn unified_options_show_in_the_number_of_sstables() {
    const NO_LEAST: (&str, &str) = ("min_sstable_size", "0B");
    let cases: &[Case] = &[
        (&[], &[1; 3], (3, 0)),
        (&[("scaling_parameters", "T3")], &[1; 3], (1, 1)),
        (&[("scaling_parameters", "L4")], &[1; 3], (1, 1)),
        (&[], &[1; 6], (1, 1)),
        (&[("max_sstables_to_compact", "4")], &[1; 6], (3, 1)),
        // In one level, if flushes are assumed to be of that size; otherwise the last is in the
        // next one.
        (&[], &[10, 10, 10, 40], (1, 1)),
        (&[("flush_size_override", "1MiB")], &[10, 10, 10, 40], (4, 0)),
    ];
    for (options, flushes, expected) in cases {
        assert_eq!(after("Unified", options, flushes), *expected, "{options:?} {flushes:?}");
    }
    // 4 MB, and as many shards as the base count.
    let fixed = [("sstable_growth", "1"), NO_LEAST];
    assert_eq!(after_major("Unified", &[]), 1, "SSTables are not split below min_sstable_size");
    assert_eq!(after_major("Unified", &fixed), 4);
    assert_eq!(after_major("Unified", &[("base_shard_count", "2"), fixed[0], fixed[1]]), 2);
    // As many shards as the target size requires.
    let growing = |target| {
        after_major(
            "Unified",
            &[("sstable_growth", "0"), ("base_shard_count", "1"), ("target_sstable_size", target), NO_LEAST],
        )
    };
    let (small, large) = (growing("1MiB"), growing("32MiB"));
    assert!(small >= 4 && large == 1, "{small} and {large} SSTables");
}

/// The metrics after flushes of parts of 400 partitions, each between two hundredths of the tokens.
fn after_parts(options: &[(&str, &str)], parts: &[(usize, usize)]) -> Counts {
    let (world, table) = world_of(strategy("Unified", options));
    let engine = world.open().unwrap();
    let mut keys: Vec<i32> = (0..400).collect();
    keys.sort_by_key(|k| key(*k).token());
    for ((start, end), timestamp) in parts.iter().zip(1..) {
        for k in &keys[start * 4..=end * 4] {
            put(&engine, &table, insert(*k, b"value", timestamp));
        }
        engine.flush(None).unwrap();
    }
    engine.run_pending_compactions();
    (engine.table_stats(table.id).unwrap().sstables as usize, engine.compaction_history().len())
}

#[test]
fn overlap_inclusion_method_shows_in_the_number_of_sstables() {
    // Four that overlap at one token are compacted; another overlaps one of these, and the last one
    // overlaps that.
    let parts = [(0, 30), (0, 30), (0, 30), (20, 70), (60, 80), (75, 99)];
    let after = |method| after_parts(&[("overlap_inclusion_method", method)], &parts);
    assert_eq!(after_parts(&[], &parts), (1, 1), "TRANSITIVE unless told otherwise");
    assert_eq!(after("TRANSITIVE"), (1, 1));
    assert_eq!(after("SINGLE"), (2, 1));
    assert_eq!(after("NONE"), (3, 1));
}

/// Four flushes, an hour apart by their write timestamps in microseconds.
fn hours(options: &[(&str, &str)]) -> Counts {
    const HOUR: i64 = 3_600_000_000;
    let (world, table) = world_of(strategy("TimeWindow", options));
    let engine = world.open().unwrap();
    for hour in 0..4 {
        put(&engine, &table, insert(1, b"value", hour * HOUR + 1));
        engine.flush(None).unwrap();
    }
    engine.run_pending_compactions();
    (world.sstables(&table), engine.compaction_history().len())
}

#[test]
fn time_window_options_show_in_what_is_kept_apart() {
    assert_eq!(hours(&[]), (1, 1), "days");
    let hourly = ("compaction_window_unit", "HOURS");
    assert_eq!(hours(&[hourly]), (4, 0));
    assert_eq!(hours(&[hourly, ("compaction_window_size", "4")]), (1, 1));
    assert_eq!(hours(&[("timestamp_resolution", "MILLISECONDS")]), (4, 0));
    assert_eq!(hours(&[("min_threshold", "5")]), (4, 0));
}

#[test]
fn expired_sstables_are_looked_for_as_often_as_the_options_say() {
    for class in ["TimeWindow", "Unified"] {
        for (seconds, left) in [("600", 1), ("30", 0)] {
            let options = [("expired_sstable_check_frequency_seconds", seconds)];
            let (world, table) = world_of(strategy(class, &options));
            let engine = world.open().unwrap();
            put(&engine, &table, insert(100, b"lives", 1_000));
            engine.flush(None).unwrap();
            // Checks for expired SSTables for the first time.
            engine.run_pending_compactions();
            put(&engine, &table, expiring(1));
            engine.flush(None).unwrap();
            world.pass(60);
            engine.run_pending_compactions();
            assert_eq!(world.sstables(&table) - 1, left, "{class}, every {seconds} s");
        }
    }
}

/// Whether an SSTable of which half has expired is compacted alone; `covered` by another with live
/// data.
fn is_compacted_alone(options: &[(&str, &str)], covered: bool) -> bool {
    let (world, table) = world(0, options);
    let engine = world.open().unwrap();
    for k in 0..20 {
        put(&engine, &table, insert(k, b"", 1));
        put(&engine, &table, expiring(k + 20));
    }
    engine.flush(None).unwrap();
    if covered {
        for k in 0..40 {
            put(&engine, &table, insert(k, b"", 1));
        }
        engine.flush(None).unwrap();
    }
    world.pass(100);
    engine.run_pending_compactions();
    !engine.compaction_history().is_empty()
}

#[test]
fn tombstone_options_decide_which_sstables_are_compacted_alone() {
    let soon = ("tombstone_compaction_interval", "50");
    assert!(!is_compacted_alone(&[], false), "a day has not passed");
    assert!(is_compacted_alone(&[soon], false));
    assert!(!is_compacted_alone(&[soon, ("tombstone_threshold", "2")], false));
    assert!(!is_compacted_alone(&[soon], true), "others may need what was deleted");
    assert!(is_compacted_alone(&[soon, ("unchecked_tombstone_compaction", "true")], true));
}

#[test]
fn where_only_repaired_tombstones_are_purged_all_of_them_stay() {
    for (options, left) in [(&[][..], 0), (&[("only_purge_repaired_tombstones", "true")], 1)] {
        let (world, table) = world(0, options);
        let engine = world.open().unwrap();
        put(&engine, &table, delete(1, 1, START));
        engine.flush(None).unwrap();
        world.pass(10);
        engine.compact(table.id).unwrap();
        assert_eq!(partitions(&engine, &table), left, "{options:?}");
    }
}

#[test]
fn what_the_node_says_of_overlapping_tombstones_holds_where_a_table_says_nothing() {
    let none = [("provide_overlapping_tombstones", "none")];
    for (options, dropped) in [(&[][..], 1), (&none, 0)] {
        let (mut world, table) = world_of(strategy("SizeTiered", options));
        world.options.overlapping =
            OverlappingOptions { provide: OverlappingTombstones::Row, ..OverlappingOptions::default() };
        let engine = world.open().unwrap();
        put(&engine, &table, insert(1, b"old", 1));
        engine.flush(None).unwrap();
        let oldest = engine.sstables(table.id).unwrap()[0].id;
        put(&engine, &table, delete(1, 5, START));
        engine.flush(None).unwrap();
        engine.compact_sstables(table.id, &[oldest]).unwrap();
        assert_eq!(engine.overlap_metrics().rows_dropped, dropped, "{options:?}");
    }
}
