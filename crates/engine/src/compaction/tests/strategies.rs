//! Strategies on real SSTables.

use super::*;
use crate::{CompactionKind, OverlappingTombstones};

pub(super) fn strategy(class: &str, options: &[(&str, &str)]) -> TableParams {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let compaction = CompactionParams { class: format!("{class}CompactionStrategy"), options };
    TableParams { gc_grace_seconds: 0, compaction, ..TableParams::default() }
}

pub(super) fn world_of(params: TableParams) -> (World, Arc<TableMetadata>) {
    let table = simple_table("t", params);
    let mut world = World::new(vec![table.clone()]);
    world.options.memtable_heap_space = 100 << 20;
    world.options.commitlog_segment_size = 4 << 20;
    world.options.commitlog_total_space = 1 << 30;
    (world, table)
}

/// Flushes `count` incompressible partitions of 100,000 bytes.
pub(super) fn flush(engine: &Engine, table: &Arc<TableMetadata>, keys: std::ops::Range<i32>, timestamp: i64) {
    let mut random = SmallRng::seed_from_u64(timestamp as u64);
    for k in keys {
        let mut value = vec![0; 100_000];
        random.fill_bytes(&mut value);
        put(engine, table, insert(k, &value, timestamp));
    }
    engine.flush(None).unwrap();
}

/// The number of SSTables in each level, without the empty ones at the end.
fn levels(engine: &Engine, table: &TableMetadata) -> Vec<usize> {
    let mut levels = vec![0; 9];
    for level in engine.sstable_levels(table.id).unwrap() {
        levels[level as usize] += 1;
    }
    while levels.last() == Some(&0) {
        levels.pop();
    }
    levels
}

#[test]
fn levels_fill_and_stay_what_they_are_when_the_engine_is_opened_again() {
    let (world, table) = world_of(strategy("Leveled", &[("sstable_size_in_mb", "1"), ("fanout_size", "3")]));
    let engine = world.open().unwrap();
    for round in 0..8 {
        flush(&engine, &table, round * 8..round * 8 + 8, 1);
        engine.run_pending_compactions();
    }
    let filled = levels(&engine, &table);
    assert!(filled[0] <= 1 && filled[1] <= 4 && filled.len() >= 3, "{filled:?}");
    assert_eq!(partitions(&engine, &table), 64);
    drop(engine);
    let engine = world.open().unwrap();
    assert_eq!(levels(&engine, &table), filled);
    assert_eq!(engine.table_stats(table.id).unwrap().pending_compactions, 0);
    engine.compact(table.id).unwrap();
    let filled = levels(&engine, &table);
    assert!(filled[0] == 0 && filled[1] >= 3 && filled.len() == 3, "a command fills L1, then L2: {filled:?}");
    assert_eq!(partitions(&engine, &table), 64);
}

#[test]
fn a_change_to_leveled_compaction_and_back_takes_what_is_there() {
    let (world, table) = world_of(strategy("SizeTiered", &[]));
    let engine = world.open().unwrap();
    for round in 0..3 {
        flush(&engine, &table, round * 10..round * 10 + 10, 1);
    }
    engine.run_pending_compactions();
    assert_eq!(levels(&engine, &table), [3]);
    let leveled = Arc::new(table.with_params(strategy("Leveled", &[("sstable_size_in_mb", "1")])));
    engine.alter_table(leveled.clone()).unwrap();
    engine.run_pending_compactions();
    assert_eq!(levels(&engine, &table)[..2], [0, 3]);
    let tiered = Arc::new(leveled.with_params(strategy("SizeTiered", &[("min_threshold", "2")])));
    engine.alter_table(tiered).unwrap();
    engine.run_pending_compactions();
    assert_eq!(levels(&engine, &table), [1]);
    assert_eq!(partitions(&engine, &table), 30);
}

#[test]
fn a_lone_sstable_changes_its_level_without_being_rewritten() {
    let options = [("sstable_size_in_mb", "1"), ("fanout_size", "1"), ("single_sstable_uplevel", "true")];
    let (world, table) = world_of(strategy("Leveled", &options));
    let engine = world.open().unwrap();
    flush(&engine, &table, 0..15, 1);
    flush(&engine, &table, 15..30, 1);
    let before = engine.compaction_totals().bytes_compacted;
    engine.run_pending_compactions();
    let filled = levels(&engine, &table);
    assert!(filled.len() > 3, "{filled:?}");
    // Each byte was read once, from L0 to L1.
    let read = engine.compaction_totals().bytes_compacted - before;
    assert!(read < 4_000_000, "{read}");
    drop(engine);
    let engine = world.open().unwrap();
    assert_eq!(levels(&engine, &table), filled);
    assert_eq!(partitions(&engine, &table), 30);
    // Without the option each move to the next level is a rewrite.
    let (world, table) = world_of(strategy("Leveled", &options[..2]));
    let engine = world.open().unwrap();
    flush(&engine, &table, 0..15, 1);
    flush(&engine, &table, 15..30, 1);
    engine.run_pending_compactions();
    assert!(levels(&engine, &table).len() > 3);
    assert!(engine.compaction_totals().bytes_compacted > 4_000_000);
}

#[test]
fn fanout_size_decides_how_much_larger_each_level_is() {
    let filled = |fanout: &str| {
        let options = [("sstable_size_in_mb", "1"), ("fanout_size", fanout)];
        let (world, table) = world_of(strategy("Leveled", &options));
        let engine = world.open().unwrap();
        for round in 0..8 {
            flush(&engine, &table, round * 8..round * 8 + 8, 1);
            engine.run_pending_compactions();
        }
        assert_eq!(partitions(&engine, &table), 64);
        levels(&engine, &table).len()
    };
    // 6 MB fit into a first level of 10 MB, and not into one of 3 MB.
    assert_eq!((filled("10"), filled("3")), (2, 3));
}

#[test]
fn windows_of_time_are_not_mixed_and_go_whole_when_they_have_expired() {
    let options = [("compaction_window_unit", "MINUTES"), ("timestamp_resolution", "SECONDS")];
    let (world, table) = world_of(strategy("TimeWindow", &options));
    let engine = world.open().unwrap();
    for (k, timestamp) in [(1, 0), (2, 30), (3, 60), (4, 119), (5, 120)] {
        let mut row = cassette_rows::RowBuilder::new(cassette_rows::Clustering::empty());
        row.liveness(cassette_rows::LivenessInfo::expiring(timestamp, 50, START + 50));
        let mut update = PartitionUpdate::new(key(k));
        update.rows.push(row.finish());
        put(&engine, &table, update);
        engine.flush(None).unwrap();
    }
    engine.run_pending_compactions();
    assert_eq!(world.sstables(&table), 3);
    assert_eq!(partitions(&engine, &table), 5);
    let read = engine.compaction_totals().bytes_compacted;
    world.pass(1000);
    engine.run_pending_compactions();
    assert_eq!(world.sstables(&table), 0);
    assert_eq!(engine.compaction_totals().bytes_compacted, read, "unread");
}

#[test]
fn unified_compaction_splits_into_shards() {
    let options = [
        ("min_sstable_size", "0B"),
        ("target_sstable_size", "1MiB"),
        ("flush_size_override", "1MiB"),
        ("scaling_parameters", "T3"),
    ];
    let (world, table) = world_of(strategy("Unified", &options));
    let engine = world.open().unwrap();
    for round in 0..3 {
        flush(&engine, &table, round * 10..round * 10 + 10, 1);
        engine.run_pending_compactions();
    }
    assert_eq!(world.sstables(&table), 4);
    assert_eq!(partitions(&engine, &table), 30);
}

#[test]
fn overlapping_sstables_remove_what_they_delete_and_overwrite_and_say_so() {
    for (by, left) in
        [(OverlappingTombstones::None, 4), (OverlappingTombstones::Row, 3), (OverlappingTombstones::Cell, 1)]
    {
        let (world, table) = world_of(strategy("SizeTiered", &[]));
        let engine = world.open().unwrap();
        for k in 0..4 {
            put(&engine, &table, insert(k, b"old", 1));
        }
        engine.flush(None).unwrap();
        put(&engine, &table, delete(0, 5, START));
        put(&engine, &table, insert(1, b"newer", 6));
        put(&engine, &table, insert(2, b"newer", 7));
        engine.flush(None).unwrap();
        let seen = world.seen(&engine, table.id, &Selection::all());
        engine.garbage_collect(table.id, by).unwrap();
        assert_eq!(world.seen(&engine, table.id, &Selection::all()), seen);
        let oldest =
            engine.sstables(table.id).unwrap().into_iter().min_by_key(|sstable| sstable.max_timestamp);
        assert_eq!(oldest.unwrap().partitions, left, "{by:?}");
        let metrics = engine.overlap_metrics();
        assert_eq!(metrics.rows_dropped, 4 - left);
        assert_eq!(metrics.partitions_checked > 0, by != OverlappingTombstones::None);
        assert!(engine.compaction_history().iter().all(|done| done.kind == CompactionKind::GarbageCollect));
    }
}

#[test]
fn for_rows_only_partitions_with_deletions_are_opened_and_no_row_is_read() {
    let options = [("provide_overlapping_tombstones", "row")];
    let (world, table) = world_of(strategy("SizeTiered", &options));
    let engine = world.open().unwrap();
    (0..200).for_each(|k| put(&engine, &table, insert(k, b"old", 1)));
    engine.flush(None).unwrap();
    let oldest = engine.sstables(table.id).unwrap()[0].id;
    let mut data = 0;
    for source in 0..5 {
        for k in 0..200 {
            put(&engine, &table, insert(k, &[7; 100], 10));
        }
        put(&engine, &table, delete(source, 5, START));
        engine.flush(None).unwrap();
        data += 200 * 100;
    }
    let seen = world.seen(&engine, table.id, &Selection::all());
    engine.compact_sstables(table.id, &[oldest]).unwrap();
    assert_eq!(world.seen(&engine, table.id, &Selection::all()), seen);
    let metrics = engine.overlap_metrics();
    assert_eq!((metrics.partitions_checked, metrics.sources_opened, metrics.rows_dropped), (5, 5, 5));
    assert!(metrics.bytes_read < data / 100, "{} bytes read of {data}", metrics.bytes_read);
}

#[test]
fn more_sources_than_allowed_are_left_alone_or_only_the_newest_asked() {
    for (policy, left) in [("skip", 2), ("newest", 1)] {
        let options = [
            ("provide_overlapping_tombstones", "cell"),
            ("overlapping_tombstones_max_sources", "1"),
            ("overlapping_tombstones_policy", policy),
        ];
        let (world, table) = world_of(strategy("SizeTiered", &options));
        let engine = world.open().unwrap();
        put(&engine, &table, insert(0, b"old", 1));
        put(&engine, &table, insert(1, b"old", 1));
        engine.flush(None).unwrap();
        let oldest = engine.sstables(table.id).unwrap()[0].id;
        for timestamp in [2, 3] {
            put(&engine, &table, insert(0, b"newer", timestamp));
            put(&engine, &table, insert(2, b"also", timestamp));
            engine.flush(None).unwrap();
        }
        engine.compact_sstables(table.id, &[oldest]).unwrap();
        let metrics = engine.overlap_metrics();
        let rewritten =
            engine.sstables(table.id).unwrap().into_iter().min_by_key(|sstable| sstable.max_timestamp);
        assert_eq!(rewritten.unwrap().partitions, left, "{policy}");
        assert_eq!(
            (metrics.partitions_skipped, metrics.sources_opened),
            if policy == "skip" { (1, 0) } else { (0, 1) }
        );
    }
}

#[test]
fn a_table_whose_compactions_are_switched_off_waits_and_a_history_is_kept() {
    let (world, table) = world_of(strategy("SizeTiered", &[]));
    let engine = world.open().unwrap();
    let heard = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let hears = heard.clone();
    engine.note_compactions(move |_| {
        hears.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        None
    });
    engine.set_autocompaction(table.id, false).unwrap();
    for k in 0..4 {
        put(&engine, &table, insert(k % 2, b"value", i64::from(k)));
        engine.flush(None).unwrap();
    }
    engine.run_pending_compactions();
    assert_eq!(world.sstables(&table), 4);
    engine.set_autocompaction(table.id, true).unwrap();
    engine.run_pending_compactions();
    assert_eq!(world.sstables(&table), 1);
    let history = engine.compaction_history();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].rows_merged, [(2, 2)].into());
    assert!(history[0].bytes_in > history[0].bytes_out && history[0].bytes_out > 0);
    assert_eq!(
        (engine.compaction_totals().completed, heard.load(std::sync::atomic::Ordering::Relaxed)),
        (1, 1)
    );
    assert!(engine.running_compactions().is_empty());
    assert!(matches!(
        engine.compact_sstables(table.id, &[cassette_sstable::SSTableId::Sequence(1000)]),
        Err(crate::EngineError::UnknownSSTable { .. })
    ));
}

#[test]
fn a_command_whose_compaction_is_stopped_says_so_and_changes_nothing() {
    let (mut world, table) = world_of(strategy("SizeTiered", &[("enabled", "false")]));
    // It does not end during the test.
    world.options.compaction_throughput = 1;
    let engine = world.open().unwrap();
    for first in [0, 100] {
        flush(&engine, &table, first..first + 100, 1);
    }
    let files = world.files(&table);
    let error = std::thread::scope(|scope| {
        let compacting = scope.spawn(|| engine.compact(table.id));
        while engine.stop_compactions(None) == 0 {
            assert!(!compacting.is_finished());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        compacting.join().unwrap().unwrap_err().to_string()
    });
    assert!(error.starts_with("ks.t: compaction stopped by a command"), "{error}");
    assert_eq!(world.files(&table), files);
    assert_eq!((partitions(&engine, &table), engine.compaction_totals().aborted), (200, 1));
}

#[test]
fn upgrades_rewrite_what_is_of_the_version_of_now_only_if_that_is_asked_for() {
    let (world, table) = world_of(strategy("SizeTiered", &[]));
    let engine = world.open().unwrap();
    flush(&engine, &table, 0..3, 1);
    let files = world.files(&table);
    engine.upgrade_other_versions(table.id).unwrap();
    assert_eq!(world.files(&table), files);
    engine.upgrade_sstables(table.id).unwrap();
    assert_ne!(world.files(&table), files);
    assert_eq!(partitions(&engine, &table), 3);
}

/// Enabling compactions had no effect if the schema disables them.
#[test]
fn an_operator_switches_compactions_on_and_off_whatever_the_schema_says() {
    let (world, table) = world_of(strategy("SizeTiered", &[("enabled", "false")]));
    let engine = world.open().unwrap();
    let four = |first: i32| {
        for k in first..first + 4 {
            flush(&engine, &table, k..k + 1, 1);
        }
        engine.run_pending_compactions();
        world.sstables(&table)
    };
    let runs = || engine.table_stats(table.id).unwrap().autocompaction;
    assert_eq!((four(0), runs()), (4, false));
    engine.set_autocompaction(table.id, true).unwrap();
    engine.run_pending_compactions();
    assert_eq!((world.sstables(&table), runs()), (1, true));
    // ALTER of other options does not change it.
    let altered = |options: &[(&str, &str)]| {
        engine.alter_table(Arc::new(table.with_params(strategy("SizeTiered", options)))).unwrap();
        runs()
    };
    assert!(altered(&[("enabled", "false"), ("min_threshold", "4")]));
    engine.set_autocompaction(table.id, false).unwrap();
    assert!(!altered(&[]));
    // If both agree, the schema applies from here on.
    assert!(!altered(&[("enabled", "false")]) && altered(&[]));
    assert_eq!(four(10), 1);
}

#[test]
fn an_sstable_that_is_rewritten_takes_the_options_of_now() {
    let (world, table) = world_of(strategy("SizeTiered", &[]));
    let engine = world.open().unwrap();
    flush(&engine, &table, 0..3, 1);
    let mut params = strategy("SizeTiered", &[]);
    params.compression.compressor = None;
    engine.alter_table(Arc::new(table.with_params(params))).unwrap();
    let has = |end: &str| world.files(&table).iter().any(|name| name.ends_with(end));
    assert!(has("-CompressionInfo.db"));
    engine.upgrade_sstables(table.id).unwrap();
    assert!(has("-CRC.db") && !has("-CompressionInfo.db"));
    assert_eq!(partitions(&engine, &table), 3);
}
